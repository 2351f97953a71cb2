"""`cute-overlap`: in a loop of two warpgroup multiplies, of which the second takes what is computed
from the first one's accumulator, the second works one trip later, while that is computed.

    for j { s = q k[j]; wait; p = f(s); rescale o; o += p v[j]; wait }
    =>
    if there is a trip {
        s = q k[first]; wait; p = f(s); rescale o
        for j behind first { s = q k[j]; o += p v[j - 1]; wait for s; f(s); wait for o; p = f(s);
                             rescale o }
        o += p v[last]; wait
    }

Both groups begin and end in one trip: the assembler serializes multiplies that cross the back edge
while another accumulator is read. What the second multiply reads or adds to is touched behind its
wait; all other code stands between the waits, where the tensor cores work on the second group, but
for what is computed for rows or columns alone: that comes before both. If the second multiply takes
a register tile that the trip writes, in branches or not, that is written between the waits too, and
only copied behind them. Of a branch on whether a trip is the first one each trip has its side. With
`overlap = turns` the role's warpgroups issue their multiplies one after the other, so that the
tensor cores have those of one while another computes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.passes import ModulePass
from xdsl.traits import is_side_effect_free

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AnyOp,
    ConvertOp,
    CopyOp,
    ExtractOp,
    FillOp,
    FragmentType,
    GemmOp,
    KernelOp,
    MapOp,
    ReduceOp,
    StageOp,
)
from cutedialect.dialects.cute_nvgpu import (
    Sm90MmaType,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaWaitOp,
)
from cutedialect.dialects.effects import used_by, written, written_by
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    IndexOp,
    TurnPassOp,
    TurnWaitOp,
)
from cutedialect.dialects.pipeline.roles import role_of
from cutedialect.passes.remarks import remark
from cutedialect.passes.shadows import use_shadows

_GROUP = 4
# What a comparison of the loop's index with its first value says of the first trip and of no other.
_FIRST = {"eq": True, "ne": False, "sle": True, "sgt": False}
# Values of a thread that cost little to hold on to.
_FEW = 8


@dataclass(frozen=True)
class OverlapPass(ModulePass):
    """Skew the loops of kernels whose schedule says `overlap = yes` or `overlap = turns`."""

    name = "cute-overlap"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if not isinstance(kernel, KernelOp) or kernel.schedule is None:
                continue
            schedule = kernel.schedule.data
            if not schedule.overlaps_multiplies:
                continue
            for loop in [each for each in kernel.walk() if isinstance(each, scf.ForOp)]:
                if loop.iter_args:
                    continue
                first, other = (_chain(_trip(loop, is_first)) for is_first in (True, False))
                if isinstance(first, _Chain) and isinstance(other, _Chain):
                    in_turns = schedule.overlap == "turns" and _opens_turns(loop)
                    _skew(loop, first, other, in_turns)
                elif why := first if isinstance(first, str) else other:
                    remark(self.name, loop, f"multiplies not overlapped: {why}")
            if schedule.overlap_tiles != "yes":
                use_shadows(kernel)


@dataclass(frozen=True)
class _Group:
    """One multiply: what leads to it (waiting for its operand), and what ends it."""

    gemm: GemmOp
    start: tuple[Operation, ...]
    end: tuple[Operation, ...]


@dataclass(frozen=True)
class _Chain:
    """The ops of a loop's body in program order: what comes before the end of the first multiply,
    what can run while the second works, and what has to follow that.
    """

    first: _Group
    second: _Group
    before: tuple[Operation, ...]
    beside: tuple[Operation, ...]
    behind: tuple[Operation, ...]


def _trip(loop: scf.ForOp, is_first: bool) -> list[Operation]:
    """The ops of a loop's first trip, or of any other: of branches on which it is one side."""
    found: list[Operation] = []
    for op in loop.body.block.ops:
        says = _asks_for_first(op, loop)
        if says is None:
            found.append(op)
        else:
            found += _inside(op.regions[0 if says == is_first else 1])
    return [op for op in found if not isinstance(op, scf.YieldOp)]


