"""`CompileError`, the one exception of a compilation that failed, and the `Location` it points at.
A message says what was expected and what came; the location is the user's Python line where the PTX
text or the IR still knows it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Location:
    """A place in a source file; `line` and `column` count from 1, a column of 0 is unknown."""

    file: str
    line: int
    column: int = 0

    def __str__(self) -> str:
        return f"{self.file}:{self.line}" + (f":{self.column}" if self.column else "")


class CompileError(Exception):
    """A kernel that cannot be compiled.

    `message` is one line, `code` is stable ("CD-PTXAS", "C7508", ...), `location` the Python line or
    None, `ptx_line` the 1-based line of the PTX text, `ir` the op it was printed for, `notes`
    further lines.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "CD-COMPILE",
        location: Location | None = None,
        ptx_line: int | None = None,
        ir: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.location = location
        self.ptx_line = ptx_line
        self.ir = ir
        self.notes = notes

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location is not None else ""
        lines = [f"{where}error[{self.code}]: {self.message}"]
        if self.ptx_line is not None:
            lines.append(f"  PTX line {self.ptx_line}")
        if self.ir is not None:
            lines.append(f"  IR: {self.ir}")
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)


class PtxasNotFound(CompileError):
    """No ptxas, or none that knows the target."""
