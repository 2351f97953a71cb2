"""Pictures of layouts as text: one cell per coordinate, rows are the first mode.

Modes past the second are drawn as further columns; a layout of rank 1 is one row.
"""

from __future__ import annotations

from typing import Any

from .composed_layout import AnyLayout
from .errors import LayoutError
from .int_tuple import is_tuple
from .layout import Layout

MAX_CELLS = 1 << 16


def grid(layout: AnyLayout, most: int = MAX_CELLS) -> list[list[Any]]:
    """Rows of offsets; LayoutError above `most` cells.

    >>> grid(Layout((2, 3), (3, 1)))
    [[0, 1, 2], [3, 4, 5]]
    """
    inner = layout if isinstance(layout, Layout) else layout.inner
    if not inner.is_static() or inner.size() > most:
        raise LayoutError(f"expected a static layout of at most {most} cells, got {layout}")
    offsets = layout.offsets()
    if len(inner) < 2 or not is_tuple(inner.shape):
        return [offsets]
    rows = inner[0].size()
    return [offsets[row::rows] for row in range(rows)]


def layout_text(layout: AnyLayout) -> str:
    """The offsets of a layout in a grid.

    >>> print(layout_text(Layout((2, 3), (3, 1))))
    (2,3):(3,1)
           0   1   2
         +---+---+---+
      0  | 0 | 1 | 2 |
         +---+---+---+
      1  | 3 | 4 | 5 |
         +---+---+---+
    """
    return "\n".join([str(layout), *_table(grid(layout))])


def tv_cells(
    tv: Layout, shape: tuple[int, ...], most: int = MAX_CELLS
) -> list[list[list[tuple[int, int]]]]:
    """The (thread, value) pairs at each row and column of a tile.

    LayoutError unless `tv` has rank 2 and stays inside the tile, which has `most` cells at most.
    """
    if len(shape) not in (1, 2):
        raise LayoutError(f"expected a tile of 1 or 2 modes to draw, got {shape}")
    rows, columns = shape if len(shape) == 2 else (1, shape[0])
    if len(tv) != 2 or not tv.is_static() or tv.cosize() > rows * columns:
        raise LayoutError(
            f"expected a static (thread, value) layout inside {rows}x{columns}, got {tv}"
        )
    if max(rows * columns, tv.size()) > most:
        raise LayoutError(f"expected a tile of at most {most} cells, got {rows}x{columns} of {tv}")
    cells: list[list[list[tuple[int, int]]]] = []
    for _ in range(rows):
        row: list[list[tuple[int, int]]] = [[] for _ in range(columns)]
        cells.append(row)
    threads = tv[0].size()
    offsets: list[int] = tv.offsets()
    for index, at in enumerate(offsets):
        owners = cells[at % rows][at // rows]
        owners.append((index % threads, index // threads))
    return cells


def tv_text(tv: Layout, shape: tuple[int, ...]) -> str:
    """Which thread has which cell, as `T3V1`; `+` stands for further owners.

    >>> print(tv_text(Layout((2, 2), (2, 1)), (2, 2)))
    (2,2):(2,1)
            0      1
         +------+------+
      0  | T0V0 | T1V0 |
         +------+------+
      1  | T0V1 | T1V1 |
         +------+------+
    """

    def cell(owners: list[tuple[int, int]]) -> str:
        if not owners:
            return ""
        thread, value = owners[0]
        return f"T{thread}V{value}" + ("+" if len(owners) > 1 else "")

    table = [[cell(owners) for owners in row] for row in tv_cells(tv, shape)]
    return "\n".join([str(tv), *_table(table)])


def print_layout(layout: AnyLayout) -> None:
    """Print `layout_text`."""
    print(layout_text(layout))


def _table(rows: list[list[Any]]) -> list[str]:
    texts = [[str(value).replace(" ", "") for value in row] for row in rows]
    columns = len(texts[0]) if texts else 0
    width = max((len(text) for row in texts for text in row), default=1)
    width = max(width, len(str(max(columns - 1, 0))))
    margin = max(3, len(str(max(len(texts) - 1, 0)))) + 2
    rule = " " * margin + "+" + "+".join("-" * (width + 2) for _ in range(columns)) + "+"
    head = " " * margin + " " + " ".join(f" {i:>{width}} " for i in range(columns))
    if width > len(str(max(columns - 1, 0))):
        head = " " * margin + " " + " ".join(f"{i:^{width + 2}}" for i in range(columns))
    lines = [head.rstrip(), rule]
    for number, row in enumerate(texts):
        body = "|".join(f" {text:>{width}} " for text in row)
        lines += [f"{number:>{margin - 2}}  |{body}|", rule]
    return lines
