"""The parts of a loop that computes tile after tile, each with a loop of two stages: what comes
before the first block, the first multiply, the loop, the last second multiply, and what comes
behind that. A loop that cannot be taken apart like this has none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    CopyOp,
    FillOp,
    FragmentType,
    GemmOp,
    StageOp,
)
from cutedialect.dialects.cute_nvgpu import (
    Sm90MmaType,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaWaitOp,
)
from cutedialect.dialects.effects import is_pure, used_by
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    IndexOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ReceiveOp,
    RoleOp,
    SendOp,
    TurnPassOp,
    TurnWaitOp,
)
from cutedialect.dialects.pipeline.roles import role_of
from cutedialect.passes.schedule.multiply_chains import behind, is_plain

_RING_STEPS = (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    IndexOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    ReceiveOp,
    SendOp,
    TurnPassOp,
    TurnWaitOp,
)


@dataclass(frozen=True)
class Multiply:
    """A multiply that is a group of its own: what leads to it, it, and what follows its wait."""

    before: tuple[Operation, ...]
    fence: Operation
    gemm: GemmOp
    commit: Operation
    wait: WgmmaWaitOp
    end: tuple[Operation, ...]
    rest: tuple[Operation, ...]


@dataclass(frozen=True)
class Tile:
    """The ops of a tile. `scalars` are its coordinates; `state` the register tiles that live from
    one part to another, `early` and `late` what sets them before the first block is computed on,
    and before what `late_rest` does to the second multiply's accumulator. `beside` is computed
    while that multiplies, `operand` makes what it takes in the next trip.
    """

    scalars: tuple[Operation, ...]
    state: tuple[AllocFragmentOp, ...]
    early: tuple[Operation, ...]
    late: tuple[Operation, ...]
    waits: tuple[Operation, ...]
    stages: tuple[Operation, ...]
    branch: scf.IfOp
    first: Multiply
    loop: scf.ForOp
    last: Multiply
    beside: tuple[Operation, ...]
    operand: tuple[Operation, ...]
    late_rest: tuple[Operation, ...]
    releases: tuple[Operation, ...]
    following: tuple[Operation, ...]
    epilogue: tuple[Operation, ...]
    turn: TurnWaitOp | None


def tile_parts(loop: scf.ForOp | scf.WhileOp) -> Tile | None:
    """The parts of the loop over tiles; None for any other loop."""
    body = body_of(loop)
    if body is None:
        return None
    ops = list(body.ops)
    branches = [op for op in ops if isinstance(op, scf.IfOp) and _skewed(op) is not None]
    if len(branches) != 1:
        return None
    branch = branches[0]
    skewed = _skewed(branch)
    assert skewed is not None
    at = ops.index(branch)
    inside = list(branch.true_region.block.ops)
    place = inside.index(skewed)
    first = _multiply(inside[:place])
    last = _multiply(inside[place + 1 : -1])
    if first is None or last is None or last.rest:
        return None
    if not _is_told_in_time(ops[at + 1 :], branch):
        return None
    lead = _lead(ops[:at])
    tail = _tail(loop, ops[at + 1 : -1], [op.operands[1] for op in lead.waits] if lead else [])
    if lead is None or tail is None:
        return None
    moved = _hoisted([*first.before, *first.rest], [skewed, *last.before], lead)
    if moved is None:
        return None
    return _parts(lead, tail, branch, skewed, first, last, moved)


def body_of(loop: scf.ForOp | scf.WhileOp) -> Block | None:
    """The block of a loop over items of one number, which nothing asks for behind it."""
    if isinstance(loop, scf.ForOp):
        return None if loop.iter_args else loop.body.block
    before, after = loop.before_region.block, loop.after_region.block
    check = before.last_op
    is_simple = (
        len(before.args) == 1
        and before.args[0].type == i32
        and isinstance(check, scf.ConditionOp)
        and list(check.args) == [before.args[0]]
        and all(op is check or is_pure(op) for op in before.ops)
        and not any(True for _ in loop.results[0].uses)
    )
    return after if is_simple else None


def _skewed(branch: scf.IfOp) -> scf.ForOp | None:
    """The loop of two multiplies in a branch without another side."""
    if branch.results or any(
        not isinstance(op, scf.YieldOp) for block in branch.false_region.blocks for op in block.ops
    ):
        return None
    loops = [op for op in branch.true_region.block.ops if isinstance(op, scf.ForOp)]
    if len(loops) != 1:
        return None
    return loops[0] if len(_gemms(list(loops[0].body.block.ops))) == 2 else None


def _gemms(ops: Sequence[Operation]) -> list[GemmOp]:
    return [op for op in ops if isinstance(op, GemmOp) and isinstance(op.atom, Sm90MmaType)]


def _multiply(ops: Sequence[Operation]) -> Multiply | None:
    gemms = _gemms(ops)
    if len(gemms) != 1:
        return None
    at = ops.index(gemms[0])
    if at < 1 or at + 2 >= len(ops):
        return None
    fence, commit, wait = ops[at - 1], ops[at + 1], ops[at + 2]
    if not (
        isinstance(fence, WgmmaFenceOp)
        and isinstance(commit, WgmmaCommitOp)
        and isinstance(wait, WgmmaWaitOp)
        and wait.pending.value.data == 0
    ):
        return None
    split = at + 3
    while split < len(ops) and isinstance(ops[split], ConsumerReleaseOp | AdvanceOp):
        split += 1
    return Multiply(
        tuple(ops[: at - 1]),
        fence,
        gemms[0],
        commit,
        wait,
        tuple(ops[at + 3 : split]),
        tuple(ops[split:]),
    )


@dataclass(frozen=True)
class _Lead:
    """What stands in front of a tile's multiplies."""

    scalars: tuple[Operation, ...]
    state: tuple[AllocFragmentOp, ...]
    fills: tuple[FillOp, ...]
    waits: tuple[ConsumerWaitOp, ...]
    stages: tuple[Operation, ...]


