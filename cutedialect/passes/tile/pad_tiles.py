"""Tiles of any extents, of programs without a multiply and beside one: a step of `cute-tile`.

    x = load local_tile(X, [4, 264], (i, 0)) : (4,264)       x = load local_tile(X, [4, 320], (i, 0)
    s = reduce "add", x                                              of [4, 264]) : (4,320)
                                                       =>    y = map x { coord < 264 ? x : 0 }
                                                             s = reduce "add", y

The lanes of a warp take vectors of neighboring elements, as many for each, so that a tile of 264
columns (33 vectors) would leave one lane with all of a row. It is padded to what some power of two
of lanes shares with the least waste: 8 lanes with 5 vectors, 4 rows at a time. What is padded is as
if outside of the tensor; reductions and scans do not see it, and a fold by a function says how many
elements there are. Extents that lanes share already stay. Beside multiplies tiles are padded that
have no extent of theirs, and of which a thread would hold far more than its share.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import gcd, prod

from xdsl.dialects.builtin import IntegerAttr, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.rewriter import InsertPoint

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.layout import Dyn
from cutedialect.passes.rewriting import ScalarBuilder, insert_before
from cutedialect.passes.tile.padded_scans import hide_from_scan
from cutedialect.passes.tile.resized_tiles import (
    RESIZABLE,
    View,
    fragment_shape,
    fragment_shapes,
    hide,
    moved_by,
    resize_tiles,
    resize_view,
)

_MOST_LANES = 256
_VECTOR_BYTES = 16
# The share of the best use of lanes that is enough for more lanes along a row.
_GOOD = 0.85
# How many more rows there may be for warps to share them.
_MORE_ROWS = 1.25


# Threads that share a tile beside multiplies, and elements up to which one may hold more than its
# share of that.
_GROUP_THREADS = 128
_FEW_HELD = 64


def pad_tiles(kernel: cute.KernelOp) -> None:
    """Pad the tiles of a kernel as its lanes share them."""
    padded = _padded_extents(kernel)
    if not padded or not _can_pad(kernel, padded):
        return

    def extents(value: SSAValue) -> dict[int, int]:
        shape = enumerate(fragment_shape(value))
        return {mode: padded[extent] for mode, extent in shape if extent in padded}

    def resize(op: View) -> None:
        tile = [int(extent) for extent in op.tile.get_values()]  # pyright: ignore
        wide = [padded.get(extent, extent) for extent in tile]
        if wide != tile:
            resize_view(op, wide, of=tile)

    resize_tiles(walk(kernel.body.block), extents, resize)
    _hide(kernel.body.block, {more: extent for extent, more in padded.items()})


def _hide(block: Block, there: Mapping[int, int]) -> None:
    """Let ops on whole rows see the elements alone that are `there`, by padded extents."""
    for op in ops_of(block, cute.ReduceOp, cute.AnyOp):
        shape = fragment_shape(op.source)
        modes = (op.mode.value.data,) if isinstance(op, cute.ReduceOp) else range(len(shape))
        limits = {mode: there[shape[mode]] for mode in modes if shape[mode] in there}
        if limits and isinstance(op, cute.ReduceOp) and op.body is not None:
            op.properties["extent"] = IntegerAttr(limits[op.mode.value.data], i64)
        elif limits:
            hide(op, limits)
    for op in ops_of(block, cute.ScanOp):
        if op.reverse is not None and op.length in there:
            hide_from_scan(op, there[op.length])
    for op in ops_of(block, cute.TakeOp):
        if op.mode is not None and op.places in there:
            op.properties["extent"] = IntegerAttr(there[op.places], i64)
    for op in ops_of(block, cute.PutOp):
        shape = enumerate(fragment_shape(op.indices))
        _leave_out(op, {mode: there[extent] for mode, extent in shape if extent in there})


def lanes_along(vectors: int, rows: int) -> int:
    """How many lanes, a power of two, share the vectors of a row: the most of which nearly as few
    idle as of any number of them. Lanes that a row leaves are on other rows, as far as there are.

    >>> [lanes_along(33, 4), lanes_along(33, 1), lanes_along(373, 1), lanes_along(5003, 1)]
    [8, 64, 128, 256]
    >>> [lanes_along(128, 4), lanes_along(4, 64), lanes_along(168, 3)]
    [128, 4, 64]
    """

    def use(lanes: int) -> float:
        taken = -(-vectors // lanes) * lanes
        busy = min(lanes, WARP_SIZE) * _power_of_two(rows) / WARP_SIZE
        return vectors / taken * min(1.0, busy)

    most = min(_MOST_LANES, _power_of_two(vectors))
    choices = [1 << bit for bit in range(most.bit_length())]
    best = max(map(use, choices))
    return max(lanes for lanes in choices if use(lanes) >= _GOOD * best)


def vector_elements(type_: cute.MemRefType, mode: int, widest_bits: int) -> int:
    """Elements of the widest access along a mode of a tensor's tiles, whatever their extents are,
    and no more than of a type of so many bits.
    """
    size = max(1, type_.bits // 8)
    best = min(_VECTOR_BYTES, type_.alignment)
    if type_.stride[mode] != 1:
        best = size
    for other, stride in enumerate(type_.stride):
        if other == mode or stride == 0:
            continue
        steps = stride.div if isinstance(stride, Dyn) else stride
        if not isinstance(steps, int):
            return 1
        best = min(best, steps * size & -(steps * size))
    return max(1, min(best * 8 // type_.bits, _VECTOR_BYTES * 8 // widest_bits))


def _padded_extents(kernel: cute.KernelOp) -> dict[int, int]:
    """The extents of tiles that lanes do not share, and to what they are padded: the largest tiles
    decide.
    """
    moved = [
        type_
        for op in walk(kernel)
        for type_ in moved_by(op)
        if all(isinstance(each, int) for each in type_.modes)
    ]
    # What a tile was padded from is told by its extent, so that no other one may have that.
    extents = {extent for type_ in moved for extent in type_.shape}
    taken = extents.union(*(shape for op in walk(kernel) for shape in fragment_shapes(op)))
    taken -= _sorted_extents(kernel) - extents
    units, kept = _units_of_all(moved), _kept_extents(kernel)
    if ops_of(kernel, cute.GemmOp):
        crowded = {extent for type_ in moved for extent in _crowded_extents(type_)}
        kept |= units.keys() - crowded
    padded: dict[int, int] = {}
    for extent, unit in units.items():
        if extent in kept:
            continue
        more = -(-extent // unit) * unit
        if more == extent:
            continue
        while more in taken:
            more += unit
        taken.add(more)
        padded[extent] = more
    return padded


def _units_of_all(moved: Iterable[cute.MemRefType]) -> dict[int, int]:
    """For each extent of the tiles what it is to be a multiple of."""
    units: dict[int, int] = {}
    by_size: dict[int, list[cute.MemRefType]] = {}
    for type_ in moved:
        by_size.setdefault(prod(type_.shape), []).append(type_)
    for size in sorted(by_size, reverse=True):
        of_size: dict[int, int] = {}
        widest = max(type_.bits for type_ in by_size[size])
        for type_ in by_size[size]:
            for extent, unit in _units(type_, widest):
                if extent not in units:
                    # Of several tensors the one with the narrowest vectors.
                    of_size[extent] = min(of_size.get(extent, unit), unit)
        units |= of_size
    return units


def _kept_extents(kernel: cute.KernelOp) -> set[int]:
    """The extents that are not padded: those of operands of multiplies, and of indexed rows, where
    one that is padded has no number.
    """
    operands = [value for op in ops_of(kernel, cute.GemmOp) for value in op.operands]
    kept = {extent for value in operands for extent in cute.shape_of(value.type)}
    indexed = ops_of(kernel, cute.IndexedTileOp)
    return kept | {int(op.tile.get_values()[op.mode]) for op in indexed}


def _sorted_extents(kernel: cute.KernelOp) -> set[int]:
    """The extents of lines that are sorted, of which no other op asks where they end."""
    asked = [
        tile
        for op in ops_of(kernel, cute.ReduceOp, cute.AnyOp, cute.TakeOp, cute.PutOp)
        for tile in (op.source, *([op.indices] if isinstance(op, cute.PutOp) else []))
    ]
    found = {op.length for op in ops_of(kernel, cute.SortOp)}
    return found - {extent for tile in asked for extent in fragment_shape(tile)}


def _leave_out(op: cute.PutOp, limits: Mapping[int, int]) -> None:
    """Let numbers behind the end of a tile put nothing."""
    if not limits:
        return
    type_ = cute.fragment_of(op.indices)
    block = Block(arg_types=[type_.element])
    build = ScalarBuilder(InsertPoint.at_end(block), op)
    number: SSAValue = block.args[0]
    for mode, extent in limits.items():
        at = build.value(cute.CoordOp(mode))
        is_there = build.compare("slt", at, build.constant(extent))
        number = build.select(is_there, number, build.constant(-1))
    build.insert(cute.YieldOp(number))
    made = cute.MapOp([op.indices], cute.FragmentType.get(type_.element, type_.shape), block)
    insert_before(op, made)
    op.operands[1] = made.result


def _units(type_: cute.MemRefType, widest: int) -> Iterable[tuple[int, int]]:
    """For each extent of a tile what it is to be a multiple of."""
    along = next((mode for mode, stride in enumerate(type_.stride) if stride == 1), type_.rank - 1)
    columns = type_.shape[along]
    rows = prod(type_.shape) // columns
    vector = vector_elements(type_, along, widest)
    lanes = lanes_along(-(-columns // vector), rows)
    if columns > 1:
        yield columns, lanes * vector
    for mode, extent in enumerate(type_.shape):
        if mode != along and extent != columns and extent > 1:
            across = min(max(1, WARP_SIZE // lanes), _power_of_two(extent))
            yield extent, max(across, _shared_rows(extent))


def _crowded_extents(type_: cute.MemRefType) -> tuple[int, ...]:
    """The extents of a tile of which a thread would hold far more than its share: that is where the
    threads do not share its vectors evenly.
    """
    along = next((mode for mode, stride in enumerate(type_.stride) if stride == 1), type_.rank - 1)
    size, columns = prod(type_.shape), type_.shape[along]
    vectors = columns // gcd(columns, vector_elements(type_, along, type_.bits))
    sharing = min(_GROUP_THREADS, prod(gcd(n, _GROUP_THREADS) for n in (vectors, size // columns)))
    held = size // sharing
    return type_.shape if held > max(_FEW_HELD, 2 * size // _GROUP_THREADS) else ()


def _shared_rows(rows: int) -> int:
    """The most warps, a power of two, that share rows without much more of them."""
    choices = [1 << bit for bit in range(rows.bit_length())]
    return max(each for each in choices if -(-rows // each) * each <= _MORE_ROWS * rows)


def _can_pad(kernel: cute.KernelOp, padded: dict[int, int]) -> bool:
    """Whether all ops that see the extents in question can have others."""
    for op in walk(kernel.body.block):
        if isinstance(op, cute.LocalTileOp | cute.IndexedTileOp):
            if not _can_widen(op, padded):
                return False
            continue
        sees = any(extent in padded for shape in fragment_shapes(op) for extent in shape)
        known = (*RESIZABLE, cute.AnyOp, cute.ExtractOp, *cute.LINE_OPS)
        if sees and not (isinstance(op, known) and _holds_part(op, padded)):
            return False
        if isinstance(op, cute.LINE_OPS) and not op.takes_padding(padded):
            return False
        if isinstance(op, cute.CopyOp | cute.LoadOp | cute.AtomicOp) and not all(
            isinstance(value.owner, cute.LocalTileOp | cute.IndexedTileOp | cute.TransposeOp)
            for value in op.operands
            if isinstance(value.type, cute.MemRefType)
        ):
            return False
    return True


def _can_widen(op: View, padded: Mapping[int, int]) -> bool:
    """Whether a view may have padded extents: neither modes that it keeps whole, nor those that a
    tiled copy divides, which a program names.
    """
    type_, extents = op.memref.type, op.tile.get_values()
    assert isinstance(type_, cute.MemRefType)
    kept = [type_.modes[mode] for mode, extent in enumerate(extents) if extent < 0]
    is_named = "tiled" in op.attributes and any(extent in padded for extent in extents)
    return op.of is None and not is_named and not any(each in padded for each in kept)


def _holds_part(op: Operation, padded: Mapping[int, int]) -> bool:
    """Whether a part that an op takes of a tile can be longer, too; what it has more is as if
    outside of the tensor.
    """
    if not isinstance(op, cute.ExtractOp):
        return True
    part, whole = (
        [padded.get(extent, extent) for extent in fragment_shape(tile)]
        for tile in (op.result, op.source)
    )
    ends = zip(op.origin.get_values(), part, whole, strict=True)
    return all(first + extent <= end for first, extent, end in ends)


def _power_of_two(number: int) -> int:
    """The smallest power of two that a number reaches up to."""
    return 1 << (number - 1).bit_length()
