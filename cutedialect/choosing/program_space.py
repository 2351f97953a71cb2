"""The schedules that are tried for a program whose own choices no pass has made: all open first,
then what takes less shared memory, and what leaves threads more registers.
"""

from __future__ import annotations

from collections.abc import Iterator

from cutedialect.schedule import Schedule

from .need import Limits, Need

# Of each schedule: registers of a thread that it leaves over, and shared memory that it takes,
# compared with what the passes choose. Results that leave from registers take no shared memory.
# Without roles tiles of a multiply share memory one after the other, and all warps the registers. A
# row of warps has the rows of its tiles to itself: neither operands nor sums made of them go
# through memory to other warps.
_ROWS = {
    Schedule(): Need(room=0, smem=3),
    Schedule(epilogue="direct"): Need(room=0, smem=2),
    Schedule(roles="uniform"): Need(room=24, smem=3),
    Schedule(roles="uniform", warps=(4, 1)): Need(room=48, smem=1),
}


class ProgramSpace:
    """What a program may be compiled with; its problem is nothing yet."""

    name = "a program"

    def ranked(self, problem: None, given: Schedule | None, limits: Limits) -> Iterator[Schedule]:
        """The rows within the limits; what is given stands alone."""
        if given is not None and given != Schedule():
            yield given
            return
        for schedule, need in _ROWS.items():
            if need.spare >= limits.registers and need.smem < limits.smem:
                yield schedule

    def need(self, problem: None, schedule: Schedule) -> Need:
        """What one takes more or less than the others."""
        return _ROWS.get(schedule, Need())


PROGRAM_SPACE = ProgramSpace()
