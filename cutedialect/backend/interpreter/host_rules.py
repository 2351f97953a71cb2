"""Rules of the host part: what it asks of the device, workspaces, tables of groups, and launches.
Tensor maps hold nothing that a copy's own tile does not say, so they are None.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import MakeTmaDescriptorOp
from cutedialect.layout import Dyn, flatten

from .cta import Cta, slot, slots
from .elements import dtype_of, undefined
from .memory import view_of_array
from .rules import Step, function, rule


@rule(cute.SmCountOp)
def _sm_count(op: cute.SmCountOp) -> Step:
    result = slot(op.result)
    return lambda cta: cta.values.__setitem__(result, np.int32(cta.choices.sm_count))


@function(MakeTmaDescriptorOp)
def _make_tma_descriptor(op: MakeTmaDescriptorOp) -> Any:
    is_group = isinstance(op.memref.type, cute.GroupType)
    return lambda tensor: (None,) * len(tensor) if is_group else None


@function(cute.WorkspaceOp)
def _workspace(op: cute.WorkspaceOp) -> Any:
    is_zeroed, type_ = op.zeroed is not None, op.result.type
    assert isinstance(type_, cute.MemRefType)
    layout, dtype = type_.layout, dtype_of(type_.element)

    def workspace(*extents: Any) -> Any:
        given = iter(extents)
        leaves = flatten(layout.shape)
        shape = [int(next(given)) if isinstance(leaf, Dyn) else leaf for leaf in leaves]
        strides = [
            # Run-time strides are those of rows, the last mode contiguous.
            stride if isinstance(stride, int) else prod(shape[mode + 1 :])
            for mode, stride in enumerate(flatten(layout.stride))
        ]
        size = max(0, sum((e - 1) * s for e, s in zip(shape, strides, strict=True)) + 1)
        data = np.zeros(size, dtype) if is_zeroed else undefined(size, dtype)
        in_bytes = [stride * dtype.itemsize for stride in strides]
        array = np.ndarray(shape, dtype, data.view(np.uint8), 0, in_bytes)
        return view_of_array(array, layout)

    return workspace


@function(cute.TileOffsetsOp)
def _tile_offsets(op: cute.TileOffsetsOp) -> Any:
    tile = op.tile.get_values()
    blocks = (*(1,) * len(tile), *op.cluster.get_values())[-len(tile) :]
    blocks = blocks if len(tile) > 1 else (1,)

    def offsets(group: Any) -> Any:
        counts = [0]
        for tensor in group:
            tiles = [1 if e < 0 else -(-d // e) for d, e in zip(tensor.shape, tile, strict=True)]
            counts.append(prod(-(-t // b) for t, b in zip(tiles, blocks, strict=True)))
        return tuple(np.cumsum(counts, dtype=np.int32))

    return offsets


@function(cute.TileSharesOp)
def _tile_shares(op: cute.TileSharesOp) -> Any:
    del op

    def shares(offsets: Any, work: Any, takers: Any) -> Any:
        # Any deal is right; how long tiles take is nothing that shows here.
        del work
        total, count = int(offsets[-1]), max(1, int(takers))
        lists = [range(taker, total, count) for taker in range(count)]
        ends = np.cumsum([count + 1, *map(len, lists)])
        numbers = [number for each in lists for number in each]
        return tuple(np.array([*ends, *numbers], np.int32))

    return shares


@rule(cute.LaunchOp)
def _launch(op: cute.LaunchOp) -> Step:
    kernel, grid, args = op.kernel.string_value(), slots(op.grid), slots(op.args)
    cluster: Any = (1, 1, 1) if op.cluster is None else op.cluster.get_values()

    def step(cta: Cta) -> Iterator[None]:
        yield
        extents = cta.numbers(grid) if grid else None
        if extents and any(e % c for e, c in zip(extents, cluster, strict=True)):
            raise ValueError(f"expected a grid of whole clusters {cluster}, got {extents}")
        cta.launcher(kernel, extents, [cta.values[arg] for arg in args])

    return step
