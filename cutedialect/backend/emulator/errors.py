"""What the emulator raises. Every error carries a code, the PTX line, and the IR and Python
location that the PTX text named for that line (a trailing ``// ir: ...`` comment and ``.loc``).

The codes and what they mean are in ``cutedialect/explanations``, one section each:
``python -m cutedialect explain CD-A2``.
"""

from __future__ import annotations


class EmulatorError(Exception):
    """A fault of the emulated kernel, of its PTX text or of its launch arguments.

    ``code`` is one of those codes, ``ptx_line`` the 1-based line of the PTX text, ``ir`` the
    text of the line's ``// ir:`` comment, ``python`` the ``.loc`` position as ``file:line``; the
    last three are ``None`` where unknown. ``notes`` are further lines of the report, ``output`` is
    what the kernel had printed.
    """

    def __init__(
        self,
        message: str,
        *,
        code: str = "CD-PTX",
        ptx_line: int | None = None,
        ir: str | None = None,
        python: str | None = None,
        instruction: str | None = None,
        notes: tuple[str, ...] = (),
    ) -> None:
        super().__init__(message)
        self.message = message
        self.code = code
        self.ptx_line = ptx_line
        self.ir = ir
        self.python = python
        self.instruction = instruction
        self.notes = notes
        self.output = ""

    def __str__(self) -> str:
        lines = [f"error[{self.code}]: {self.message}"]
        if self.ptx_line is not None:
            text = f": {self.instruction}" if self.instruction else ""
            lines.append(f"  PTX line {self.ptx_line}{text}")
        if self.ir is not None:
            lines.append(f"  IR: {self.ir}")
        if self.python is not None:
            lines.append(f"  Python: {self.python}")
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)


class UnsupportedInstruction(EmulatorError):  # noqa: N818
    """An instruction, modifier or operand form that the emulator does not know."""

    def __init__(self, message: str, *, ptx_line: int | None = None) -> None:
        super().__init__(message, code="CD-UNSUPPORTED", ptx_line=ptx_line)
