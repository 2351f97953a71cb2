"""Which exponentials are polynomials: of each `math.exp` and `math.exp2` of a register tile a share
of the values of a thread, as the schedule says. The units that multiply and add compute those
beside the one for special functions, which has 16 results in a cycle of a processor.

    %p = math.exp2 %x : f32

becomes `math.exp2 %x {polynomials = array<i32: 4, 3>} : f32`: 4 of each 16 values of a thread are
polynomials of degree 3 (`passes/lower/scalars.py`).
"""

from __future__ import annotations

import math

from xdsl.dialects import math as mathd
from xdsl.dialects.builtin import DenseArrayBase, Float64Type, i32
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import FragmentType, KernelOp, MapOp
from cutedialect.dialects.walks import ops_of
from cutedialect.schedule import DEGREES, SHARES

POLYNOMIALS = "polynomials"
"""The share and the degree, on exponentials of which some are polynomials."""


def share_exponentials(kernel: KernelOp, polynomials: tuple[int, int]) -> None:
    """Write (share, degree) on the exponentials of each tile of which a thread has at least so many
    values as a share is told of: rows' own numbers stay exact.
    """
    for op in ops_of(kernel, mathd.Exp2Op, mathd.ExpOp):
        if isinstance(op.results[0].type, Float64Type):
            continue
        parent = op.parent_op()
        if not isinstance(parent, MapOp) or not isinstance(parent.result.type, FragmentType):
            continue
        tile = parent.result.type
        if polynomials[0] and tile.tv is not None and tile.values >= SHARES:
            op.attributes[POLYNOMIALS] = DenseArrayBase.from_list(i32, polynomials)


def polynomials_of(op: Operation) -> tuple[int, int]:
    """The share and the degree that are written on an exponential."""
    given = op.attributes[POLYNOMIALS]
    found = given.get_values() if isinstance(given, DenseArrayBase) else ()
    share, degree = (int(each) for each in found) if len(found) == 2 else (0, 0)
    if not 1 <= share <= SHARES or degree not in DEGREES:
        raise PassFailedException(
            op,
            f"{op.name}: expected {POLYNOMIALS} = array<i32: share, degree>, of 1 to {SHARES} and "
            f"{DEGREES[0]} to {DEGREES[-1]}, got {given}",
        )
    return share, degree


def period(share: int) -> int:
    """After how many values of a thread the choice of a share repeats."""
    return 1 if share == SHARES else SHARES // math.gcd(share, SHARES) * (2 - share % 2)


def is_polynomial(share: int, value: int) -> bool:
    """Whether value number `value` of a thread belongs to a share, which is spread evenly: by pairs
    if it is even.
    """
    return value // (2 - share % 2) * share % SHARES < share
