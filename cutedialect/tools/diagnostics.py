"""What a tool tells its user: one located message, rendered as `file:line:col: error: text` with
the source line and a caret below. Every fault that reaches a user becomes a `Diagnostic` here, and
a Python traceback is shown only under `CUTEDIALECT_DEBUG=1`.
"""

from __future__ import annotations

import difflib
import linecache
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal

from xdsl.dialects.builtin import (
    ArrayAttr,
    CallSiteLoc,
    FileLineColLoc,
    FusedLoc,
    ModuleOp,
    NameLoc,
)
from xdsl.ir import Attribute, Operation
from xdsl.utils.exceptions import DiagnosticException, ParseError

from cutedialect.backend.runtime.tracebacks import is_raised
from cutedialect.remarks import Remark

from .styles import styled

# Characters of a message that are shown.
_MESSAGE = 1000
Severity = Literal["error", "warning", "remark", "note"]


@dataclass(frozen=True)
class Position:
    """A place in a text; `line` and `column` count from 1."""

    file: str
    line: int
    column: int

    def __str__(self) -> str:
        return f"{self.file}:{self.line}:{self.column}"


@dataclass(frozen=True)
class Diagnostic:
    """One message; `width` is the number of columns that it underlines, 0 where it is about a file
    and not about a line of it; `position` is None where the IR at fault was made without a
    location.
    """

    message: str
    position: Position | None
    severity: Severity = "error"
    width: int = 1
    notes: tuple[Diagnostic, ...] = ()

    def render(self, sources: Mapping[str, str], color: bool = False) -> str:
        """The text for a terminal, ending in a newline. `sources` maps file names to texts; a file
        that is not among them is read from disk if it can be.
        """
        where = "<unknown>:0:0" if self.position is None else str(self.position)
        severity, message = f"{self.severity}:", _shortened(self.message)
        if color:
            where, message = styled(where, "text"), styled(message, "text")
            severity = styled(severity, self.severity)
        lines = [f"{where}: {severity} {message}"]
        if self.position is not None and self.width:
            underlined = _underlined(self.position, self.width, sources)
            if color and underlined:
                underlined[-1] = styled(underlined[-1], "caret")
            lines += underlined
        notes = "".join(note.render(sources, color) for note in self.notes)
        return "\n".join(lines) + "\n" + notes


class ReportedError(Exception):
    """Carries a diagnostic from where it was found to the tool that prints it."""

    def __init__(self, diagnostic: Diagnostic) -> None:
        super().__init__(diagnostic.message)
        self.diagnostic = diagnostic


def from_parse_error(error: ParseError) -> Diagnostic:
    """The diagnostic for an error of xDSL's parser, with its span underlined."""
    place = error.span.get_location()
    first_line = error.span.text.split("\n", 1)[0]
    return Diagnostic(
        one_line(error.msg),
        Position(place.file, place.line, place.col),
        width=max(len(first_line), 1),
    )


def from_failure(error: BaseException, doing: str, module: ModuleOp) -> Diagnostic:
    """The diagnostic for an exception that a verifier, pass or printer raised while `doing`
    something to `module`. A fault of the input says what the input did wrong; anything else is a
    bug of ours and says so.
    """
    op = op_at_fault(error)
    position = position_of(op if op is not None else module)
    subject = f"'{op.name}': " if op is not None and op is not module else ""
    if is_users_fault(error):
        text = one_line(_message(error))
        if op is not None:  # some messages name their op themselves
            text = text.removeprefix(f"{op.name}: ")
        return Diagnostic(f"{subject}{text}", position)
    text = one_line(f"{type(error).__name__}: {error}".rstrip(": "))
    return Diagnostic(
        f"{subject}internal error while {doing}: {text} (this is a bug; CUTEDIALECT_DEBUG=1 shows "
        "the traceback)",
        position,
    )


def from_remark(remark: Remark) -> Diagnostic:
    """The diagnostic for what a pass declined, at the line that it is about."""
    position = None
    if remark.location is not None:
        file, line, column = remark.location.rsplit(":", 2)
        position = Position(file, int(line), int(column))
    return Diagnostic(f"[{remark.pass_name}] {remark.message}", position, "remark")


