"""Role plans as data: which roles a kernel has, which ops each takes, and its warps. A plan is
text, a row for each role:

    load 1+ @40: loads; mma 4 @152: multiplies; main * @216: rest

that is its name, how many warps it has (`*`: those of the schedule; `1+`: more, up to a warpgroup,
where threads have to do what it takes; `2x*`: two teams of them, which take work items in turns;
`2/*`: two roles of them, `main` and `main_1`, which share the rows of a tile),
the registers of its threads (`@`, else those of the schedule), and the kinds of ops that it takes.
An op has the role of the first row that takes it. Adding a plan is adding a row to `PLANS`
(`choices.py`); a schedule may bring its own, in parentheses.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue

from cutedialect.choices import PLANS
from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import (
    TmaPrefetchOp,
    TransposeCopyType,
    WidenCopyType,
)
from cutedialect.dialects.effects import RMEM, Unit, effects_of, space_of, written
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.memory_views import uses_of

MAIN = "main"
"""The role of everything in a kernel without others, and of what no other one takes."""
ROLE = "role"
"""The attribute of an op with its role."""
ROLES = "roles"
"""The kernel's attribute with its roles, where it has more than one."""
# Where a multiply has its accumulator among its operands.
_ACCUMULATOR = 2
PREPARING_WARPS = 2
"""Warps that transpose or convert operands in shared memory."""


def is_load(op: Operation) -> bool:
    """Whether an op brings a tile from global to shared memory, by whatever atom."""
    return isinstance(op, cute.CopyOp) and (space_of(op.source), space_of(op.destination)) == (
        "gmem",
        "smem",
    )


def is_preparing(op: Operation) -> bool:
    """Whether an op brings a tile from shared memory to shared memory: transposed, converted or
    shifted.
    """
    if not isinstance(op, cute.CopyOp):
        return False
    return isinstance(op.atom, TransposeCopyType | WidenCopyType) or op.origin is not None


def is_update(op: Operation) -> bool:
    """Whether an op computes what an accumulator of multiplies holds from then on, out of that."""
    if not isinstance(op, cute.MapOp):
        return False
    users = [use.operation for use in op.result.uses]
    kept = {user.destination for user in users if isinstance(user, cute.CopyOp)}
    return len(kept) == 1 == len(users) and any(
        isinstance(use.operation, cute.GemmOp) and use.operation.acc is value
        for value in kept & {*op.operands}
        for use in value.uses
    )


def is_corrected(alloc: cute.AllocTmemOp) -> bool:
    """Whether multiplies add to what threads have written, and none of them begins anew."""
    uses = [(use.operation, use.index) for use in uses_of(alloc.result)]
    gemms = [op for op, index in uses if isinstance(op, cute.GemmOp) and index == _ACCUMULATOR]
    is_stored = any(isinstance(op, cute.CopyOp) and index == 1 for op, index in uses)
    return bool(gemms) and is_stored and all(op.keeps is None for op in gemms)


def instances_of_rows(kernel: cute.KernelOp) -> int:
    """Into how many parts a kernel's plan splits the rows of its tiles."""
    plan = kernel.choices.roles
    try:
        return 1 if plan is None else rows_of(plan)[-1].parts
    except ValueError:  # `cute-assign-warp-roles` says what is wrong with it.
        return 1


def corrections(kernel: cute.KernelOp) -> set[Operation]:
    """The ops that touch accumulators in tensor memory which threads update in place, and what is
    computed from what these hold, but for the multiplies.
    """
    tiles: set[SSAValue] = {
        op.result for op in ops_of(kernel, cute.AllocTmemOp) if is_corrected(op)
    }
    found: set[Operation] = set()
    for op in walk(kernel.body.block) if tiles else ():
        touches = any(space_of(value) is not None and value in tiles for value in op.operands)
        if not touches or effects_of(op).unit is Unit.TCGEN05:
            continue
        found.add(op)
        tiles.update(op.results)
        tiles.update(value for value in written(op) if space_of(value) in (RMEM, "smem"))
        to_tmem = isinstance(op, cute.CopyOp) and space_of(op.destination) == "tmem"
        if to_tmem and isinstance(op.source.owner, cute.AllocFragmentOp):
            users = (use.operation for use in op.source.uses)
            found.update(user for user in users if isinstance(user, cute.FillOp))
    return found


