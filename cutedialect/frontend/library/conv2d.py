"""Convolutions of images (N, H, W, C) as tile programs. The rows of a tile are pixels, and the tile
of a trip is gathered: its rows are the pixels that one tap of the filter finds there (`Pixels`),
and a row of zeros where it finds none.

Each program takes images as matrices with a row for each pixel, and filters as matrices by taps.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cutedialect.frontend.dtypes import f32
from cutedialect.frontend.kernel import KernelFunction, kernel
from cutedialect.frontend.taps import Phases, Taps

from .gemm import Activation, activated

if TYPE_CHECKING:
    from cutedialect.frontend.pixels import Pixels
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor, Tile

# Pixels and channels of a tile of a depthwise convolution: channels are often multiples of 32 alone
# (1.0 to 1.6 times as fast as 16 pixels of 128, three layers of 96 to 384 channels, an H200).
_PIXELS, _CHANNELS = 32, 32


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
        from cutedialect.frontend.pixels import Pixels

        bm, bn, bk = tile
        m, n = cute.tile_index(D, (bm, bn))
        pixels = Pixels(taps, D.dim(0), (height, width), X, (rows, columns))
        depth = (X.dim(1) + (bk - 1)) // bk
        # Taps come one after the other, so that they find pixels which are near: the same channels.
        # Their number is a constant, unlike that of channels: who loads divides by no variable.
        down, right = taps.counts
        acc = cute.zeros((bm, bn))
        for k in range_(down * right * depth):
            line = k // right
            part, at = line // down, (line % down, k % right)
            tap = at[0] * right + at[1]
            x = local_tile(X, (bm, bk), (pixels.found(m * bm, bm, at), part))
            if by_depth:
                w = local_tile(W, (bn, bk), (tap, n, part)).T
            else:
                w = local_tile(W, (bk, bn), (tap, part, n))
            cute.tile_gemm(x, w, acc)
        store(acc, bias, activation, D, (m, n))

    return conv2d


@kernel(in_bounds=True, spills="refuse")
def phased_gradients(
    S: Tensor,
    W: Tensor,
    D: Tensor,
    height: Scalar,
    width: Scalar,
    rows: Scalar,
    columns: Scalar,
    *,
    phases: Phases,
    tile: tuple[int, int, int] = (128, 128, 64),
) -> None:
    """D (pixels, C) of images of `height` and `width` from slopes S (pixels, F) of `rows` and
    `columns`, and W (taps, F, C): the pixels of a tile are those of a phase, so that all of them
    have the same taps.
    """
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.dtypes import i32
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import range_
    from cutedialect.frontend.pixels import Pixels
    from cutedialect.frontend.tensor_layouts import make_layout, make_tensor

    (bm, bn, bk), (down, right) = tile, phases.strides
    image = phases.places(0, height), phases.places(1, width)
    count = D.dim(0) // cute.maximum(height * width, 1) * image[0] * image[1]
    pitch = D.layout.stride[0]
    by_phases = make_tensor(D, make_layout((down * right, count, D.dim(1)), (pitch, pitch, 1)))
    z, m, n = cute.tile_index(by_phases, (1, bm, bn))
    at = z // right, z % right
    taps = [phases.taps_of(mode, phase) for mode, phase in enumerate(at)]
    firsts = [phases.first(mode, at[mode]) - phases.taps.starts[mode] for mode in range(2)]
    pixels = Pixels(phases.taps, count, image, S, (rows, columns))
    depth = (S.dim(1) + (bk - 1)) // bk
    acc = cute.zeros((bm, bn))
    for k in range_(taps[0] * taps[1] * depth):
        number, part = k // depth, k % depth
        tap = number // taps[1], number % taps[1]
        found = pixels.found(m * bm, bm, (firsts[0] - tap[0], firsts[1] - tap[1]))
        line = (at[0] + tap[0] * down) * phases.counts[1] + at[1] + tap[1] * right
        slopes = local_tile(S, (bm, bk), (found, part))
        cute.tile_gemm(slopes, local_tile(W, (bk, bn), (line, part, n)), acc)
    number = cute.coord(cute.full((bm, 1), 0, i32), 0, m * bm)
    line, across = number // image[1], number % image[1]
    y = line % image[0] * down + phases.pixel(0, at[0])
    x = across * right + phases.pixel(1, at[1])
    there = (number < count) & (y < height) & (x < width)
    places = cute.where(there, (line // image[0] * height + y) * width + x, -1)
    cute.copy(acc.to(D.dtype), local_tile(D, (bm, bn), (places, n)))


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
    from cutedialect.frontend.pixels import Pixels

    bm, bn, _ = tile
    tap, m, n = cute.tile_index(D, (1, bm, bn))
    pixels = Pixels(taps, S.dim(0), (height, width), X, (rows, columns))
    acc = _products_of_pixels(X, S, pixels, (tap, m, n), tile)
    cute.copy(acc.to(D.dtype), local_tile(D, (bm, bn), (tap, m, n)))


def _products_of_pixels(
    X: Tensor,
    S: Tensor,
    pixels: Pixels,
    place: tuple[Scalar, Scalar, Scalar],
    tile: tuple[int, int, int],
) -> Tile:
    """The sums over pixels of slopes times what a tap finds of them: `place` is the tap, and the
    tile's place along the channels of S and of X.
    """
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import range_

    (tap, m, n), (bm, bn, bk) = place, tile
    slopes = local_tile(S, (bk, bm), (None, m))
    acc = cute.zeros((bm, bn))
    for k in range_(slopes.tiles):
        at = pixels.found(k * bk, bk, tap)
        cute.tile_gemm(slopes[k].T, local_tile(X, (bk, bn), (at, n)), acc)
    return acc


@kernel(in_bounds=True, spills="refuse")
def gradients_by_channels(
    X: Tensor,
    S: Tensor,
    D: Tensor,
    height: Scalar,
    width: Scalar,
    rows: Scalar,
    columns: Scalar,
    *,
    taps: Taps,
    tile: tuple[int, int, int] = (64, 64, 64),
) -> None:
    """D (taps, C) of slopes S (pixels, C), of images of `height` and `width`, and of X (pixels, C)
    of `rows` and `columns`: the diagonals of the products of `filter_gradients`. Tensor cores
    multiply all channels of a tile by all sooner than threads multiply each by itself.
    """
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.pixels import Pixels
    from cutedialect.frontend.reductions import sum_

    channels = tile[0]
    tap, m = cute.tile_index(D, (1, channels))
    pixels = Pixels(taps, S.dim(0), (height, width), X, (rows, columns))
    acc = _products_of_pixels(X, S, pixels, (tap, m, m), tile)
    own = cute.where(cute.coord(acc, 0) == cute.coord(acc, 1), acc, 0.0)
    cute.copy(sum_(own, mode=0).to(D.dtype), local_tile(D, (1, channels), (tap, m)))


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
        from cutedialect.frontend.pixels import Pixels

        tile = (_PIXELS, _CHANNELS)
        m, n = cute.tile_index(D, tile)
        pixels = Pixels(taps, D.dim(0), (height, width), X, (rows, columns))
        acc = cute.zeros(tile)
        for tap in range_(W.dim(0)):
            at = pixels.found(m * _PIXELS, _PIXELS, tap).rows
            x = local_tile(X, tile, (at, n)).load().to(f32)
            acc += x * local_tile(W, (1, _CHANNELS), (tap, n)).load().to(f32)
        store(acc, bias, activation, D, (m, n))

    return depthwise