def _asks_for_first(op: Operation, loop: scf.ForOp) -> bool | None:
    """What the condition of a branch is in a loop's first trip, if it is the opposite in others."""
    made = op.cond.owner if isinstance(op, scf.IfOp) and not op.results else None
    if not isinstance(made, arith.CmpiOp) or made.lhs is not loop.body.block.args[0]:
        return None
    kind = arith.CMPI_COMPARISON_OPERATIONS[made.predicate.value.data]
    return _FIRST.get(kind) if _equal(made.rhs, loop.lb) else None


def _equal(one: SSAValue, other: SSAValue) -> bool:
    """Whether two values are known to be the same number."""
    made = one.owner, other.owner
    if isinstance(made[0], arith.ConstantOp) and isinstance(made[1], arith.ConstantOp):
        return made[0].value == made[1].value
    return one is other


def _chain(body: list[Operation]) -> _Chain | str:
    """The parts of a trip with two chained multiplies; for any other why it is none, which is empty
    where there are no two of them.
    """
    gemms = [op for op in body if isinstance(op, GemmOp) and isinstance(op.atom, Sm90MmaType)]
    if len(gemms) < 2:
        return ""
    if len(gemms) > 2:
        return f"expected two multiplies of warpgroups in a trip, got {len(gemms)}"
    one, two = (_group(gemm, body) for gemm in gemms)
    if one is None or two is None:
        return "expected each multiply to be waited for alone, with a ring of its own for B"
    if not isinstance(two.gemm.a.type, FragmentType):
        return "expected the second multiply to take A from registers, got shared memory"
    made, summed = two.gemm.a.owner, two.gemm.acc.owner
    is_written = isinstance(made, AllocFragmentOp)
    if not isinstance(made, MapOp | ConvertOp | AllocFragmentOp) or made not in body:
        return "expected the second multiply's A to be computed in the same trip"
    if summed in body:
        return "expected the second multiply's accumulator to outlive the trip"
    if is_written and two.gemm.a in written_by(*body[body.index(two.gemm) + 1 :]):
        return "the second multiply's A is written again behind it"
    grouped = {*one.end[1:], *two.start, two.gemm, *two.end}
    commit = body.index(one.end[0])
    before = [op for op in body[: commit + 1] if op not in grouped]
    rest = [op for op in body[commit + 1 :] if op not in grouped]
    if made in before or two.gemm.acc in used_by(*before):
        return "the second multiply's operands are touched before the first one"
    if two.gemm.acc in used_by(*body[body.index(two.gemm) + 1 :]):
        return "the second multiply's accumulator is used behind it in the same trip"
    other = next((op for op in rest if not is_plain(op)), None)
    if other is not None:
        return f"expected computing in registers alone between the multiplies, got {other.name}"
    late = behind(rest, None if is_written else made, two.gemm.acc)
    beside = tuple(op for op in rest if op not in late)
    return _Chain(one, two, tuple(before), beside, tuple(late))


def _group(gemm: GemmOp, body: Sequence[Operation]) -> _Group | None:
    """A multiply that is a group of its own, waited for at once, on a stage of a ring."""
    stage = gemm.b.owner
    index = stage.index.owner if isinstance(stage, StageOp) else None
    if not isinstance(index, IndexOp) or index not in body or stage not in body:
        return None
    mine = [op for op in body if index.state in op.operands and op is not index]
    kinds = [type(op) for op in mine]
    if kinds != [ConsumerWaitOp, ConsumerReleaseOp, AdvanceOp]:
        return None
    at = body.index(gemm)
    fence, commit, wait = body[at - 1], body[at + 1], body[at + 2]
    if not (
        isinstance(fence, WgmmaFenceOp)
        and isinstance(commit, WgmmaCommitOp)
        and isinstance(wait, WgmmaWaitOp)
        and wait.pending.value.data == 0
        and isinstance(mine[1], ConsumerReleaseOp)
        and mine[1].pred is None
        and isinstance(stage, Operation)
    ):
        return None
    return _Group(gemm, (mine[0], index, stage, fence), (commit, wait, *mine[1:]))


