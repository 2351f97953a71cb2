"""Thread-value layouts: what maps (thread, value) to the column-major coordinate of a tile.

`TiledCopy` and `TiledMMA` repeat one instruction over a tile. An atom is any object with
`shape_mnk`, `thr_id`, `a_layout`, `b_layout`, `c_layout`; coordinates of A are m + M*k, of B
n + N*k, of C m + M*n.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Protocol

from .algebra import coalesce, composition, left_inverse, right_inverse
from .divide_product import raked_product, zipped_divide
from .errors import LayoutError
from .int_tuple import extent, to_text
from .layout import Layout
from .modes import make_layout


def is_injective(layout: Any) -> bool:
    """Whether no two coordinates have the same offset.

    >>> is_injective(Layout((4, 8), (1, 4))), is_injective(Layout((4, 8), (1, 0)))
    (True, False)
    """
    offsets = layout.offsets()
    return len(set(offsets)) == len(offsets)


def is_surjective(layout: Any, onto: int) -> bool:
    """Whether the offsets are all of 0..onto-1 and none besides."""
    return set(layout.offsets()) == set(range(onto))


def is_bijective(layout: Any, onto: int | None = None) -> bool:
    """Whether each of 0..onto-1 (default: the size) is the offset of exactly one coordinate."""
    count = layout.size()
    return count == (count if onto is None else onto) and is_surjective(layout, count)


def invert_tv(tv: Layout) -> Layout:
    """The layout from tile coordinates to thread + threads * value, of a bijective TV layout.

    >>> tv = Layout.parse("((4,8),2):((2,8),1)")
    >>> inverse = invert_tv(tv)
    >>> print(inverse, all(inverse(tv(i)) == i for i in range(64)))
    (2,32):(32,1) True
    """
    if not is_bijective(tv):
        raise LayoutError(f"expected a bijective thread-value layout to invert, got {tv}")
    return left_inverse(tv)


def make_tiled_copy_tv(threads: Layout, values: Layout) -> tuple[tuple[Any, ...], Layout]:
    """(tile extents, TV layout): threads side by side, each with a block of `values`.

    Both layouts give an index for each coordinate: of a thread, and of a value in its registers.

    >>> tiler, tv = make_tiled_copy_tv(Layout((4, 8), (8, 1)), Layout((2, 2), (1, 2)))
    >>> print(tiler, tv)
    (8, 16) ((8,4),(2,2)):((16,2),(1,8))
    """
    for layout in (threads, values):
        if not is_bijective(layout):
            raise LayoutError(f"expected a bijective layout of threads or values, got {layout}")
    tile = raked_product(threads, values)
    tiler = tuple(extent(mode.shape) for mode in tile)
    inverse = right_inverse(tile)
    tv = composition(inverse, Layout((threads.size(), values.size())))
    return tiler, tv


@dataclass(frozen=True)
class TiledCopy:
    """A copy of a tile: `tv` maps (thread, value) to the column-major coordinate of `tiler`, which
    repeats over larger tiles: along the modes as `order` lists them, the first one fastest, or in
    their own order. A thread mode of stride 0 are replicas, which copy the same elements.

    >>> copy = TiledCopy.of(Layout((4, 8), (8, 1)), Layout((1, 4)))
    >>> print(copy.tiler, copy.threads, copy.values, copy.tv_layout((8, 32)))
    (4, 32) 32 4 ((8,4),(4,2)):((32,1),(8,4))
    >>> print(TiledCopy(copy.tv, copy.tiler, order=(1, 0)).tv_layout((8, 64)))
    ((8,4),(4,2,2)):((32,1),(8,256,4))
    """

    tv: Layout
    tiler: tuple[int, ...]
    order: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        if self.order is not None and sorted(self.order) != list(range(len(self.tiler))):
            raise LayoutError(
                f"expected an order of the {len(self.tiler)} modes of the tiler "
                f"{to_text(self.tiler)}, got {to_text(self.order)}"
            )
        if len(self.tv) != 2:
            raise LayoutError(f"expected a (thread, value) layout of rank 2, got {self.tv}")
        if self.tv.cosize() > extent(self.tiler):
            raise LayoutError(
                f"expected a thread-value layout inside the tile {to_text(self.tiler)}, "
                f"got {self.tv}"
            )

    @staticmethod
    def of(threads: Layout, values: Layout, order: tuple[int, ...] | None = None) -> TiledCopy:
        """From a layout of threads and one of values, as `make_tiled_copy_tv`."""
        tiler, tv = make_tiled_copy_tv(threads, values)
        return TiledCopy(tv, tiler, order)

    @property
    def threads(self) -> int:
        """How many threads take part."""
        return self.tv[0].size()

    @property
    def values(self) -> int:
        """How many elements each thread has of one tile of `tiler`."""
        return self.tv[1].size()

    def tv_layout(self, tile: tuple[int, ...]) -> Layout:
        """(thread, (value, rest...)) of a tile that `tiler` divides."""
        return _over(tile, self)

    def transposed(self) -> TiledCopy:
        """The copy of the transpose of a tile; one of rank 1 counts as a column.

        >>> copy = TiledCopy.of(Layout((4, 8), (8, 1)), Layout((1, 4)))
        >>> print(copy.transposed().tiler, copy.transposed().tv_layout((32, 8)))
        (32, 4) ((8,4),(4,2)):((4,32),(1,128))
        """
        if len(self.tiler) > 2:
            raise LayoutError(f"expected a copy of tiles of rank 1 or 2, got {to_text(self.tiler)}")
        rows, columns = (*self.tiler, 1)[:2]
        turned = composition(Layout((rows, columns), (columns, 1)), self.tv)
        order = (1, 0) if self.order in (None, (0,)) else tuple(1 - mode for mode in self.order)
        return TiledCopy(turned, (columns, rows), None if order == (0, 1) else order)

    def partition(self, layout: Layout, thread: int) -> tuple[Layout, int]:
        """(layout of the elements of one thread, offset of the first) in a tensor's layout."""
        mine = composition(layout, self.tv_layout(_extents(layout)))
        return mine[1], mine[0](thread)

    def _repr_svg_(self) -> str | None:
        from .draw_svg import picture, tv_svg

        return picture(tv_svg, self.tv, self.tiler)


