"""What is JAX's own of `cute.gemm` and `cute.grouped_gemm`. Their gradient: dA = dC B^T and
dB = A^T dC by the same function, the activation's derivative by JAX.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.frontend.declarations import SINGLE_NAMES
from cutedialect.frontend.dtypes import bf16, f16, f32, f64
from cutedialect.frontend.gemm import with_numbers

from .custom_call import element_type
from .declared import Function, Options, Own
from .partitioning import Factors, Rule

DIFFERENTIABLE = (f16, bf16, f32, f64)
_DERIVED: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "silu": jax.nn.silu,
    "tanh": jax.numpy.tanh,
    "sigmoid": jax.nn.sigmoid,
}
# What the dimensions of the arrays of a product are: rows i, depth k, columns j behind batches.
_TAILS = {"a": "ik", "b": "kj", "c": "ij", "bias": "j", "out": "ij"}


def _lists(function: Function, arrays: Sequence[Any]) -> list[Any]:
    """The arrays as those of several problems."""
    return [x if x is None or function.call.is_of_lists else (x,) for x in arrays]


def _check_differentiable(function: Function, options: Options, arrays: Sequence[Any]) -> Any:
    """The activation; refuses what has no gradient, with a remedy."""
    for pair in zip(*_lists(function, arrays)[:2], strict=True):
        for name, array in zip(("a", "b"), pair, strict=True):
            if (element := element_type(array, name)) not in DIFFERENTIABLE:
                raise TypeError(
                    f"{name}: expected f16, bf16, f32 or f64 where a gradient is taken, got "
                    f"{element.name}; take jax.lax.stop_gradient, or 16-bit operands"
                )
    known = dict(options)
    if not known.keys().isdisjoint(("scale_a", "scale_b")) or arrays[4:] not in ((), (None, None)):
        raise ValueError(
            "scale_a, scale_b: expected None where a gradient is taken, got a scale; multiply a or "
            "b by it in JAX, or use alpha for one number"
        )
    activation = known["activation"]
    if callable(activation):
        raise TypeError(
            f"activation: expected {', '.join(map(repr, _DERIVED))} or None where a gradient is "
            "taken, got a function; apply it to the result in JAX"
        )
    if function.call.is_of_lists and activation not in (None, "relu"):
        raise ValueError(
            f"activation: expected None or 'relu' for a gradient of {function.call.name}, got "
            f"{activation!r}; apply it to the results in JAX"
        )
    return activation


def _forward(
    function: Function, names: tuple[str, ...], options: Options, arrays: tuple[Any, ...]
) -> tuple[Any, Any]:
    if _check_differentiable(function, options, arrays) is None:
        return function.traced(names, options, arrays), (arrays, None)
    if function.call.is_of_lists:  # relu, whose derivative follows from results
        results = function.traced(names, options, arrays)
        return results, (arrays, results)
    result, before = function.results((*names, "aux"), options, arrays)
    return (result,), (arrays, (before,))


def _backward(
    function: Function, names: tuple[str, ...], options: Options, kept: Any, gradients: Any
) -> tuple[Any]:
    del names
    arrays, before = kept
    known = vars(with_numbers(function.known(options)))
    as_, bs, c, bias = _lists(function, arrays[:4])
    if before is not None:
        derived = _DERIVED[known["activation"]]
        pairs = zip(before, gradients, strict=True)
        gradients = [jax.vjp(derived, x)[1](gradient)[0] for x, gradient in pairs]
    of_c = of_bias = None
    if c is not None:
        pairs = zip(gradients, c, strict=True)
        of_c = tuple(_summed(known["beta"] * g, x.shape).astype(x.dtype) for g, x in pairs)
    if bias is not None:
        pairs = zip(gradients, bias, strict=True)
        of_bias = tuple(_column_sums(g).astype(x.dtype) for g, x in pairs)
    gradients = [x.astype(a.dtype) for x, a in zip(gradients, as_, strict=True)]
    kept = {name: known.get(name) for name in ("alpha", "arch", "backend", "precision")}
    products = partial(_products, function, {n: x for n, x in kept.items() if x is not None})
    of_a = products(gradients, [b.swapaxes(-1, -2) for b in bs], as_)
    lefts = list(as_)
    for at, b in enumerate(bs):
        if b.ndim == 2:  # all rows at once
            rows = prod(lefts[at].shape[:-1])
            lefts[at], gradients[at] = (
                x.reshape(rows, x.shape[-1]) for x in (lefts[at], gradients[at])
            )
    of_b = products([a.swapaxes(-1, -2) for a in lefts], gradients, bs)
    found = of_a, of_b, of_c, of_bias, *[None] * (len(arrays) - 4)
    return (found if function.call.is_of_lists else tuple(x and x[0] for x in found),)


def _products(
    function: Function,
    options: Mapping[str, Any],
    ones: Sequence[Any],
    others: Sequence[Any],
    likes: Sequence[Any],
) -> tuple[Any, ...]:
    """Products with the shapes of `likes`; sums over dimensions that these broadcast are of f32."""
    rest = [None] * (len(function.arrays) - 2)
    if function.call.is_of_lists:
        known = function.options(**options, out_dtype=element_type(likes[0], "as_").name)
        return function.traced(("out",), known, (tuple(ones), tuple(others), *rest))
    (one,), (other,), (like,) = ones, others, likes
    batch = jnp.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    is_summed = batch != like.shape[:-2]
    wide = "f32" if is_summed and like.dtype != jnp.float64 else element_type(like, "a").name
    known = function.options(**options, out_dtype=wide)
    (product,) = function.traced(("out",), known, (one, other, *rest))
    return (_summed(product, like.shape).astype(like.dtype),)


def _column_sums(gradient: Any) -> Any:
    """The sums over all dimensions but the last, in f32 or wider."""
    wide = gradient.astype(jnp.promote_types(gradient.dtype, jnp.float32))
    return wide.sum(tuple(range(gradient.ndim - 1)))


def _summed(value: Any, shape: tuple[int, ...]) -> Any:
    """A gradient summed over the dimensions along which its array was broadcast."""
    if value.shape == shape:
        return value
    missing = value.ndim - len(shape)
    value = value.sum(tuple(range(missing)))
    ones = tuple(i for i, extent in enumerate(shape) if extent == 1 and value.shape[i] != 1)
    return value.sum(ones, keepdims=True)


def _rule(given: Mapping[str, Any], count: int) -> Rule:
    """Rows, columns and batches are parted, the depth is not; nor are the operands of which scales
    of rows, columns or blocks are. One that is broadcast is a factor of its own.
    """
    a, b = given["a"], given["b"]
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    sizes = {"i": a.shape[-2], "j": b.shape[-1], "k": a.shape[-1]}
    sizes |= {f"b{place}": extent for place, extent in enumerate(reversed(batch))}
    shapes = {name: array.shape for name, array in given.items()}
    shapes["out"] = (*batch, sizes["i"], sizes["j"])
    found: dict[str, Factors] = {}
    for name, shape in shapes.items():
        tail = _TAILS.get(name, "")
        heads = [f"b{place}" for place in reversed(range(len(shape) - len(tail)))]
        factors = [*heads, *tail] if tail else [""] * len(shape)
        found[name] = tuple(
            factor if sizes.get(factor) == extent else f"{name}{place}"
            for place, (factor, extent) in enumerate(zip(factors, shape, strict=True))
        )
    result = found.pop("out")
    is_scaled = any(array.ndim for name, array in given.items() if name.startswith("scale_"))
    whole = frozenset("ij") if is_scaled else frozenset()
    return Rule(tuple(found.values()), (result,) * count, whole)


def _rule_of_lists(given: Mapping[str, Sequence[Any]], count: int) -> Rule:
    """The rule of each problem, with factors of its own."""
    problems = [
        _rule(dict(zip(map(_one, given), arrays, strict=True)), count)
        for arrays in zip(*given.values(), strict=True)
    ]
    arguments = [
        tuple(f"p{number}{factor}" for factor in problem.arguments[place])
        for place in range(len(given))
        for number, problem in enumerate(problems)
    ]
    results = [
        tuple(f"p{number}{factor}" for factor in result)
        for number, problem in enumerate(problems)
        for result in problem.results
    ]
    return Rule(tuple(arguments), tuple(results))


def _one(name: str) -> str:
    """What an array of a list is called in `cute.gemm`."""
    return SINGLE_NAMES.get(name, name)


GEMM = Own(
    """`cute.gemm` under jit, grad and vmap: activation(alpha A B + beta C + bias) of a
    (..., M, K) and b (..., K, N), with gradients (reverse mode) for a, b, c and bias of f16, bf16,
    f32 (as tf32, or in the `precision` "3xtf32" of the product) and f64.

    Arguments and result are those of `cute.gemm`; alpha and beta are numbers known when JAX traces.
    vmap calls the kernel once for each element: batch dimensions of the arguments are one launch.
    Of arrays that several devices share each multiplies its rows, columns and batches; the depth,
    and what scales of rows, columns or blocks belong to, is gathered.
    Raises TypeError or ValueError naming the argument, also for what has no gradient where one is
    taken (scales, 8-bit operands, an activation that is a function).
    """,
    _forward,
    _backward,
    _rule,
)
GROUPED_GEMM = Own(
    """`cute.grouped_gemm` under jit, grad and vmap: a result for each a (M, K) of `as_` and b
    (K, N) of `bs`, in one launch, with gradients for all lists where `activation` is None or
    "relu".

    Arguments and results are those of `cute.grouped_gemm`, without scales. Of arrays that several
    devices share each multiplies its rows and columns of each problem; the depth is gathered.
    Raises TypeError or ValueError naming the argument.
    """,
    _forward,
    _backward,
    _rule_of_lists,
)
