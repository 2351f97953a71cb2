"""Numbered rows that come to shared memory ahead: an operand of a multiply whose rows a tile of
numbers chooses, or a load that is computed with on its way to one.

    %n = load R; for k { %t = indexed_tile X, (k), %n; gemm %t, W[k], %acc }

Who copies needs the numbers of the rows that it copies. They get ops of their own, in the layout of
the copy, wherever those of the program stand: row numbers that a loop does not change are loaded in
front of it. Rows that those who copy cannot number are loaded by the threads that multiply, as the
plan of operands has it. Rows that are pixels of images, too, need no numbers where TMA copies them.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import UnitAttr
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.analysis.operand_plans import (
    NUMBERS_ROWS,
    SOURCES,
    comes_by_tma,
    is_on_its_way,
    numbers_of,
    plan_of,
)
from cutedialect.passes.analysis.smem_layouts import untransposed
from cutedialect.passes.rewriting import cloned, erase, insert_after, insert_before


def number_operands(kernel: cute.KernelOp, by_tma: bool) -> list[cute.IndexedTileOp]:
    """Give operands of multiplies whose rows are numbered, and loads on their way to one, numbers
    of their own, in a kernel whose tiles are not bound; the tiles that are to be copied. Tiles of
    pixels take their place where operands come `by_tma`.
    """
    uses = list(_numbered(kernel))
    order = list(walk(kernel.body.block)) if uses else []
    made: dict[cute.IndexedTileOp, cute.IndexedTileOp] = {}
    for user, index in uses:
        tile, is_turned = untransposed(user.operands[index])
        whole = tile.owner
        assert isinstance(whole, cute.IndexedTileOp)
        if by_tma and whole.pixels is not None and comes_by_tma(whole.pixels):
            user.operands[index] = _turned(whole.pixels, is_turned, user)
            continue
        if isinstance(user, cute.GemmOp) and plan_of(user, user.operands[index]).travels == SOURCES:
            _load(user, index, is_turned)
            continue
        chain = numbers_of(whole)
        if chain is None:
            continue
        if whole not in made:
            made[whole] = _with_own_numbers(whole, [op for op in order if op in chain])
        user.operands[index] = _turned(made[whole].result, is_turned, user)
    for op in reversed(order):
        if isinstance(op, _DROPPED) and op.parent is not None:
            _drop(op)
    return [*made.values()]


def _numbered(kernel: cute.KernelOp) -> Iterator[tuple[Operation, int]]:
    """The uses of tiles of numbered rows by multiplies, and by loads on their way to one."""
    for op in ops_of(kernel.body.block, cute.GemmOp, cute.LoadOp):
        for index, value in enumerate(op.operands[:2]):
            tile = untransposed(value)[0].owner
            is_numbered = isinstance(tile, cute.IndexedTileOp) and tile.places is None
            if is_numbered and (isinstance(op, cute.GemmOp) or is_on_its_way(op)):
                yield op, index


_DROPPED = (
    cute.IndexedTileOp,
    cute.PixelTileOp,
    cute.TransposeOp,
    cute.LoadOp,
    cute.MapOp,
    cute.AllocFragmentOp,
)


def _with_own_numbers(tile: cute.IndexedTileOp, chain: list[Operation]) -> cute.IndexedTileOp:
    """The tile with numbers by copies of some ops, each beside the one that it is a copy of."""
    values: dict[SSAValue, SSAValue] = {}
    for op in chain:
        copy = cloned(op, values)
        copy.attributes[NUMBERS_ROWS] = UnitAttr()
        insert_after(op, copy)
    extents, of = tile.tile.get_values(), None if tile.of is None else tile.counted
    again = cute.IndexedTileOp(tile.memref, extents, tile.coords, values[tile.rows], of)  # pyright: ignore[reportArgumentType]
    again.attributes |= tile.attributes
    again.attributes[NUMBERS_ROWS] = UnitAttr()
    again.location, again.result.name_hint = tile.location, tile.result.name_hint
    insert_after(tile, again)
    return again


def _load(user: Operation, index: int, is_turned: bool) -> None:
    """Let threads load an operand into registers."""
    tile = untransposed(user.operands[index])[0]
    type_ = cute.memref_of(tile)
    load = cute.LoadOp(tile, cute.FragmentType.get(type_.element, type_.shape))  # pyright: ignore
    insert_before(user, load)
    load.location = user.location
    user.operands[index] = _turned(load.result, is_turned, user)


def _turned(value: SSAValue, is_turned: bool, user: Operation) -> SSAValue:
    """A tile, or its transpose in front of who takes it."""
    if not is_turned:
        return value
    turned = cute.TransposeOp(value)
    insert_before(user, turned)
    return turned.result


def _drop(op: Operation) -> None:
    """Erase an op whose result nothing takes, with what fills it."""
    uses = [use.operation for result in op.results for use in result.uses]
    if isinstance(op, cute.AllocFragmentOp) and all(isinstance(x, cute.FillOp) for x in uses):
        erase(*uses, op)
    elif not uses:
        erase(op)
