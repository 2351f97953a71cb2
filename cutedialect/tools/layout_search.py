"""What gives a layout: the swizzle, shared-memory layout, instruction, TiledMMA or tiled copy that
is the same function, or the places that no candidate of a family has together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import prod
from operator import eq, ne
from typing import Any

from cutedialect.atoms import mma
from cutedialect.atoms.copy_atoms import copy
from cutedialect.atoms.smem_layouts import MAJORS, smem_layout_atoms
from cutedialect.layout import (
    Layout,
    LayoutError,
    Swizzle,
    TiledCopy,
    TiledMMA,
    coalesce,
    make_layout,
)

Table = tuple[int, ...]
Candidate = Callable[[], Iterator[int]]
"""The offsets of a candidate, one by one: most differ early."""
# An offset of 227 KiB of shared memory has 18 bits; a swizzle beyond them changes nothing.
_OFFSET_BITS = 18
# Warps of a CTA are 32 at most; beyond 8 a TiledMMA has several warpgroups.
_MOST_WARPS = 16
_OPERANDS = ("A", "B", "C")


@dataclass(frozen=True)
class Witness:
    """Places, each with what is wanted there, that no candidate of a family has together; `why`
    says what the family would need.
    """

    places: tuple[tuple[str, int], ...]
    why: str


@dataclass
class Finding:
    """What a family has: text of every candidate that is the target, how many were looked at, and a
    witness where none is.
    """

    family: str
    matches: list[str] = field(default_factory=list)
    candidates: int = 0
    witness: Witness | None = None


def table_of(layout: Any) -> Table:
    """The offsets of a layout or composed layout by index."""
    return tuple(_offsets(layout))


def _offsets(layout: Any) -> Iterator[int]:
    return map(layout, range(layout.size()))


def swizzles(target: Any, plain: Layout) -> Finding:
    """Swizzles of a plain layout's offsets that give the target's.

    >>> from cutedialect.layout import parse
    >>> target = parse("S<1,0,2> o 0 o (4,2):(1,4)")
    >>> swizzles(target, Layout((4, 2))).matches[0]
    'S<1,0,2> o 0 o (4,2):(1,4)'
    >>> print(swizzles(Layout((4, 2), (2, 1)), Layout((4, 2))).witness.places)
    (('1', 2),)
    """
    wanted, offsets = table_of(target), table_of(plain)
    if len(wanted) != len(offsets):
        raise LayoutError(f"expected a plain layout of {len(wanted)} elements, got {plain}")
    limit = max(*wanted, *offsets, 1).bit_length()
    candidates = [
        (f"{one} o 0 o {plain}" if one.bits else str(plain), partial(_through, one, offsets))
        for one in _all_swizzles(min(limit, _OFFSET_BITS))
    ]
    found = _compare("swizzles", wanted, candidates, str)
    why = "each offset would have to be the plain one with some of its bits XORed with higher ones"
    return _explained(found, why)


def _through(swizzle: Swizzle, offsets: Table) -> Iterator[int]:
    return map(swizzle, offsets)


def _all_swizzles(bits: int) -> Iterator[Swizzle]:
    """Every swizzle that moves bits of offsets of some bits, the identity first."""
    yield Swizzle(0, 4, 3)
    for count in range(1, bits):
        for base in range(bits - count):
            for shift in range(count, bits - base):
                if base + shift < bits:
                    yield Swizzle(count, base, shift)
                    yield Swizzle(count, base, -shift)


def shared_layouts(target: Any, shape: tuple[int, ...], bits: int) -> Finding:
    """Shared-memory layouts of TMA and of the tensor cores that are the target, in elements."""
    found = Finding("layouts of shared-memory tiles")
    if len(shape) != 2 or bits not in (8, 16, 32):
        return found
    names: dict[str, Candidate] = {}
    for major in MAJORS:
        for atom in smem_layout_atoms(major, bits):
            if not atom.fits((shape[0], shape[1])):
                continue
            layout, swizzle = atom.tile((shape[0], shape[1])), atom.swizzle
            units = bits // 8
            offsets = tuple(
                (swizzle(offset * units) if swizzle else offset * units) // units
                for offset in table_of(layout)
            )
            names[f"{atom.name}, {bits} bits: {layout}"] = partial(iter, offsets)
    found = _compare(found.family, table_of(target), names.items(), str)
    return _explained(found, "tiles of 8 rows of 16, 32, 64 or 128 bytes")


def thread_values(tv: Layout, tile: tuple[int, ...], arch: str | None = None) -> list[Finding]:
    """Instructions, TiledMMAs and tiled copies whose (thread, value) map is `tv`, into the
    column-major coordinates of a tile.
    """
    if len(tv) != 2:
        raise LayoutError(f"expected a (thread, value) layout of rank 2, got {tv}")
    wanted = table_of(tv)
    if max(wanted) >= prod(tile):
        raise LayoutError(f"expected offsets below {prod(tile)} (the tile), got {max(wanted)}")
    threads, values = tv[0].size(), tv[1].size()
    return [
        _instructions(wanted, threads, values, tile, arch),
        _tiled_mmas(wanted, threads, values, tile, arch),
        _tiled_copy(wanted, threads, values, tile),
    ]


def _instructions(
    wanted: Table, threads: int, values: int, tile: tuple[int, ...], arch: str | None
) -> Finding:
    """Operands of instructions, and both sides of matrix copies."""

    def candidates() -> Iterator[tuple[str, Candidate]]:
        for atom in mma():
            if arch is not None and not atom.is_legal_on(arch):
                continue
            m, n, k = atom.shape_mnk
            for operand, shape in zip(_OPERANDS, ((m, k), (n, k), (m, n)), strict=True):
                layout: Layout = getattr(atom, f"{operand.lower()}_layout")
                if shape == tile and _sizes(layout) == (threads, values):
                    yield f"{operand} of {atom.name}", partial(_offsets, layout)
        for atom in copy():
            if not atom.matrices or (arch is not None and not atom.is_legal_on(arch)):
                continue
            for side, layout in (("source", atom.src_layout), ("target", atom.dst_layout)):
                if prod(tile) == 64 * atom.matrices and _sizes(layout) == (threads, values):
                    yield f"{side} of {atom.name}", partial(_offsets, layout)

    found = _compare("instructions", wanted, candidates(), _place(threads))
    return _explained(found, f"an operand of {threads} threads with {values} values each")


def _tiled_mmas(
    wanted: Table, threads: int, values: int, tile: tuple[int, ...], arch: str | None
) -> Finding:
    """Operands of TiledMMAs: warps along M, N and K, in either order of M and N; one instruction
    alone is none.
    """

    # Instructions that differ in their types only are one.
    alike: dict[tuple[Any, ...], list[Any]] = {}
    for atom in mma():
        if arch is None or atom.is_legal_on(arch):
            layouts = atom.a_text, atom.b_text, atom.c_text
            alike.setdefault((atom.shape_mnk, atom.thr_text, *layouts), []).append(atom)

    def candidates() -> Iterator[tuple[str, Candidate]]:
        for atoms in alike.values():
            groups, rest = divmod(threads, atoms[0].thr_id.size())
            if rest or groups > _MOST_WARPS or len(tile) != 2:
                continue
            for warps in _split(groups):
                for strides in _orders(warps):
                    tiled = TiledMMA(atoms[0], Layout(warps, strides))
                    for operand, tv in _operands(tiled, (tile[0], tile[1]), (threads, values)):
                        for atom in atoms:
                            text = f"{operand} of {atom.name} with atoms {tiled.atom_layout_mnk}"
                            yield text, partial(_offsets, tv)

    found = _compare("TiledMMAs", wanted, candidates(), _place(threads))
    return _explained(found, "an instruction repeated over warps and then over the tile")


def _operands(
    tiled: TiledMMA, tile: tuple[int, int], sizes: tuple[int, int]
) -> Iterator[tuple[str, Layout]]:
    m, n, k = tiled.tile_mnk
    alone = {"A": (m, k), "B": (n, k), "C": (m, n)} if tiled.atom_layout_mnk.size() == 1 else {}
    for operand in _OPERANDS:
        if alone.get(operand) == tile:
            continue
        try:
            tv = tiled.tv_layout(operand, tile)
        except LayoutError:  # a tile that its warps do not divide
            continue
        if _sizes(tv) == sizes:
            yield operand, tv


def _split(count: int) -> Iterator[tuple[int, int, int]]:
    for m in range(1, count + 1):
        for n in range(1, count // m + 1):
            if count % (m * n) == 0:
                yield m, n, count // (m * n)


def _orders(warps: tuple[int, int, int]) -> list[tuple[int, int, int]]:
    """Strides with M or N fastest, K last."""
    m, n, _ = warps
    return [(1, m, m * n)] if 1 in (m, n) else [(1, m, m * n), (n, 1, m * n)]


def _tiled_copy(wanted: Table, threads: int, values: int, tile: tuple[int, ...]) -> Finding:
    """The tiled copy that a map is: where a thread begins, plus which of its elements, by mode.

    A copy with other than such sums is none: the witness has the first place and those it would be
    the sum of.
    """
    coordinates = [_coordinate(offset, tile) for offset in wanted]
    found = Finding("tiled copies", candidates=1)
    first = coordinates[0]
    for value in range(values):
        for thread in range(threads):
            places = (thread, value * threads, thread + value * threads)
            start, step, both = (coordinates[place] for place in places)
            summed = tuple(a + b - c for a, b, c in zip(start, step, first, strict=True))
            if summed != both:
                name = _place(threads)
                told = ((place, wanted[place]) for place in (0, *places))
                found.witness = Witness(
                    tuple(dict.fromkeys((name(place), offset) for place, offset in told)),
                    f"the last of them would have to be {summed} (it is {both}), where the thread "
                    "begins plus where the value is",
                )
                return found
    copies = (_copies(wanted, threads, values, tile),)
    found.matches = [text for one in copies for text in one]
    if not found.matches:
        found.witness = Witness((), "the map is not one layout of threads over one of values")
    return found


def _copies(wanted: Table, threads: int, values: int, tile: tuple[int, ...]) -> Iterator[str]:
    by_thread = layout_of_table(wanted[:threads])
    by_value = layout_of_table(wanted[::threads])
    if by_thread is None or by_value is None:
        return
    tv = make_layout(by_thread, by_value)
    if table_of(tv) == wanted:
        text = ",".join(map(str, tile))
        yield f"TiledCopy({tv}, tiler ({text})): {TiledCopy(tv, tile).values} values a thread"


def layout_of_table(offsets: Sequence[int]) -> Layout | None:
    """The layout with some offsets, the first of which is 0; None where there is none.

    >>> print(layout_of_table([0, 4, 1, 5]), layout_of_table([0, 1, 3]))
    (2,2):(4,1) None
    """
    shape: list[int] = []
    stride: list[int] = []
    if not offsets or offsets[0] != 0:
        return None
    done = 1
    while done < len(offsets):
        step = offsets[done]
        count = 1
        while (count + 1) * done <= len(offsets) and all(
            offsets[count * done + at] == offsets[at] + count * step for at in range(done)
        ):
            count += 1
        # A part of the repeats must fill what is left evenly.
        while count > 1 and len(offsets) % (count * done):
            count -= 1
        if count == 1:
            return None
        shape.append(count)
        stride.append(step)
        done *= count
    return coalesce(Layout(tuple(shape), tuple(stride))) if shape else Layout(1, 0)


def _coordinate(offset: int, tile: tuple[int, ...]) -> tuple[int, ...]:
    parts: list[int] = []
    for size in tile:
        parts.append(offset % size)
        offset //= size
    return tuple(parts)


def _sizes(layout: Layout) -> tuple[int, int]:
    return layout[0].size(), layout[1].size()


def _place(threads: int) -> Callable[[int], str]:
    return lambda place: f"thread {place % threads}, value {place // threads}"


def _compare(
    family: str,
    wanted: Table,
    candidates: Iterable[tuple[str, Candidate]],
    name: Callable[[int], str],
) -> Finding:
    """Candidates that are the target; where none is, the fewest places that refuse all of them
    together, of one or two where such places exist.
    """
    found = Finding(family)
    refused: list[Candidate] = []
    for text, candidate in candidates:
        found.candidates += 1
        if all(map(eq, wanted, candidate())):
            found.matches.append(text)
        elif not found.matches:
            refused.append(candidate)
    if not found.matches and refused:
        wrong = {
            sum(1 << at for at, differs in enumerate(map(ne, wanted, made())) if differs)
            for made in refused
        }
        places = _cover(list(wrong), len(wanted))
        found.witness = Witness(tuple((name(at), wanted[at]) for at in places), "")
    return found


def _cover(wrong: Sequence[int], count: int) -> list[int]:
    """Places such that each candidate is wrong at one of them."""
    hits = [
        sum(1 << number for number, places in enumerate(wrong) if places >> at & 1)
        for at in range(count)
    ]
    everyone = (1 << len(wrong)) - 1
    for at, hit in enumerate(hits):
        if hit == everyone:
            return [at]
    most = sorted(range(count), key=lambda at: -hits[at].bit_count())
    for number, one in enumerate(most):
        if 2 * hits[one].bit_count() < len(wrong):
            break
        for other in most[number + 1 :]:
            if hits[one] | hits[other] == everyone:
                return sorted((one, other))
    chosen: list[int] = []
    missing = everyone
    while missing:
        best = max(range(count), key=lambda at: (hits[at] & missing).bit_count())
        chosen.append(best)
        missing &= ~hits[best]
    return sorted(chosen)


def _explained(found: Finding, why: str) -> Finding:
    if found.witness is not None:
        found.witness = Witness(found.witness.places, why)
    elif not found.matches:
        found.witness = Witness((), f"expected {why}: none was to be looked at")
    return found
