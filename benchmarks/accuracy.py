"""Errors against float64 on sampled rows: every 64th part of M and the last row, all of N, so that
each tile of the output has a row in the sample. An output is right when its error is at most twice
cuBLAS's and every element of it was written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from .inputs import Operands, poisoned

_ROWS = 64
_ALLOWED = 2.0


@dataclass(frozen=True)
class Reference:
    """The sampled rows of each product of one set of operands, in float64."""

    operands: Operands
    exact: tuple[Any, ...]


def reference(torch: Any, operands: Operands) -> Reference:
    exact = tuple(torch.matmul(_sample(torch, a), _double(b)) for a, b, _ in operands.products)
    return Reference(operands, exact)


def errors(torch: Any, ref: Reference) -> tuple[float, ...]:
    """The largest absolute error of each product in the sampled rows of the outputs as they are;
    infinite where an element was never written.
    """
    if poisoned(ref.operands):
        return (float("inf"),) * len(ref.exact)
    return tuple(
        float((_sample(torch, out) - exact).abs().max().item())
        for (_, _, out), exact in zip(ref.operands.products, ref.exact, strict=True)
    )


def within(ours: tuple[float, ...], theirs: tuple[float, ...]) -> bool:
    """Whether no product's error is above twice that of cuBLAS."""
    return all(one <= _ALLOWED * other for one, other in zip(ours, theirs, strict=True))


def _sample(torch: Any, matrix: Any) -> Any:
    rows = matrix.shape[-2]
    step = max(1, rows // _ROWS)
    # Two views, since indexing by a list is not there for every 8-bit type.
    return torch.cat([_double(matrix[..., ::step, :]), _double(matrix[..., rows - 1 :, :])], -2)


def _double(matrix: Any) -> Any:
    """float64; 8-bit floats by way of float32, which every build of torch converts."""
    return (matrix.float() if matrix.element_size() == 1 else matrix).double()
