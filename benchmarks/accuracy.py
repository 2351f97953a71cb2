"""Errors against float64 on a sample of the result. An output is right when every element of it was
written and its error is at most twice that of a computation known to be good in the same precision.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from .case import Case, Operands
from .inputs import poisoned

_ALLOWED = 2.0


@dataclass(frozen=True)
class Reference:
    """The sampled result of one set of operands in float64, and what `Case.allowance` gives."""

    case: Case
    operands: Operands
    exact: Sequence[Any]
    allowance: tuple[float, ...]


def reference(torch: Any, case: Case, operands: Operands) -> Reference:
    exact = case.exact(torch, operands)
    return Reference(case, operands, exact, case.allowance(torch, operands, exact))


def errors(torch: Any, ref: Reference) -> tuple[float, ...]:
    """The errors of the outputs as they are; infinite where an element was never written."""
    found = ref.case.errors(torch, ref.operands, ref.exact)
    return found if not poisoned(ref.operands) else (float("inf"),) * len(found)


def within(ours: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether no error is above twice the other."""
    return all(one <= _ALLOWED * other for one, other in zip(ours, theirs, strict=True))


def double(tensor: Any) -> Any:
    """float64; 8-bit floats by way of float32, which every build of torch converts."""
    return (tensor.float() if tensor.element_size() == 1 else tensor).double()
