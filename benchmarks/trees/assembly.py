"""What an assembler makes of both kernels of a pair, and what the static model predicts for them:
all that is known of a target without a device.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

from cutedialect import CompileError
from cutedialect.backend.runtime import ptxas
from cutedialect.model import DEVICES

from ..machine_code import MachineCode, read
from ..sass import Role, roles_of
from .pairs import Pair, Trees, asked, with_processes

SAME, ORDERED, OTHER = "the same machine code", "the same instructions", "other machine code"
ALIKE = (SAME, ORDERED, OTHER)
_WORK = ("multiply", "softmax")


@dataclass(frozen=True)
class Code:
    """What ptxas says of a kernel (bytes of spills), and its machine code."""

    registers: int
    spills: int
    kernels: list[MachineCode]

    @property
    def kinds(self) -> Counter[str]:
        return Counter(line.kind for kernel in self.kernels for line in kernel.lines)

    @property
    def texts(self) -> list[list[str]]:
        return [[line.text for line in kernel.lines] for kernel in self.kernels]

    @property
    def loop(self) -> int:
        """Instructions of every trip of the main loop: the longest of those that multiply, or else
        of all.
        """
        roles = roles_of(self.kernels)
        main = [role for role in roles if role.name in _WORK] or roles
        return max(map(_trip, main), default=0)


def _trip(role: Role) -> int:
    return role.loop.always.total()


def assembled(pair: Pair) -> dict[str, Any]:
    """Figures of both kernels, the base's first, and how their machine code compares."""
    assert pair.old is not None
    assert pair.new is not None
    try:
        old, new = (_code(path.read_text(), pair.target) for path in (pair.old, pair.new))
    except CompileError as error:
        return {"failure": error.message}
    alike = OTHER
    if old.texts == new.texts:
        alike = SAME
    elif old.kinds == new.kinds and old.registers == new.registers:
        alike = ORDERED
    figures: dict[str, Any] = {"alike": alike}
    for name in ("registers", "spills", "loop"):
        figures[name] = [getattr(code, name) for code in (old, new)]
    figures["instructions"] = [code.kinds.total() for code in (old, new)]
    return figures


def _code(ptx: str, target: str) -> Code:
    found = ptxas.assemble(ptx, target)
    spills = found.spill_stores + found.spill_loads
    return Code(found.registers, spills, read(found.cubin))


def predicted(trees: Trees, pairs: list[Pair]) -> None:
    """Predict the time of both kernels of pairs, each by the model of its tree: `predicted` has the
    seconds, the base's first, or `not predicted` why there are none.
    """
    for pair, both in with_processes(trees, [pair for pair in pairs if pair.target in DEVICES]):
        try:
            answers = [asked(process, "predict", **pair.request) for process in both]
        except RuntimeError as error:
            pair.figures["not predicted"] = str(error)
        else:
            pair.figures["predicted"] = [answer["seconds"] for answer in answers]
