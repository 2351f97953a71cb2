"""Rows that a program numbers, from global to shared memory by TMA: one lane of each warp that has
numbers of rows starts a copy of four of them for each block of columns (`.tile::gather4`, PTX ISA
9.7.9.27).

    warp w: for rows r of its own, four at a time, and blocks of columns c:
        gather4 [s + r, c], map {c, n[r], n[r + 1], n[r + 2], n[r + 3]}

The bytes count at the barrier of the stage. One thread of all says how many will come, maybe when
some have come, as it may be of those that other CTAs of a cluster load (PTX ISA 9.7.13.15.5): the
phase goes on until that thread has arrived. Who copies has waited for the stage itself.
"""

from __future__ import annotations

from functools import partial
from itertools import product

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import cute, ptx
from cutedialect.dialects.cute_nvgpu import TmaDescriptorType, TmaLoadType
from cutedialect.passes.analysis.gathered_rows import GATHERED, numbers_in_fours

from .addresses import tile_address
from .context import fail
from .lowering import KernelLowering
from .scalar_builder import Scalar, ScalarBuilder
from .tma import coordinates, l2_policy, offset_in
from .views import IndexedTile, View, local_tile


def gather_rows(self: KernelLowering, op: cute.CopyOp, predicate: Scalar) -> None:
    """Start the copies of a tile, where `predicate` (the same for all threads) holds."""
    context, builder = self.context, self.builder
    tile, target = self.tile(op, op.source), self.view(op, op.destination)
    if not isinstance(tile, IndexedTile):
        raise fail(op, "expected a tile of numbered rows with copies of four rows, got a box")
    if op.barrier is None or op.barrier not in self.barriers:
        raise fail(op, "expected the barrier that the copies signal, got none")
    if tile.rows.tv != numbers_in_fours(target.shape[0], context.threads) or context.team.elected:
        raise fail(
            op, f"expected warps that have the numbers of all their rows, got {tile.rows.tv}"
        )
    warps = tile.rows.tv[0].size() // WARP_SIZE
    mine: Scalar = True
    if warps * WARP_SIZE < context.threads:
        mine = builder.pure("setp.lt.s32", context.warp_index(), warps)
    start = partial(context.by_one_thread, lambda: _start(self, op, tile, target), warps=1)
    context.when(builder.both(predicate, mine), start)


def _start(self: KernelLowering, op: cute.CopyOp, tile: IndexedTile, target: View) -> None:
    """The copies of the warp's own rows."""
    builder, atom, described = self.builder, op.atom, op.descriptor
    assert isinstance(atom, TmaLoadType)
    assert described is not None
    assert isinstance(described.type, TmaDescriptorType)
    barrier, barrier_offset = self.barriers[op.barrier]  # pyright: ignore[reportArgumentType]
    rows, columns, box = tile.rows.values, target.shape[1], max(described.type.box)
    address, immediate = tile_address(builder, target)
    mine = builder.mul(self.context.warp_index(), offset_in(target, 0, rows))
    place = builder.value(builder.total([address, mine]), "b32")
    line, policy = _columns(builder, tile), l2_policy(builder, atom.cache)
    numbers = [builder.settled(tile.rows.array, each) for each in range(rows)]
    for row, column in product(range(0, rows, GATHERED), range(0, columns, box)):
        first, *_ = coordinates(builder, line, [column])
        builder.emit(
            ptx.TmaLoadOp(
                self.maps[described],
                place,
                barrier,
                [first, *numbers[row : row + GATHERED]],
                dst_offset=immediate + offset_in(target, 0, row) + offset_in(target, 1, column),
                barrier_offset=barrier_offset,
                policy=policy,
                gathers=True,
            )
        )


def _columns(builder: ScalarBuilder, tile: IndexedTile) -> View:
    """The part of a row that lies in the tile's columns, of the first row."""
    extents, of, coords = list(tile.tile), list(tile.of), list(tile.coords)
    extents[tile.mode], of[tile.mode], coords[tile.mode] = 0, 0, 0
    return local_tile(builder, tile.tensor, tuple(extents), tuple(coords), tile.guarded, tuple(of))
