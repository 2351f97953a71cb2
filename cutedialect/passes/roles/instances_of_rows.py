"""The parts of what a role does that share no tile in registers or shared memory: what instances of
it can do side by side, each with its own rows (`split_rows.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import FragmentType
from cutedialect.dialects.effects import RMEM, space_of
from cutedialect.passes.synchronize.memory_views import root_of


def parts_of(ops: Sequence[Operation]) -> list[list[Operation]]:
    """Ops by the tiles that they share, directly or through others, in order of their first one."""
    leader: dict[SSAValue, SSAValue] = {}

    def find(value: SSAValue) -> SSAValue:
        while leader.setdefault(value, value) is not value:
            value = leader[value]
        return value

    tiles = {op: _tiles(op) for op in ops}
    for mine in tiles.values():
        for other in mine[1:]:
            leader[find(other)] = find(mine[0])
    parts: dict[SSAValue | None, list[Operation]] = {}
    for op, mine in tiles.items():
        parts.setdefault(find(mine[0]) if mine else None, []).append(op)
    rest = parts.pop(None, [])
    found = list(parts.values())
    if found:
        found[0] += rest
    return found or [rest]


def work_of(part: Sequence[Operation]) -> int:
    """How many elements of register tiles the ops of a part touch."""
    types = (value.type for op in part for value in (*op.operands, *op.results))
    return sum(prod(type_.shape) for type_ in types if isinstance(type_, FragmentType))


def _tiles(op: Operation) -> list[SSAValue]:
    """The tiles in registers or on the SM that an op touches."""
    found: list[SSAValue] = []
    for value in (*op.operands, *op.results):
        space = space_of(value)
        if space == RMEM:
            found.append(value)
        elif space in ("smem", "tmem"):
            found.append(root_of(value))
    return found