def _extents(layout: Layout) -> tuple[int, ...]:
    return tuple(extent(mode.shape) for mode in layout)


@lru_cache(maxsize=1024)
def _over(shape: tuple[int, ...], copy: TiledCopy) -> Layout:
    """The TV layout of a copy repeated over a tile, into the coordinates of the tile."""
    tile, tiler = Layout(shape), copy.tiler
    extents = _extents(tile)
    if len(extents) != len(tiler) or any(
        size % part for size, part in zip(extents, tiler, strict=True)
    ):
        raise LayoutError(
            f"expected a tile that {to_text(tiler)} divides, got {to_text(tile.shape)}"
        )
    divided = zipped_divide(tile, tiler)
    whole = composition(divided[0], copy.tv)
    repeats = [divided[1][mode] for mode in copy.order or range(len(tiler))]
    rest = [mode for mode in repeats if mode.size() != 1]
    return make_layout(whole[0], make_layout(whole[1], *rest) if rest else whole[1])


class MMAAtomLike(Protocol):
    """What `TiledMMA` reads of an instruction."""

    @property
    def shape_mnk(self) -> tuple[int, int, int]: ...
    @property
    def thr_id(self) -> Layout: ...
    @property
    def a_layout(self) -> Layout: ...
    @property
    def b_layout(self) -> Layout: ...
    @property
    def c_layout(self) -> Layout: ...


_OPERANDS = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


