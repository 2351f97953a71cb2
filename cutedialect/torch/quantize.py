"""What is torch's own of `cute.quantize`: it has no gradient, and two results."""

# torch is no requirement of the tools that check this file.
# pyright: reportMissingImports=false

from __future__ import annotations

from typing import Any

from cutedialect.frontend.kernel import TensorSpec

from .declared import Given, Operator, Own
from .operators import element_type, torch_dtype


def _made(operator: Operator, given: Given) -> tuple[Any, ...]:
    """Elements and scales, for the extents that symbols of torch stand for now."""
    x = given.x
    spec = TensorSpec([int(each) for each in x.shape], element_type(x.dtype, "x"))
    checked = operator.checked(vars(given) | {"x": spec})
    types = checked.out_dtype, checked.kind.scale
    return tuple(
        x.new_empty(shape, dtype=torch_dtype(dtype, "out"))
        for shape, dtype in zip(checked.shapes, types, strict=True)
    )


QUANTIZE = Own(
    """`cute.quantize` as torch sees it: the elements and scales of x (M, K), on torch's stream.

    Arguments and results are those of `cute.quantize`; two elements of 4 bits in a byte of uint8
    are torch's `float4_e2m1fn_x2` (`elements.view(torch.float4_e2m1fn_x2)`). There is no gradient:
    a tensor that requires one raises RuntimeError. Where torch compiles, `out` and `scales` are
    None. Raises TypeError or ValueError naming the argument.
    """,
    made=_made,
    no_backward="expected tensors without gradient, got one that requires it; take x.detach(), or "
    "torch.no_grad()",
)
