"""Which pixels the taps of a filter find: numbers alone, known when a kernel is traced. See "Pixels
of images" in `docs/cookbook.md`.
"""

from __future__ import annotations

from dataclasses import dataclass

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
