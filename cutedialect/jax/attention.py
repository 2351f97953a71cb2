"""`cute.attention` for JAX. It has no gradient yet, and says so where one is taken."""

from __future__ import annotations

from functools import partial
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.choices import Arch, Backend
from cutedialect.frontend.attention import attention as direct_attention
from cutedialect.frontend.dtypes import as_dtype, bf16, f32
from cutedialect.schedule import Schedule

from .custom_call import (
    custom_call,
    dtype_name,
    element_type,
    number,
    schedule_text,
    spec,
    struct,
)

_ARRAYS = (
    "q", "k", "v", "lengths", "q_offsets", "k_offsets", "block_table", "scale_q", "scale_k",
    "scale_v",
)  # fmt: skip


def attention(
    q: jax.Array,
    k: jax.Array,
    v: jax.Array,
    *,
    causal: bool = False,
    scale: float | None = None,
    window: tuple[int, int] | None = None,
    softcap: float | None = None,
    lengths: jax.Array | None = None,
    cu_seqlens: tuple[jax.Array, jax.Array] | None = None,
    block_table: jax.Array | None = None,
    scale_q: jax.Array | float | None = None,
    scale_k: jax.Array | float | None = None,
    scale_v: jax.Array | float | None = None,
    return_lse: bool = False,
    out_dtype: object = None,
    arch: Arch | None = None,
    schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> jax.Array | tuple[jax.Array, jax.Array]:
    """`cute.attention` under jit and vmap: softmax(scale Q K^T) V of q (B, H, Sq, D), k
    (B, Hk, Sk, D) and v (B, Hk, Sk, Dv), and with `return_lse` (B, H, Sq) of f32.

    Arguments and results are those of `cute.attention`. Raises NotImplementedError where a gradient
    is taken, TypeError or ValueError naming any other argument.
    """
    scales = {"scale_q": scale_q, "scale_k": scale_k, "scale_v": scale_v}
    factors = {
        name: number(value, name)
        for name, value in scales.items()
        if isinstance(value, int | float)
    }
    options = {
        "causal": causal,
        "scale": None if scale is None else number(scale, "scale"),
        "window": tuple(map(int, window)) if isinstance(window, tuple | list) else window,
        "softcap": None if softcap is None else number(softcap, "softcap"),
        "out_dtype": dtype_name(out_dtype, "out_dtype"),
        "arch": arch,
        "schedule": schedule_text(schedule),
        "backend": backend,
        **factors,
    }
    offsets: tuple[Any, Any] = (None, None) if cu_seqlens is None else cu_seqlens
    arrays = tuple(
        None if each is None else jnp.asarray(each)
        for each in (
            q, k, v, lengths, *offsets, block_table,
            *(None if name in factors else value for name, value in scales.items()),
        )
    )  # fmt: skip
    results: Any = _attention(tuple(options.items()), return_lse, arrays)
    return (results[0], results[1]) if return_lse else results[0]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attention(
    options: tuple[tuple[str, Any], ...], return_lse: bool, arrays: tuple[Any, ...]
) -> tuple[Any, ...]:
    keywords = dict(options)
    given = {name: each for name, each in zip(_ARRAYS, arrays, strict=True) if each is not None}
    specs: dict[str, Any] = {name: spec(array, name) for name, array in given.items()}
    if "k_offsets" in specs:
        specs["cu_seqlens"] = specs.pop("q_offsets"), specs.pop("k_offsets")
    q, _, v = arrays[:3]
    shape = (*q.shape[:-1], v.shape[-1])
    if 0 not in shape:
        # Wrong arguments are refused where they are traced, and the kernel is compiled there.
        direct_attention.compile(  # pyright: ignore[reportFunctionMemberAccess]
            **specs, **keywords, return_lse=return_lse
        )
    element = element_type(q, "q")
    element = element if element.bits > 8 else bf16
    if keywords["out_dtype"] is not None:
        element = as_dtype(keywords["out_dtype"])
    results = [struct(shape, element)]
    if return_lse:
        results.append(struct(q.shape[:-1], f32))
    description = {
        "function": "attention",
        "options": keywords,
        "arguments": list(given),
        "results": ["out", "lse"][: len(results)],
    }
    return tuple(custom_call(description, results, list(given.values())))


def _forward(*arguments: Any) -> Any:
    raise NotImplementedError(
        "q, k, v: expected no gradient to be taken, got one, and cute.attention has none yet; take "
        "jax.lax.stop_gradient, or jax.nn.dot_product_attention where it has to be differentiated"
    )


def _backward(*arguments: Any) -> Any:
    return _forward()


_attention.defvjp(_forward, _backward)
