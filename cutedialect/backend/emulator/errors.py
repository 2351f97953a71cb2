"""What the emulator raises. Every error carries a code, the PTX line, and the IR and Python
location that the PTX text named for that line (a trailing ``// ir: ...`` comment and ``.loc``).

Codes, by what went wrong:

memory: ``CD-I1`` out of bounds, ``CD-I2`` misaligned, ``CD-I3`` use of uninitialized memory,
``CD-I4`` use of an uninitialized register, ``CD-I8`` a shuffle, vote or warp barrier that names
or reads a lane that does not take part, ``CD-I9`` access to bytes whose asynchronous copy has not
been waited for.

proxies: ``CD-A1`` a bulk copy that may miss ordinary stores, ``CD-A2`` a matrix instruction that
may, ``CD-A8`` an mbarrier whose initialization is not ordered before its use.

mbarriers: ``CD-B1`` bytes that cannot match, ``CD-B3`` a malformed parity, ``CD-B5`` arrivals
that cannot match, ``CD-B6`` a load into bytes that another operation still uses, ``CD-B7`` a write
to bytes that tcgen05 instructions may still read, ``CD-B8`` use outside of its life, or of its
bytes by other instructions, ``CD-B11`` exit with copies in flight, ``CD-B13`` a multicast mask
outside the cluster.

wgmma: ``CD-C1`` a missing ``wgmma.fence``, ``CD-C2`` use of registers in flight, ``CD-C3`` a
write to shared memory that it may still read, ``CD-C5`` threads of a warpgroup that do not agree,
``CD-C6`` outside a warpgroup, ``CD-C7`` a matrix outside shared memory, ``CD-F2`` a malformed
matrix descriptor.

tensor memory: ``CD-D1`` exit without giving it back, ``CD-D2`` an allocation that is illegal or is
never granted, ``CD-D3`` columns given back that were not allocated so, or are still in use,
``CD-D4`` the same by the other CTA of a pair, ``CD-D5`` use of what the tensor core may not have
finished, ``CD-D6`` a missing ``tcgen05.wait``, ``CD-D7`` accesses of two warps that nothing orders,
``CD-D8`` lanes that the warp cannot reach, ``CD-D9`` descriptors and operands that do not fit the
instruction, ``CD-D10`` a commit for a CTA pair without instructions, ``CD-D11`` columns outside of
one allocation. D6, D7 and D10 occur as notes too, where the hardware gives the expected result.

tensor and bulk copies: ``CD-E1`` a tensor map that the driver refuses, ``CD-E2`` no tensor map
there, ``CD-E3`` a misaligned box, ``CD-E6`` sizes, coordinates and operations that are illegal
instructions, ``CD-E7`` a write to shared memory that a store may still read.

barriers and registers: ``CD-G1`` more registers than the pool holds, ``CD-G3`` barrier counts
that cannot match, ``CD-G4`` an ``.aligned`` instruction under divergence, ``CD-G5`` a barrier
that waits for exited threads, ``CD-HANG`` no thread can make progress.

clusters: ``CD-H1`` access to a CTA that may have exited, ``CD-H2`` to one that may not have
started, ``CD-H3`` a wrong CTA, ``CD-H4`` an unbalanced cluster barrier.

targets: ``CD-T1`` an instruction that the ``.target`` has not, ``CD-T2`` one that is newer than the
``.version``.

other: ``CD-LIMIT`` the instruction budget is spent, ``CD-TRAP`` the kernel executed ``trap``,
``CD-PTX`` malformed PTX text, ``CD-ARG`` a wrong launch argument, ``CD-BUG`` a fault of the
emulator itself, ``CD-UNSUPPORTED`` an instruction that the emulator does not know.
"""

from __future__ import annotations


class EmulatorError(Exception):
    """A fault of the emulated kernel, of its PTX text or of its launch arguments.

    ``code`` is one of the codes above, ``ptx_line`` the 1-based line of the PTX text, ``ir`` the
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
