"""`Layout`: a function from coordinates to offsets, given by a shape and strides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

from .errors import LayoutError
from .int_tuple import (
    Dyn,
    IntTuple,
    ScaledBasis,
    add,
    compact,
    congruent,
    crd2idx,
    depth,
    flatten,
    is_static,
    leaves,
    product,
    scale,
    to_text,
)


class Layout:
    """Shape and congruent strides; without strides, compact column-major.

    >>> print(Layout((4, 8), (8, 1)))
    (4,8):(8,1)
    >>> Layout((4, 8), (8, 1))(1, 2), Layout((4, 8), (8, 1))(9)
    (10, 10)
    """

    __slots__ = ("_hash", "_text", "shape", "stride")

    shape: IntTuple
    stride: IntTuple

    def __init__(self, shape: IntTuple, stride: IntTuple | None = None) -> None:
        shape = _as_tuple(shape)
        stride = compact(shape) if stride is None else _as_tuple(stride)
        if not congruent(shape, stride):
            raise LayoutError(
                f"shape {to_text(shape)} and stride {to_text(stride)} are not congruent"
            )
        for leaf in flatten(shape):
            ok = isinstance(leaf, Dyn) or (isinstance(leaf, int) and not isinstance(leaf, bool))
            if not ok or (isinstance(leaf, int) and leaf < 0):
                raise LayoutError(
                    f"expected non-negative int extents, got {to_text(shape)}:{to_text(stride)}"
                )
        for leaf in flatten(stride):
            if isinstance(leaf, bool) or not isinstance(leaf, int | Dyn | ScaledBasis):
                raise LayoutError(
                    f"expected int strides for {to_text(shape)}, got {to_text(stride)}"
                )
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)
        object.__setattr__(self, "_text", None)
        object.__setattr__(self, "_hash", None)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Layout is immutable")

    def __str__(self) -> str:
        if self._text is None:
            text = f"{to_text(self.shape)}:{to_text(self.stride)}"
            object.__setattr__(self, "_text", text)
        return self._text

    def __repr__(self) -> str:
        return f"Layout({self})"

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Layout):
            return NotImplemented
        return self.shape == other.shape and self.stride == other.stride

    def __hash__(self) -> int:
        if self._hash is None:
            object.__setattr__(self, "_hash", hash((self.shape, self.stride)))
        return self._hash

    def __len__(self) -> int:
        return len(self.shape) if isinstance(self.shape, tuple) else 1

    def __iter__(self) -> Iterator[Layout]:
        return (self[mode] for mode in range(len(self)))

    def __getitem__(self, mode: int | slice | tuple[int, ...]) -> Layout:
        """One mode; a range of modes; or, by a tuple of ints, a mode of a mode.

        >>> layout = Layout((4, (2, 8)), (2, (1, 8)))
        >>> print(layout[0], layout[1, 1], layout[:1])
        4:2 8:8 (4):(2)
        """
        if isinstance(mode, tuple):
            inner = self
            for step in mode:
                inner = inner[step]
            return inner
        if isinstance(mode, slice):
            shape, stride = self.shape, self.stride
            if not isinstance(shape, tuple):
                shape, stride = (shape,), (stride,)
            return Layout(shape[mode], stride[mode])
        if not isinstance(self.shape, tuple):
            if mode in (0, -1):
                return self
            raise LayoutError(f"expected mode 0 of {self}, got {mode}")
        if not -len(self) <= mode < len(self):
            raise LayoutError(f"expected a mode in 0..{len(self) - 1} of {self}, got {mode}")
        return Layout(self.shape[mode], self.stride[mode])

    def __call__(self, *coord: Any) -> Any:
        """Offset of a coordinate; with `None` in it, the sub-layout of those modes.

        An int is a colexicographic index; past the size it extends the last mode. The offset of
        the ints beside a `None` is what `slice_and_offset` gives. Coordinate layouts (strides
        such as `1@0`) give a coordinate.
        """
        at = coord[0] if len(coord) == 1 else coord
        if has_none(at):
            kept = slice_modes(at, self.shape, self.stride)
            if len(kept) == 1:
                return Layout(*kept[0])
            return Layout(tuple(s for s, _ in kept), tuple(d for _, d in kept))
        if isinstance(at, list):
            at = _as_tuple(at)
        return crd2idx(at, self.shape, self.stride)

    def size(self) -> int:
        """How many coordinates there are."""
        return product(self.shape)

    def cosize(self) -> int:
        """One more than the span of the offsets; 0 of a layout without coordinates.

        A coordinate layout has the product of its coordinates' extents.

        >>> Layout((4, 8), (1, 5)).cosize(), Layout(4, -1).cosize()
        (39, 4)
        """
        total = 1
        spans: dict[tuple[int, ...], int] = {}
        for extent, stride in leaves(self.shape, self.stride):
            step = stride.value if isinstance(stride, ScaledBasis) else stride
            if not isinstance(extent, int) or not isinstance(step, int):
                raise LayoutError(f"expected a static layout, got {self}")
            if extent == 0:
                return 0
            if isinstance(stride, ScaledBasis):
                span = spans.get(stride.path, 1)
                spans[stride.path] = span + (extent - 1) * abs(step)
            else:
                total += (extent - 1) * abs(step)
        return total * math.prod(spans.values())

    def rank(self) -> int:
        """How many modes there are."""
        return len(self)

    def depth(self) -> int:
        """How deep the modes nest: 0 of `4:1`, 1 of `(4,8):(8,1)`."""
        return depth(self.shape)

    def is_static(self) -> bool:
        """Whether no leaf is known at run time only."""
        return is_static(self.shape) and is_static(self.stride)

    def offsets(self) -> list[Any]:
        """All offsets in colexicographic order of the coordinates."""
        offsets: list[Any] = [0]
        for extent, stride in leaves(self.shape, self.stride):
            if not isinstance(extent, int):
                raise LayoutError(f"expected static extents, got {self}")
            if isinstance(stride, int):
                if extent != 1:
                    starts = [i * stride for i in range(extent)]
                    offsets = [base + start for start in starts for base in offsets]
                continue
            steps = [scale(i, stride) for i in range(extent)]
            offsets = [add(base, step) for step in steps for base in offsets]
        return offsets

    def _repr_svg_(self) -> str:
        from .draw_svg import layout_svg

        return layout_svg(self)

    @staticmethod
    def parse(text: str) -> Layout:
        """Read `(4,8):(8,1)`."""
        from .text import parse_layout

        return parse_layout(text)


def _as_tuple(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(map(_as_tuple, value))
    if isinstance(value, int | Dyn | ScaledBasis) or not hasattr(value, "__index__"):
        return value
    return int(value)


def has_none(coord: Any) -> bool:
    """Whether a coordinate slices."""
    if isinstance(coord, tuple):
        return any(map(has_none, coord))
    return coord is None


def slice_modes(coord: Any, shape: IntTuple, stride: IntTuple) -> list[tuple[IntTuple, IntTuple]]:
    """(shape, stride) of every mode that a coordinate has `None` for."""
    if coord is None:
        return [(shape, stride)]
    if not isinstance(coord, tuple):
        return []
    if not isinstance(shape, tuple) or len(coord) != len(shape):
        raise LayoutError(f"expected a coordinate of {to_text(shape)}, got {to_text(coord)}")
    out: list[tuple[IntTuple, IntTuple]] = []
    for c, s, d in zip(coord, shape, stride, strict=True):
        out.extend(slice_modes(c, s, d))
    return out
