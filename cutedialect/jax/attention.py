"""`cute.attention` for JAX. It has no gradient yet, and says so where one is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.choices import Arch, Backend
from cutedialect.frontend.attention import attention as direct_attention
from cutedialect.frontend.dtypes import DType, as_dtype, bf16, f32
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
from .partitioning import Rule

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

    Arguments and results are those of `cute.attention`. Of arrays that several devices share each
    computes its sequences and heads, where these are not packed, paged or scaled. Raises
    NotImplementedError where a gradient is taken, TypeError or ValueError naming any other
    argument.
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
    q, k, v = arrays[:3]
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
    description = {
        "function": "attention",
        "options": keywords,
        "arguments": list(given),
        "results": ["out", "lse"] if return_lse else ["out"],
    }
    text = json.dumps(description, sort_keys=True)
    # Packed sequences, pages and scales have arrays that go with all heads or sequences.
    is_plain = q.ndim == 4 and given.keys() <= {"q", "k", "v", "lengths"} and 0 not in k.shape
    if jax.device_count() == 1 or not is_plain:
        return tuple(_attention_call(text, element, return_lse, *given.values()))
    rule = _rule(q.shape[1], k.shape[1], "lengths" in given, return_lse)
    return tuple(_parted(text, element, return_lse, rule)(*given.values()))


def _attention_call(text: str, element: DType, return_lse: bool, *arrays: Any) -> list[Any]:
    """The custom call for all heads and sequences, or for some."""
    q, _, v = arrays[:3]
    results = [struct((*q.shape[:-1], v.shape[-1]), element)]
    if return_lse:
        results.append(struct(q.shape[:-1], f32))
    return custom_call(json.loads(text), results, arrays)


@lru_cache(maxsize=1024)
def _parted(text: str, element: DType, return_lse: bool, rule: Rule) -> Callable[..., Any]:
    return rule.apply(partial(_attention_call, text, element, return_lse))


def _rule(heads: int, shared: int, has_lengths: bool, return_lse: bool) -> Rule:
    """Sequences and heads are parted, with the keys that several heads share; rows are not, since a
    mask counts them.
    """
    head = "h" if heads == shared else "(h g)"
    q, k, v = ("b", head, "s", "d"), ("b", "h", "t", "d"), ("b", "h", "t", "e")
    arguments = (q, k, v, ("b",)) if has_lengths else (q, k, v)
    results = (("b", head, "s", "e"), ("b", head, "s"))
    sizes = (("h", shared), ("g", heads // shared))
    return Rule(arguments, results[: 1 + return_lse], frozenset("se"), sizes)


def _forward(*arguments: Any) -> Any:
    raise NotImplementedError(
        "q, k, v: expected no gradient to be taken, got one, and cute.attention has none yet; take "
        "jax.lax.stop_gradient, or jax.nn.dot_product_attention where it has to be differentiated"
    )


def _backward(*arguments: Any) -> Any:
    return _forward()


_attention.defvjp(_forward, _backward)