def is_plain(op: Operation) -> bool:
    """Whether an op only computes, in registers of its own thread or warp."""
    if isinstance(op, scf.IfOp):
        return all(is_plain(inner) for region in op.regions for inner in _inside(region))
    if isinstance(op, CopyOp):
        return isinstance(op.source.type, FragmentType) and isinstance(
            op.destination.type, FragmentType
        )
    if isinstance(op, AnyOp):
        return op.warps is not None and op.warps.value.data == 1
    kinds = (MapOp, ReduceOp, FillOp, ConvertOp, ExtractOp, AllocFragmentOp, scf.YieldOp)
    return isinstance(op, kinds) or is_side_effect_free(op)


def _inside(region: Region) -> Iterator[Operation]:
    for block in region.blocks:
        yield from block.ops


def behind(ops: Sequence[Operation], made: Operation | None, acc: SSAValue) -> list[Operation]:
    """What touches the second multiply's operands, and what depends on that."""
    found: list[Operation] = []
    values: set[SSAValue] = {acc}
    read: set[SSAValue] = set()
    for op in ops:
        used = used_by(op)
        changed = written_by(op)
        if op is made or used & values or changed & read:
            found.append(op)
            values |= {*op.results, *changed}
            read |= used
    return found


def _ahead(chain: _Chain) -> list[Operation]:
    """What is computed for rows or columns alone, without the first multiply's result: it can be
    while that is waited for.
    """
    found: list[Operation] = []
    changed, read = {chain.first.gemm.acc}, set[SSAValue]()
    for op in (*chain.behind, *chain.beside):
        used = used_by(op)
        mine = written_by(op)
        if op in chain.beside and _is_narrow(op) and not (used | mine) & changed | mine & read:
            found.append(op)
        else:
            changed |= {*op.results, *mine}
            read |= used
    needed: set[Operation] = set()
    values: set[SSAValue] = set()
    for op in reversed(found):
        made = {*op.results, *written(op)}
        if isinstance(op, MapOp) or made & values:
            needed.add(op)
            values |= used_by(op)
    return [op for op in found if op in needed]


def _is_narrow(op: Operation) -> bool:
    """Whether an op computes scalars, or a register tile with one element for a row or column."""
    if isinstance(op, MapOp | AllocFragmentOp | FillOp):
        tile = op.fragment if isinstance(op, FillOp) else op.results[0]
        assert isinstance(tile.type, FragmentType)
        return 1 in tile.type.shape
    return not op.regions and is_side_effect_free(op)


def last_written(ops: Sequence[Operation]) -> list[SSAValue]:
    """Small register tiles that stay: all else is computed on the way to them."""
    kept = [value for op in ops for value in written(op) if value.owner not in ops]
    small = [value for value in kept if _values(value) <= _FEW]
    return list(dict.fromkeys(small))


def _values(value: SSAValue) -> int:
    assert isinstance(value.type, FragmentType)
    return value.type.values if value.type.bits == 32 else _FEW + 1


def _opens_turns(loop: scf.ForOp) -> bool:
    """Let the warpgroups of the loop's role take turns, if it has several."""
    role = role_of(loop)
    if role is None or len(role.warp_range) // role.teams <= _GROUP:
        return False
    block = role.body.block
    first = block.first_op
    assert first is not None
    opens, ends = TurnPassOp(None, _GROUP, True), TurnWaitOp(None, _GROUP, True)
    opens.location = ends.location = loop.location
    block.insert_op_before(opens, first)
    block.add_op(ends)
    return True


