"""The tiled copy that a program names for a tile of global memory: which layout the register tile
gets that it loads or stores, and what such a copy has to be for a kernel's threads.
"""

from __future__ import annotations

from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import FragmentType, TiledCopyAttr, named_copy, shape_of
from cutedialect.layout import Layout, LayoutError, TiledCopy
from cutedialect.passes.bind.thread_layouts import copied, modes_of


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
    modes = [each for part in tv for each in modes_of(part) if each[1]]
    rows = shape[0]
    if any(stride < rows < (extent - 1) * stride + 1 for extent, stride in modes):
        raise PassFailedException(
            op,
            "expected a tiled copy whose threads and values each go along one mode of the tile, "
            f"got {tv} of a tile {shape}; write their modes apart",
        )
    offsets = [0]
    for extent, stride in modes:
        offsets = [at + i * stride for i in range(extent) for at in offsets]
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
