"""Thread-value layouts of tiles: MMA operands, coalesced copies, and what follows from them.

Every layout maps (thread, value) to the column-major coordinate of a tile of rank 1 or 2; each mode
of it stays inside one mode of the tile.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import gcd, prod

from cutedialect.atoms import WARP_SIZE, MmaAtom
from cutedialect.atoms.tiled_mma import TiledMma
from cutedialect.dialects.cute import FragmentType, MemRefType, mode_of, threads_along
from cutedialect.layout import Layout, TiledCopy, TiledMMA, coalesce, flatten

Modes = Sequence[tuple[int, int]]
Parts = tuple[tuple[int, ...], frozenset[int]]
GROUP_WARPS = 4
# Columns of a product, and those after which it is the turn of the same warpgroup again.
_COLUMNS, _TURNS = 8, 32
# Elements of a thread beside each other in a tile of which it holds as much of some columns.
_VALUES = 4
_GROUP = 32 * GROUP_WARPS
ROWS_SHAPE = "32x32b"
"""The shape of loads and stores of tensor memory with a row for each thread."""
# Modes of an accumulator of which warps along K have a part each: (M, N, warps).
_PARTIAL_RANK = 3


def modes_of(layout: Layout) -> Modes:
    """Flat (extent, stride) pairs, size-1 modes dropped."""
    pairs = zip(flatten(layout.shape), flatten(layout.stride), strict=True)
    return tuple((extent, stride) for extent, stride in pairs if extent != 1)


def tv_layout(threads: Modes, *values: Modes) -> Layout:
    """Layout with one thread mode and one value mode for each group of `values`; modes of one
    element are dropped.
    """
    (thread, along), *groups = (_nested(modes) for modes in (threads, *values))
    if len(groups) == 1:
        return Layout((thread, groups[0][0]), (along, groups[0][1]))
    shapes, strides = zip(*groups, strict=True)
    return Layout((thread, shapes), (along, strides))


def _nested(modes: Modes) -> tuple[object, object]:
    """The shape and stride of some modes, or of the only one."""
    kept = [mode for mode in modes if mode[0] != 1] or [(1, 0)]
    shape, stride = zip(*kept, strict=True)
    return (shape, stride) if len(kept) > 1 else kept[0]


def tiled_mma(atom: MmaAtom, m: int | None, n: int | None, warps: tuple[int, int]) -> TiledMMA:
    """An atom repeated over a grid of warps (or warpgroups), of which each owns one block of rows
    and columns: a permutation puts its products next to each other. None for a mode that the
    operand has not.

    >>> from cutedialect.atoms import mma_atom
    >>> print(tiled_mma(mma_atom("mma_m16n8k16_f32_f16"), 128, None, (2, 4)).permutation_mnk[0])
    (16,2,4):(1,64,16)
    """
    wm, wn = warps
    blocks: list[Layout | None] = []
    for size, step, count in zip((m, n), atom.shape_mnk, warps, strict=False):
        rest = 0 if size is None else size // count // step
        blocks.append(Layout((step, count, rest), (1, step * rest, step)) if rest else None)
    grid = Layout((wm, wn, 1), (1, wm, 0))
    return TiledMMA(atom, grid, (blocks[0], blocks[1], None))  # pyright: ignore[reportArgumentType]


@lru_cache(maxsize=1024)
def mma_accumulator(atom: MmaAtom, tile: tuple[int, ...], warps: tuple[int, int]) -> Layout:
    """C of a tile (M,N): each warp owns one contiguous block of it.

    Value modes are (atom values, rest M, rest N).
    """
    rows, columns = tile
    return _flattened(tiled_mma(atom, rows, columns, warps).tv_layout("C", (rows, columns)))


@lru_cache(maxsize=1024)
def mma_operand(atom: MmaAtom, which: str, tile: tuple[int, int], warps: tuple[int, int]) -> Layout:
    """A of a tile (M,K), or B of a tile (N,K); warps that share it hold it with stride 0.

    Value modes are (atom values, rest M or N, rest K).
    """
    m, n = (tile[0], None) if which == "a" else (None, tile[0])
    return _flattened(tiled_mma(atom, m, n, warps).tv_layout(which.upper(), tile))


@lru_cache(maxsize=1024)
def named_layout(mma: TiledMma, which: str, tile: tuple[int, ...]) -> Layout:
    """An operand "A", "B" or "C" of a tile as a TiledMMA that is named has it; C of rank 3 is what
    each of the warps along K has summed up.

    The depth of a tile is cut into parts of `mma.depth`, one after the other, so that an extent of
    K says nothing here.
    """
    depth = mma.tiled.permutation_mnk[2]
    order = depth if isinstance(depth, Layout) else None
    tiled = replace(mma.tiled, permutation_mnk=(*mma.tiled.permutation_mnk[:2], order))
    is_partial = len(tile) == _PARTIAL_RANK
    return _flattened(tiled.tv_layout(which, (tile[0], tile[1]), is_partial))


def _flattened(tv: Layout) -> Layout:
    """A layout of one thread mode and several value modes, each of them flat."""
    return tv_layout(modes_of(tv[0]), *(modes_of(part) for part in tv[1]))


def tensor_accumulator(tile: tuple[int, ...], warps: tuple[int, int]) -> Layout:
    """An accumulator of a tile (M,N) as warps load it from tensor memory: warp w of a warpgroup
    reaches the lanes from 32 w on, which hold rows from 32 w on, or from 16 w on where M is 64. A
    thread gets what it holds of an `mma.sync` accumulator, for every 16 rows and 8 columns.
    Warpgroups that share rows take columns in turns, so that all of them have some of each part.

    >>> print(tensor_accumulator((128, 64), (4, 1)))
    ((4,8,4),(2,2,8,2)):((256,1,32),(128,8,1024,16))
    >>> print(tensor_accumulator((128, 64), (4, 2)))
    ((4,8,4,2),(2,2,2,2,2)):((256,1,32,2048),(128,8,1024,4096,16))
    """
    (m, n), (wm, wn) = tile, warps
    rows = min(m, 128)
    groups = wm // GROUP_WARPS
    turn = columns_in_turn(n, wn)
    warp = ((GROUP_WARPS, rows // GROUP_WARPS), (groups, m // groups), (wn, turn * m))
    columns = (turn // _COLUMNS, _COLUMNS * m), (n // (wn * turn), wn * turn * m)
    values = ((2, m), (2, 8), *columns, (rows // 64, 16), (m // groups // rows, rows))
    return tv_layout(((4, 2 * m), (8, 1), *warp), values)


def columns_in_turn(columns: int, groups: int) -> int:
    """How many columns next to each other warpgroups that share rows of a tile have each."""
    least = max(_COLUMNS, _TURNS // groups // _COLUMNS * _COLUMNS)
    return least if groups > 1 and columns % (groups * least) == 0 else columns // groups


def tensor_rows(tile: tuple[int, ...], warps: int) -> Layout:
    """An accumulator of a tile (M,N), M a multiple of 128, with a row, or the same of each 128, for
    a thread: what reduces rows meets no other thread.

    >>> print(tensor_rows((256, 64), 4))
    (128,(64,2)):(1,(256,128))
    """
    m, n = tile
    groups = warps // GROUP_WARPS
    threads = ((_GROUP, 1), (groups, m // groups))
    return tv_layout(threads, ((n, m), (m // groups // _GROUP, _GROUP)))


def tensor_shape(type_: FragmentType) -> str:
    """The shape of loads and stores of tensor memory that a register tile is made for."""
    first, second = (type_.bound((thread, 0)) for thread in (0, 1))
    return ROWS_SHAPE if second - first == 1 else "16x256b" if type_.bits == 32 else "16x128b"


def accumulator_order(atom: MmaAtom) -> Layout:
    """Which column of an accumulator stands where in the depth of an atom, if every thread makes
    its part of A of the values that it holds of the accumulator: in order for 16-bit types.

    >>> from cutedialect.atoms.wgmma_atoms import wgmma_atom
    >>> print(accumulator_order(wgmma_atom("wgmma_m64n128k32_f32_e4m3_e4m3")))
    (2,2,4,2):(1,8,2,16)
    """
    rows, _, depth = atom.shape_mnk
    bits = [1 << i for i in range(depth.bit_length() - 1)]
    of_threads = [
        [step for extent, stride in modes_of(layout[0]) for step in _bits(extent, stride // rows)]
        for layout in (atom.a_layout, atom.c_layout)
    ]
    of_values = [[bit for bit in bits if bit not in steps] for steps in of_threads]
    place, column = ([*a, *b] for a, b in zip(of_threads, of_values, strict=True))
    steps = dict(zip(place, column, strict=True))
    return coalesce(Layout((2,) * len(bits), tuple(steps[bit] for bit in bits)))


def _bits(extent: int, stride: int) -> list[int]:
    """The powers of two that a mode along the depth adds up."""
    return [stride << i for i in range(extent.bit_length() - 1)] if stride else []


def reordered(tv: Layout, rows: int, order: Layout) -> Layout:
    """The layout of an operand (rows, depth) whose depth is in the order that `order` gives for
    each part of its size.
    """

    def moved(modes: Modes) -> Modes:
        out: list[tuple[int, int]] = []
        for extent, stride in modes:
            step = stride // rows
            if step == 0 or step >= order.size():
                out.append((extent, stride))
                continue
            for bit in _bits(extent, step):
                at = order(bit) * rows
                if out and out[-1][0] * out[-1][1] == at and out[-1][1] >= rows:
                    out[-1] = (2 * out[-1][0], out[-1][1])
                else:
                    out.append((2, at))
        return tuple(out)

    return tv_layout(moved(modes_of(tv[0])), *(moved(modes_of(part)) for part in tv[1]))


@lru_cache(maxsize=1024)
def copied(copy: TiledCopy, shape: tuple[int, ...]) -> Layout:
    """The layout of a register tile that a tiled copy moves: one thread mode and one value mode,
    whose own modes lie along rows or along columns where they can be parted so.

    >>> copy = TiledCopy.of(Layout((4, 8), (8, 1)), Layout((1, 4)))
    >>> print(copied(copy, (8, 64)))
    ((8,4),(4,2,2)):((32,1),(8,4,256))
    >>> print(copied(TiledCopy.of(Layout((32, 4)), Layout((2, 1))), (64, 64)))
    ((32,4),(2,16)):((2,64),(1,256))
    """
    tv = copy.tv_layout(shape)
    return tv_layout(*(_parted(modes_of(part), shape[0]) for part in tv))


def _parted(modes: Modes, rows: int) -> Modes:
    """Modes that go down a column and on in the next one as two."""
    parted: list[tuple[int, int]] = []
    for extent, stride in modes:
        down = rows // stride if 0 < stride < rows and rows % stride == 0 else extent
        if down < extent and extent % down == 0:
            parted += [(down, stride), (extent // down, rows)]
        else:
            parted.append((extent, stride))
    return tuple(parted)


@lru_cache(maxsize=1024)
def coalesced(
    shape: tuple[int, ...],
    contiguous: int,
    vector: int,
    threads: int,
    most_along: int | None = None,
) -> TiledCopy:
    """Neighboring threads on neighboring vectors of the mode that is contiguous in memory, at most
    `most_along` of them; what they copy at once repeats along that mode first.

    Threads that find no element of their own repeat another's (stride 0).

    >>> copy = coalesced((64, 64), 1, 8, 128)
    >>> print(copy.tv, copy.tiler, copied(copy, (64, 64)))
    ((8,16),8):((128,1),16) (16, 64) ((8,16),(8,4)):((512,1),(64,16))
    """
    extents = shape + (1,) * (2 - len(shape))
    other = 1 - contiguous
    vector = gcd(vector, extents[contiguous])
    left = [extents[contiguous] // vector, extents[other]]
    given, most = [1, 1], threads if most_along is None else most_along
    # (threads, the mode along which they are: the contiguous one, the other or none, their step).
    modes: list[tuple[int, int, int]] = []

    def give(count: int, at: int) -> None:
        """Threads along a mode of the tile (-1: none), beside those in front of them."""
        if count == 1:
            return
        whole = modes[-1][0] * count if modes else 0
        if modes and modes[-1][1] == at and whole & (whole - 1) == 0:
            modes[-1] = whole, at, modes[-1][2]
        else:
            modes.append((count, at, given[at] if at >= 0 else 0))

    # Lanes by powers of two, so that reductions meet in shuffles; then warps, of any number.
    lanes = gcd(threads, WARP_SIZE)
    for room in (lanes, threads // lanes):
        spare = room
        for at in (0, 1):
            count = gcd(left[at], gcd(spare, most) if at == 0 else spare)
            give(count, at)
            left[at] //= count
            given[at] *= count
            spare //= count
            if at == 0:
                most //= count
        give(spare, -1)
    covered = {contiguous: vector * given[0], other: given[1]}
    steps = (1, covered[0])
    step = {0: vector * steps[contiguous], 1: steps[other], -1: 0}
    of_threads = tuple((count, stride * step[at]) for count, at, stride in modes)
    tv = tv_layout(of_threads, ((vector, steps[contiguous]),))
    return _copy(tv, covered, len(shape), (contiguous, other))


def _copy(tv: Layout, covered: dict[int, int], rank: int, order: tuple[int, int]) -> TiledCopy:
    """A copy of what threads cover at once of either mode, of tiles of rank 1 or 2."""
    tiler = tuple(covered[mode] for mode in range(rank))
    return TiledCopy(tv, tiler, order if rank == 2 and order != (0, 1) else None)


@lru_cache(maxsize=256)
def blocked(
    shape: tuple[int, ...],
    contiguous: int,
    vectors: tuple[int, int],
    threads: int,
    stored: int | None = None,
) -> TiledCopy:
    """Blocks of elements for each thread, a vector along either mode: both a tile that is
    contiguous along one mode and its transpose, contiguous along the other, move in vectors.

    A warp is 8 threads along the mode that is contiguous and 4 across: whole lines of 128 bytes on
    one side, half ones on the other. Where the tile is stored along one mode alone, `stored`, 16
    threads are along that: sectors that a store fills in part cost more than those that a load
    reads in part. Where there are fewer blocks than threads, vectors are shorter; threads that find
    no block of their own even so repeat another's.

    >>> print(blocked((64, 64), 1, (8, 8), 64).tv)
    ((8,4,2),(8,8)):((512,8,32),(64,1))
    >>> print(copied(blocked((16, 48), 1, (8, 8), 32), (16, 48)))
    ((4,8),(4,2,3)):((64,2),(16,1,256))
    >>> print(blocked((128, 128), 1, (8, 8), 256, 0).tv)
    ((2,16,8),(8,8)):((1024,8,2048),(128,1))
    """
    other = 1 - contiguous
    sizes = gcd(vectors[contiguous], shape[contiguous]), gcd(vectors[other], shape[other])
    while True:
        copy, spare = _in_blocks(shape, contiguous, sizes, threads, stored)
        if spare == 1 or sizes == (1, 1):
            return copy
        one, two = sizes
        sizes = (one // 2, two) if one > two else (one, two // 2)


def _in_blocks(
    shape: tuple[int, ...],
    contiguous: int,
    sizes: tuple[int, int],
    threads: int,
    stored: int | None,
) -> tuple[TiledCopy, int]:
    """A tile in blocks of these sizes, and how many threads hold the same."""
    other = 1 - contiguous
    blocks = shape[contiguous] // sizes[0], shape[other] // sizes[1]
    most = 8 if stored is None else 16 if stored == contiguous else 2
    lanes = gcd(blocks[0], most), gcd(blocks[1], WARP_SIZE // most)
    if lanes[0] < most:
        lanes = lanes[0], gcd(blocks[1], WARP_SIZE // lanes[0])
    elif stored is not None and lanes[0] * lanes[1] < WARP_SIZE:
        lanes = gcd(blocks[0], WARP_SIZE // lanes[1]), lanes[1]
    warps = threads // (lanes[0] * lanes[1])
    down = gcd(blocks[1] // lanes[1], warps)
    right = gcd(blocks[0] // lanes[0], warps // down)
    covered = {
        contiguous: sizes[0] * lanes[0] * right,
        other: sizes[1] * lanes[1] * down,
    }
    steps = (1, covered[0])
    step, cross = steps[contiguous], steps[other]
    along, across = sizes[0] * step, sizes[1] * cross
    spare = warps // (down * right)
    thread_modes = (
        (lanes[0], along),
        (lanes[1], across),
        (down, lanes[1] * across),
        (right, lanes[0] * along),
        (spare, 0),
    )
    tv = tv_layout(thread_modes, ((sizes[0], step), (sizes[1], cross)))
    return _copy(tv, covered, 2, (other, contiguous)), spare


def in_vectors(tv: Layout, shape: tuple[int, ...], mode: int) -> Layout:
    """The same elements with a thread's neighbors along a mode first, where it has some.

    >>> print(in_vectors(Layout((32, (8, 4)), (64, (4, 1))), (4, 512), 0))
    (32,(4,8)):(64,(1,4))
    """
    step = 1 if mode == 0 else shape[0]
    values = modes_of(tv[1])
    first = [each for each in values if each[1] == step]
    if not first or values[0] == first[0]:
        return tv
    return tv_layout(modes_of(tv[0]), (*first, *(each for each in values if each[1] != step)))


def group_parts(have: Layout, want: Layout) -> Parts | None:
    """The parts of a tile that warpgroups hold, if there are several and each finds in its own what
    it wants in another layout: where each part begins, and the elements of the first one. What
    several hold alike is no part of one: one of them writes it, and all have to meet.

    >>> rows = Layout(((4, 32, 2), 2), ((0, 1, 64), 32))
    >>> group_parts(rows, rows)[0], group_parts(Layout((256, 2), (0, 1)), Layout((256, 2), (0, 1)))
    ((0, 64), None)
    """
    found = [_first_group(tv) for tv in (have, want)]
    if found[0] is None or found[1] is None:
        return None
    (begins, mine), (others, wanted) = found[0], found[1]
    return (begins, mine) if begins == others and wanted <= mine else None


def _first_group(tv: Layout) -> Parts | None:
    """Offsets of the warpgroups' parts, and the elements of the first."""
    threads, values = (part.offsets() for part in tv)
    begins, first = threads[::_GROUP], threads[:_GROUP]
    if len(threads) <= _GROUP or len({*begins}) < len(begins):
        return None
    if threads != [begin + at for begin in begins for at in first]:
        return None
    return tuple(begins), frozenset(at + value for at in first for value in values)


