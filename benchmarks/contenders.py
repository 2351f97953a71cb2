"""Who takes part in a case: its yardsticks first, then ours under each schedule, then peers."""

from __future__ import annotations

from typing import Any

from .case import Case, Maker

OURS = "cutedialect"


def make_contenders(
    torch: Any,
    case: Case,
    schedules: dict[str, str | None],
    *,
    peers: bool,
    yardsticks: bool = True,
) -> dict[str, Maker]:
    """Name to maker; a maker raises where its library is missing or refuses."""
    makers = case.theirs(torch) if yardsticks else {}
    for name, schedule in schedules.items():
        makers[name] = lambda schedule=schedule: case.ours(schedule)
    if peers:
        makers.update(case.peers(torch))
    return makers