def _skew(loop: scf.ForOp, first: _Chain, chain: _Chain, in_turns: bool) -> None:
    """Replace a loop by its `first` trip, the skewed loop, and the last second multiply."""
    block = loop.parent
    assert block is not None
    operand = chain.second.gemm.a
    assert isinstance(operand.type, FragmentType)
    kept = AllocFragmentOp(operand.type)
    runs = arith.CmpiOp(loop.lb, loop.ub, "slt")
    then = Block()
    branch = scf.IfOp(runs, [], Region(then), Region(Block([scf.YieldOp()])))
    for op in (kept, runs, branch):
        op.location = loop.location
        block.insert_op_before(op, loop)
    writer = _Writer(then, first, kept.result)
    writer.values[loop.body.block.args[0]] = loop.lb
    writer.clone(first.before)
    writer.finish(first.first, 0)
    writer.clone((*first.beside, *first.behind))
    writer.keep()
    second = arith.AddiOp(loop.lb, loop.step)
    writer.add(second)
    inner = Block(arg_types=[arg.type for arg in loop.body.block.args])
    again = scf.ForOp(second, loop.ub, loop.step, [], inner)
    again.location = loop.location
    writer.add(again)
    trip = _Writer(inner, chain, kept.result)
    trip.values[loop.body.block.args[0]] = inner.args[0]
    fence = chain.before.index(chain.first.start[-1])
    trip.clone(chain.before[:fence])
    if in_turns:
        trip.add(TurnWaitOp(None, _GROUP))
    trip.clone(chain.before[fence:])
    trip.start(chain.second)
    if in_turns:
        trip.add(TurnPassOp(None, _GROUP))
    ahead = _ahead(chain)
    trip.clone(ahead)
    trip.finish(chain.first, 1)
    trip.clone([op for op in chain.beside if op not in ahead])
    trip.finish(chain.second, 0, last_written(chain.beside))
    trip.clone(chain.behind)
    trip.keep()
    trip.add(scf.YieldOp())
    last = _Writer(then, chain, kept.result)
    last.start(chain.second)
    last.finish(chain.second, 0)
    last.add(scf.YieldOp())
    loop.detach()
    loop.erase()


class _Writer:
    """Copies ops of the loop to the end of a block."""

    def __init__(self, block: Block, chain: _Chain, kept: SSAValue) -> None:
        self.block = block
        self.chain = chain
        self.kept = kept
        self.values: dict[SSAValue, SSAValue] = {}

    def add(self, op: Operation) -> None:
        op.location = op.location or self.chain.second.gemm.location
        self.block.add_op(op)

    def clone(self, ops: Sequence[Operation]) -> None:
        """Copies; what the second multiply takes goes to its own register tile."""
        made = self.chain.second.gemm.a.owner
        for op in ops:
            copy = op.clone(self.values)
            copy.location = op.location
            self.block.add_op(copy)
            if op is made and not isinstance(op, AllocFragmentOp):
                self._keep(copy)

    def keep(self) -> None:
        """Keep the register tile that the trip has written for the second multiply, if it does."""
        made = self.chain.second.gemm.a
        if isinstance(made.owner, AllocFragmentOp):
            written = self.values[made].owner
            assert isinstance(written, Operation)
            self._keep(written)

    def _keep(self, made: Operation) -> None:
        store = CopyOp(made.results[0], self.kept)
        store.location = made.location
        self.block.add_op(store)

    def start(self, group: _Group) -> None:
        """Wait for the operand in memory, and multiply by what was kept."""
        self.clone(group.start)
        gemm = group.gemm
        b = self.values.get(gemm.b, gemm.b)
        made = GemmOp(self.kept, b, gemm.acc, gemm.atom)
        made.location = gemm.location
        self.block.add_op(made)
        self.clone(group.end[:1])

    def finish(self, group: _Group, pending: int, after: Sequence[SSAValue] = ()) -> None:
        """Wait until but `pending` groups are done, and release the stage."""
        wait = WgmmaWaitOp(pending, after)
        wait.location = group.end[1].location
        self.block.add_op(wait)
        self.clone(group.end[2:])
