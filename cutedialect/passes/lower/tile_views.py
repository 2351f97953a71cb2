"""Views of tensors, of several tiles put together (`cute.concat`), allocations, and what a kernel
asks about its tensors and its grid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects import cute, ptx
from cutedialect.dialects.cute.types import element_bits
from cutedialect.dialects.effects import space_of

from . import tensor_memory
from .addresses import global_addresses, value_offsets
from .context import fail, scalar_class
from .elementwise import Fragment
from .lowering import Handler, KernelLowering, integers
from .scalar_builder import Scalar
from .views import (
    DynamicStride,
    IndexedTile,
    Term,
    Tile,
    View,
    extent_of,
    local_tile,
    memref_view,
    pixel_tile,
    slice_,
    stage,
    subview,
    through_layout,
    transpose,
)


def _dim(self: KernelLowering, op: cute.DimOp) -> None:
    view = self.view(op, op.memref)
    self.scalars[op.result] = extent_of(self.builder, view, op.mode.value.data)


def _stride(self: KernelLowering, op: cute.StrideOp) -> None:
    leaves = self.view(op, op.memref).modes[op.mode.value.data]
    stride = leaves[0][1]
    self.scalars[op.result] = stride if isinstance(stride, int) else stride.value


def _block_idx(self: KernelLowering, op: cute.BlockIdxOp) -> None:
    self.scalars[op.result] = self.builder.special(f"ctaid.{op.axis.data}")


def _grid_dim(self: KernelLowering, op: cute.GridDimOp) -> None:
    self.scalars[op.result] = self.builder.special(f"nctaid.{op.axis.data}")


def _tile_index(self: KernelLowering, op: cute.TileIndexOp) -> None:
    del self
    raise fail(op, "expected block indices, which cute-tile makes of tile indices")


def _local_tile(self: KernelLowering, op: cute.LocalTileOp) -> None:
    guard = op.attributes.get(cute.views.GUARD)
    self.views[op.result] = local_tile(
        self.builder,
        self.view(op, op.memref),
        integers(op.tile),
        tuple(self.scalars[each] for each in op.coords),
        integers(guard) if isinstance(guard, DenseArrayBase) else (),
        op.counted,
    )


def _pixel_tile(self: KernelLowering, op: cute.PixelTileOp) -> None:
    self.views[op.result] = pixel_tile(
        self.view(op, op.memref),
        integers(op.tile),
        [self.scalars[each] for each in op.coords],
        tuple(self.scalars[each] for each in op.offsets),
    )


def _indexed_tile(self: KernelLowering, op: cute.IndexedTileOp) -> None:
    guard = op.attributes.get(cute.views.GUARD)
    rows = self.fragment(op, op.rows)
    if rows.type.tv is None:
        raise fail(op, f"expected bound row numbers (cute-partition), got {rows.type}")
    places = None
    if op.places is not None:
        places = op.last, self.fragment(op, op.places)
    self.indexed[op.result] = IndexedTile(
        self.view(op, op.memref),
        integers(op.tile),
        tuple(self.scalars[each] for each in op.coords),
        integers(guard) if isinstance(guard, DenseArrayBase) else (),
        op.mode,
        rows,
        op.counted,
        places,
    )


def _slice(self: KernelLowering, op: cute.SliceOp) -> None:
    self.views[op.result] = slice_(
        self.builder,
        self.view(op, op.source),
        op.mode.value.data,
        self.scalars[op.first],
        self.scalars[op.end],
        cute.views.GUARD in op.attributes,
    )


def _make_view(self: KernelLowering, op: cute.MakeViewOp) -> None:
    type_, builder = cute.memref_of(op.result), self.builder
    numbers = [
        builder.value(self.scalars[number], scalar_class(number.type)) for number in op.layout
    ]
    made = through_layout(self.view(op, op.source), type_, numbers)
    start = op.start
    if op.offset is not None and start != 0:
        number = self.scalars[op.offset]
        wide = number if op.offset.type == i64 else builder.widen(number)
        is_known = isinstance(start, int)
        term = (
            Term(1, start, 1)
            if is_known
            else Term(1, 1, DynamicStride(builder.value(wide, "b64"), start.div))
        )
        made = replace(made, terms=(*made.terms, term))
    self.views[op.result] = made


def _read(self: KernelLowering, op: cute.ReadOp) -> None:
    """All threads load the element; what is loaded does not change while the kernel runs."""
    view = self.view(op, op.source)
    tile = (0,) * len(view.modes)
    view = local_tile(self.builder, view, tile, tuple(self.scalars[each] for each in op.coords))
    (address,) = global_addresses(
        self.builder, view, (), value_offsets(view, [()]), self.context.threads
    )
    cls = scalar_class(op.result.type)
    base = self.builder.value(address.base, "b64")
    size = "b8" if element_bits(op.result.type) == 8 else cls  # a byte in 16 bits
    holds = None if op.pred is None else self.builder.guard(self.scalars[op.pred])
    load = ptx.LdScalarOp(f"global.nc.{size}", base, address.immediate, cls, holds)
    value = self.builder.result(load)
    self.scalars[op.result] = self.builder.uniform(value) if cls == "b32" else value


def binary_search(
    self: KernelLowering,
    count: Scalar,
    value: Scalar,
    entry: Callable[[Scalar, Scalar], tuple[Scalar, Scalar]],
) -> Scalar:
    """The last of `count` ascending entries that is at most a value, 0 if none is: steps of halving
    length, taken where they do not pass the value. Of an index and the last one, `entry` gives
    whether there is such an entry, and the entry if there is.
    """
    builder = self.builder
    found = self.context.registers("b32", 1)
    self.context.fill(found, 0)
    last = builder.pure("sub.s32", count, 1)
    bits = builder.pure("sub.s32", 32, builder.pure("clz.b32", last))
    body = Block(arg_types=[ptx.reg("b32")])
    builder.push(body, repeats=True)
    trip = builder.pure("sub.s32", builder.pure("sub.s32", bits, 1), body.args[0])
    low = builder.get(found, 0)
    ahead = builder.pure("add.s32", low, builder.pure("shl.b32", 1, trip))
    exists, at_ahead = entry(ahead, last)
    taken = builder.both(exists, builder.pure("setp.le.s32", at_ahead, value))
    builder.set(found, 0, builder.pure("selp.b32", ahead, low, taken))
    builder.pop()
    builder.emit(ptx.ForOp(builder.value(0, "b32"), builder.value(bits, "b32"), 1, body))
    return builder.assume_nonnegative(builder.get(found, 0))


def _search(self: KernelLowering, op: cute.SearchOp) -> None:
    builder, end = self.builder, op.body.block.last_op
    assert isinstance(end, cute.YieldOp)

    def entry(ahead: Scalar, last: Scalar) -> tuple[Scalar, Scalar]:
        # Nothing is read behind the end.
        self.scalars[op.body.block.args[0]] = builder.pure("min.s32", ahead, last)
        self.run(op.body.block)
        return builder.pure("setp.le.s32", ahead, last), self.scalars[end.value]

    count, value = self.scalars[op.count], self.scalars[op.value]
    self.scalars[op.result] = binary_search(self, count, value, entry)


def _yield(self: KernelLowering, op: cute.YieldOp) -> None:
    """Whoever runs the body takes the value."""
    del self, op


def _transpose(self: KernelLowering, op: cute.TransposeOp) -> None:
    if op.source in self.indexed:
        return  # Numbered rows came to shared memory as they are, and are transposed there.
    if op.source in self.views:
        self.views[op.result] = transpose(self.views[op.source])
        return
    if op.source in self.joined:
        self.joined[op.result] = self.joined[op.source].transposed()
        return
    type_ = cute.fragment_of(op.result)
    self.fragments[op.result] = Fragment(type_, self.fragment(op, op.source).array)


def _subview(self: KernelLowering, op: cute.SubviewOp) -> None:
    if space_of(op.source) == "tmem":
        tensor_memory.subview(self, op)
        return
    type_ = cute.memref_of(op.result)
    self.views[op.result] = subview(
        self.builder,
        self.view(op, op.source),
        integers(op.origin),
        type_.shape,  # type: ignore[arg-type]
    )


def _stage(self: KernelLowering, op: cute.StageOp) -> None:
    if space_of(op.source) == "tmem":
        tensor_memory.stage(self, op)
        return
    self.views[op.result] = stage(self.view(op, op.source), self.scalars[op.index])


def _alloc_fragment(self: KernelLowering, op: cute.AllocFragmentOp) -> None:
    self.new_fragment(op.result)


def _alloc_smem(self: KernelLowering, op: cute.AllocSmemOp) -> None:
    type_ = cute.memref_of(op.result)
    place = op.place
    root = self.places.get(op) if place is None else place.start
    if root is None:
        root = self.context.smem.take(op.bytes, type_.alignment)

    def dynamic(cls: str) -> SSAValue:
        raise fail(op, f"expected a static layout, got {type_.layout} ({cls})")

    view = memref_view(type_, root, dynamic)
    rank = len(view.modes)
    self.views[op.result] = replace(view, bounds=(None,) * rank, root_modes=(-1,) * rank)


@dataclass(frozen=True)
class JoinedTile:
    """Tiles of one shape, one after the other along a mode."""

    parts: tuple[View, ...]
    mode: int

    def transposed(self) -> JoinedTile:
        """The tile with its two modes exchanged."""
        return JoinedTile(tuple(transpose(part) for part in self.parts), 1 - self.mode)


def pieces(
    self: KernelLowering, op: Operation, source: SSAValue, target: SSAValue
) -> Iterator[tuple[Tile, View]]:
    """What a copy to shared memory consists of: (tile, place) of each part of the source."""
    whole = self.view(op, target)
    joined = self.joined.get(source)
    if joined is None:
        yield self.tile(op, source), whole
        return
    for number, part in enumerate(joined.parts):
        origin = [0] * len(part.shape)
        origin[joined.mode] = number * part.shape[joined.mode]
        yield part, subview(self.builder, whole, tuple(origin), part.shape)


def _concat(self: KernelLowering, op: cute.ConcatOp) -> None:
    parts = tuple(self.view(op, part) for part in op.parts)
    self.joined[op.result] = JoinedTile(parts, op.mode.value.data)


HANDLERS: dict[type[Operation], Handler] = {
    cute.ConcatOp: _concat,
    cute.DimOp: _dim,
    cute.StrideOp: _stride,
    cute.BlockIdxOp: _block_idx,
    cute.GridDimOp: _grid_dim,
    cute.TileIndexOp: _tile_index,
    cute.LocalTileOp: _local_tile,
    cute.PixelTileOp: _pixel_tile,
    cute.IndexedTileOp: _indexed_tile,
    cute.SliceOp: _slice,
    cute.MakeViewOp: _make_view,
    cute.ReadOp: _read,
    cute.SearchOp: _search,
    cute.YieldOp: _yield,
    cute.TransposeOp: _transpose,
    cute.SubviewOp: _subview,
    cute.StageOp: _stage,
    cute.AllocFragmentOp: _alloc_fragment,
    cute.AllocSmemOp: _alloc_smem,
}
