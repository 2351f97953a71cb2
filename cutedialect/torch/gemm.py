"""`cutedialect::gemm` and its backward: two products, dA = dC B^T and dB = A^T dC, by the same
operator. `gemm_aux` also returns what stands before the activation, which others than relu need for
theirs; `gemm_out` writes tensors of the caller.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, get_args

import torch

from cutedialect.choices import Activation
from cutedialect.frontend.declarations import GEMM
from cutedialect.frontend.gemm import gemm as direct_gemm
from cutedialect.frontend.gemm_operands import result_dtype

from .declared import Given, Operator, Values, transformable
from .operators import (
    check_forward_mode,
    element_type,
    is_transformed,
    needs_gradient,
    torch_dtype,
    with_backward,
)

_CASTS = ("a", "b", "c", "bias")
# Activations whose derivative is known from the result; others need what stands before them.
_FROM_RESULT = (None, "relu")
ACTIVATIONS = ", ".join(map(repr, get_args(Activation)))
DIFFERENTIABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)
OPERATOR = Operator(GEMM, direct_gemm)


def _operated(named: dict[str, Any], tensors: tuple[Any, ...], values_of: Values) -> Any:
    activation, out, aux = named["activation"], named["out"], named["aux"]
    if activation is not None and not isinstance(activation, str):
        raise TypeError(
            f"activation: expected {ACTIVATIONS} or None where a gradient is required or torch "
            "compiles, got a function; make your kernel an operator by cutedialect.torch.op"
        )
    values = values_of()
    operands = [named[name] for name in _CASTS]
    check_forward_mode(operands)
    operators = torch.ops.cutedialect
    if out is None and aux is None:
        if activation in _FROM_RESULT or not needs_gradient(operands):
            return (_Gemm.apply if is_transformed() else operators.gemm)(*values)
        return (_GemmAux.apply if is_transformed() else operators.gemm_aux)(*values)[0]
    for name, written in (("out", out), ("aux", aux)):
        if written is not None and needs_gradient((*operands, out, aux)):
            raise ValueError(
                f"{name}: expected None where a gradient is required, got a tensor; take the "
                "result, or torch.no_grad()"
            )
    made = out
    if made is None:
        made = fake_product(OPERATOR.given(values))
    operators.gemm_out(made, aux, *values)
    return made


def _run_aux(given: Given) -> tuple[Any, Any]:
    aux = fake_product(given)
    return OPERATOR.run(given, aux=aux), aux


def _run_out(given: Given) -> None:
    OPERATOR.run(given)


def fake_product(given: Given) -> Any:
    """A result of the right shape and type, of any contents."""
    a, b = given.a, given.b
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dim() < 2:
            raise ValueError(
                f"{name}: expected 2 or more dimensions, got shape {tuple(tensor.shape)}"
            )
    torch._check(
        a.shape[-1] == b.shape[-2],
        lambda: (
            f"b: expected {a.shape[-1]} rows (a is {tuple(a.shape)}), got {b.shape[-2]} in shape "
            f"{tuple(b.shape)}"
        ),
    )
    is_scaled, out_dtype = has_scales(given), given.out_dtype
    if out_dtype is None:
        out_dtype = torch_dtype(result_dtype(element_type(a.dtype, "a"), is_scaled), "out_dtype")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=out_dtype)


def has_scales(given: Given) -> bool:
    """Whether an operand is scaled."""
    return given.scale_a is not None or given.scale_b is not None


def _fake_out(given: Given) -> None:
    fake_product(given)


OPERATOR.define(fake_product, "Tensor", casts=_CASTS)
OPERATOR.define(
    lambda given: (fake_product(given), fake_product(given)),
    "(Tensor, Tensor)",
    suffix="_aux",
    run=_run_aux,
    casts=_CASTS,
)
OPERATOR.define(
    _fake_out,
    "()",
    suffix="_out",
    leading={"out": "Tensor(a!) out", "aux": "Tensor(b!)? aux"},
    run=_run_out,
    casts=_CASTS,
)


def check_differentiable(a: Any, b: Any, is_scaled: bool) -> None:
    """Refuse what has no backward, with a remedy."""
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype not in DIFFERENTIABLE:
            raise TypeError(
                f"{name}: expected f16, bf16, f32 or f64 where a gradient is required, got "
                f"{element_type(tensor.dtype, name).name}; take torch.no_grad(), or 16-bit operands"
            )
    if is_scaled:
        raise ValueError(
            "scale_a, scale_b: expected None where a gradient is required, got a scale; multiply "
            "a or b by it in torch, or use alpha for one number"
        )


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    given = _differentiable(inputs)
    if given.activation not in _FROM_RESULT:
        raise ValueError(
            f"activation: expected None or 'relu' for a gradient of cutedialect::gemm, got "
            f"{given.activation!r}; call cutedialect.torch.gemm, which takes cutedialect::gemm_aux"
        )
    _keep(ctx, given, output if given.activation == "relu" else None)


def _remember_aux(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
    _keep(ctx, _differentiable(inputs), output[1])


def _differentiable(inputs: tuple[Any, ...]) -> Given:
    given = OPERATOR.given(inputs)
    check_differentiable(given.a, given.b, has_scales(given))
    return given


def _keep(ctx: Any, given: Given, before_or_after: Any) -> None:
    """What a backward needs: operands, the activation with what its derivative is taken of."""
    ctx.alpha, ctx.beta, ctx.activation = given.alpha, given.beta, given.activation
    ctx.arch, ctx.backend, ctx.precision = given.arch, given.backend, given.precision
    ctx.c = None if given.c is None else (given.c.shape, given.c.dtype)
    ctx.bias = None if given.bias is None else given.bias.dtype
    ctx.save_for_backward(given.a, given.b, before_or_after)


def _backward(ctx: Any, gradient: Any) -> tuple[Any, ...]:
    a, b, result = ctx.saved_tensors
    if ctx.activation == "relu":
        gradient = torch.ops.aten.threshold_backward(gradient, result, 0)
    return _operand_gradients(ctx, a, b, gradient)


def _backward_aux(ctx: Any, gradient: Any, gradient_before: Any) -> tuple[Any, ...]:
    a, b, before = ctx.saved_tensors
    through = gradient
    if gradient is not None and ctx.activation is not None:
        through = _DERIVATIVES[ctx.activation](gradient, before)
    if gradient_before is not None:
        through = gradient_before if through is None else through + gradient_before
    return _operand_gradients(ctx, a, b, through)


_DERIVATIVES: dict[str, Callable[[Any, Any], Any]] = {
    "relu": lambda gradient, before: torch.ops.aten.threshold_backward(gradient, before, 0),
    "gelu": lambda gradient, before: torch.ops.aten.gelu_backward(gradient, before),
    "silu": lambda gradient, before: _silu_backward(gradient, before),
    "tanh": lambda gradient, before: torch.ops.aten.tanh_backward(gradient, torch.tanh(before)),
    "sigmoid": lambda gradient, before: torch.ops.aten.sigmoid_backward(
        gradient, torch.sigmoid(before)
    ),
}


def _silu_backward(gradient: Any, before: Any) -> Any:
    """torch's own has no derivative, so that it is spelled out where one may be taken of it."""
    if not torch.is_grad_enabled():
        return torch.ops.aten.silu_backward(gradient, before)
    sigmoid = torch.sigmoid(before)
    return gradient * sigmoid * (1 + before * (1 - sigmoid))


