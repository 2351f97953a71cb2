"""Memory tiles during lowering: where a tile starts, how its modes are strided, and which of its
modes may hang over the edge of the tensor. A view is followed from its kernel argument or
allocation through tiles, transposes, subviews and ring stages.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod
from typing import TYPE_CHECKING

from xdsl.ir import Attribute, SSAValue

from cutedialect.dialects.cute import MemRefType, element_bits
from cutedialect.layout import Dyn, Swizzle, flatten, idx2crd

from .scalar_builder import Scalar, ScalarBuilder

if TYPE_CHECKING:
    from .elementwise import Fragment

# Extents are below this many elements.
_EXTENT_LIMIT = 1 << 31


@dataclass(frozen=True)
class DynamicStride:
    """A run-time stride in elements (b64) that is a multiple of `divisor`."""

    value: SSAValue
    divisor: int


Stride = int | DynamicStride
Leaf = tuple[Scalar, Stride]
"""Extent (b32) and stride of one leaf of a mode."""


@dataclass(frozen=True)
class Bound:
    """The tensor ends `limit` elements (b32, a multiple of `divisor`) after the tile starts; where
    it may begin behind the tile's start, `floor` says how many elements.
    """

    limit: Scalar
    divisor: int
    floor: Scalar | None = None
    # What the limit is at most, where that is known.
    most: int | None = None
    # The limit of what it has been moved from, by multiples of `steps` elements.
    whole: Scalar | None = None
    steps: int = 0

    def rest(self, builder: ScalarBuilder, count: int) -> Scalar:
        """What is left of the limit when it is divided by a power of two: of a tile as of what it
        is a tile of, if it begins at a multiple.
        """
        whole = self.whole
        if whole is None or self.steps % count:
            whole = self.limit
        return builder.pure("and.b32", whole, count - 1)

    def moved(self, builder: ScalarBuilder, start: Scalar, divisor: int) -> Bound:
        """The bound of what starts so many elements, a multiple of `divisor`, further on."""
        limit = builder.pure("sub.s32", self.limit, start)
        floor = None if self.floor is None else builder.pure("sub.s32", self.floor, start)
        whole = self.limit if self.whole is None else self.whole
        steps = gcd(self.steps, divisor)
        return Bound(limit, gcd(self.divisor, divisor), floor, whole=whole, steps=steps)


@dataclass(frozen=True)
class Term:
    """An offset of `coord * step * stride` elements, `coord` being a b32 scalar."""

    coord: Scalar
    step: int
    stride: Stride

    @property
    def divisor(self) -> int:
        """The offset is a multiple of this many elements."""
        stride = self.stride.divisor if isinstance(self.stride, DynamicStride) else self.stride
        if isinstance(self.coord, int):
            return abs(self.coord * self.step * stride)
        return abs(self.step * stride)


@dataclass(frozen=True)
class View:
    """A tile of memory.

    `root` is the pointer of an argument (gmem) or the byte offset of an allocation (smem);
    `alignment` its alignment in bytes. `modes` holds each mode's leaves.
    """

    element: Attribute
    space: str
    root: SSAValue | int
    alignment: int
    swizzle: Swizzle | None
    modes: tuple[tuple[Leaf, ...], ...]
    bounds: tuple[Bound | None, ...]
    terms: tuple[Term, ...] = ()
    # For TMA: where the tile starts as (mode of the tensor, coordinate, times), and which mode of
    # the tensor each mode of the tile runs along (-1: none).
    root_strides: tuple[object, ...] = ()
    origin: tuple[tuple[int, Scalar, int], ...] = ()
    root_modes: tuple[int, ...] = ()
    # The leaves of the tensor's modes, and (mode, first element, extent) of the slice of it.
    root_leaves: tuple[tuple[Leaf, ...], ...] = ()
    sliced: tuple[int, Scalar, Scalar] | None = None
    # Of a tile of pixels: how far each is moved, along the modes between the first and the last.
    moved: tuple[Scalar, ...] = ()
    # Whether any of the tile lies in the tensor, as far as `bounds` do not say; the same for all
    # threads.
    guard: Scalar = True

    @property
    def bits(self) -> int:
        return element_bits(self.element)

    @property
    def element_bytes(self) -> int:
        return self.bits // 8

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the modes; a tile's are static."""
        return tuple(prod(self._static(extent) for extent, _ in mode) for mode in self.modes)

    @property
    def leaf_shape(self) -> tuple[int, ...]:
        return tuple(self._static(extent) for mode in self.modes for extent, _ in mode)

    def bound(self, mode: int) -> Bound:
        """The bound of a mode that has one."""
        found = self.bounds[mode]
        assert found is not None
        return found

    @staticmethod
    def _static(extent: Scalar) -> int:
        if not isinstance(extent, int):
            raise ValueError("expected a tile of static shape (cute.local_tile takes one)")
        return extent

    @property
    def leaf_strides(self) -> tuple[Stride, ...]:
        return tuple(stride for mode in self.modes for _, stride in mode)

    @property
    def leaf_modes(self) -> tuple[int, ...]:
        """Which mode each leaf belongs to."""
        return tuple(d for d, mode in enumerate(self.modes) for _ in mode)


