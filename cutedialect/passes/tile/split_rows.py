"""Instances of a role that share the rows of a tile: a step of `cute-tile`, for plans with such.

    q = local_tile Q, [256, 64], (i, 0); for j { s = q k[j]; p = f(s); o += p v[j] }
    =>
    q0 = local_tile Q, [128, 64], (2 i, 0); q1 = local_tile Q, [128, 64], (2 i + 1, 0)
    for j { s0 = q0 k[j]; p0 = f(s0); o0 += p0 v[j]; s1 = q1 k[j]; p1 = f(s1); o1 += p1 v[j] }

Every op on rows has a copy for each instance, with rows of its own; loops stay one, and so do the
tiles that all rows share. Ops in a row have the copies of one instance in front of those of the
next one. A branch that values of rows decide has a copy, too. `cute-assign-warp-roles` then finds
parts of the program that share no register tile, and gives each to an instance.
"""

from __future__ import annotations

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.traits import IsTerminator
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.cute import CoordOp
from cutedialect.dialects.cute.views import transposed_type
from cutedialect.dialects.effects import is_pure, space_of
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import ScalarBuilder, cloned, erase, insert_after
from cutedialect.passes.tile.resized_tiles import kept_modes, resize_view

_ONE_BY_ONE = (
    cute.AllocFragmentOp,
    cute.AnyOp,
    cute.CopyOp,
    cute.FillOp,
    cute.GemmOp,
    cute.LoadOp,
    cute.LocalTileOp,
    cute.MapOp,
    cute.ReduceOp,
    cute.TransposeOp,
    cute.UnpackOp,
)


def split_rows(kernel: cute.KernelOp, instances: int) -> None:
    """Give each instance its part of the rows of the tiles that a kernel multiplies into."""
    _Split(kernel, instances).run()


class _Split:
    """One kernel whose rows are split."""

    def __init__(self, kernel: cute.KernelOp, instances: int) -> None:
        self.kernel = kernel
        self.instances = instances
        # The tiles whose rows are split, and the mode of each along which its rows lie.
        self.tiles: dict[SSAValue, int] = {}
        # What each instance has in the place of a value.
        self.values: list[dict[SSAValue, SSAValue]] = [{} for _ in range(instances)]
        self.own: set[SSAValue] = set()
        self.replaced: list[Operation] = []

    def run(self) -> None:
        self.tiles = {
            op.acc: 0 for op in ops_of(self.kernel, cute.GemmOp) if not op.is_whole_problem
        }
        groups = [rows for op in walk(self.kernel) for rows in _of_rows(op)]
        size = -1
        while size != len(self.tiles):
            size = len(self.tiles)
            for rows in groups:
                if any(self.tiles.get(value) == mode for value, mode in rows):
                    self.tiles = dict(rows) | self.tiles
        for op in walk(self.kernel):
            self._check(op)
        self._split_block(self.kernel.body.block)
        erase(*reversed(self.replaced))

    def _touches(self, op: Operation) -> bool:
        return any(value in self.tiles for value in (*op.operands, *op.results))

    def _check(self, op: Operation) -> None:
        """Refuse what rows cannot be split of."""
        mine = [value for value in (*op.operands, *op.results) if value in self.tiles]
        if not mine:
            return
        here = {(value, self.tiles[value]) for value in mine}
        is_known = isinstance(op, _ONE_BY_ONE) and (
            isinstance(op, cute.LocalTileOp) or any(here <= {*rows} for rows in _of_rows(op))
        )
        extents = [cute.shape_of(value.type)[self.tiles[value]] for value in mine]
        if not is_known or any(extent % self.instances for extent in extents):
            raise PassFailedException(
                op,
                f"expected rows that {self.instances} instances of a role can share (elementwise "
                f"ops, sums along rows, multiplies, tiles in memory), got {op.name} of "
                f"{extents[0]} rows; take a role plan without instances of rows",
            )

    def _split_block(self, block: Block) -> None:
        """Put the copies of ops in a row one instance after the other, so that who does the work
        of both is done with one before it begins with the next.
        """
        row: list[Operation] = []
        for op in list(block.ops):
            if self._is_branch_of_rows(op) or self._touches(op) or self._depends(op):
                row.append(op)
                self.own.update(op.results)
                continue
            if is_pure(op):
                continue
            self._put(row, op)
            row = []
            if not isinstance(op, cute.MapOp):
                for region in op.regions:
                    for inner in region.blocks:
                        self._split_block(inner)
        self._put(row, None)

    def _is_branch_of_rows(self, op: Operation) -> bool:
        """Whether values of rows decide a branch, or nothing but their ops is in it."""
        if not isinstance(op, scf.IfOp) or op.cond in self.own:
            return isinstance(op, scf.IfOp)
        inside = [inner for region in op.regions for block in region.blocks for inner in block.ops]
        mine = [inner for inner in inside if self._touches(inner) or self._is_branch_of_rows(inner)]
        others = [inner for inner in inside if inner not in mine]
        return bool(mine) and all(is_pure(each) or isinstance(each, scf.YieldOp) for each in others)

    def _put(self, row: list[Operation], before: Operation | None) -> None:
        """Put the copies of ops in front of another one, or at the end of their block."""
        block = row[0].parent if row else None
        if block is None:
            return
        last = block.last_op
        if before is None and last is not None and last.has_trait(IsTerminator):
            before = last
        for instance, values in enumerate(self.values):
            for op in row:
                made = cloned(op, values)
                if before is None:
                    block.add_op(made)
                else:
                    block.insert_op_before(made, before)
                for old, new in list(zip(walk(op), walk(made), strict=True)):
                    self._narrow(old, new, instance)
        self.replaced += row

    def _depends(self, op: Operation) -> bool:
        """Whether an op takes a number that each instance has one of."""
        return not op.regions and any(value in self.own for value in op.operands)

    def _narrow(self, old: Operation, new: Operation, instance: int) -> None:
        """Give the copy of an op the rows of an instance."""
        if not old.results or old.results[0] not in self.tiles:
            return
        values, mode = self.values[instance], self.tiles[old.results[0]]
        match new:
            case cute.LocalTileOp():
                # The rows of a tile in memory that an instance has.
                extents, coords = list(new.tile.get_values()), list(new.coords)
                row = kept_modes(new)[mode]
                extents[row] //= self.instances
                build = ScalarBuilder(InsertPoint.before(new), new)
                count, number = build.constant(self.instances), build.constant(instance)
                coords[row] = build.add(build.mul(coords[row], count), number)
                values[old.results[0]] = resize_view(new, extents, coords).result
                return
            case cute.TransposeOp():
                type_ = transposed_type(new.source.type)
            case _:
                tile = cute.fragment_of(new.results[0])
                shape = list(tile.shape)
                shape[mode] //= self.instances
                type_ = cute.FragmentType.get(tile.element, tuple(shape), tile.tv)
                if isinstance(new, cute.MapOp):
                    shift_coordinates(new.body.block, mode, instance * shape[mode])
        values[old.results[0]] = Rewriter.replace_value_with_new_type(new.results[0], type_)


