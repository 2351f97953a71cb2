"""Declared calls, as type checkers see them. Written by .ci/typed_calls.py."""

# fmt: off
# pyright: reportMissingImports=false, reportUnusedImport=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import torch

from cutedialect.choices import Activation, Arch, Backend, BlockFormat, Precision, Rounding
from cutedialect.schedule import Schedule


def gemm(
    a: torch.Tensor, b: torch.Tensor, *, c: torch.Tensor | None = None, alpha: float = 1.0,
    beta: float = 0.0, bias: torch.Tensor | None = None,
    activation: Activation | Callable[..., Any] | None = None,
    scale_a: torch.Tensor | float | None = None, scale_b: torch.Tensor | float | None = None,
    zero_b: torch.Tensor | float | None = None, packed_b: str | None = None,
    packed_a: str | None = None, acc_dtype: object = None, fast_accum: bool = True,
    precision: Precision | None = None, aux: torch.Tensor | None = None,
    out: torch.Tensor | None = None, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> torch.Tensor: ...


def grouped_gemm(
    as_: Sequence[torch.Tensor], bs: Sequence[torch.Tensor], *,
    c: Sequence[torch.Tensor] | None = None, alpha: float = 1.0, beta: float = 0.0,
    bias: Sequence[torch.Tensor] | None = None,
    activation: Activation | Callable[..., Any] | None = None,
    scale_a: Sequence[torch.Tensor] | float | None = None,
    scale_b: Sequence[torch.Tensor] | float | None = None,
    zero_b: Sequence[torch.Tensor] | float | None = None, packed_b: str | None = None,
    acc_dtype: object = None, fast_accum: bool = True, aux: Sequence[torch.Tensor] | None = None,
    out: Sequence[torch.Tensor] | None = None, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> list[torch.Tensor]: ...


def routed_gemm(
    a: torch.Tensor, b: torch.Tensor, offsets: torch.Tensor, *, lengths: torch.Tensor | None = None,
    rows: torch.Tensor | None = None, scatter: torch.Tensor | None = None,
    weights: torch.Tensor | None = None, gated: torch.Tensor | None = None,
    bias: torch.Tensor | None = None, scale_a: torch.Tensor | None = None,
    scale_b: torch.Tensor | None = None, zero_b: torch.Tensor | float | None = None,
    scale_gated: torch.Tensor | None = None, zero_gated: torch.Tensor | float | None = None,
    packed_b: str | None = None, activation: Activation | Callable[..., Any] | None = None,
    count: int | None = None, out: torch.Tensor | None = None, out_dtype: object = None,
    arch: Arch | None = None, schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> torch.Tensor: ...


@overload
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False,
    scale: float | None = None, window: tuple[int, int] | None = None, softcap: float | None = None,
    lengths: torch.Tensor | None = None,
    cu_seqlens: tuple[torch.Tensor, torch.Tensor] | None = None,
    block_table: torch.Tensor | None = None, scale_q: torch.Tensor | float | None = None,
    scale_k: torch.Tensor | float | None = None, scale_v: torch.Tensor | float | None = None,
    return_lse: Literal[False] = False, out: torch.Tensor | None = None, out_dtype: object = None,
    arch: Arch | None = None, schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> torch.Tensor: ...


@overload
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False,
    scale: float | None = None, window: tuple[int, int] | None = None, softcap: float | None = None,
    lengths: torch.Tensor | None = None,
    cu_seqlens: tuple[torch.Tensor, torch.Tensor] | None = None,
    block_table: torch.Tensor | None = None, scale_q: torch.Tensor | float | None = None,
    scale_k: torch.Tensor | float | None = None, scale_v: torch.Tensor | float | None = None,
    return_lse: Literal[True], out: torch.Tensor | None = None, out_dtype: object = None,
    arch: Arch | None = None, schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> tuple[torch.Tensor, torch.Tensor]: ...


@overload
def attention(
    q: torch.Tensor, k: torch.Tensor, v: torch.Tensor, *, causal: bool = False,
    scale: float | None = None, window: tuple[int, int] | None = None, softcap: float | None = None,
    lengths: torch.Tensor | None = None,
    cu_seqlens: tuple[torch.Tensor, torch.Tensor] | None = None,
    block_table: torch.Tensor | None = None, scale_q: torch.Tensor | float | None = None,
    scale_k: torch.Tensor | float | None = None, scale_v: torch.Tensor | float | None = None,
    return_lse: bool, out: torch.Tensor | None = None, out_dtype: object = None,
    arch: Arch | None = None, schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]: ...


def attention(*args: Any, **options: Any) -> Any: ...


def quantize(
    x: torch.Tensor, format: BlockFormat, *, global_scale: torch.Tensor | float | None = None,
    rounding: Rounding | None = None, swizzled: bool = False, out: torch.Tensor | None = None,
    scales: torch.Tensor | None = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> tuple[torch.Tensor, torch.Tensor]: ...


def conv2d(
    x: torch.Tensor, w: torch.Tensor, *, bias: torch.Tensor | None = None,
    stride: int | tuple[int, int] = 1, padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1, activation: Activation | Callable[..., Any] | None = None,
    out: torch.Tensor | None = None, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> torch.Tensor: ...


def conv2d_dgrad(
    dy: torch.Tensor, w: torch.Tensor, size: int | tuple[int, int], *,
    stride: int | tuple[int, int] = 1, padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1, groups: int = 1, out: torch.Tensor | None = None,
    out_dtype: object = None, arch: Arch | None = None, schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> torch.Tensor: ...


def conv2d_wgrad(
    x: torch.Tensor, dy: torch.Tensor, size: int | tuple[int, int], *,
    stride: int | tuple[int, int] = 1, padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1, groups: int = 1, out: torch.Tensor | None = None,
    out_dtype: object = None, arch: Arch | None = None, schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> torch.Tensor: ...