KINDS: dict[str, Callable[[Operation, set[Operation]], bool]] = {
    "loads": lambda op, _: is_load(op) or isinstance(op, TmaPrefetchOp),
    "prepares": lambda op, _: is_preparing(op),
    "multiplies": lambda op, _: isinstance(op, cute.GemmOp),
    "updates": lambda op, _: is_update(op),
    "tensor_multiplies": lambda op, _: effects_of(op).unit is Unit.TCGEN05,
    # By one thread: what a warpgroup of several has of a tile is stored by each.
    "stores": lambda op, _: (
        effects_of(op).unit is Unit.TMA_STORE
        and getattr(getattr(op, "atom", None), "warps", None) is None
    ),
    "nothing": lambda op, _: False,
    "rest": lambda op, _: True,
    "corrects": lambda op, corrected: op in corrected,
}
"""What a row may take: told of an op, and of the `corrections` of its kernel."""
_ROW = re.compile(
    r"(?P<name>\w+) (?:(?P<teams>\d+)x)?(?:(?P<parts>\d+)/)?(?P<warps>\*|\d+)(?P<more>\+)?"
    r"(?: @(?P<registers>\d+))? ?: ?(?P<kinds>\w+(?: \w+)*)"
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

    def accepts(self, op: Operation, corrected: set[Operation]) -> bool:
        """Whether the row takes an op; `corrected` are the `corrections` of its kernel."""
        return any(KINDS[kind](op, corrected) for kind in self.takes)

    @property
    def fills(self) -> bool:
        """Whether the row's warps are there to fill up a warpgroup alone."""
        return self.takes == ("nothing",)

    @property
    def takes_rest(self) -> bool:
        """Whether the row takes whatever no other one does."""
        return "rest" in self.takes


def rows_of(plan: str) -> tuple[RoleRow, ...]:
    """The rows of a plan: one of `PLANS` by its name, or rows in parentheses.

    Raises `ValueError` for an unknown name or kind, rows that do not parse, no last row that takes
    the rest, or several of which none takes loads.

    >>> [row.name for row in rows_of("specialized")]
    ['load', 'prepare', 'mma', 'main']
    >>> rows_of("(load 1: loads; main 8 @200: rest)")[1].registers
    200
    """
    text = plan[1:-1] if plan.startswith("(") and plan.endswith(")") else PLANS.get(plan)
    if text is None:
        known = ", ".join(PLANS)
        raise ValueError(f"expected a role plan ({known}) or rows in parentheses, got '{plan}'")
    rows: list[RoleRow] = []
    for part in text.split(";"):
        found = _ROW.fullmatch(part.strip())
        if found is None:
            raise ValueError(f"expected 'name warps: kinds' as a role, got '{part.strip()}'")
        kinds = tuple(found["kinds"].split())
        if unknown := [kind for kind in kinds if kind not in KINDS]:
            known = ", ".join(KINDS)
            raise ValueError(
                f"expected kinds of ops ({known}) for the role {found['name']}, got {unknown[0]}"
            )
        warps = None if found["warps"] == "*" else int(found["warps"])
        registers = None if found["registers"] is None else int(found["registers"])
        teams, may_grow = int(found["teams"] or 1), found["more"] is not None
        parts = int(found["parts"] or 1)
        rows.append(RoleRow(found["name"], warps, kinds, registers, teams, may_grow, parts))
    rests = [row.name for row in rows if row.takes_rest]
    if rests != [MAIN] or rows[-1].name != MAIN or len({row.name for row in rows}) < len(rows):
        raise ValueError(
            f"expected roles of different names, of which the last, '{MAIN}', takes the rest, got "
            f"'{text}'"
        )
    if any(row.parts > 1 and not row.takes_rest for row in rows):
        raise ValueError(f"expected the last role alone to be split by rows, got '{text}'")
    if len(rows) > 1 and not any("loads" in row.takes for row in rows):
        raise ValueError(f"expected a role that takes loads, got '{text}'")
    return tuple(rows)


def undivided(rows: tuple[RoleRow, ...]) -> str | None:
    """The plan that takes what a plan takes, in roles that split no rows: with the fewest others.

    >>> undivided(rows_of("split"))
    'corrected'
    """
    taken = {kind for row in rows if not row.fills for kind in row.takes}
    found: dict[str, int] = {}
    for name in PLANS:
        others = rows_of(name)
        kinds = {kind for row in others for kind in row.takes}
        if taken <= kinds and others[-1].parts == others[-1].teams == 1:
            found[name] = len(kinds)
    return min(found, key=found.__getitem__, default=None)


def role_of(op: Operation) -> str | None:
    """The role that an op was given."""
    given = op.attributes.get(ROLE)
    return given.data if given is not None and isinstance(given, StringAttr) else None


def give(role: str, *ops: Operation) -> None:
    """Say who does some ops."""
    name = StringAttr(role)
    for op in ops:
        op.attributes[ROLE] = name
