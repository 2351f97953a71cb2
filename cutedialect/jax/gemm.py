"""`cute.gemm` for JAX, with its gradient: dA = dC B^T and dB = A^T dC by the same function, the
activation's derivative by JAX from what stands before it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from math import prod
from typing import TYPE_CHECKING, Any

import jax  # pyright: ignore[reportMissingImports]
import jax.numpy as jnp  # pyright: ignore[reportMissingImports]

from cutedialect.frontend.declarations import GEMM
from cutedialect.frontend.dtypes import DType, as_dtype, bf16, f16, f32, f64
from cutedialect.frontend.gemm import gemm as direct_gemm
from cutedialect.frontend.gemm_operands import result_dtype

from .custom_call import custom_call, element_type, struct
from .declared import Function, Options
from .partitioning import Factors, Rule

_FUNCTION = Function(GEMM, direct_gemm)
DIFFERENTIABLE = (f16, bf16, f32, f64)
_DERIVED: dict[str, Callable[[Any], Any]] = {
    "relu": jax.nn.relu,
    "gelu": partial(jax.nn.gelu, approximate=False),
    "silu": jax.nn.silu,
    "tanh": jax.numpy.tanh,
    "sigmoid": jax.nn.sigmoid,
}


@partial(jax.custom_vjp, nondiff_argnums=(0,))
def _gemm(options: Options, arrays: tuple[Any, ...]) -> Any:
    return _called(options, arrays)[0]


def _called(options: Options, arrays: tuple[Any, ...], *, aux: bool = False) -> list[Any]:
    """The result of the custom call, and with `aux` what stands before the activation."""
    a, b = arrays[:2]
    if a.ndim < 2 or b.ndim < 2 or 0 not in (*a.shape[:-1], *b.shape[:-2], b.shape[-1]):
        _FUNCTION.compile(options, arrays)
    element = result_type(options, a, arrays[4:])
    names = ["out", "aux"] if aux else ["out"]
    text, given = _FUNCTION.text(options, arrays, names), _FUNCTION.given(arrays)
    values = list(given.values())
    if jax.device_count() == 1:
        return list(_product_call(text, element, len(names), *values))
    return list(_parted(text, element, len(names), _rule(given, len(names)))(*values))


def result_type(options: Options, a: Any, scales: tuple[Any, ...] = (), name: str = "a") -> DType:
    """The element type of a product."""
    known = dict(options)
    if known["out_dtype"] is not None:
        element_type(a, name)
        return as_dtype(known["out_dtype"])
    return result_dtype(element_type(a, name), has_scales(options, scales))


def has_scales(options: Options, scales: tuple[Any, ...]) -> bool:
    """Whether an operand is scaled, by a number or an array."""
    return any(name.startswith("scale_") for name, _ in options) or any(
        each is not None for each in scales
    )


def _product_call(text: str, element: DType, count: int, *arrays: Any) -> list[Any]:
    """The custom call for a product and what stands before its activation, whole or in part."""
    one, other = arrays[:2]
    batch: Any = jnp.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    shape = (*batch, one.shape[-2], other.shape[-1])
    return custom_call(json.loads(text), [struct(shape, element)] * count, arrays)


@lru_cache(maxsize=1024)
def _parted(text: str, element: DType, count: int, rule: Rule) -> Callable[..., Any]:
    return rule.apply(partial(_product_call, text, element, count))


def _rule(given: Mapping[str, Any], count: int) -> Rule:
    """Rows, columns and batches are parted, the depth is not; nor are the operands of which scales
    of rows, columns or blocks are.
    """
    factors = _factors(given)
    result = factors.pop("out")
    is_scaled = any(given[name].ndim for name in _FUNCTION.arrays[4:] if name in given)
    whole = frozenset("ij") if is_scaled else frozenset()
    return Rule(tuple(factors.values()), (result,) * count, whole)


def _factors(given: Mapping[str, Any]) -> dict[str, Factors]:
    """What the dimensions of the arrays of a product are: rows i, depth k, columns j, and batches
    by their place from the right. One that is broadcast is a factor of its own.
    """
    a, b = given["a"], given["b"]
    batch = jnp.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    tails = {"a": "ik", "b": "kj", "c": "ij", "bias": "j", "out": "ij"}
    sizes = {"i": a.shape[-2], "j": b.shape[-1], "k": a.shape[-1]}
    sizes |= {f"b{place}": extent for place, extent in enumerate(reversed(batch))}
    shapes = {name: array.shape for name, array in given.items()}
    shapes["out"] = (*batch, sizes["i"], sizes["j"])
    found: dict[str, Factors] = {}
    for name, shape in shapes.items():
        tail = tails.get(name, "")
        heads = [f"b{place}" for place in reversed(range(len(shape) - len(tail)))]
        factors = [*heads, *tail] if tail else [""] * len(shape)
        found[name] = tuple(
            factor if sizes.get(factor) == extent else f"{name}{place}"
            for place, (factor, extent) in enumerate(zip(factors, shape, strict=True))
        )
    return found


def check_differentiable(options: Options, arrays: tuple[Any, ...]) -> None:
    """Refuse what has no gradient, with a remedy."""
    for name, array in zip(("a", "b"), arrays, strict=False):
        if element_type(array, name) not in DIFFERENTIABLE:
            raise TypeError(
                f"{name}: expected f16, bf16, f32 or f64 where a gradient is taken, got "
                f"{element_type(array, name).name}; take jax.lax.stop_gradient, or 16-bit operands"
            )
    if has_scales(options, arrays[4:]):
        raise ValueError(
            "scale_a, scale_b: expected None where a gradient is taken, got a scale; multiply a or "
            "b by it in JAX, or use alpha for one number"
        )
    if callable(dict(options)["activation"]):
        raise TypeError(
            f"activation: expected {', '.join(map(repr, _DERIVED))} or None where a gradient is "
            "taken, got a function; apply it to the result in JAX"
        )


def _forward(options: Options, arrays: tuple[Any, ...]) -> tuple[Any, Any]:
    check_differentiable(options, arrays)
    before = None
    if dict(options)["activation"] is None:
        result = _gemm(options, arrays)
    else:
        result, before = _called(options, arrays, aux=True)
    return result, (arrays, before)


def _backward(options: Options, kept: Any, gradient: Any) -> tuple[Any]:
    arrays, before = kept
    a, b, c, bias = arrays[:4]
    if before is not None:
        (gradient,) = jax.vjp(_DERIVED[dict(options)["activation"]], before)[1](gradient)
    of_c = of_bias = None
    if c is not None:
        of_c = summed(dict(options)["beta"] * gradient, c.shape).astype(c.dtype)
    if bias is not None:
        of_bias = column_sums(gradient).astype(bias.dtype)
    of_a, of_b = product_gradients(options, a, b, gradient)
    return ((of_a, of_b, of_c, of_bias, None, None),)


_gemm.defvjp(_forward, _backward)


def column_sums(gradient: Any) -> Any:
    """The sums over all dimensions but the last, in f32 or wider."""
    wide = gradient.astype(jnp.promote_types(gradient.dtype, jnp.float32))
    return wide.sum(tuple(range(gradient.ndim - 1)))


def product_gradients(options: Options, a: Any, b: Any, gradient: Any) -> tuple[Any, Any]:
    """dA = G B^T and dB = A^T G of alpha A B; sums over broadcast dimensions are of f32."""
    gradient = gradient.astype(a.dtype)
    known = dict(options)
    kept = {name: known.get(name) for name in ("alpha", "arch", "backend", "precision")}
    of_a = _product(kept, gradient, b.swapaxes(-1, -2), a)
    if b.ndim == 2:  # all rows at once
        rows = prod(a.shape[:-1])
        a, gradient = (x.reshape(rows, x.shape[-1]) for x in (a, gradient))
    return of_a, _product(kept, a.swapaxes(-1, -2), gradient, b)


def _product(options: Mapping[str, Any], one: Any, other: Any, like: Any) -> Any:
    batch = jnp.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    is_summed = batch != like.shape[:-2]
    wide = "f32" if is_summed and like.dtype != jnp.float64 else element_type(like, "a").name
    arrays = (one, other, None, None, None, None)
    product = _gemm(_FUNCTION.options(**options, out_dtype=wide), arrays)
    return summed(product, like.shape).astype(like.dtype)


def summed(value: Any, shape: tuple[int, ...]) -> Any:
    """A gradient summed over the dimensions along which its array was broadcast."""
    if value.shape == shape:
        return value
    missing = value.ndim - len(shape)
    value = value.sum(tuple(range(missing)))
    ones = tuple(i for i, extent in enumerate(shape) if extent == 1 and value.shape[i] != 1)
    return value.sum(ones, keepdims=True)


if TYPE_CHECKING:
    from .typed_calls import gemm
else:
    gemm = _FUNCTION.function(
        __name__,
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
        lambda options, arrays, _: _gemm(options, arrays),
    )