def is_users_fault(error: BaseException) -> bool:
    """Whether the exception describes bad input: those that xDSL has for it, those that we define,
    and a ValueError that our own code raised.
    """
    if isinstance(error, (DiagnosticException, ParseError)):
        return True
    if type(error) is ValueError:
        return is_raised(error)
    ours = type(error).__module__.split(".")[0] == "cutedialect"
    return ours and isinstance(error, Exception)


def op_at_fault(error: BaseException) -> Operation | None:
    """The operation that an exception is about: its `op` attribute or argument if it has one
    (passes raise `PassFailedException(op, message)`), else what the innermost frames of its
    traceback were looking at. `Operation.emit_error` names its op `self`; rewrite patterns `op`.
    """
    for named in (getattr(error, "op", None), *error.args):
        if isinstance(named, Operation):
            return named
    for function, values in _frames_inside_out(error.__traceback__):
        candidate = values.get("self" if function in ("emit_error", "verify", "verify_") else "op")
        if isinstance(candidate, Operation) and not isinstance(candidate, ModuleOp):
            return candidate
    return None


def position_of(op: Operation) -> Position | None:
    """Where an operation came from: its own location or that of the nearest op around it."""
    around: Operation | None = op
    while around is not None:
        position = position_of_location(around.location)
        if position is not None:
            return position
        around = around.parent_op()
    return None


def position_of_location(location: Attribute) -> Position | None:
    """The first file position inside an MLIR location, or None if it holds none."""
    match location:
        case FileLineColLoc():
            return Position(location.filename.data, location.line.data, location.column.data)
        case NameLoc():
            return position_of_location(location.location)
        case CallSiteLoc():
            return position_of_location(location.callee)
        case FusedLoc():
            parts = location.locations
            found = (
                (position_of_location(part) for part in parts)
                if isinstance(parts, ArrayAttr)
                else iter(())
            )
            return next((position for position in found if position is not None), None)
        case _:
            return None


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """A suffix for an error about an unknown name: the nearest known one, or the whole list if it
    is short, or nothing.
    """
    names = list(known)
    near = nearest(word, names)
    if not near and 0 < len(names) <= 8:
        return f"; expected one of {', '.join(names)}"
    return near


def nearest(word: str, known: Iterable[str]) -> str:
    """A suffix for an error about an unknown name: the nearest known one, if one is near."""
    near = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f"; did you mean '{near[0]}'?" if near else ""


def one_line(text: str) -> str:
    """The text with its line breaks turned into spaces: xDSL's messages have them, a message that
    tools search for has not.
    """
    return " ".join(text.split())


def _shortened(message: str) -> str:
    """A message without the middle of what it repeats of the input, where that is very long."""
    if len(message) <= _MESSAGE:
        return message
    return f"{message[: _MESSAGE // 2]} ... {message[-_MESSAGE // 2 :]}"


def _underlined(position: Position, width: int, sources: Mapping[str, str]) -> list[str]:
    if position.file in sources:
        lines = sources[position.file].split("\n")
        if not 0 < position.line <= len(lines):
            return []
        line = lines[position.line - 1].rstrip("\r")
    else:
        try:
            # A device or a pipe may give lines without an end.
            is_file = os.path.isfile(position.file)
        except ValueError:  # a NUL in the name of the file
            return []
        line = linecache.getline(position.file, position.line).rstrip("\r\n") if is_file else ""
        if not line:
            return []
    start = min(position.column - 1, len(line))
    # A very long line (a string that never ends) is shown around the place only.
    first = max(0, start - 120)
    shown = line[first : start + 120]
    caret_at = start - first
    width = max(1, min(width, len(shown) - caret_at))
    indent = "".join("\t" if char == "\t" else " " for char in shown[:caret_at])
    return [shown, indent + "^" + "~" * (width - 1)]


def _message(error: BaseException) -> str:
    """The text of an exception whose arguments may also hold the operation."""
    texts = [arg for arg in error.args if isinstance(arg, str)]
    has_op = any(isinstance(arg, Operation) for arg in error.args)
    return texts[0] if has_op and texts else str(error)


def _frames_inside_out(trace: TracebackType | None) -> list[tuple[str, dict[str, Any]]]:
    frames: list[tuple[str, dict[str, Any]]] = []
    while trace is not None:
        frames.append((trace.tb_frame.f_code.co_name, trace.tb_frame.f_locals))
        trace = trace.tb_next
    frames.reverse()
    return frames
