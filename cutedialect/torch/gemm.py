"""`cutedialect::gemm` and its backward: two products, dA = dC B^T and dB = A^T dC, by the same
operator. `gemm_aux` also returns what stands before the activation, which others than relu need for
theirs; `gemm_out` writes tensors of the caller.
"""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import torch

from cutedialect.choices import Activation, Arch, Backend, Precision
from cutedialect.frontend.gemm import gemm as direct_gemm
from cutedialect.frontend.gemm_operands import result_dtype
from cutedialect.schedule import Schedule

from .operators import (
    check_deterministic,
    check_forward_mode,
    define,
    element_type,
    is_direct,
    is_transformed,
    needs_gradient,
    schedule_text,
    torch_dtype,
    with_backward,
)

_OPERANDS = (
    "Tensor a, Tensor b, Tensor? c=None, Tensor? bias=None, Tensor? scale_a=None, "
    "Tensor? scale_b=None, float? factor_a=None, float? factor_b=None, float alpha=1.0, "
    "float beta=0.0, str? activation=None, ScalarType? acc_dtype=None, bool fast_accum=True, "
    "ScalarType? out_dtype=None, str? arch=None, str? schedule=None, str backend='auto', "
    "str? precision=None"
)
_CASTS = ("a", "b", "c", "bias")
# Activations whose derivative is known from the result; others need what stands before them.
_FROM_RESULT = (None, "relu")
ACTIVATIONS = ", ".join(map(repr, get_args(Activation)))
DIFFERENTIABLE = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    *,
    c: torch.Tensor | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: torch.Tensor | None = None,
    activation: Activation | Callable[..., Any] | None = None,
    scale_a: torch.Tensor | float | None = None,
    scale_b: torch.Tensor | float | None = None,
    acc_dtype: object = None,
    fast_accum: bool = True,
    precision: Precision | None = None,
    aux: torch.Tensor | None = None,
    out: torch.Tensor | None = None,
    out_dtype: object = None,
    arch: Arch | None = None,
    schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> torch.Tensor:
    """`cute.gemm` as torch sees it: activation(alpha A B + beta C + bias) of a (..., M, K) and
    b (..., K, N), with gradients for a, b, c and bias of f16, bf16, f32 (as tf32, or in the
    `precision` "3xtf32" of the product) and f64.

    Arguments and result are those of `cute.gemm`, on torch's current stream. A backward computes
    its products in the operands' element type, sums over broadcast dimensions in f32. Where a
    gradient is required or torch compiles, `activation` is a name or None. Raises
    TypeError or ValueError naming the argument, also for scales, `out` and `aux` where a gradient
    is required.
    """
    tensors: tuple[Any, ...] = (a, b, c, bias, aux, out)
    if scale_a is not None or scale_b is not None:
        scales = (scale_a, scale_b)
        tensors += tuple(scale for scale in scales if isinstance(scale, torch.Tensor))
    text = schedule_text(schedule)
    if is_direct(tensors):
        check_deterministic(text)
        return direct_gemm(
            a, b, c=c, alpha=alpha, beta=beta, bias=bias, activation=activation,
            scale_a=scale_a, scale_b=scale_b, acc_dtype=acc_dtype, fast_accum=fast_accum,
            precision=precision, aux=aux, out=out, out_dtype=out_dtype, arch=arch,
            schedule=schedule, backend=backend,
        )  # fmt: skip
    if activation is not None and not isinstance(activation, str):
        raise TypeError(
            f"activation: expected {ACTIVATIONS} or None where a gradient is required or torch "
            "compiles, got a function; make your kernel an operator by cutedialect.torch.op"
        )
    tensor_a, factor_a = _split(scale_a)
    tensor_b, factor_b = _split(scale_b)
    options = (
        c, bias, tensor_a, tensor_b, factor_a, factor_b, float(alpha), float(beta), activation,
        torch_dtype(acc_dtype, "acc_dtype"), fast_accum, torch_dtype(out_dtype, "out_dtype"), arch,
        text, backend, precision,
    )  # fmt: skip
    check_forward_mode((a, b, c, bias))
    operators = torch.ops.cutedialect
    if out is None and aux is None:
        if activation in _FROM_RESULT or not needs_gradient((a, b, c, bias)):
            return (
                _Gemm.apply(a, b, *options) if is_transformed() else operators.gemm(a, b, *options)
            )
        return (_GemmAux.apply if is_transformed() else operators.gemm_aux)(a, b, *options)[0]
    for name, written in (("out", out), ("aux", aux)):
        if written is not None and needs_gradient((a, b, c, bias, out, aux)):
            raise ValueError(
                f"{name}: expected None where a gradient is required, got a tensor; take the "
                "result, or torch.no_grad()"
            )
    made = out
    if made is None:
        made = _fake_gemm(a, b, *options)  # pyright: ignore[reportArgumentType]
    operators.gemm_out(made, aux, a, b, *options)
    return made


def _split(scale: torch.Tensor | float | None) -> tuple[torch.Tensor | None, float | None]:
    """A scale as (tensor, number), one of which is None."""
    if scale is None or isinstance(scale, torch.Tensor):
        return scale, None
    return None, float(scale)


