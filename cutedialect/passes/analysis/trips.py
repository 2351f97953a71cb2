"""The trips of a loop: the ops of the first one and of any other, of branches on which it is one
side, and the attributes that say in which trip of the scheduled loop, and where in it, an op runs.

    for j { s = q k[j] {stage = 0, position = 0}; o += s v[j] {stage = 1, position = 1}; ... }

An op of stage 1 runs one trip later than those of stage 0, and ops run in the order of the numbers,
equal ones in that of the program. A branch runs where the ops inside of it do, and pure code of
numbers in front of what first takes it: neither has numbers of its own. The module still means its
ops one after the other: a role of which some ops have stage 1 gets its loop rewritten
(`expand_stages.py`) once it is alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from itertools import product

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, StringAttr, i32
from xdsl.ir import Operation, Region, SSAValue

from cutedialect.dialects.cute import FragmentType, StageOp
from cutedialect.dialects.effects import is_pure, used_by, written_by
from cutedialect.dialects.pipeline import IndexOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.analysis.memory_views import expression_of, roots_of
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply

STAGE = "stage"
ORDER = "position"
CROWDED = "crowded"
"""The attribute of a loop whose trips leave registers for little that stays through all of them."""
# What a comparison of the loop's index with its first value says of the first trip and of no other.
_FIRST = {"eq": True, "ne": False, "sle": True, "sgt": False}


def trip_of(loop: scf.ForOp, is_first: bool) -> list[Operation]:
    """The ops of a loop's first trip, or of any other: of branches on which it is one side."""
    found: list[Operation] = []
    for op in loop.body.block.ops:
        says = _asks_for_first(op, loop)
        if says is None:
            found.append(op)
        else:
            found += inside(op.regions[0 if says == is_first else 1])
    return [op for op in found if not isinstance(op, scf.YieldOp)]


def own_ops(ops: Sequence[Operation]) -> list[Operation]:
    """The ops of the role that multiplies: what others do has its own loop."""
    roles = [op.attributes.get("role") for op in ops if is_warpgroup_multiply(op)]
    mine = roles[0] if roles else None
    return [
        op
        for op in ops
        if not isinstance(given := op.attributes.get("role"), StringAttr) or given == mine
    ]


def inside(region: Region) -> Iterator[Operation]:
    """The ops of a region, not those inside of them."""
    for block in region.blocks:
        yield from block.ops


def _asks_for_first(op: Operation, loop: scf.ForOp) -> bool | None:
    """What the condition of a branch is in a loop's first trip, if it is the opposite in others."""
    made = op.cond.owner if type(op) is scf.IfOp and not op.results else None
    if not isinstance(made, arith.CmpiOp) or made.lhs is not loop.body.block.args[0]:
        return None
    kind = arith.CMPI_COMPARISON_OPERATIONS[made.predicate.value.data]
    return _FIRST.get(kind) if expression_of(made.rhs) == expression_of(loop.lb) else None


def set_place(op: Operation, stage: int, order: int) -> None:
    """Say when an op of a loop runs, or those inside of a branch do."""
    if op.regions and isinstance(op, scf.IfOp):
        for region in op.regions:
            for each in inside(region):
                set_place(each, stage, order)
        return
    if _is_number(op):
        return
    op.attributes[STAGE] = _place(stage)
    op.attributes[ORDER] = _place(order)


@cache
def _place(value: int) -> IntegerAttr:
    return IntegerAttr(value, i32)


def clear_place(op: Operation) -> None:
    """Let an op, and those inside of it, run where they stand."""
    for each in walk(op):
        each.attributes.pop(STAGE, None)
        each.attributes.pop(ORDER, None)


def _is_number(op: Operation) -> bool:
    """Whether an op is pure code of numbers and views, or ends a block. Where a ring stands is
    asked in the order of its steps, so that this and what is made of it is none.
    """
    kind = type(op)
    if kind is scf.YieldOp:
        return True
    if op.regions or not is_pure(op) or kind is IndexOp:
        return False
    if isinstance(op, StageOp) and isinstance(op.index.owner, IndexOp):
        return False
    return not any(type(each.type) is FragmentType for each in (*op.operands, *op.results))


def _among(ops: Mapping[Operation, int], op: Operation | None) -> Operation | None:
    """The op of some that another one is or stands in."""
    while op is not None and op not in ops:
        op = op.parent_op()
    return op


