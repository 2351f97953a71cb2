"""The table as an SVG: a bar for each row's ratio to its yardstick, gate and goal as marks."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from .rows import Row

_LEFT, _BARS, _LINE, _TOP = 250, 520, 20, 56
_COLORS = {
    "goal": "#2a9d5c",
    "gate": "#4f86c6",
    "right": "#4f86c6",
    "MISSED": "#e08a3c",
    "WRONG": "#c0392b",
    "FAILED": "#999999",
}


def svg(rows: Sequence[Row], title: str) -> str:
    """An SVG document; the axis ends past the largest ratio, at most at 2.5."""
    largest = max([1.25, *(row.ratio for row in rows if row.ratio is not None)])
    end = min(2.5, 1.02 * largest)

    def x(ratio: float) -> float:
        return _LEFT + _BARS * min(ratio, end) / end

    height = _TOP + _LINE * len(rows) + 30
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_LEFT + _BARS + 190}" '
        f'height="{height}" font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="12" y="22" font-size="15">{escape(title)}</text>',
        '<text x="12" y="40" fill="#666">above 1 is faster; short mark: gate, long: goal</text>',
    ]
    for tick in range(int(end / 0.25) + 1):
        at = x(0.25 * tick)
        color = "#333" if tick == 4 else "#ddd"
        parts.append(
            f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{_TOP - 6}" y2="{height - 24}" '
            f'stroke="{color}"/>'
            f'<text x="{at:.1f}" y="{height - 8}" text-anchor="middle">{0.25 * tick:g}</text>'
        )
    for number, row in enumerate(rows):
        y = _TOP + _LINE * number
        parts.append(
            f'<text x="{_LEFT - 8}" y="{y + 13}" text-anchor="end">{escape(row.case.name)}</text>'
        )
        said, at_end = row.failure or "", _LEFT + 8.0
        if row.ratio is not None and row.failure is None:
            parts.append(
                f'<rect x="{_LEFT}" y="{y + 3}" width="{x(row.ratio) - _LEFT:.1f}" height="13" '
                f'fill="{_COLORS[row.verdict]}"/>'
            )
            said = f"{row.ratio:.3f}  {row.tflops:.0f} TFLOP/s"
            at_end = x(max(row.ratio, row.case.goal)) + 8
        marks = ((row.case.gate, 2), (row.case.goal, 5)) if row.case.gate else ()
        for ratio, reach in marks:
            at = x(ratio)
            parts.append(
                f'<line x1="{at:.1f}" x2="{at:.1f}" y1="{y + 5 - reach}" '
                f'y2="{y + 14 + reach}" stroke="#000"/>'
            )
        parts.append(f'<text x="{at_end:.1f}" y="{y + 13}" fill="#333">{escape(said[:100])}</text>')
    return "\n".join([*parts, "</svg>", ""])
