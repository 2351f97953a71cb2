"""`ComposedLayout`: `outer(offset + inner(coordinate))`, the form of every swizzled layout.

Text reads as functions compose: `S<3,4,3> o 0 o (8,64):(64,1)`. A swizzle inside one acts on
element offsets; `recast` moves it between element sizes.
"""

from __future__ import annotations

from typing import Any

from .errors import LayoutError
from .int_tuple import add, is_static, is_tuple, to_text
from .layout import Layout, has_none
from .swizzle import Swizzle


class ComposedLayout:
    """A layout or swizzle after an offset after a layout; immutable and hashable.

    >>> smem = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
    >>> print(smem, smem(1, 0))
    S<3,3,3> o 0 o (8,64):(64,1) 72
    """

    __slots__ = ("inner", "offset", "outer")

    outer: Layout | Swizzle
    offset: Any
    inner: Layout

    def __init__(self, outer: Any, offset: Any, inner: Any) -> None:
        # The outer function is applied last: the order of arguments is that of the text.
        if not isinstance(outer, Layout | Swizzle):
            raise LayoutError(f"expected a Layout or a Swizzle outside, got {outer!r}")
        if not isinstance(inner, Layout):
            raise LayoutError(f"expected a Layout inside, got {inner!r}")
        if isinstance(outer, Swizzle) and is_tuple(offset):
            raise LayoutError(f"expected an int offset inside {outer}, got {to_text(offset)}")
        object.__setattr__(self, "outer", outer)
        object.__setattr__(self, "offset", offset)
        object.__setattr__(self, "inner", inner)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a ComposedLayout is immutable")

    def __reduce__(self) -> tuple[Any, ...]:
        return ComposedLayout, (self.outer, self.offset, self.inner)

    @property
    def shape(self) -> Any:
        """The shape of the inner layout: the domain."""
        return self.inner.shape

    def __str__(self) -> str:
        return f"{self.outer} o {to_text(self.offset)} o {self.inner}"

    def __repr__(self) -> str:
        return f"ComposedLayout({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ComposedLayout):
            return NotImplemented
        return (self.outer, self.offset, self.inner) == (other.outer, other.offset, other.inner)

    def __hash__(self) -> int:
        return hash((self.outer, self.offset, self.inner))

    def __len__(self) -> int:
        return len(self.inner)

    def __getitem__(self, mode: int | slice | tuple[int, ...]) -> ComposedLayout:
        return ComposedLayout(self.outer, self.offset, self.inner[mode])

    def __call__(self, *coord: Any) -> Any:
        """Offset of a coordinate; with `None` in it, the slice, which keeps the offset inside.

        >>> smem = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
        >>> print(smem(1, None), smem(1, None)(3) == smem(1, 3))
        S<3,3,3> o 64 o 64:1 True
        """
        at = coord[0] if len(coord) == 1 else coord
        if has_none(at):
            inner = self.inner(at)
            return ComposedLayout(self.outer, add(self.offset, _position(self.inner, at)), inner)
        return self.outer(add(self.offset, self.inner(at)))

    def size(self) -> int:
        """How many coordinates there are."""
        return self.inner.size()

    def cosize(self) -> int:
        """One more than the largest offset; unlike C++ this counts what the swizzle moves up.

        >>> ComposedLayout(Swizzle(1, 0, 1), 0, Layout(3, 1)).cosize()
        4
        """
        return 1 + max(self.offsets(), default=-1)

    def rank(self) -> int:
        """How many modes there are."""
        return len(self)

    def depth(self) -> int:
        """How deep the modes nest."""
        return self.inner.depth()

    def flat_modes(self) -> ComposedLayout:
        """The leaves of the inner layout as modes, in their order."""
        return ComposedLayout(self.outer, self.offset, self.inner.flat_modes())

    def is_static(self) -> bool:
        """Whether no leaf is known at run time only."""
        outer = not isinstance(self.outer, Layout) or self.outer.is_static()
        return outer and is_static(self.offset) and self.inner.is_static()

    def offsets(self) -> list[Any]:
        """All offsets in colexicographic order of the coordinates."""
        return [self.outer(add(self.offset, at)) for at in self.inner.offsets()]

    def _repr_svg_(self) -> str | None:
        from .draw_svg import layout_svg, picture

        return picture(layout_svg, self)

    @staticmethod
    def parse(text: str) -> ComposedLayout:
        """Read `S<3,4,3> o 0 o (8,64):(64,1)`."""
        from .text import parse_composed_layout

        return parse_composed_layout(text)


def _position(layout: Layout, coord: Any) -> Any:
    """Offset of the ints of a sliced coordinate."""
    from .int_tuple import crd2idx

    return crd2idx(coord, layout.shape, layout.stride)


AnyLayout = Layout | ComposedLayout
