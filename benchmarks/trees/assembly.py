"""What an assembler makes of both kernels of a pair, and what the static model predicts for them:
all that is known of a target without a device.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutedialect.model import DEVICES

from ..machine_code import MachineCode, read
from ..sass import Role, roles_of
from .pairs import Pair, Trees, asked, with_processes

SAME, ORDERED, OTHER = "the same machine code", "the same instructions", "other machine code"
ALIKE = (SAME, ORDERED, OTHER)
_WORK = ("multiply", "softmax")


@dataclass(frozen=True)
class Code:
    """The registers of a thread, as ptxas says, and machine code."""

    registers: int
    kernels: list[MachineCode]

    @property
    def kinds(self) -> Counter[str]:
        return Counter(line.kind for kernel in self.kernels for line in kernel.lines)

    @property
    def instructions(self) -> int:
        return self.kinds.total()

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


def assembled(trees: Trees, pairs: Sequence[Pair], folder: str) -> None:
    """Figures of both kernels of pairs, the base's first, and how their machine code compares, or
    `not read` why the disassembler has none.
    """
    for pair, both in with_processes(trees, pairs):
        try:
            answers = [
                asked(process, "assemble", folder=folder, **pair.request) for process in both
            ]
        except RuntimeError as error:
            pair.figures["failure"] = str(error)
            continue
        for name in ("registers", "spills"):
            pair.figures[name] = [answer[name] for answer in answers]
        try:
            old, new = (
                Code(answer["registers"], read(Path(answer["cubin"]).read_bytes()))
                for answer in answers
            )
        except (OSError, ValueError) as error:
            pair.figures["not read"] = str(error)
            continue
        pair.figures["alike"] = OTHER
        if old.texts == new.texts:
            pair.figures["alike"] = SAME
        elif old.kinds == new.kinds and old.registers == new.registers:
            pair.figures["alike"] = ORDERED
        for name in ("instructions", "loop"):
            pair.figures[name] = [getattr(code, name) for code in (old, new)]


def predicted(trees: Trees, pairs: Sequence[Pair]) -> None:
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
