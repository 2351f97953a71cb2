"""Which pixels the taps of a filter find: numbers alone, known when a kernel is traced. See "Pixels
of images" in `docs/cookbook.md`.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from cutedialect.atoms.tensor_map import Window


@dataclass(frozen=True)
class Taps:
    """A filter's taps: along the height and the width there are `counts`; tap t of a pixel at place
    y is the pixel (steps y + spreads t + starts) / divisors of the other image, if there is such.

    `ends` says how far behind the last pixel of the other image lies what tap 0 finds of the last
    place (of taps with negative spreads the last tap), where that is the same for images of all
    heights and widths, or up to `steps` - 1 further: None where it is not known.
    """

    counts: tuple[int, int]
    steps: tuple[int, int]
    spreads: tuple[int, int]
    starts: tuple[int, int]
    divisors: tuple[int, int] = (1, 1)
    ends: tuple[int, int] | None = None

    @classmethod
    def of(
        cls,
        counts: tuple[int, int],
        stride: tuple[int, int] = (1, 1),
        padding: tuple[int, int] = (0, 0),
        dilation: tuple[int, int] = (1, 1),
    ) -> Taps:
        """Those of a convolution with so many taps along the height and the width.

        >>> Taps.of((3, 3), padding=(1, 1)).window
        Window(lower=(-1, -1), upper=(-1, -1), steps=(1, 1))
        """
        reach = (step * (count - 1) for step, count in zip(dilation, counts, strict=True))
        (top, left), (down, right) = padding, reach
        return cls(counts, stride, dilation, (-top, -left), ends=(top - down, left - right))

    @property
    def window(self) -> Window | None:
        """The places that the first tap finds, as TMA walks over them; None where it cannot."""
        if self.ends is None or self.divisors != (1, 1):
            return None
        lower = tuple(a - b for a, b in zip(self.starts, self.before, strict=True))
        window = Window(lower, self.ends, self.steps)
        most = [
            abs(spread) * (count - 1)
            for spread, count in zip(self.spreads, self.counts, strict=True)
        ]
        try:
            window.check(most)
        except ValueError:
            return None
        return window

    @property
    def before(self) -> tuple[int, ...]:
        """How far in front of tap 0 taps lie at most."""
        facts = zip(self.spreads, self.counts, strict=True)
        return tuple(max(0, -spread * (count - 1)) for spread, count in facts)


@dataclass(frozen=True)
class Phases:
    """Gradients of an image of a convolution with a stride and `counts` of taps, by phases: along a
    mode phase z has the pixels at places that tap z finds for some place of the result, a stride
    apart, and those of the taps z, z + stride, ... find it, one place of the result after another.
    Early phases have the most taps. `image` and `result` are extents, where they are known.
    """

    counts: tuple[int, int]
    strides: tuple[int, int]
    padding: tuple[int, int]
    image: tuple[int | None, int | None] = (None, None)
    result: tuple[int | None, int | None] = (None, None)

    def first(self, mode: int, phase: Any) -> Any:
        """The place of the result that the phase's first tap finds for the phase's first pixel."""
        return (self.padding[mode] + self.strides[mode] - 1 - phase) // self.strides[mode]

    def taps_of(self, mode: int, phase: Any) -> Any:
        """How many taps a phase has."""
        stride = self.strides[mode]
        return (self.counts[mode] + stride - 1 - phase) // stride

    def pixel(self, mode: int, phase: Any) -> Any:
        """The place of a phase's first pixel."""
        return self.first(mode, phase) * self.strides[mode] - self.padding[mode] + phase

    def places(self, mode: int, extent: Any) -> Any:
        """The pixels of the longest phase of an image of an extent."""
        return (extent + self.strides[mode] - 1) // self.strides[mode]

    @property
    def taps(self) -> Taps:
        """What phases find of the result, as taps from the first place that any finds on."""
        lower, reach, ends = [], [], []
        for mode in range(2):
            phases = [z for z in range(self.strides[mode]) if self.taps_of(mode, z) > 0]
            least = min(self.first(mode, z) - self.taps_of(mode, z) + 1 for z in phases)
            lower.append(least)
            reach.append(max(self.first(mode, z) for z in phases) - least + 1)
            extent, places = self.image[mode], self.result[mode]
            if extent is not None and places is not None:
                ends.append(least + self.places(mode, extent) - places)
        return Taps(
            (reach[0], reach[1]), (1, 1), (1, 1), (lower[0], lower[1]),
            ends=(ends[0], ends[1]) if len(ends) == 2 else None,
        )  # fmt: skip
