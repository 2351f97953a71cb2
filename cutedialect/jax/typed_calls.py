"""Declared calls, as type checkers see them. Written by .ci/typed_calls.py."""

# fmt: off
# pyright: reportMissingImports=false, reportUnusedImport=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal, overload

import jax

from cutedialect.choices import Activation, Arch, Backend, Precision
from cutedialect.schedule import Schedule


def gemm(
    a: jax.Array, b: jax.Array, *, c: jax.Array | None = None, alpha: float = 1.0,
    beta: float = 0.0, bias: jax.Array | None = None,
    activation: Activation | Callable[..., Any] | None = None,
    scale_a: jax.Array | float | None = None, scale_b: jax.Array | float | None = None,
    acc_dtype: object = None, fast_accum: bool = True, precision: Precision | None = None,
    out_dtype: object = None, arch: Arch | None = None, schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> jax.Array: ...


def grouped_gemm(
    as_: Sequence[jax.Array], bs: Sequence[jax.Array], *, c: Sequence[jax.Array] | None = None,
    alpha: float = 1.0, beta: float = 0.0, bias: Sequence[jax.Array] | None = None,
    activation: Activation | Callable[..., Any] | None = None, acc_dtype: object = None,
    fast_accum: bool = True, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> list[jax.Array]: ...


@overload
def attention(
    q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, softcap: float | None = None,
    lengths: jax.Array | None = None, cu_seqlens: tuple[jax.Array, jax.Array] | None = None,
    block_table: jax.Array | None = None, scale_q: jax.Array | float | None = None,
    scale_k: jax.Array | float | None = None, scale_v: jax.Array | float | None = None,
    return_lse: Literal[False] = False, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> jax.Array: ...


@overload
def attention(
    q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, softcap: float | None = None,
    lengths: jax.Array | None = None, cu_seqlens: tuple[jax.Array, jax.Array] | None = None,
    block_table: jax.Array | None = None, scale_q: jax.Array | float | None = None,
    scale_k: jax.Array | float | None = None, scale_v: jax.Array | float | None = None,
    return_lse: Literal[True], out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> tuple[jax.Array, jax.Array]: ...


@overload
def attention(
    q: jax.Array, k: jax.Array, v: jax.Array, *, causal: bool = False, scale: float | None = None,
    window: tuple[int, int] | None = None, softcap: float | None = None,
    lengths: jax.Array | None = None, cu_seqlens: tuple[jax.Array, jax.Array] | None = None,
    block_table: jax.Array | None = None, scale_q: jax.Array | float | None = None,
    scale_k: jax.Array | float | None = None, scale_v: jax.Array | float | None = None,
    return_lse: bool, out_dtype: object = None, arch: Arch | None = None,
    schedule: Schedule | str | None = None, backend: Backend = "auto",
) -> jax.Array | tuple[jax.Array, jax.Array]: ...


def attention(*args: Any, **options: Any) -> Any: ...
