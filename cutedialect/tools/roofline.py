"""The roofline of a device as a picture: what its tensor cores and its memory allow for each ratio
of operations to bytes, and where kernels are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import ceil, floor, log10
from xml.sax.saxutils import escape

from cutedialect.model import Device

_LEFT, _TOP, _WIDTH, _HEIGHT = 64, 34, 520, 300
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#8a6d00")


@dataclass(frozen=True)
class Point:
    """A kernel: operations for each byte of memory, operations in a second, whose it is."""

    name: str
    intensity: float
    rate: float
    series: str = ""


def peak(device: Device, element_bits: int = 16) -> float:
    """Floating-point operations in a second of all tensor cores, for elements of so many bits."""
    return 2 * device.tensor * device.processors * device.clock * 16 / element_bits


def svg(device: Device, points: Sequence[Point], title: str, element_bits: int = 16) -> str:
    """The picture: both axes logarithmic, the name of each point on hover and below."""
    top = peak(device, element_bits)
    ridge = top / device.memory_bytes
    low, high = _decades([ridge, *(point.intensity for point in points)])
    bottom, above = _decades([top * 1.2, *(point.rate for point in points), top / 30])

    def x(intensity: float) -> float:
        return _LEFT + _WIDTH * (log10(intensity) - low) / (high - low)

    def y(rate: float) -> float:
        return _TOP + _HEIGHT * (above - log10(rate)) / (above - bottom)

    left = max(10.0**low, 10.0**bottom / device.memory_bytes)
    width, height = _LEFT + _WIDTH + 20, _TOP + _HEIGHT + 54 + 16 * len(points)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" font-family="sans-serif" font-size="12">',
        f"<title>{escape(title)}</title>",
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
        f'<text x="8" y="18">{escape(title)}</text>',
    ]
    for decade in range(low, high + 1):
        at = x(10.0**decade)
        parts.append(_line(at, _TOP, at, _TOP + _HEIGHT, "#dddddd"))
        parts.append(
            f'<text x="{at:.1f}" y="{_TOP + _HEIGHT + 16}" text-anchor="middle">'
            f"{10.0**decade:g}</text>"
        )
    for decade in range(bottom, above + 1):
        at = y(10.0**decade)
        parts.append(_line(_LEFT, at, _LEFT + _WIDTH, at, "#dddddd"))
        parts.append(
            f'<text x="{_LEFT - 6}" y="{at + 4:.1f}" text-anchor="end">'
            f"{10.0 ** (decade - 12):g}</text>"
        )
    parts.append(
        f'<text x="{_LEFT + _WIDTH / 2}" y="{_TOP + _HEIGHT + 34}" text-anchor="middle">'
        "operations for each byte of memory; upward: TFLOP/s</text>"
    )
    slope = f"M{x(left):.1f} {y(left * device.memory_bytes):.1f} L{x(ridge):.1f} {y(top):.1f}"
    flat = f"L{_LEFT + _WIDTH} {y(top):.1f}"
    parts.append(f'<path d="{slope} {flat}" fill="none" stroke="#444444" stroke-width="2"/>')
    series = list(dict.fromkeys(point.series for point in points))
    for number, point in enumerate(points):
        color = _COLORS[series.index(point.series) % len(_COLORS)]
        said = f"{point.name}: {point.rate / 1e12:.1f} TFLOP/s at {point.intensity:.0f} a byte"
        said = f"{point.series}, {said}" if point.series else said
        at = f'cx="{x(point.intensity):.1f}" cy="{y(point.rate):.1f}"'
        parts.append(
            f'<circle {at} r="5" fill="{color}" fill-opacity="0.8">'
            f"<title>{escape(said)}</title></circle>"
        )
        below = _TOP + _HEIGHT + 54 + 16 * number
        parts.append(f'<circle cx="14" cy="{below - 4}" r="5" fill="{color}"/>')
        parts.append(f'<text x="26" y="{below}">{escape(said)}</text>')
    return "\n".join([*parts, "</svg>", ""])


def _decades(values: Sequence[float]) -> tuple[int, int]:
    low, high = floor(log10(min(values))), ceil(log10(max(values)))
    return low, max(high, low + 1)


def _line(x: float, y: float, to_x: float, to_y: float, color: str) -> str:
    return f'<path d="M{x:.1f} {y:.1f} L{to_x:.1f} {to_y:.1f}" stroke="{color}"/>'
