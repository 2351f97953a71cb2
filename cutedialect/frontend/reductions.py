"""Reductions of register tiles along one mode, and of a condition to one of the whole CTA."""

from __future__ import annotations

from collections.abc import Callable

from xdsl.ir import Block

from cutedialect.dialects.cute import AnyOp, ReduceOp, YieldOp
from cutedialect.dialects.cute.reductions import FOLD, REDUCTIONS, combined_type

from .dtypes import bf16, f16, f32, i32
from .scalar import Scalar
from .tile import Tile, View
from .trace import current, error


def _reduce(
    kind: str, tile: object, mode: int, local: bool = False, packed: int | None = None
) -> Tile:
    source = tile.load() if isinstance(tile, View) else tile
    if not isinstance(source, Tile) or len(source.shape) != 2:
        raise error("expected a tile of rank 2 to reduce", code="CD-P2")
    dtype = source.dtype
    if packed is not None:
        if dtype not in (f16, bf16):
            raise error(
                f"expected a tile of f16 or bf16 with packed, got {dtype.name}", code="CD-P2"
            )
        if packed < 1:
            raise error(f"expected packed to be 1 or more, got {packed!r}", code="CD-P4")
    if dtype.kind != "f" and dtype.bits < 32:
        source = source.to(i32)
    elif dtype.kind == "f" and dtype.bits == 8:
        source = source.to(f32)
    op = ReduceOp(kind, source.use(), mode, local=local, packed=packed)
    whole = Tile(current().insert(op).results[0])
    return whole if kind in ("add", "mul") else whole.to(dtype)


def reduce(tile: object, mode: int, combine: str | Callable[[Scalar, Scalar], Scalar]) -> Tile:
    """Combine the elements of a tile along a mode: (M,N) gives (M,1) along mode 1 (rows), (1,N)
    along mode 0 (columns).

    `combine` is "add", "mul", "max" or "min"; a NaN gives NaN, and an infinite maximum of e5m2 its
    largest number (`Tile.to`). Or it is a function of two scalars
    that gives a third, whichever pairs it is given: associative and commutative, as far as
    rounding lets it be. Integers of less than 32 bits are combined in i32, 16-bit floats in f32 and
    rounded once, 8-bit floats in f32, which is the type of their sums. Elements are combined in an
    order that the schedule fixes, so that equal calls give equal bits. Elements outside of the
    tensor are 0.
    """
    if callable(combine):
        return _fold(combine, tile, mode)
    if combine not in REDUCTIONS:
        raise error(
            f"expected combine to be one of {', '.join(REDUCTIONS)}, got {combine!r}", code="CD-P4"
        )
    if mode not in (0, 1):
        raise error(f"expected mode 0 (columns) or 1 (rows), got {mode!r}", code="CD-P4")
    return _reduce(combine, tile, mode)


def _fold(combine: Callable[[Scalar, Scalar], Scalar], tile: object, mode: int) -> Tile:
    if mode not in (0, 1):
        raise error(f"expected mode 0 (columns) or 1 (rows), got {mode!r}", code="CD-P4")
    source = tile.load() if isinstance(tile, View) else tile
    if not isinstance(source, Tile) or len(source.shape) != 2:
        raise error("expected a tile of rank 2 to reduce", code="CD-P2")
    if source.dtype.kind == "f" and source.dtype.bits == 8:
        source = source.to(f32)
    if source.dtype.kind != "f" and source.dtype.bits < 32:
        source = source.to(i32)
    trace = current()
    value = source.use()
    element = combined_type(source.dtype.ir)
    block = Block(arg_types=[element, element])
    with trace.region(block, "the function of cute.reduce") as scope:
        found = combine(*(Scalar(arg, scope) for arg in block.args))
        if not isinstance(found, Scalar) or found.use().type != element:
            raise error(
                "expected the function of cute.reduce to give a scalar of the type of its "
                f"arguments, got {found!r}",
                code="CD-P1",
            )
        trace.insert(YieldOp(found.use()))
    return Tile(trace.insert(ReduceOp(FOLD, value, mode, body=block)).results[0])


def row_sum(tile: object, *, local: bool = False, packed: int | None = None) -> Tile:
    """Sum of each row: (M,N) gives (M,1), which broadcasts along the columns.

    Integers of less than 32 bits and conditions are summed in i32; 16-bit floats in f32, and
    rounded once. With `local` a thread may get the sum of a part of the row, as long as its own
    elements are in it: enough to see whether there is a NaN among them (`cute.any`).

    With `packed` the sum of a tile of f16 or bf16 is one of f32, and up to so many elements of a
    thread may be added in their own type before they are added in f32: a target that adds two
    pairs at once takes fewer instructions. `packed=1` rounds no sum of two elements.
    """
    return _reduce("add", tile, 1, local, packed)


def row_max(tile: object) -> Tile:
    """Maximum of each row: (M,N) gives (M,1); a NaN in the row gives NaN."""
    return _reduce("max", tile, 1)


def column_sum(tile: object) -> Tile:
    """Sum of each column: (M,N) gives (1,N)."""
    return _reduce("add", tile, 0)


def column_max(tile: object) -> Tile:
    """Maximum of each column: (M,N) gives (1,N)."""
    return _reduce("max", tile, 0)


def any_(condition: Tile, *, local: bool = False) -> Scalar:
    """Whether a condition holds for any element of a tile: a condition of the whole CTA.

    With `local` it is one of any rows that hold such an element: threads may decide for the rows
    that they have without asking the others, so that what stands under it must concern a row only
    if the condition holds in it, and do no harm to the rows beside it. Warps decide one by one, by
    a vote, where rows do not go across them and only values in registers change under it; else
    warpgroups do where they can, else all warps meet at a barrier.
    """
    if not isinstance(condition, Tile) or condition.dtype.bits != 1:
        raise error("expected a tile of conditions", code="CD-P3")
    return Scalar(current().insert(AnyOp(condition.use(), local)).results[0])
