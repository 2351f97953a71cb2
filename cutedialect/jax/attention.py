"""What is JAX's own of `cute.attention`: its gradients, and how arrays that several devices share
are parted.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

from cutedialect.frontend import declarations
from cutedialect.frontend.signature import Call

from .declared import Function, Options, Own
from .partitioning import Rule

_DIFFERENTIABLE = ("float16", "bfloat16")
# Arrays that may be parted.
_ARRAYS, _OF_GRADIENTS = ("q", "k", "v", "lengths"), ("do", "out", "lse", "dlse")
_OPTIONS = ("causal", "scale", "window", "softcap", "scale_q", "scale_k", "scale_v", "arch")


def _rule(
    call: Call, whole: str, parted: frozenset[str], given: Mapping[str, Any], count: int
) -> Rule | None:
    """Sequences and heads are parted, with the keys that several heads share; rows, which a mask
    counts, and other modes stay `whole`. Packed sequences, pages and scales, which are none of
    `parted`, have arrays that go with all of them.
    """
    heads, shared = given["q"].shape[1], given["k"].shape[1]
    if not given.keys() <= parted or 0 in given["k"].shape:
        return None
    names = {"H": "h" if heads == shared else "(h g)", "Hk": "h"}

    def factors(modes: str) -> tuple[str, ...]:
        return tuple(names.get(mode, mode.lower()) for mode in modes.split())

    arguments = tuple(factors(call.by_name[name].modes) for name in given)
    results = tuple(factors(each.modes) for each in call.outputs[:count])
    sizes = (("h", shared), ("g", heads // shared))
    return Rule(arguments, results, frozenset(whole), sizes)


def _forward(
    function: Function, names: tuple[str, ...], options: Options, arrays: tuple[Any, ...]
) -> tuple[Any, Any]:
    given = dict(zip(function.arrays, arrays, strict=True))
    for name in ("q", "k", "v"):
        if given[name].dtype.name not in _DIFFERENTIABLE:
            raise TypeError(
                f"{name}: expected f16 or bf16 where a gradient is taken, got "
                f"{given[name].dtype.name}; take jax.lax.stop_gradient, or 16-bit operands"
            )
    if given["block_table"] is not None:
        raise ValueError(
            "block_table: expected None where a gradient is taken, got a table; gather the pages, "
            "and give k and v as they are"
        )
    results = function.traced(("out", "lse"), options, arrays)
    return results[: len(names)], (arrays, results)


def _backward(
    function: Function, names: tuple[str, ...], options: Options, kept: Any, slopes: Any
) -> tuple[Any]:
    from . import BACKWARD

    arrays, (out, lse) = kept
    given = dict(zip(function.arrays, arrays, strict=True))
    known = {name: value for name, value in dict(options).items() if name in _OPTIONS}
    more = {"out": out, "lse": lse, "do": slopes[0]}
    if len(names) > 1:
        more["dlse"] = slopes[1]
    given |= more
    found = BACKWARD.traced(
        ("dq", "dk", "dv"),
        BACKWARD.options(**known),
        tuple(given.get(name) for name in BACKWARD.arrays),
    )
    return ((*found, *[None] * (len(arrays) - 3)),)


def _no_gradient(*arguments: Any) -> Any:
    raise NotImplementedError(
        "do: expected no gradient to be taken through it, got one, and the gradients of "
        "cute.attention have none of their own; take jax.lax.stop_gradient, or "
        "jax.nn.dot_product_attention where gradients are differentiated"
    )


ATTENTION = Own(
    """`cute.attention` under jit, grad and vmap: softmax(scale Q K^T) V of q (B, H, Sq, D), k
    (B, Hk, Sk, D) and v (B, Hk, Sk, Dv), and with `return_lse` (B, H, Sq) of f32. With gradients
    (reverse mode) for q, k and v of f16 and bf16, through both results.

    Arguments and results are those of `cute.attention`. Of arrays that several devices share each
    computes its sequences and heads, where these are not packed, paged or scaled. Raises
    NotImplementedError where a gradient of a gradient is taken, TypeError or ValueError naming any
    other argument.
    """,
    _forward,
    _backward,
    partial(_rule, declarations.ATTENTION, "se", frozenset(_ARRAYS)),
)
ATTENTION_BACKWARD = Own(
    """`cute.attention_backward` under jit and vmap: the gradients of q, k and v. Raises
    NotImplementedError where a gradient of these is taken.
    """,
    _no_gradient,
    _no_gradient,
    partial(_rule, declarations.ATTENTION_BACKWARD, "ste", frozenset((*_ARRAYS, *_OF_GRADIENTS))),
)
