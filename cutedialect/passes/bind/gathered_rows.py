"""Numbered rows that TMA copies, four at a time: which tiles of a kernel come so, and their copies.

    %t = indexed_tile X, (k), %n {in_fours}; copy %t, %s {tma_load<f16, rows>}

Each warp that loads has the numbers of the rows that it copies (`numbers_in_fours`). What does not
come so comes by asynchronous copies of threads, and a remark says why.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import TmaLoadType
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.analysis.gathered_rows import (
    IN_FOURS,
    box_of_rows,
    has_copies_of_four,
    why_not_in_fours,
    why_too_many,
)
from cutedialect.passes.analysis.operand_plans import gmem_type, is_on_its_way
from cutedialect.passes.analysis.role_plan import comes_by_tma
from cutedialect.passes.analysis.smem_layouts import untransposed
from cutedialect.passes.bind.kernel_binding import KernelBinding
from cutedialect.passes.remarks import remark

# Bits of a line of shared memory, of which a whole row is one where threads read it.
_LINE = 1024


def gather_in_fours(
    binding: KernelBinding, tiles: Sequence[cute.IndexedTileOp], threads: int
) -> None:
    """Mark the tiles, whose numbers the threads that load have, that TMA copies."""
    by_tma = binding.is_specialized and binding.schedule.loads != "threads"
    if not tiles or not by_tma or not has_copies_of_four(binding.arch):
        return
    found = {
        tile: why_not_in_fours(tile) or why_too_many(tile, threads) or _why_not_read(binding, tile)
        for tile in tiles
    }
    copies = any(found.values()) or _copies_others(binding)
    for tile, why in found.items():
        if why or copies:
            why = why or "threads copy other operands"
            remark("cute-partition", tile, f"TMA not taken for rows that are numbered: {why}")
        else:
            tile.attributes[IN_FOURS] = UnitAttr()


def _copies_others(binding: KernelBinding) -> bool:
    """Whether the threads that load copy an operand, or what one is computed from, whose rows no
    program numbers: they have not the registers for numbers of rows beside that.
    """
    operands = [tile for op in binding.atoms for tile in (op.a, op.b) if gmem_type(tile)]
    loads = [op.source for op in ops_of(binding.kernel, cute.LoadOp) if is_on_its_way(op)]
    plain = (tile for tile in (*operands, *loads) if not _is_numbered(tile))
    return not all(comes_by_tma(tile) for tile in plain)


def _is_numbered(tile: SSAValue) -> bool:
    return isinstance(untransposed(tile)[0].owner, cute.IndexedTileOp)


def _why_not_read(binding: KernelBinding, tile: cute.IndexedTileOp) -> str:
    """Why who reads a tile in shared memory wants its rows otherwise than TMA leaves them."""
    type_ = cute.memref_of(tile.result)
    row = cute.shape_of(type_)[1] * type_.bits
    for user, value in _users(tile.result):
        bound = binding.atoms.get(user) if isinstance(user, cute.GemmOp) else None
        if isinstance(user, cute.GemmOp) and user.held_element(value) is not None:
            return "bytes hold its elements without gaps"
        in_lines = bound is not None and isinstance(bound.atom, Tcgen05Atom)
        if not in_lines and (row > _LINE or row & (row - 1)):
            return f"threads read rows of {row // 8} bytes, which are not one line each"
    return ""


def _users(tile: SSAValue) -> list[tuple[Operation, SSAValue]]:
    """Who takes a tile, or its transpose, and as what."""
    found: list[tuple[Operation, SSAValue]] = []
    for use in tile.uses:
        if isinstance(use.operation, cute.TransposeOp):
            found += _users(use.operation.result)
        else:
            found.append((use.operation, tile))
    return found


def copy_in_fours(
    binding: KernelBinding, source: SSAValue, buffer: SSAValue, before: Operation
) -> None:
    """Copy the rows of a tile that is marked; of a row that the tensor does not have none."""
    tile, smem = source.owner, cute.memref_of(buffer)
    assert isinstance(tile, cute.IndexedTileOp)
    found = box_of_rows(tile, smem)
    if isinstance(found, str):
        raise PassFailedException(
            before, f"expected numbered rows that TMA copies, got a buffer of {smem}: {found}"
        )
    described = binding.maps.descriptor(*found, smem.swizzle)
    atom = TmaLoadType.get(smem.element, rows=True)
    binding.insert(cute.CopyOp(source, buffer, atom=atom, descriptor=described), before)
