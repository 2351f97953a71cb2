"""Schedules that passes take and for which a thread has the registers, as the assembler says. What
is chosen (`choosing`) is compiled; where that is not right, the next choice is, no more than three
in all. A schedule that was given whole stays: the error names the nearest one that is right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from functools import partial
from itertools import chain, combinations, islice
from math import prod
from typing import Any, Generic, Protocol, TypeVar

from cutedialect import environment
from cutedialect.atoms import Device
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.errors import REFUSED, SPILL, CompileError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import CompiledProgram, collections_held_back
from cutedialect.backend.runtime.rejections import (
    has_rejections,
    keep_rejection,
    read_rejections,
    rejections_key,
)
from cutedialect.backend.runtime.tunings import has_tunings
from cutedialect.choosing.choose import MOST_COMPILED, Lack, NoScheduleError, Rejection, choose
from cutedialect.choosing.price import remark_on
from cutedialect.choosing.space import Candidate
from cutedialect.remarks import Remark
from cutedialect.schedule import Schedule, ScheduleError, replace_set

# Schedules that are tried near one that spills, and the least extents of a tile among them.
_MOST_TRIED = 24
_LEAST_ROWS, _LEAST_COLUMNS, _LEAST_DEPTH = 64, 16, 16
# Keys of attention are a multiple of so many, and are halved in so many steps at most.
_KEYS, _KEY_STEPS = 16, 8
# Warps up to which a thread has as many registers as an instruction can name.
_FREE_WARPS = 8
_EPILOGUES = ("direct", "smem", "tma")
_MEMORY = "bytes of shared memory"
# Schedules that are tried near one that a pass refuses.
_MOST_ALLOWED = 24


class Ready(Protocol):
    """A call after its checks; one without results has no kernel."""

    @property
    def kernel(self) -> Kernel | None: ...


@dataclass(frozen=True)
class Filled:
    """A kernel whose open parameters are filled, as a search takes it."""

    kernel: Kernel


_Ready = TypeVar("_Ready", bound=Ready)
_Result = TypeVar("_Result")


def searched(
    choice: Callable[[Sequence[Rejection]], Any],
    prepared: Callable[[Any], _Ready],
    backend: str,
    memory: Memory | None = None,
) -> _Ready:
    """What `prepared` makes of the first choice that passes take and whose kernel has no spill.
    `choice` names one although some were rejected, and raises `NoScheduleError`, or names one of
    those again, where none is left; no more than three are compiled.

    Where a GPU will run it, a kernel is assembled at once, and what spills is remembered. Raises
    the first refusal of a pass, or an error of all choices where the registers of each spill.
    """
    search = _Search(prepared, runs_on_device(backend), memory)
    with collections_held_back():
        while search.compiled < MOST_COMPILED:
            try:
                schedule = choice(search.rejected)
            except NoScheduleError as error:
                code = SPILL if search.rejected else REFUSED
                search.refusal = search.refusal or CompileError(str(error), code=code)
                break
            if any(schedule == rejection.schedule for rejection in search.rejected):
                break
            ready = search.tried(schedule)
            if ready is not None:
                return ready
    raise search.error()


class _Search(Generic[_Ready]):
    """Schedules that were tried for a call, why they were rejected, and the first refusal."""

    def __init__(
        self, prepared: Callable[[Any], _Ready], assembles: bool, memory: Memory | None
    ) -> None:
        self._prepared, self._assembles = prepared, assembles
        self._memory = memory if assembles else None
        self.rejected: list[Rejection] = []
        self.refusal: CompileError | None = None
        self.compiled = 0

    def tried(self, schedule: Any) -> _Ready | None:
        """What becomes of a schedule; None where it is rejected."""
        known = self._memory and self._memory.rejection_of(schedule)
        if known:
            self.rejected.append(known)
            return None
        self.compiled += 1
        try:
            ready = self._prepared(schedule)
        except CompileError as error:
            if not error.is_refusal:
                raise
            self.refusal = self.refusal or error
            self.rejected.append(Rejection(schedule, _lacks(error), error.message))
            return None
        kernel = ready.kernel
        if self._assembles and kernel is not None and not kernel.fits:
            self.rejected.append(Rejection(schedule, "registers", f"{kernel.schedule} spills"))
            if self._memory is not None:
                self._memory.keep(self.rejected[-1])
            return None
        if kernel is not None and self.refusal is not None and self.refusal.is_unproved:
            kernel.note(_why(kernel.schedule, self.refusal))
        return ready

    def error(self) -> CompileError:
        """The first refusal, or an error of all choices where the registers of each spill."""
        if self.refusal is not None:
            return self.refusal
        tried = "; ".join(rejection.why for rejection in self.rejected)
        message = f"expected a schedule without spills, got none: {tried}"
        return CompileError(message, code=SPILL)


def fitted(
    prepared: Callable[[Schedule | None, Any], _Ready],
    choice: Callable[[Schedule | None], Callable[[Sequence[Rejection]], Any] | None],
    given: Schedule | None,
    backend: str,
    memory: Memory,
    kept: Callable[[], Schedule | None] = lambda: None,
) -> _Ready:
    """What `prepared` makes of a schedule that is `given`, and of what is chosen for what it leaves
    open: None where `choice` has none for it. Where none is given, what tuning kept for such calls
    on a device goes first; a class of problems may hold one that it does not fit.
    """

    def found(given: Schedule | None) -> _Ready:
        chosen = choice(given)
        if chosen is None:
            return prepared(given, None)
        return searched(chosen, partial(prepared, given), backend, memory)

    if given is not None:
        return allowed(found, given)
    tuned = kept() if runs_on_device(backend) and has_tunings() else None
    if tuned is not None:
        with suppress(CompileError, ValueError):
            return prepared(tuned, None)
    return found(None)


def runs_on_device(backend: str) -> bool:
    """Whether a GPU will run what is compiled."""
    asked = environment.backend() if backend == "auto" else backend
    return asked not in ("emulator", "interpreter") and gpu_available()


class Memory:
    """What spilled of a class of problems on a target, which other processes know too. `problem`
    says the class, where something did.
    """

    def __init__(self, problem: Callable[[], str], arch: str) -> None:
        self._key = lambda: rejections_key(problem(), arch)
        self._known: dict[str, Rejection] | None = None

    def rejection_of(self, schedule: Schedule | None) -> Rejection | None:
        """What is known against a schedule."""
        if self._known is None:
            kept = read_rejections(self._key()) if has_rejections() else ()
            self._known = {
                text: Rejection(Schedule.parse(text) if text else None, lacks, why)  # type: ignore[arg-type]
                for text, lacks, why in kept
            }
        return self._known.get(_text(schedule))

    def keep(self, rejection: Rejection) -> None:
        """Remember a rejection."""
        keep_rejection(self._key(), (_text(rejection.schedule), rejection.lacks, rejection.why))


def _text(schedule: Candidate | None) -> str:
    return "" if schedule is None else schedule.text()


def allowed(prepared: Callable[[Schedule], _Result], given: Schedule) -> _Result:
    """What `prepared` makes of a schedule that a call gives. Where a pass refuses that, the error
    names the nearest schedule that `prepared` takes, which is looked for when the error is shown.
    """
    try:
        return prepared(given)
    except CompileError as error:
        if error.is_refusal:
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
    # The warps of a TiledMMA are its own.
    if done.warps is not None and done.mma is None:
        shares_file = done.plan.loads is not None
        yield from ({"warps": warps} for warps in _other_warps(done.warps, shares_file))
    if given.warps is not None and given.mma is None:
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


def compiled_by_default(
    lowered: Callable[[Schedule | None], CompiledProgram], given: Schedule | None
) -> CompiledProgram:
    """What `lowered` makes of a schedule that is `given`; where none is (or an empty one), of the
    first that passes take of the default and of others.

    Raises `CompileError`: that of the schedule, or of the default where no other one is taken.
    """
    if given is not None and given != Schedule():
        return lowered(given)
    from cutedialect.choosing.program_space import PROGRAM_SPACE

    rejected: list[Rejection] = []
    refusals: list[CompileError] = []
    while len(rejected) < MOST_COMPILED:
        chosen = Schedule.parse(refusals[0].schedule or "") if refusals else None
        try:
            schedule = choose(PROGRAM_SPACE, chosen, given, rejected)
        except NoScheduleError:
            break
        try:
            program = lowered(schedule if refusals else given)
        except CompileError as error:
            if not error.is_refusal and not refusals:
                raise
            refusals.append(error)
            rejected.append(Rejection(schedule, _lacks(error), error.message))
            continue
        if not refusals:
            return program
        remarks = (*program.remarks, _why(schedule.text(), refusals[0]))
        return replace(program, remarks=remarks, instead=schedule.text())
    raise refusals[0]


def _lacks(refusal: CompileError) -> Lack:
    """Of what a pass found too little."""
    if refusal.is_unproved:
        return ""
    return "memory" if _MEMORY in refusal.message else "registers"


def _why(taken: str, refused: CompileError) -> Remark:
    """Why a schedule was taken that nobody asked for."""
    code = f"error[{refused.code}]: " if refused.is_unproved else ""
    message = f"{taken} taken by default, else: {code}{refused.message}"
    return Remark("cute-tile", message, refused.location)


def note_prices(kernel: Kernel | None, device: Device) -> None:
    """Say it where a schedule was chosen by the timings of another device."""
    remark = remark_on("gemm", device)
    if kernel is not None and remark is not None:
        kernel.note(remark)
