"""The schedule of a call of `cute.gemm`: which space it is chosen from, and the search for one that
passes and the assembler take.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from cutedialect.backend.runtime.errors import CompileError
from cutedialect.choosing.choose import Rejection, choose
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.space import Space
from cutedialect.choosing.tensor_memory_schedules import TENSOR_SPACE, takes_tensor_schedules
from cutedialect.schedule import Schedule

from .fitting import Memory, allowed, runs_on_device, searched

if TYPE_CHECKING:
    from .gemm import GemmCall
    from .ready_call import ReadyCall


def prepared_call(
    call: GemmCall, alpha: float, beta: float, arch: str, given: Schedule | None, backend: str
) -> ReadyCall:
    """Compile (or find) the kernel; what a schedule leaves open is chosen."""

    def prepared(chosen: Schedule | None) -> ReadyCall:
        return call.prepared_with(chosen, alpha, beta, arch, backend)

    def found(given: Schedule | None) -> ReadyCall:
        if space_of(call, given, arch) is None:
            return prepared(given)
        memory = Memory(kernel_class(call), arch)
        return searched(partial(schedule_of, call, given, arch), prepared, backend, memory)

    if given is not None:
        return allowed(found, given)
    kept = _kept(call, arch, backend)
    # A class of problems may hold one whose blocks of scales the schedule does not fit.
    if kept is not None:
        with suppress(CompileError, ValueError):
            return prepared(kept)
    return found(None)


def _kept(call: GemmCall, arch: str, backend: str) -> Schedule | None:
    """What tuning found for such a call, on a device."""
    if not runs_on_device(backend):
        return None
    from .gemm_tuning import kept_schedule

    return kept_schedule(call, arch)


def schedule_of(
    call: GemmCall, given: Schedule | None, arch: str, rejected: Sequence[Rejection] = ()
) -> Schedule | None:
    """`given`, on top of what suits the problem where warpgroups or tcgen05 multiply, although some
    schedules were rejected.
    """
    space = space_of(call, given, arch)
    return given if space is None else choose(*space, given, rejected)


def space_of(call: GemmCall, given: Schedule | None, arch: str) -> tuple[Space[Any], Any] | None:
    """Where the schedule is chosen, and what for; None where it stays as it is given."""
    is_whole = given is not None and (given.tile is not None or given.is_uniform)
    if is_whole or 0 in call.out_shape:
        return None
    if call.takes_wgmma(arch):
        return GEMM_SPACE, (call.problem(),)
    if not call.takes_tcgen05(arch):
        return None
    problem = call.problem()
    return (TENSOR_SPACE, problem) if takes_tensor_schedules(problem, given) else None


def kernel_class(call: GemmCall) -> str:
    """What kernels of a schedule depend on: types, majors, alignments and the epilogue."""
    from .gemm_tuning import problem_class

    return f"gemm {problem_class(call, extents=False)} {call.activation}"
