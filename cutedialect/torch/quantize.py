"""`cute.quantize` as an operator of torch, with results of the right shapes for fake tensors."""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

import torch

from cutedialect.choices import Arch, Backend, BlockFormat, Rounding
from cutedialect.frontend.declarations import QUANTIZE
from cutedialect.frontend.kernel import TensorSpec
from cutedialect.frontend.quantize import QuantizeCall, door
from cutedialect.frontend.quantize import quantize as direct
from cutedialect.schedule import Schedule

from .declared import given_of
from .operators import (
    check_deterministic,
    check_forward_mode,
    define,
    element_type,
    is_direct,
    needs_gradient,
    schedule_text,
    torch_dtype,
    with_backward,
)

_NAMES = tuple(name for name, _ in QUANTIZE.operator())
_NO_GRADIENT = (
    "expected tensors without gradient, got one that requires it; take x.detach(), or "
    "torch.no_grad()"
)


def _run(*values: Any) -> tuple[Any, ...]:
    given = given_of(QUANTIZE, values, _NAMES)
    check_deterministic(given.schedule)
    return direct(**vars(given))


def _fake(*values: Any) -> tuple[Any, ...]:
    given = given_of(QUANTIZE, values, _NAMES)
    x, factor = given.x, given.global_scale
    specs = {"x": _spec(x, "x")}
    if isinstance(factor, torch.Tensor):
        specs["global_scale"] = _spec(factor, "global_scale")
    checked: QuantizeCall = door.checked(**(vars(given) | specs))
    types = checked.out_dtype, checked.kind.scale
    return tuple(
        x.new_empty(shape, dtype=torch_dtype(dtype, "out"))
        for shape, dtype in zip(checked.shapes, types, strict=True)
    )


def _spec(tensor: Any, name: str) -> TensorSpec:
    return TensorSpec([int(each) for each in tensor.shape], element_type(tensor.dtype, name))


def _refuse(*ignored: Any, **named: Any) -> None:
    raise RuntimeError(_NO_GRADIENT)


_schema = ", ".join(text for _, text in QUANTIZE.operator())
define("quantize", f"({_schema}) -> (Tensor, Tensor)", _run, _fake)
with_backward("quantize", _refuse, _refuse)


def quantize(
    x: torch.Tensor,
    format: BlockFormat,
    *,
    global_scale: torch.Tensor | float | None = None,
    rounding: Rounding | None = None,
    swizzled: bool = False,
    out: torch.Tensor | None = None,
    scales: torch.Tensor | None = None,
    arch: Arch | None = None,
    schedule: Schedule | str | None = None,
    backend: Backend = "auto",
) -> tuple[torch.Tensor, torch.Tensor]:
    """`cute.quantize` as torch sees it: the elements and scales of x (M, K), on torch's stream.

    Arguments and results are those of `cute.quantize`; two elements of 4 bits in a byte of uint8
    are torch's `float4_e2m1fn_x2` (`elements.view(torch.float4_e2m1fn_x2)`). There is no gradient:
    a tensor that requires one raises RuntimeError. Where torch compiles, `out` and `scales` are
    None. Raises TypeError or ValueError naming the argument.
    """
    text = schedule_text(schedule)
    options = {"rounding": rounding, "swizzled": swizzled, "arch": arch, "backend": backend}
    factor = global_scale if isinstance(global_scale, torch.Tensor) else None
    if is_direct([x, factor, out, scales]):
        check_deterministic(text)
        given = {"global_scale": global_scale, "out": out, "scales": scales, "schedule": text}
        return direct(x, format, **(options | given))
    check_forward_mode([x])
    if needs_gradient([x]):
        _refuse()
    for name, value in (("out", out), ("scales", scales)):
        if value is not None:
            raise ValueError(
                f"{name}: expected None where torch compiles, got a tensor; take the results"
            )
    number = None if global_scale is None or factor is not None else float(global_scale)
    named = {"x": x, "format": format, "global_scale": factor, "global_factor": number,
             "schedule": text} | options  # fmt: skip
    return torch.ops.cutedialect.quantize(*(named[name] for name in _NAMES))
