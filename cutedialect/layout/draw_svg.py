"""Pictures of layouts as SVG, written by hand: a cell per coordinate, its color by bank or thread.

Colors are light enough for black text and differ in lightness as well as hue (after Okabe and Ito),
so that color-blind readers can tell them apart; every cell also has its number, and a title that
viewers show on hover.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from xml.sax.saxutils import escape

from .composed_layout import AnyLayout, ComposedLayout
from .draw_text import MAX_CELLS, grid, tv_cells
from .errors import LayoutError
from .layout import Layout
from .swizzle import Swizzle

PALETTE = (
    "#9fd3f6",
    "#f6c667",
    "#8fdcc0",
    "#f4a582",
    "#e3b7d6",
    "#f7ee8b",
    "#b9c4f0",
    "#d5d5d5",
)
_CELL_HEIGHT = 24
_MARGIN = 30
# Cells of a picture that a notebook shows by itself.
_MOST_SHOWN = 1 << 12


def picture(draw: Callable[..., str], *args: Any) -> str | None:
    """What `draw` makes of its arguments, for `_repr_svg_`: None, so that a notebook shows the
    text, where there is no picture or one of more than 4,096 cells, which a browser feels.

    >>> picture(layout_svg, Layout.parse("(4,?):(1,4)")), picture(layout_svg, Layout((64, 65)))
    (None, None)
    """
    try:
        return draw(*args, most=_MOST_SHOWN)
    except LayoutError:
        return None


def color(number: int) -> str:
    """A color of the palette; each time round it is a little darker.

    >>> color(0), color(8)
    ('#9fd3f6', '#8fbddd')
    """
    base = PALETTE[number % len(PALETTE)]
    shade = 1 - 0.1 * (number // len(PALETTE) % 4)
    parts = (int(int(base[i : i + 2], 16) * shade) for i in (1, 3, 5))
    return "#" + "".join(f"{part:02x}" for part in parts)


def layout_svg(layout: AnyLayout, *, most: int = MAX_CELLS) -> str:
    """Offsets of a layout, colored modulo 8; of a swizzled one by the units that it permutes.
    LayoutError for run-time extents and above `most` cells.

    >>> layout_svg(Layout((2, 2), (2, 1))).startswith("<svg ")
    True
    """
    outer = layout.outer if isinstance(layout, ComposedLayout) else None
    unit = 1 << outer.base if isinstance(outer, Swizzle) else 1
    cells: list[list[tuple[str, int | None, str]]] = []
    for row, values in enumerate(grid(layout, most)):
        line: list[tuple[str, int | None, str]] = []
        for column, value in enumerate(values):
            number = value // unit % len(PALETTE) if isinstance(value, int) else row + column
            text = _text(value)
            line.append((text, number, f"({row},{column}) is {text}"))
        cells.append(line)
    return _svg(str(layout), cells)


def banks_svg(layout: AnyLayout, element_bits: int, swizzle: Swizzle | None = None) -> str:
    """The shared-memory bank (0 to 31, of 4 bytes) of each element, colored by bank.

    `swizzle` acts on byte addresses, as on a memref.

    >>> "bank 4" in banks_svg(Layout((8, 8), (8, 1)), 16)
    True
    """
    cells: list[list[tuple[str, int | None, str]]] = []
    for row, values in enumerate(grid(layout)):
        line: list[tuple[str, int | None, str]] = []
        for column, value in enumerate(values):
            if not isinstance(value, int):
                raise LayoutError(f"expected int offsets to draw banks, got {layout}")
            address = value * element_bits // 8
            address = swizzle(address) if swizzle else address
            bank = address // 4 % 32
            line.append((str(bank), bank, f"({row},{column}): byte {address}, bank {bank}"))
        cells.append(line)
    title = f"{layout}, {element_bits} bits" + (f", {swizzle}" if swizzle else "")
    return _svg(title, cells)


def tv_svg(tv: Layout, shape: tuple[int, ...], *, most: int = MAX_CELLS) -> str:
    """A tile with the thread and value of each cell, colored by thread. LayoutError for a layout
    that is not inside of it, and above `most` cells.

    >>> "T1V0" in tv_svg(Layout((2, 2), (2, 1)), (2, 2))
    True
    """
    cells: list[list[tuple[str, int | None, str]]] = []
    for row, owners_of in enumerate(tv_cells(tv, shape, most)):
        line: list[tuple[str, int | None, str]] = []
        for column, owners in enumerate(owners_of):
            names = [f"T{thread}V{value}" for thread, value in owners]
            text = names[0] + ("+" if len(names) > 1 else "") if names else ""
            tip = f"({row},{column}): " + (" ".join(names) or "no thread")
            line.append((text, owners[0][0] if owners else None, tip))
        cells.append(line)
    return _svg(str(tv), cells)


def swizzle_svg(swizzle: Swizzle, *, most: int = 1 << 12) -> str:
    """What a swizzle does to the units of 2^base bytes (or elements): row by row, as it permutes.

    >>> swizzle_svg(Swizzle(2, 4, 3)).count("<rect")
    32
    """
    columns = 1 << max(abs(swizzle.shift), swizzle.bits)
    rows = 1 << swizzle.bits
    if rows * columns > most:
        raise LayoutError(f"expected a swizzle of at most {most} units to draw, got {swizzle}")
    unit = 1 << swizzle.base
    cells: list[list[tuple[str, int | None, str]]] = []
    for row in range(rows):
        line: list[tuple[str, int | None, str]] = []
        for column in range(columns):
            index = row * columns + column
            moved = swizzle(index * unit) // unit
            tip = f"offset {index * unit} goes to {moved * unit}"
            line.append((str(moved), moved % columns, tip))
        cells.append(line)
    return _svg(f"{swizzle}, units of {unit}", cells)


def _text(value: Any) -> str:
    return str(value).replace(" ", "")


def _svg(title: str, cells: list[list[tuple[str, int | None, str]]]) -> str:
    columns = max((len(row) for row in cells), default=0)
    longest = max((len(text) for row in cells for text, _, _ in row), default=1)
    wide = max(28, 7 * longest + 10)
    width = _MARGIN + columns * wide + 2
    height = 2 * _MARGIN + len(cells) * _CELL_HEIGHT + 2
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
        f'width="{width}" height="{height}" role="img" font-family="monospace" font-size="11" '
        f'text-anchor="middle">',
        f"<title>{escape(title)}</title>",
        f'<text x="2" y="14" text-anchor="start" fill="#808080">{escape(title)}</text>',
        '<g fill="#808080">',
    ]
    top = 2 * _MARGIN
    for column in range(columns):
        out.append(f'<text x="{_MARGIN + column * wide + wide // 2}" y="{top - 6}">{column}</text>')
    for row in range(len(cells)):
        out.append(f'<text x="14" y="{top + row * _CELL_HEIGHT + 16}">{row}</text>')
    out.append("</g>")
    for row, line in enumerate(cells):
        for column, (text, number, tip) in enumerate(line):
            x, y = _MARGIN + column * wide, top + row * _CELL_HEIGHT
            fill = "#ffffff" if number is None else color(number)
            out.append(
                f'<g><title>{escape(tip)}</title><rect x="{x}" y="{y}" width="{wide}" '
                f'height="{_CELL_HEIGHT}" fill="{fill}" stroke="#404040"/>'
                f'<text x="{x + wide // 2}" y="{y + 16}">{escape(text)}</text></g>'
            )
    out.append("</svg>")
    return "\n".join(out)
