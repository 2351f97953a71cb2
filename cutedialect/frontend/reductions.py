"""Reductions of register tiles along their modes, and of a condition to one of the whole CTA."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, overload

from xdsl.ir import Block

from cutedialect.dialects.cute import AnyOp, ReduceOp, YieldOp
from cutedialect.dialects.cute.reductions import FOLD, REDUCTIONS, combined_type

from .dtypes import bf16, f16, f32, i32
from .modes import of_lines, reshaped
from .scalar import Scalar
from .tile import Tile, View
from .trace import current, error


def _reduce(
    kind: str, tile: object, mode: int, local: bool = False, packed: int | None = None
) -> Tile:
    source = matrix_of(tile)
    dtype = source.dtype
    if packed is not None:
        if dtype not in (f16, bf16):
            raise error(
                f"expected a tile of f16 or bf16 with packed, got {dtype.name}", code="CD-P2"
            )
        if packed < 1:
            raise error(f"expected packed to be 1 or more, got {packed!r}", code="CD-P4")
    op = ReduceOp(kind, widened(source).use(), mode, local=local, packed=packed)
    whole = Tile(current().insert(op).results[0])
    return whole if kind in ("add", "mul") else whole.to(dtype)


@overload
def reduce(
    tile: Tile | View, mode: int, combine: str | Callable[[Scalar, Scalar], Scalar]
) -> Tile: ...


@overload
def reduce(
    tile: Sequence[Tile | View], mode: int, combine: Callable[..., Sequence[Scalar]]
) -> tuple[Tile, ...]: ...


@of_lines
def reduce(tile: Any, mode: int, combine: Any) -> Any:
    """Combine the elements of a tile along a mode: (M,N) gives (M,1) along mode 1 (rows), (1,N)
    along mode 0 (columns).

    `combine` is "add", "mul", "max" or "min"; a NaN gives NaN, and an infinite maximum of e5m2 its
    largest number (`Tile.to`). Or it is a function of two scalars
    that gives a third, whichever pairs it is given: associative and commutative, as far as
    rounding lets it be. Integers of less than 32 bits are combined in i32, 16-bit floats in f32 and
    rounded once, 8-bit floats in f32, which is the type of their sums. Elements are combined in an
    order that the schedule fixes, so that equal calls give equal bits. Elements outside of the
    tensor are 0.

    Of a tuple of tiles the function is given an element of each, then another of each, and gives as
    many: counts, means and sums of squares (Welford), or a maximum and what lies beside it. It need
    not commute: this is the last element of `cute.scan`, which costs more than other reductions.
    """
    if isinstance(tile, tuple | list):
        from .scans import scan

        made = scan(tile, mode, combine)
        return tuple(each[:, -1:] if mode % 2 else each[-1:, :] for each in made)
    if callable(combine):
        function: Any = combine
        return _fold(function, tile, mode)
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
    source = widened(matrix_of(tile))
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


Modes = int | Sequence[int] | None
"""A mode of a tile, 0 or 1 or from the end, some, or None for all."""


def modes_of(mode: Modes) -> tuple[int, ...]:
    """The modes to reduce, as numbers 0 and 1."""
    if mode is None:
        return (0, 1)
    numbers = tuple(mode) if isinstance(mode, Sequence) else (mode,)
    is_known = all(type(number) is int and -2 <= number < 2 for number in numbers)
    found = tuple(number % 2 for number in numbers) if is_known else ()
    if not found or len(set(found)) != len(found):
        raise error(
            f"expected mode 0 (columns), 1 (rows), (0, 1) or None for both, got {mode!r}",
            code="CD-P4",
        )
    return found


def mode_of(mode: object) -> int:
    """One mode, as the number 0 or 1."""
    if type(mode) is not int or not -2 <= mode < 2:
        raise error(f"expected mode 0 (columns) or 1 (rows), got {mode!r}", code="CD-P4")
    return mode % 2


def matrix_of(tile: object) -> Tile:
    """A tile of two modes, or that of a view."""
    source = tile.load() if isinstance(tile, View) else tile
    if not isinstance(source, Tile):
        raise error(f"expected a tile, got {type(source).__name__}", code="CD-P2")
    if len(source.shape) != 2:
        instead = "v[:, None] or v[None, :]" if len(source.shape) == 1 else "cute.reshape"
        raise error(
            f"expected a tile of two modes, got one of shape {source.shape}; write {instead}",
            code="CD-P2",
        )
    return source


def widened(tile: Tile) -> Tile:
    """A tile in the type in which its elements are combined, or in one that is rounded once."""
    dtype = tile.dtype
    if dtype.kind == "f":
        return tile.to(f32) if dtype.bits == 8 else tile
    return tile.to(i32) if dtype.bits < 32 else tile


def shaped(result: Tile, modes: tuple[int, ...], keepdims: bool) -> Tile:
    """A result whose reduced modes have an extent of 1, or as the vector that is left of it."""
    if keepdims or len(modes) == 2:
        return result
    return reshaped(result, (result.shape[1 - modes[0]],))


def along(kind: str, tile: object, mode: Modes, keepdims: bool) -> Tile:
    """A reduction of a kind of `cute.reduce` along modes."""
    source, modes = matrix_of(tile), modes_of(mode)
    dtype = source.dtype
    if len(modes) == 2 and dtype.kind == "f" and dtype.bits == 16:
        source = source.to(f32)  # rounded once
    for number in modes:
        source = _reduce(kind, source, number)
    is_narrow = dtype.kind == "f" and dtype.bits == 16
    return shaped(source.to(dtype) if is_narrow else source, modes, keepdims)


@of_lines
def sum_(tile: object, mode: Modes = None, *, keepdims: bool = True) -> Tile:
    """Sum along a mode: (M,N) gives (M,1) along mode 1, (1,N) along mode 0, and (1,1) of all
    elements where no mode is given. Without `keepdims` a vector is left: (N,) along mode 0. A tile
    of one mode gives (1,).

    Integers of less than 32 bits and conditions are summed in i32; 16-bit floats in f32, and
    rounded once. Elements outside of the tensor are 0.
    """
    return along("add", tile, mode, keepdims)


@of_lines
def prod(tile: object, mode: Modes = None, *, keepdims: bool = True) -> Tile:
    """Product along a mode, with the types and shapes of `cute.sum`. Elements outside of the tensor
    are 0: give them 1 first, with `cute.where` on `cute.coord`.
    """
    return along("mul", tile, mode, keepdims)


@of_lines
def max_(tile: object, mode: Modes = None, *, keepdims: bool = True) -> Tile:
    """Maximum along a mode, with the shapes of `cute.sum`; a NaN gives NaN."""
    return along("max", tile, mode, keepdims)


@of_lines
def min_(tile: object, mode: Modes = None, *, keepdims: bool = True) -> Tile:
    """Minimum along a mode, with the shapes of `cute.sum`; a NaN gives NaN."""
    return along("min", tile, mode, keepdims)


def _conditions(tile: object) -> Tile:
    if not isinstance(tile, Tile) or tile.dtype.bits != 1:
        got = tile.dtype.name if isinstance(tile, Tile) else type(tile).__name__
        raise error(
            f"expected a tile of conditions, got {got}; compare it, such as x != 0", code="CD-P3"
        )
    return tile


@overload
def any_(condition: Tile, mode: None = None, *, local: bool = False) -> Scalar: ...


@overload
def any_(condition: Tile, mode: int | Sequence[int], *, keepdims: bool = True) -> Tile: ...


@of_lines
def any_(
    condition: Tile, mode: Modes = None, *, local: bool = False, keepdims: bool = True
) -> Scalar | Tile:
    """Whether a condition holds for any element of a tile: a condition of the whole CTA; or, along
    a mode, a tile of conditions with the shapes of `cute.sum`.

    With `local` it is one of any rows that hold such an element: threads may decide for the rows
    that they have without asking the others, so that what stands under it must concern a row only
    if the condition holds in it, and do no harm to the rows beside it. Warps decide one by one, by
    a vote, where rows do not go across them and only values in registers change under it; else
    warpgroups do where they can, else all warps meet at a barrier.
    """
    source = _conditions(condition)
    if mode is None:
        return Scalar(current().insert(AnyOp(source.use(), local)).results[0])
    if local:
        raise error("expected no mode beside local, got both", code="CD-P4")
    return along("max", source.to(i32), mode, keepdims) != 0


@overload
def all_(condition: Tile, mode: None = None) -> Scalar: ...


@overload
def all_(condition: Tile, mode: int | Sequence[int], *, keepdims: bool = True) -> Tile: ...


@of_lines
def all_(condition: Tile, mode: Modes = None, *, keepdims: bool = True) -> Scalar | Tile:
    """Whether a condition holds for all elements of a tile: a condition of the whole CTA; or, along
    a mode, a tile of conditions with the shapes of `cute.sum`. Elements outside of the tensor are
    those of a tile of zeros.
    """
    source = _conditions(condition)
    if mode is None:
        return ~any_(~source)
    return along("min", source.to(i32), mode, keepdims) != 0
