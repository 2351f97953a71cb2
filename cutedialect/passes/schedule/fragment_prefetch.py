"""A step of `cute-schedule-loops`: fragments are loaded one k block ahead of their use.

    for k { complete; for each k block { load fragment; multiply } }
    =>
    complete; load fragment 0
    for k { for each k block { load the next one's fragment; multiply } }

The fragment of the next tile's first block is loaded before the last multiply of this tile, behind
what completes its copies, so that no multiply waits for shared memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from xdsl.dialects import arith, scf
from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects.cute import AllocFragmentOp, CopyOp, GemmOp, StageOp, SubviewOp
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.passes.rewriting import ScalarBuilder, block_of, cloned, erase


@dataclass(frozen=True)
class _Block:
    """One multiply and the copies that fill its operands."""

    gemm: GemmOp
    copies: tuple[CopyOp, ...]


def prefetch_fragments(
    loop: scf.ForOp, complete: CompleteOp, views: Sequence[StageOp], position: SSAValue
) -> None:
    """Skew the k blocks of a pipelined loop whose current stages are `views`.

    `position` counts the loop's trips from 0. A loop that reads its stages in any other way than
    into the operands of two or more multiplies stays as it is.
    """
    blocks = _blocks(loop, views)
    if blocks is None:
        return
    for block in blocks:
        for copy in block.copies:
            alloc = copy.destination.owner
            assert isinstance(alloc, AllocFragmentOp)
            alloc.detach()
            block_of(loop).insert_op_before(alloc, loop)
    ahead = ScalarBuilder(InsertPoint.before(loop), loop)
    _load(ahead, blocks[0], ahead.constant(0), views, 0)
    stages = views[0].source.type
    erase(complete)
    last = blocks[-1].gemm
    body = loop.body.block
    end = ScalarBuilder(InsertPoint.before(last), last)
    count = end.constant(stages.shape[-1])  # type: ignore[attr-defined]
    following = end.binary(arith.AddiOp, position, end.constant(1))
    _load(end, blocks[0], end.binary(arith.RemUIOp, following, count), views, 1)
    # The first block's copies are elsewhere now; each other block's move before the one ahead.
    for copy in blocks[0].copies:
        _erase(copy)
    for before, block in pairwise(blocks):
        for copy in block.copies:
            view = copy.source.owner
            assert isinstance(view, SubviewOp)
            for op in (view, copy):
                op.detach()
                body.insert_op_before(op, before.gemm)


def _blocks(loop: scf.ForOp, views: Sequence[StageOp]) -> list[_Block] | None:
    """The k blocks in order, or None when the stages are read in another way."""
    body = loop.body.block
    copies: dict[SSAValue, CopyOp] = {}
    readers = 0
    for view in views:
        for use in view.result.uses:
            sub = use.operation
            if isinstance(sub, CompleteOp):
                continue
            if not isinstance(sub, SubviewOp) or not sub.result.has_one_use():
                return None
            copy = next(iter(sub.result.uses)).operation
            alloc = copy.destination.owner if isinstance(copy, CopyOp) else None
            if not isinstance(copy, CopyOp) or not isinstance(alloc, AllocFragmentOp):
                return None
            copies[copy.destination] = copy
            readers += 1
    blocks: list[_Block] = []
    for op in body.ops:
        if isinstance(op, GemmOp):
            mine = [copies[value] for value in (op.a, op.b) if value in copies]
            if mine:
                blocks.append(_Block(op, tuple(mine)))
    filled = sum(len(block.copies) for block in blocks)
    # A fragment with a further reader could be overwritten under it.
    single = all(len(list(value.uses)) == 2 for value in copies)
    return blocks if len(blocks) >= 2 and filled == readers and single else None


def _load(
    build: ScalarBuilder, block: _Block, index: SSAValue, views: Sequence[StageOp], ahead: int
) -> None:
    """The copies of `block`, from stage `index`, behind those of the trip so many ahead."""
    rings = {view.result: view.source for view in views}
    stages = {old: build.insert(StageOp(ring, index, ahead)) for old, ring in rings.items()}
    build.insert(CompleteOp([stage.result for stage in stages.values()]))
    for copy in block.copies:
        sub = copy.source.owner
        assert isinstance(sub, SubviewOp)
        view = cloned(sub, {sub.source: stages[sub.source].result})  # pyright: ignore[reportArgumentType]
        build.insert(view)
        again = CopyOp(view.results[0], copy.destination, atom=copy.atom, tiled=copy.tiled)
        again.attributes.update(copy.attributes)
        build.insert(again)


def _erase(copy: CopyOp) -> None:
    view = copy.source.owner
    assert isinstance(view, Operation)
    for op in (copy, view):
        erase(op)
