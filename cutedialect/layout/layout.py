"""`Layout`: a function from coordinates to offsets, given by a shape and strides."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, cast

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
    is_tuple,
    leaves,
    nested,
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

    __slots__ = ("_hash", "_inner", "_modes", "_ranked", "_text", "shape", "stride")

    shape: IntTuple
    stride: IntTuple
    _text: str
    _hash: int
    # Flat (extent, stride) pairs when all of them are ints above 0, else None: the quick way.
    _modes: tuple[tuple[int, int], ...] | None
    # The same pairs by mode of the layout, made at the first call with a coordinate.
    _ranked: tuple[tuple[tuple[int, int], ...], ...] | None
    # The modes as layouts, made when one is first asked for.
    _inner: tuple[Layout, ...] | None

    def __init__(self, shape: IntTuple, stride: IntTuple | None = None) -> None:
        modes: list[tuple[int, int]] = []
        if stride is None:
            shape = nested(shape)
            stride = compact(shape)
        plain = _collect(shape, stride, modes)
        if not plain:
            shape, stride = nested(shape), nested(stride)
            _check(shape, stride)
        object.__setattr__(self, "shape", shape)
        object.__setattr__(self, "stride", stride)
        object.__setattr__(self, "_modes", tuple(modes) if plain and modes else None)
        object.__setattr__(self, "_ranked", None)
        object.__setattr__(self, "_inner", None)
        object.__setattr__(self, "_text", "")
        object.__setattr__(self, "_hash", 0)

    def __reduce__(self) -> tuple[Any, ...]:
        return Layout, (self.shape, self.stride)

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Layout is immutable")

    def __str__(self) -> str:
        if not self._text:
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
        if not self._hash:
            object.__setattr__(self, "_hash", hash((self.shape, self.stride)))
        return self._hash

    def __len__(self) -> int:
        return len(self.shape) if is_tuple(self.shape) else 1

    def __iter__(self) -> Iterator[Layout]:
        return iter(self._inner or self._separate())

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
            if not is_tuple(shape):
                shape, stride = (shape,), (stride,)
            return Layout(shape[mode], stride[mode])
        if not is_tuple(self.shape):
            if mode in (0, -1):
                return self
            raise LayoutError(f"expected mode 0 of {self}, got {mode}")
        inner = self._inner or self._separate()
        if not -len(inner) <= mode < len(inner):
            raise LayoutError(f"expected a mode in 0..{len(inner) - 1} of {self}, got {mode}")
        return inner[mode]

    def __call__(self, *coord: Any) -> Any:
        """Offset of a coordinate; with `None` in it, the sub-layout of those modes.

        An int is a colexicographic index; past the size it extends the last mode. The offset of
        the ints beside a `None` is what `slice_and_offset` gives. Coordinate layouts (strides
        such as `1@0`) give a coordinate.
        """
        at = coord[0] if len(coord) == 1 else coord
        modes = self._modes
        if modes is not None:
            total = 0
            if type(at) is int:
                for extent, stride in modes[:-1]:
                    total += at % extent * stride
                    at //= extent
                return total + at * modes[-1][1]
            ranked = self._ranked or self._rank_modes()
            if is_tuple(at) and len(at) == len(ranked):
                for step, inner in zip(at, ranked, strict=True):
                    if type(step) is not int:
                        break
                    for extent, stride in inner[:-1]:
                        total += step % extent * stride
                        step //= extent
                    total += step * inner[-1][1]
                else:
                    return total
        if has_none(at):
            kept = slice_modes(at, self.shape, self.stride)
            if len(kept) == 1:
                return Layout(*kept[0])
            return Layout(tuple(s for s, _ in kept), tuple(d for _, d in kept))
        if isinstance(at, list):
            at = nested(at)
        return crd2idx(at, self.shape, self.stride)

    def _separate(self) -> tuple[Layout, ...]:
        if not is_tuple(self.shape):
            return (self,)
        pairs = zip(self.shape, cast("tuple[Any, ...]", self.stride), strict=True)
        inner = tuple(Layout(shape, stride) for shape, stride in pairs)
        object.__setattr__(self, "_inner", inner)
        return inner

    def _rank_modes(self) -> tuple[tuple[tuple[int, int], ...], ...]:
        shape, stride = self.shape, self.stride
        pairs = zip(shape, stride, strict=True) if is_tuple(shape) else ()
        ranked = tuple(tuple(leaves(s, d)) or ((1, 0),) for s, d in pairs)
        object.__setattr__(self, "_ranked", ranked)
        return ranked

    def size(self) -> int:
        """How many coordinates there are."""
        if self._modes is not None:
            return math.prod(extent for extent, _ in self._modes)
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

    def flat_modes(self) -> Layout:
        """The leaves as modes, in their order.

        >>> print(Layout(((2, 3), 4), ((1, 2), 6)).flat_modes())
        (2,3,4):(1,2,6)
        """
        if not is_tuple(self.shape):
            return self
        return Layout(flatten(self.shape), flatten(self.stride))

    def is_static(self) -> bool:
        """Whether no leaf is known at run time only."""
        return is_static(self.shape) and is_static(self.stride)

    def offsets(self) -> list[Any]:
        """All offsets in colexicographic order of the coordinates."""
        if self._modes is not None:
            plain = [0]
            for extent, stride in self._modes:
                if extent != 1:
                    starts = range(0, extent * stride, stride) if stride else [0] * extent
                    plain = [base + start for start in starts for base in plain]
            return plain
        offsets: list[Any] = [0]
        for extent, stride in leaves(self.shape, self.stride):
            if not isinstance(extent, int):
                raise LayoutError(f"expected static extents, got {self}")
            steps = [scale(i, stride) for i in range(extent)]
            offsets = [add(base, step) for step in steps for base in offsets]
        return offsets

    def _repr_svg_(self) -> str | None:
        from .draw_svg import layout_svg, picture

        return picture(layout_svg, self)

    @staticmethod
    def parse(text: str) -> Layout:
        """Read `(4,8):(8,1)`."""
        from .text import parse_layout

        return parse_layout(text)


def _collect(shape: Any, stride: Any, out: list[tuple[int, int]]) -> bool:
    """Append the flat modes; False as soon as something is no congruent tuple of plain ints."""
    if type(shape) is int:
        if type(stride) is int and shape > 0:
            out.append((shape, stride))
            return True
        return False
    if not is_tuple(shape) or not is_tuple(stride) or len(shape) != len(stride):
        return False
    for extent, step in zip(shape, stride, strict=True):
        if type(extent) is int:  # most modes are leaves: no call for each
            if type(step) is not int or extent <= 0:
                return False
            out.append((extent, step))
        elif not _collect(extent, step, out):
            return False
    return True


def _check(shape: IntTuple, stride: IntTuple) -> None:
    if not congruent(shape, stride):
        raise LayoutError(f"shape {to_text(shape)} and stride {to_text(stride)} are not congruent")
    for leaf in flatten(shape):
        ok = isinstance(leaf, Dyn) or (isinstance(leaf, int) and not isinstance(leaf, bool))
        if not ok or (isinstance(leaf, int) and leaf < 0):
            raise LayoutError(
                f"expected non-negative int extents, got {to_text(shape)}:{to_text(stride)}"
            )
    for leaf in flatten(stride):
        if isinstance(leaf, bool) or not isinstance(leaf, int | Dyn | ScaledBasis):
            raise LayoutError(f"expected int strides for {to_text(shape)}, got {to_text(stride)}")


def has_none(coord: Any) -> bool:
    """Whether a coordinate slices."""
    if is_tuple(coord):
        return any(map(has_none, coord))
    return coord is None


def slice_modes(coord: Any, shape: IntTuple, stride: IntTuple) -> list[tuple[IntTuple, IntTuple]]:
    """(shape, stride) of every mode that a coordinate has `None` for."""
    if coord is None:
        return [(shape, stride)]
    if not is_tuple(coord):
        return []
    if not is_tuple(shape) or len(coord) != len(shape):
        raise LayoutError(f"expected a coordinate of {to_text(shape)}, got {to_text(coord)}")
    out: list[tuple[IntTuple, IntTuple]] = []
    for c, s, d in zip(coord, shape, stride, strict=True):
        out.extend(slice_modes(c, s, d))
    return out
