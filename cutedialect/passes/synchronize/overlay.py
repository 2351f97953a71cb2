"""A step of `cute-synchronize`: buffers of shared memory that are used one after the other share
storage, where all of them together are more than a CTA has.

    %a = cute.alloc_smem; %b = cute.alloc_smem; copy x, %a; use %a; copy y, %b; use %b
    =>
    %a = cute.alloc_smem {offset = 0}; %b = cute.alloc_smem {offset = 0}; ...

Offsets are those of one area. A buffer lives from its first access to its last one in the block
that holds all of them; around a loop's back edge only if a trip begins with reading it. Buffers
whose bytes overlap are one resource: `memory_hazards.py` lets each wait for the accesses of the
others. Where the area has room for more than what lives at one time, buffers take turns, so that a
copy seldom waits for the readers of the tile just before.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation

from cutedialect.dialects.cute import AllocSmemOp, BarrierOp, KernelOp, memref_of
from cutedialect.dialects.effects import effects_of
from cutedialect.dialects.walks import walk
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import block_of
from cutedialect.passes.roles.resource_plan import room
from cutedialect.passes.synchronize.memory_views import root_of


@dataclass(frozen=True)
class Life:
    """Where a buffer is in use: from one op of a block to another one, `end` included."""

    block: Block
    start: int
    end: int

    def meets(self, other: Life) -> bool:
        """Whether both are in use at one time."""
        one, two = self, other
        while one.block is not two.block:
            if _depth(one.block) >= _depth(two.block):
                one = one.outside()
            else:
                two = two.outside()
        return one.start <= two.end and two.start <= one.end

    def outside(self) -> Life:
        """As seen from the block around."""
        around = self.block.parent_op()
        block = None if around is None else around.parent
        assert around is not None
        assert block is not None
        at = block.get_operation_index(around)
        return Life(block, at, at)


def overlay_buffers(kernel: KernelOp) -> None:
    """Give the buffers of a kernel without roles places that they share, if they do not fit."""
    left = room(kernel, ())
    if left >= 0:
        return
    lives = _lives(kernel)
    sizes = {alloc: alloc.bytes for alloc in lives}
    places = _in_turns(lives, sizes, sum(sizes.values()) + left)
    if places is None:
        places = _packed(lives, sizes)
    used = _end(places, sizes)
    if used >= sum(sizes.values()):
        return
    for alloc, place in places.items():
        alloc.properties["offset"] = IntegerAttr(place, i64)
    remark(
        "cute-synchronize",
        kernel,
        f"{len(places)} buffers of {sum(sizes.values())} bytes share {used} bytes of shared memory",
    )


# When buffers are in use


def _lives(kernel: KernelOp) -> dict[AllocSmemOp, Life]:
    """The lives of the buffers that may share storage, in the order in which they begin."""
    accesses: dict[AllocSmemOp, list[Operation]] = {}
    narrow = False
    for op in walk(kernel.body.block):
        narrow |= isinstance(op, BarrierOp) and op.warps is not None
        effects = effects_of(op)
        for value in (*effects.reads, *effects.writes):
            alloc = root_of(value).owner
            if isinstance(alloc, AllocSmemOp):
                accesses.setdefault(alloc, []).append(op)
    found: dict[AllocSmemOp, Life] = {}
    for alloc, ops in accesses.items():
        # Some warps that exchange values alone do not wait for the others.
        if not (narrow and "scratch" in alloc.attributes):
            found[alloc] = _life(alloc, ops)
    return found


def _life(alloc: AllocSmemOp, ops: Sequence[Operation]) -> Life:
    top = block_of(alloc)
    block = ops[0].parent
    while any(block.find_ancestor_op_in_block(op) is None for op in ops):  # pyright: ignore[reportOptionalMemberAccess]
        block = _around(block)
    while block is not top and not _begins_anew(alloc, block, ops):
        block = _around(block)
    assert block is not None
    inside = [block.find_ancestor_op_in_block(op) for op in ops]
    at = [block.get_operation_index(op) for op in inside if op is not None]
    return Life(block, min(at), max(at))


def _begins_anew(alloc: AllocSmemOp, block: Block | None, ops: Sequence[Operation]) -> bool:
    """Whether what a block first does with a buffer is to write it, on every path, so that nothing
    is left from a trip of a loop before.
    """
    assert block is not None
    first = block.find_ancestor_op_in_block(ops[0])
    assert first is not None
    if isinstance(first, scf.IfOp | scf.WhileOp):
        return False
    effects = [effects_of(op) for op in walk(first) if op in ops]
    return all(
        any(root_of(value) is alloc.result for value in each.writes)
        and not any(root_of(value) is alloc.result for value in each.reads)
        for each in effects
    )


def _around(block: Block | None) -> Block | None:
    op = None if block is None else block.parent_op()
    return None if op is None else op.parent


def _depth(block: Block) -> int:
    depth = 0
    around = block.parent_op()
    while around is not None:
        depth += 1
        around = around.parent_op()
    return depth


# Where they lie


def _in_turns(
    lives: dict[AllocSmemOp, Life], sizes: dict[AllocSmemOp, int], limit: int
) -> dict[AllocSmemOp, int] | None:
    """Places below a limit, twice what is needed at most, where what was used longest ago makes
    way; None where that does not go.
    """
    limit = min(limit, 2 * _end(_packed(lives, sizes), sizes))
    places: dict[AllocSmemOp, int] = {}
    order = {alloc: at for at, alloc in enumerate(lives)}
    for alloc, life in lives.items():
        found: tuple[int, int] | None = None
        for place in _candidates(alloc, places, sizes):
            last = place + sizes[alloc]
            beside = [e for e, at in places.items() if at < last and place < at + sizes[e]]
            if last > limit or any(lives[each].meets(life) for each in beside):
                continue
            since = max((order[each] for each in beside), default=-1)
            if found is None or (since, place) < found:
                found = since, place
        if found is None:
            return None
        places[alloc] = found[1]
    return places


def _packed(
    lives: dict[AllocSmemOp, Life], sizes: dict[AllocSmemOp, int]
) -> dict[AllocSmemOp, int]:
    """The lowest place for each buffer beside those that live with it, the largest one first."""
    places: dict[AllocSmemOp, int] = {}
    for alloc in sorted(lives, key=lambda each: -sizes[each]):
        beside = {e: at for e, at in places.items() if lives[e].meets(lives[alloc])}
        places[alloc] = next(
            place
            for place in _candidates(alloc, beside, sizes)
            if not any(
                at < place + sizes[alloc] and place < at + sizes[e] for e, at in beside.items()
            )
        )
    return places


def _candidates(
    alloc: AllocSmemOp, places: dict[AllocSmemOp, int], sizes: dict[AllocSmemOp, int]
) -> list[int]:
    """The start of the area, and the places of others and behind them, as the buffer is aligned."""
    type_ = memref_of(alloc.result)
    unit = type_.alignment
    ends = {0, *places.values(), *(at + sizes[each] for each, at in places.items())}
    return sorted({-(-end // unit) * unit for end in ends})


def _end(places: dict[AllocSmemOp, int], sizes: dict[AllocSmemOp, int]) -> int:
    return max((at + sizes[each] for each, at in places.items()), default=0)