def _lead(ops: Sequence[Operation]) -> _Lead | None:
    scalars: list[Operation] = []
    state: list[AllocFragmentOp] = []
    fills: list[FillOp] = []
    waits: list[ConsumerWaitOp] = []
    stages: list[Operation] = []
    # What may not be computed for the next tile while this one is at work.
    bound: set[SSAValue] = set()
    for op in ops:
        used = used_by(op)
        if isinstance(op, AllocFragmentOp):
            state.append(op)
            bound.add(op.result)
        elif isinstance(op, FillOp) and op.fragment in bound and op.value not in bound:
            fills.append(op)
        elif isinstance(op, ConsumerWaitOp):
            waits.append(op)
        elif isinstance(op, IndexOp) and any(op.state is wait.state for wait in waits):
            stages.append(op)
            bound.add(op.index)
        elif isinstance(op, StageOp) and op.index in bound:
            stages.append(op)
            bound.add(op.result)
        elif is_pure(op) and not used & bound:
            scalars.append(op)
        else:
            return None
    return _Lead(tuple(scalars), tuple(state), tuple(fills), tuple(waits), tuple(stages))


def _is_told_in_time(ops: Sequence[Operation], branch: scf.IfOp) -> bool:
    """Whether whoever tells the next item does so without waiting for this one's blocks: it is
    asked for while some of them are still to be used.
    """
    told = {op.ring for op in ops if isinstance(op, ConsumerWaitOp)}
    used = {op.ring for op in branch.walk() if isinstance(op, ConsumerWaitOp)}
    mine = role_of(branch)
    around = None if mine is None else mine.parent
    for role in [] if around is None else [op for op in around.ops if isinstance(op, RoleOp)]:
        filled = {op.ring for op in role.walk() if isinstance(op, ProducerAcquireOp)}
        if filled & told and filled & used:
            return False
    return True


@dataclass(frozen=True)
class _Tail:
    """What stands behind a tile's multiplies: the release of what was waited for in front of them,
    what tells the next item, and the epilogue.
    """

    releases: tuple[Operation, ...]
    following: tuple[Operation, ...]
    epilogue: tuple[Operation, ...]


