"""Rows that a program numbers and TMA copies, four of them at a time (`.tile::gather4`, PTX ISA
5.5.3.4): which tiles it takes, who has which numbers, and the boxes.

    numbers of 128 rows in 4 warps: each lane of warp w has rows 32 w to 32 w + 31

One lane of each warp copies the rows whose numbers the warp has. Where lanes had numbers of their
own, `ptxas` would let them take turns in a loop, of a dozen instructions a turn. A box is one row,
as wide as a line of shared memory; that of a row that the tensor does not have becomes 0, and
nothing of it is read.
"""

from __future__ import annotations

from xdsl.ir import BlockArgument, SSAValue

from cutedialect.atoms import WARP_SIZE, target
from cutedialect.atoms.capability import GATHER4
from cutedialect.atoms.smem_layouts import SWIZZLE_32B
from cutedialect.dialects import cute
from cutedialect.dialects.cute.views import arch_of
from cutedialect.layout import Layout, Swizzle, flatten
from cutedialect.passes.analysis.layout_inference import contiguous_mode
from cutedialect.passes.analysis.smem_layouts import staging_layout
from cutedialect.passes.analysis.tensor_maps import TensorTile, tile_of_tensor, why_no_map

IN_FOURS = "in_fours"
"""The attribute of a tile of numbered rows that TMA copies."""
GATHERED = 4
"""Rows of a copy."""
# Numbers of rows that a lane has at most, half of the registers of a role that copies.
_MOST_NUMBERS = 64
# Bits of the least part of a line that TMA copies, and of a line of shared memory, at which a copy
# begins; and the most elements of a box.
_GRANULE, _LINE, _MOST_COLUMNS = 128, 1024, 256
# Modes of a tensor whose rows are gathered.
_MODES = 2


def has_copies_of_four(arch: str | None) -> bool:
    """Whether a target has them."""
    return arch is not None and target(arch).has_instruction(GATHER4)


def numbers_in_fours(rows: int, threads: int) -> Layout:
    """Which thread has the numbers of which rows, a multiple of four: the lanes of a warp all that
    it copies, of as many warps as divide them.

    >>> print(numbers_in_fours(128, 128), numbers_in_fours(8, 128), numbers_in_fours(96, 32))
    ((32,4),32):((0,32),1) ((32,2),4):((0,4),1) ((32,1),96):((0,96),1)
    """
    warps = next(n for n in range(threads // WARP_SIZE, 0, -1) if rows % (GATHERED * n) == 0)
    return Layout(((WARP_SIZE, warps), rows // warps), ((0, rows // warps), 1))


def why_too_many(tile: cute.IndexedTileOp, threads: int) -> str:
    """Why the threads that load have no room for the numbers of a tile's rows; empty where they
    have.
    """
    mine = numbers_in_fours(cute.shape_of(tile.result.type)[0], threads)[1].size()
    return f"a lane would have {mine} numbers of rows" if mine > _MOST_NUMBERS else ""


def why_not_in_fours(tile: cute.IndexedTileOp) -> str:
    """Why TMA does not copy the rows of a tile, wherever they go; empty where it does."""
    found = _tensor_of(tile)
    if isinstance(found, str):
        return found
    type_ = cute.memref_of(tile.result)
    if why := why_no_map(cute.memref_of(found.tensor)):
        return why
    if contiguous_mode(type_) != 1:
        return "its rows are not contiguous"
    if tile.of is not None:
        return f"its tile of {tile.counted} is padded to {tuple(tile.tile.get_values())}"
    rows, columns = type_.shape
    if rows % GATHERED:
        return f"its tiles have {rows} rows, no multiple of {GATHERED}"
    if columns * type_.bits % _GRANULE:
        return f"its tiles are {columns} elements of a row apart, no multiple of 16 bytes"
    layout, swizzle, _ = staging_layout((rows, columns), 1, type_.bits)
    found = columns_of_box((rows, columns), layout, swizzle, type_.bits)
    return found if isinstance(found, str) else ""


def _tensor_of(tile: cute.IndexedTileOp) -> TensorTile | str:
    """The matrix whose rows a tile numbers: its modes are those of the rows, and along them."""
    if not has_copies_of_four(arch_of(tile)):
        return "the target copies no four rows"
    if tile.places is not None:
        return "each row has columns of its own"
    memory: SSAValue = tile.memref
    while isinstance(memory.owner, cute.TransposeOp):
        memory = memory.owner.operands[0]
    is_whole = isinstance(memory, BlockArgument) or isinstance(
        memory.owner, cute.MemberOp | cute.MakeViewOp
    )
    found = tile_of_tensor(tile.memref) if is_whole else None
    if found is None:
        return "its memory is not an argument of the kernel"
    rank = cute.memref_of(found.tensor).rank
    if rank != _MODES or cute.memref_of(tile.result).rank != _MODES:
        return f"its tensor has {rank} modes, not {_MODES}"
    return found


def columns_of_box(
    shape: tuple[int, ...], layout: Layout, swizzle: Swizzle | None, bits: int
) -> int | str:
    """The columns of a box for a tile (rows, columns) in a layout of shared memory, where four rows
    follow each other; or why there are none.

    >>> layout, swizzle, _ = staging_layout((128, 128), 1, 16)
    >>> columns_of_box((128, 128), layout, swizzle, 16)
    64
    """
    rows, columns = layout
    box: int = min(shape[1], flatten(columns.shape)[0])  # pyright: ignore[reportArgumentType]
    strides = flatten(rows.stride)
    if len(strides) != 1 or strides[0] != box:
        return "rows do not follow each other in shared memory"
    if box * bits % _GRANULE or box > _MOST_COLUMNS:
        return f"a line of shared memory has {box} elements"
    step = columns(box) if box < shape[1] else 0
    if GATHERED * box * bits % _LINE or step * bits % _LINE:
        return f"boxes start at lines of {_LINE // 8} bytes in shared memory"
    if swizzle == SWIZZLE_32B:
        return "its swizzle moves units of 32 bytes"
    return box


def box_of_rows(
    tile: cute.IndexedTileOp, buffer: cute.MemRefType
) -> tuple[TensorTile, tuple[int, int]] | str:
    """The tensor of a tile and the box of its map, for a buffer; or why there is none."""
    found = _tensor_of(tile)
    if isinstance(found, str):
        return found
    box = columns_of_box(buffer.shape, buffer.layout, buffer.swizzle, buffer.bits)  # pyright: ignore[reportArgumentType]
    return box if isinstance(box, str) else (found, (1, box))
