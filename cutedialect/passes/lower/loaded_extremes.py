"""The largest, or least, element of each row that `tcgen05.ld.red` finds beside what it loads (PTX
ISA 9.7.16.8.1, sm_103a), where a thread loads a whole row:

    copy tile -> x; if masked { x = hidden(x) }; m = reduce "max" x
    =>
    ld.red x, parts; if masked { x = hidden(x); parts = the row maximum of x }; m = max(parts)
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.walks import walk
from cutedialect.passes.analysis.coordinates import thread_value

from .elementwise import Fragment
from .lowering import KernelLowering
from .reductions import combined, lower_reduce

_KINDS = ("max", "min")
_INSTRUCTION = "tcgen05.ld.red.sync.aligned.32x32b.x2.max.NaN.f32"


def awaited_extreme(self: KernelLowering, load: cute.CopyOp) -> cute.ReduceOp | None:
    """The reduction behind a load that the load can do itself; None where there is none."""
    if self.builder.chip is None or not self.builder.has(_INSTRUCTION):
        return None
    uses = [use.operation for use in load.destination.uses]
    if not all(isinstance(op, cute.CopyOp | cute.MapOp | cute.ReduceOp) for op in uses):
        return None
    behind = _ops_behind(load)
    for reduce in behind:
        if isinstance(reduce, cute.ReduceOp) and reduce.source is load.destination:
            between = behind[: behind.index(reduce)]
            is_rewritten = any(_writes(op, load.destination) for op in between)
            return None if is_rewritten or not _is_extreme_of_rows(reduce) else reduce
    return None


def expect(
    self: KernelLowering, load: cute.CopyOp, reduce: cute.ReduceOp, count: int
) -> list[SSAValue]:
    """Registers for what each of so many loads finds; branches that write the tile in between
    find it anew at their ends.
    """
    parts = [self.context.registers("f32", 1) for _ in range(count)]
    self.extremes[reduce] = parts
    tile = load.destination

    def renew() -> None:
        found = lower_reduce(self.context, reduce, self.fragment(reduce, tile), self.scalars)
        for part in parts:
            self.context.move(found.array, [0], part, [0])

    for op in _ops_behind(load):
        if op is reduce:
            break
        for block in _branches(op):
            if any(_writes(inner, tile) for inner in walk(block)):
                self.ends.setdefault(block, []).append(renew)
    return parts


def extreme_of_parts(
    self: KernelLowering, reduce: cute.ReduceOp, parts: Sequence[SSAValue]
) -> Fragment:
    """The result of a reduction from what the loads have found."""
    return Fragment(reduce.result.type, combined(self.context, reduce.kind.data, parts))


def _ops_behind(load: cute.CopyOp) -> list[Operation]:
    found, op = list[Operation](), load.next_op
    while op is not None:
        found.append(op)
        op = op.next_op
    return found


def _branches(op: Operation) -> list[Block]:
    if not isinstance(op, scf.IfOp):
        return []
    return [block for region in op.regions for block in region.blocks]


def _writes(op: Operation, tile: SSAValue) -> bool:
    """Whether an op, or one in a loop, writes a tile; branches are looked at on their own."""
    if isinstance(op, scf.IfOp):
        return False
    return any(isinstance(inner, cute.CopyOp) and inner.destination is tile for inner in walk(op))


def _is_extreme_of_rows(reduce: cute.ReduceOp) -> bool:
    """Whether each thread reduces all that it holds to one f32, and no two threads meet."""
    source, result, mode = reduce.source.type, reduce.result.type, reduce.mode.value.data
    assert isinstance(source, cute.FragmentType)
    layout, reduced = (thread_value(each.bound, each.shape) for each in (source, result))
    return (
        reduce.kind.data in _KINDS
        and reduce.body is None
        and reduce.folded == reduce.length
        and str(source.element) == str(result.element) == "f32"
        and len(reduced.value_coords()) == 1
        and len({coord[mode] for coord in layout.thread_coords()}) == 1
        and len({(*c[:mode], *c[mode + 1 :]) for c in layout.value_coords()}) == 1
        and len(layout.value_coords()) == source.shape[mode]
    )
