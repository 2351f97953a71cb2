"""Convolutions of images (N, H, W, C) as tile programs. The rows of a tile are pixels, and the tile
of a trip is gathered: its rows are the pixels that one tap of the filter finds there, which threads
compute from the tap, and a row of zeros where it finds none.

Each program takes images as matrices with a row for each pixel, and filters as matrices by taps.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cutedialect.frontend.dtypes import f32, i32
from cutedialect.frontend.kernel import KernelFunction, kernel

from .gemm import Activation, activated

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor, Tile

_NO_ROW = -1
# Pixels and channels of a tile of a depthwise convolution.
_PIXELS, _CHANNELS = 16, 128


@dataclass(frozen=True)
class Taps:
    """A filter's taps: along the height and the width there are `counts`; tap t of a pixel at place
    y is the pixel (steps y + spreads t + starts) / divisors of the other image, if there is such.
    """

    counts: tuple[int, int]
    steps: tuple[int, int]
    spreads: tuple[int, int]
    starts: tuple[int, int]
    divisors: tuple[int, int] = (1, 1)


def found_rows(
    number: Tile,
    tap: Scalar,
    taps: Taps,
    image: tuple[Any, Any],
    other: tuple[Any, Any],
    count: Any,
) -> Tile:
    """The row of each pixel that a tap finds: pixels (a column of numbers below `count`) are those
    of images of a height and width, what is found those of images of another one.
    """
    from cutedialect.frontend import functions as cute

    (height, width), (rows, columns) = image, other
    line, at_x = number // width, number % width
    picture, at_y = line // height, line % height
    there = number < count
    places: list[Tile] = []
    numbers = tap // taps.counts[1], tap % taps.counts[1]
    for mode, (at, extent) in enumerate(((at_y, rows), (at_x, columns))):
        place = at * taps.steps[mode] + (numbers[mode] * taps.spreads[mode] + taps.starts[mode])
        divisor = taps.divisors[mode]
        if divisor > 1:
            there = there & (place % divisor == 0)
        there = there & (place >= 0)
        if divisor > 1:
            place = place // divisor
        there = there & (place < extent)
        places.append(place)
    found = (picture * rows + places[0]) * columns + places[1]
    return cute.where(there, found, _NO_ROW)


def column_of_numbers(first: Any, count: int) -> Tile:
    """Numbers from `first` on, as a column."""
    from cutedialect.frontend import functions as cute

    return cute.coord(cute.full((count, 1), 0, i32), 0, first)


def store(
    acc: Tile,
    bias: Any,
    activation: str | Activation | None,
    D: Tensor,
    place: tuple[Scalar, Scalar],
) -> None:
    """Store what a bias (columns,) and an activation make of a tile of sums at its place in D."""
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile

    out: Tile = acc.to(f32)
    if bias is not None:
        out = out + cute.row_vector(bias, place[1], acc.shape[1]).to(f32)
    cute.copy(activated(activation, out).to(D.dtype), local_tile(D, acc.shape, place))


@lru_cache(maxsize=64)
def program_for(activation: str | Activation | None) -> KernelFunction:
    """The program with an activation: a name, a function of a tile, or none."""

    @kernel(in_bounds=True, spills="refuse")
    def conv2d(
        X: Tensor,
        W: Tensor,
        bias: Any,
        D: Tensor,
        height: Scalar,
        width: Scalar,
        rows: Scalar,
        columns: Scalar,
        *,
        taps: Taps,
        by_depth: bool = True,
        tile: tuple[int, int, int] = (128, 128, 64),
    ) -> None:
        """D (pixels, F) of images of `height` and `width` from X (pixels, C) of `rows` and
        `columns`; W is (taps, F, C), or (taps, C, F) where it is not `by_depth`.
        """
        # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
        from cutedialect.frontend import functions as cute
        from cutedialect.frontend.local_tiles import local_tile
        from cutedialect.frontend.loops import range_

        bm, bn, bk = tile
        m, n = cute.tile_index(D, (bm, bn))
        numbers = column_of_numbers(m * bm, bm)
        depth = (X.dim(1) + (bk - 1)) // bk
        acc = cute.zeros((bm, bn))
        for k in range_(W.dim(0) * depth):
            tap, part = k // depth, k % depth
            at = found_rows(numbers, tap, taps, (height, width), (rows, columns), D.dim(0))
            x = local_tile(X, (bm, bk), (at, part))
            if by_depth:
                w = local_tile(W, (bn, bk), (tap, n, part)).T
            else:
                w = local_tile(W, (bk, bn), (tap, part, n))
            cute.tile_gemm(x, w, acc)
        store(acc, bias, activation, D, (m, n))

    return conv2d


@kernel(in_bounds=True, spills="refuse")
def filter_gradients(
    X: Tensor,
    S: Tensor,
    D: Tensor,
    height: Scalar,
    width: Scalar,
    rows: Scalar,
    columns: Scalar,
    *,
    taps: Taps,
    tile: tuple[int, int, int] = (128, 128, 64),
) -> None:
    """D (taps, F, C) of slopes S (pixels, F), of images of `height` and `width`, and of X (pixels,
    C) of `rows` and `columns`: the depth of the products is pixels.
    """
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import range_

    bm, bn, bk = tile
    tap, m, n = cute.tile_index(D, (1, bm, bn))
    slopes = local_tile(S, (bk, bm), (None, m))
    acc = cute.zeros((bm, bn))
    for k in range_(slopes.tiles):
        numbers = column_of_numbers(k * bk, bk)
        at = found_rows(numbers, tap, taps, (height, width), (rows, columns), S.dim(0))
        cute.tile_gemm(slopes[k].T, local_tile(X, (bk, bn), (at, n)), acc)
    cute.copy(acc.to(D.dtype), local_tile(D, (bm, bn), (tap, m, n)))


@lru_cache(maxsize=64)
def depthwise_for(activation: str | Activation | None) -> KernelFunction:
    """The program of a filter for each channel, with an activation."""

    @kernel(in_bounds=True, spills="refuse")
    def depthwise(
        X: Tensor,
        W: Tensor,
        bias: Any,
        D: Tensor,
        height: Scalar,
        width: Scalar,
        rows: Scalar,
        columns: Scalar,
        *,
        taps: Taps,
    ) -> None:
        """D (pixels, C) from X (pixels, C), and W (taps, C)."""
        from cutedialect.frontend import functions as cute
        from cutedialect.frontend.local_tiles import local_tile
        from cutedialect.frontend.loops import range_

        tile = (_PIXELS, _CHANNELS)
        m, n = cute.tile_index(D, tile)
        numbers = column_of_numbers(m * _PIXELS, _PIXELS)
        acc = cute.zeros(tile)
        for tap in range_(W.dim(0)):
            at = found_rows(numbers, tap, taps, (height, width), (rows, columns), D.dim(0))
            x = local_tile(X, tile, (at, n)).load().to(f32)
            acc += x * local_tile(W, (1, _CHANNELS), (tap, n)).load().to(f32)
        store(acc, bias, activation, D, (m, n))

    return depthwise
