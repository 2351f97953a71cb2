"""A step of `cute-synchronize`: warpgroup multiplies become groups, and each group is waited for in
front of the first op that needs it complete.

    gemm q, k, s; gemm g, v, t; p = f(s); x = f(t, p)
    =>
    fence; gemm q, k, s; commit; fence; gemm g, v, t; commit;
    wait 1; p = f(s); wait 0; x = f(t, p)

Multiplies that follow each other on one accumulator are one group. No group is at work where a trip
of a loop ends (the assembler serializes multiplies that cross the back edge while another
accumulator is read), but for loops that only accumulate: there one group works while the next one
starts. And the last group of a trip may be one that the next trip completes before it issues any:

    for j {
        wait 0; p = f(s); fence; gemm p, v, x; commit; fence; gemm q, k, s; commit; wait 1; store x
    }
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import IsTerminator

from cutedialect.dialects.cute import AllocSmemOp, CopyOp, FragmentType, GemmOp, LoadOp, MapOp
from cutedialect.dialects.cute_nvgpu import WgmmaCommitOp, WgmmaFenceOp, WgmmaWaitOp
from cutedialect.dialects.effects import is_pure, used_by, written, written_by
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import index_in_block, ops_ahead, ops_behind, ops_of, walk
from cutedialect.passes.analysis.memory_views import root_of, roots_of
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.analysis.operand_plans import multiplies_fed
from cutedialect.passes.analysis.resource_plan import Buffer
from cutedialect.passes.analysis.ring_edges import GUARDED, numbers_of
from cutedialect.passes.rewriting import block_of, erase, insert_after, insert_before

# Groups at work when another one starts: each holds accumulators and A in registers, and one beside
# the new one keeps the tensor cores busy.
_MOST_AT_WORK = 2
# Values of a thread that cost little to hold on to.
_FEW = 8


@dataclass
class _Group:
    """Multiplies that are committed together, and what begins them: a fence, or a branch around
    it.
    """

    gemms: list[GemmOp]
    begin: Operation
    commit: WgmmaCommitOp


@dataclass
class MultiplyGroups:
    """Which wait completes each multiply: what it has read is free behind that. Waits in `trailing`
    complete the multiplies of the trip before, and the loop is followed by one that completes all.
    `commits` has the end of the group of each multiply. `staged` says of buffers that other roles
    fill the ring of more than one stage that each belongs to; `turns` numbers those that take turns
    in one: each is to be free soon, so its multiplies are a group.
    """

    staged: Mapping[Buffer, int]
    turns: Mapping[Buffer, int]
    waits: dict[Operation, WgmmaWaitOp | WgmmaCommitOp] = field(default_factory=dict)
    trailing: set[WgmmaWaitOp] = field(default_factory=set)
    commits: dict[Operation, WgmmaCommitOp] = field(default_factory=dict)

    def end_of(self, readers: Sequence[Operation]) -> Operation:
        """The op of a block behind which readers of a buffer are done with it. Loads to registers
        are done when a multiply that takes these, or what is computed from them, has been issued:
        an arrival may overtake loads, and what it lets another role write comes through another
        proxy, whose fence waits for loads at work, but for none beside multiplies.
        """
        ends = list(dict.fromkeys(map(self._end_of, readers)))
        return max(ends, key=index_in_block)

    def _end_of(self, reader: Operation) -> Operation:
        takers: Sequence[Operation] = ()
        if isinstance(reader, CopyOp) and isinstance(reader.destination.type, FragmentType):
            takers = [use.operation for use in reader.destination.uses]
        elif isinstance(reader, LoadOp):
            takers = multiplies_fed(reader)
        issued = [self.commits[op] for op in takers if op in self.commits]
        if issued and issued[0].parent is reader.parent:
            return issued[0]
        if isinstance(reader, CopyOp | LoadOp) and _is_beside_multiplies(reader):
            # The fence would wait for the multiplies, too, in front of what is computed meanwhile.
            return next((op for op in ops_behind(reader) if isinstance(op, WgmmaWaitOp)), reader)
        return self.waits.get(reader, reader)


def _is_beside_multiplies(reader: Operation) -> bool:
    """Whether threads load a tile of a block to registers while a group of multiplies works."""
    marks = (op for op in ops_ahead(reader) if isinstance(op, WgmmaCommitOp | WgmmaWaitOp))
    return isinstance(next(marks, None), WgmmaCommitOp)


def group_multiplies(part: Block, found: MultiplyGroups) -> None:
    """Group the multiplies of a role and insert their waits."""
    runs: list[list[GemmOp]] = []
    for op in ops_of(part, GemmOp):
        if is_warpgroup_multiply(op):
            if runs and _follows(runs[-1][-1], op):
                runs[-1].append(op)
            else:
                runs.append([op])
    blocks: dict[Block, list[_Group]] = {}
    for run in runs:
        loop = _accumulating_loop(run, found.staged)
        if loop is None:
            groups = [_group(part) for part in _by_accumulator(run, found.turns)]
            blocks.setdefault(block_of(groups[0].commit), []).extend(groups)
            continue
        wait = WgmmaWaitOp(1)
        insert_after(_group(run).commit, wait)
        insert_after(loop, WgmmaWaitOp(0))
        found.waits |= dict.fromkeys(run, wait)
        found.trailing.add(wait)
    for block, groups in blocks.items():
        for group in groups:
            found.commits |= dict.fromkeys(group.gemms, group.commit)
        _insert_waits(block, groups, found)
    for op in ops_of(part, CompleteOp):
        if any(isinstance(tile.type, FragmentType) for tile in op.tiles):
            erase(op)


def _by_accumulator(run: Sequence[GemmOp], turns: Mapping[Buffer, int]) -> list[list[GemmOp]]:
    """The parts of a run that add to one accumulator: each can be waited for alone."""

    def turns_of(gemm: GemmOp) -> list[int | None]:
        roots = [root_of(value).owner for value in (gemm.a, gemm.b)]
        return [turns.get(each) if isinstance(each, AllocSmemOp) else None for each in roots]

    parts: list[list[GemmOp]] = []
    for gemm in run:
        last = parts[-1][-1] if parts else None
        if last is not None and last.acc is gemm.acc and turns_of(last) == turns_of(gemm):
            parts[-1].append(gemm)
        else:
            parts.append([gemm])
    return parts


def _group(gemms: list[GemmOp]) -> _Group:
    """Multiplies between a fence and a commit. Those of a guarded branch are a group without any
    where the branch is not taken, so that as many groups are at work in either case; the assembler
    wants a fence in front of a commit of none, too (C7519).
    """
    fence, commit = WgmmaFenceOp(), WgmmaCommitOp()
    insert_before(gemms[0], fence)
    branch = gemms[0].parent_op()
    if branch is None or GUARDED not in branch.attributes:
        insert_after(gemms[-1], commit)
        return _Group(gemms, fence, commit)
    insert_after(branch, WgmmaFenceOp(), commit)
    return _Group(gemms, branch, commit)


def _insert_waits(block: Block, groups: Sequence[_Group], found: MultiplyGroups) -> None:
    """Wait for each group of a block in front of the first op that needs it, or at the end."""
    begins: dict[Operation, _Group] = {group.commit: group for group in groups}
    begun = {group.begin for group in groups}
    working: list[_Group] = []
    carried = _carried(block, groups)

    def complete(count: int, pins: Sequence[SSAValue] = ()) -> WgmmaWaitOp:
        wait = WgmmaWaitOp(len(working) - count, pins)
        for group in working[:count]:
            found.waits |= dict.fromkeys(group.gemms, wait)
        del working[:count]
        return wait

    for op in list(block.ops):
        needed = [at for at, group in enumerate(working) if _needs(op, group)]
        if op in begun and len(working) >= _MOST_AT_WORK:
            needed.append(len(working) - _MOST_AT_WORK)
        if needed:
            pins = _computed_before(op) if isinstance(op, CompleteOp) else ()
            insert_before(op, complete(max(needed) + 1, pins))
        if op in begins:
            working.append(begins[op])
    end = block.last_op
    if carried is not None:
        _carry(block, *carried, found)
        working.remove(carried[0])
        if working:
            assert end is not None
            wait = WgmmaWaitOp(1)
            for group in working:
                found.waits |= dict.fromkeys(group.gemms, wait)
            insert_before(end, wait)
        return
    if working and end is not None:
        # What follows in the block needs none of them.
        insert = insert_before if end.has_trait(IsTerminator) else insert_after
        insert(end, complete(len(working)))


def _carried(block: Block, groups: Sequence[_Group]) -> tuple[_Group, CompleteOp] | None:
    """The last group of a loop's body, and what completes it in the next trip, in front of all that
    begins there.
    """
    loop, last = block.parent_op(), groups[-1]
    if not isinstance(loop, scf.ForOp):
        return None
    for op in block.ops:
        if isinstance(op, CompleteOp) and last.gemms[0].acc in op.tiles:
            return last, op
        if isinstance(op, WgmmaFenceOp) or _needs(op, last):
            return None
    return None


def _carry(block: Block, group: _Group, complete: CompleteOp, found: MultiplyGroups) -> None:
    """Wait for a group at work in the trip that follows, and behind the loop."""
    insert_before(complete, WgmmaWaitOp(0))
    loop = block.parent_op()
    assert loop is not None
    insert_after(loop, WgmmaWaitOp(0))
    # What it reads is released by others of its trip: those that wait go on when it is issued.
    found.waits |= dict.fromkeys(group.gemms, group.commit)


def _computed_before(op: Operation) -> list[SSAValue]:
    """What is computed between an issue and a completion: the assembler moves a wait up past it
    unless the wait takes some of it. Few registers will do; else what is kept behind the wait.
    """
    issues = WgmmaWaitOp | WgmmaCommitOp
    between = [*takewhile(lambda each: not isinstance(each, issues), ops_ahead(op))][::-1]
    # Small register tiles that stay: all else is computed on the way to them.
    kept = [value for op in between for value in written(op) if value.owner not in between]
    if few := list(dict.fromkeys(value for value in kept if _is_small(value))):
        return few
    sources = [each.source.owner for each in ops_behind(op) if isinstance(each, CopyOp)]
    return [made.result for made in sources if isinstance(made, MapOp) and made in between]


def _is_small(value: SSAValue) -> bool:
    type_ = value.type
    return isinstance(type_, FragmentType) and type_.bits == 32 and type_.values <= _FEW


def _needs(op: Operation, group: _Group) -> bool:
    """Whether an op has to come behind the end of a group: it touches the registers of the group,
    accumulators or A (PTX ISA 9.7.15.7.1), writes memory that the group reads, or is a loop.
    """
    if GUARDED in op.attributes:
        return any(_needs(inner, group) for inner in walk(op) if inner is not op)
    holds_multiplies = op.regions and any(map(is_warpgroup_multiply, walk(op)))
    if holds_multiplies or isinstance(op, scf.ForOp | scf.WhileOp):
        return True
    accumulators = {gemm.acc for gemm in group.gemms}
    read = {value for gemm in group.gemms for value in (gemm.a, gemm.b)}
    registers = accumulators | {each for each in read if isinstance(each.type, FragmentType)}
    if isinstance(op, GemmOp) and is_warpgroup_multiply(op):
        # Multiplies of one accumulator are done in their order.
        return op.a in accumulators or op.b in accumulators
    changed = roots_of(written_by(op))
    return bool(registers & used_by(op)) or not changed.isdisjoint(roots_of(read))


def _accumulating_loop(run: Sequence[GemmOp], staged: Mapping[Buffer, int]) -> scf.ForOp | None:
    """The loop that holds these multiplies, if nothing else in it touches their accumulators: the
    group of one trip may then be at work while the next one starts.
    """
    loop = run[0].parent_op()
    if not isinstance(loop, scf.ForOp) or not all(_is_staged(gemm, staged) for gemm in run):
        return None
    for gemm in run:
        for use in gemm.acc.uses:
            if use.operation is not gemm and loop.is_ancestor(use.operation):
                return None
    others = [op for op in walk(loop) if is_warpgroup_multiply(op) and op not in run]
    return None if others else loop


def _is_staged(gemm: GemmOp, staged: Mapping[Buffer, int]) -> bool:
    """Whether both operands are buffers that another role fills for the same trip."""
    return all(
        isinstance(value.owner, AllocSmemOp)
        and value.owner in staged
        and staged[value.owner] in numbers_of(gemm)
        for value in (gemm.a, gemm.b)
    )


def _follows(one: Operation, other: Operation) -> bool:
    """Whether only pure ops on numbers stand between two ops of a block."""
    for op in ops_behind(one):
        values = (*op.operands, *op.results)
        if op is other:
            return True
        if not is_pure(op) or any(isinstance(each.type, FragmentType) for each in values):
            return False
    return False
