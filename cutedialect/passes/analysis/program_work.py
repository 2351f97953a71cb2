"""The work of a traced program for tensors of some extents (`choosing/program_price.py`): what its
ops do, each as many times as its loops have trips. A number that depends on which work item, or on
which trip it is, counts as its mean.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import ceil, prod

from xdsl.dialects import arith, math, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.choosing.program_price import Multiply, Work
from cutedialect.dialects import cute

Extents = Sequence[Sequence[int | None] | None]
"""Those of each argument of a kernel; None of what is no tensor."""


class _UnknownError(Exception):
    """A number that is known at run time alone."""


def work_of(module: ModuleOp, extents: Extents) -> tuple[Work, ...] | None:
    """The work of each kernel of a traced program; None where the number of trips, or of work
    items, is known at run time alone.
    """
    kernels = [op for op in module.ops if isinstance(op, cute.KernelOp)]
    try:
        return tuple(_Count(kernel, extents).work() for kernel in kernels)
    except _UnknownError:
        return None


def _bytes(tile: cute.LocalTileOp) -> float:
    type_ = tile.result.type
    return prod(cute.shape_of(type_)) * type_.bits / 8


def _ceil(a: float, b: float) -> float:
    return ceil(a / b) if a % 1 == b % 1 == 0 else a / b + 0.5


# What ops of two numbers are of means.
_OF_TWO: Mapping[type[Operation], Callable[[float, float], float]] = {
    arith.AddiOp: lambda a, b: a + b,
    arith.SubiOp: lambda a, b: a - b,
    arith.MuliOp: lambda a, b: a * b,
    arith.DivSIOp: lambda a, b: a // b,
    arith.FloorDivSIOp: lambda a, b: a // b,
    arith.CeilDivSIOp: _ceil,
    arith.RemSIOp: lambda a, b: a % b,
    arith.MinSIOp: min,
    arith.MaxSIOp: max,
}
_SAME = (arith.IndexCastOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp)
# Elements of these pass through the unit for special functions.
_SPECIAL = (
    math.Exp2Op, math.ExpOp, math.LogOp, math.Log2Op, math.RsqrtOp, math.SqrtOp, math.TanhOp,
    math.SinOp, math.CosOp, math.ErfOp, arith.DivfOp,
)  # fmt: skip
# These are no instruction of each element.
_FREE = (arith.ConstantOp, cute.CoordOp, cute.YieldOp)


class _Count:
    """What a kernel does, counted op by op."""

    def __init__(self, kernel: cute.KernelOp, extents: Extents) -> None:
        arguments = kernel.body.block.args
        self._tensors: dict[SSAValue, Sequence[int | None] | None] = dict(
            zip(arguments, extents, strict=True)
        )
        self._numbers: dict[SSAValue, float] = {}
        # How many times the block of a tile is run, and the tiles that were loaded.
        self._tiles: dict[Operation, float] = {}
        self._seen: set[object] = set()
        self._sums: dict[SSAValue, float] = {}
        self._multiplies: list[Multiply] = []
        # How many times a block is run that loads operands, and their bytes.
        self._staged: dict[Block, tuple[float, float]] = {}
        self._results = 0.0
        self._items = 1.0
        self._loaded = self._stored = self._computed = self._special = 0.0
        self._block(kernel.body.block, 1.0)

    def work(self) -> Work:
        """What was counted."""
        return Work(
            self._items, tuple(self._multiplies), self._loaded, self._stored, self._computed,
            self._special, sum(self._sums.values()), self._moved(), *self._ring(),
        )  # fmt: skip

    def _ring(self) -> tuple[float, float, float, float]:
        """Bytes of the largest tile that is stored, of what is loaded once, and in a trip of a
        loop, and how many trips there are.
        """
        kept = sum(size for times, size in self._staged.values() if times == 1)
        loops = [each for each in self._staged.values() if each[0] > 1]
        stage = max((size for _, size in loops), default=0.0)
        return self._results, kept, stage, sum(times for times, _ in loops)

    def _moved(self) -> float:
        """Bytes of the tensors."""
        pairs = [
            (each.type, extents) for each, extents in self._tensors.items() if extents is not None
        ]
        return sum(
            prod(extent or 0 for extent in extents) * type_.bits / 8
            for type_, extents in pairs
            if isinstance(type_, cute.MemRefType)
        )

    def _block(self, block: Block, times: float) -> None:
        """Count the ops of a block that a work item runs so many times."""
        for op in block.ops:
            if isinstance(op, scf.ForOp):
                self._loop(op, times)
            elif isinstance(op, scf.WhileOp):
                raise _UnknownError
            elif isinstance(op, scf.IfOp):
                for region in op.regions:
                    for inside in region.blocks:
                        self._block(inside, times)
            elif isinstance(op, cute.TileIndexOp):
                self._begin(op)
            elif isinstance(op, cute.LocalTileOp):
                self._tiles[op] = times
            elif isinstance(op, cute.GemmOp):
                self._multiply(op, times)
            elif isinstance(op, cute.LoadOp):
                self._load(op.source)
            elif isinstance(op, cute.CopyOp | cute.AtomicOp):
                self._move(op, times)
            elif isinstance(op, cute.MapOp):
                inside = [type(each) for each in op.body.block.ops if not isinstance(each, _FREE)]
                size = times * prod(cute.shape_of(op.result.type))
                self._computed += size * len(inside)
                self._special += size * sum(kind in _SPECIAL for kind in inside)
            elif isinstance(op, cute.ReduceOp):
                self._computed += times * prod(cute.shape_of(op.operands[0].type))
            else:
                self._number(op)

    def _loop(self, loop: scf.ForOp, times: float) -> None:
        first, end, step = (self._known(each) for each in (loop.lb, loop.ub, loop.step))
        trips = max(0.0, _ceil(end - first, step))
        self._numbers[loop.body.block.args[0]] = first + step * max(0.0, trips - 1) / 2
        self._block(loop.body.block, times * trips)

    def _known(self, value: SSAValue) -> float:
        if value not in self._numbers:
            raise _UnknownError
        return self._numbers[value]

    def _number(self, op: Operation) -> None:
        """The number that an op gives, if it gives one that is known."""
        if isinstance(op, arith.ConstantOp):
            if isinstance(op.value, IntegerAttr):
                self._numbers[op.result] = op.value.value.data
            return
        if isinstance(op, cute.DimOp):
            extents = self._tensors.get(op.memref)
            extent = None if extents is None else extents[op.mode.value.data]
            if extent is not None:
                self._numbers[op.result] = extent
            return
        numbers = [self._numbers[each] for each in op.operands if each in self._numbers]
        if not numbers or len(numbers) < len(op.operands):
            return
        if type(op) in _OF_TWO and (numbers[1] or isinstance(op, arith.AddiOp | arith.SubiOp)):
            self._numbers[op.results[0]] = _OF_TWO[type(op)](*numbers)
        elif isinstance(op, _SAME):
            self._numbers[op.results[0]] = numbers[0]

    def _begin(self, op: cute.TileIndexOp) -> None:
        """The work items, and the mean of each of their coordinates."""
        extents = self._tensors.get(op.memref)
        tile = op.tile.get_values()
        if extents is None or len(op.coords) != len(tile):
            raise _UnknownError
        for coord, extent, width in zip(op.coords, extents, tile, strict=True):
            if extent is None:
                raise _UnknownError
            count = 1 if width < 0 else -(-extent // width)
            self._numbers[coord] = (count - 1) / 2
            self._items *= count
        self._items /= op.run or 1

    def _load(self, view: SSAValue, is_operand: bool = False) -> None:
        """Count what is loaded of a tile of memory, once for the same numbers."""
        tile = cute.tile_behind(view)
        key = None if tile is None else (tile.memref, tile.tile, tuple(tile.coords))
        if tile is not None and key not in self._seen:
            self._seen.add(key)
            self._loaded += self._tiles[tile] * _bytes(tile)
            if is_operand:
                block = tile.parent
                assert block is not None
                before = self._staged.get(block, (0.0, 0.0))[1]
                self._staged[block] = self._tiles[tile], before + _bytes(tile)

    def _move(self, op: cute.CopyOp | cute.AtomicOp, times: float) -> None:
        self._load(op.source)
        tile = cute.tile_behind(op.destination)
        if tile is not None:
            self._stored += times * _bytes(tile)
            self._results = max(self._results, _bytes(tile))

    def _multiply(self, op: cute.GemmOp, times: float) -> None:
        a, b = op.a.type, op.b.type
        if not isinstance(op.acc.type, cute.FragmentType):
            raise _UnknownError
        self._load(op.a, is_operand=True)
        self._load(op.b, is_operand=True)
        rows, depth = cute.shape_of(a)
        columns = cute.shape_of(b)[0]
        bits = max(a.bits, b.bits)
        is_held = isinstance(a, cute.FragmentType)
        self._multiplies.append(Multiply(rows, columns, depth * bits // 8, times, is_held))
        self._sums[op.acc] = rows * columns