@dataclass(frozen=True)
class IndexedTile:
    """A tile of numbered rows: the tensor, the tile and its coordinates in it, the modes whose
    coordinates may lie outside, the mode of the rows, their numbers, and the extents that
    coordinates count.
    """

    tensor: View
    tile: tuple[int, ...]
    coords: tuple[Scalar, ...]
    guarded: tuple[int, ...]
    mode: int
    rows: Fragment
    of: tuple[int, ...]
    # The coordinates of each row along the last mode of the tile, where they differ.
    places: tuple[int, Fragment] | None = None

    @property
    def element(self) -> Attribute:
        return self.tensor.element

    @property
    def bits(self) -> int:
        return self.tensor.bits

    @property
    def element_bytes(self) -> int:
        return self.tensor.element_bytes

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the rows, and along them; elements of a vector are rows of one."""
        extents = tuple(extent for extent in self.tile if extent != 0)
        return extents if len(extents) > 1 else (*extents, 1)

    def row(self, builder: ScalarBuilder, number: Scalar, at: int) -> View:
        """The part of the row with a number that lies in the tile's columns; the number is the
        value `at` of those that a thread has.
        """
        tile, of, coords = list(self.tile), list(self.of), list(self.coords)
        tile[self.mode], of[self.mode], coords[self.mode] = 0, 0, number
        if self.places is not None:
            mode, places = self.places
            coords[mode] = builder.get(places.array, at)
        guarded = (*self.guarded, self.mode)
        return local_tile(builder, self.tensor, tuple(tile), tuple(coords), guarded, tuple(of))


Tile = View | IndexedTile
"""A tile in memory."""


def memref_view(
    type_: MemRefType, root: SSAValue | int, dynamic: Callable[[str], SSAValue]
) -> View:
    """The view of a whole argument or allocation.

    `dynamic("b32")` or `dynamic("b64")` gives the next dynamic extent or stride, extents first.
    """
    shapes = [flatten(mode) for mode in type_.modes]
    extents = [[dynamic("b32") if isinstance(e, Dyn) else e for e in mode] for mode in shapes]
    strides = [
        [DynamicStride(dynamic("b64"), s.div) if isinstance(s, Dyn) else s for s in flatten(stride)]
        for stride in type_.stride
    ]
    modes = tuple(tuple(zip(e, s, strict=True)) for e, s in zip(extents, strides, strict=True))
    bounds = [
        Bound(leaves[0], shape[0].div if isinstance(shape[0], Dyn) else shape[0])
        if len(leaves) == 1
        else None
        for shape, leaves in zip(shapes, extents, strict=True)
    ]
    return View(
        type_.element,
        type_.space,
        root,
        type_.alignment,
        type_.swizzle,
        modes,
        tuple(bounds),
        root_strides=type_.stride,
        root_modes=tuple(range(type_.rank)),
        root_leaves=modes,
    )


def through_layout(view: View, type_: MemRefType, numbers: Sequence[SSAValue]) -> View:
    """The memory of a whole tensor as one of another type, whose run-time extents and strides are
    `numbers`.
    """
    given = iter(numbers)
    made = replace(memref_view(type_, view.root, lambda _: next(given)), terms=view.terms)
    if type_.space == "gmem":
        return made
    rank = len(made.modes)
    return replace(made, bounds=(None,) * rank, root_modes=(-1,) * rank)


def extent_of(builder: ScalarBuilder, view: View, mode: int) -> Scalar:
    """Extent of a mode as b32, dynamic leaves included."""
    extent: Scalar = 1
    for leaf, _ in view.modes[mode]:
        extent = builder.assume_nonnegative(builder.pure("mul.lo.s32", extent, leaf))
    return extent


def slice_(
    builder: ScalarBuilder, view: View, mode: int, first: Scalar, end: Scalar, is_guarded: bool
) -> View:
    """The elements from `first` to before `end` along one mode, as a tensor of its own. `first` is
    looked at where it `is_guarded`: the tensor may begin behind it.
    """
    ((whole, stride),) = view.modes[mode]
    last = builder.pure("min.s32", end, whole)
    extent = builder.assume_nonnegative(
        builder.pure("max.s32", builder.pure("sub.s32", last, first), 0)
    )
    modes, bounds = list(view.modes), list(view.bounds)
    modes[mode] = ((extent, stride),)
    outer = bounds[mode]
    floor = None if outer is None else outer.floor
    if is_guarded or floor is not None:
        begin = builder.pure("sub.s32", 0 if floor is None else floor, first)
        floor = builder.pure("max.s32", begin, 0)
    bounds[mode] = Bound(extent, 1, floor)
    terms = view.terms if first == 0 else (*view.terms, Term(first, 1, stride))
    before = 0 if view.sliced is None else view.sliced[1]
    sliced = (view.root_modes[mode], builder.total([before, first]), extent)
    return replace(view, modes=tuple(modes), bounds=tuple(bounds), terms=terms, sliced=sliced)


def local_tile(
    builder: ScalarBuilder,
    view: View,
    tile: tuple[int, ...],
    coords: tuple[Scalar, ...],
    guarded: tuple[int, ...] = (),
    of: tuple[int, ...] = (),
) -> View:
    """The tile of `view` at tile coordinates; -1 keeps a whole mode, 0 indexes and drops it. The
    coordinates of `guarded` modes may lie outside. Coordinates count the extents `of`, and no more
    of the tile is there.

    Raises `ValueError` for a tile of a mode that is nested.
    """
    modes: list[tuple[Leaf, ...]] = []
    bounds: list[Bound | None] = []
    terms = list(view.terms)
    origin = list(view.origin)
    of = of or tile
    guards = [view.guard, *_guards(builder, view, tile, coords, guarded, of)]
    for place, (mode, count, coord) in enumerate(zip(view.root_modes, of, coords, strict=True)):
        if count >= 0 and mode >= 0:
            at = coord
            if count > 1 and place in guarded:
                # Elements behind what an extent can be have the numbers of those in front.
                at = builder.pure("min.u32", coord, _tiles_of_extents(count))
            origin.append((mode, at, max(count, 1)))
    for extent, count, coord, leaves, bound in zip(
        tile, of, coords, view.modes, view.bounds, strict=True
    ):
        whole = extent_static(leaves)
        if extent < 0 or extent == count == whole:
            modes.append(leaves)
            is_whole = bound is None or (bound.limit == whole and bound.floor is None)
            bounds.append(None if is_whole else bound)
            continue
        if len(leaves) != 1:
            raise ValueError(f"expected a mode without nesting to tile by {extent}, got {leaves}")
        stride = leaves[0][1]
        if coord != 0:
            terms.append(Term(coord, max(count, 1), stride))
        if extent == 0:
            continue
        modes.append(((extent, stride),))
        bounds.append(_bound_of_tile(builder, bound, coord, extent, count))
    kept = zip(view.root_modes, tile, strict=True)
    return replace(
        view,
        modes=tuple(modes),
        bounds=tuple(bounds),
        terms=tuple(terms),
        origin=tuple(origin),
        root_modes=tuple(mode for mode, extent in kept if extent != 0),
        guard=builder.both(*guards),
    )


def pixel_tile(
    images: View, tile: Sequence[int], coords: Sequence[Scalar], moved: tuple[Scalar, ...]
) -> View:
    """A tile of pixels of images from coordinates on, of which the channels' counts tiles."""
    rank = len(images.modes)
    steps = [1] * (rank - 1) + [tile[1]]
    starts = zip(images.root_modes, coords, steps, strict=True)
    strides = [leaves[0][1] for leaves in images.modes[-2:]]
    return replace(
        images,
        modes=tuple(((extent, stride),) for extent, stride in zip(tile, strides, strict=True)),
        bounds=(None, None),
        origin=(*images.origin, *starts),
        root_modes=images.root_modes[-2:],
        moved=moved,
    )


