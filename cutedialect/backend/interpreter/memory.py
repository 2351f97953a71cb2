"""Memory: tensors and tiles of them as views of flat arrays. A view knows where its elements lie
and which of its coordinates are inside of the tensor; reads outside give 0, writes there are lost.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from typing import Any, NamedTuple

import numpy as np

from cutedialect.layout import Layout, Swizzle, flatten

from .elements import held, held_as, to_float

Combine = Callable[[np.ndarray, np.ndarray], np.ndarray]
Leaves = tuple[tuple[int, int], ...]
# Elements of the largest tensor of which a copy in f32 is kept.
_MOST_KEPT = 1 << 24
_ALL = slice(None)
# Tiles of a view that are kept.
_MOST_TILES = 1 << 14


class Memory:
    """Flat storage. Values are held as f32 where elements are narrower floats, so a tensor that is
    only read is converted once, as a whole; `is_shared` says that other tensors lie there too.

    A tile of shared memory is kept as it was written until another view of the buffer is used: most
    are read as they were written, and putting elements in their swizzled places takes time.
    """

    def __init__(self, data: np.ndarray, is_shared: bool = False, is_buffer: bool = False) -> None:
        self.data = data
        self.is_buffer = is_buffer
        self.held = held_as(data.dtype)
        is_narrow = self.held != data.dtype
        self.keeps = is_narrow and not (is_shared or is_buffer) and data.size <= _MOST_KEPT
        self.written: tuple[View, np.ndarray] | None = None
        # Bytes, since NumPy takes no buffer of elements that it does not know itself.
        self._stored = data, data.view(np.uint8)
        self._wide: tuple[np.ndarray, np.ndarray] | None = None

    def values(self) -> np.ndarray:
        """The storage, or its converted copy; the elements of either are at the same places."""
        return self._source()[0]

    def strided(self, first: int, leaves: Leaves, stored: bool = False) -> np.ndarray:
        """Values, or elements as they are `stored`, at regular distances, without a copy."""
        flat, memory = self._stored if stored else self._source()
        size, shape = flat.itemsize, [extent for extent, _ in leaves]
        steps = [stride * size for _, stride in leaves]
        return np.ndarray(shape, flat.dtype, memory, first * size, steps)

    def _source(self) -> tuple[np.ndarray, np.ndarray]:
        if not self.keeps:
            return self._stored
        if self._wide is None:
            wide = held(self.data)
            self._wide = wide, wide.view(np.uint8)
        return self._wide

    def touch(self) -> None:
        """Elements are about to be written in their places."""
        self.keeps, self._wide = False, None
        self.settle()

    def settle(self) -> None:
        """Put the tile that was written last in its places."""
        if self.written is not None:
            view, values = self.written
            self.written = None
            self.data[view.index(None)] = values


class Mode(NamedTuple):
    """One mode of a view: its extent; its leaves as (extent, stride in elements), the fastest
    first; the coordinates `low` to `high` - 1 are inside of the tensor.
    """

    extent: int
    leaves: Leaves
    low: int
    high: int


class View:
    """A tensor or a tile of one. `start` is the element at coordinate 0, which may lie outside; a
    swizzle permutes byte addresses, counted from the start of the memory. `inside` is the view that
    it is a part of, with the part's origin. Views made of it are kept, as many CTAs ask for the
    same tiles; so is what was read, of memory that is not written.
    """

    __slots__ = ("_made", "_read", "inside", "memory", "modes", "shape", "start", "swizzle")

    def __init__(
        self,
        memory: Memory,
        start: int,
        modes: tuple[Mode, ...],
        swizzle: Swizzle | None = None,
        inside: tuple[View, Sequence[int]] | None = None,
    ) -> None:
        self.memory = memory
        self.start = start
        self.modes = modes
        self.shape = tuple([mode[0] for mode in modes])
        self.swizzle = swizzle
        self.inside = inside
        self._made: dict[Any, View] = {}
        self._read: np.ndarray | None = None

    def stride(self, mode: int) -> int:
        """The stride of a mode without nesting, in elements."""
        return self.modes[mode].leaves[0][1]

    def local_tile(
        self, tile: tuple[int, ...], coords: tuple[int, ...], of: tuple[int, ...] = ()
    ) -> View:
        """The tile at a coordinate in tiles: -1 keeps a mode, 0 takes one element and drops it.
        Coordinates count tiles of the extents `of`, and no more of the tile is there.
        """
        key = coords, tile, of
        made = self._made.get(key)
        if made is None:
            if len(self._made) >= _MOST_TILES:
                self._made.clear()
            made = self._made[key] = self._local_tile(tile, coords, of or tile)
        return made

    def _local_tile(
        self, tile: tuple[int, ...], coords: tuple[int, ...], of: tuple[int, ...]
    ) -> View:
        start, modes, is_inside = self.start, [], True
        for mode, extent, coord, count in zip(self.modes, tile, coords, of, strict=True):
            _, leaves, low, high = mode
            if extent > 0:
                stride, first = leaves[0][1], coord * count
                start += first * stride
                high = min(high - first, count)
                modes.append(Mode(extent, ((extent, stride),), low - first, high))
            elif extent < 0:
                modes.append(mode)
            else:
                start += coord * leaves[0][1]
                is_inside = is_inside and low <= coord < high
        if not is_inside:
            modes = [mode._replace(low=0, high=0) for mode in modes]
        return View(self.memory, start, tuple(modes), self.swizzle)

    def slice(self, mode: int, first: int, end: int) -> View:
        """The elements `first` to `end` - 1 along a mode, as far as it goes, as a tensor."""
        old = self.modes[mode]
        stride = old.leaves[0][1]
        length = max(0, min(end, old.extent) - first)
        low, high = max(0, old.low - first), min(length, old.high - first)
        new = Mode(length, ((length, stride),), low, high)
        modes = (*self.modes[:mode], new, *self.modes[mode + 1 :])
        return View(self.memory, self.start + first * stride, modes, self.swizzle)

    def through(self, layout: Layout, numbers: Sequence[int], first: int = 0) -> View:
        """The memory of this whole tensor, from an element on, through another layout, whose
        run-time extents and then strides are `numbers`.
        """
        given = iter(numbers)

        def leaves(part: Any) -> list[int]:
            return [leaf if isinstance(leaf, int) else next(given) for leaf in flatten(part)]

        extents, strides = leaves(layout.shape), leaves(layout.stride)
        pairs = iter(list(zip(extents, strides, strict=True)))
        modes = [[next(pairs) for _ in flatten(_tuple(mode))] for mode in _tuple(layout.shape)]
        return _whole(self.memory, modes, self.swizzle, self.start + first)

    def subview(self, origin: Sequence[int], shape: Sequence[int]) -> View:
        """A smaller tile at a static coordinate."""
        start, modes = self.start, []
        for mode, at, extent in zip(self.modes, origin, shape, strict=True):
            start += _offset(mode.leaves, at)
            leaves = mode.leaves if extent == mode.extent else _first(mode.leaves, extent)
            modes.append(Mode(extent, leaves, mode.low - at, mode.high - at))
        return View(self.memory, start, tuple(modes), self.swizzle, (self, origin))

    def stage(self, index: int) -> View:
        """One stage of a ring: the last mode at an index."""
        start = self.start + _offset(self.modes[-1].leaves, index)
        return View(self.memory, start, self.modes[:-1], self.swizzle)

    def transpose(self) -> View:
        """The two modes exchanged; a vector (n) becomes (1, n)."""
        made = self._made.get("transpose")
        if made is None:
            one = Mode(1, ((1, 0),), 0, 1)
            modes = (one, *self.modes) if len(self.modes) == 1 else self.modes[::-1]
            made = View(self.memory, self.start, modes, self.swizzle)
            self._made["transpose"] = made
        return made

    def at(self, coords: Sequence[Any]) -> Any:
        """The element at a coordinate, or those at arrays of coordinates, all inside."""
        index: Any = self.start
        for mode, coord in zip(self.modes, coords, strict=True):
            if np.any(coord < mode.low) or np.any(coord >= mode.high):
                raise ValueError(f"expected a coordinate below {mode.high}, got {coord}")
            index = index + np.asarray(coord, np.int64) * mode.leaves[0][1]
        return self.memory.data[index].astype(self.memory.held)

    def read(self) -> np.ndarray:
        """The elements, in an array of the view's shape that no later write changes."""
        memory = self.memory
        if memory.keeps and self._read is not None:
            return self._read
        if memory.written is not None:
            kept = self._as_written(*memory.written)
            if kept is not None:
                return kept
        place = self._place()
        if place is None:
            return np.zeros(self.shape, memory.held)
        region, leaves, first = place
        if self.swizzle is None and leaves is not None:
            found = memory.strided(first, leaves)
        else:
            found = memory.values()[self.index(region)]
        if region is not None:
            result = np.zeros(self.shape, memory.held)
            result[region] = found
        else:
            result = found.astype(memory.held)
        self._read = result if memory.keeps else None
        return result

    def _as_written(self, view: View, values: np.ndarray) -> np.ndarray | None:
        """The elements if they were written last through this view, or one that it is a part of."""
        if view.is_same(self):
            return values
        if self.inside is not None and view.is_same(self.inside[0]):
            origin = self.inside[1]
            pairs = zip(origin, self.shape, strict=True)
            return values[tuple([slice(at, at + extent) for at, extent in pairs])]
        self.memory.settle()
        return None

    def is_same(self, other: View) -> bool:
        """Whether two views of one memory show the same elements at the same coordinates."""
        return self is other or (
            self.start == other.start
            and self.swizzle == other.swizzle
            and self.modes == other.modes
        )

    def write(self, values: np.ndarray, combine: Combine | None = None) -> None:
        """Store the elements that are inside of the tensor; `combine` makes what is stored of what
        is there and what comes, element by element where elements share a place.
        """
        memory, is_folded = self.memory, self._is_folded()
        if memory.is_buffer and combine is None and not is_folded:
            if memory.written is None or not memory.written[0].is_same(self):
                memory.settle()
            memory.written = self, values
            return
        memory.touch()
        place = self._place()
        if place is None:
            return
        region, leaves, first = place
        values = values if region is None else values[region]
        if combine is not None and is_folded:
            for at, value in zip(self.index(region).flat, values.flat, strict=True):
                memory.data[at] = to_float(combine(memory.data[at], value), memory.data.dtype)
            return
        if self.swizzle is None and leaves is not None:
            found = memory.strided(first, leaves, stored=True)
        else:
            index = self.index(region)
            found = memory.data[index]
            memory.data[index] = self._stored(found, values, combine)
            return
        found[...] = self._stored(found, values, combine)

    def _stored(self, old: np.ndarray, new: np.ndarray, combine: Combine | None) -> np.ndarray:
        held, dtype = self.memory.held, self.memory.data.dtype
        if combine is not None:
            new = combine(old.astype(held), new)
        return new if new.dtype == dtype else to_float(new, dtype)

    def _is_folded(self) -> bool:
        """Whether several coordinates share a place."""
        return any(s == 0 and e > 1 for mode in self.modes for e, s in mode.leaves)

    def _place(self) -> tuple[Any, Leaves | None, int] | None:
        """The region of coordinates inside of the tensor, None for all; its modes as (extent,
        stride) with the first element's offset, where no mode is nested. None where no coordinate
        is inside.
        """
        region: list[slice] = []
        flat: list[tuple[int, int]] = []
        first, whole = self.start, True
        for extent, leaves, low, high in self.modes:
            flat += leaves
            if low <= 0 and high >= extent:
                region.append(_ALL)
                continue
            low, high = max(0, low), min(high, extent)
            if high <= low:
                return None
            whole = False
            region.append(slice(low, high))
            if len(leaves) == 1:
                stride = leaves[0][1]
                flat[-1] = high - low, stride
                first += low * stride
        plain = tuple(flat) if len(flat) == len(self.modes) else None
        return None if whole else tuple(region), plain, first

    def index(self, region: Any) -> np.ndarray:
        """The places of the elements of a region, None for all, in the storage."""
        shape = tuple([mode.leaves for mode in self.modes])
        if self.swizzle is None:
            index = self.start + _offsets(shape)
        else:
            index = _swizzled(shape, self.start, self.swizzle, self.memory.data.itemsize)
        return index if region is None else index[region]


