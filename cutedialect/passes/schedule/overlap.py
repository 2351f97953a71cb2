"""`cute-overlap`: in a loop of chained warpgroup multiplies, the last of which takes what is
computed from those before and sums over all trips, the last works one trip later, meanwhile.

    for j { s = q k[j]; wait; p = f(s); rescale o; o += p v[j]; wait }
    =>
    if there is a trip {
        s = q k[first]; wait; p = f(s); rescale o
        for j behind first { s = q k[j]; o += p v[j - 1]; wait for s; f(s); wait for o; p = f(s);
                             rescale o }
        o += p v[last]; wait
    }

Both groups begin and end in one trip: the assembler serializes multiplies that cross the back edge
while another accumulator is read. What the last multiply reads or adds to is touched behind its
wait; all other code stands between the waits, where the tensor cores work on the last group, but
for what is computed for rows or columns alone: that comes before both. Multiplies between the first
and the last one keep their places in that code. What follows the last multiply and touches its
accumulator (a decay) comes a trip later as well, with copies of the register tiles that it reads.
If the last multiply takes a register tile that the trip writes, in branches or not, that is written
between the waits too, and only copied behind them. Of a branch on whether a trip is the first one
each trip has its side. With `overlap = turns` the role's warpgroups issue their multiplies one
after the other, so that the tensor cores have those of one while another computes. A loop of
several multiplies that is not of this form keeps the order of its program, with a remark.
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
    YieldOp,
)
from cutedialect.dialects.cute_nvgpu import (
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
from cutedialect.passes.schedule.shadows import use_shadows
from cutedialect.passes.synchronize.multiply_groups import is_warpgroup_multiply

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
                try:
                    first, other = (
                        _chain(_trip(loop, is_first), loop) for is_first in (True, False)
                    )
                except _DeclinedError as declined:
                    remark(
                        self.name,
                        declined.op,
                        f"multiplies not overlapped: {declined}",
                    )
                    continue
                if first is not None and other is not None and first.kept == other.kept:
                    in_turns = schedule.overlap == "turns" and _opens_turns(loop)
                    _skew(loop, first, other, in_turns)
            if schedule.overlap_tiles != "yes":
                use_shadows(kernel)


class _DeclinedError(Exception):
    """Why a loop of several multiplies is not skewed, and the op that it is about."""

    def __init__(self, op: Operation, reason: str) -> None:
        super().__init__(reason)
        self.op = op


@dataclass(frozen=True)
class _Group:
    """One multiply: what leads to it (waiting for its operand), and what ends it."""

    gemm: GemmOp
    start: tuple[Operation, ...]
    end: tuple[Operation, ...]


@dataclass(frozen=True)
class _Chain:
    """The ops of a loop's body in program order: what comes before the end of the first multiply,
    what can run while the last, `second`, works, and what has to follow that. `tail` follows the
    last multiply in its own trip, and comes with it a trip later; it reads the tiles `kept`. If the
    last multiply's operand `is_early`, it is made beside the last multiply, and copied behind it.
    """

    first: _Group
    second: _Group
    before: tuple[Operation, ...]
    beside: tuple[Operation, ...]
    behind: tuple[Operation, ...]
    tail: tuple[Operation, ...]
    kept: tuple[SSAValue, ...]
    is_early: bool


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


def _chain(body: list[Operation], loop: scf.ForOp) -> _Chain | None:
    """The parts of a trip with chained multiplies; None for a loop with fewer than two.

    Raises `_DeclinedError` for a trip that cannot be taken apart.
    """
    gemms = [op for op in body if isinstance(op, GemmOp) and is_warpgroup_multiply(op)]
    if len(gemms) < 2:
        return None
    first, second = _group(gemms[0], body), _group(gemms[-1], body)
    groups = [_group(gemm, body) for gemm in gemms[1:-1]]
    last, acc = second.gemm, second.gemm.acc
    made = last.a.owner
    is_written = isinstance(made, AllocFragmentOp)
    if not isinstance(last.a.type, FragmentType) or made not in body:
        raise _DeclinedError(last, "its A operand is no register tile that the trip computes")
    if not isinstance(made, MapOp | ConvertOp | AllocFragmentOp):
        raise _DeclinedError(last, f"its A operand is the result of {_name(made)}")
    if acc.owner in body:
        raise _DeclinedError(last, "its accumulator does not outlive the trip")
    at = body.index(last)
    if is_written and last.a in written_by(*body[at + 1 :]):
        raise _DeclinedError(last, "its A operand is written again behind it")
    grouped = {*first.end[1:], *second.start, last, *second.end}
    commit = body.index(first.end[0])
    before = [op for op in body[: commit + 1] if op not in grouped]
    if made in before or acc in used_by(*before):
        raise _DeclinedError(last, "its operands do not depend on the first multiply")
    tail = _dependents(body[at + 1 :], {acc}, grouped)
    kept = _kept(tail, body, loop, acc)
    rest = [op for op in body[commit + 1 :] if op not in grouped and op not in tail]
    multiplies = {op for group in groups for op in (*group.start, group.gemm, *group.end)}
    for op in rest:
        if op not in multiplies and not is_plain(op):
            raise _DeclinedError(op, f"{op.name} is more than arithmetic on registers")
    changed = {acc, *written_by(*tail)}
    is_early = is_written or _computes(made)
    late = behind(rest, None if is_early else made, changed)
    if multiplies & set(late):
        raise _DeclinedError(last, "a multiply before it depends on its accumulator")
    beside = tuple(op for op in rest if op not in late)
    is_early = is_early and made not in late
    return _Chain(
        first, second, tuple(before), beside, tuple(late), tuple(tail), tuple(kept), is_early
    )


def _dependents(
    ops: Sequence[Operation], values: set[SSAValue], grouped: set[Operation]
) -> list[Operation]:
    """The ops that touch some values, or what is made of them."""
    found: list[Operation] = []
    for op in ops:
        changed = written_by(op)
        if op not in grouped and (used_by(op) | changed) & values:
            found.append(op)
            values |= {*op.results, *changed}
    return found


def _kept(
    tail: Sequence[Operation], body: Sequence[Operation], loop: scf.ForOp, acc: SSAValue
) -> list[SSAValue]:
    """The register tiles of its own trip that a tail reads: they outlive the trip as copies."""
    made = {result for op in tail for inner in op.walk() for result in inner.results}
    changed = written_by(loop) - written_by(*tail) - {acc}
    found: list[SSAValue] = []
    for op in tail:
        if not is_plain(op):
            raise _DeclinedError(op, f"{op.name} behind the last multiply is more than arithmetic")
        used = dict.fromkeys(value for inner in op.walk() for value in inner.operands)
        for value in [each for each in used if each not in made]:
            if value in changed:
                raise _DeclinedError(
                    op, "what follows the last multiply reads a tile that the trip changes"
                )
            if isinstance(value.type, FragmentType):
                if value.owner in body and value not in found:
                    found.append(value)
            elif value.owner in body or value is loop.body.block.args[0]:
                raise _DeclinedError(
                    op, "what follows the last multiply takes a number that the trip computes"
                )
    return found


def _computes(made: Operation | Block) -> bool:
    """Whether an op computes more than a conversion: that is worth doing beside a multiply."""
    if not isinstance(made, MapOp):
        return False
    body = [op for op in made.body.block.ops if not isinstance(op, arith.ConstantOp | YieldOp)]
    return any(op.name.startswith("math.") for op in body)


def _name(owner: Operation | Block) -> str:
    return owner.name if isinstance(owner, Operation) else "a block"


def _group(gemm: GemmOp, body: Sequence[Operation]) -> _Group:
    """A multiply that is a group of its own, on a stage of a ring.

    Raises `_DeclinedError` for any other.
    """
    stage = gemm.b.owner
    index = stage.index.owner if isinstance(stage, StageOp) else None
    if not isinstance(index, IndexOp) or index not in body or stage not in body:
        raise _DeclinedError(gemm, "the B operand of a multiply is not loaded in its trip")
    mine = [op for op in body if index.state in op.operands and op is not index]
    kinds = [type(op) for op in mine]
    if kinds != [ConsumerWaitOp, ConsumerReleaseOp, AdvanceOp]:
        raise _DeclinedError(gemm, "a ring is read more than once in a trip")
    at = body.index(gemm)
    fence, commit, wait = body[at - 1], body[at + 1], mine[1].prev_op
    while isinstance(wait, AdvanceOp | ConsumerReleaseOp):
        wait = wait.prev_op
    if not (
        isinstance(fence, WgmmaFenceOp)
        and isinstance(commit, WgmmaCommitOp)
        and isinstance(wait, WgmmaWaitOp)
        and wait.pending.value.data == 0
        and isinstance(mine[1], ConsumerReleaseOp)
        and mine[1].pred is None
        and isinstance(stage, Operation)
    ):
        raise _DeclinedError(gemm, "a multiply is in a group with others, or works beside them")
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


def behind(
    ops: Sequence[Operation], made: Operation | None, touched: set[SSAValue]
) -> list[Operation]:
    """What touches the last multiply's operands, and what depends on that."""
    found: list[Operation] = []
    values = set(touched)
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
    others = {value: AllocFragmentOp(value.type) for value in chain.kept}  # pyright: ignore[reportArgumentType]
    runs = arith.CmpiOp(loop.lb, loop.ub, "slt")
    then = Block()
    branch = scf.IfOp(runs, [], Region(then), Region(Block([scf.YieldOp()])))
    for op in (kept, *others.values(), runs, branch):
        op.location = loop.location
        block.insert_op_before(op, loop)
    copies: dict[SSAValue, SSAValue] = {value: other.result for value, other in others.items()}
    writer = _Writer(then, first, kept.result, copies)
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
    trip = _Writer(inner, chain, kept.result, copies)
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
    pins = last_written(chain.beside)
    if not pins and chain.is_early and isinstance(operand.owner, MapOp):
        pins = [chain.second.gemm.a]
    trip.finish(chain.second, 0, [trip.values.get(pin, pin) for pin in pins])
    trip.clone_tail()
    trip.clone(chain.behind)
    trip.keep()
    trip.add(scf.YieldOp())
    last = _Writer(then, chain, kept.result, copies)
    last.start(chain.second)
    last.finish(chain.second, 0)
    last.clone_tail()
    last.add(scf.YieldOp())
    loop.detach()
    loop.erase()


class _Writer:
    """Copies ops of the loop to the end of a block."""

    def __init__(
        self, block: Block, chain: _Chain, kept: SSAValue, copies: dict[SSAValue, SSAValue]
    ) -> None:
        self.block = block
        self.chain = chain
        self.kept = kept
        self.copies = copies
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
            if op is made and not self.chain.is_early:
                self._keep(copy)

    def clone_tail(self) -> None:
        """What follows the last multiply, on the tiles that the trip before has kept."""
        values = dict(self.copies)
        for op in self.chain.tail:
            copy = op.clone(values)
            copy.location = op.location
            self.block.add_op(copy)

    def keep(self) -> None:
        """Keep what the trip has written for the last multiply and what follows it."""
        for value, copy in self.copies.items():
            store = CopyOp(self.values[value], copy)
            store.location = self.chain.second.gemm.location
            self.block.add_op(store)
        made = self.chain.second.gemm.a
        if self.chain.is_early:
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