def _bound_of_tile(
    builder: ScalarBuilder, bound: Bound | None, coord: Scalar, extent: int, count: int
) -> Bound | None:
    """The bound of a tile's mode of `extent` elements, `count` of which are there."""
    if bound is None or (
        isinstance(bound.limit, int) and bound.limit % count == 0 and bound.floor is None
    ):
        return None if count == extent else Bound(count, count, most=count)
    moved = bound.moved(builder, builder.pure("mul.lo.s32", coord, count), count)
    if count == extent:
        return moved
    limit = builder.pure("min.s32", moved.limit, count)
    return replace(moved, limit=limit, most=count, whole=None, steps=0)


def _guards(
    builder: ScalarBuilder,
    view: View,
    tile: tuple[int, ...],
    coords: tuple[Scalar, ...],
    guarded: tuple[int, ...],
    of: tuple[int, ...],
) -> list[Scalar]:
    """What has to hold for a tile to be in its tensor, beside the bounds of its own modes."""
    found: list[Scalar] = []
    facts = zip(tile, of, coords, view.bounds, strict=True)
    for mode, (extent, count, coord, bound) in enumerate(facts):
        if extent == 0 and bound is not None and bound.floor is not None:
            found.append(builder.pure("setp.ge.s32", coord, bound.floor))
        if mode not in guarded:
            continue
        if extent > 0 and count == 1:
            found.append(builder.pure("setp.ge.s32", coord, 0))
        elif extent > 0:
            # Tiles start at multiples of what coordinates count: this one lies in front of the
            # tensor whole, or behind what an extent can be. A negative number is a large one.
            found.append(builder.pure("setp.lt.u32", coord, _tiles_of_extents(count)))
        else:
            # A negative number is a large one without its sign.
            found.append(builder.pure("setp.lt.u32", coord, extent_of(builder, view, mode)))
    return found