def _of_rows(op: Operation) -> list[list[tuple[SSAValue, int]]]:
    """The tiles of an op that have the same rows, for each mode that may be these: a tile and the
    mode along which its rows lie.
    """
    match op:
        case cute.GemmOp():
            return [[(op.a, 0), (op.acc, 0)]]
        case cute.MapOp():
            shape = cute.shape_of(op.result.type)
            return [
                [
                    *(
                        (each, mode)
                        for each in op.inputs
                        if cute.shape_of(each.type)[mode : mode + 1] == (extent,)
                    ),
                    (op.result, mode),
                ]
                for mode, extent in enumerate(shape)
            ]
        case cute.ReduceOp() if op.mode.value.data == 1:
            return [[(op.source, 0), (op.result, 0)]]
        case cute.TransposeOp():
            rank = len(cute.shape_of(op.source.type))
            modes = range(rank)
            return [[(op.source, mode), (op.result, 1 - mode)] for mode in modes]
        case cute.UnpackOp():
            packed, rank = op.mode.value.data, len(cute.shape_of(op.source.type))
            return [
                [(x, mode) for x in (op.source, op.result)]
                for mode in range(rank)
                if mode != packed
            ]
        case cute.CopyOp() | cute.LoadOp() | cute.FillOp() | cute.AnyOp() | cute.AllocFragmentOp():
            tiles = [value for value in (*op.operands, *op.results) if space_of(value) is not None]
            modes = range(min((len(cute.shape_of(value.type)) for value in tiles), default=0))
            return [[(value, mode) for value in tiles] for mode in modes]
        case _:
            return []


@anchored(CoordOp)
def shift_coordinates(body: Block, mode: int, first: int) -> None:
    """Let the coordinates along a mode in a map's body count from `first`."""
    for op in list(body.ops):
        if first and isinstance(op, CoordOp) and op.mode.value.data == mode:
            start = arith.ConstantOp(IntegerAttr(first, i32))
            moved = arith.AddiOp(op.result, start.result)
            op.result.replace_uses_with_if(
                moved.result, lambda use, moved=moved: use.operation is not moved
            )
            insert_after(op, start, moved)
