"""Means, variances and sums of exponentials of register tiles along modes."""

from __future__ import annotations

import math

from .dtypes import f32
from .elementwise import exp, isfinite, log
from .functions import where
from .modes import of_lines
from .reductions import Modes, along, matrix_of, modes_of, shaped
from .tile import Tile
from .trace import error


def _floats_of(tile: object, what: str) -> Tile:
    source = matrix_of(tile)
    if source.dtype.kind != "f":
        raise error(
            f"expected a tile of floats for {what}, got {source.dtype.name}; convert it with "
            ".to(cute.f32)",
            code="CD-P3",
        )
    return source


def _count(source: Tile, modes: tuple[int, ...]) -> int:
    return math.prod(source.shape[number] for number in modes)


@of_lines
def mean(tile: object, mode: Modes = None, *, keepdims: bool = True) -> Tile:
    """Mean of floats along a mode, with the shapes of `cute.sum`, in f32 of 16-bit floats: their
    sum over the tile's extent, elements outside of the tensor being zeros that count.
    """
    source, modes = _floats_of(tile, "a mean"), modes_of(mode)
    wide = source if source.dtype.bits > 16 else source.to(f32)
    return along("add", wide, modes, keepdims) * (1.0 / _count(source, modes))


@of_lines
def var(tile: object, mode: Modes = None, *, correction: float = 0, keepdims: bool = True) -> Tile:
    """Variance of floats along a mode, with the shapes of `cute.sum`, in f32 of 16-bit floats: the
    sum of the squares of what is left beside the mean, over the tile's extent less `correction`.
    """
    source, modes = _floats_of(tile, "a variance"), modes_of(mode)
    count = _count(source, modes)
    if isinstance(correction, bool) or not 0 <= correction < count:
        raise error(
            f"expected a correction from 0 to below {count}, got {correction!r}", code="CD-P4"
        )
    rest = source - mean(source, modes)
    return along("add", rest * rest, modes, keepdims) * (1.0 / (count - correction))


@of_lines
def logsumexp(tile: object, mode: Modes = None, *, keepdims: bool = True) -> Tile:
    """Logarithm of the sum of exponentials along a mode, with the shapes of `cute.sum`, in f32 of
    16-bit floats; by `cute.exp` and `cute.log` of differences from the maximum. -inf where all are.
    """
    source, modes = _floats_of(tile, "a sum of exponentials"), modes_of(mode)
    wide = source if source.dtype.bits > 16 else source.to(f32)
    top = along("max", wide, modes, True)
    base = where(isfinite(top), top, 0.0)
    total = along("add", exp(wide - base), modes, True)
    return shaped(log(total) + base, modes, keepdims)


@of_lines
def softmax(tile: object, mode: int = 1) -> Tile:
    """Exponentials over their sum along a mode, in f32 of 16-bit floats, by `cute.exp`; NaN where
    all are -inf.
    """
    source, modes = _floats_of(tile, "a softmax"), modes_of(mode)
    wide = source if source.dtype.bits > 16 else source.to(f32)
    shares = exp(wide - along("max", wide, modes, True))
    return shares / along("add", shares, modes, True)
