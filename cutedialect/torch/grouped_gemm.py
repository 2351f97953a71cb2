"""`cutedialect::grouped_gemm` and its backward, which is two grouped products."""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import torch

from cutedialect.frontend.declarations import GROUPED_GEMM
from cutedialect.frontend.grouped_gemm import grouped_gemm as direct_grouped_gemm

from .declared import Given, Operator, Values
from .gemm import ACTIVATIONS, check_differentiable, fake_product, has_scales
from .operators import check_forward_mode, with_backward

OPERATOR = Operator(GROUPED_GEMM, direct_grouped_gemm)


def _operated(named: dict[str, Any], tensors: tuple[Any, ...], values_of: Values) -> Any:
    activation = named["activation"]
    if activation is not None and not isinstance(activation, str):
        raise TypeError(
            f"activation: expected {ACTIVATIONS} or None where a gradient is required or torch "
            "compiles, got a function"
        )
    for name in ("out", "aux"):
        if named[name] is not None:
            raise ValueError(
                f"{name}: expected None where a gradient is required or torch compiles, got a "
                "list; take the result"
            )
    check_forward_mode((*named["as_"], *named["bs"]))
    return torch.ops.cutedialect.grouped_gemm(*values_of())


def _fake(given: Given) -> Any:
    as_, bs = given.as_, given.bs
    if len(as_) != len(bs):
        raise ValueError(f"bs: expected {len(as_)} arrays as in as_, got {len(bs)}")
    return [
        fake_product(SimpleNamespace(**vars(given), a=a, b=b)) for a, b in zip(as_, bs, strict=True)
    ]


OPERATOR.define(_fake, "Tensor[]", casts=("as_", "bs", "c", "bias"))


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    given = OPERATOR.given(inputs)
    as_, bs, c, bias = given.as_, given.bs, given.c, given.bias
    ctx.alpha, ctx.beta, ctx.activation = given.alpha, given.beta, given.activation
    ctx.arch, ctx.backend = given.arch, given.backend
    for a, b in zip(as_, bs, strict=True):
        check_differentiable(a, b, has_scales(given))
    if ctx.activation not in (None, "relu"):
        raise ValueError(
            f"activation: expected None or 'relu' for a gradient of grouped_gemm, got "
            f"{ctx.activation!r}; apply it to the results in torch"
        )
    ctx.count = len(as_)
    ctx.c = None if c is None else [(each.shape, each.dtype) for each in c]
    ctx.bias = None if bias is None else [each.dtype for each in bias]
    results = list(output) if ctx.activation == "relu" else []
    ctx.save_for_backward(*as_, *bs, *results)


def _backward(ctx: Any, gradients: Any) -> tuple[Any, ...]:
    saved, count = ctx.saved_tensors, ctx.count
    as_, bs, results = saved[:count], saved[count : 2 * count], saved[2 * count :]
    through = [
        torch.zeros((a.shape[0], b.shape[1]), dtype=a.dtype, device=a.device)
        if gradient is None
        else gradient
        for gradient, a, b in zip(gradients, as_, bs, strict=True)
    ]
    if results:
        through = [
            torch.ops.aten.threshold_backward(gradient, result, 0)
            for gradient, result in zip(through, results, strict=True)
        ]
    of_c = of_bias = None
    if ctx.c is not None:
        of_c = [
            (gradient * ctx.beta).sum_to_size(shape).to(dtype)
            for gradient, (shape, dtype) in zip(through, ctx.c, strict=True)
        ]
    if ctx.bias is not None:
        of_bias = [
            gradient.sum(0).to(dtype) for gradient, dtype in zip(through, ctx.bias, strict=True)
        ]
    through = [gradient.to(a.dtype).contiguous() for gradient, a in zip(through, as_, strict=True)]
    options = {"alpha": ctx.alpha, "arch": ctx.arch, "backend": ctx.backend}
    product = torch.ops.cutedialect.grouped_gemm
    of_a: list[Any] = [None] * count
    of_b: list[Any] = [None] * count
    wants = ctx.needs_input_grad
    if any(wants[0]):
        of_a = product(through, [b.mT for b in bs], out_dtype=as_[0].dtype, **options)
    if any(wants[1]):
        of_b = product([a.mT for a in as_], through, out_dtype=bs[0].dtype, **options)
    # torch leaves out trailing arguments that have their defaults.
    return OPERATOR.gradients(as_=of_a, bs=of_b, c=of_c, bias=of_bias)[: len(wants)]


with_backward("grouped_gemm", _backward, _remember)

if TYPE_CHECKING:
    from .typed_calls import grouped_gemm
else:
    grouped_gemm = OPERATOR.function(
        globals(),
        """`cute.grouped_gemm` as torch sees it, with gradients for the tensors of `as_`, `bs`, `c`
    and `bias`, of f16, bf16, f32 (as tf32) and f64, for activations None and "relu".

    Raises TypeError or ValueError naming the argument, also for scales, `out` and `aux` where a
    gradient is required, and for `out` and `aux` where torch compiles.
    """,
        _operated,
    )
