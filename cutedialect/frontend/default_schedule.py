"""What a program that names no schedule gets where passes refuse what they choose for it: the first
of a few other schedules that they take, with a remark. No more than three compilations, one after
the other: what all schedules together would have to fit is asked nowhere before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cutedialect.backend.runtime.errors import REFUSED, CompileError
from cutedialect.backend.runtime.program import CompiledProgram
from cutedialect.remarks import Remark
from cutedialect.schedule import Schedule

# Without roles, tiles of a multiply share memory one after the other, and all warps the registers.
# A row of warps has the rows of its tiles to itself: neither operands nor sums made of them go
# through memory to other warps.
_UNIFORM = Schedule(roles="uniform")
_ROWS_ALONE = Schedule(roles="uniform", warps=(4, 1))
# Results that leave from registers take no shared memory.
_FROM_REGISTERS = Schedule(epilogue="direct")
_OTHERS = {True: (_FROM_REGISTERS, _ROWS_ALONE), False: (_UNIFORM, _ROWS_ALONE)}
"""The schedules that are tried, by whether it is shared memory that lacks."""
_MEMORY = "bytes of shared memory"


def compiled_by_default(
    lowered: Callable[[Schedule | None], CompiledProgram], given: Schedule | None
) -> CompiledProgram:
    """What `lowered` makes of a schedule that is `given`; where none is (or an empty one), of the
    first that passes take of the default and of others.

    Raises `CompileError`: that of the schedule, or of the default where no other one is taken.
    """
    try:
        return lowered(given)
    except CompileError as error:
        if error.code != REFUSED or (given is not None and given != Schedule()):
            raise
        for other in _OTHERS[_MEMORY in error.message]:
            try:
                program = lowered(other)
            except CompileError:
                continue
            remarks = (*program.remarks, _why(other, error))
            return replace(program, remarks=remarks, instead=other.text())
        raise


def _why(taken: Schedule, refused: CompileError) -> Remark:
    """Why a schedule was taken that nobody asked for."""
    return Remark(
        "cute-tile", f"{taken.text()} taken by default, else: {refused.message}", refused.location
    )