def _tiles_of_extents(count: int) -> int:
    """How many tiles of so many elements begin within the longest extent there can be."""
    return -(-_EXTENT_LIMIT // count)


def extent_static(leaves: tuple[Leaf, ...]) -> int | None:
    extents = [extent for extent, _ in leaves]
    return prod(extents) if all(isinstance(each, int) for each in extents) else None  # type: ignore[type-var, return-value]


def transpose(view: View) -> View:
    """The two modes exchanged; rank 1 counts as (n, 1)."""
    modes, bounds, roots = view.modes, view.bounds, view.root_modes
    if len(modes) == 1:
        modes, bounds, roots = (*modes, ((1, 0),)), (*bounds, None), (*roots, -1)
    return replace(view, modes=modes[::-1], bounds=bounds[::-1], root_modes=roots[::-1])


def subview(
    builder: ScalarBuilder, view: View, origin: tuple[int, ...], shape: tuple[int, ...]
) -> View:
    """A smaller tile at a static coordinate."""
    modes: list[tuple[Leaf, ...]] = []
    bounds: list[Bound | None] = []
    terms = list(view.terms)
    starts = [
        (mode, at, 1) for mode, at in zip(view.root_modes, origin, strict=True) if at and mode >= 0
    ]
    for at, extent, leaves, bound in zip(origin, shape, view.modes, view.bounds, strict=True):
        digits = idx2crd(at, tuple(size for size, _ in leaves))  # type: ignore[arg-type]
        terms += [
            Term(1, digit, stride)
            for (_, stride), digit in zip(leaves, digits, strict=True)  # type: ignore[arg-type]
            if digit
        ]
        is_part = len(leaves) == 1 or extent != extent_static(leaves)
        modes.append(_first(leaves, extent) if is_part else leaves)
        if bound is not None:
            bound = bound.moved(builder, at, at)
        bounds.append(bound)
    return replace(
        view,
        modes=tuple(modes),
        bounds=tuple(bounds),
        terms=tuple(terms),
        origin=(*view.origin, *starts),
    )


def _first(leaves: tuple[Leaf, ...], extent: int) -> tuple[Leaf, ...]:
    """The leaves of the first elements of a mode: whole ones, and a part of the one behind them."""
    found: list[Leaf] = []
    for size, stride in leaves[:-1]:
        assert isinstance(size, int)
        if extent <= size:
            break
        found.append((size, stride))
        extent //= size
    return (*found, (extent, leaves[len(found)][1]))


def stage(view: View, index: Scalar) -> View:
    """The ring stage `index`: the last mode fixed."""
    stride = view.modes[-1][0][1]
    return replace(
        view,
        modes=view.modes[:-1],
        bounds=view.bounds[:-1],
        terms=(*view.terms, Term(index, 1, stride)),
        root_modes=view.root_modes[:-1],
    )
