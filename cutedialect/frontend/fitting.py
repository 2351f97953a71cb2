"""Schedules for which a thread has the registers, as the assembler says. Where one has not, the
first of a row of others that has is looked for: of a call without a schedule the next choices, of
which the call takes that; of a schedule that was given those near it, and the error names that.
Where a pass refuses a schedule that was given, its error names the nearest one that compiles; where
it refuses what was chosen for a program without a schedule, the first of a few others that passes
take is taken, with a remark: no more than three compilations.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import fields, replace
from itertools import chain, combinations, islice
from math import prod
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from cutedialect import environment
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.errors import REFUSED, CompileError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram, collections_held_back
from cutedialect.remarks import Remark
from cutedialect.schedule import Schedule, ScheduleError, replace_set

if TYPE_CHECKING:
    from .gemm import GemmCall
    from .ready_call import ReadyCall

# How often a schedule is chosen for the same call.
_ATTEMPTS = 4
# Schedules that are tried near one that spills, and the least extents of a tile among them.
_MOST_TRIED = 24
_LEAST_ROWS, _LEAST_COLUMNS, _LEAST_DEPTH = 64, 16, 16
# Keys of attention are a multiple of so many, and are halved in so many steps at most.
_KEYS, _KEY_STEPS = 16, 8
# Warps up to which a thread has as many registers as an instruction can name.
_FREE_WARPS = 8
_EPILOGUES = ("direct", "smem", "tma")
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
# Schedules that are tried near one that a pass refuses.
_MOST_ALLOWED = 24


class Ready(Protocol):
    """A call after its checks; one without results has no kernel."""

    @property
    def kernel(self) -> Kernel | None: ...


_Ready = TypeVar("_Ready", bound=Ready)
_Result = TypeVar("_Result")


def fitting_default(prepared: Callable[[int], _Ready], backend: str) -> _Ready:
    """What `prepared` makes of a call that names no schedule. `prepared(n)` chooses one although n
    choices before it had too few registers.

    Where a GPU will run it, it is assembled at once; of the last choice, and of whatever else the
    assembler says, the launch tells.
    """
    asked = environment.backend() if backend == "auto" else backend
    if asked in ("emulator", "interpreter") or not gpu_available():
        return prepared(0)
    with collections_held_back():
        made = [prepared(0)]

        def choices() -> Iterator[_Ready]:
            yield made[0]
            for number in range(1, _ATTEMPTS):
                made[0] = prepared(number)
                yield made[0]

        found = _first_that_fits(choices(), lambda ready: ready.kernel)
    return made[0] if found is None else found


def allowed(prepared: Callable[[Schedule], _Result], given: Schedule) -> _Result:
    """What `prepared` makes of a schedule that a call gives. Where a pass refuses that, the error
    names the nearest schedule that `prepared` takes, which is looked for when the error is shown.
    """
    try:
        return prepared(given)
    except CompileError as error:
        if error.code == REFUSED:
            why = error.message
            error.advice = lambda: _nearest_allowed(prepared, given, why)
        raise


def _nearest_allowed(
    prepared: Callable[[Schedule], object], given: Schedule, why: str
) -> str | None:
    """What leaves the fewest fields of a refused schedule to the compiler: those that the message
    names, first of all. None where it is not the schedule that is refused.
    """
    if _is_refused(prepared, Schedule()):
        return None
    names = [each.name for each in fields(given) if getattr(given, each.name) is not None]
    # Those that say most about the kernel, which stand in front, stay longest.
    names.reverse()
    names.sort(key=lambda name: not _is_named(name, getattr(given, name), why))
    fewer = chain.from_iterable(combinations(names, count) for count in range(1, len(names)))
    for left in islice(fewer, _MOST_ALLOWED):
        near = replace_set(given, dict.fromkeys(left))
        if not _is_refused(prepared, near):
            return (
                f"the nearest schedule that compiles, without {' and '.join(left)}: "
                f"schedule='{near.text()}'"
            )
    return "it compiles without a schedule"


def _is_named(field: str, value: object, message: str) -> bool:
    """Whether a message speaks of a field, or of its value where that is a word."""
    words = [rf"{field} ="] + ([re.escape(value)] if isinstance(value, str) else [])
    return re.search(rf"\b({'|'.join(words)})(?!\w)", message) is not None


def _is_refused(prepared: Callable[[Schedule], object], schedule: Schedule) -> bool:
    try:
        prepared(schedule)
    except Exception:  # The error that is being shown is another one, whatever comes up here.
        return True
    return False


def nearest_schedule(
    given: Schedule, done: Schedule, compiled: Callable[[Schedule], Kernel]
) -> Schedule | None:
    """The first schedule near `given` whose kernel has no spill, None where no such was found;
    `done` is what the passes made of it.
    """
    tried = islice(schedules_near(given, done), _MOST_TRIED)
    kernels = ((each, found) for each in tried if (found := _kernel(each, compiled)) is not None)
    first = _first_that_fits(kernels, lambda pair: pair[1])
    return None if first is None else first[0]


def schedules_near(given: Schedule, done: Schedule) -> Iterator[Schedule]:
    """`given` with one change, then with two (those of the tile first): loops of single trips,
    fewer CTAs on an SM, registers as the compiler shares them out, another number of warps or as
    many as the compiler takes, another epilogue, half of the tile's columns, depth or rows.

    >>> given = Schedule(tile=(128, 64, 64), warps=(8, 1), epilogue="direct")
    >>> for each in list(schedules_near(given, given))[:3]:
    ...     print(each.text())
    tile = (128,64,64), warps = (4,1), epilogue = direct
    tile = (128,64,64), warps = (16,1), epilogue = direct
    tile = (128,64,64), warps = (8,2), epilogue = direct
    """
    ones = list(_changes(given, done))
    seen: set[Schedule] = {given}
    pairs = [
        (one, two)
        for one in ones
        for two in _changes(replace_set(given, one), replace_set(done, one))
    ]
    # What a smaller tile leaves undone a still smaller one does most likely.
    pairs.sort(key=lambda pair: -sum("tile" in each for each in pair))
    twos = (one | two for one, two in pairs)
    for changes in (*ones, *twos):
        try:
            near = replace_set(given, changes)
        except ScheduleError:
            continue
        if near not in seen:
            seen.add(near)
            yield near


def _changes(given: Schedule, done: Schedule) -> Iterator[dict[str, Any]]:
    """Fields with other values, one change at a time; None leaves a field to the compiler."""
    if done.unroll is not None and done.unroll > 1:
        # Two trips hold the operands of both.
        yield {"unroll": 1}
    if done.ctas is not None and done.ctas > 1:
        yield {"ctas": done.ctas // 2}
    if given.registers is not None:
        yield {"registers": None}
    if done.warps is not None:
        shares_file = done.plan.loads is not None
        yield from ({"warps": warps} for warps in _other_warps(done.warps, shares_file))
    if given.warps is not None:
        yield {"warps": None}
    if done.epilogue is not None:
        yield from ({"epilogue": each} for each in _EPILOGUES if each != done.epilogue)
    yield from ({"tile": tile} for tile in _smaller_tiles(done.tile or ()))


def _other_warps(warps: tuple[int, int], shares_file: bool) -> Iterator[tuple[int, int]]:
    """Half of the warps, each with twice the values and up to twice the registers, or twice as
    many: those first that leave a thread more room.
    """
    rows, columns = warps
    fewer = [
        *([(rows, columns // 2)] if columns % 2 == 0 else []),
        *([(rows // 2, columns)] if rows % 2 == 0 else []),
    ]
    more = [(2 * rows, columns), (rows, 2 * columns)]
    has_room = prod(warps) < _FREE_WARPS and not shares_file
    yield from (*more, *fewer) if has_room else (*fewer, *more)


def _smaller_tiles(tile: tuple[int, ...]) -> Iterator[tuple[int, ...]]:
    """Of a multiply half of the columns, of the depth, or of the rows; of attention fewer keys, or
    rows of a warpgroup less.
    """
    if len(tile) == 3:
        rows, columns, depth = tile
        if columns % (2 * _LEAST_COLUMNS) == 0:
            yield rows, columns // 2, depth
        if depth % (2 * _LEAST_DEPTH) == 0:
            yield rows, columns, depth // 2
        if rows % (2 * _LEAST_ROWS) == 0:
            yield rows // 2, columns, depth
    elif len(tile) == 2:
        rows, keys = tile
        step = max(1, keys // (_KEY_STEPS * _KEYS)) * _KEYS
        yield from ((rows, fewer) for fewer in range(keys - step, keys // 2 - 1, -step) if fewer)
        if rows > _LEAST_ROWS:
            yield rows - _LEAST_ROWS, keys


def _kernel(schedule: Schedule, compiled: Callable[[Schedule], Kernel]) -> Kernel | None:
    """The kernel of a schedule, None of one that no pass takes."""
    try:
        return compiled(schedule)
    except (CompileError, ValueError):
        return None


_Choice = TypeVar("_Choice")


def _first_that_fits(
    choices: Iterable[_Choice], kernel_of: Callable[[_Choice], Kernel | None]
) -> _Choice | None:
    """The first choice whose machine code has no spill, each compiled when it is its turn."""
    for each in choices:
        kernel = kernel_of(each)
        if kernel is None or kernel.fits:
            return each
    return None


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
