"""`cute.quantize` on arrays, which runs the program of `library/quantize.py`, and `cute.quantized`
on tiles of a kernel.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from .block_formats import FORMATS, PANEL, PANEL_ROWS, BlockFormat
from .doors import Door
from .dtypes import DType, as_dtype, f32
from .gemm_scales import number_of
from .launch import as_schedule, check_arch, compile_call, default_arch
from .library.quantize import quantize as program
from .quantize_operands import (
    QUANTIZE,
    as_panels,
    as_words,
    check_global_scale,
    chosen_format,
    chosen_rounding,
    has_words,
    in_rows,
    is_compact,
    single,
    split_columns,
    swapped,
)
from .ready_call import Ready
from .rules import Checked, Extents, Operand, is_traced, new_spec

if TYPE_CHECKING:
    from .tile import Tile, View

_X, _GLOBAL, _OUT, _SCALES = range(4)
# Elements of the blocks below each other that are computed at once, and columns of a block beside
# which there are none.
_ELEMENTS, _WIDE = 2048, 128
# Elements of blocks that lie one behind the other that are computed at once, and where threads have
# whole blocks.
_FLAT_ELEMENTS, _OWNED_ELEMENTS = 4096, 8192
# Bytes of a sector of memory. A thread has a block of a row that is one, and no lanes exchange what
# they find of it; those of two sectors took 1.3 times as long so (an H200).
_SECTOR = 32


@dataclass
class ReadyQuantize(Ready):
    """Such a call after its checks. `views` says how arrays become the program's."""

    ARRAYS = ("x", "global_scale", "out", "scales")
    OUT = _OUT
    WRITTEN = (_OUT, _SCALES)

    format: str
    shapes: tuple[Extents, Extents]
    is_swizzled: bool
    element: DType
    reads_words: bool
    is_flat: bool = False

    @cached_property
    def results(self) -> dict[int, tuple[Extents, DType]]:
        kind = FORMATS[self.format]
        elements, scales = self.shapes
        return {_OUT: (elements, as_dtype(kind.stored)), _SCALES: (scales, kind.scale)}

    def numbers(self, *given: float) -> tuple[Any, ...]:
        return tuple(f32.numpy.type(each) for each in given)

    def places(self, arrays: Sequence[Any]) -> list[int]:
        return [_X, _OUT, _SCALES, _GLOBAL]

    def arguments(self, arrays: Sequence[Any], numbers: tuple[float, ...]) -> list[Any]:
        kind = FORMATS[self.format]
        x, factor, out, scales = arrays
        if self.is_flat:
            if kind.packed > 1:
                x = as_words(x, self.element)
            width = kind.columns // kind.packed
            x, out, scales = in_rows(x, width), in_rows(out, width), in_rows(scales)
        elif kind.packed > 1 and self.reads_words:
            x = as_words(x, self.element)
        elif kind.packed > 1:
            x = split_columns(x, kind.packed)
            for mode in (1, 0):
                x = swapped(x, mode)
        if self.is_swizzled:
            scales = as_panels(scales)
        if factor is not None:
            factor = single(factor)
        elif numbers:
            (factor,) = self.numbers(*numbers)
        return [x, out, scales, factor]


