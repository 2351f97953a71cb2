"""What becomes of a program on a target: compiled, run, and compared with NumPy."""

from __future__ import annotations

import linecache
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import cutedialect as cute
from cutedialect import CompileError

from .numpy_lines import NumpyLines
from .numpy_tiles import InexactError
from .tile_program import Program

# Ways in which a program that is drawn cannot be compared: it is drawn again.
UNFIT = (InexactError, OverflowError)
# A faulty instruction says what it writes; a fault's code says which kind of fault it is.
_REGISTER = re.compile(r"%\w+")


@dataclass(frozen=True)
class Outcome:
    """What became of a program on a target, and why: `right`, `refused`, `wrong` or `broken`; of
    one of several multiplies also `refusable`, where a default refuses what `schedule` makes right,
    `misfit`, where the schedule that was drawn is refused and the default is right, `declined`,
    where it is drawn as what no call takes, and `helpless`, a refusal without a place or a remedy.
    Where it was asked for, `check` is what `cute-check-protocol` says, and `what` its first
    finding.
    """

    kind: str
    reason: str = ""
    schedule: str = ""
    check: str = ""
    what: str = ""

    @property
    def pattern(self) -> str:
        """The reason without its numbers, names and place."""
        first = self.reason.splitlines()[0] if self.reason else ""
        first = re.sub(r"\S+\.py:\d+(:\d+)?:? ?", "", first)
        first = re.sub(r"^\w+ differs", "an array differs", first)
        return re.sub(r"-?\d+", "#", _REGISTER.sub("%", first))


def expected(program: Program) -> list[Any]:
    """The arguments as NumPy leaves them."""
    arguments = program.make()
    names = NumpyLines()
    names.run(function_of(program, names), arguments)
    return arguments


def outcome(
    program: Program,
    target: str,
    backend: str = "emulator",
    times: int = 1,
    schedule: str = "",
) -> Outcome:
    """Compile, run so many times, and compare each time. A `schedule` comes before that of the
    program.
    """
    wanted = expected(program)
    function = function_of(program, cute)
    given = schedule or program.schedule
    options = {"schedule": given} if given else {}
    found = Outcome("right")
    for _ in range(times):
        arguments = program.make()
        try:
            function(*arguments, arch=target, backend=backend, **options)
        except CompileError as error:
            return Outcome("refused", str(error))
        except Exception as error:
            if _is_refusal(error):
                return Outcome("refused", f"{type(error).__name__}: {error}")
            return Outcome("broken", f"{type(error).__name__}: {error}")
        found = _compared(program, arguments, wanted)
        if found.kind != "right":
            break
    if program.must_be_refused and found.kind == "right":
        return Outcome("wrong", "expected a refusal, got a result")
    return found


def _is_refusal(error: Exception) -> bool:
    """Whether a call refuses its arguments, and says what it expected instead."""
    return isinstance(error, ValueError | TypeError) and "expected" in str(error)


def _compared(program: Program, arguments: Sequence[Any], wanted: Sequence[Any]) -> Outcome:
    for argument, got, want in zip(program.arguments, arguments, wanted, strict=True):
        if isinstance(got, np.ndarray) and not np.array_equal(got, want):
            at = tuple(int(i) for i in np.argwhere(got != want)[0])
            count = int((got != want).sum())
            return Outcome(
                "wrong",
                f"{argument.name} differs in {count} of {got.size} elements, first at {at}: "
                f"expected {want[at]}, got {got[at]}",
            )
    return Outcome("right")


def function_of(program: Program, names: Any) -> Any:
    """The program as a function that speaks with the names of a module."""
    file = f"program_{program.number}.py"
    source = program.source
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"cute": names}
    exec(compile(source, file, "exec"), scope)
    return scope["program"]
