"""What is JAX's own of `cute.attention`. It has no gradient yet, and says so where one is taken."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .declared import Own
from .partitioning import Rule


def _rule(given: Mapping[str, Any], count: int) -> Rule | None:
    """Sequences and heads are parted, with the keys that several heads share; rows are not, since a
    mask counts them. Packed sequences, pages and scales have arrays that go with all of them.
    """
    q, k = given["q"], given["k"]
    if not given.keys() <= {"q", "k", "v", "lengths"} or 0 in k.shape:
        return None
    heads, shared = q.shape[1], k.shape[1]
    head = "h" if heads == shared else "(h g)"
    arguments = ("b", head, "s", "d"), ("b", "h", "t", "d"), ("b", "h", "t", "e"), ("b",)
    results = (("b", head, "s", "e"), ("b", head, "s"))
    sizes = (("h", shared), ("g", heads // shared))
    return Rule(arguments[: len(given)], results[:count], frozenset("se"), sizes)


def _no_gradient(*arguments: Any) -> Any:
    raise NotImplementedError(
        "q, k, v: expected no gradient to be taken, got one, and cute.attention has none yet; take "
        "jax.lax.stop_gradient, or jax.nn.dot_product_attention where it has to be differentiated"
    )


ATTENTION = Own(
    """`cute.attention` under jit and vmap: softmax(scale Q K^T) V of q (B, H, Sq, D), k
    (B, Hk, Sk, D) and v (B, Hk, Sk, Dv), and with `return_lse` (B, H, Sq) of f32.

    Arguments and results are those of `cute.attention`. Of arrays that several devices share each
    computes its sequences and heads, where these are not packed, paged or scaled. Raises
    NotImplementedError where a gradient is taken, TypeError or ValueError naming any other
    argument.
    """,
    _no_gradient,
    _no_gradient,
    _rule,
)