def producers_of(
    ops: Sequence[Operation], trip: Sequence[Operation]
) -> tuple[list[Operation], list[SSAValue]]:
    """What some ops of a trip take from its others: those that make numbers and views, in program
    order, and the register tiles.
    """
    inner, own = set(trip), set(ops)
    found: set[Operation] = set()
    tiles: list[SSAValue] = []
    pending = [value for op in ops for each in walk(op) for value in each.operands]
    while pending:
        value = pending.pop(0)
        made = value.owner
        if not isinstance(made, Operation) or made not in inner or made in own:
            continue
        if isinstance(value.type, FragmentType):
            if value not in tiles:
                tiles.append(value)
        elif made not in found:
            found.add(made)
            pending += made.operands
    return [op for op in trip if op in found], tiles


def stage_of(op: Operation) -> int:
    """How many trips late an op runs: 0 where nothing says it."""
    return _number(op, STAGE) or 0


def order_of(op: Operation) -> int | None:
    """Where in its trip an op runs; None where nothing says it."""
    return _number(op, ORDER)


def _number(op: Operation, name: str) -> int | None:
    """What an op says of itself, or the first op inside of a branch that does."""
    for each in walk(op) if op.regions and isinstance(op, scf.IfOp) else (op,):
        given = each.attributes.get(name)
        if given is None:
            continue
        if isinstance(given, IntegerAttr):
            return given.value.data
    return None


def orders_of(trip: Sequence[Operation]) -> dict[Operation, int]:
    """The order of each op of a trip; of pure code, that of the first op which takes it and is not
    late: late ones have copies of it.
    """
    found: dict[Operation, int] = {}
    for op in reversed(trip):
        given = order_of(op)
        if given is None:
            users = {_among(found, use.operation) for result in op.results for use in result.uses}
            given = min((found[each] for each in users if each and not stage_of(each)), default=0)
        found[op] = given
    return found


def versions_of(ops: Sequence[Operation]) -> list[SSAValue]:
    """The register tiles of which late ops of a trip read what the others have left: those that the
    trip makes, and those from outside that nothing writes behind these reads.
    """
    late = [op for op in ops if stage_of(op)]
    early = [op for op in ops if not stage_of(op)]
    _, tiles = producers_of(late, ops)
    read = dict.fromkeys(value for op in late for inner in walk(op) for value in inner.operands)
    written_late = written_by(*late)
    written = {op: written_by(op) for op in early}
    for tile in read:
        if not isinstance(tile.type, FragmentType) or tile in written_late:
            continue
        writers = [ops.index(op) for op in early if tile in written[op]]
        readers = [ops.index(op) for op in late if tile in used_by(op)]
        if tile not in tiles and writers and max(writers) < min(readers):
            tiles.append(tile)
    return tiles


def wrong_order(ops: Sequence[Operation]) -> tuple[Operation, Operation] | None:
    """Two ops of a trip, the second of which depends on the first and would run before it: in
    their own trip, or the first in the trip that follows. None if every dependence is kept.

    An edge from u to v over d trips asks for stage(v) + d > stage(u), or that both are equal and u
    stands first. Tiles that the trip makes are new in each trip, as are the versions that late ops
    read, so only other tiles from outside of it are edges from one trip to the next.
    """
    made = {value for op in ops for inner in walk(op) for value in inner.results}
    made |= {*versions_of(ops)}
    used = [_touched(op) for op in ops]
    changed = [tiles | roots_of(tiles) for tiles in map(written_by, ops)]
    orders, stages = orders_of(ops), [stage_of(op) for op in ops]
    keys = [(orders[op], at) for at, op in enumerate(ops)]
    acts = [not _is_number(op) for op in ops]
    for (i, u), (j, v) in product(enumerate(ops), repeat=2):
        later, behind = stages[j] - stages[i], keys[i] > keys[j]
        early = j > i and _is_before(later, behind)
        early_next = _is_before(later + 1, behind)
        if not (early or early_next):
            continue
        both = acts[i] and acts[j]
        shared = (changed[i] & used[j]) | (used[i] & changed[j]) if both else set[SSAValue]()
        if early and (shared or not used[j].isdisjoint(u.results)):
            return u, v
        if early_next and shared - made:
            return u, v
    return None


def _is_before(later: int, behind: bool) -> bool:
    """Whether an op runs before another one: so many stages later, or behind it in the order."""
    return later < 0 or (later == 0 and behind)


def _touched(op: Operation) -> set[SSAValue]:
    """What an op takes; where it is more than a number or a view, with the memory behind views."""
    used = used_by(op)
    return {*op.operands} if _is_number(op) else used | roots_of(used)
