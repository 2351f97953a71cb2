"""TMA and bulk copies: which thread issues them, closes groups and waits. Of a tensor that is one
instruction for each box, its coordinates counted in the tensor's own modes, or those of the map of
a slice; of contiguous bytes, one for the whole tile.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import product
from math import prod

from xdsl.ir import Operation, SSAValue

from cutedialect.atoms.tensor_map import SLICE_ROWS, SLICE_UNIT, SLICE_UNITS, dim_order
from cutedialect.dialects import cute, cute_nvgpu, pipeline, ptx
from cutedialect.dialects.cute_nvgpu import (
    BulkLoadType,
    BulkStoreType,
    TmaDescriptorType,
    TmaLoadType,
    TmaStoreType,
)
from cutedialect.layout import Layout

from .addresses import Address, Offset, distance, global_addresses, tile_address
from .context import Context, fail
from .lowering import Handler, KernelLowering
from .scalar_builder import Scalar, ScalarBuilder
from .tile_views import pieces
from .views import View

_GRANULE = 16


def tensor_copy(self: KernelLowering, op: cute.CopyOp, predicate: Scalar) -> None:
    """Issue a TMA or bulk copy, where `predicate` (the same for all threads) holds."""
    if isinstance(op.atom, TmaStoreType | BulkStoreType):
        _storing(self, op)
        return
    self.context.when(predicate, lambda: self.context.by_one_thread(lambda: _load_tile(self, op)))


def _load_tile(self: KernelLowering, op: cute.CopyOp) -> None:
    if op.barrier is None or op.barrier not in self.barriers:
        raise fail(op, "expected the barrier that the load signals, got none")
    barrier, offset = self.barriers[op.barrier]
    if not isinstance(op.atom, BulkLoadType):
        for source, target in pieces(self, op, op.source, op.destination):
            if not isinstance(source, View):
                raise fail(op, "expected a tile that boxes cover, got one of numbered rows")
            _load_boxes(self, op, source, target, barrier, offset)
        return
    source, target = self.view(op, op.source), self.view(op, op.destination)
    address, immediate = tile_address(self.builder, target)
    start = _global_start(self.context, op, source)
    self.builder.emit(
        ptx.BulkLoadOp(
            self.builder.value(address, "b32"),
            self.builder.value(start.base, "b64"),
            prod(target.shape) * target.element_bytes,
            barrier,
            dst_offset=immediate,
            src_offset=start.immediate,
            barrier_offset=offset,
            policy=l2_policy(self.builder, op.atom.cache),
        )
    )


def _load_boxes(
    self: KernelLowering,
    op: cute.CopyOp,
    source: View,
    target: View,
    barrier: SSAValue,
    barrier_offset: int,
) -> None:
    """Start the loads of a tile, or of this CTA's part of it. Of a tile that a CTA pair shares, the
    target is the half that the CTA keeps.
    """
    builder, atom = self.builder, op.atom
    assert isinstance(atom, TmaLoadType)
    assert op.descriptor is not None
    if op.spreads:
        source = _in_elements(source, op)
    assert op.barrier is not None
    full = op.barrier.owner
    is_paired = isinstance(full, pipeline.BarrierOp) and self.rings[full.ring].op.is_paired
    box = _box(op, source, op.descriptor)
    counts = [extent // part for extent, part in zip(target.shape, box, strict=True)]
    rank = builder.special("cluster_ctarank")
    half: Scalar = 0
    if atom.is_paired:
        half = builder.pure("mul.lo.s32", builder.pure("and.b32", rank, 1), target.shape[0])
    place: Scalar = 0
    sliced, mask = 0, None
    if atom.multicast is not None:
        extent, step = atom.multicast
        sliced = _sliced_mode(op, target, box, extent)
        place = builder.pure("rem.u32", builder.pure("div.u32", rank, step), extent)
        builder.assume_nonnegative(place)
        base = builder.pure("sub.s32", rank, builder.pure("mul.lo.s32", place, step))
        pattern = sum(1 << (i * step) for i in range(extent))
        wide = builder.pure("shl.b32", pattern, base)
        mask = builder.value(builder.pure("cvt.u16.u32", wide), "b16")
        counts[sliced] //= extent
    address, immediate = tile_address(builder, target)
    policy = l2_policy(builder, atom.cache)
    length = counts[sliced] * box[sliced]
    first = builder.pure("mul.lo.s32", place, length)
    shift = builder.pure("mul.lo.s32", place, offset_in(target, sliced, length))
    moved = [
        builder.value(builder.pure("cvt.u16.u32", offset), "b16") for offset in source.moved[::-1]
    ]
    for at, coords in _boxes(builder, source, counts, box, sliced, first, half):
        builder.emit(
            ptx.TmaLoadOp(
                self.maps[op.descriptor],
                builder.value(builder.total([address, shift]), "b32"),
                barrier,
                coords,
                dst_offset=immediate + _bytes_at(target, at),
                barrier_offset=barrier_offset,
                multicast=mask,
                policy=policy,
                pair=is_paired,
                offsets=moved,
            )
        )


def _in_elements(view: View, op: cute.CopyOp) -> View:
    """A tile of bytes by the elements that they hold, which coordinates of its map count."""
    line, *_ = dim_order(view.root_strides)
    origin = tuple(
        (mode, coord, times * 8 // cute.SIX if mode == line else times)
        for mode, coord, times in view.origin
    )
    modes = tuple(
        ((extent, stride),)
        for extent, ((_, stride),) in zip(
            cute.shape_of(op.destination.type), view.modes, strict=True
        )
    )
    return replace(view, origin=origin, modes=modes)


def _prefetch(self: KernelLowering, op: cute_nvgpu.TmaPrefetchOp) -> None:
    """Bring the boxes of a tile to L2."""
    tile, map_ = self.view(op, op.tile), self.maps[op.descriptor]

    def issue() -> None:
        box = _box(op, tile, op.descriptor)
        counts = [extent // part for extent, part in zip(tile.shape, box, strict=True)]
        for _, coords in _boxes(self.builder, tile, counts, box):
            self.builder.emit(ptx.TmaPrefetchOp(map_, coords))

    self.context.by_one_thread(issue)


def _is_storing(op: Operation | None) -> bool:
    """Whether an op is one that the storing thread alone executes."""
    if isinstance(op, cute.CopyOp):
        return isinstance(op.atom, TmaStoreType | BulkStoreType)
    return isinstance(op, cute_nvgpu.TmaStoreCommitOp | cute_nvgpu.TmaStoreWaitOp)


def _storing(self: KernelLowering, op: Operation) -> None:
    """Stores, commits and waits in a row: one branch to the thread whose groups they are."""
    steps: list[Operation] = []
    following: Operation | None = op
    warps = _storing_warps(op)
    while following is not None and _is_storing(following) and _storing_warps(following) == warps:
        steps.append(following)
        following = following.next_op
    self.done.update(steps)

    def issue() -> None:
        for step in steps:
            self.builder.at(step)
            _store_step(self, step)

    self.context.by_one_thread(issue, warps)


def _storing_warps(op: Operation) -> int | None:
    """How many warps have a storing thread of their own; None: the whole role."""
    if isinstance(op, cute.CopyOp):
        return op.atom.warps if isinstance(op.atom, TmaStoreType) else None
    assert isinstance(op, cute_nvgpu.TmaStoreCommitOp | cute_nvgpu.TmaStoreWaitOp)
    return None if op.warps is None else op.warps.value.data


def _store_step(self: KernelLowering, op: Operation) -> None:
    builder = self.builder
    if isinstance(op, cute_nvgpu.TmaStoreCommitOp):
        builder.emit(ptx.BulkCommitOp())
        return
    if isinstance(op, cute_nvgpu.TmaStoreWaitOp):
        builder.emit(ptx.BulkWaitOp(op.pending.value.data, op.read is not None))
        return
    assert isinstance(op, cute.CopyOp)
    source, target = self.view(op, op.source), self.view(op, op.destination)
    predicate: Scalar = True if op.pred is None else self.scalars[op.pred]
    # A store at a negative coordinate is an illegal instruction on an H100.
    predicate = builder.both(predicate, target.guard)
    store = _bulk_store if isinstance(op.atom, BulkStoreType) else _store_boxes
    self.context.when(predicate, lambda: store(self, op, source, target))


def _bulk_store(self: KernelLowering, op: cute.CopyOp, source: View, target: View) -> None:
    """Start the store of a tile that lies in its tensor, as part of a bulk group."""
    builder, atom = self.builder, op.atom
    assert isinstance(atom, BulkStoreType)
    address, immediate = tile_address(builder, source)
    start = _global_start(self.context, op, target)
    builder.emit(
        ptx.BulkStoreOp(
            builder.value(start.base, "b64"),
            builder.value(address, "b32"),
            prod(source.shape) * source.element_bytes,
            dst_offset=start.immediate,
            src_offset=immediate,
            reduce=atom.operation,
            policy=l2_policy(builder, atom.cache),
        )
    )


def _store_boxes(self: KernelLowering, op: cute.CopyOp, source: View, target: View) -> None:
    """Start the stores of a tile, or of this group of warps' part of it, from one thread."""
    builder, context, atom = self.builder, self.context, op.atom
    assert isinstance(atom, TmaStoreType)
    assert op.descriptor is not None
    box = _box(op, target, op.descriptor)
    counts = [extent // part for extent, part in zip(target.shape, box, strict=True)]
    address, immediate = tile_address(builder, source)
    along = atom.along
    group: Scalar = 0
    if atom.warps is not None:
        groups = context.threads // (atom.warps * 32)
        if counts[along] % groups:
            have = counts[along]
            raise fail(op, f"expected boxes along mode {along} for {groups} groups, got {have}")
        counts[along] //= groups
        group = context.group_index(atom.warps)
    extent = counts[along] * box[along]
    shift = builder.pure("mul.lo.s32", group, offset_in(source, along, extent))
    address = builder.total([address, shift])
    policy = l2_policy(builder, atom.cache)
    first = builder.pure("mul.lo.s32", group, extent)
    for at, coords in _boxes(builder, target, counts, box, along, first):
        builder.emit(
            ptx.TmaStoreOp(
                self.maps[op.descriptor],
                builder.value(address, "b32"),
                coords,
                src_offset=immediate + _bytes_at(source, at),
                reduce=atom.reduce,
                policy=policy,
            )
        )


def l2_policy(builder: ScalarBuilder, cache: str | None) -> SSAValue | None:
    """The L2 policy of a cache hint (PTX ISA 9.7.9.18); None for no hint."""
    if cache is None:
        return None
    kind = cache if cache.startswith("evict") else f"evict_{cache}"
    policy = builder.pure(f"createpolicy.fractional.L2::{kind}.b64", builder.imm(1.0, "f32"))
    assert isinstance(policy, SSAValue)
    return policy


def _box(op: Operation, view: View, descriptor: SSAValue) -> tuple[int, ...]:
    """The box's extent in each mode of a tile."""
    described = descriptor.type
    assert isinstance(described, TmaDescriptorType)
    box = tuple(1 if mode < 0 else described.box[mode] for mode in view.root_modes)
    if any(extent % part for extent, part in zip(view.shape, box, strict=True)):
        raise fail(op, f"expected a box that divides the tile {view.shape}, got {box}")
    return box


def _sliced_mode(op: Operation, view: View, box: tuple[int, ...], share: int) -> int:
    """The mode that CTAs divide: not the contiguous one."""
    for mode, (extent, part) in enumerate(zip(view.shape, box, strict=True)):
        contiguous = any(stride == 1 for _, stride in view.modes[mode])
        if not contiguous and extent // part % share == 0:
            return mode
    raise fail(op, f"expected {share} boxes {box} or more along a mode of {view.shape}, got fewer")


def _boxes(
    builder: ScalarBuilder,
    view: View,
    counts: Sequence[int],
    box: Sequence[int],
    mode: int = 0,
    first: Scalar = 0,
    half: Scalar = 0,
) -> Iterator[tuple[tuple[int, ...], list[SSAValue]]]:
    """So many boxes of a tile, from `first` on along a mode and from `half` on along its rows:
    where each starts in what is copied of the tile, and its coordinates in the tensor.
    """
    steps = [range(0, count * part, part) for count, part in zip(counts, box, strict=True)]
    for at in product(*steps):
        moved: list[Scalar] = list(at)
        moved[mode] = builder.total([first, at[mode]])
        moved[0] = builder.total([half, moved[0]])
        yield at, coordinates(builder, view, moved)


def offset_in(view: View, mode: int, coordinate: int) -> int:
    """Bytes from the tile's start to a coordinate along one mode of it."""
    shape, strides = zip(*view.modes[mode], strict=True)
    return Layout(shape, strides)(coordinate) * view.element_bytes


def _bytes_at(view: View, at: tuple[int, ...]) -> int:
    return sum(offset_in(view, mode, coordinate) for mode, coordinate in enumerate(at))


def coordinates(builder: ScalarBuilder, view: View, at: list[Scalar]) -> list[SSAValue]:
    """Coordinates in the tensor, in the driver's order of its modes."""
    totals: list[list[Scalar]] = [[] for _ in view.root_strides]
    for mode, coord, extent in view.origin:
        totals[mode].append(builder.pure("mul.lo.s32", coord, extent))
    for mode, coordinate in zip(view.root_modes, at, strict=True):
        if mode >= 0:
            totals[mode].append(coordinate)
    order = dim_order(view.root_strides)
    coords = [builder.total(totals[mode]) for mode in order]
    if view.sliced is not None:
        others = dict(zip(order[1:], coords[1:], strict=True))
        coords = [coords[0], *_coordinates_in_slice(builder, view, others)]
    return [builder.value(coord, "b32") for coord in coords]


def _coordinates_in_slice(
    builder: ScalarBuilder, view: View, at: dict[int, Scalar]
) -> list[Scalar]:
    """The coordinates behind the first one in the map of a slice (`atoms.tensor_map.slice_map_of`):
    the row among SLICE_ROWS of which the slice has the last, and how far the slice's end lies
    behind the tensor's address. A place outside of the tensor has a slice without rows.
    """
    assert view.sliced is not None
    mode, first, extent = view.sliced
    row = at.pop(mode)
    distance: list[Scalar] = [_bytes_along(builder, view, mode, builder.total([first, extent]))]
    inside: list[Scalar] = [] if view.guard is True else [view.guard]
    for other, coord in at.items():
        distance.append(_bytes_along(builder, view, other, coord))
        if coord != 0:
            ((size, _),) = view.root_leaves[other]
            inside.append(builder.pure("setp.lt.s32", coord, size))
    if inside:
        extent = builder.pure("selp.b32", extent, 0, builder.both(*inside))
    back = builder.pure("sub.s32", SLICE_ROWS, extent)
    units = builder.pure("shr.u64", builder.total(distance, "s64"), SLICE_UNIT.bit_length() - 1)
    digits = [
        builder.pure("and.b64", units, SLICE_UNITS - 1),
        builder.pure("shr.u64", units, SLICE_UNITS.bit_length() - 1),
    ]
    return [
        builder.total([back, row]),
        SLICE_ROWS,
        *(builder.pure("cvt.u32.u64", digit) for digit in digits),
    ]


def _bytes_along(builder: ScalarBuilder, view: View, mode: int, coord: Scalar) -> Scalar:
    """How many bytes so many elements along a mode of the tensor are."""
    ((_, stride),) = view.root_leaves[mode]
    return distance(builder, coord, stride, view.element_bytes)


def _global_start(context: Context, op: Operation, view: View) -> Address:
    """The address of a tile in global memory; nothing of it may be outside of the tensor."""
    for extent, bound in zip(view.shape, view.bounds, strict=True):
        is_inside = view.guard is True and (bound is None or bound.floor is None)
        if not is_inside or (bound is not None and bound.divisor % extent):
            raise fail(
                op,
                f"expected a tile that lies in its tensor (bulk copies do not clip; extents that "
                f"are multiples of {extent} are written ?{{div={extent}}}), got one that may hang "
                "over an edge",
            )
    for term in view.terms:
        if term.divisor * view.element_bytes % _GRANULE:
            raise fail(
                op,
                f"expected a tile that starts at a multiple of {_GRANULE} bytes, got one at "
                f"multiples of {term.divisor * view.element_bytes}",
            )
    first = replace(view, modes=(), bounds=())
    return global_addresses(context.builder, first, (), [Offset((), 0)], 1)[0]


HANDLERS: dict[type[Operation], Handler] = {
    cute_nvgpu.TmaPrefetchOp: _prefetch,
    cute_nvgpu.TmaStoreCommitOp: _storing,
    cute_nvgpu.TmaStoreWaitOp: _storing,
}
