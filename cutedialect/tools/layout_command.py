"""`python -m cutedialect layout find` and `layout conflicts`: what gives a layout or a thread-value
map, and how many wavefronts a copy to or from shared memory takes beyond those its bytes need.
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Sequence
from dataclasses import asdict
from math import prod
from typing import Any

from cutedialect.atoms import WARP_SIZE, copy_atom
from cutedialect.layout import (
    ComposedLayout,
    Layout,
    LayoutError,
    Swizzle,
    TiledCopy,
    bank_conflicts,
    flatten,
    parse,
    parse_layout,
)
from cutedialect.layout.banks import BANK_BYTES, BANKS
from cutedialect.layout.int_tuple import extent
from cutedialect.tools.layout_search import (
    Finding,
    shared_layouts,
    swizzles,
    table_of,
    thread_values,
)

# What one access of a thread moves at most (PTX ISA 9.7.9.8: v4.b32).
_VECTOR_BYTES = 16
# Matches of a family that are shown.
_SHOWN = 12
# Larger targets would be searched for minutes.
_MOST_ELEMENTS = 1 << 16

_EXAMPLES = """examples:
  layout find "((4,8),(2,2)):((32,1),(16,8))" --tile 16x8
  layout find "S<2,0,3> o 0 o (8,8):(1,8)" --of "(8,8):(1,8)"
  layout find "S<3,3,3> o 0 o (64,64):(64,1)" --bits 16
  layout conflicts "(64,64):(64,1)" --bits 16 --threads "(32,4):(1,32)" --values "(1,8)"
  layout conflicts "(16,64):(64,1)" --bits 16 --atom ldmatrix_x4
