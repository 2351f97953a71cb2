"""Rows that are longer than the registers of a CTA, in a program without a multiply: a step of
`cute-tile`.

    x = load X[1, 1048576]; m = reduce "max", x; copy map(x, m), Y[1, 1048576]
    =>
    m = -inf; for k { m = max(m, reduce "max", (load X[1, 8192] at k)) }
    for k { copy map(load X[1, 8192] at k, m), Y[1, 8192] at k }

What is reduced along such a row, and what is stored of it, each walks the row in parts, and loads
them again: L2 has the rows of some work items, and registers that spill would go through memory as
well. A row that is read once anyway is walked as soon as it is longer than what keeps memory busy.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.dialects import cute
from cutedialect.dialects.cute.reductions import combined_type
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.memory_views import (
    Expression,
    expression_of,
    root_of,
    tensor_dependences,
)
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder, erase
from cutedialect.passes.tile.resized_tiles import (
    combined,
    count_from,
    fragment_shape,
    hide,
    neutral_value,
    resize_fragment,
    size_of,
)
from cutedialect.passes.tile.streaming import registers_of_tile

# Elements of a part; where a row is read once, bits that are loaded of one, so that few CTAs keep
# memory busy.
_PART = 8192
_LEAST = 1024
_PART_BITS = 16384 * 16
# Elements of a tile up to which it is kept where it is read once, and its registers elsewhere.
_MOST_ELEMENTS = 32768
_MOST_REGISTERS = 122880


def walk_rows(kernel: cute.KernelOp, of: str) -> None:
    """Walk the rows of a kernel that are too long; `of` is the pass that says so."""
    reduced = ops_of(kernel, cute.ReduceOp)
    row = max((op.length for op in reduced), default=0)
    if row <= _LEAST:
        return
    blocks = {op.parent for op in reduced if op.parent is not None and op.length == row}
    if len(blocks) != 1:
        return
    found = _Rows(kernel, blocks.pop(), row)
    if not found.are_too_long():
        return
    why = found.why_not()
    if why:
        remark(of, kernel, f"rows of {row} elements, too long for registers, not walked: {why}")
        return
    remark(of, kernel, f"rows of {row} elements are walked in parts of {found.part}")
    found.run()


class _Rows:
    """The tiles of a block that are as long as its rows."""

    def __init__(self, kernel: cute.KernelOp, block: Block, row: int) -> None:
        self.kernel, self.block, self.row = kernel, block, row
        self.ops = [op for op in block.ops if any(map(self._has_row, (*op.operands, *op.results)))]
        self.reduced = [op for op in self.ops if isinstance(op, cute.ReduceOp) and op.length == row]
        self.stored = [op for op in self.ops if isinstance(op, cute.CopyOp)]
        across = max((size_of(value) // row for op in self.ops for value in op.results), default=1)
        loads = [op.result.type for op in self.ops if isinstance(op, cute.LoadOp)]
        bits = sum(type_.bits for type_ in loads if isinstance(type_, cute.FragmentType))
        self.is_read_once = len(self._groups()) + bool(self.stored) < 2
        elements = max(_PART, _PART_BITS // max(1, bits)) if self.is_read_once else _PART
        # Columns of few elements, and many of them, have parts of the least extent.
        each = max(1, elements // max(1, across))
        self.part = max(_LEAST, 1 << each.bit_length() - 1)

    def are_too_long(self) -> bool:
        """Whether registers do not hold a row, or need not."""
        if self.row <= self.part:
            return False
        size = max((size_of(value) for op in self.ops for value in op.results), default=0)
        if self.is_read_once:
            return size > _MOST_ELEMENTS
        return registers_of_tile(self.block, size) > _MOST_REGISTERS

    def why_not(self) -> str:
        """Why the rows cannot be walked; empty where they can."""
        inside = {*self.ops}
        for op in walk(self.kernel.body.block):
            is_outside = op not in inside and not isinstance(op.parent_op(), cute.MapOp)
            if is_outside and any(map(self._has_row, (*op.operands, *op.results))):
                return f"{op.name} of it stands elsewhere"
        for op in self.ops:
            if why := self._why_not(op):
                return why
        if tensor_dependences(self.kernel).readers:
            return "the program loads what it has stored"
        return self._why_not_again()

    def _why_not(self, op: Operation) -> str:
        match op:
            case cute.LoadOp():
                return "" if self._is_tile(op.source) else "a tile is no part of a tensor"
            case cute.CopyOp():
                is_plain = op.mask is None and op.pred is None and self._is_tile(op.destination)
                return "" if is_plain else "a copy stays in registers, or stores some elements"
            case cute.MapOp():
                shape = fragment_shape(op.result)
                return "" if shape.count(self.row) < 2 else "a tile is as long both ways"
            case cute.ReduceOp() if op.length == self.row:
                type_ = cute.fragment_of(op.result)
                is_known = op.body is None and op.local is None
                is_known = is_known and combined_type(type_.element) == type_.element
                return "" if is_known else "a reduction folds by a function, or rounds"
            case cute.LocalTileOp() | cute.TransposeOp():
                return ""
            case _:
                return f"{op.name} has no parts"

    def _why_not_again(self) -> str:
        """Why what is loaded cannot be loaded again behind what is stored meanwhile."""
        places: dict[SSAValue, set[Expression]] = {}
        for op in self.ops:
            if isinstance(op, cute.LoadOp):
                places.setdefault(root_of(op.source), set()).add(expression_of(op.source))
        for op in ops_of(self.kernel, cute.CopyOp, cute.AtomicOp):
            found = places.get(root_of(op.destination), set())
            if found and (op not in self.stored or found != {expression_of(op.destination)}):
                return "the program stores to what it loads"
        return ""

    def _has_row(self, value: SSAValue) -> bool:
        return self.row in fragment_shape(value)

    def _is_tile(self, view: SSAValue) -> bool:
        """Whether a view is a tile of a tensor, perhaps turned, that has the row once."""
        op = cute.tile_behind(view)
        if op is None or op.of is not None or "tiled" in op.attributes:
            return False
        return [*op.tile.get_values()].count(self.row) == 1

    def _groups(self) -> list[list[cute.ReduceOp]]:
        """Reductions that walk together: those whose parts need nothing that comes behind the first
        of them.
        """
        place = {op: at for at, op in enumerate(self.block.ops)}
        groups: list[list[cute.ReduceOp]] = []
        for op in self.reduced:
            needed = self._needed([op])
            given = {
                self.block.find_ancestor_op_in_block(value.owner)
                for each in needed
                for inner in walk(each)
                for value in inner.operands
                if isinstance(value.owner, Operation)
            } - {*needed}
            first = place[groups[-1][0]] if groups else -1
            if not groups or any(place.get(each, -1) >= first for each in given if each):
                groups.append([])
            groups[-1].append(op)
        return groups

    def run(self) -> None:
        """Walk them."""
        for group in self._groups():
            self._reduce(group)
        if self.stored:
            self._walk(self.stored, self.stored[-1]).insert(scf.YieldOp())
        for op in reversed(self.ops):
            erase(op)

    def _reduce(self, group: Sequence[cute.ReduceOp]) -> None:
        """What a group of reductions gives, in a loop in front of the first of them."""
        build = ScalarBuilder(InsertPoint.before(group[0]), group[0])
        totals: list[SSAValue] = []
        for op in group:
            type_ = cute.fragment_of(op.result)
            total = build.value(cute.AllocFragmentOp(type_))
            total.name_hint = op.result.name_hint
            none = neutral_value(build, op.kind.data, type_.element)
            build.insert(cute.FillOp(total, none))
            totals.append(total)
        inner = self._walk(group, group[0])
        for op, total in zip(group, totals, strict=True):
            part = self.made[op.result]
            inner.insert(cute.CopyOp(inner.value(combined(op.kind.data, total, part)), total))
            op.result.replace_all_uses_with(total)
        inner.insert(scf.YieldOp())

    def _walk(self, ends: Sequence[Operation], before: Operation) -> ScalarBuilder:
        """A loop over the parts of the row with some ops and all of the row that they need, in
        front of another op; where the loop's end is. `made` has what values are in it.
        """
        build = ScalarBuilder(InsertPoint.before(before), before)
        first, end, step = (build.constant(each) for each in (0, self.trips, 1))
        needed = self._needed(ends)
        views = {
            op: self._padded(_moved(op))
            for op in needed
            if not isinstance(op, cute.MapOp | cute.ReduceOp)
        }
        body = Block(arg_types=[i32])
        build.insert(scf.ForOp(first, end, step, [], body))
        inner = build.at(InsertPoint.at_end(body))
        start = inner.mul(body.args[0], self.part)
        self.made: dict[SSAValue, SSAValue] = {}
        for op in needed:
            again = op.clone(dict(self.made))
            if op in views:
                at = 0 if isinstance(op, cute.LoadOp) else 1
                again.operands[at] = self._part_of(inner, _moved(op), views[op], body.args[0])
            inner.insert(again).location = op.location
            for result in again.results:
                shape = enumerate(fragment_shape(result))
                parts = {mode: self.part for mode, extent in shape if extent == self.row}
                if isinstance(again, cute.MapOp):
                    count_from(again, parts, start)
                resize_fragment(result, parts)
            if isinstance(again, cute.ReduceOp) and self.trips * self.part != self.row:
                hide(again, {again.mode.value.data: self.row}, start)
            self.made |= dict(zip(op.results, again.results, strict=True))
        return inner

    @property
    def trips(self) -> int:
        return -(-self.row // self.part)

    def _needed(self, ends: Sequence[Operation]) -> list[Operation]:
        """Some ops and all that their parts of the row are computed of, in order."""
        found, new = {*ends}, list(ends)
        while new:
            for value in new.pop().operands:
                op = value.owner
                if isinstance(op, cute.LoadOp | cute.MapOp) and op in self.ops and op not in found:
                    found.add(op)
                    new.append(op)
        return [op for op in self.ops if op in found]

    def _padded(self, view: SSAValue) -> cute.LocalTileOp:
        """The tile of a tensor behind a view, as long as all parts together."""
        op = cute.tile_behind(view)
        assert op is not None
        if self.trips * self.part == self.row:
            return op
        tile = list(op.tile.get_values())
        wide = [self.trips * self.part if each == self.row else each for each in tile]
        padded = cute.LocalTileOp(op.memref, wide, list(op.coords), tile)
        padded.attributes |= op.attributes
        return ScalarBuilder(InsertPoint.after(op), op).insert(padded)  # pyright: ignore[reportReturnType]

    def _part_of(
        self, build: ScalarBuilder, view: SSAValue, whole: cute.LocalTileOp, number: SSAValue
    ) -> SSAValue:
        """A part of a view, whose tile is `whole`."""
        if isinstance(view.owner, cute.TransposeOp):
            part = self._part_of(build, view.owner.source, whole, number)
            return build.value(cute.TransposeOp(part))
        kept = [each for each in whole.tile.get_values() if each != 0]
        is_row = [each == self.trips * self.part for each in kept]
        none = build.constant(0)
        tile = [self.part if row else -1 for row in is_row]
        made = cute.LocalTileOp(whole.result, tile, [number if row else none for row in is_row])
        return build.value(made)


def _moved(op: Operation) -> SSAValue:
    """The view that an op loads or stores."""
    return op.operands[0 if isinstance(op, cute.LoadOp) else 1]
