"""`cute.attention` for JAX. It has no gradient yet, and says so where one is taken."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

import jax  # pyright: ignore[reportMissingImports]

from cutedialect.frontend.attention import attention as direct_attention
from cutedialect.frontend.declarations import ATTENTION
from cutedialect.frontend.dtypes import DType, as_dtype, bf16, f32

from .custom_call import custom_call, element_type, struct
from .declared import Function, Options
from .partitioning import Rule

_FUNCTION = Function(ATTENTION, direct_attention)


def _called(options: Options, arrays: tuple[Any, ...], return_lse: Any) -> Any:
    results: Any = _attention(options, return_lse, arrays)
    return (results[0], results[1]) if return_lse else results[0]


@partial(jax.custom_vjp, nondiff_argnums=(0, 1))
def _attention(options: Options, return_lse: bool, arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    given = _FUNCTION.given(arrays)
    q, k, v = arrays[:3]
    if 0 not in (*q.shape[:-1], v.shape[-1]):
        _FUNCTION.compile(options, arrays, return_lse=return_lse)
    element = element_type(q, "q")
    element = element if element.bits > 8 else bf16
    out_dtype = dict(options)["out_dtype"]
    if out_dtype is not None:
        element = as_dtype(out_dtype)
    text = _FUNCTION.text(options, arrays, ["out", "lse"] if return_lse else ["out"])
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

if TYPE_CHECKING:
    from .typed_calls import attention
else:
    attention = _FUNCTION.function(
        __name__,
        """`cute.attention` under jit and vmap: softmax(scale Q K^T) V of q (B, H, Sq, D), k
    (B, Hk, Sk, D) and v (B, Hk, Sk, Dv), and with `return_lse` (B, H, Sq) of f32.

    Arguments and results are those of `cute.attention`. Of arrays that several devices share each
    computes its sequences and heads, where these are not packed, paged or scaled. Raises
    NotImplementedError where a gradient is taken, TypeError or ValueError naming any other
    argument.
    """,
        _called,
    )