@dataclass(frozen=True)
class TiledMMA:
    """An MMA instruction repeated over warps (`atom_layout_mnk`) and, by them, over a tile.

    `atom_layout_mnk` maps a position (m, n, k) to the index of the group of threads that has it.
    `permutation_mnk` gives, for each of M, N and K, `None`, an extent, or a layout that maps the
    coordinates that the instructions see to those of the tile.
    """

    atom: MMAAtomLike
    atom_layout_mnk: Layout = Layout((1, 1, 1), (0, 0, 0))  # noqa: RUF009 - immutable
    permutation_mnk: tuple[Any, Any, Any] = (None, None, None)

    def __post_init__(self) -> None:
        if len(self.atom_layout_mnk) != 3 or len(self.permutation_mnk) != 3:
            raise LayoutError(
                f"expected an atom layout and a permutation of rank 3 (M,N,K), got "
                f"{self.atom_layout_mnk} and {len(self.permutation_mnk)} permutations"
            )
        if not is_bijective(self.atom_layout_mnk):
            raise LayoutError(
                f"expected a bijective layout of instructions, got {self.atom_layout_mnk}"
            )
        for mode, part in enumerate(self.permutation_mnk):
            size = part.size() if isinstance(part, Layout) else part
            covered = self.atom.shape_mnk[mode] * self.atom_layout_mnk[mode].size()
            if size is not None and size % covered:
                raise LayoutError(
                    f"expected a permutation of a multiple of {covered} in mode {'MNK'[mode]}, "
                    f"got {part}"
                )
            if isinstance(part, Layout) and not is_bijective(part):
                raise LayoutError(f"expected a bijective permutation of {'MNK'[mode]}, got {part}")

    @cached_property
    def threads(self) -> int:
        """How many threads take part."""
        return self.atom.thr_id.size() * self.atom_layout_mnk.size()

    @cached_property
    def tile_mnk(self) -> tuple[int, int, int]:
        """What one pass of all warps, and of the permutation, covers."""
        out: list[int] = []
        for mode, part in enumerate(self.permutation_mnk):
            covered = self.atom.shape_mnk[mode] * self.atom_layout_mnk[mode].size()
            size = part.size() if isinstance(part, Layout) else part
            out.append(covered if size is None else size)
        return out[0], out[1], out[2]

    def thrfrg(self, operand: str, tile: tuple[int, int]) -> Layout:
        """((thread in atom, warp of each mode), (value in atom, rest of each mode)) -> coordinate.

        `operand` is "A", "B" or "C"; `tile` its extents, (M,K), (N,K) or (M,N).
        """
        if operand not in _OPERANDS:
            raise LayoutError(f"expected operand A, B or C, got {operand!r}")
        modes = _OPERANDS[operand]
        needed = tuple(self.tile_mnk[mode] for mode in modes)
        if len(tile) != 2 or any(size % part for size, part in zip(tile, needed, strict=True)):
            raise LayoutError(
                f"expected a tile of {operand} that {to_text(needed)} divides, got {to_text(tile)}"
            )
        atom_tv: Layout = getattr(self.atom, f"{operand.lower()}_layout")
        atom_tile = tuple(self.atom.shape_mnk[mode] for mode in modes)
        seen = Layout(tile)
        permuted: list[Layout] = []
        for mode, part, size in zip(modes, seen, tile, strict=True):
            permutation = self.permutation_mnk[mode]
            if not isinstance(permutation, Layout):
                permuted.append(part)
                continue
            repeats = size // permutation.size()
            order = make_layout(permutation, Layout(repeats, permutation.size()))
            permuted.append(coalesce(composition(part, order)))
        divided = zipped_divide(make_layout(*permuted), atom_tile)
        atom = composition(divided[0], atom_tv)
        warps = tuple(self.atom_layout_mnk[mode].size() for mode in modes)
        spread = zipped_divide(divided[1], warps)
        return make_layout(
            make_layout(atom[0], *spread[0]),
            make_layout(atom[1], *spread[1]),
        )

    def tv_layout(self, operand: str, tile: tuple[int, int], partial: bool = False) -> Layout:
        """(thread, value) -> column-major coordinate of the tile; shared operands have stride 0.

        Thread t is logical thread t % T of the atom's T, in the group of index t / T; the atom's
        `thr_id` says which lane that is. Groups along K hold sums of their own of C: with `partial`
        the tile is (M, N, groups), else each of them stands for the whole sum.

        >>> from cutedialect.atoms import mma_atom
        >>> mma = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"), Layout((1, 1, 2)))
        >>> print(mma.tv_layout("C", (16, 8))[0], mma.tv_layout("C", (16, 8), partial=True)[0])
        ((4,8),2):((32,1),0) ((4,8),2):((32,1),128)
        """
        parts = self.thrfrg(operand, tile)
        modes = _OPERANDS[operand]
        along = {mode: parts[0][1 + at] for at, mode in enumerate(modes)}
        # Index of a group of threads -> its position, mode by mode.
        position = right_inverse(self.atom_layout_mnk)
        counts = tuple(mode.size() for mode in self.atom_layout_mnk)
        if partial and operand == "C":
            along[2] = Layout(counts[2], extent(tile))
        by_mode = make_layout(*(along.get(mode, Layout(counts[mode], 0)) for mode in range(3)))
        groups = composition(by_mode, composition(position, Layout(extent(counts))))
        return make_layout(make_layout(parts[0][0], groups), parts[1])

    def partition(self, operand: str, layout: Layout, thread: int) -> tuple[Layout, int]:
        """(layout of one thread's elements, offset of the first) of a tensor's rank-2 layout."""
        size = _extents(layout)
        if len(size) != 2:
            raise LayoutError(f"expected a layout of rank 2 for {operand}, got {layout}")
        mine = composition(layout, self.tv_layout(operand, (size[0], size[1])))
        return mine[1], mine[0](thread)

    def _repr_svg_(self) -> str | None:
        from .draw_svg import picture, tv_svg

        tile = self.tile_mnk[0], self.tile_mnk[1]
        return picture(tv_svg, self.tv_layout("C", tile), tile)


