"""`CompileError`: what a user sees when a kernel cannot be compiled. A message says what was
expected and what came; the location is the user's Python line where PTX text or IR still knows it.
`EmulatorWarning` is what a user sees once when kernels run without a GPU, `LossWarning` once for a
kernel whose registers spill.
"""

from __future__ import annotations

from collections.abc import Callable

# The code of a program or schedule that a pass refuses.
REFUSED = "CD-PASS"
# How codes begin of a kernel whose synchronization is not proved.
UNPROVED = REFUSED.partition("-")[0] + "-R"
# The code of what fails in a pass without being refused.
INTERNAL = "CD-INTERNAL"
# The code of a kernel whose values do not fit the registers; of one whose `wgmma` the assembler
# serializes for that reason, and of one with an instruction that takes more than there are.
SPILL = "CD-SPILL"
LACKS_REGISTERS = (SPILL, "C7511", "C7512", "C7602")


class CompileError(Exception):
    """A kernel that cannot be compiled.

    `message` is one line, `code` is stable ("CD-PTXAS", "C7508", ...), `location` is
    "file:line" or "file:line:column" of the user's Python or None, `ptx_line` the 1-based line of
    the PTX text, `ir` the op it was printed for, `notes` further lines. `advice` gives one more of
    these: what takes time to find is looked for when the error is shown. `schedule` is what passes
    had made of the kernel's schedule where one refused it.
    """

    # No part of what is pickled.
    __slots__ = ("advice",)
    advice: Callable[[], str | None] | None
    notes: tuple[str, ...]

    def __init__(
        self,
        message: str,
        *,
        code: str = "CD-COMPILE",
        location: str | None = None,
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
        self.schedule: str | None = None
        self.advice = None

    @property
    def is_refusal(self) -> bool:
        """Whether a pass refuses the program with its schedule, or the check of what synchronizes
        it: another schedule may be taken.
        """
        return self.code == REFUSED or self.is_unproved

    @property
    def is_unproved(self) -> bool:
        """Whether the check of what synchronizes the kernel refuses it."""
        return self.code.startswith(UNPROVED)

    def __str__(self) -> str:
        self._take_advice()
        where = f"{self.location}: " if self.location is not None else ""
        lines = [f"{where}error[{self.code}]: {self.message}"]
        if self.ptx_line is not None:
            lines.append(f"  PTX line {self.ptx_line}")
        if self.ir is not None:
            lines.append(f"  IR: {self.ir}")
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)

    def _take_advice(self) -> None:
        """Make a note of the advice, which is looked for once."""
        # An error that was pickled has none.
        advice, self.advice = getattr(self, "advice", None), None
        if advice is not None and (found := advice()) is not None:
            self.notes = (found, *self.notes)


class PtxasNotFoundError(CompileError):
    """No ptxas, or none that knows the target."""


class EmulatorWarning(UserWarning):
    """Kernels run in the emulator although nobody asked for it, thousands of times slower than on
    a GPU. `backend="emulator"` and CUTEDIALECT_BACKEND=emulator ask for it.
    """


class LossWarning(UserWarning):
    """Registers of a kernel spill, or the assembler serializes its `wgmma`: it computes the same,
    more slowly. `spills` of `@cute.kernel`, and of a call, refuses that or allows it instead.
    """


class KernelAssertionError(AssertionError):
    """An assertion of a kernel (`cute.assert_`) that has failed on the device.

    `message` is the assertion's, `location` its "file:line:column" or None, `kernel` the program's
    name, `cta` the number of the CTA in which it failed first.
    """

    code = "CD-ASSERT"

    def __init__(self, message: str, *, location: str | None, kernel: str, cta: int) -> None:
        super().__init__(message)
        self.message = message
        self.location = location
        self.kernel = kernel
        self.cta = cta

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location is not None else ""
        return f"{where}error[{self.code}]: {self.message} (kernel '{self.kernel}', CTA {self.cta})"
