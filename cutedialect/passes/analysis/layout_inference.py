"""Which thread-value layout each register tile gets.

Layouts spread from anchors: MMA accumulators first, then coalesced loads and stores in program
order. An elementwise op takes its operands' layout; where two anchors meet, the one that came later
is converted at its use.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from math import gcd

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import target
from cutedialect.dialects.cute import (
    LINE_OPS,
    AtomicOp,
    ClusterScatterOp,
    CopyOp,
    ExtractOp,
    FetchOp,
    FillOp,
    FragmentType,
    GemmOp,
    IndexedTileOp,
    KernelOp,
    LineOp,
    LoadOp,
    MapOp,
    MemRefType,
    ReduceOp,
    SortOp,
    TiledCopyAttr,
    TransposeOp,
    UnpackOp,
    memref_of,
    named_copy,
    shape_of,
    transposed_tv,
)
from cutedialect.dialects.cute_nvgpu import SHIFTED_BITS
from cutedialect.dialects.walks import walk
from cutedialect.layout import Layout, LayoutError, TiledCopy, filter_zeros
from cutedialect.passes.analysis.packed_layouts import (
    PackedLayoutError,
    Packing,
    packed_layout,
    unpacked_layout,
)
from cutedialect.passes.analysis.thread_layouts import (
    blocked,
    coalesced,
    columns_of,
    copied,
    layouts_of_columns,
    modes_of,
    project,
)

# The shortest side of a thread's block of a tile: 4 lanes beside each other write two sectors, and
# rows that are aligned to less share sectors with their neighbors at both ends.
_BLOCK_BITS = 128
# Bytes of the widest load or store.
_VECTOR = 16


def contiguous_mode(type_: MemRefType) -> int | None:
    """The mode with a static stride of 1, or one that starts with such a part, or None."""
    for mode, stride in enumerate(type_.stride):
        if stride == 1 or (isinstance(stride, tuple) and stride[0] == 1):
            return mode
    return None


def operand_major(type_: MemRefType) -> int:
    """The mode along which the lines of an operand run in shared memory: the one that is contiguous
    in global memory, K where none is.
    """
    mode = contiguous_mode(type_)
    return 1 if mode is None else mode


def vector_bytes(type_: MemRefType) -> int:
    """Largest power of two up to 16 that divides the base, every non-unit stride, and the extent of
    the contiguous mode where that is known (a tile's is), in bytes.

    Without a contiguous mode, one element.
    """
    element = max(1, type_.bits // 8)
    contiguous = contiguous_mode(type_)
    if contiguous is None:
        return element
    steps = [
        stride if isinstance(stride, int) else getattr(stride, "div", 1)
        for stride in type_.stride
        if stride not in (0, 1)
    ]
    extent = type_.shape[contiguous]
    if isinstance(extent, int) and extent:
        steps.append(extent)
    best = min(_VECTOR, type_.alignment, *(step * element & -step * element for step in steps))
    return max(best, element)


def takes_async_copy(type_: MemRefType, arch: str) -> bool:
    """Whether threads can copy a tile to shared memory asynchronously: on a target that has such
    copies, 4 bytes or more at once.
    """
    return (
        type_.rank == 2
        and contiguous_mode(type_) is not None
        and vector_bytes(type_) >= 4
        and target(arch).has_instruction("cp.async.ca.shared.global")
    )


def begins_anywhere(type_: MemRefType) -> bool:
    """Whether the lines of an operand are whole vectors of 16 bytes that begin at any element."""
    contiguous = contiguous_mode(type_)
    if type_.rank != 2 or contiguous is None or type_.bits not in SHIFTED_BITS:
        return False
    has_vectors = type_.shape[contiguous] * type_.bits % (8 * _VECTOR) == 0
    return has_vectors and vector_bytes(type_) < _VECTOR and type_.stride[contiguous] == 1


def shifted_copy(type_: MemRefType, threads: int) -> TiledCopy:
    """Which thread copies which 16 bytes of a tile that takes a shifted copy."""
    return coalesced(type_.shape, contiguous_mode(type_) or 0, 8 * _VECTOR // type_.bits, threads)


def around_layout(type_: MemRefType, part: tuple[int, ...] | None = None) -> Layout:
    """Where a tile, or a part of it of a shape, lies in shared memory with the aligned words around
    its lines: one vector more for each line.

    >>> from xdsl.dialects.builtin import bf16
    >>> print(around_layout(MemRefType.get(bf16, "gmem", 2, Layout((64, 128), (131, 1)))))
    (64,128):(136,1)
    """
    contiguous, shape = contiguous_mode(type_) or 0, part or type_.shape
    pitch = shape[contiguous] + 8 * _VECTOR // type_.bits
    return Layout(shape, (1, pitch) if contiguous == 0 else (pitch, 1))


def coalesced_for(
    type_: MemRefType,
    threads: int,
    grid: tuple[int, int] | None = None,
    most: int | None = None,
) -> TiledCopy:
    """The coalesced copy of one tile in global memory. A grid of warps over the tile says
    how many of the threads are along its contiguous mode, or its last one; a thread's vectors have
    no more than `most` elements.
    """
    mode = _line_mode(type_) if grid is not None else contiguous_mode(type_) or 0
    vector = vector_bytes(type_) * 8 // type_.bits
    vector = vector if most is None else min(vector, most)
    along = None if grid is None else 32 * grid[mode]
    return coalesced(type_.shape, mode, max(1, vector), threads, along)


def _line_mode(type_: MemRefType) -> int:
    """The mode of a tile along which lanes follow each other: the last where none is contiguous."""
    mode = contiguous_mode(type_)
    return type_.rank - 1 if mode is None else mode


class LayoutInference:
    """Layouts of all fragments of one kernel, as a map from SSA value to layout."""

    def __init__(self, kernel: KernelOp, threads: int, grid: tuple[int, int] | None = None) -> None:
        self.threads = threads
        # Of a program without a multiply: the warps over its tiles.
        self.grid = grid
        self.layouts: dict[SSAValue, Layout] = {}
        # The tiled copies that these come from, by the register tile that is loaded or stored.
        self.copies: dict[SSAValue, TiledCopy] = {}
        # By the shape of tiles and the mode of their lines: the elements of the narrowest access of
        # a thread to any of the tensors, so that neighboring lanes access neighbors of all.
        self._narrowest: dict[tuple[tuple[int, ...], int], int] = {}
        self._ops = [op for op in walk(kernel.body.block) if _touches_fragment(op)]
        for type_ in [value.type for op in self._ops for value in op.operands]:
            if isinstance(type_, MemRefType):
                key = type_.shape, _line_mode(type_)
                vector = vector_bytes(type_) * 8 // type_.bits
                self._narrowest[key] = min(vector, self._narrowest.get(key, vector))
        self._vectors = MemoryVectors(self._ops)
        # The ops that layouts spread through, as long as one of their fragments has none.
        self._open = [op for op in self._ops if type(op) in _RULES]

    def anchor(self, value: SSAValue, layout: Layout) -> None:
        """Fix the layout of a fragment unless it has one."""
        self.layouts.setdefault(value, layout)

    def run(self) -> dict[SSAValue, Layout]:
        """Spread from the anchors set so far, then from the tiled copies that the program names,
        from loads and stores, then by default.
        """
        for op in self._ops:
            for memory, tile in _moved(op):
                named = named_layout(op, memory, self.threads)
                if named is not None:
                    self.anchor(tile, named)
        self._spread()
        # What rows are numbered by has the layout of these rows.
        for op in sorted(self._ops, key=lambda op: not _is_indexed(op)):
            for memory, tile in _moved(op):
                if tile not in self.layouts:
                    copy = self._coalesced(tile, memref_of(memory))
                    self.copies[tile] = copy
                    self.layouts[tile] = copied(copy, shape_of(tile.type))
                    self._spread()
        for op in self._ops:
            if isinstance(op, SortOp) and op.source not in self.layouts:
                self.layouts[op.source] = sorted_layout(op, self.threads)
                self._spread()
        for op in self._ops:
            for value in _fragments(op):
                if value not in self.layouts:
                    shape = shape_of(value.type)
                    copy = coalesced(shape, len(shape) - 1, 4, self.threads)
                    self.layouts[value] = copied(copy, shape)
                    self._spread()
        return self.layouts

    def _coalesced(self, value: SSAValue, type_: MemRefType) -> TiledCopy:
        if self.grid is None:
            return coalesced_for(type_, self.threads)
        mode = _line_mode(type_)
        vectors = self._vectors.block(value, type_.bits)
        if vectors is not None:
            stored = self._vectors.stored(value)
            return blocked(type_.shape, mode, vectors, self.threads, stored)
        most = self._narrowest[type_.shape, mode]
        if self._vectors.has_both(value):
            # Threads exchange the tile: wide vectors on one side would fall into few banks.
            most = min(most, self._narrowest.get((type_.shape[::-1], mode), most))
        return coalesced_for(type_, self.threads, self.grid, most)

    def _spread(self) -> None:
        """Propagate through elementwise ops, both ways, until nothing changes."""
        changed = True
        while changed:
            changed = False
            for op in self._open:
                changed |= self._through(op)
            if changed:
                self._open = [op for op in self._open if not self._is_settled(op)]

    def _is_settled(self, op: Operation) -> bool:
        return all(value in self.layouts for value in _fragments(op))

    def _through(self, op: Operation) -> bool:
        """Give the register tiles of an op the layouts that those of others imply."""
        found = list(_RULES[type(op)](op, self.layouts, self.threads))
        self.layouts.update(found)
        return bool(found)


Layouts = Mapping[SSAValue, Layout]
Implied = Iterator[tuple[SSAValue, Layout]]


def _of_map(op: MapOp, layouts: Layouts, _threads: int) -> Implied:
    shape, tiles = op.result.type.shape, (op.result, *op.inputs)  # pyright: ignore
    known = [layouts[v] for v in tiles if v in layouts and shape_of(v.type) == shape]
    for value in tiles if known else ():
        if value not in layouts:
            yield value, project(known[0], shape, shape_of(value.type))


def _of_reduce(op: ReduceOp, layouts: Layouts, _threads: int) -> Implied:
    if op.source in layouts and op.result not in layouts:
        yield op.result, made_of(op, layouts[op.source])


def _of_transpose(op: TransposeOp, layouts: Layouts, _threads: int) -> Implied:
    if not isinstance(op.source.type, FragmentType):
        return
    if op.source in layouts and op.result not in layouts:
        yield op.result, made_of(op, layouts[op.source])
    elif op.result in layouts and op.source not in layouts:
        yield op.source, _transposed(layouts[op.result], shape_of(op.result.type))


def _of_scatter(op: ClusterScatterOp, layouts: Layouts, _threads: int) -> Implied:
    if op.acc in layouts and op.result not in layouts:
        yield op.result, _scattered(op, layouts[op.acc])


def _of_extract(op: ExtractOp, layouts: Layouts, threads: int) -> Implied:
    if op.source in layouts and op.result not in layouts:
        yield op.result, extracted(op, layouts[op.source], threads)[1]


def _of_unpack(op: UnpackOp, layouts: Layouts, _threads: int) -> Implied:
    if op.source in layouts and op.result not in layouts:
        yield op.result, unpacked(op, layouts[op.source])
    elif op.result in layouts and op.source not in layouts:
        yield op.source, packed(op, layouts[op.result])


def _of_lines(op: LineOp | FetchOp, layouts: Layouts, _threads: int) -> Implied:
    for group in op.alike():
        yield from _alike(group, layouts)


def _of_indices(op: IndexedTileOp, layouts: Layouts, _threads: int) -> Implied:
    users = (use.operation for use in op.result.uses)
    tiles = (op.result if isinstance(op, LoadOp) else op.operands[0] for op in users)
    known = [tile for tile in tiles if tile in layouts]
    for value in (op.rows, op.places) if known else ():
        if value is not None and value not in layouts:
            shape, small = shape_of(known[0].type), shape_of(value.type)
            yield value, project(layouts[known[0]], shape, small)


def _of_copy(op: CopyOp, layouts: Layouts, _threads: int) -> Implied:
    sides = op.source, op.destination
    if all(isinstance(side.type, FragmentType) for side in sides):
        yield from _alike(sides, layouts)
    elif op.mask is not None and op.source in layouts and op.mask not in layouts:
        yield op.mask, layouts[op.source]


def _alike(tiles: Sequence[SSAValue], layouts: Layouts) -> Implied:
    """Register tiles that lie alike: those without a layout have that of the first with one."""
    known = [layouts[tile] for tile in tiles if tile in layouts]
    for tile in tiles if known else ():
        if tile not in layouts:
            yield tile, known[0]


# By kind of op: its register tiles that have no layout, with those that they should have.
_RULES: dict[type[Operation], Callable[..., Implied]] = {
    MapOp: _of_map,
    ReduceOp: _of_reduce,
    TransposeOp: _of_transpose,
    CopyOp: _of_copy,
    ExtractOp: _of_extract,
    UnpackOp: _of_unpack,
    IndexedTileOp: _of_indices,
    ClusterScatterOp: _of_scatter,
    FetchOp: _of_lines,
    **dict.fromkeys(LINE_OPS, _of_lines),
}


def sorted_layout(op: SortOp, threads: int) -> Layout:
    """The layout of lines that no memory has: threads go across them first, since what one thread
    has of a line it compares by itself.
    """
    shape, mode = shape_of(op.source.type), op.mode.value.data
    lines = shape[1 - mode]
    across = gcd(lines & -lines, threads)
    along = threads // across if mode == len(shape) - 1 else None
    return copied(coalesced(shape, len(shape) - 1, 4, threads, along), shape)


def made_of(op: ReduceOp | TransposeOp, tv: Layout) -> Layout:
    """The layout of what an op makes of a register tile that has the layout `tv`."""
    shape = shape_of(op.source.type)
    if isinstance(op, ReduceOp):
        return project(tv, shape, shape_of(op.result.type))
    return _transposed(tv, shape)


def _transposed(tv: Layout, shape: tuple[int, ...]) -> Layout:
    return transposed_tv(tv, shape) if len(shape) == 2 else tv


def extracted(op: ExtractOp, tv: Layout, threads: int) -> tuple[Layout, Layout]:
    """The layouts that a register tile of layout `tv`, and the columns that an op takes out of it,
    have for that.
    """
    first, count = op.origin.get_values()[1], shape_of(op.result.type)[1]
    return layouts_of_columns(tv, shape_of(op.source.type), first, count, threads)


def packing_of(op: UnpackOp) -> Packing:
    """How integers hold the elements that an op takes out of them."""
    return Packing(op.mode.value.data, op.order.data, op.per)


def packed(op: UnpackOp, tv: Layout) -> Layout:
    """The layout of the integers where their elements have the layout `tv`."""
    try:
        return packed_layout(tv, shape_of(op.result.type), packing_of(op), _first(op))
    except PackedLayoutError as error:
        raise PassFailedException(op, f"{error}; take another order or tile") from error


def unpacked(op: UnpackOp, tv: Layout) -> Layout:
    """The layout of the elements where their integers have the layout `tv`."""
    try:
        return unpacked_layout(tv, shape_of(op.source.type), packing_of(op), _first(op))
    except PackedLayoutError as error:
        raise PassFailedException(op, f"{error}; take another order or tile") from error


def _first(op: UnpackOp) -> int:
    """The mode along which memory has the integers one behind the other."""
    load = op.source.owner
    mode = contiguous_mode(memref_of(load.source)) if isinstance(load, LoadOp) else None
    return op.mode.value.data if mode is None else mode


def _scattered(op: ClusterScatterOp, tv: Layout) -> Layout:
    rows, columns = shape_of(op.result.type)
    layout = columns_of(tv, rows, columns)
    if layout is None:
        raise PassFailedException(
            op,
            "expected a multiply whose threads have values in all parts of the columns that a "
            f"cluster shares, {columns} each, got other warps; take reduction = ordered",
        )
    return layout


class MemoryVectors:
    """Which modes of register tiles are contiguous in the memory that they come from or go to, and
    in what vectors: seen through elementwise ops and transposes.
    """

    def __init__(self, ops: Sequence[Operation]) -> None:
        # For each tile one that stands for all tiles of its kind, and whether its modes are turned.
        self._parents: dict[SSAValue, tuple[SSAValue, bool]] = {}
        self._found: dict[tuple[SSAValue, int], int] = {}
        self._stored: set[tuple[SSAValue, int]] = set()
        for op in ops:
            self._connect(op)
        for op in ops:
            for memory, tile in _moved(op) if isinstance(op, LoadOp | CopyOp) else ():
                self._note(tile, memref_of(memory), isinstance(op, CopyOp) and tile is op.source)

    def of(self, tile: SSAValue, mode: int) -> int:
        """The elements of a vector along a mode of a tile; 1 where no memory has it contiguous."""
        root, turned = self._root(tile)
        return self._found.get((root, mode ^ turned), 1)

    def has_both(self, tile: SSAValue) -> bool:
        """Whether some memory has a tile contiguous along either mode."""
        root, _ = self._root(tile)
        return all((root, mode) in self._found for mode in (0, 1))

    def block(self, tile: SSAValue, bits: int) -> tuple[int, int] | None:
        """The elements along either mode of a thread's block of a tile that some memory has
        contiguous along the one, and some along the other, if neighboring lanes fill sectors both
        ways.
        """
        found = self.of(tile, 0), self.of(tile, 1)
        return found if min(found) > 1 and min(found) * bits >= _BLOCK_BITS else None

    def stored(self, tile: SSAValue) -> int | None:
        """The mode of a tile that is contiguous wherever it is stored; None without one such."""
        root, turned = self._root(tile)
        found = [mode ^ turned for mode in (0, 1) if (root, mode) in self._stored]
        return found[0] if len(found) == 1 else None

    def _note(self, tile: SSAValue, type_: MemRefType, is_stored: bool) -> None:
        mode = contiguous_mode(type_)
        if mode is None or type_.rank != 2 or min(type_.shape) == 1:
            return
        root, turned = self._root(tile)
        vector = vector_bytes(type_) * 8 // type_.bits
        key = root, mode ^ turned
        self._found[key] = max(vector, self._found.get(key, 1))
        if is_stored:
            self._stored.add(key)

    def _connect(self, op: Operation) -> None:
        match op:
            case MapOp():
                for value in op.inputs:
                    if shape_of(value.type) == shape_of(op.result.type):
                        self._join(value, op.result, False)
            case CopyOp() if isinstance(op.source.type, FragmentType) and isinstance(
                op.destination.type, FragmentType
            ):
                self._join(op.source, op.destination, False)
            case TransposeOp() if isinstance(op.source.type, FragmentType):
                self._join(op.source, op.result, True)
            case _:
                return

    def _root(self, tile: SSAValue) -> tuple[SSAValue, bool]:
        turned = False
        while tile in self._parents:
            tile, more = self._parents[tile]
            turned ^= more
        return tile, turned

    def _join(self, one: SSAValue, other: SSAValue, turned: bool) -> None:
        (first, a), (second, b) = self._root(one), self._root(other)
        if first is not second:
            self._parents[first] = second, a ^ b ^ turned


def _moved(op: Operation) -> Iterator[tuple[SSAValue, SSAValue]]:
    """The tile in memory and the register tile of an op that copies between them."""
    match op:
        case LoadOp():
            yield op.source, op.result
        case CopyOp() | AtomicOp():
            sides = op.source, op.destination
            for memory, tile in (sides, sides[::-1]):
                if isinstance(memory.type, MemRefType) and isinstance(tile.type, FragmentType):
                    yield memory, tile
        case _:
            return


def _fragments(op: Operation) -> Iterator[SSAValue]:
    for value in (*op.operands, *op.results):
        if isinstance(value.type, FragmentType):
            yield value


def _is_indexed(op: Operation) -> bool:
    """Whether an op loads or stores rows that a tile numbers."""
    return isinstance(op, LoadOp | CopyOp | AtomicOp) and any(
        isinstance(value.owner, IndexedTileOp) for value in op.operands
    )


def _touches_fragment(op: Operation) -> bool:
    if isinstance(op, FillOp | GemmOp):
        return True
    return any(True for _ in _fragments(op))


def named_layout(op: Operation, memory: SSAValue, threads: int) -> Layout | None:
    """The layout of the register tile that the named copy of a tile in memory moves, by so many
    threads; None where the program names no copy. `PassFailedException` at `op` where it does not
    move every element of the tile.
    """
    copy = named_copy(memory)
    if copy is None:
        return None
    if copy.threads != threads:
        raise PassFailedException(
            op,
            f"expected a tiled copy of {threads} threads, got one of {copy.threads}; take "
            f"warps of the schedule whose product is {copy.threads // 32 or 1}, or another copy",
        )
    shape = shape_of(memory.type)
    try:
        tv = copied(copy, shape)
    except LayoutError as error:
        raise PassFailedException(op, f"{error}; take another tile or copy") from error
    rows = shape[0]
    if any(0 < stride < rows < (extent - 1) * stride + 1 for extent, stride in modes_of(tv)):
        raise PassFailedException(
            op,
            "expected a tiled copy whose threads and values each go along one mode of the tile, "
            f"got {tv} of a tile {shape}; write their modes apart",
        )
    offsets = filter_zeros(tv).offsets()
    size = rows * (shape[1] if len(shape) > 1 else 1)
    if len(offsets) != size or len({*offsets}) != size:
        raise PassFailedException(
            op,
            f"expected a tiled copy that moves each of the {size} elements of a tile {shape} once, "
            f"got {len({*offsets})} of them by {len(offsets)} values of threads",
        )
    return tv


def tiled_copy_of(copy: TiledCopy | None, tile: Attribute) -> TiledCopyAttr | None:
    """The tiled copy of a load or store, where its register tile has the layout of it."""
    if copy is None or not isinstance(tile, FragmentType) or copied(copy, tile.shape) != tile.tv:
        return None
    return TiledCopyAttr(copy)
