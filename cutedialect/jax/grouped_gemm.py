"""`cute.grouped_gemm` for JAX, with its gradient: two grouped products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.choices import Activation, Arch, Backend
from cutedialect.frontend.dtypes import as_dtype
from cutedialect.frontend.gemm_operands import result_dtype
from cutedialect.frontend.grouped_gemm import grouped_gemm as direct_grouped_gemm
from cutedialect.schedule import Schedule

from .custom_call import (
    custom_call,
    dtype_name,
    element_type,
    named,
    number,
    schedule_text,
    spec,
    struct,
)
from .gemm import Options, check_differentiable, column_sums

_LISTS = ("as_", "bs", "c", "bias")


def grouped_gemm(
    as_: Sequence[jax.Array],
    bs: Sequence[jax.Array],
    *,
    c: Sequence[jax.Array] | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: Sequence[jax.Array] | None = None,
    activation: Activation | Callable[..., Any] | None = None,
    acc_dtype: object = None,
    fast_accum: bool = True,
    out_dtype: object = None,
    arch: Arch | None = None,
    schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> list[jax.Array]:
    """`cute.grouped_gemm` under jit, grad and vmap: a result for each a (M, K) of `as_` and b
    (K, N) of `bs`, in one launch, with gradients for all lists where `activation` is None or
    "relu".

    Arguments and results are those of `cute.grouped_gemm`, without scales. Raises TypeError or
    ValueError naming the argument.
    """
    options = Options(
        number(alpha, "alpha"), number(beta, "beta"), None, None, activation,
        dtype_name(acc_dtype, "acc_dtype"), fast_accum, dtype_name(out_dtype, "out_dtype"), arch,
        schedule_text(schedule), backend,
    )  # fmt: skip
    lists = tuple(
        None if each is None else tuple(jnp.asarray(array) for array in each)
        for each in (as_, bs, c, bias)
    )
    if not as_:
        return []
    return list(_grouped(options, lists))


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _grouped(options: Options, lists: tuple[Any, ...]) -> tuple[Any, ...]:
    keywords = options.keywords(None, None)
    specs = {
        name: None if arrays is None else [spec(each, f"{name}[{i}]") for i, each in
                                           enumerate(arrays)]
        for name, arrays in zip(_LISTS, lists, strict=True)
    }  # fmt: skip
    as_, bs = lists[:2]
    if any(0 not in (a.shape[:1] + b.shape[1:]) for a, b in zip(as_, bs, strict=False)):
        direct_grouped_gemm.compile(  # pyright: ignore[reportFunctionMemberAccess]
            specs.pop("as_"), specs.pop("bs"), **specs, **keywords
        )
    element = result_dtype(element_type(as_[0], "as_[0]"), False)
    if options.out_dtype is not None:
        element = as_dtype(options.out_dtype)
    given = {name: each for name, each in zip(_LISTS, lists, strict=True) if each is not None}
    return tuple(
        custom_call(
            {
                "function": "grouped_gemm",
                "options": {
                    name: {"function": named(value)} if callable(value) else value
                    for name, value in keywords.items()
                },
                "arguments": list(given),
                "lists": {name: len(each) for name, each in given.items()},
                "results": [],
            },
            [struct((a.shape[0], b.shape[1]), element) for a, b in zip(as_, bs, strict=True)],
            [array for each in given.values() for array in each],
        )
    )


def _forward(options: Options, lists: tuple[Any, ...]) -> tuple[Any, Any]:
    for a, b in zip(*lists[:2], strict=True):
        check_differentiable(options, (a, b, None, None, None, None))
    if options.activation not in (None, "relu"):
        raise ValueError(
            f"activation: expected None or 'relu' for a gradient of grouped_gemm, got "
            f"{options.activation!r}; apply it to the results in JAX"
        )
    results = _grouped(options, lists)
    return results, (lists, results if options.activation else None)


def _backward(options: Options, kept: Any, gradients: tuple[Any, ...]) -> tuple[Any]:
    (as_, bs, c, bias), results = kept
    if results is not None:
        gradients = tuple(
            jnp.where(result > 0, gradient, 0)
            for gradient, result in zip(gradients, results, strict=True)
        )
    of_c = of_bias = None
    if c is not None:
        of_c = tuple(
            (options.beta * gradient).astype(each.dtype)
            for gradient, each in zip(gradients, c, strict=True)
        )
    if bias is not None:
        of_bias = tuple(
            column_sums(gradient).astype(each.dtype)
            for gradient, each in zip(gradients, bias, strict=True)
        )
    gradients = tuple(x.astype(a.dtype) for x, a in zip(gradients, as_, strict=True))
    plain = Options(
        alpha=options.alpha, arch=options.arch, backend=options.backend,
        out_dtype=element_type(as_[0], "as_").name,
    )  # fmt: skip
    of_a = _grouped(plain, (gradients, tuple(b.T for b in bs), None, None))
    of_b = _grouped(plain, (tuple(a.T for a in as_), gradients, None, None))
    return ((of_a, of_b, of_c, of_bias),)


_grouped.defvjp(_forward, _backward)
