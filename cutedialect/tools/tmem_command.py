"""`python -m cutedialect tmem FILE`: a map of tensor memory, drawn from a module of any stage that
has `cute.alloc_tmem` (those of a `kernel.stages` entry, or of `cute-opt`). Columns are given in the
order of the ops, as `convert-to-ptx` gives them.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from xdsl.context import Context
from xdsl.ir import SSAValue
from xdsl.utils.exceptions import ParseError

from cutedialect.atoms.tmem_layouts import COLUMNS, LANE, LANES, WARP_LANES, allocation
from cutedialect.dialects import all_dialects
from cutedialect.dialects.cute import AllocTmemOp, KernelOp, MemRefType
from cutedialect.dialects.walks import ops_of
from cutedialect.layout import Layout
from cutedialect.tools.locating_parser import LocatingParser

# Columns that a letter of the picture stands for.
_STEP = 8
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect tmem",
        description="Draw a map of tensor memory from the IR of a kernel.",
    )
    parser.add_argument("file", help="IR of any stage that has cute.alloc_tmem; - is the input")
    options = parser.parse_args(arguments)
    text = (
        sys.stdin.read() if options.file == "-" else Path(options.file).read_text(encoding="utf-8")
    )
    print(tensor_memory_map(text))
    return 0


def tensor_memory_map(text: str) -> str:
    """The map of each kernel of a module in text; ValueError where it does not parse."""
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
    return "\n\n".join(map(_kernel_map, kernels))


def _kernel_map(kernel: KernelOp) -> str:
    allocs = ops_of(kernel, AllocTmemOp)
    name = kernel.sym_name.data
    used = sum(op.columns for op in allocs if op.over is None)
    if not used:
        return f"@{name}: no tensor memory"
    lines = [f"@{name}: {used} of {COLUMNS} columns used, {allocation(used)} allocated"]
    picture = [["."] * (COLUMNS // _STEP) for _ in range(LANES // WARP_LANES)]
    end, letter = 0, 0
    # Of each buffer, its first column and the letters of its stages.
    known: dict[SSAValue, tuple[int, str]] = {}
    for op in allocs:
        first, under = (end, "") if op.over is None else known[op.over]
        mine = ""
        type_ = op.result.type
        assert isinstance(type_, MemRefType)
        # A ring has one more mode than its tile.
        modes, strides = list(type_.modes), list(type_.stride)
        stages = modes.pop() if len(modes) > 2 else 1
        step = strides.pop() // op.packed if len(strides) > 2 else op.columns
        tile = Layout(tuple(modes), tuple(strides))
        shape = "x".join(str(mode.size()) for mode in tile)
        for stage in range(stages):
            mark, start = _LETTERS[letter % len(_LETTERS)], first + stage * step
            letter += 1
            mine += mark
            last = _draw(picture, mark, tile, op.packed, start)
            hint = f"%{op.result.name_hint}, " if op.result.name_hint else ""
            what = f"{hint}{shape} {type_.element}"
            which = f", stage {stage} of {stages}" if stages > 1 else ""
            over = f", over {under[stage % len(under)]}" if under else ""
            lines.append(f"  {mark}  columns {start:3} .. {last:3}  {what}{which}{over}")
        known[op.result] = first, mine
        end += op.columns if op.over is None else 0
    for quarter, row in enumerate(picture):
        lanes = f"lanes {quarter * WARP_LANES:3} .. {(quarter + 1) * WARP_LANES - 1:3}"
        lines.append(f"  {lanes}  {''.join(row)}")
    lines.append(f"  a letter is {_STEP} columns of 32 lanes, a small one of some of them")
    return "\n".join(lines)


def _draw(picture: list[list[str]], mark: str, tile: Layout, packed: int, start: int) -> int:
    """Put a tile's mark where it lies; returns its last column."""
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
    for (quarter, column), lanes in taken.items():
        picture[quarter][column] = mark if len(lanes) == WARP_LANES else mark.lower()
    last = max(column for _, column in rows) + max(column for _, column in columns)
    return start + last
