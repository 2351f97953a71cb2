"""`cute.scaled_gemm`: products of tiles whose blocks share scales, and `cute.scale_words`, the
words in which kernels read panels of scales.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from cutedialect.backend.runtime.tracebacks import explained

from .block_formats import FORMATS, PANEL, PANEL_WORDS, BlockFormat
from .dtypes import as_dtype, i32, i64, u8, ue4m3, ue8m0

if TYPE_CHECKING:
    from .tile import Tile, View

# The modes of one panel, and what an array of panels has at least.
_PANEL, _LEAST = (32, 4, 4), 5
SIX_BITS = 6
_IN_PANELS = [name for name, each in FORMATS.items() if each.scale in (ue8m0, ue4m3)]
# Words of a panel by their type.
_WORDS = {i32: PANEL[0], i64: PANEL_WORDS}


def scale_words(scales: Any, dtype: object = "i32") -> Any:
    """Panels of scales (..., rows / 128, blocks / 4, 32, 4, 4), as `cute.quantize(...,
    swizzled=True)` gives them, as words that a kernel takes: (..., rows / 128, words), 128 of i32
    or 64 of i64 for each panel of blocks. A view of the same memory.

    Raises TypeError or ValueError for another array, or other words.

    >>> import numpy as np
    >>> scale_words(np.zeros((2, 3, 32, 4, 4), np.uint8)).shape
    (2, 384)
    """
    from .quantize_operands import as_words_of
    from .rules import as_operand, shown

    operand, kind = as_operand(scales, "scales"), as_dtype(dtype)
    shape = operand.shape
    with explained():
        if operand.dtype.bits != u8.bits:
            raise TypeError(f"scales: expected a type of 8 bits, got {operand.dtype.name}")
        if len(shape) < _LEAST or tuple(shape[-3:]) != _PANEL:
            raise ValueError(
                "scales: expected panels (..., rows / 128, blocks / 4, 32, 4, 4), as cute.quantize("
                f"x, format, swizzled=True) gives them, got shape {shown(shape)}"
            )
        if kind not in _WORDS:
            raise TypeError(f"dtype: expected i32 or i64, got {kind.name}")
    *leading, columns = shape[:-3]
    words = None if columns is None else columns * _WORDS[kind]
    return as_words_of(scales, kind, (*leading, words))


def scaled_gemm(
    a: Tile | View, b: Tile | View, acc: Tile, scale_a: View, scale_b: View, format: str
) -> None:
    """acc (M,N) += a (M,K) @ b (K,N), each block along K of a row of a and of a column of b times
    its scale: products of mxfp8, mxfp6, mxfp4 and nvfp4, on sm_100a, sm_120a and their families.

    a and b are tiles in memory, of the elements that `cute.quantize` gives in a format (mxfp8 and
    mxfp6 may differ between both), or of bytes with two elements of 4 bits, (M, K / 2) and (K / 2,
    N), or with four of 6 bits in three, (M, 3 K / 4) and (3 K / 4, N), as `cute.pack` has them,
    which sm_100a and its family take. M and N are multiples of 128, and K of the elements that a
    panel of scales has. `scale_a` and `scale_b` are tiles (M / 128, words) and (N / 128, words) of
    `cute.scale_words`: of i32 on both targets, on sm_100a up to 256 of them, or of i64 there.

    Raises a located error for other tiles, formats or targets.
    """
    from .functions import tile_gemm
    from .trace import error

    if format not in _IN_PANELS:
        raise error(
            f"format: expected {', '.join(_IN_PANELS)}, got {format!r}; multiply acc by scales of "
            "f32 behind cute.gemm(a, b, acc)",
            code="CD-P4",
        )
    kind = FORMATS[format]
    _check_elements(kind, a, b)
    is_held = kind.is_packable and a.dtype == b.dtype == u8
    held = f"{kind.element.name} {kind.element.name}" if is_held else None
    depth = a.shape[1] * 8 // SIX_BITS if is_held else a.shape[1] * kind.packed
    for name, scale, rows in (
        ("scale_a", scale_a, acc.shape[0]),
        ("scale_b", scale_b, acc.shape[1]),
    ):
        _check_scale(kind, name, scale, rows, depth)
    scaling = f"{kind.scale.name}x{kind.columns}"
    tile_gemm(a, b, acc, factors=(scale_a, scale_b), scaling=scaling, held=held)


def _check_elements(kind: BlockFormat, a: Tile | View, b: Tile | View) -> None:
    """Refuse operands that have not the elements of a format."""
    from .gemm_operands import BYTE_FLOATS
    from .tile import View
    from .trace import error

    kinds = (u8,) if kind.packed > 1 else BYTE_FLOATS
    if kind.is_packable and a.dtype == b.dtype == u8:
        return
    for name, tile in (("a", a), ("b", b)):
        if not isinstance(tile, View):
            raise error(
                f"{name}: expected a tile in memory, got {type(tile).__name__}; store it to a "
                "tensor first",
                code="CD-P3",
            )
        if tile.dtype not in kinds:
            held = "pairs of e2m1 in u8" if kind.packed > 1 else " or ".join(x.name for x in kinds)
            raise error(
                f"{name}: expected {held} in {kind.name}, got {tile.dtype.name}", code="CD-P3"
            )


def _check_scale(kind: BlockFormat, name: str, scale: View, rows: int, depth: int) -> None:
    """Refuse what is no tile of words of so many rows and elements along K."""
    from .tile import View
    from .trace import error

    height, columns = PANEL
    if rows % height or depth % (columns * kind.columns):
        raise error(
            f"{name}: expected a tile of multiples of {height} rows and {columns * kind.columns} "
            f"elements along K, whose scales are a panel, got {(rows, depth)}",
            code="CD-P2",
        )
    shapes = {
        each: (rows // height, depth // (columns * kind.columns) * words)
        for each, words in _WORDS.items()
    }
    if not isinstance(scale, View) or shapes.get(scale.dtype) != scale.shape:
        wanted = " or ".join(f"{each.name} of shape {shape}" for each, shape in shapes.items())
        got = f"{scale.dtype.name} of shape {scale.shape}" if isinstance(scale, View) else scale
        raise error(
            f"{name}: expected a tile of cute.scale_words, {wanted}, got {got}", code="CD-P2"
        )
