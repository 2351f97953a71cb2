"""What `cute.gemm` compiles where no schedule is given: with the one that tuning kept, else with
the one that is chosen, and with another where the assembler finds too few registers for that.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.errors import CompileError

from .fitting import fitting_default

if TYPE_CHECKING:
    from .gemm import GemmCall
    from .ready_call import ReadyCall


def prepared_by_default(
    call: GemmCall, alpha: float, beta: float, arch: str, backend: str
) -> ReadyCall:
    """Compile (or find) the kernel of a call that names no schedule: where the one that is chosen
    spills, with one of fewer accumulators in a thread.
    """
    if backend not in ("emulator", "interpreter") and gpu_available():
        from .gemm_tuning import kept_schedule

        kept = kept_schedule(call, arch)
        # A class of problems may hold one whose blocks of scales the schedule does not fit.
        if kept is not None:
            with suppress(CompileError, ValueError):
                return call.prepared_with(kept, alpha, beta, arch, backend)

    def prepared(spills: int) -> ReadyCall:
        call.spills = spills
        return call.prepared_with(None, alpha, beta, arch, backend)

    return fitting_default(prepared, backend)
