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

from xdsl.dialects import scf
from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation

from cutedialect.dialects.cute import AllocSmemOp, BarrierOp, KernelOp, memref_of
from cutedialect.dialects.effects import effects_of
from cutedialect.dialects.walks import common_block, walk
from cutedialect.passes.analysis.memory_views import root_of
from cutedialect.passes.analysis.resource_plan import room
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import block_of

Lives = dict[AllocSmemOp, range]
"""From where to where each buffer is in use, in the order of a walk over the kernel."""
Places = dict[AllocSmemOp, int]


def overlay_buffers(kernel: KernelOp) -> None:
    """Give the buffers of a kernel without roles places that they share, if they do not fit."""
    left = room(kernel, ())
    if left >= 0:
        return
    lives = _lives(kernel)
    total = sum(alloc.bytes for alloc in lives)
    places = _in_turns(lives, total + left) or _packed(lives)
    used = _end(places)
    if used >= total:
        return
    for alloc, place in places.items():
        alloc.properties["offset"] = IntegerAttr(place, i64)
    remark(
        "cute-synchronize",
        kernel,
        f"{len(places)} buffers of {total} bytes share {used} bytes of shared memory",
    )


# When buffers are in use


def _lives(kernel: KernelOp) -> Lives:
    """The lives of the buffers that may share storage, in the order in which they begin."""
    accesses: dict[AllocSmemOp, list[Operation]] = {}
    order = {op: at for at, op in enumerate(walk(kernel.body.block))}
    narrow = any(isinstance(op, BarrierOp) and op.warps is not None for op in order)
    for op in order:
        effects = effects_of(op)
        for value in (*effects.reads, *effects.writes):
            alloc = root_of(value).owner
            if isinstance(alloc, AllocSmemOp):
                accesses.setdefault(alloc, []).append(op)
    found: Lives = {}
    for alloc, ops in accesses.items():
        # Some warps that exchange values alone do not wait for the others.
        if not (narrow and "scratch" in alloc.attributes):
            block = common_block(ops)
            while block is not alloc.parent and not _begins_anew(alloc, block, ops):
                around = block.parent_op()
                assert around is not None
                block = block_of(around)
            inside = [block.find_ancestor_op_in_block(op) for op in ops]
            at = [order[each] for op in inside if op is not None for each in walk(op)]
            found[alloc] = range(min(at), max(at) + 1)
    return found


def _begins_anew(alloc: AllocSmemOp, block: Block, ops: Sequence[Operation]) -> bool:
    """Whether what a block first does with a buffer is to write it, on every path, so that nothing
    is left from a trip of a loop before.
    """
    first = block.find_ancestor_op_in_block(ops[0])
    assert first is not None
    if isinstance(first, scf.IfOp | scf.WhileOp):
        return False
    effects = [effects_of(op) for op in walk(first) if op in ops]
    return all(
        alloc.result in map(root_of, each.writes) and alloc.result not in map(root_of, each.reads)
        for each in effects
    )


# Where they lie


def _in_turns(lives: Lives, limit: int) -> Places | None:
    """Places below a limit, twice what is needed at most, where what was used longest ago makes
    way; None where that does not go.
    """
    limit = min(limit, 2 * _end(_packed(lives)))
    places: Places = {}
    order = {alloc: at for at, alloc in enumerate(lives)}
    for alloc, life in lives.items():
        found: tuple[int, int] | None = None
        for place in _candidates(alloc, places):
            beside = _beside(alloc, place, places)
            if place + alloc.bytes > limit or any(_meet(lives[each], life) for each in beside):
                continue
            since = max((order[each] for each in beside), default=-1)
            if found is None or (since, place) < found:
                found = since, place
        if found is None:
            return None
        places[alloc] = found[1]
    return places


def _packed(lives: Lives) -> Places:
    """The lowest place for each buffer beside those that live with it, the largest one first."""
    places: Places = {}
    for alloc in sorted(lives, key=lambda each: -each.bytes):
        others = {e: at for e, at in places.items() if _meet(lives[e], lives[alloc])}
        fitting = (e for e in _candidates(alloc, others) if not _beside(alloc, e, others))
        places[alloc] = next(fitting)
    return places


def _meet(one: range, other: range) -> bool:
    """Whether two lives, or the bytes of two buffers, overlap."""
    return one.start < other.stop and other.start < one.stop


def _beside(alloc: AllocSmemOp, place: int, places: Places) -> list[AllocSmemOp]:
    """The buffers that share bytes with one in a place."""
    mine = range(place, place + alloc.bytes)
    return [each for each, at in places.items() if _meet(range(at, at + each.bytes), mine)]


def _candidates(alloc: AllocSmemOp, places: Places) -> list[int]:
    """The start of the area, and the places of others and behind them, as the buffer is aligned."""
    unit = memref_of(alloc.result).alignment
    ends = {0, *places.values(), *(at + each.bytes for each, at in places.items())}
    return sorted({-(-end // unit) * unit for end in ends})


def _end(places: Places) -> int:
    return max((at + each.bytes for each, at in places.items()), default=0)
