"""Which thread has which integers of packed elements: the thread-value layouts on both sides of
`cute.unpack`.

A digit of a thread or value index that goes along the packed mode goes, by the order of a block,
some places further; of these the lowest ones choose an element within an integer, the others the
integer. Threads that have different elements of one integer all hold it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from cutedialect.layout import Layout, flatten
from cutedialect.passes.analysis.coordinates import Digit, thread_value

Run = tuple[int, int]
"""An extent and a step."""


class PackedLayoutError(ValueError):
    """Elements of integers do not lie as threads should have them."""


@dataclass(frozen=True)
class Packing:
    """A mode of a tile of elements, so many of which an integer holds in an order."""

    mode: int
    order: Layout
    per: int

    def places(self, extent: int, step: int) -> list[Run]:
        """The runs of places that a run of elements along the mode has."""
        return list(_through(extent, step, _pairs(self.order)))

    def elements(self, extent: int, step: int) -> list[Run]:
        """The runs of elements that a run of places has."""
        strides = sorted(_pairs(self.order), key=lambda each: each[2])
        return list(_through(extent, step, [(e, place, at) for e, at, place in strides]))

    def parts(self, extent: int, step: int) -> tuple[list[Run], list[Run]]:
        """The runs of elements within an integer, and of integers, that a run of elements has."""
        inside: list[Run] = []
        integers: list[Run] = []
        for count, place in self.places(extent, step):
            room = max(1, self.per // place)
            if (place % self.per and self.per % place) or (room < count and count % room):
                raise PackedLayoutError(
                    f"expected {count} elements {place} places apart to lie in one integer of "
                    f"{self.per}, or in one each"
                )
            within = min(room, count)
            if within > 1:
                inside.append((within, place))
            if count > within:
                integers.append((count // within, max(1, place * within // self.per)))
        return inside, integers


def packed_layout(tv: Layout, shape: tuple[int, ...], packing: Packing, first: int) -> Layout:
    """The layout of the integers behind a tile of elements of a shape that has the layout `tv`; a
    thread's integers go along the mode `first` before the other.
    """
    whole, mode = thread_value(tv, shape), packing.mode
    extents = _resized(shape, mode, shape[mode] // packing.per)

    def of_values(extent: int, step: int) -> list[Run]:
        return packing.parts(extent, step)[1]

    def of_threads(extent: int, step: int) -> list[Run]:
        # Threads that have elements of one integer have it all.
        inside, integers = packing.parts(extent, step)
        return [*((count, 0) for count, _ in inside), *integers]

    threads = _strided(whole.threads, mode, extents, of_threads)
    return _layout(threads, _strided(whole.values, mode, extents, of_values), first)


def unpacked_layout(tv: Layout, shape: tuple[int, ...], packing: Packing, first: int) -> Layout:
    """The layout of the elements in a tile of integers of a shape that has the layout `tv`: each
    thread has all elements of its integers, those along the mode `first` before the others.
    """
    whole, mode, per = thread_value(tv, shape), packing.mode, packing.per
    extents = _resized(shape, mode, shape[mode] * per)

    def elements(extent: int, step: int) -> list[Run]:
        return packing.elements(extent, step * per)

    inside = [(mode, count, at * _stride(extents, mode)) for count, at in packing.elements(per, 1)]
    threads = _strided(whole.threads, mode, extents, elements)
    return _layout(threads, [*inside, *_strided(whole.values, mode, extents, elements)], first)


def _strided(
    digits: Iterable[Digit],
    mode: int,
    extents: tuple[int, ...],
    parts: Callable[[int, int], list[Run]],
) -> list[tuple[int, int, int]]:
    """(mode, extent, stride) of digits in a tile of such extents, where one along the packed mode
    of an extent and a step has (extent, number) `parts`.
    """
    strided = []
    for digit in digits:
        step = _step(digit, mode)
        if step is None:
            along, stride = _along(digit, extents)
            strided.append((along, digit.extent, stride))
            continue
        for count, number in parts(digit.extent, step):
            strided.append((mode, count, number * _stride(extents, mode)))
    return strided


def _pairs(order: Layout) -> list[tuple[int, int, int]]:
    """The modes of an order, and blocks one behind the other: extent (0 for any), the step of
    elements, and that of places.
    """
    pairs: list[tuple[int, int, int]] = []
    at = 1
    for extent, place in zip(flatten(order.shape), flatten(order.stride), strict=True):
        assert isinstance(extent, int)
        assert isinstance(place, int)
        if extent > 1:
            pairs.append((extent, at, place))
        at *= extent
    return [*pairs, (0, at, at)]


def _through(extent: int, step: int, modes: list[tuple[int, int, int]]) -> Iterator[Run]:
    """The runs that a run becomes through modes (extent, step before, step behind), the steps
    before in rising order.
    """
    modes = sorted(modes, key=lambda each: each[1])
    while extent > 1:
        count, before, behind = next(each for each in reversed(modes) if each[1] <= step)
        room = extent if count == 0 else count * before // step
        piece = min(extent, room)
        if step % before or piece == 0 or extent % piece or (count * before) % step:
            raise PackedLayoutError(
                f"expected runs of elements that blocks of {modes[-1][1]} hold in whole parts, got "
                f"{extent} with step {step}"
            )
        yield piece, step // before * behind
        extent //= piece
        step *= piece


def _step(digit: Digit, mode: int) -> int | None:
    """The step of a digit along a mode; None of one that goes elsewhere, or nowhere."""
    step = digit.steps[mode]
    if step and sum(map(bool, digit.steps)) > 1:
        raise PackedLayoutError(f"expected threads and values along one mode each, got {digit}")
    return step or None


def _along(digit: Digit, extents: tuple[int, ...]) -> Run:
    """The mode and stride of a digit along modes that are not packed."""
    for mode, step in enumerate(digit.steps):
        if step:
            return mode, step * _stride(extents, mode)
    return 0, 0


def _stride(extents: tuple[int, ...], mode: int) -> int:
    stride = 1
    for extent in extents[:mode]:
        stride *= extent
    return stride


def _resized(shape: tuple[int, ...], mode: int, extent: int) -> tuple[int, ...]:
    return (*shape[:mode], extent, *shape[mode + 1 :])


def _layout(
    threads: list[tuple[int, int, int]], values: list[tuple[int, int, int]], first: int
) -> Layout:
    """The layout of (mode, extent, stride) of threads and of values, those of a thread that go
    along the mode `first` before the others.
    """
    values = sorted(values, key=lambda digit: (digit[0] != first, digit[2]))
    indices = [digits or [(first, 1, 0)] for digits in (threads, values)]
    shape = tuple(tuple(extent for _, extent, _ in digits) for digits in indices)
    stride = tuple(tuple(step for _, _, step in digits) for digits in indices)
    return Layout(shape, stride)
