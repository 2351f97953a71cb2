"""`cutedialect::grouped_gemm` and its backward, which is two grouped products."""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch

from cutedialect.choices import Activation, Arch, Backend
from cutedialect.frontend.grouped_gemm import grouped_gemm as direct_grouped_gemm
from cutedialect.schedule import Schedule

from .gemm import ACTIVATIONS, _fake_gemm, check_differentiable
from .operators import (
    check_deterministic,
    check_forward_mode,
    define,
    is_direct,
    schedule_text,
    torch_dtype,
    with_backward,
)

_OPERANDS = (
    "Tensor[] as_, Tensor[] bs, Tensor[]? c=None, Tensor[]? bias=None, Tensor[]? scale_a=None, "
    "Tensor[]? scale_b=None, float? factor_a=None, float? factor_b=None, float alpha=1.0, "
    "float beta=0.0, str? activation=None, ScalarType? acc_dtype=None, bool fast_accum=True, "
    "ScalarType? out_dtype=None, str? arch=None, str? schedule=None, str backend='auto'"
)
_CASTS = ("as_", "bs", "c", "bias")
_Tensors = Sequence[torch.Tensor]


def grouped_gemm(
    as_: _Tensors,
    bs: _Tensors,
    *,
    c: _Tensors | None = None,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias: _Tensors | None = None,
    activation: Activation | Callable[..., Any] | None = None,
    scale_a: _Tensors | float | None = None,
    scale_b: _Tensors | float | None = None,
    acc_dtype: object = None,
    fast_accum: bool = True,
    aux: _Tensors | None = None,
    out: _Tensors | None = None,
    out_dtype: object = None,
    arch: Arch | None = None,
    schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> list[torch.Tensor]:
    """`cute.grouped_gemm` as torch sees it, with gradients for the tensors of `as_`, `bs`, `c` and
    `bias`, of f16, bf16, f32 (as tf32) and f64, for activations None and "relu".

    Raises TypeError or ValueError naming the argument, also for scales, `out` and `aux` where a
    gradient is required, and for `out` and `aux` where torch compiles.
    """
    text = schedule_text(schedule)
    lists = (as_, bs, c, bias, scale_a, scale_b, aux, out)
    if is_direct([x for each in lists if isinstance(each, list | tuple) for x in each]):
        check_deterministic(text)
        return direct_grouped_gemm(
            as_, bs, c=c, alpha=alpha, beta=beta, bias=bias, activation=activation,
            scale_a=scale_a, scale_b=scale_b, acc_dtype=acc_dtype, fast_accum=fast_accum, aux=aux,
            out=out, out_dtype=out_dtype, arch=arch, schedule=schedule, backend=backend,
        )  # fmt: skip
    if activation is not None and not isinstance(activation, str):
        raise TypeError(
            f"activation: expected {ACTIVATIONS} or None where a gradient is required or torch "
            "compiles, got a function"
        )
    for name, written in (("out", out), ("aux", aux)):
        if written is not None:
            raise ValueError(
                f"{name}: expected None where a gradient is required or torch compiles, got a "
                "list; take the result"
            )
    check_forward_mode((*as_, *bs))
    tensors_a, factor_a = _split(scale_a)
    tensors_b, factor_b = _split(scale_b)
    return torch.ops.cutedialect.grouped_gemm(
        as_, bs, c, bias, tensors_a, tensors_b, factor_a, factor_b, float(alpha), float(beta),
        activation, torch_dtype(acc_dtype, "acc_dtype"), fast_accum,
        torch_dtype(out_dtype, "out_dtype"), arch, text, backend,
    )  # fmt: skip


def _split(scale: _Tensors | float | None) -> tuple[_Tensors | None, float | None]:
    """A scale as (tensors, number), one of which is None."""
    if scale is None or isinstance(scale, list | tuple):
        return scale, None
    return None, float(scale)  # pyright: ignore[reportArgumentType]


def _run(
    as_: Any, bs: Any, c: Any = None, bias: Any = None, scale_a: Any = None, scale_b: Any = None,
    factor_a: float | None = None, factor_b: float | None = None, alpha: float = 1.0,
    beta: float = 0.0, activation: Activation | None = None, acc_dtype: Any = None,
    fast_accum: bool = True, out_dtype: Any = None, arch: Arch | None = None,
    schedule: str | None = None, backend: Backend = "auto",
) -> Any:  # fmt: skip
    check_deterministic(schedule)
    return direct_grouped_gemm(
        as_, bs, c=c, alpha=alpha, beta=beta, bias=bias, activation=activation,
        scale_a=factor_a if scale_a is None else scale_a,
        scale_b=factor_b if scale_b is None else scale_b,
        acc_dtype=acc_dtype, fast_accum=fast_accum, out_dtype=out_dtype, arch=arch,
        schedule=schedule, backend=backend,
    )  # fmt: skip


def _fake(as_: Any, bs: Any, *options: Any) -> Any:
    if len(as_) != len(bs):
        raise ValueError(f"bs: expected {len(as_)} arrays as in as_, got {len(bs)}")
    return [_fake_gemm(a, b, *options) for a, b in zip(as_, bs, strict=True)]


define("grouped_gemm", f"({_OPERANDS}) -> Tensor[]", _run, _fake, _CASTS)


def _remember(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    as_, bs, c, bias = inputs[:4]
    ctx.alpha, ctx.beta, ctx.activation = inputs[8:11]
    ctx.arch, ctx.backend = inputs[14], inputs[16]
    for a, b in zip(as_, bs, strict=True):
        check_differentiable(a, b, inputs[4:8])
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
    return (of_a, of_b, of_c, of_bias, *(None,) * 13)[: len(wants)]


with_backward("grouped_gemm", _backward, _remember)