def _operand_gradients(ctx: Any, a: Any, b: Any, gradient: Any) -> tuple[Any, ...]:
    """The gradients of a, b, c, bias, and None for every other argument."""
    wants = wanted(ctx)
    of_c = of_bias = None
    if wants[2] and ctx.c is not None and ctx.beta != 0:
        shape, dtype = ctx.c
        of_c = _summed(gradient * ctx.beta, shape).to(dtype)
    if wants[3] and ctx.bias is not None:
        of_bias = gradient.sum(tuple(range(gradient.dim() - 1))).to(ctx.bias)
    of_a, of_b = product_gradients(
        a, b, gradient, wants[0], wants[1], alpha=ctx.alpha, arch=ctx.arch, backend=ctx.backend,
        precision=ctx.precision,
    )  # fmt: skip
    return OPERATOR.gradients(a=of_a, b=of_b, c=of_c, bias=of_bias)


def wanted(ctx: Any) -> tuple[Any, ...]:
    """Whether each of the first four arguments wants a gradient: torch leaves out trailing
    arguments that have their defaults.
    """
    return (*ctx.needs_input_grad, False, False)[:4]


def product_gradients(
    a: Any, b: Any, gradient: Any, wants_a: bool, wants_b: bool, **options: Any
) -> tuple[Any, Any]:
    """dA = G B^T and dB = A^T G of a product A B; None for one that is not wanted."""
    gradient = gradient.to(a.dtype).contiguous()
    of_a = of_b = None
    if wants_a:
        of_a = _product(gradient, b.mT, a, **options)
    if wants_b and b.dim() == 2:
        rows = a.flatten(0, -2)
        of_b = _product(rows.mT, gradient.flatten(0, -2), b, **options)
    elif wants_b:
        of_b = _product(a.mT, gradient, b, **options)
    return of_a, of_b


def _product(one: Any, other: Any, like: Any, *, alpha: float, **options: Any) -> Any:
    """A product in the shape of `like`; sums over dimensions that `like` broadcasts are of f32."""
    batch = torch.broadcast_shapes(one.shape[:-2], other.shape[:-2])
    is_summed = tuple(batch) != tuple(like.shape[:-2])
    dtype = torch.float32 if is_summed and like.dtype != torch.float64 else like.dtype
    product = gemm(one, other, alpha=alpha, out_dtype=dtype, **options)
    return _summed(product, like.shape).to(like.dtype)


def _summed(value: Any, shape: Any) -> Any:
    return value if value.shape == shape else value.sum_to_size(shape)


with_backward("gemm", _backward, _remember)
with_backward("gemm_aux", _backward_aux, _remember_aux)
_Gemm = transformable("gemm", _backward, _remember)
_GemmAux = transformable("gemm_aux", _backward_aux, _remember_aux)

if TYPE_CHECKING:
    from .typed_calls import gemm
else:
    gemm = OPERATOR.function(
        globals(),
        """`cute.gemm` as torch sees it: activation(alpha A B + beta C + bias) of a (..., M, K) and
    b (..., K, N), with gradients for a, b, c and bias of f16, bf16, f32 (as tf32, or in the
    `precision` "3xtf32" of the product) and f64.

    Arguments and result are those of `cute.gemm`, on torch's current stream. A backward computes
    its products in the operands' element type, sums over broadcast dimensions in f32. Where a
    gradient is required or torch compiles, `activation` is a name or None. Raises
    TypeError or ValueError naming the argument, also for scales, `out` and `aux` where a gradient
    is required.
    """,
        _operated,
    )
