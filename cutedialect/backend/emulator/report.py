"""What a finished launch tells: instruction and memory counts, shared-memory wavefronts by line,
the kernel's printf output.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from html import escape

import numpy as np
from numpy.typing import NDArray

# Opcodes that a notebook lists.
_MOST_OPCODES = 40


@dataclass
class SharedAccess:
    """Shared-memory traffic of one PTX line. A wavefront is one pass over the 32 four-byte banks;
    ``minimum`` is what the same accesses need when no two distinct words of a pass share a bank.
    Accesses of 8 and 16 bytes a lane count passes by half and quarter warps, ``ldmatrix`` and
    ``stmatrix`` by 8x8 matrices.
    """

    ptx_line: int
    opcode: str
    accesses: int = 0
    wavefronts: int = 0
    minimum: int = 0

    @property
    def conflicts(self) -> int:
        """Wavefronts beyond the minimum."""
        return self.wavefronts - self.minimum


@dataclass
class GlobalAccess:
    """Traffic of threads with global memory of one PTX line: accesses of a warp, the bytes that its
    lanes ask for, and the sectors of 32 bytes that they touch. Lanes that ask for the same bytes
    make it more bytes than sectors hold. Copies by TMA are not among them.
    """

    ptx_line: int
    opcode: str
    accesses: int = 0
    bytes: int = 0
    sectors: int = 0


@dataclass
class Report:
    """``instructions`` counts warp-level executions by opcode, ``lines`` the same by PTX line;
    ``shared`` and ``global_`` are traffic by PTX line;
    ``global_read`` and ``global_written`` are bytes; ``notes`` are remarks that are no errors;
    ``variables`` are the bytes of the module's ``.global`` variables by name, as they were left.
    """

    entry: str
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    instructions: Counter[str] = field(default_factory=Counter[str])
    lines: Counter[int] = field(default_factory=Counter[int])
    shared: dict[int, SharedAccess] = field(default_factory=dict[int, SharedAccess])
    global_: dict[int, GlobalAccess] = field(default_factory=dict[int, GlobalAccess])
    global_read: int = 0
    global_written: int = 0
    steps: int = 0
    output: str = ""
    notes: list[str] = field(default_factory=list[str])
    variables: dict[str, NDArray[np.uint8]] = field(default_factory=dict[str, NDArray[np.uint8]])

    @property
    def total_instructions(self) -> int:
        return sum(self.instructions.values())

    @property
    def wavefronts(self) -> int:
        return sum(access.wavefronts for access in self.shared.values())

    @property
    def minimum_wavefronts(self) -> int:
        return sum(access.minimum for access in self.shared.values())

    @property
    def bank_conflicts(self) -> int:
        """Shared-memory wavefronts beyond the minimum, over all lines."""
        return self.wavefronts - self.minimum_wavefronts

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """In a notebook: the same, the instructions by number, and what the kernel printed."""
        text = str(self)
        rows = "".join(
            f"<tr><td><code>{escape(opcode)}</code></td><td>{count:,}</td></tr>"
            for opcode, count in self.instructions.most_common(_MOST_OPCODES)
        )
        left = len(self.instructions) - _MOST_OPCODES
        if left > 0:
            rows += f"<tr><td>{left} more in report.instructions</td><td></td></tr>"
        html = (
            f"<pre>{escape(text)}</pre><details><summary>warp instructions</summary>"
            f"<table>{rows}</table></details>"
        )
        if self.output:
            html += f"<details><summary>printed</summary><pre>{escape(self.output)}</pre></details>"
        return {"text/plain": text, "text/html": html}

    def __str__(self) -> str:
        lines = [
            f"{self.entry}: grid {self.grid}, block {self.block}",
            f"  {self.total_instructions} warp instructions in {self.steps} steps",
            f"  global: {self.global_read} bytes read, {self.global_written} bytes written",
            f"  shared: {self.wavefronts} wavefronts, {self.bank_conflicts} beyond the minimum",
        ]
        for access in self.shared.values():
            if access.conflicts:
                lines.append(
                    f"    line {access.ptx_line}: {access.opcode}: {access.wavefronts} wavefronts, "
                    f"minimum {access.minimum}"
                )
        lines.extend(f"  note: {note}" for note in self.notes)
        return "\n".join(lines)
