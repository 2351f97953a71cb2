"""Multiplies whose TiledMMA has warps along K (sliced K): each warp adds up the products of its
slice of the depth, and behind the loop one reduction adds the sums of the warps, in their order.

    fill acc, 0                                fill parts, 0
    loop {                                     loop {
      gemm a, b, acc                =>           gemm a, b, parts
    }                                          }
                                               acc = reduce "add", parts {mode = 2}

`parts` is (M,N,warps). A loop that does more with the accumulator than multiply keeps it whole: its
sums are added behind each multiply.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile

from xdsl.ir import Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms.tiled_mma import TiledMma
from cutedialect.dialects import cute
from cutedialect.dialects.effects import used_by
from cutedialect.dialects.walks import ops_around, ops_of
from cutedialect.passes.analysis.mma_choice import MmaChoice
from cutedialect.passes.bind.defer_sums import zero_before
from cutedialect.passes.bind.kernel_binding import KernelBinding
from cutedialect.passes.rewriting import erase
from cutedialect.passes.tile.resized_tiles import combined, neutral_ops

_MODE = 2


@dataclass
class _Region:
    """Neighboring ops of one block in which nothing but multiplies uses an accumulator."""

    first: Operation
    last: Operation
    gemms: list[cute.GemmOp]


def slice_depth(binding: KernelBinding) -> None:
    """Give accumulators that warps along K share a part for each of them."""
    sliced: dict[SSAValue, list[tuple[cute.GemmOp, TiledMma]]] = {}
    for op in ops_of(binding.kernel.body.block, cute.GemmOp):
        named = MmaChoice(op, binding.arch, binding.schedule.multiply).named
        if named is not None and (named.slices > 1 or op.acc in sliced):
            sliced.setdefault(op.acc, []).append((op, named))
    for acc, multiplies in sliced.items():
        gemms, (first, *others) = zip(*multiplies, strict=True)
        if any(other != first for other in others):
            raise PassFailedException(
                gemms[0],
                "expected the multiplies of an accumulator to name one TiledMMA where warps share "
                f"K, got {first} and {next(other for other in others if other != first)}",
            )
        _check(acc, gemms)
        for region in _regions(acc, gemms):
            _slice(binding, acc, region, first.slices)


def _check(acc: SSAValue, gemms: Sequence[cute.GemmOp]) -> None:
    """Refuse what cannot be added up behind a loop."""
    for op in gemms:
        if op.kind == "satfinite":
            raise PassFailedException(
                op,
                "expected one warp along K where sums saturate, got several: what saturates in "
                "parts is another sum",
            )
    uses = [use for use in acc.uses if isinstance(use.operation, cute.GemmOp)]
    other = next((use.operation for use in uses if use.operation not in gemms), None)
    if other is not None:
        raise PassFailedException(
            other,
            "expected all multiplies of an accumulator to name the TiledMMA whose warps share K, "
            "got one that names none",
        )


def _regions(acc: SSAValue, gemms: Sequence[cute.GemmOp]) -> list[_Region]:
    """Where the parts of an accumulator live: the outermost loops that only multiply into it, and
    those beside each other together.
    """
    regions: list[_Region] = []
    for op in gemms:
        around = _outermost(acc, op, gemms)
        known = regions[-1] if regions else None
        if known is not None and known.last is around:
            known.gemms.append(op)
        elif known is not None and _follows(known.last, around, acc):
            known.gemms.append(op)
            known.last = around
        else:
            regions.append(_Region(around, around, [op]))
    return regions


def _outermost(acc: SSAValue, op: cute.GemmOp, gemms: Sequence[cute.GemmOp]) -> Operation:
    """The outermost loop or branch around a multiply in which the accumulator has no other use."""
    home = acc.owner.parent_op() if isinstance(acc.owner, Operation) else None
    found: Operation = op
    for around in takewhile(lambda outer: outer is not home, ops_around(op)):
        users = (use.operation for use in acc.uses)
        if not all(user in gemms for user in users if around.is_ancestor(user)):
            break
        found = around
    return found


def _follows(first: Operation, second: Operation, acc: SSAValue) -> bool:
    """Whether an op comes behind another one in its block, and none between uses a value."""
    op = first.next_op
    while op is not None and op is not second:
        if acc in used_by(op):
            return False
        op = op.next_op
    return op is second


def _slice(binding: KernelBinding, acc: SSAValue, region: _Region, slices: int) -> None:
    whole = cute.fragment_of(acc)
    type_ = cute.FragmentType.get(whole.element, (*whole.shape, slices))
    filled = zero_before(region.first, acc)
    ahead = filled or region.first
    parts = binding.insert(cute.AllocFragmentOp(type_), ahead).results[0]
    parts.name_hint = acc.name_hint
    zero = [binding.insert(op, ahead) for op in neutral_ops("add", whole.element)]
    binding.insert(cute.FillOp(parts, zero[-1].results[0]), ahead)
    for op in region.gemms:
        op.operands[2] = parts
    total = cute.ReduceOp("add", parts, _MODE, whole)
    behind: list[Operation] = [total]
    result = total.result
    if filled is None:
        behind.append(combined("add", acc, result))
        result = behind[-1].results[0]
    else:
        erase(filled)
    behind.append(cute.CopyOp(result, acc))
    for op in behind:
        op.location = region.gemms[0].location
    Rewriter.insert_op(behind, InsertPoint.after(region.last))