def _tail(
    loop: scf.ForOp | scf.WhileOp, ops: Sequence[Operation], states: Sequence[SSAValue]
) -> _Tail | None:
    count = 0
    while count < len(ops) and isinstance(ops[count], ConsumerReleaseOp | AdvanceOp):
        count += 1
    releases, rest = ops[:count], ops[count:]
    for state in states:
        if [type(op) for op in releases if state in op.operands] != [ConsumerReleaseOp, AdvanceOp]:
            return None
    following: list[Operation] = []
    if isinstance(loop, scf.WhileOp):
        end = loop.after_region.block.last_op
        receive = None if end is None else end.operands[0].owner
        index = receive.index.owner if isinstance(receive, ReceiveOp) else None
        if not isinstance(index, IndexOp):
            return None
        following = [op for op in rest if op is receive or index.state in op.operands]
        kinds = [ConsumerWaitOp, IndexOp, ReceiveOp, ConsumerReleaseOp, AdvanceOp]
        if [type(op) for op in following] != kinds:
            return None
    epilogue = [op for op in rest if op not in following]
    if any(isinstance(inner, _RING_STEPS) for op in epilogue for inner in op.walk()):
        return None
    return _Tail(tuple(releases), tuple(following), tuple(epilogue))


def _hoisted(
    ops: Sequence[Operation], readers: Sequence[Operation], lead: _Lead
) -> tuple[Operation, ...] | None:
    """Scalar code of a first block that what follows it reads; None if that reads anything else."""
    wanted = used_by(*readers)
    found: list[Operation] = []
    bound = {value for op in (*lead.state, *lead.stages) for value in op.results}
    for op in reversed(ops):
        if wanted.isdisjoint(op.results):
            continue
        if op.regions or not is_pure(op) or not bound.isdisjoint(op.operands):
            return None
        found.insert(0, op)
        wanted |= {*op.operands}
    return tuple(found)


def _parts(
    lead: _Lead,
    tail: _Tail,
    branch: scf.IfOp,
    loop: scf.ForOp,
    first: Multiply,
    last: Multiply,
    moved: tuple[Operation, ...],
) -> Tile | None:
    state = {op.result for op in lead.state}
    kept, acc = last.gemm.a, last.gemm.acc
    rest = [op for op in first.rest if op not in moved]
    stores = [op for op in rest if isinstance(op, CopyOp) and op.destination is kept]
    if not {kept, acc} <= state or kept is acc or len(stores) != 1:
        return None
    made = stores[0].source.owner
    if made not in rest or not all(is_plain(op) for op in rest):
        return None
    assert isinstance(made, Operation)
    late = behind(rest, [made], {acc})
    late_rest = behind(late, [], {acc})
    operand = [op for op in late if op not in late_rest]
    if stores[0] not in operand:
        return None
    ahead = {value for op in rest if op not in late_rest for value in op.results}
    kept_on = ahead & used_by(*late_rest)
    if not all(isinstance(each.type, FragmentType) or each.type in (i1, i32) for each in kept_on):
        return None
    touched = {value for op in first.before for value in op.operands}
    in_epilogue = used_by(*tail.epilogue)
    if kept in in_epilogue or not touched.isdisjoint((acc, kept)):
        return None
    late_fills = tuple(op for op in lead.fills if op.fragment is acc)
    if any(op.fragment is kept for op in lead.fills):
        return None
    turns = [op for op in loop.body.block.ops if isinstance(op, TurnWaitOp)]
    return Tile(
        (*lead.scalars, *moved),
        lead.state,
        tuple(op for op in lead.fills if op not in late_fills),
        late_fills,
        lead.waits,
        lead.stages,
        branch,
        _without(first, moved),
        loop,
        last,
        tuple(op for op in rest if op not in late),
        tuple(operand),
        tuple(late_rest),
        tail.releases,
        tail.following,
        tail.epilogue,
        turns[0] if turns else None,
    )


def _without(part: Multiply, moved: Sequence[Operation]) -> Multiply:
    before = tuple(op for op in part.before if op not in moved)
    rest = tuple(op for op in part.rest if op not in moved)
    return Multiply(before, part.fence, part.gemm, part.commit, part.wait, part.end, rest)
