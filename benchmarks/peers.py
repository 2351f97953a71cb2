"""Other kernel generators on the same case, where they are installed: Triton's matrix multiply as
its tutorial builds it (grouped tiles, tuned over a few shapes).

A maker raises where the library is missing or the case is none that it is written for here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .cases import Case
from .contenders import Call


def peers_of(torch: Any, case: Case) -> dict[str, Callable[[], Call]]:
    """Name to maker of each peer."""
    return {"Triton": lambda: _triton(torch, case)}


def _triton(torch: Any, case: Case) -> Call:
    if case.batch > 1 or case.group:
        raise NotImplementedError("written for one product only")
    from .triton_matmul import matmul

    return lambda operands: matmul(operands.a, operands.b, operands.out)
