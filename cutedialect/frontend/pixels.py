"""Pixels of images as the rows of tiles: `cute.Pixels` says which pixels the taps of a filter find,
and `cute.local_tile` takes them as the coordinate of its rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutedialect.atoms.tensor_map import Window

from .dtypes import i32
from .scalar import Scalar, as_i32
from .taps import Taps
from .tensor_layouts import make_layout, make_tensor
from .tile import Tensor, Tile

# No row has this number.
_NO_ROW = -1


@dataclass(frozen=True)
class FoundPixels:
    """What a tap finds of some pixels: the numbers of the rows of a matrix of pixels, -1 where it
    finds none, and the same as TMA takes it: images (N, H, W, C), the coordinates of the first
    pixel's place, and how far from there the tap is.
    """

    rows: Tile
    images: Tensor | None = None
    place: tuple[Scalar, ...] = ()
    offsets: tuple[Any, ...] = ()
    window: Window | None = None


class Pixels:
    """The pixels of images of a height and width, `count` of all images, each with those that the
    taps of a filter find in other images of `extents`, a matrix `tensor` of (pixels, channels):

        pixels = cute.Pixels(taps, D.dim(0), (height, width), X, (rows, columns))
        x = cute.local_tile(X, (bm, bk), (pixels.found(m * bm, bm, tap), k))

    Numbers of pixels are below 2^31.
    """

    def __init__(
        self,
        taps: Taps,
        count: Any,
        image: tuple[Any, Any],
        tensor: Tensor,
        extents: tuple[Any, Any],
    ) -> None:
        self.taps: Taps = taps
        self.count: Any = count
        self.image: tuple[Any, Any] = image
        self.extents: tuple[Any, Any] = extents
        self.window: Window | None = taps.window
        self.images: Tensor | None = None
        if self.window is not None:
            self.images = _as_images(tensor, extents)

    def found(self, first: Any, rows: int, tap: Any) -> FoundPixels:
        """What a tap (counted along the width first, or its numbers along both) finds of `rows`
        pixels from number `first` on; of numbers from `count` on it finds none.
        """
        width_of_taps = self.taps.counts[1]
        numbers = tap if isinstance(tap, tuple) else (tap // width_of_taps, tap % width_of_taps)
        tile = self._rows(first, rows, numbers)
        if self.window is None or self.images is None:
            return FoundPixels(tile)
        height, width = self.image
        line, at_x = first // width, first % width
        places = line // height, line % height, at_x
        starts = zip(places[1:], self.window.steps, self.window.lower, strict=True)
        place = (places[0], *(at * step + low for at, step, low in starts))
        moves = zip(numbers, self.taps.spreads, self.taps.before, strict=True)
        offsets = tuple(number * spread + before for number, spread, before in moves)
        return FoundPixels(tile, self.images, place, offsets, self.window)

    def _rows(self, first: Any, count: int, tap: tuple[Any, Any]) -> Tile:
        from . import functions as cute

        taps, (height, width), (rows, columns) = self.taps, self.image, self.extents
        number = cute.coord(cute.full((count, 1), 0, i32), 0, first)
        line, at_x = number // width, number % width
        picture, at_y = line // height, line % height
        there = number < self.count
        places: list[Tile] = []
        for mode, (at, extent) in enumerate(((at_y, rows), (at_x, columns))):
            place = at * taps.steps[mode] + (tap[mode] * taps.spreads[mode] + taps.starts[mode])
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


def _as_images(tensor: Tensor, extents: tuple[Any, Any]) -> Tensor:
    """A matrix of pixels as images of extents."""
    from . import functions as cute

    (rows, columns), (pixels, channels) = extents, tensor.shape
    pitch = tensor.layout.stride[0]
    area = rows * columns
    size = max(area, 1) if isinstance(area, int) else cute.maximum(area, 1)
    shape = pixels // size, rows, columns, channels
    return make_tensor(tensor, make_layout(shape, (pitch * size, pitch * columns, pitch, 1)))


def pixel_operands(found: FoundPixels) -> Any:
    """The coordinates and offsets of what a tap finds, as the IR takes them."""
    place = [as_i32(each, "a place of a pixel") for each in found.place]
    return place, [as_i32(each, "an offset of pixels") for each in found.offsets]
