"""`Layout`: a function from coordinates to offsets, given by a shape and strides."""

from __future__ import annotations

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
    flatten,
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
                raise LayoutError(f"expected non-negative int extents, got {to_text(shape)}")
        for leaf in flatten(stride):
            if isinstance(leaf, bool) or not isinstance(leaf, int | Dyn | ScaledBasis):
                raise LayoutError(f"expected int strides, got {to_text(stride)}")
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

    def __getitem__(self, mode: int) -> Layout:
        if not isinstance(self.shape, tuple):
            if mode in (0, -1):
                return self
            raise LayoutError(f"expected mode 0 of {self}, got {mode}")
        if not -len(self) <= mode < len(self):
            raise LayoutError(f"expected a mode in 0..{len(self) - 1} of {self}, got {mode}")
        return Layout(self.shape[mode], self.stride[mode])

    def __call__(self, *coord: Any) -> Any:
        """Offset of a coordinate; with `None` in it, the sub-layout of those modes."""
        at = coord[0] if len(coord) == 1 else tuple(coord)
        if _has_none(at):
            kept = _slice(at, self.shape, self.stride)
            if len(kept) == 1:
                return Layout(*kept[0])
            return Layout(tuple(s for s, _ in kept), tuple(d for _, d in kept))
        return crd2idx(at, self.shape, self.stride)

    def size(self) -> int:
        """How many coordinates there are."""
        return product(self.shape)

    def cosize(self) -> int:
        """One more than the span of the offsets."""
        total = 1
        for extent, stride in leaves(self.shape, self.stride):
            if not isinstance(extent, int) or not isinstance(stride, int):
                raise LayoutError(f"expected a static layout, got {self}")
            total += (extent - 1) * abs(stride)
        return total

    def offsets(self) -> list[Any]:
        """All offsets in colexicographic order of the coordinates."""
        offsets: list[Any] = [0]
        for extent, stride in leaves(self.shape, self.stride):
            steps = [scale(i, stride) for i in range(extent)]
            offsets = [add(base, step) for step in steps for base in offsets]
        return offsets

    @staticmethod
    def parse(text: str) -> Layout:
        """Read `(4,8):(8,1)`."""
        from .text import parse_layout

        return parse_layout(text)


def _as_tuple(value: Any) -> Any:
    return tuple(map(_as_tuple, value)) if isinstance(value, list | tuple) else value


def _has_none(coord: Any) -> bool:
    if isinstance(coord, tuple):
        return any(map(_has_none, coord))
    return coord is None


def _slice(coord: Any, shape: IntTuple, stride: IntTuple) -> list[tuple[IntTuple, IntTuple]]:
    if coord is None:
        return [(shape, stride)]
    if not isinstance(coord, tuple):
        return []
    if not isinstance(shape, tuple) or len(coord) != len(shape):
        raise LayoutError(f"expected a coordinate of {to_text(shape)}, got {to_text(coord)}")
    out: list[tuple[IntTuple, IntTuple]] = []
    for c, s, d in zip(coord, shape, stride, strict=True):
        out.extend(_slice(c, s, d))
    return out


def coalesce(layout: Layout) -> Layout:
    """The same function of an index with the fewest modes.

    >>> print(coalesce(Layout((2, (1, 6)), (1, (6, 2)))))
    12:1
    """
    modes: list[tuple[Any, Any]] = []
    for extent, stride in leaves(layout.shape, layout.stride):
        if extent == 1:
            continue
        if modes:
            last, step = modes[-1]
            joins = isinstance(last, int) and isinstance(step, int) and isinstance(extent, int)
            if joins and stride == last * step:
                modes[-1] = (last * extent, step)
                continue
        modes.append((extent, stride))
    if not modes:
        return Layout(1, flatten(layout.stride)[0])
    if len(modes) == 1:
        return Layout(*modes[0])
    return Layout(tuple(e for e, _ in modes), tuple(s for _, s in modes))
