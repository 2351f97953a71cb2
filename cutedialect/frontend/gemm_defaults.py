"""What `cute.gemm` compiles where no schedule is given: with the one that tuning kept, else with
the one that is chosen, and with another where the assembler finds too few registers for that.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.errors import SPILL, CompileError

if TYPE_CHECKING:
    from .gemm import GemmCall
    from .ready_call import ReadyCall

# How often a schedule is chosen for the same call.
_ATTEMPTS = 4


def prepared_by_default(
    call: GemmCall, alpha: float, beta: float, arch: str, backend: str
) -> ReadyCall:
    """Compile (or find) the kernel of a call that names no schedule.

    Where a GPU will run it, it is assembled at once: one that spills gives way to one with fewer
    accumulators in a thread.
    """
    if backend in ("emulator", "interpreter") or not gpu_available():
        return call.prepared_with(None, alpha, beta, arch, backend)
    from .gemm_tuning import kept_schedule

    kept = kept_schedule(call, arch)
    # A class of problems may hold one whose blocks of scales the schedule does not fit.
    if kept is not None:
        with suppress(CompileError, ValueError):
            return call.prepared_with(kept, alpha, beta, arch, backend)
    while True:
        ready = call.prepared_with(None, alpha, beta, arch, backend)
        if ready.kernel is None:
            return ready
        try:
            _ = ready.kernel.assembly
        except CompileError as error:
            # What else the assembler says, the launch tells.
            if error.code != SPILL or call.spills + 1 == _ATTEMPTS:
                return ready
            call.spills += 1
        else:
            return ready