class QuantizeCall(Checked):
    """The checked arguments of a call."""

    call = QUANTIZE
    x: Operand
    global_scale: Operand | None
    kind: BlockFormat
    rounding: str
    shapes: tuple[Extents, Extents]

    @property
    def out_shape(self) -> Extents:
        return self.shapes[0]

    def prepare(self) -> ReadyQuantize:
        """Compile (or find) the kernel; an empty x has none."""
        given, kind = self.given, self.kind
        target = given.arch or default_arch(given.backend)
        check_arch(target)
        ready = ReadyQuantize(
            None,
            self.shapes[0],
            as_dtype(kind.stored),
            kind.name,
            self.shapes,
            given.swizzled,
            self.x.dtype,
            has_words(self.x),
        )
        if 0 in self.x.shape:
            return ready
        specs = {place: new_spec(*of) for place, of in ready.results.items()}
        out, scales = (
            specs[place] if value is None else value
            for place, value in ((_OUT, given.out), (_SCALES, given.scales))
        )
        number = number_of(given.global_scale)
        factor = None if number is not None else given.global_scale
        numbers = () if number is None else (number,)
        is_flat = self.is_flat()
        ready = replace(ready, is_flat=is_flat)
        args = ready.arguments((self.x.value, factor, out, scales), numbers)
        is_owned = is_flat and self.is_owned()
        elements = _OWNED_ELEMENTS if is_owned else _FLAT_ELEMENTS
        rows, blocks = (elements // kind.columns, 1) if is_flat else self.tile()
        options = {
            "arch": target, "schedule": as_schedule(given.schedule), "backend": given.backend,
            "format": kind.name, "rounding": self.rounding, "element": self.x.dtype,
            "rows": rows, "blocks": blocks, "owned": is_owned,
        }  # fmt: skip
        return replace(ready, kernel=compile_call(program, args, options))

    def is_flat(self) -> bool:
        """Whether blocks, rows of all arrays, lie one behind the other: threads then load, and
        store, whole lines of them, and find their place without dividing.
        """
        given, kind = self.given, self.kind
        if given.swizzled or kind.block[0] > 1 or kind.columns >= _WIDE:
            return False
        if kind.packed > 1 and not has_words(self.x):
            return False
        arrays = (self.x.value, given.out, given.scales)
        return all(is_compact(each) for each in arrays if each is not None)

    def is_owned(self) -> bool:
        """Whether a thread has whole blocks, of which vectors of 16 bytes follow each other."""
        return self.kind.packed > 1 and self.kind.columns * self.x.dtype.bits == 8 * _SECTOR

    def tile(self) -> tuple[int, int]:
        """Rows and blocks of a tile: those of a word of scales, or of a square."""
        if self.kind.block[0] > 1:
            return self.kind.block[0], 1
        width = self.kind.columns
        if self.given.swizzled:
            return PANEL_ROWS[1], PANEL[1]
        return max(PANEL_ROWS[1], _ELEMENTS // width), PANEL[1] if width < _WIDE else 1


def quantized(
    tile: Tile | View,
    format: str,
    *,
    global_scale: Any = None,
    rounding: str | None = None,
) -> tuple[Tile, Tile]:
    """Inside a kernel: the elements of a tile (M, N) in a format of `cute.quantize`, and scales.

    Returns elements (M, N) of the format's type, one in a byte, and scales (M, N / block), or
    (M / 128, N / 128) of "fp8_square"; N (and M there) are whole blocks. `global_scale` is a number
    or a scalar of f32. As in `cute.quantize`, all targets give the same bits.
    """
    from .library.quantize import scaled_blocks
    from .places import split, tile_of
    from .trace import error

    source = tile_of(tile)
    try:
        kind = chosen_format(format)
        how = chosen_rounding(kind, rounding)
        check_global_scale(kind, global_scale)
    except ValueError as why:
        raise error(str(why), code="CD-P4") from None
    if len(source.shape) != 2 or any(n % b for n, b in zip(source.shape, kind.block, strict=True)):
        raise error(
            f"expected a tile of whole blocks {kind.block} for {kind.name}, got {source.shape}",
            code="CD-P2",
        )
    (height, width), (m, n) = kind.block, source.shape
    made = [
        scaled_blocks((part.to(f32),), kind, how, global_scale)
        for band in split(source, m // height if height > 1 else 1, 0)
        for part in split(band, n // width, 1)
    ]
    return _joined([elements for (elements,), _ in made], n // width), _joined(
        [scales for _, scales in made], n // width
    )


def _joined(tiles: Sequence[Tile], columns: int) -> Tile:
    """Tiles that lie so many beside each other as one."""
    from .places import concatenate

    rows = [tiles[at : at + columns] for at in range(0, len(tiles), columns)]
    bands = [row[0] if columns == 1 else concatenate(row, 1) for row in rows]
    return bands[0] if len(bands) == 1 else concatenate(bands, 0)


def refuse_tile(x: Any) -> None:
    """Refuse a tile of a kernel, for which there is a function of its own."""
    if is_traced(x):
        from .trace import error

        raise error(
            f"expected x to be an array, got a {type(x).__name__} of the kernel that is traced; "
            "inside a kernel take cute.quantized(tile, format)",
            code="CD-P11",
        )


door: Door[QuantizeCall, ReadyQuantize] = Door(QUANTIZE, QuantizeCall)

if TYPE_CHECKING:
    from .typed_calls import quantize
else:
    quantize = door.function(__name__, {"number_of": number_of, "refuse_tile": refuse_tile})
