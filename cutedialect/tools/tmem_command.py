"""`python -m cutedialect tmem FILE`: a map of tensor memory as text and as a picture, drawn from a
module of any stage that has `cute.alloc_tmem` (those of a `kernel.stages` entry, or of `cute-opt`).
Columns are given in the order of the ops, as `convert-to-ptx` gives them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from xml.sax.saxutils import escape

from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import ParseError

from cutedialect.atoms.tmem_layouts import COLUMNS, LANE, LANES, WARP_LANES, allocation
from cutedialect.backend.runtime.written_files import write_whole
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import AllocTmemOp, KernelOp, MemRefType
from cutedialect.dialects.walks import ops_of
from cutedialect.layout import Layout
from cutedialect.layout.draw_svg import color
from cutedialect.tools.locating_parser import LocatingParser

# Columns that a letter or a cell of the picture stands for.
_STEP = 8
# Width of a cell and of what stands before them, in pixels.
_CELL, _LEFT = 11, 110
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect tmem",
        description="Draw a map of tensor memory from the IR of a kernel.",
    )
    parser.add_argument("file", help="IR of any stage that has cute.alloc_tmem; - is the input")
    parser.add_argument("-o", "--out", type=Path, help="the same as a picture, an .svg file")
    options = parser.parse_args(arguments)
    if options.out is not None and options.out.suffix.lower() != ".svg":
        raise ValueError(f"-o: expected the name of an .svg file, got '{options.out}'")
    text = (
        sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
    )
    print(tensor_memory_map(text))
    if options.out is not None:
        write_whole(options.out, tensor_memory_svg(text).encode())
    return 0


@dataclass(frozen=True)
class Buffer:
    """A stage of a buffer: its first and last column, what it is, and the lanes that it has of each
    place, a (quarter of the lanes, `_STEP` columns).
    """

    first: int
    last: int
    what: str
    lanes: dict[tuple[int, int], int]


@dataclass(frozen=True)
class Map:
    """What a kernel has in tensor memory."""

    kernel: str
    used: int
    buffers: tuple[Buffer, ...]


def tensor_memory_map(text: str) -> str:
    """The map of each kernel of a module in text; ValueError where it does not parse."""
    return "\n\n".join(map(_text, _maps(text)))


def tensor_memory_svg(text: str) -> str:
    """The same as a picture: columns to the right, four rows of 32 lanes, a color for each stage
    of a buffer, lighter where it has some of the lanes.
    """
    maps = [found for found in _maps(text) if found.buffers]
    columns, rows = COLUMNS // _STEP, LANES // WARP_LANES
    width = _LEFT + columns * _CELL + 10
    parts: list[str] = []
    y = 0
    for found in maps:
        head = f"@{found.kernel}: {found.used} of {COLUMNS} columns used"
        parts.append(f'<text x="6" y="{y + 16}" fill="#808080">{escape(head)}</text>')
        top = y + 26
        for quarter in range(rows):
            lanes = f"lanes {quarter * WARP_LANES} .. {(quarter + 1) * WARP_LANES - 1}"
            at = top + quarter * _CELL * 2
            parts.append(f'<text x="6" y="{at + 17}" fill="#808080">{lanes}</text>')
            parts.append(
                f'<rect x="{_LEFT}" y="{at}" width="{columns * _CELL}" height="{_CELL * 2}" '
                'fill="none" stroke="#808080"/>'
            )
        for number, buffer in enumerate(found.buffers):
            title = f"{_letter(number)}: {buffer.what}"
            for (quarter, column), lanes in sorted(buffer.lanes.items()):
                opacity = "" if lanes == WARP_LANES else ' fill-opacity="0.5"'
                parts.append(
                    f'<rect x="{_LEFT + column * _CELL}" y="{top + quarter * _CELL * 2}" '
                    f'width="{_CELL}" height="{_CELL * 2}" fill="{color(number)}"{opacity}>'
                    f"<title>{escape(title)}</title></rect>"
                )
        y = top + rows * _CELL * 2 + 8
        for number, buffer in enumerate(found.buffers):
            said = f"columns {buffer.first} .. {buffer.last}: {buffer.what}"
            parts.append(f'<rect x="6" y="{y}" width="12" height="12" fill="{color(number)}"/>')
            parts.append(f'<text x="24" y="{y + 10}" fill="#808080">{escape(said)}</text>')
            y += 18
        y += 8
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {y}" width="{width}" '
            f'height="{y}" role="img" font-family="monospace" font-size="11">',
            "<title>A map of tensor memory</title>",
            *parts,
            "</svg>",
            "",
        ]
    )


def _maps(text: str) -> list[Map]:
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    try:
        module = LocatingParser(context, text, "input").parse_module()
    except ParseError as error:
        raise ValueError(f"expected IR of a kernel: {error}") from error
    kernels = ops_of(module, KernelOp)
    if not kernels:
        raise ValueError(
            "expected IR of a stage before convert-to-ptx, got a module without a cute.kernel"
        )
    return [_map(kernel) for kernel in kernels]


def _map(kernel: KernelOp) -> Map:
    allocs = ops_of(kernel, AllocTmemOp)
    buffers: list[Buffer] = []
    # Of each buffer, its first column and the numbers of its stages.
    known: dict[SSAValue, tuple[int, list[int]]] = {}
    end = 0
    for op in allocs:
        under: list[int] = []
        first = end
        if op.over is not None:
            first, under = known[op.over]
        type_ = op.result.type
        assert isinstance(type_, MemRefType)
        # A ring has one more mode than its tile.
        modes, strides = list(type_.modes), list(type_.stride)
        stages = modes.pop() if len(modes) > 2 else 1
        step = strides.pop() // op.packed if len(strides) > 2 else op.columns
        tile = Layout(tuple(modes), tuple(strides))
        shape = "x".join(str(mode.size()) for mode in tile)
        mine: list[int] = []
        for stage in range(stages):
            start = first + stage * step
            mine.append(len(buffers))
            last, lanes = _places(tile, op.packed, start)
            hint = f"%{op.result.name_hint}, " if op.result.name_hint else ""
            what = f"{hint}{shape} {type_.element}"
            which = f", stage {stage} of {stages}" if stages > 1 else ""
            over = f", over {_letter(under[stage % len(under)])}" if under else ""
            buffers.append(Buffer(start, last, f"{what}{which}{over}", lanes))
        known[op.result] = first, mine
        end += op.columns if op.over is None else 0
    return Map(kernel.sym_name.data, end, tuple(buffers))


def _letter(number: int) -> str:
    return _LETTERS[number % len(_LETTERS)]


def _text(found: Map) -> str:
    if not found.used:
        return f"@{found.kernel}: no tensor memory"
    lines = [
        f"@{found.kernel}: {found.used} of {COLUMNS} columns used, "
        f"{allocation(found.used)} allocated"
    ]
    picture = [["."] * (COLUMNS // _STEP) for _ in range(LANES // WARP_LANES)]
    for number, buffer in enumerate(found.buffers):
        mark = _letter(number)
        for (quarter, column), lanes in buffer.lanes.items():
            picture[quarter][column] = mark if lanes == WARP_LANES else mark.lower()
        lines.append(f"  {mark}  columns {buffer.first:3} .. {buffer.last:3}  {buffer.what}")
    for quarter, row in enumerate(picture):
        lanes = f"lanes {quarter * WARP_LANES:3} .. {(quarter + 1) * WARP_LANES - 1:3}"
        lines.append(f"  {lanes}  {''.join(row)}")
    lines.append(f"  a letter is {_STEP} columns of 32 lanes, a small one of some of them")
    return "\n".join(lines)


def _places(tile: Layout, packed: int, start: int) -> tuple[int, dict[tuple[int, int], int]]:
    """The last column of a tile, and how many lanes it has of each place."""
    rows, columns = (
        {(at // packed // LANE, at // packed % LANE) for at in map(part, range(part.size()))}
        for part in tile
    )
    taken: dict[tuple[int, int], set[int]] = {}
    for lane, column in rows:
        for more_lanes, more in columns:
            at = lane + more_lanes
            place = at // WARP_LANES, (start + column + more) // _STEP
            taken.setdefault(place, set()).add(at)
    last = max(column for _, column in rows) + max(column for _, column in columns)
    return start + last, {place: len(lanes) for place, lanes in taken.items()}
