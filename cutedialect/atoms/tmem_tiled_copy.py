"""Loads and stores of whole tiles of tensor memory: which element of a tile lies in which register
of the four warps that reach it, for any atom and any layout of accumulators or operands. What CuTe
calls `make_tmem_copy`. Source: PTX ISA 9.1, "Tensor Memory: Access restrictions", "Data Movement
Shape".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product

from cutedialect.atoms.tmem_copy_atoms import TmemCopyAtom
from cutedialect.atoms.tmem_layouts import LANE, WARP_LANES
from cutedialect.layout import Layout, LayoutError, TiledCopy, coalesce, flatten

_WARPS = 4
_Modes = list[tuple[int, int]]


def make_tmem_copy(atom: TmemCopyAtom, tile: Layout, bits: int = 32) -> TiledCopy:
    """How 128 threads hold a (rows, columns) tile of tensor memory that `atom` loads or stores.

    `tile` maps to addresses in elements of `bits` bits, as `accumulator_layout` (32 bits: one
    element in a column, 16-bit ones too) and `operand_layout` do. Warp w has what lies in the lanes
    32 w to 32 w + 31 and no more. Values count registers of the first instruction, then those of
    the next ones: the upper 16 lanes of a warp behind the lower, then along the columns.
    `LayoutError` where instructions of the atom reach elements that are not of the tile.

    >>> from cutedialect.atoms.tmem_copy_atoms import find_tmem_copy
    >>> from cutedialect.atoms.tmem_layouts import accumulator_layout
    >>> load = find_tmem_copy(True, 64, "16x256b")
    >>> print(make_tmem_copy(load, accumulator_layout(128, 64)).tv)
    ((4,8,4),(2,2,8,2)):((256,1,32),(128,8,1024,16))
    >>> print(make_tmem_copy(load, accumulator_layout(64, 64)).tv)
    ((4,8,4),(2,2,8)):((128,1,16),(64,8,512))
    """
    if atom.kind not in ("tcgen05.ld", "tcgen05.st"):
        raise LayoutError(f"expected an atom between tensor memory and registers, got {atom.name}")
    if len(tile) != 2 or not tile.is_static():
        raise LayoutError(f"expected the static layout of a tile (rows, columns), got {tile}")
    places = {tile(i): i for i in range(tile.size())}
    threads, values = _addresses(atom, tile, places, 32 // bits)
    mine = [_in_tile(part, places, tile) for part in (threads, values)]
    held = [
        [(addresses(i), part(i)) for i in range(part.size())]
        for addresses, part in zip(map(_layout, (threads, values)), mine, strict=True)
    ]
    found = {places.get(t + v): x + y for (t, x), (v, y) in product(*held)}
    if len(found) != tile.size() or any(at != coordinate for at, coordinate in found.items()):
        raise LayoutError(
            f"expected a tile in all lanes that warps reach by {atom.name}, {atom.lanes} at a "
            f"time, got {tile}"
        )
    tv = Layout(tuple(part.shape for part in mine), tuple(part.stride for part in mine))
    return TiledCopy(tv, (tile[0].size(), tile[1].size()))


def _addresses(
    atom: TmemCopyAtom, tile: Layout, places: Mapping[int, int], packed: int
) -> tuple[_Modes, _Modes]:
    """Modes of threads and of values to addresses, of which a column holds `packed`."""
    lane = LANE * packed
    columns = {at % lane // packed for at in places}
    if columns != set(range(len(columns))) or len(columns) % atom.columns:
        raise LayoutError(
            f"expected whole instructions of {atom.columns} columns for {atom.name}, got "
            f"{len(columns)} columns of {tile}"
        )
    fragment = atom.dst_layout if atom.kind == "tcgen05.ld" else atom.src_layout
    threads, values = (
        [
            (extent, step % atom.lanes * lane + step // atom.lanes * packed)
            for extent, step in _modes(part)
        ]
        for part in fragment
    )
    threads.append((_WARPS, WARP_LANES * lane))
    half = WARP_LANES // 2 * lane
    if packed > 1:
        values.insert(0, (packed, 1))
    if atom.lanes * lane == half and half in places:
        values.append((2, half))
    values.append((len(columns) // atom.columns, atom.columns * packed))
    return threads, values


def _modes(part: Layout) -> _Modes:
    """(extent, stride) of each flat mode but those of one element."""
    pairs = zip(flatten(part.shape), flatten(part.stride), strict=True)
    return [(int(extent), int(step)) for extent, step in pairs if extent != 1]  # pyright: ignore[reportArgumentType]


def _layout(modes: _Modes) -> Layout:
    return Layout(tuple(extent for extent, _ in modes), tuple(step for _, step in modes))


def _in_tile(modes: Sequence[tuple[int, int]], places: dict[int, int], tile: Layout) -> Layout:
    """Modes of addresses as modes of the tile's coordinates: factor by factor, since a mode may go
    through several of the tile's.
    """
    found: _Modes = []
    for extent, step in modes:
        done = 1
        for factor in _factors(extent):
            at = places.get(step * done)
            if at is None:
                raise LayoutError(f"expected a tile that has address {step * done}, got {tile}")
            found.append((factor, at))
            done *= factor
    return coalesce(_layout(found))


def _factors(number: int) -> list[int]:
    """The prime factors of a number, smallest first.

    >>> _factors(12)
    [2, 2, 3]
    """
    found: list[int] = []
    factor = 2
    while number > 1:
        while number % factor == 0:
            found.append(factor)
            number //= factor
        factor += 1
    return found
