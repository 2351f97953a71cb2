"""What each PTX instruction does, one family a file. A family registers builders with
``@instruction("head", ...)``, where a head is a dotted prefix of the opcode (the longest one wins);
a builder takes ``(Instruction, Machine)`` and returns the step that runs it. A builder consumes
every modifier through ``Instruction.modifiers`` and ends with ``done()``, so that what it does not
know is an ``UnsupportedInstruction`` and never a wrong result. To add an instruction, add a builder
to its family (or a new file named in ``_FAMILIES``).
"""

from __future__ import annotations

import importlib
from functools import cache
from typing import TYPE_CHECKING

from ..errors import UnsupportedInstruction
from .registry import BUILDERS, Builder

if TYPE_CHECKING:
    from ..module import Instruction

_FAMILIES = (
    "integer", "logic", "floating", "half", "special_functions", "compare", "convert", "move",
    "load_store", "atomics", "control", "barrier", "warp", "copy_async", "ldmatrix", "mma", "wmma",
    "wgmma", "tcgen05", "tcgen05_mma", "video", "mbarrier", "cluster", "tensor_copy",
    "bulk_copy", "store_async", "tensormap", "launch_control",
)  # fmt: skip


@cache
def _builders() -> dict[str, Builder]:
    """The builders of all families. Several threads may ask first: none gets the table before each
    family has been imported.
    """
    for family in _FAMILIES:
        importlib.import_module(f"{__name__}.{family}")
    return BUILDERS


def find(ins: Instruction) -> Builder:
    """The builder of an instruction; ``UnsupportedInstruction`` if there is none."""
    builders = _builders()
    head = ins.opcode
    while True:
        if head in builders:
            return builders[head]
        head, dot, _ = head.rpartition(".")
        if not dot:
            error = UnsupportedInstruction(f"unknown instruction {ins.opcode}", ptx_line=ins.line)
            error.ir, error.python, error.instruction = ins.ir, ins.loc, str(ins)
            raise error
