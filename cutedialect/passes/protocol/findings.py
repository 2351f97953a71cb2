"""What the check reports: a code, what is missing, and the places of both accesses."""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation

UNORDERED = "CD-R1"
UNFENCED = "CD-R2"
BYTES = "CD-R3"
ARRIVALS = "CD-R4"
STUCK = "CD-R5"
UNWRITTEN = "CD-R6"
IN_FLIGHT = "CD-R7"
PENDING = "CD-R8"
PHASE = "CD-R9"
TRIP = "CD-R10"


class Undecided(Exception):  # noqa: N818 - control flow of this package, never seen outside
    """An op of which the table says nothing, or whose accesses it cannot place."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op = op


@dataclass(frozen=True)
class Finding:
    """A fault of a program: its code, the op at fault, the other op of the pair, if any, and what
    edge is missing. `case` is the case of trips in which it was seen.
    """

    code: str
    op: Operation
    message: str
    other: Operation | None = None
    case: str = ""

    def text(self) -> str:
        """The message with both places."""
        place = "" if self.other is None else place_of(self.other)
        at = f" (the other access: {self.other.name}{place})" if self.other is not None else ""
        case = f"; seen with {self.case}" if self.case else ""
        return f"{self.code}: {self.message}{at}{case}"


def place_of(op: Operation) -> str:
    """The user's line of an op, or of the op around it; empty where none has one."""
    at: Operation | None = op
    while at is not None and not isinstance(at.location, FileLineColLoc):
        at = at.parent_op()
    if at is None:
        return ""
    place = at.location
    assert isinstance(place, FileLineColLoc)
    return f" at {place.filename.data}:{place.line.data}:{place.column.data}"