def parts_along(tv: Layout, shape: tuple[int, ...], mode: int) -> tuple[tuple[int, int], Layout]:
    """The shape and layout of a tile with one element along a mode for each thread that holds a
    part of that mode: threads in order, values as along the other mode.
    """
    count = prod(extent for _, extent in threads_along(tv, shape, mode))
    small = (count, shape[1]) if mode == 0 else (shape[0], count)
    rows = shape[0]
    place = 1 if mode == 0 else rows
    threads: list[tuple[int, int]] = []
    for extent, stride in modes_of(tv[0]):
        along = 0 if stride < rows else 1
        if stride == 0:
            threads.append((extent, 0))
        elif along == mode:
            threads.append((extent, place))
            place *= extent
        else:
            threads.append((extent, stride if along == 0 else stride // rows * small[0]))
    values = [
        (extent, stride if mode == 1 else stride // rows * small[0])
        for extent, stride in modes_of(tv[1])
        if stride and (stride < rows) == (mode == 1)
    ]
    return small, tv_layout(tuple(threads), tuple(values))


@lru_cache(maxsize=4096)
def project(tv: Layout, shape: tuple[int, ...], small: tuple[int, ...]) -> Layout:
    """The layout of a tile that broadcasts from `small` to `shape`, or is reduced to it.

    Removed thread modes stay with stride 0, removed value modes vanish.
    """
    if shape == small:
        return tv
    rank = max(2, len(shape))
    padded = small + (1,) * (rank - len(small))
    full = shape + (1,) * (rank - len(shape))

    def keep(modes: Modes, drop: bool) -> Modes:
        out: list[tuple[int, int]] = []
        for extent, stride in modes:
            mode = mode_of(stride, full)
            moved = stride // prod(full[:mode]) * prod(padded[:mode])
            if stride == 0 or (padded[mode] == 1 and full[mode] != 1):
                moved = 0
            if moved or not drop:
                out.append((extent, moved))
        return tuple(out)

    return tv_layout(keep(modes_of(tv[0]), False), keep(modes_of(tv[1]), True))


def columns_of(tv: Layout, rows: int, chunk: int) -> Layout | None:
    """The layout of `chunk` neighboring columns of a tile, if every thread holds values in each
    such part of it alike; else None.
    """
    span = rows * chunk
    if any(extent * stride > span for extent, stride in modes_of(tv[0])):
        return None
    kept: list[tuple[int, int]] = []
    for extent, stride in modes_of(tv[1]):
        if stride >= span:
            continue
        if stride * extent > span and stride >= rows:
            if span % stride:
                return None
            extent = span // stride
        kept.append((extent, stride))
    return tv_layout(modes_of(tv[0]), tuple(kept))


def layouts_of_columns(
    tv: Layout, shape: tuple[int, int], first: int, count: int, threads: int
) -> tuple[Layout, Layout]:
    """The layouts of a tile and of `count` of its columns from number `first` on, which stay with
    their threads: `tv` if every thread holds values in each such part alike, else another one.

    >>> halves = Layout(((32, 2), 16), ((1, 512), 32))  # Of 32 columns each of two warps has 16.
    >>> print(*layouts_of_columns(halves, (32, 32), 16, 16, 64))
    ((4,16),(4,2,2)):((128,1),(32,16,512)) ((4,16),(4,2)):((128,1),(32,16))
    """
    rows, columns = shape
    part = columns_of(tv, rows, count)
    if part is not None and first % count == 0:
        return tv, part
    step = gcd(first, count, columns)
    block = copied(coalesced((rows, step), 1, _VALUES, threads), (rows, step))
    repeats = (columns // step, rows * step)
    whole = tv_layout(modes_of(block[0]), (*modes_of(block[1]), repeats))
    part = columns_of(whole, rows, count)
    assert part is not None
    return whole, part


def divides_mode(tv: Layout, shape: tuple[int, ...], mode: int, groups: int) -> bool:
    """Whether the threads, cut into `groups` of neighbors, hold an equal block of rows (mode 0) or
    of columns of a tile each.
    """
    offsets = tv[0].offsets()
    size, block = len(offsets) // groups, shape[mode] // groups
    if len(offsets) % groups or shape[mode] % groups:
        return False
    step = 1 if mode == 0 else shape[0]
    if any(
        offsets[group * size + thread] != offsets[thread] + group * block * step
        for group in range(groups)
        for thread in range(size)
    ):
        return False

    def last(of: Iterable[int]) -> int:
        return max(offset // step % shape[mode] for offset in of)

    return last(offsets[:size]) + last(tv[1].offsets()) < block


def same_elements(one: Layout, other: Layout) -> bool:
    """Whether every thread holds the same elements in both layouts."""
    first, mine = (part.offsets() for part in one)
    second, yours = (part.offsets() for part in other)
    if first == second:
        return sorted(mine) == sorted(yours)
    return len(first) == len(second) and all(
        {a + value for value in mine} == {b + value for value in yours}
        for a, b in zip(first, second, strict=True)
    )


def sector_efficiency(tile: FragmentType, memory: MemRefType) -> float:
    """Useful share of the 32-byte sectors that the first warp touches with its first vectors, where
    it stores a bound tile; a run-time stride counts as large.
    """
    strides = [stride if isinstance(stride, int) else 1 << 20 for stride in memory.stride]
    down, along = (*strides, 0)[:2]
    rows, bits = tile.shape[0], tile.bits

    def address(at: int) -> int:
        return (at % rows) * down + (at // rows) * along

    lanes, values = (part.offsets() for part in tile.bound)
    nearest = [value for value in values if address(value) < 16 * 8 // bits] or values[:1]
    elements = {address(lane + value) for lane in lanes[:32] for value in nearest}
    touched = {element * bits // 256 for element in elements}
    return len(elements) * bits / (256 * len(touched))
