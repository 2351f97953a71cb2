"""Assertions of kernels on the host's side: which there are, from the comments of the PTX text, and
the error that the status word of a module stands for. A failed assertion stops nothing and leaves
the CUDA context as it is; it is raised where the host next waits for the kernel.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

from cutedialect.backend.runtime.errors import KernelAssertionError
from cutedialect.backend.runtime.ptx_text import source_files

_COMMENT = re.compile(r'^// assert (\w+) (\d+) at (\d+):(\d+):(\d+): (".*")$', re.MULTILINE)
# The bits of the status word that hold the number; those above are the CTA's.
_BITS = 16


@dataclass(frozen=True)
class Assertions:
    """The assertions of a program by number, each a message and its place; `symbol` is the name of
    the status word, 8 bytes in global memory, which are 0 until one fails.
    """

    symbol: str
    table: dict[int, tuple[str, str | None]]

    def error(self, kernel: str, status: int) -> KernelAssertionError | None:
        """What a status stands for; None for 0."""
        if status == 0:
            return None
        message, place = self.table[status & (1 << _BITS) - 1]
        return KernelAssertionError(message, location=place, kernel=kernel, cta=status >> _BITS)


def assertions_of(ptx: str) -> Assertions | None:
    """The assertions that a PTX text names; None where it has none."""
    files = source_files(ptx)
    found: Assertions | None = None
    for symbol, number, file, line, column, message in _COMMENT.findall(ptx):
        place = f"{files[file]}:{line}:{column}" if file in files else None
        found = found or Assertions(symbol, {})
        found.table[int(number)] = json.loads(message), place
    return found
