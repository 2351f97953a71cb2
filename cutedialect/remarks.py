"""What a compilation declined and why: `Remark`, and the list that collects them while passes run.
A remark is about an optimization that was not applied or a target without a path of its own, never
about an error. Outside of `collecting()` a remark is dropped.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from cutedialect.notebook import listed


@dataclass(frozen=True)
class Remark:
    """`message` says what pass `pass_name` declined and why; `location` is "file:line:column" of
    the user's line (of the text for `cute-opt`), or None where the IR has none.
    """

    pass_name: str
    message: str
    location: str | None = None

    def __str__(self) -> str:
        where = f"{self.location}: " if self.location is not None else ""
        return f"{where}remark: [{self.pass_name}] {self.message}"


class Remarks(tuple[Remark, ...]):
    """Remarks in order. `print` has one a line, a notebook a table with the users' lines."""

    def __str__(self) -> str:
        return "\n".join(map(str, self)) or "no remarks"

    def _repr_html_(self) -> str:
        if not self:
            return "<p>no remarks</p>"
        rows = [(each.location or "", each.pass_name, each.message) for each in self]
        return listed(("line", "pass", "what it declined, and why"), rows)


_collected: ContextVar[list[Remark] | None] = ContextVar("remarks", default=None)


@contextmanager
def collecting() -> Iterator[list[Remark]]:
    """The list of what `add` is given inside, in this thread; an outer collection sees none."""
    found: list[Remark] = []
    token = _collected.set(found)
    try:
        yield found
    finally:
        _collected.reset(token)


def add(remark: Remark) -> None:
    """Collect a remark if someone collects; the same one counts once."""
    found = _collected.get()
    if found is not None and remark not in found:
        found.append(remark)
