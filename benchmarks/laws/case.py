"""`Case`: a layout with what laws ask of it, all from the definition of the function that it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cached_property
from math import prod
from typing import Any

from cutedialect import layout as algebra
from cutedialect.layout import Layout, LayoutError

Law = Callable[["Case"], "bool | None"]
"""Whether a layout keeps a law; None where the law says nothing of it."""
LAWS: dict[str, Law] = {}
"""All laws by name."""


def law(check: Law) -> Law:
    """Register a law under the name of its function, which is a sentence."""
    name = check.__name__
    assert name not in LAWS, f"expected one law of a name, got two: {name}"
    LAWS[name] = check
    return check


def family(names: Iterable[str], sentence: str) -> Callable[[Callable[[str], Law]], None]:
    """Register the law that `make` gives for each function of a family, `{}` in the sentence."""

    def register(make: Callable[[str], Law]) -> None:
        for name in names:
            check = make(name)
            check.__name__ = sentence.format(name)
            law(check)

    return register


def by_digits(layout: Layout) -> list[int]:
    """Offsets from the definition: the digits of each index times the strides."""
    pairs = list(zip(algebra.flatten(layout.shape), algebra.flatten(layout.stride), strict=True))
    offsets: list[int] = []
    for index in range(prod(extent for extent, _ in pairs)):
        offset = 0
        for extent, stride in pairs:
            offset += index % extent * stride
            index //= extent
        offsets.append(offset)
    return offsets


def defined(layout: Layout) -> list[int]:
    """The same mode by mode, which is quicker: the first mode fastest. Nothing of the algebra but
    the leaves of shape and strides is read.
    """
    offsets = [0]
    for extent, stride in zip(
        algebra.flatten(layout.shape), algebra.flatten(layout.stride), strict=True
    ):
        if extent != 1:
            offsets = [base + step * stride for step in range(extent) for base in offsets]
    return offsets


def known(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function of the algebra, or None where it refuses its arguments."""
    try:
        return function(*arguments)
    except LayoutError:
        return None


class Case:
    """A layout, and the facts about it that several laws need."""

    def __init__(self, layout: Layout) -> None:
        self.layout = layout

    @cached_property
    def offsets(self) -> list[int]:
        """By index, from the definition."""
        return by_digits(self.layout)

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """(extent, stride) of the leaves."""
        shape, stride = self.layout.shape, self.layout.stride
        return list(zip(algebra.flatten(shape), algebra.flatten(stride), strict=True))

    @cached_property
    def extents(self) -> tuple[int, ...]:
        """Elements of each mode."""
        shape = self.layout.shape
        return tuple(map(algebra.product, shape)) if isinstance(shape, tuple) else (shape,)

    @cached_property
    def size(self) -> int:
        """How many elements there are."""
        return len(self.offsets)

    @cached_property
    def modes(self) -> list[Layout]:
        """The modes as layouts."""
        shape, stride = self.layout.shape, self.layout.stride
        if not isinstance(shape, tuple):
            return [self.layout]
        return [Layout(s, d) for s, d in zip(shape, stride, strict=True)]

    @cached_property
    def flat(self) -> Layout:
        """The leaves as modes."""
        extents, strides = zip(*self.pairs, strict=True)
        return Layout(extents, strides)

    @cached_property
    def coordinates(self) -> list[Any]:
        """By index: a number for each mode, first mode fastest."""
        found: list[tuple[int, ...]] = [()]
        for extent in self.extents:
            found = [(*coord, step) for step in range(extent) for coord in found]
        return found if isinstance(self.layout.shape, tuple) else [coord[0] for coord in found]

    @cached_property
    def is_injective(self) -> bool:
        """Whether no two elements have one offset."""
        return len(set(self.offsets)) == self.size

    @cached_property
    def is_compact(self) -> bool:
        """Whether the offsets are all numbers below the size."""
        return self.is_injective and max(self.offsets) == self.size - 1

    @cached_property
    def coalesced(self) -> Layout:
        """`coalesce` of it."""
        return algebra.coalesce(self.layout)

    @cached_property
    def filtered(self) -> Layout:
        """`filter` of it."""
        return algebra.filter(self.layout)

    @cached_property
    def right_inverse(self) -> Layout:
        """`right_inverse` of it."""
        return algebra.right_inverse(self.layout)

    @cached_property
    def left_inverse(self) -> Layout | None:
        """`left_inverse` of it, if there is one."""
        return known(algebra.left_inverse, self.layout)

    @cached_property
    def complement(self) -> Layout | None:
        """`complement` up to twice the cosize, if there is one."""
        return known(algebra.complement, self.layout, 2 * (max(self.offsets) + 1))

    @cached_property
    def parts(self) -> tuple[int, ...]:
        """An even part of each mode."""
        return tuple(2 if extent % 2 == 0 else 1 for extent in self.extents)

    @cached_property
    def zipped(self) -> Layout | None:
        """`zipped_divide` by these parts, of a layout of several modes."""
        if not isinstance(self.layout.shape, tuple):
            return None
        return known(algebra.zipped_divide, self.layout, self.parts)

    @cached_property
    def zipped_product(self) -> Layout | None:
        """`zipped_product` with 2 along each mode, of a layout of several modes."""
        if not isinstance(self.layout.shape, tuple):
            return None
        return known(algebra.zipped_product, self.layout, (2,) * len(self.layout))

    @cached_property
    def doubled(self) -> Layout | None:
        """`logical_product` with twice along the first mode."""
        return known(algebra.logical_product, self.layout, self.twice)

    @cached_property
    def twice(self) -> Layout:
        """Twice along the first of as many modes."""
        ranks = len(self.layout)
        return Layout(2) if ranks == 1 else Layout((2, *(1,) * (ranks - 1)))

    def same(self, other: Layout) -> bool:
        """Whether another layout is the same function of an index."""
        return defined(other) == self.offsets


# Tiles by which layouts are divided and composed, with the extent that each and its complement
# cover whole.
PERIODS = {Layout(2): 2, Layout(2, 2): 4, Layout((2, 2), (1, 4)): 8, Layout(3): 3}
TILES = tuple(PERIODS)