def _run(
    a: Any, b: Any, c: Any = None, bias: Any = None, scale_a: Any = None, scale_b: Any = None,
    factor_a: float | None = None, factor_b: float | None = None, alpha: float = 1.0,
    beta: float = 0.0, activation: Activation | None = None, acc_dtype: Any = None,
    fast_accum: bool = True, out_dtype: Any = None, arch: Arch | None = None,
    schedule: str | None = None, backend: Backend = "auto", precision: Precision | None = None,
    *, out: Any = None, aux: Any = None,
) -> Any:  # fmt: skip
    check_deterministic(schedule)
    return direct_gemm(
        a, b, c=c, alpha=alpha, beta=beta, bias=bias, activation=activation,
        scale_a=factor_a if scale_a is None else scale_a,
        scale_b=factor_b if scale_b is None else scale_b,
        acc_dtype=acc_dtype, fast_accum=fast_accum, precision=precision, aux=aux, out=out,
        out_dtype=out_dtype, arch=arch, schedule=schedule, backend=backend,
    )  # fmt: skip


def _run_aux(a: Any, b: Any, *options: Any) -> tuple[Any, Any]:
    aux = _fake_gemm(a, b, *options)
    return _run(a, b, *options, aux=aux), aux


def _run_out(out: Any, aux: Any, a: Any, b: Any, *options: Any) -> None:
    _run(a, b, *options, out=out, aux=aux)


def _fake_gemm(
    a: Any, b: Any, c: Any = None, bias: Any = None, scale_a: Any = None, scale_b: Any = None,
    factor_a: float | None = None, factor_b: float | None = None, alpha: float = 1.0,
    beta: float = 0.0, activation: Activation | None = None, acc_dtype: Any = None,
    fast_accum: bool = True, out_dtype: Any = None, *rest: Any,
) -> Any:  # fmt: skip
    """A result of the right shape and type, of any contents."""
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
    is_scaled = any(scale is not None for scale in (scale_a, scale_b, factor_a, factor_b))
    if out_dtype is None:
        out_dtype = torch_dtype(result_dtype(element_type(a.dtype, "a"), is_scaled), "out_dtype")
    batch = torch.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return a.new_empty((*batch, a.shape[-2], b.shape[-1]), dtype=out_dtype)


def _fake_aux(a: Any, b: Any, *options: Any) -> tuple[Any, Any]:
    return _fake_gemm(a, b, *options), _fake_gemm(a, b, *options)


def _fake_out(out: Any, aux: Any, a: Any, b: Any, *options: Any) -> None:
    _fake_gemm(a, b, *options)


define("gemm", f"({_OPERANDS}) -> Tensor", _run, _fake_gemm, _CASTS)
define("gemm_aux", f"({_OPERANDS}) -> (Tensor, Tensor)", _run_aux, _fake_aux, _CASTS)
define(
    "gemm_out", f"(Tensor(a!) out, Tensor(b!)? aux, {_OPERANDS}) -> ()", _run_out, _fake_out, _CASTS
)


def check_differentiable(a: Any, b: Any, scales: tuple[Any, ...]) -> None:
    """Refuse what has no backward, with a remedy."""
    for name, tensor in (("a", a), ("b", b)):
        if tensor.dtype not in DIFFERENTIABLE:
            raise TypeError(
                f"{name}: expected f16, bf16, f32 or f64 where a gradient is required, got "
                f"{element_type(tensor.dtype, name).name}; take torch.no_grad(), or 16-bit operands"
            )
    if any(scale is not None for scale in scales):
        raise ValueError(
            "scale_a, scale_b: expected None where a gradient is required, got a scale; multiply "
            "a or b by it in torch, or use alpha for one number"
        )


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    check_differentiable(inputs[0], inputs[1], inputs[4:8])
    activation = inputs[10]
    if activation not in _FROM_RESULT:
        raise ValueError(
            f"activation: expected None or 'relu' for a gradient of cutedialect::gemm, got "
            f"{activation!r}; call cutedialect.torch.gemm, which takes cutedialect::gemm_aux"
        )
    _keep(ctx, inputs, output if activation == "relu" else None)


def _remember_aux(ctx: Any, inputs: tuple[Any, ...], output: tuple[Any, Any]) -> None:
    check_differentiable(inputs[0], inputs[1], inputs[4:8])
    _keep(ctx, inputs, output[1])


def _keep(ctx: Any, inputs: tuple[Any, ...], before_or_after: Any) -> None:
    """What a backward needs: operands, the activation with what its derivative is taken of."""
    a, b, c, bias = inputs[:4]
    ctx.alpha, ctx.beta, ctx.activation = inputs[8:11]
    ctx.arch, ctx.backend, ctx.precision = inputs[14], inputs[16], inputs[17]
    ctx.c = None if c is None else (c.shape, c.dtype)
    ctx.bias = None if bias is None else bias.dtype
    ctx.save_for_backward(a, b, before_or_after)


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
    return (of_a, of_b, of_c, of_bias, *(None,) * 14)


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


class _Gemm(torch.autograd.Function):
    """The operator in the form that transforms of torch.func take."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return torch.ops.cutedialect.gemm(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _remember(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _backward(ctx, *gradients)


class _GemmAux(torch.autograd.Function):
    """`_Gemm` with what stands before the activation."""

    generate_vmap_rule = True

    @staticmethod
    def forward(*inputs: Any) -> Any:
        return torch.ops.cutedialect.gemm_aux(*inputs)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
        _remember_aux(ctx, inputs, output)

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> Any:
        return _backward_aux(ctx, *gradients)