"""


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code: 1 where `find` finds nothing, or a copy conflicts."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect layout",
        description="Find what gives a layout; count a copy's bank conflicts.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    find = commands.add_parser("find", help="what gives a layout or a thread-value map")
    find.add_argument("target", help="a layout, a composed layout, or with --tile (thread, value)")
    find.add_argument(
        "--tile", metavar="MxN", help="the target maps (thread, value) into this tile"
    )
    find.add_argument("--of", metavar="LAYOUT", help="search swizzles of this plain layout")
    find.add_argument("--bits", type=int, default=16, help="width of an element (default 16)")
    find.add_argument("--arch", help="instructions of this target only")
    find.add_argument("--all", action="store_true", help=f"show more than {_SHOWN} of a family")
    find.add_argument("--json", action="store_true", help="print JSON")
    conflicts = commands.add_parser("conflicts", help="bank conflicts of a copy")
    conflicts.add_argument("layout", help="of the tile in shared memory, in elements")
    conflicts.add_argument("--bits", type=int, default=16, help="width of an element (default 16)")
    conflicts.add_argument("--threads", metavar="LAYOUT", help="of the threads over the tile")
    conflicts.add_argument("--values", metavar="LAYOUT", default="1", help="that each thread has")
    conflicts.add_argument("--tv", metavar="LAYOUT", help="(thread, value) into the tile")
    conflicts.add_argument("--atom", help="ldmatrix_x4, stmatrix_x2_trans, ...: rows of matrices")
    conflicts.add_argument("--vector", type=int, help="elements of an access (default: the most)")
    conflicts.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args(arguments)
    return _find(options) if options.command == "find" else _conflicts(options)


def _find(options: argparse.Namespace) -> int:
    target = _read(options.target)
    if options.tile is not None:
        if not isinstance(target, Layout):
            raise ValueError(f"expected a (thread, value) layout with --tile, got {target}")
        findings = thread_values(target, _extents(options.tile), options.arch)
    else:
        findings = _of_memory(target, options.of, options.bits)
    if options.json:
        print(json.dumps([asdict(one) for one in findings], indent=2))
    else:
        for one in findings:
            _show(one, len(one.matches) if options.all else _SHOWN)
    return 0 if any(one.matches for one in findings) else 1


def _of_memory(target: Any, of: str | None, bits: int) -> list[Finding]:
    shape = tuple(extent(mode) for mode in _modes(target))
    if of is not None:
        plain = [parse_layout(of)]
    else:
        inner = target.inner if isinstance(target, ComposedLayout) else None
        columns, rows = Layout(shape), Layout(shape, _row_major(shape))
        plain = [one for one in (inner, columns, rows) if one is not None]
    distinct = {table_of(one): one for one in reversed(plain)}
    found = [swizzles(target, one) for one in reversed(distinct.values())]
    return [*found, shared_layouts(target, shape, bits)]


def _row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(prod(shape[at + 1 :]) for at in range(len(shape)))


def _modes(layout: Any) -> tuple[Any, ...]:
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    return inner.shape if isinstance(inner.shape, tuple) else (inner.shape,)


def _read(text: str) -> Layout | ComposedLayout:
    layout = parse(text)
    if isinstance(layout, Swizzle):
        raise ValueError(f"expected a layout, got the swizzle {layout}")
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    if not all(isinstance(number, int) for number in flatten((inner.shape, inner.stride))):
        raise ValueError(f"expected static extents and int strides, got {layout}")
    if layout.size() > _MOST_ELEMENTS:
        raise ValueError(f"expected at most {_MOST_ELEMENTS:,} elements, got {layout.size():,}")
    return layout


def _extents(text: str) -> tuple[int, ...]:
    if not re.fullmatch(r"[1-9]\d*([x,][1-9]\d*)*", text):
        raise ValueError(f"--tile: expected extents such as 16x8, got '{text}'")
    return tuple(int(part) for part in re.split("[x,]", text))


def _show(finding: Finding, count: int) -> None:
    if finding.matches:
        print(f"{finding.family}: {len(finding.matches)} of {finding.candidates}")
        for text in finding.matches[:count]:
            print(f"  {text}")
        if len(finding.matches) > count:
            print(f"  and {len(finding.matches) - count} more (--all)")
        return
    print(f"{finding.family}: none of {finding.candidates}")
    witness = finding.witness
    if witness is None:
        return
    if witness.places:
        told = " and ".join(f"{place} at {offset}" for place, offset in witness.places)
        print(f"  no candidate has {told}")
    print(f"  {witness.why}")


def _conflicts(options: argparse.Namespace) -> int:
    layout = _read(options.layout)
    if options.bits not in (8, 16, 32, 64, 128):
        raise ValueError(f"--bits: expected 8, 16, 32, 64 or 128, got {options.bits}")
    accesses = _accesses(options, layout)
    rows: list[dict[str, Any]] = []
    for name, addresses, size in accesses:
        wavefronts = bank_conflicts(addresses, size)
        rows.append(
            {
                "access": name,
                "bytes": size,
                "wavefronts": wavefronts.wavefronts,
                "minimum": wavefronts.minimum,
                "pair": _pair(addresses, size) if wavefronts.conflicts else None,
            }
        )
    total = sum(row["wavefronts"] - row["minimum"] for row in rows)
    better = _better(accesses) if total else None
    if options.json:
        print(json.dumps({"accesses": rows, "conflicts": total, "swizzle": better}, indent=2))
        return 1 if total else 0
    for row in rows:
        line = f"{row['access']}: {row['wavefronts']} wavefronts of {row['bytes']} bytes a lane"
        beyond = row["wavefronts"] - row["minimum"]
        print(line + (f", {beyond} beyond the minimum ({row['pair']})" if beyond else ""))
    print(f"conflicts: {total}")
    if total:
        print(
            f"{better} on byte addresses has none"
            if better
            else "no swizzle of byte addresses ends them"
        )
    return 1 if total else 0


Access = tuple[str, list[int], int]


def _accesses(options: argparse.Namespace, layout: Any) -> list[Access]:
    """Name, byte address of each lane, and bytes of a lane, of every access of every warp."""
    given = [name for name in ("atom", "tv", "threads") if getattr(options, name) is not None]
    if len(given) != 1:
        raise ValueError("expected one of --threads, --tv and --atom, got " + str(len(given)))
    if options.atom is not None:
        return _matrix_accesses(options.atom, layout, options.bits)
    shape = tuple(extent(mode) for mode in _modes(layout))
    if options.tv is not None:
        tv = parse_layout(options.tv)
        if len(tv) != 2 or tv.cosize() > prod(shape):
            raise ValueError(f"expected a (thread, value) layout into {prod(shape)}, got {tv}")
    else:
        tiled = TiledCopy.of(parse_layout(options.threads), parse_layout(options.values))
        tv = tiled.tv_layout(shape)
    threads, values = tv[0].size(), tv[1].size()
    offsets = [[layout(tv((t, v))) for v in range(values)] for t in range(threads)]
    vector = options.vector or _widest(offsets, options.bits)
    if vector * options.bits > 8 * _VECTOR_BYTES or values % vector:
        most = 8 * _VECTOR_BYTES // options.bits
        raise ValueError(f"--vector: expected a divisor of {values} up to {most}, got {vector}")
    if not _lie_together(offsets, vector):
        raise ValueError(f"--vector: expected {vector} elements of a thread to lie together")
    size = vector * options.bits // 8
    return [
        (
            f"warp {first // WARP_SIZE}, values {value} to {value + vector - 1}",
            [one[value] * options.bits // 8 for one in offsets[first : first + WARP_SIZE]],
            size,
        )
        for first in range(0, threads, WARP_SIZE)
        for value in range(0, values, vector)
    ]


def _widest(offsets: list[list[int]], bits: int) -> int:
    vector = _VECTOR_BYTES * 8 // bits
    while vector > 1 and not (len(offsets[0]) % vector == 0 and _lie_together(offsets, vector)):
        vector //= 2
    return vector


def _lie_together(offsets: list[list[int]], vector: int) -> bool:
    """Whether the elements of every access are consecutive and aligned."""
    return all(
        one[start] % vector == 0 and all(one[start + at] == one[start] + at for at in range(vector))
        for one in offsets
        for start in range(0, len(one), vector)
    )


def _matrix_accesses(name: str, layout: Any, bits: int) -> list[Access]:
    """`ldmatrix` or `stmatrix` on a tile with rows along the second mode: matrices of 8 rows of 16
    bytes, those of a column of matrices first.
    """
    atom = copy_atom(name)
    if not atom.matrices:
        raise ValueError(f"--atom: expected a matrix instruction such as ldmatrix_x4, got {name}")
    shape = tuple(extent(mode) for mode in _modes(layout))
    width = 16 * 8 // bits
    if len(shape) != 2 or shape[0] % 8 or shape[1] % width:
        raise ValueError(f"expected a tile of 8 x {width} matrices, got {shape}")
    starts = [
        (row, column) for column in range(0, shape[1], width) for row in range(0, shape[0], 8)
    ]
    if len(starts) % atom.matrices:
        raise ValueError(f"expected a multiple of {atom.matrices} matrices, got {len(starts)}")
    accesses: list[Access] = []
    for at in range(0, len(starts), atom.matrices):
        chosen = starts[at : at + atom.matrices]
        rows = [(row + line, column) for row, column in chosen for line in range(8)]
        addresses = [layout(place) * bits // 8 for place in rows]
        for address, place in zip(addresses, rows, strict=True):
            if address % 16:
                raise LayoutError(f"expected rows aligned to 16 bytes, got {address} at {place}")
        accesses.append((f"{name} at {chosen[0]}", addresses, 16))
    return accesses


def _pair(addresses: Sequence[int], size: int) -> str:
    """Two lanes of one phase whose words are in one bank."""
    lanes = 128 // max(size, BANK_BYTES)
    for begin in range(0, len(addresses), lanes):
        seen: dict[int, tuple[int, int]] = {}
        for lane in range(begin, min(begin + lanes, len(addresses))):
            word = addresses[lane] // BANK_BYTES
            other = seen.setdefault(word % BANKS, (lane, word))
            if other[1] != word:
                return f"lanes {other[0]} and {lane} meet in bank {word % BANKS}"
    return "one access of its own takes several"


def _better(accesses: Sequence[Access]) -> str | None:
    """The swizzle of byte addresses with the fewest bits that leaves no conflict."""
    most = max(max(addresses) for _, addresses, _ in accesses).bit_length()
    least = max(size for _, _, size in accesses).bit_length() - 1
    for bits in range(1, 4):
        for base in range(least, least + 4):
            for shift in range(bits, most - base + 1):
                swizzle = Swizzle(bits, base, shift)
                if not any(
                    bank_conflicts([swizzle(one) for one in addresses], size).conflicts
                    for _, addresses, size in accesses
                ):
                    return str(swizzle)
    return None
