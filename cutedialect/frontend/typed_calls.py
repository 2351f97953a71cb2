"""Declared calls, as type checkers see them. Written by .ci/typed_calls.py."""

# fmt: off
# pyright: reportMissingImports=false, reportUnusedImport=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, overload

from cutedialect.choices import Activation, Arch, Backend, BlockFormat, Precision, Rounding
from cutedialect.schedule import Schedule

if TYPE_CHECKING:
    from cutedialect.atoms.tiled_mma import TiledMma

    from .tile import Tile, View


@overload
def gemm(
    a: Tile | View, b: Tile | View, acc: Tile, *, tiled: TiledMma | str | None = None,
    atom: str | None = None, negate: Literal["a", "b", "ab"] | None = None, sums: bool = False,
) -> None: ...


@overload
def gemm(
    a: Any, b: Any, acc: None = None, *, c: Any = None, alpha: float = 1.0, beta: float = 0.0,
    bias: Any = None, activation: Activation | Callable[..., Any] | None = None,
    scale_a: Any = None, scale_b: Any = None, zero_b: Any = None, packed_b: str | None = None,
    packed_a: str | None = None, acc_dtype: object = None, fast_accum: bool = True,
    precision: Precision | None = None, aux: Any = None, out: Any = None, out_dtype: object = None,
    arch: Arch | None = None, schedule: Schedule | str | None = None, backend: Backend = "auto",
    stream: Any = None,
) -> Any: ...


def gemm(*args: Any, **options: Any) -> Any: ...


def grouped_gemm(
    as_: Sequence[Any], bs: Sequence[Any], *, c: Sequence[Any] | None = None, alpha: float = 1.0,
    beta: float = 0.0, bias: Sequence[Any] | None = None,
    activation: Activation | Callable[..., Any] | None = None,
    scale_a: Sequence[Any] | float | None = None, scale_b: Sequence[Any] | float | None = None,
    zero_b: Sequence[Any] | float | None = None, packed_b: str | None = None,
    acc_dtype: object = None, fast_accum: bool = True, aux: Sequence[Any] | None = None,
    out: Sequence[Any] | None = None, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto", stream: Any = None,
) -> list[Any]: ...


def routed_gemm(
    a: Any, b: Any, offsets: Any, *, lengths: Any = None, rows: Any = None, scatter: Any = None,
    weights: Any = None, gated: Any = None, bias: Any = None, scale_a: Any = None,
    scale_b: Any = None, zero_b: Any = None, scale_gated: Any = None, zero_gated: Any = None,
    packed_b: str | None = None, activation: Activation | Callable[..., Any] | None = None,
    count: int | None = None, out: Any = None, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto", stream: Any = None,
) -> Any: ...


@overload
def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, softcap: float | None = None, lengths: Any = None,
    cu_seqlens: tuple[Any, Any] | None = None, block_table: Any = None, scale_q: Any = None,
    scale_k: Any = None, scale_v: Any = None, return_lse: Literal[False] = False, out: Any = None,
    out_dtype: object = None, arch: Arch | None = None, schedule: Schedule | str | None = None,
    backend: Backend = "auto", stream: Any = None,
) -> Any: ...


@overload
def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, softcap: float | None = None, lengths: Any = None,
    cu_seqlens: tuple[Any, Any] | None = None, block_table: Any = None, scale_q: Any = None,
    scale_k: Any = None, scale_v: Any = None, return_lse: Literal[True], out: Any = None,
    out_dtype: object = None, arch: Arch | None = None, schedule: Schedule | str | None = None,
    backend: Backend = "auto", stream: Any = None,
) -> tuple[Any, Any]: ...


@overload
def attention(
    q: Any, k: Any, v: Any, *, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, softcap: float | None = None, lengths: Any = None,
    cu_seqlens: tuple[Any, Any] | None = None, block_table: Any = None, scale_q: Any = None,
    scale_k: Any = None, scale_v: Any = None, return_lse: bool, out: Any = None,
    out_dtype: object = None, arch: Arch | None = None, schedule: Schedule | str | None = None,
    backend: Backend = "auto", stream: Any = None,
) -> Any: ...


def attention(*args: Any, **options: Any) -> Any: ...


def attention_backward(
    do: Any, q: Any, k: Any, v: Any, out: Any, lse: Any, *, causal: bool = False,
    scale: float | None = None, window: tuple[int, int] | None = None, softcap: float | None = None,
    lengths: Any = None, cu_seqlens: tuple[Any, Any] | None = None, block_table: Any = None,
    scale_q: Any = None, scale_k: Any = None, scale_v: Any = None, dlse: Any = None,
    wanted: str = "qkv", deterministic: bool = False, dq: Any = None, dk: Any = None,
    dv: Any = None, arch: Arch | None = None, schedule: Schedule | str | None = None,
    backend: Backend = "auto", stream: Any = None,
) -> tuple[Any, Any, Any]: ...


def quantize(
    x: Any, format: BlockFormat, *, global_scale: Any = None, rounding: Rounding | None = None,
    swizzled: bool = False, out: Any = None, scales: Any = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto", stream: Any = None,
) -> tuple[Any, Any]: ...


def conv2d(
    x: Any, w: Any, *, bias: Any = None, stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1,
    activation: Activation | Callable[..., Any] | None = None, out: Any = None,
    out_dtype: object = None, arch: Arch | None = None, schedule: Schedule | str | None = None,
    backend: Backend = "auto", stream: Any = None,
) -> Any: ...


def conv2d_dgrad(
    dy: Any, w: Any, size: int | tuple[int, int], *, stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1, groups: int = 1,
    out: Any = None, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto", stream: Any = None,
) -> Any: ...


def conv2d_wgrad(
    x: Any, dy: Any, size: int | tuple[int, int], *, stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0, dilation: int | tuple[int, int] = 1, groups: int = 1,
    out: Any = None, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto", stream: Any = None,
) -> Any: ...
