"""Role plans as values: which roles a kernel has, which ops each takes, and its warps. A plan is
text, a row for each role:

    load 1+ @40: loads; mma 4 @152: multiplies; main * @216: rest

that is its name, how many warps it has (`*`: those of the schedule; `1+`: more, up to a warpgroup,
where threads have to do what it takes; `2x*`: two teams of them, which take work items in turns;
`2/*`: two roles of them, `main` and `main_1`, which share the rows of a tile; `2>*`: two, of which
the second goes on with what the first computes),
the registers of its threads (`@`, else those of the schedule), and the kinds of ops that it takes.
An op has the role of the first row that takes it. Adding a plan is adding a row to `PLANS`
(`choices.py`); a schedule may bring its own, in parentheses. Who decides by a plan asks what it
says, never what it is called: a plan's name and its text are one plan.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from cutedialect.choices import PLANS

MAIN = "main"
"""The role of everything in a kernel without others, and of what no other one takes."""
UNIFORM = "uniform"
"""The plan where none is chosen: every warp does everything."""
KINDS = (
    "loads", "prepares", "multiplies", "updates", "tensor_multiplies", "stores", "nothing", "rest",
    "corrects", "adds",
)  # fmt: skip
"""What a row may take; `passes/analysis/role_plan.py` says which ops are of a kind."""
# What roles take that only bring operands to the one that computes, or multiply for it.
_SERVING = {"loads", "prepares", "tensor_multiplies", "nothing"}
WARPS_OF_GROUP = 4
"""Warps of a warpgroup."""
_ROW = re.compile(
    r"(?P<name>\w+) (?:(?P<teams>\d+)x)?(?:(?P<parts>\d+)/)?(?:(?P<slices>\d+)>)?"
    r"(?P<warps>\*|\d+)(?P<more>\+)?(?: @(?P<registers>\d+))? ?: ?(?P<kinds>\w+(?: \w+)*)"
)


@dataclass(frozen=True)
class RoleRow:
    """One role of a plan; `warps` is None for those of the schedule, `registers` likewise."""

    name: str
    warps: int | None
    takes: tuple[str, ...]
    registers: int | None = None
    teams: int = 1
    may_grow: bool = False
    parts: int = 1
    slices: int = 1

    @property
    def fills(self) -> bool:
        """Whether the row's warps are there to fill up a warpgroup alone."""
        return self.takes == ("nothing",)

    @property
    def takes_rest(self) -> bool:
        """Whether the row takes whatever no other one does."""
        return "rest" in self.takes

    @property
    def is_narrow(self) -> bool:
        """Whether the row has less than a warpgroup."""
        return self.warps is not None and self.warps < WARPS_OF_GROUP


@dataclass(frozen=True)
class Plan:
    """The rows of a plan; the last one, `main`, takes the rest."""

    rows: tuple[RoleRow, ...]

    @property
    def main(self) -> RoleRow:
        """The row of the role that computes."""
        return self.rows[-1]

    @property
    def loads(self) -> RoleRow | None:
        """The row of a role that loads what others compute on; None where all warps do all."""
        return self.taking("loads") if len(self.rows) > 1 else None

    @property
    def corrects(self) -> RoleRow | None:
        """The row of a role that corrects accumulators in tensor memory, if there is one."""
        return self.taking("corrects")

    @property
    def teams(self) -> int:
        """How many teams of the schedule's warps take work items in turns."""
        return self.main.teams

    @property
    def parts(self) -> int:
        """How many roles share the rows of a tile."""
        return self.main.parts

    @property
    def is_specialized(self) -> bool:
        """Whether one team computes, and some warps of one more warpgroup load, prepare operands or
        issue multiplies into tensor memory for it.
        """
        others = self.rows[:-1]
        return (
            bool(others)
            and self.teams == self.parts == 1
            and all(row.is_narrow and _SERVING.issuperset(row.takes) for row in others)
        )

    @property
    def has_preparing_group(self) -> bool:
        """Whether a warpgroup does nothing but bring operands into the form that is multiplied."""
        row = self.taking("prepares")
        return row is not None and not row.takes_rest and not row.is_narrow

    def taking(self, kind: str) -> RoleRow | None:
        """The first row that takes a kind of ops."""
        return next((row for row in self.rows if kind in row.takes), None)

    def undivided(self) -> str | None:
        """The name of the plan that takes what this one does, in roles that split no rows: with the
        fewest others.

        >>> plan_of("split").undivided()
        'corrected'
        """
        taken = {kind for row in self.rows if not row.fills for kind in row.takes}
        others: dict[str, int] = {}
        for name in PLANS:
            plan = plan_of(name)
            kinds = {kind for row in plan.rows for kind in row.takes}
            if taken <= kinds and plan.parts == plan.teams == 1:
                others[name] = len(kinds)
        return min(others, key=others.__getitem__, default=None)


def plan_of(text: str | None, teams: int | None = None) -> Plan:
    """The plan of a name in `PLANS` or of rows in parentheses, `UNIFORM` for None; `teams` replaces
    the number of teams that take turns, where there are several.

    Raises `ValueError` for an unknown name or kind, rows that do not parse, no last row that takes
    the rest, or several rows without one that takes loads.

    >>> [row.name for row in plan_of("specialized").rows]
    ['load', 'prepare', 'mma', 'main']
    >>> plan_of("(load 1: loads; main 8 @200: rest)").main.registers
    200
    >>> plan_of("alternate", 3).teams
    3
    """
    text = UNIFORM if text is None else text
    rows = text[1:-1] if text.startswith("(") and text.endswith(")") else PLANS.get(text)
    if rows is None:
        known = ", ".join(PLANS)
        raise ValueError(f"expected a role plan ({known}) or rows in parentheses, got '{text}'")
    plan = _parsed(rows)
    if teams is None or plan.teams == 1:
        return plan
    return Plan((*plan.rows[:-1], replace(plan.main, teams=teams)))


@lru_cache(maxsize=1024)
def _parsed(text: str) -> Plan:
    rows = tuple(_row(part.strip()) for part in text.split(";"))
    rests = [row.name for row in rows if row.takes_rest]
    if rests != [MAIN] or rows[-1].name != MAIN or len({row.name for row in rows}) < len(rows):
        raise ValueError(
            f"expected roles of different names, of which the last, '{MAIN}', takes the rest, got "
            f"'{text}'"
        )
    if any(row.parts * row.slices > 1 and not row.takes_rest for row in rows):
        raise ValueError(f"expected the last role alone to be split by rows, got '{text}'")
    if len(rows) > 1 and not any("loads" in row.takes for row in rows):
        raise ValueError(f"expected a role that takes loads, got '{text}'")
    return Plan(rows)


def _row(text: str) -> RoleRow:
    match = _ROW.fullmatch(text)
    if match is None:
        raise ValueError(f"expected 'name warps: kinds' as a role, got '{text}'")
    kinds = tuple(match["kinds"].split())
    if unknown := [kind for kind in kinds if kind not in KINDS]:
        known = ", ".join(KINDS)
        raise ValueError(
            f"expected kinds of ops ({known}) for the role {match['name']}, got {unknown[0]}"
        )
    return RoleRow(
        name=match["name"],
        warps=None if match["warps"] == "*" else int(match["warps"]),
        takes=kinds,
        registers=None if match["registers"] is None else int(match["registers"]),
        teams=int(match["teams"] or 1),
        may_grow=match["more"] is not None,
        parts=int(match["parts"] or 1),
        slices=int(match["slices"] or 1),
    )
