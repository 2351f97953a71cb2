"""Rules of what a kernel knows of itself and of its tensors: extents, work items, groups, slices,
single elements, what CTAs tell each other, and the ops that only order what is asynchronous, which
is done at once here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from cutedialect.dialects import cute, cute_nvgpu
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.layout import Dyn

from .cta import Cta, FailedAssertion, Fragment, slot, slots
from .rules import Code, Step, function, nothing, rule
from .tile_rules import combine_of

_AXES = "xyz"


@rule(
    CompleteOp,
    cute.BarrierOp,
    cute_nvgpu.CpAsyncCommitOp,
    cute_nvgpu.CpAsyncWaitOp,
    cute_nvgpu.FenceTensorMapsOp,
    cute_nvgpu.ProxyFenceOp,
    cute_nvgpu.TmaPrefetchOp,
    cute_nvgpu.TmaStoreCommitOp,
    cute_nvgpu.TmaStoreWaitOp,
    cute_nvgpu.Tcgen05FenceOp,
    cute_nvgpu.TmemAddressOp,
    cute_nvgpu.TmemAllocOp,
    cute_nvgpu.TmemDeallocOp,
    cute_nvgpu.WgmmaCommitOp,
    cute_nvgpu.WgmmaFenceOp,
    cute_nvgpu.WgmmaWaitOp,
    cute_nvgpu.WriteOnesOp,  # Multiplies add up rows by themselves.
)
def _order(op: Any) -> Step:
    del op
    return nothing


@function(cute.DimOp)
def _dim(op: cute.DimOp) -> Any:
    mode = op.mode.value.data
    return lambda view: np.int32(view.shape[mode])


@function(cute.StrideOp)
def _stride(op: cute.StrideOp) -> Any:
    mode = op.mode.value.data
    return lambda view: np.int64(view.stride(mode))


@function(cute.GetLayoutOp)
def _layout(op: cute.GetLayoutOp) -> Any:
    """The run-time leaves of the layout: extents, then strides."""
    type_ = op.source.type
    assert isinstance(type_, cute.MemRefType)
    extents, strides = (
        [mode for mode, value in enumerate(values) if isinstance(value, Dyn)]
        for values in (type_.modes, type_.stride)
    )

    def layout(view: Any) -> Any:
        return tuple(int(view.shape[mode]) for mode in extents) + tuple(
            int(view.stride(mode)) for mode in strides
        )

    return layout


@rule(cute.BlockIdxOp)
def _block_idx(op: cute.BlockIdxOp) -> Step:
    result, axis = slot(op.result), _AXES.index(op.axis.data)
    return lambda cta: cta.values.__setitem__(result, np.int32(cta.index[axis]))


@rule(cute.GridDimOp)
def _grid_dim(op: cute.GridDimOp) -> Step:
    result, axis = slot(op.result), _AXES.index(op.axis.data)
    return lambda cta: cta.values.__setitem__(result, np.int32(cta.grid[axis]))


@rule(cute.TileIndexOp)
def _tile_index(op: cute.TileIndexOp) -> Step:
    coords = slots(op.coords)
    return lambda cta: cta.values.update(zip(coords, map(np.int32, cta.item), strict=True))


def work_items(op: cute.TileIndexOp, tensor: Any) -> list[tuple[int, ...]]:
    """The coordinates of all tiles of a tensor, or of the tensors of a group."""
    tile = op.tile.get_values()

    def of(shape: tuple[int, ...]) -> list[tuple[int, ...]]:
        counts = [1 if e < 0 else -(-extent // e) for extent, e in zip(shape, tile, strict=True)]
        if op.run is not None:
            counts = [-(-prod(counts) // op.run), 1]
        return list(np.ndindex(*counts))

    if isinstance(tensor, tuple):
        return [(n, *item) for n, each in enumerate(tensor) for item in of(each.shape)]
    return of(tensor.shape)


@rule(cute.PrintfOp)
def _printf(op: cute.PrintfOp) -> Step:
    args, text = slots(op.args), re.sub(r"(%[-+ #0]*\d*(?:\.\d+)?)l+", r"\1", op.format.data)

    def step(cta: Cta) -> None:
        print(text % tuple([np.asarray(cta.values[arg]).item() for arg in args]), end="")

    return step


@rule(cute.AssertOp)
def _assert(op: cute.AssertOp) -> Step:
    condition, message = slot(op.condition), op.message.data

    def step(cta: Cta) -> None:
        if not cta.values[condition]:
            (x, y, z), (width, height, _) = cta.index, cta.grid
            raise FailedAssertion(op, message, x + width * (y + height * z))

    return step


@function(cute.GroupSizeOp)
def _group_size(op: cute.GroupSizeOp) -> Any:
    del op
    return lambda group: np.int32(len(group))


@function(cute.MemberOp)
def _member(op: cute.MemberOp) -> Any:
    del op

    def member(group: Any, index: Any) -> Any:
        if not 0 <= index < len(group):
            raise ValueError(f"expected an index below the group's {len(group)}, got {index}")
        return group[int(index)]

    return member


@function(cute.FindOp)
def _find(op: cute.FindOp) -> Any:
    del op
    return lambda value, group: np.int32(np.searchsorted(group, value, side="right") - 1)


@function(cute.SliceOp)
def _slice(op: cute.SliceOp) -> Any:
    mode = op.mode.value.data
    return lambda view, first, end: view.slice(mode, int(first), int(end))


@function(cute.MakeViewOp)
def _make_view(op: cute.MakeViewOp) -> Any:
    """The numbers are the run-time leaves, or one value of the algebra that is all of them."""
    layout = cute.memref_of(op.result).layout
    is_value, count, start = op.value is not None, len(op.layout), op.start

    def made(view: Any, *given: Any) -> Any:
        numbers, offset = given[:count], given[count:]
        leaves = numbers[0] if is_value else numbers
        # A value of the algebra that is one number is its run-time leaves.
        first = start if isinstance(start, int) else int(np.ravel(offset[0])[0])
        return view.through(layout, [int(leaf) for leaf in leaves], first)

    return made


@function(cute.ReadOp)
def _read(op: cute.ReadOp) -> Any:
    if op.pred is None:
        return lambda view, *coords: view.at(coords)

    def read(view: Any, *given: Any) -> Any:
        *coords, holds = given
        return view.at(coords) if holds else view.memory.held.type(0)

    return read


@rule(cute.SearchOp)
def _search(op: cute.SearchOp) -> Step:
    value, count, result = slots((op.value, op.count, op.result))
    block = op.body.block
    code, argument, last = Code(block), slot(block.args[0]), block.last_op
    assert last is not None
    image = slot(last.operands[0])

    def step(cta: Cta) -> None:
        low, high, wanted = 0, cta.number(count), cta.number(value)
        while high - low > 1:  # the image grows: halve what may hold the last one
            middle = (low + high) // 2
            cta.values[argument] = np.int32(middle)
            code.finish(cta)
            low, high = (middle, high) if cta.number(image) <= wanted else (low, middle)
        cta.values[result] = np.int32(low)

    return step


@rule(cute.LastArrivalOp)
def _last_arrival(op: cute.LastArrivalOp) -> Step:
    counters, index, total, result = slots((op.counters, op.index, op.total, op.result))

    def step(cta: Cta) -> Iterator[None]:
        yield
        whole = cta.number(total)
        if whole <= 1:  # alone, and not counted: others may count there
            cta.values[result] = np.bool_(whole == 1)
            return
        place = cta.values[counters].local_tile((1,), (cta.number(index),))
        arrived = int(place.read()[0]) + 1
        is_last = arrived == whole
        place.write(np.array([0 if is_last else arrived], np.int32))
        cta.values[result] = np.bool_(is_last)

    return step


class _Exchange:
    """The tiles that the CTAs of a cluster send each other at one place of the program."""

    def __init__(self, count: int) -> None:
        self._count = count
        # By the cluster and how often it came here: the tiles of the CTAs that are there.
        self._sent: dict[tuple[int, int], dict[int, np.ndarray]] = {}
        self._visits: dict[tuple[int, ...], int] = {}

    def send(self, cta: Cta, tile: Any) -> tuple[int, dict[int, np.ndarray]]:
        """The rank of a CTA, and the tiles by rank, to which those of CTAs to come are added."""
        number = cta.index[0]
        self._visits[cta.index] = visit = self._visits.get(cta.index, 0) + 1
        key = number // self._count, visit
        parts = self._sent.setdefault(key, {})
        parts[number % self._count] = np.array(tile.read())
        if len(parts) == self._count:
            del self._sent[key]
        return number % self._count, parts


@rule(cute.ClusterSumOp)
def _cluster_sum(op: cute.ClusterSumOp) -> Step:
    acc, count, result = slot(op.acc), op.count.value.data, slot(op.result)
    exchange = _Exchange(count)

    def step(cta: Cta) -> Iterator[None]:
        tile = cta.values[acc]
        rank, parts = exchange.send(cta, tile)
        while rank == 0 and len(parts) < count:
            yield
        if rank == 0:
            total = parts[0]
            for other in range(1, count):
                total = total + parts[other]
            cta.store(tile, total)
        cta.values[result] = np.bool_(rank == 0)

    return step


@rule(cute.ClusterScatterOp)
def _cluster_scatter(op: cute.ClusterScatterOp) -> Step:
    acc, count, result = slot(op.acc), op.count.value.data, slot(op.result)
    exchange = _Exchange(count)

    def step(cta: Cta) -> Iterator[None]:
        rank, parts = exchange.send(cta, cta.values[acc])
        while len(parts) < count:
            yield
        width = parts[0].shape[1] // count
        mine = slice(rank * width, (rank + 1) * width)
        total = parts[0][:, mine]
        for other in range(1, count):
            total = total + parts[other][:, mine]
        cta.values[result] = Fragment(total, total.shape)

    return step


@rule(cute.ClusterRankOp)
def _cluster_rank(op: cute.ClusterRankOp) -> Step:
    count, result = op.count.value.data, slot(op.result)

    def step(cta: Cta) -> None:
        cta.values[result] = np.int32(cta.index[0] % count)

    return step


@rule(cute.ClusterBoundOp)
def _cluster_bound(op: cute.ClusterBoundOp) -> Step:
    """In front of cute-tile every work item is a cluster."""
    source, result = slot(op.source), slot(op.result)

    def step(cta: Cta) -> None:
        cta.values[result] = cta.values[source]

    return step


@rule(cute.ClusterReduceOp)
def _cluster_reduce(op: cute.ClusterReduceOp) -> Step:
    source, count, result = slot(op.source), op.count.value.data, slot(op.result)
    combine = combine_of(op.kind.data)
    exchange = _Exchange(count)

    def step(cta: Cta) -> Iterator[None]:
        _, parts = exchange.send(cta, cta.values[source])
        while len(parts) < count:
            yield
        total = parts[0]
        for other in range(1, count):
            total = combine(total, parts[other])
        cta.values[result] = Fragment(total, total.shape)

    return step


@rule(cute.ClaimOp)
def _claim(op: cute.ClaimOp) -> Step:
    counter, total, result = slots((op.counter, op.total, op.result))

    def step(cta: Cta) -> Iterator[None]:
        yield
        place = cta.values[counter].local_tile((1,), (0,))
        before = int(place.read()[0])
        after = 0 if before >= cta.number(total) - 1 else before + 1
        place.write(np.array([after], np.int32))
        cta.values[result] = np.int32(prod(cta.grid) + before)

    return step


@rule(cute.CancelLaunchOp)
def _cancel_launch(op: cute.CancelLaunchOp) -> Step:
    total, result = slots((op.total, op.result))

    def step(cta: Cta) -> None:
        # Every CTA has begun, and none takes over another one's work.
        cta.values[result] = cta.values[total]

    return step


# Where another CTA may go on.
MEETINGS = (
    cute.LastArrivalOp,
    cute.ClusterSumOp,
    cute.ClusterScatterOp,
    cute.ClusterReduceOp,
    cute.ClaimOp,
)
