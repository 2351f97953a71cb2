"""`cute.grouped_gemm` for JAX, with its gradient: two grouped products."""

from __future__ import annotations

import json
from functools import partial
from typing import TYPE_CHECKING, Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.frontend.declarations import GROUPED_GEMM
from cutedialect.frontend.grouped_gemm import grouped_gemm as direct_grouped_gemm

from .custom_call import custom_call, element_type, struct
from .declared import Function, Options
from .gemm import check_differentiable, column_sums, result_type

_FUNCTION = Function(GROUPED_GEMM, direct_grouped_gemm)


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _grouped(options: Options, lists: tuple[Any, ...]) -> tuple[Any, ...]:
    as_, bs = lists[:2]
    if any(0 not in (a.shape[:1] + b.shape[1:]) for a, b in zip(as_, bs, strict=False)):
        _FUNCTION.compile(options, lists)
    element = result_type(options, as_[0], name="as_[0]")
    text = _FUNCTION.text(options, lists, [])
    return tuple(
        custom_call(
            json.loads(text),
            [struct((a.shape[0], b.shape[1]), element) for a, b in zip(as_, bs, strict=True)],
            [array for each in _FUNCTION.given(lists).values() for array in each],
        )
    )


def _forward(options: Options, lists: tuple[Any, ...]) -> tuple[Any, Any]:
    for a, b in zip(*lists[:2], strict=True):
        check_differentiable(options, (a, b, None, None, None, None))
    activation = dict(options)["activation"]
    if activation not in (None, "relu"):
        raise ValueError(
            f"activation: expected None or 'relu' for a gradient of grouped_gemm, got "
            f"{activation!r}; apply it to the results in JAX"
        )
    results = _grouped(options, lists)
    return results, (lists, results if activation else None)


def _backward(options: Options, kept: Any, gradients: tuple[Any, ...]) -> tuple[Any]:
    known = dict(options)
    (as_, bs, c, bias), results = kept
    if results is not None:
        gradients = tuple(
            jnp.where(result > 0, gradient, 0)
            for gradient, result in zip(gradients, results, strict=True)
        )
    of_c = of_bias = None
    if c is not None:
        of_c = tuple(
            (known["beta"] * gradient).astype(each.dtype)
            for gradient, each in zip(gradients, c, strict=True)
        )
    if bias is not None:
        of_bias = tuple(
            column_sums(gradient).astype(each.dtype)
            for gradient, each in zip(gradients, bias, strict=True)
        )
    gradients = tuple(x.astype(a.dtype) for x, a in zip(gradients, as_, strict=True))
    kept = {name: known[name] for name in ("alpha", "arch", "backend")}
    plain = _FUNCTION.options(**kept, out_dtype=element_type(as_[0], "as_").name)
    of_a = _grouped(plain, (gradients, tuple(b.T for b in bs), None, None))
    of_b = _grouped(plain, (tuple(a.T for a in as_), gradients, None, None))
    return ((of_a, of_b, of_c, of_bias),)


_grouped.defvjp(_forward, _backward)

if TYPE_CHECKING:
    from .typed_calls import grouped_gemm
else:
    grouped_gemm = _FUNCTION.function(
        __name__,
        """`cute.grouped_gemm` under jit, grad and vmap: a result for each a (M, K) of `as_` and b
    (K, N) of `bs`, in one launch, with gradients for all lists where `activation` is None or
    "relu".

    Arguments and results are those of `cute.grouped_gemm`, without scales. Raises TypeError or
    ValueError naming the argument.
    """,
        lambda options, lists, _: list(_grouped(options, lists)) if lists[0] else [],
    )
