"""Elementwise programs that go through a matrix as one row: a step of `cute-tile`.

    i, j = tile_index Y, [4, 1024]
    copy f(load local_tile(X, [4, 1024], (i, j))), local_tile(Y, [4, 1024], (i, j))
    =>
    n, _ = tile_index Y, [1, 8] runs(256); row, place = of (n * 256 + coord 0)
    copy f(load indexed_tile(X, [256, 8]), row at place), indexed_tile(Y, [256, 8]), row at place

Tiles of a matrix whose rows end within one leave lanes idle, and rows that do not begin at lines of
memory leave every store of a warp with sectors that another one fills up. A run of vectors that
follow each other from row to row has neither, whatever rows are long and wherever they begin. What
is the same for a row or for a column comes along as a tile of its own, gathered likewise.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import arith
from xdsl.dialects.builtin import i32
from xdsl.ir import Block, Operation, SSAValue, Use
from xdsl.rewriter import InsertPoint

from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.layout_inference import contiguous_mode, vector_bytes
from cutedialect.passes.analysis.memory_views import tensor_dependences
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import ScalarBuilder, erase
from cutedialect.passes.tile.resized_tiles import (
    fragment_shape,
    is_added_to,
    only_begins_tiles,
    origins_of,
    resize_fragment,
)
from cutedialect.passes.tile.runs import RunStart, start_of_run
from cutedialect.passes.tile.streaming import RUN_THREADS
from cutedialect.schedule import Schedule

# Bytes of the widest tensor that a thread has of a run.
_BYTES = 16
# Instructions of a vector, and for each access to it, to find its place; those of an op on each
# element that are more than one.
_OF_VECTOR = 14
_OF_ACCESS = 10
_COSTS = {"arith.divf": 6, "math.exp": 4, "math.exp2": 4, "math.log": 4, "math.rsqrt": 4}
# How many lanes an SM has instructions for while memory gives it a byte. Of the time of that, how
# much finding places may take; more of it only where all instructions leave memory the slowest.
_LANES_A_BYTE = 10
_FEW, _MOST, _ALL = 0.25, 0.45, 0.6
# Of that time, how much arithmetic takes at least where threads gain by having two vectors, which
# share where the run begins and the constants, and all instructions at most: of more, registers do
# not suffice for two. Narrow vectors are two already where they become four.
_LONG, _LONGEST = 0.3, 1.0
# Elements of a thread for which the registers of as many threads as an SM holds suffice.
_ELEMENTS = 8
_TILES = (
    cute.AllocFragmentOp,
    cute.CopyOp,
    cute.FillOp,
    cute.LoadOp,
    cute.LocalTileOp,
    cute.MapOp,
    cute.TransposeOp,
)
_SCALARS = (cute.DimOp, cute.SliceOp, cute.StrideOp, cute.TileIndexOp, cute.YieldOp)


def flatten_tiles(kernel: cute.KernelOp, given: Schedule, of: str) -> bool:
    """Let the work items of an elementwise kernel be runs of vectors; `of` is the pass that says
    so. Whether that is done.
    """
    index = next(iter(ops_of(kernel, cute.TileIndexOp)), None)
    if index is None or not _takes_runs(given):
        return False
    flat = _Flat(kernel, index)
    if not flat.is_legal() or not flat.is_gain():
        return False
    rows, columns = index.tile.get_values()
    if (other := flat.other_output()) is not None:
        name = other.name_hint or "a result"
        remark(
            of,
            index,
            f"tiles of {rows} x {columns} are not made one row: {name} may be larger than the "
            "tensor that counts the work items, and be stored to beyond these",
        )
        return False
    remark(
        of,
        index,
        f"tiles of {rows} x {columns} become runs of {flat.run} vectors of {flat.width} elements "
        "that go through rows as if they were one",
    )
    flat.rewrite()
    return True


def _takes_runs(given: Schedule) -> bool:
    """Whether a schedule leaves open which elements a work item has."""
    return (
        given.plan.loads is None
        and given.scheduler in (None, "single")
        and given.epilogue in (None, "direct")
        and given.cluster in (None, (1, 1))
        and (given.raster, given.order, given.split_k) == (None, None, None)
    )


class _Flat:
    """One kernel whose tiles become runs."""

    def __init__(self, kernel: cute.KernelOp, index: cute.TileIndexOp) -> None:
        self.kernel, self.index = kernel, index
        self.extents = tuple(int(each) for each in index.tile.get_values())
        self.width = self.run = 1

    def is_legal(self) -> bool:
        """Whether each element of a tile keeps to itself and to its row and column; finds how wide
        vectors are.
        """
        type_ = self.index.memref.type
        if not isinstance(type_, cute.MemRefType) or type_.rank != 2 or self.index.run is not None:
            return False
        rows, columns = self.extents
        if rows < 1 or columns < 2 or self.index.parent is not self.kernel.body.block:
            return False
        if not all(map(self._allows, self.kernel.body.block.ops)):
            return False
        coords = enumerate(zip(self.index.results, self.extents, strict=True))
        if not all(only_begins_tiles(*each, lambda _, mode=mode: mode) for mode, each in coords):
            return False
        types = [
            cute.memref_of(view.memref)
            for view in ops_of(self.kernel, cute.LocalTileOp)
            if self._is_whole(view)
        ]
        stores = [op for op in ops_of(self.kernel, cute.CopyOp) if _is_memory(op.destination)]
        if tensor_dependences(self.kernel).readers or not types or not stores:
            return False
        self.width = min(max(1, vector_bytes(type_) * 8 // type_.bits) for type_ in types)
        self.run = RUN_THREADS * max(1, 8 * _BYTES // (self.width * max(t.bits for t in types)))
        return True

    def other_output(self) -> SSAValue | None:
        """What is stored to and may have other extents than the tensor that counts work items: a
        run ends elsewhere than the tiles do.
        """
        counted = self.index.memref.type
        for op in ops_of(self.kernel, cute.CopyOp):
            view = cute.tile_behind(op.destination)
            if view is None or view.memref is self.index.memref:
                continue
            type_ = view.memref.type
            extents = [*type_.shape, *counted.shape]
            if type_.shape != counted.shape or not all(isinstance(each, int) for each in extents):
                return view.memref
        return None

    def is_gain(self) -> bool:
        """Whether memory stays slower than the instructions that find the places of vectors; runs
        of programs that compute more get twice as long.
        """
        moves = ops_of(self.kernel, cute.LoadOp, cute.CopyOp)
        found = [
            cute.tile_behind(op.operands[0 if isinstance(op, cute.LoadOp) else 1]) for op in moves
        ]
        views = [view for view in found if view is not None]
        bits = sum(cute.memref_of(view.memref).bits for view in views if self._is_whole(view))
        places = _OF_VECTOR + _OF_ACCESS * len(views)
        maps = ops_of(self.kernel, cute.MapOp)
        math = sum(_COSTS.get(op.name, 1) for each in maps for op in each.body.block.ops)
        time = _LANES_A_BYTE * self.width * bits / 8
        share, work = places / time, (places + self.width * math) / time
        is_long = work - share > _LONG and work <= _LONGEST
        if is_long and self.run <= 2 * RUN_THREADS and self._elements <= _ELEMENTS // 2:
            self.run *= 2
        return share <= _FEW or (share <= _MOST and work <= _ALL)

    @property
    def _elements(self) -> int:
        """Elements that a thread has of each tensor."""
        return self.run * self.width // RUN_THREADS

    def _is_whole(self, view: cute.LocalTileOp) -> bool:
        return len(view.coords) == 2

    def _allows(self, op: Operation) -> bool:
        match op:
            case cute.LocalTileOp():
                return self._allows_view(op)
            case cute.TransposeOp():
                # Users see a vector as a row or as a column.
                view = cute.tile_behind(op.source)
                return view is not None and not self._is_whole(view)
            case cute.CopyOp():
                whole = op.destination.owner
                is_tile = isinstance(whole, cute.LocalTileOp) and self._is_whole(whole)
                return op.mask is None and (is_tile or not _is_memory(op.destination))
            case cute.MapOp():
                return all(map(self._allows_coordinate, ops_of(op.body, cute.CoordOp)))
            case _:
                is_scalar = isinstance(op, _SCALARS) or op.name.startswith("arith.")
                return isinstance(op, _TILES) or (is_scalar and not op.regions)

    def _allows_view(self, op: cute.LocalTileOp) -> bool:
        tile, coords = tuple(op.tile.get_values()), tuple(op.coords)
        if op.of is not None or "tiled" in op.attributes:
            return False
        users = [use.operation for use in op.result.uses]
        if self._is_whole(op):
            type_ = cute.memref_of(op.memref)
            return (
                tile == self.extents
                and coords == tuple(self.index.results)
                and contiguous_mode(type_) == 1
                and not any(isinstance(mode, tuple) for mode in type_.modes)
                and all(isinstance(each, cute.LoadOp | cute.CopyOp) for each in users)
            )
        mode = self._vector_mode(op)
        if mode is None:
            return False
        # Square tiles may take what is counted by columns for their rows, and the reverse.
        along = (self.extents[0], 1) if mode == 0 else (1, self.extents[1])
        _, uses = _readers(op)
        return all(cute.shape_of(use.operation.operands[use.index].type) == along for use in uses)

    def _vector_mode(self, op: cute.LocalTileOp) -> int | None:
        """The mode of the work items that a vector lies along."""
        tile, coords = tuple(op.tile.get_values()), tuple(op.coords)
        items = zip(self.extents, self.index.results, strict=True)
        found = (n for n, (size, at) in enumerate(items) if (tile, coords) == ((size,), (at,)))
        return next(found, None)

    def _allows_coordinate(self, op: cute.CoordOp) -> bool:
        """Whether a coordinate is only added to where the tile begins, in a tile that has it."""
        mode, made = op.mode.value.data, op.parent_op()
        if not isinstance(made, cute.MapOp):
            return False
        shape = fragment_shape(made.result)
        return (
            len(shape) == 2
            and shape[mode] == self.extents[mode]
            and is_added_to(op, origins_of(self.index.results[mode], self.extents[mode]))
        )

    def rewrite(self) -> None:
        """Make them."""
        index, ops = self.index, list(self.kernel.body.block.ops)
        build = ScalarBuilder(InsertPoint.before(index), index)
        made = build.value(cute.TileIndexOp(index.memref, [1, self.width], runs=self.run))
        start = start_of_run(build, made, index.memref, self.width, self.run)
        self._number(build, start)
        zero = build.constant(0)
        for op in ops:
            if isinstance(op, cute.MapOp):
                self._place_coordinates(op)
            elif isinstance(op, cute.LocalTileOp):
                self._gather(op, zero)
        # What tiles of a shape become.
        (rows, columns), whole = self.extents, (self.run, self.width)
        shapes: dict[tuple[int, ...], tuple[int, int]] = {
            (rows, 1): (self.run, 1),
            (1, columns): whole,
            (rows, columns): whole,
        }
        for op in ops:
            for result in op.results if op.parent is not None else ():
                wanted = shapes.get(fragment_shape(result), ())
                resize_fragment(result, dict(enumerate(wanted)))
        for result in index.results:
            result.replace_all_uses_with(zero)
        erase(index)

    def _number(self, build: ScalarBuilder, start: RunStart) -> None:
        """The rows of a run's vectors and their places in these, as tiles."""

        def place(inner: ScalarBuilder) -> SSAValue:
            return inner.add(inner.value(cute.CoordOp(0)), start.place)

        def passed(inner: ScalarBuilder) -> SSAValue:
            """How many ends of rows are in front of a vector."""
            at = place(inner)
            below = inner.insert(arith.MulUIExtendedOp(at, start.reciprocal)).results[1]
            left = inner.sub(at, inner.mul(below, start.tiles))
            over = inner.compare("uge", left, start.tiles)
            return inner.select(over, inner.add(below, 1), below)

        ends = self._column(build, passed)
        self.rows = self._column(
            build, lambda inner, ends: inner.add(inner.mul(ends, start.next_row), start.row), ends
        )
        self.places = self._column(
            build, lambda inner, ends: inner.sub(place(inner), inner.mul(ends, start.tiles)), ends
        )
        self.first = self._column(build, lambda inner: inner.constant(0))
        self.rows.name_hint, self.places.name_hint = "row", "place"

    def _column(
        self, build: ScalarBuilder, number: Callable[..., SSAValue], *inputs: SSAValue
    ) -> SSAValue:
        """A tile of one number for each vector of a run."""
        block = Block(arg_types=[i32] * len(inputs))
        inner = build.at(InsertPoint.at_end(block))
        inner.insert(cute.YieldOp(number(inner, *block.args)))
        type_ = cute.FragmentType.get(i32, (self.run, 1))
        return build.value(cute.MapOp(inputs, type_, block))

    def _place_coordinates(self, op: cute.MapOp) -> None:
        """Let a map find the rows and columns of its elements where it asks for them."""
        for coordinate in ops_of(op.body, cute.CoordOp):
            mode = coordinate.mode.value.data
            arg = op.body.block.insert_arg(i32, len(op.operands))
            op.operands = [*op.operands, self.places if mode else self.rows]
            for use in list(coordinate.result.uses):
                moved, value = use.operation, arg
                if mode:
                    build = ScalarBuilder(InsertPoint.before(moved), moved)
                    value = build.add(build.mul(arg, self.width), coordinate.result)
                moved.results[0].replace_all_uses_with(value)
                erase(moved)

    def _gather(self, op: cute.LocalTileOp, zero: SSAValue) -> None:
        """Let what moves a tile move the vectors of the run."""
        build = ScalarBuilder(InsertPoint.before(op), op)
        size = [self.run, self.width]
        turned, uses = _readers(op)
        if self._is_whole(op):
            again = cute.IndexedTileOp(op.memref, size, [zero, zero], self.rows, places=self.places)
        elif self._vector_mode(op) == 0:
            again = cute.IndexedTileOp(op.memref, [self.run], [zero], self.rows)
        else:
            row = build.value(cute.TransposeOp(op.memref))
            again = cute.IndexedTileOp(row, size, [zero, zero], self.first, places=self.places)
        made = build.value(again)
        made.name_hint = op.result.name_hint
        for use in uses:
            use.operation.operands[use.index] = made
        erase(*reversed(turned), op)


def _readers(op: cute.LocalTileOp) -> tuple[list[Operation], list[Use]]:
    """The transposes of a tile, and of these, each behind what it turns; and the uses of all of
    them and of the tile by anything else.
    """
    turned: list[Operation] = []
    found: list[Use] = []
    pending: list[SSAValue] = [op.result]
    for value in pending:
        for use in value.uses:
            if isinstance(use.operation, cute.TransposeOp):
                turned.append(use.operation)
                pending += use.operation.results
            else:
                found.append(use)
    return turned, found


def _is_memory(value: SSAValue) -> bool:
    return isinstance(value.type, cute.MemRefType)
