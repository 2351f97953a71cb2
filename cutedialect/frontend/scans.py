"""Scans of register tiles along a mode: sums, products and extremes of all elements up to each one,
and what a function makes of them, of one tile or of several together.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, overload

from xdsl.ir import Block, SSAValue

from cutedialect.dialects.cute import ScanOp, YieldOp
from cutedialect.dialects.cute.reductions import combined_type

from .arithmetic import Number, binary_value, is_number
from .dtypes import DType, f32
from .modes import of_lines
from .reductions import matrix_of, mode_of, widened
from .scalar import Scalar
from .tile import Tile, View, as_value, broadcast_shape, elementwise
from .trace import current, error

# By kind: what an empty line gives, for floats and for integers as a function of their bits.
_EMPTY: dict[str, Callable[[DType], float]] = {
    "add": lambda dtype: 0,
    "mul": lambda dtype: 1,
    "max": lambda dtype: least_of(dtype),
    "min": lambda dtype: greatest_of(dtype),
}
# As the operators of tiles name them.
_OPERATORS = {"add": "add", "mul": "mul", "max": "maximum", "min": "minimum"}


def least_of(dtype: DType) -> float:
    """The least number of a type."""
    if dtype.kind == "f":
        return -math.inf
    return 0 if dtype.kind == "u" else -(1 << dtype.bits - 1)


def greatest_of(dtype: DType) -> float:
    """The greatest number of a type."""
    if dtype.kind == "f":
        return math.inf
    return (1 << dtype.bits - (dtype.kind != "u")) - 1


@overload
def scan(
    tile: Tile | View,
    mode: int,
    combine: str | Callable[[Scalar, Scalar], Scalar],
    *,
    reverse: bool = False,
    exclusive: bool = False,
    initial: Number | Scalar | None = None,
) -> Tile: ...


@overload
def scan(
    tile: Sequence[Tile | View],
    mode: int,
    combine: Callable[..., Sequence[Scalar]],
    *,
    reverse: bool = False,
    exclusive: bool = False,
    initial: Sequence[Number | Scalar] | None = None,
) -> tuple[Tile, ...]: ...


@of_lines
def scan(
    tile: Any,
    mode: int,
    combine: Any,
    *,
    reverse: bool = False,
    exclusive: bool = False,
    initial: Any = None,
) -> Any:
    """Combine each element along a mode with all in front of it: (M,N) gives (M,N), along the
    columns of each row with mode 1, along the rows with mode 0.

    `combine` is "add", "mul", "max" or "min" (a NaN gives NaN), or a function of two scalars, the
    earlier one first, that gives a third and is associative: it is called in an order that the
    schedule fixes, so that equal calls give equal bits. Of a tuple of tiles it is given an element
    of each tile, then another of each, and gives as many; tiles with an extent of 1 are repeated to
    the shape of the others. A segmented sum is one of values and flags:
    `lambda x, f, y, g: (cute.where(g != 0, y, x + y), f | g)`.

    With `reverse` lines are walked from their ends. With `exclusive` element i is what those in
    front of it give, and the first one `initial`: of a kind what changes nothing, where it is left
    out; of a function it has to be given. Integers of less than 32 bits and conditions are combined
    in i32, 16-bit floats in f32 and rounded once, 8-bit floats in f32. Elements outside of the
    tensor are 0, and behind those inside.
    """
    is_one = isinstance(tile, Tile | View)
    given = [tile] if is_one else list(tile) if isinstance(tile, Sequence) else []
    if not given:
        raise error(f"expected a tile or a tuple of tiles to scan, got {tile!r}", code="CD-P1")
    mode = mode_of(mode)
    if isinstance(combine, str) and combine not in _EMPTY:
        raise error(
            f"expected combine to be one of {', '.join(_EMPTY)}, got {combine!r}", code="CD-P4"
        )
    tiles = _alike([widened(matrix_of(each)) for each in given])
    if isinstance(combine, str):
        if not is_one:
            raise error(
                f"expected a function to combine the elements of {len(tiles)} tiles, got "
                f"{combine!r}",
                code="CD-P1",
            )
        initial = _EMPTY[combine](tiles[0].dtype) if initial is None else initial
    first = _initial(tiles, initial, is_one) if exclusive else []
    made = _scanned(tiles, mode, combine, first, reverse, is_one)
    return made[0] if is_one else made


@of_lines
def cumsum(tile: object, mode: int = 1, *, reverse: bool = False, exclusive: bool = False) -> Tile:
    """Sums of all elements up to each one, itself among them: (M,N) gives (M,N), along the columns
    of each row with mode 1. With `reverse` of all from it on; with `exclusive` without itself.

    Integers of less than 32 bits and conditions are summed in i32; 16-bit floats in f32, each
    rounded once. A total is the last one, or `cute.sum`; a loop that carries it adds it to the next
    tile's.
    """
    return scan(matrix_of(tile), mode, "add", reverse=reverse, exclusive=exclusive)


@of_lines
def cumprod(tile: object, mode: int = 1, *, reverse: bool = False, exclusive: bool = False) -> Tile:
    """Products of all elements up to each one, with the types and shapes of `cute.cumsum`."""
    return scan(matrix_of(tile), mode, "mul", reverse=reverse, exclusive=exclusive)


@of_lines
def cummax(tile: object, mode: int = 1, *, reverse: bool = False, exclusive: bool = False) -> Tile:
    """The maximum of all elements up to each one, with the shapes of `cute.cumsum`; a NaN gives NaN
    from there on.
    """
    return scan(matrix_of(tile), mode, "max", reverse=reverse, exclusive=exclusive)


@of_lines
def cummin(tile: object, mode: int = 1, *, reverse: bool = False, exclusive: bool = False) -> Tile:
    """The minimum of all elements up to each one, with the shapes of `cute.cumsum`; a NaN gives NaN
    from there on.
    """
    return scan(matrix_of(tile), mode, "min", reverse=reverse, exclusive=exclusive)


def _alike(tiles: Sequence[Tile]) -> list[Tile]:
    """Tiles repeated to one shape."""
    shape = broadcast_shape(*(tile.shape for tile in tiles))
    return [
        tile
        if tile.shape == shape
        else elementwise(lambda value: value, (tile,), shape, tile.dtype)
        for tile in tiles
    ]


def _initial(tiles: Sequence[Tile], initial: Any, is_one: bool) -> list[SSAValue]:
    """What the first elements of an exclusive scan are, in the types of the body."""
    values = [initial] if is_one else initial
    if initial is None or not isinstance(values, Sequence) or len(values) != len(tiles):
        raise error(
            f"expected as many initial values as tiles, {len(tiles)}, of an exclusive scan by a "
            f"function (initial=), got {initial!r}",
            code="CD-P1",
        )
    for value in values:
        if not isinstance(value, Scalar) and not is_number(value):
            raise error(
                f"expected numbers or scalars as initial values, got {value!r}", code="CD-P1"
            )
    return [as_value(value, _held(tile)) for value, tile in zip(values, tiles, strict=True)]


def _held(tile: Tile) -> DType:
    """The type in which the elements of a tile are combined."""
    return f32 if tile.dtype.kind == "f" and tile.dtype.bits == 16 else tile.dtype


def _scanned(
    tiles: Sequence[Tile],
    mode: int,
    combine: Any,
    initial: Sequence[SSAValue],
    reverse: bool,
    is_one: bool,
) -> tuple[Tile, ...]:
    trace = current()
    values = [tile.use() for tile in tiles]
    elements = [combined_type(tile.dtype.ir) for tile in tiles]
    block = Block(arg_types=elements * 2)
    with trace.region(block, "the function of cute.scan") as scope:
        if isinstance(combine, str):
            results = [binary_value(_OPERATORS[combine], *block.args)]
        else:
            made = combine(*(Scalar(arg, scope) for arg in block.args))
            found = [made] if is_one else list(made) if isinstance(made, Sequence) else []
            is_known = len(found) == len(tiles) and all(isinstance(s, Scalar) for s in found)
            if not is_known or [s.use().type for s in found] != elements:
                raise error(
                    f"expected the function of cute.scan to give {len(tiles)} scalar"
                    f"{'s' * (len(tiles) > 1)} of the types of its arguments, got {made!r}",
                    code="CD-P1",
                )
            results = [s.use() for s in found]
        trace.insert(YieldOp(*results))
    op = trace.insert(ScanOp(values, mode, block, initial, reverse))
    return tuple(Tile(value) for value in op.results)