def make_tiled_copy_A(mma: TiledMMA) -> TiledCopy:
    """The copy in which each thread has the elements of A that it multiplies.

    >>> from cutedialect.atoms import mma_atom
    >>> mma = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"), Layout((2, 2, 1)))
    >>> copy = make_tiled_copy_A(mma)
    >>> copy.tiler, copy.threads, copy.tv == mma.tv_layout("A", (32, 16))
    ((32, 16), 128, True)
    """
    return _copy_of(mma, "A")


def make_tiled_copy_B(mma: TiledMMA) -> TiledCopy:
    """The copy in which each thread has the elements of B that it multiplies.

    >>> from cutedialect.atoms import mma_atom
    >>> mma = TiledMMA(mma_atom("mma_m16n8k16_f32_f16"), Layout((2, 2, 1)))
    >>> copy = make_tiled_copy_B(mma)
    >>> copy.tiler, copy.tv == mma.tv_layout("B", (16, 16))
    ((16, 16), True)
    """
    return _copy_of(mma, "B")


def make_tiled_copy_C(mma: TiledMMA) -> TiledCopy:
    """The copy in which each thread has the elements of C that it sums up: each is in one place.

    >>> from cutedialect.atoms import mma_atom
    >>> copy = make_tiled_copy_C(TiledMMA(mma_atom("mma_m16n8k16_f32_f16"), Layout((2, 2, 1))))
    >>> copy.tiler, sorted(copy.tv.offsets()) == list(range(32 * 16))
    ((32, 16), True)
    """
    return _copy_of(mma, "C")


def _copy_of(mma: TiledMMA, operand: str) -> TiledCopy:
    rows, columns = (mma.tile_mnk[mode] for mode in _OPERANDS[operand])
    return TiledCopy(mma.tv_layout(operand, (rows, columns)), (rows, columns))


def make_cotiled_copy(tv: Layout, data: Layout) -> TiledCopy:
    """The copy in which (thread, value) has the element at offset `tv(thread, value)` of `data`.

    The elements have to be those of the first tile of `data`, of some extents.

    >>> data = Layout((4, 8), (8, 1))
    >>> copy = make_cotiled_copy(Layout((8, 4), (4, 1)), data)
    >>> copy.tiler, [data(copy.tv(3, value)) for value in range(4)]
    ((4, 8), [12, 13, 14, 15])
    """
    indices = composition(left_inverse(data), tv)
    pairs = zip(indices.offsets(), tv.offsets(), strict=True)
    if any(index >= data.size() or data(index) != at for index, at in pairs):
        raise LayoutError(f"expected offsets of elements of {data}, got those of {tv}")
    shape = _extents(data)
    strides = tuple(Layout(shape).stride)
    last = [
        max(index // max(stride, 1) % size for index in indices.offsets())
        for size, stride in zip(shape, strides, strict=True)
    ]
    tiler = tuple(most + 1 for most in last)
    inside = composition(Layout(shape, _compact(tiler)), indices)
    if extent(tiler) != len(set(inside.offsets())):
        raise LayoutError(f"expected the elements of a whole tile of {data}, got those of {tv}")
    return TiledCopy(inside, tiler)


def _compact(tiler: tuple[int, ...]) -> tuple[int, ...]:
    """Column-major strides; unlike `compact` those of extent 1, too."""
    strides: list[int] = []
    size = 1
    for part in tiler:
        strides.append(size)
        size *= part
    return tuple(strides)