class Joined:
    """Tiles of one shape, one after the other along a mode."""

    def __init__(self, parts: Sequence[View], mode: int) -> None:
        self.parts = tuple(parts)
        self.mode = mode
        shape = list(parts[0].shape)
        shape[mode] *= len(parts)
        self.shape = tuple(shape)

    def transpose(self) -> Joined:
        return Joined([part.transpose() for part in self.parts], 1 - self.mode)

    def subview(self, origin: Sequence[int], shape: Sequence[int]) -> Joined:
        """A smaller tile: part of one of the tiles, or whole ones."""
        extent, mode = self.parts[0].shape[self.mode], self.mode
        at, length = origin[mode], shape[mode]
        inner = min(extent, length)
        parts = []
        for position in range(at, at + length, inner):
            corner = [*origin[:mode], position % extent, *origin[mode + 1 :]]
            size = [*shape[:mode], inner, *shape[mode + 1 :]]
            parts.append(self.parts[position // extent].subview(corner, size))
        return Joined(parts, mode)

    def read(self) -> np.ndarray:
        return np.concatenate([part.read() for part in self.parts], self.mode)


def view_of_array(array: np.ndarray, layout: Layout, is_shared: bool = False) -> View:
    """A whole tensor in the caller's memory; `layout` says how its leaves make modes. Raises
    ValueError for an array of another rank, or with strides that are none of whole elements.
    Strides may be below zero.
    """
    shape = _tuple(layout.shape)
    size = array.itemsize
    if array.ndim != len(flatten(shape)) or any(stride % size for stride in array.strides):
        raise ValueError(
            f"expected an array of {len(flatten(shape))} modes of whole elements for {layout}, got "
            f"shape {array.shape} with strides of {array.strides} bytes"
        )
    strides = [stride // size for stride in array.strides]
    reach = sum((e - 1) * abs(s) for e, s in zip(array.shape, strides, strict=True)) + 1
    reach = 0 if 0 in array.shape else reach
    back = [(e - 1) * -s if s < 0 else 0 for e, s in zip(array.shape, strides, strict=True)]
    # From the lowest address on.
    lowest = array[tuple([slice(None, None, -1 if steps else 1) for steps in back])]
    # As integers, since NumPy's array interface does not know 8-bit floats.
    flat = np.lib.stride_tricks.as_strided(
        lowest.view(f"u{size}"), (reach,), (size,), writeable=array.flags.writeable
    ).view(array.dtype)
    leaves = iter(list(zip(array.shape, strides, strict=True)))
    modes = [[next(leaves) for _ in flatten(_tuple(mode))] for mode in shape]
    return _whole(Memory(flat, is_shared), modes, start=sum(back) if reach else 0)


def view_of_buffer(data: np.ndarray, layout: Layout, swizzle: Swizzle | None = None) -> View:
    """A buffer of static layout in shared memory, whose first element is that of `data`."""
    shapes = [flatten(_tuple(mode)) for mode in _tuple(layout.shape)]
    strides = [flatten(_tuple(mode)) for mode in _tuple(layout.stride)]
    modes = [list(zip(e, s, strict=True)) for e, s in zip(shapes, strides, strict=True)]
    return _whole(Memory(data, is_buffer=True), modes, swizzle)


def _whole(
    memory: Memory, modes: Sequence[Sequence[Any]], swizzle: Swizzle | None = None, start: int = 0
) -> View:
    made = []
    for leaves in modes:
        extent = prod([extent for extent, _ in leaves])
        made.append(Mode(extent, tuple(leaves), 0, extent))
    return View(memory, start, tuple(made), swizzle)


def _tuple(tree: Any) -> tuple[Any, ...]:
    return tree if isinstance(tree, tuple) else (tree,)


def _offset(leaves: Leaves, coord: int) -> int:
    """The offset of one coordinate of a mode."""
    offset = 0
    for extent, stride in leaves[:-1]:
        offset += coord % extent * stride
        coord //= extent
    return offset + coord * leaves[-1][1]


def _first(leaves: Leaves, extent: int) -> Leaves:
    """The leaves of the first elements of a mode: whole ones, and a part of the one behind them."""
    found: list[tuple[int, int]] = []
    for size, stride in leaves[:-1]:
        if extent <= size:
            break
        found.append((size, stride))
        extent //= size
    return (*found, (extent, leaves[len(found)][1]))


@lru_cache(maxsize=1024)
def _offsets(shape: tuple[Leaves, ...]) -> np.ndarray:
    """The offsets of all coordinates of a tile."""
    total: Any = 0
    for position, leaves in enumerate(shape):
        line: Any = np.zeros(1, np.int64)
        for extent, stride in leaves:  # the first leaf is the fastest
            line = (line + stride * np.arange(extent, dtype=np.int64)[:, None]).reshape(-1)
        total = total + line.reshape((-1,) + (1,) * (len(shape) - position - 1))
    return total


@lru_cache(maxsize=1024)
def _swizzled(shape: tuple[Leaves, ...], start: int, swizzle: Swizzle, size: int) -> np.ndarray:
    """The offsets of a tile whose byte addresses are swizzled."""
    return swizzle((_offsets(shape) + start) * size) // size  # type: ignore[arg-type]
