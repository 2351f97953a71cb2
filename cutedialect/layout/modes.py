"""Taking layouts apart by mode and putting them together: make, group, select, slice, size.

The functions take a `Layout`, a `ComposedLayout` (they act on its inner layout) and, where that
means something, a plain int tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .composed_layout import AnyLayout, ComposedLayout
from .errors import LayoutError
from .int_tuple import (
    IntTuple,
    ScaledBasis,
    add,
    crd2idx,
    is_tuple,
    nested,
    product,
    to_text,
)
from .int_tuple import depth as tuple_depth
from .layout import Layout, has_none


def make_layout(*layouts: Any, stride: IntTuple | None = None) -> Layout:
    """One layout with the given layouts as modes; or, like the class, of a shape and strides.

    >>> print(make_layout(Layout(4, 2), Layout((2, 2), (8, 1))), make_layout((4, 8), (8, 1)))
    (4,(2,2)):(2,(8,1)) (4,8):(8,1)
    """
    if len(layouts) == 1:
        parts = nested(layouts[0])
        if is_tuple(parts) and parts and all(isinstance(part, Layout) for part in parts):
            layouts = parts
    if layouts and all(isinstance(part, Layout) for part in layouts):
        return Layout(tuple(m.shape for m in layouts), tuple(m.stride for m in layouts))
    if any(isinstance(part, Layout) for part in layouts) or not 1 <= len(layouts) <= 2:
        raise LayoutError(f"expected layouts, or a shape and strides, got {layouts}")
    return Layout(layouts[0], layouts[1] if len(layouts) == 2 else stride)


def make_identity_layout(shape: IntTuple) -> Layout:
    """The layout that gives each coordinate itself.

    >>> identity = make_identity_layout((4, (2, 8)))
    >>> print(identity, identity(3, (1, 5)))
    (4,(2,8)):(1@0,(1@0@1,1@1@1)) (3, (1, 5))
    """

    def basis(part: IntTuple, path: tuple[int, ...]) -> IntTuple:
        if is_tuple(part):
            return tuple(basis(mode, (*path, i)) for i, mode in enumerate(part))
        return ScaledBasis(1, path) if path else 1

    return Layout(shape, basis(shape, ()))


def size(layout: Any, mode: int | tuple[int, ...] | None = None) -> int:
    """How many coordinates a layout (or shape), or one mode of it, has."""
    if mode is not None:
        layout = _mode(layout, mode)
    return layout.size() if hasattr(layout, "size") else product(layout)


def cosize(layout: AnyLayout, mode: int | tuple[int, ...] | None = None) -> int:
    """One more than the largest offset (the span, with negative strides) of a layout."""
    return (layout if mode is None else layout[mode]).cosize()


def rank(layout: Any, mode: int | tuple[int, ...] | None = None) -> int:
    """How many modes a layout or tuple, or one mode of it, has; 1 of an int."""
    if mode is not None:
        layout = _mode(layout, mode)
    return len(layout) if is_tuple(layout) or isinstance(layout, Layout | ComposedLayout) else 1


def depth(layout: Any, mode: int | tuple[int, ...] | None = None) -> int:
    """How deep a layout or tuple, or one mode of it, nests."""
    if mode is not None:
        layout = _mode(layout, mode)
    return tuple_depth(layout.shape if isinstance(layout, Layout | ComposedLayout) else layout)


def _mode(layout: Any, mode: int | tuple[int, ...]) -> Any:
    if isinstance(mode, tuple):
        for step in mode:
            layout = _mode(layout, step)
        return layout
    if isinstance(layout, Layout | ComposedLayout):
        return layout[mode]
    modes = layout if is_tuple(layout) else (layout,)
    if not -len(modes) <= mode < len(modes):
        raise LayoutError(
            f"expected a mode in 0..{len(modes) - 1} of {to_text(layout)}, got {mode}"
        )
    return modes[mode]


def _rebuild(layout: Any, change: Callable[[list[Any]], list[Any]]) -> Any:
    """The result of `change` on the modes (a list), as a layout of the kind given."""
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, _rebuild(layout.inner, change))
    if isinstance(layout, Layout):
        modes = change(list(layout))
        return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))
    return tuple(change(list(layout) if is_tuple(layout) else [layout]))


def group(layout: Any, begin: int, end: int | None = None) -> Any:
    """Modes begin to end (exclusive) as one mode; `group_modes` is the same function.

    >>> print(group(Layout((2, 3, 4)), 0, 2))
    ((2,3),4):((1,2),6)
    """
    ranks = rank(layout)
    end = ranks if end is None or end == -1 else end
    if not 0 <= begin < end <= ranks:
        raise LayoutError(
            f"expected 0 <= begin < end <= {ranks} for {_show(layout)}, got {begin} and {end}"
        )

    def change(modes: list[Any]) -> list[Any]:
        inner = modes[begin:end]
        if isinstance(layout, Layout | ComposedLayout):
            return [*modes[:begin], make_layout(*inner), *modes[end:]]
        return [*modes[:begin], tuple(inner), *modes[end:]]

    return _rebuild(layout, change)


group_modes = group


def _show(layout: Any) -> str:
    return str(layout) if isinstance(layout, Layout | ComposedLayout) else to_text(layout)


def select(layout: Any, modes: list[int] | tuple[int, ...]) -> Any:
    """The given modes, in the given order.

    >>> print(select(Layout((2, 3, 4)), (2, 0)))
    (4,2):(6,1)
    """
    count = rank(layout)
    for mode in modes:
        if not 0 <= mode < count:
            raise LayoutError(f"expected modes in 0..{count - 1} of {_show(layout)}, got {mode}")
    return _rebuild(layout, lambda parts: [parts[mode] for mode in modes])


def get(value: Any, path: int | tuple[int, ...] = ()) -> Any:
    """A mode, or by a path a mode of a mode, of a layout, tuple or tiler; leaves have none.

    >>> get((4, (2, 3)), (1, 0)), get(Layout((4, 8), (1, 4)), 1)
    (2, Layout(8:4))
    """
    for position, mode in enumerate(path if isinstance(path, tuple) else (path,)):
        count = _count(value)
        if tuple_depth(_domain(value)) == 0 and position > 0:
            raise LayoutError(
                f"expected a path that ends at a leaf, got {path}: mode {mode} of {_show(value)}"
            )
        if not 0 <= mode < count:
            raise LayoutError(f"expected a mode in 0..{count - 1} of {_show(value)}, got {mode}")
        if tuple_depth(_domain(value)) > 0:
            value = value[mode]
    return value


def _domain(value: Any) -> Any:
    """The shape of a layout, and else the tuple itself."""
    return value.shape if isinstance(value, Layout | ComposedLayout) else value


def _count(value: Any) -> int:
    domain = value if is_tuple(value) else _domain(value)
    return len(domain) if is_tuple(domain) else 1


def take(layout: Any, begin: int, end: int) -> Any:
    """Modes begin to end (exclusive).

    >>> print(take(Layout((2, 3, 4)), 1, 3), take((2, 3, 4), 0, 2))
    (3,4):(2,6) (2, 3)
    """
    ranks = rank(layout)
    if not 0 <= begin <= end <= ranks:
        raise LayoutError(
            f"expected 0 <= begin <= end <= {ranks} for {_show(layout)}, got {begin} and {end}"
        )
    return _rebuild(layout, lambda modes: modes[begin:end])


def replace(layout: Any, mode: int, value: Any) -> Any:
    """The layout or tuple with another mode in one place.

    >>> print(replace(Layout((2, 3)), 1, Layout(8, 16)), replace((2, 3), 0, 7))
    (2,8):(1,16) (7, 3)
    """
    ranks = rank(layout)
    if not 0 <= mode < ranks:
        raise LayoutError(f"expected a mode in 0..{ranks - 1} of {_show(layout)}, got {mode}")
    return _rebuild(layout, lambda modes: [*modes[:mode], value, *modes[mode + 1 :]])


def append(layout: Any, value: Any, up_to_rank: int | None = None) -> Any:
    """The value as one more last mode, or as many as bring it to a rank.

    >>> print(append(Layout(4, 2), Layout(1, 0), up_to_rank=3))
    (4,1,1):(2,0,0)
    """
    return _rebuild(layout, lambda parts: parts + [value] * _missing(layout, up_to_rank))


def prepend(layout: Any, value: Any, up_to_rank: int | None = None) -> Any:
    """The value as one more first mode, or as many as bring it to a rank."""
    return _rebuild(layout, lambda parts: [value] * _missing(layout, up_to_rank) + parts)


def _missing(layout: Any, up_to_rank: int | None) -> int:
    if up_to_rank is None:
        return 1
    if up_to_rank < rank(layout):
        raise LayoutError(f"expected a rank of at most {up_to_rank}, got {_show(layout)}")
    return up_to_rank - rank(layout)


def _kept(coord: Any, part: IntTuple, keep_none: bool) -> list[Any]:
    if is_tuple(coord):
        if not is_tuple(part) or len(coord) != len(part):
            raise LayoutError(f"expected a coordinate of {to_text(part)}, got {to_text(coord)}")
        return [
            leaf
            for inner, mode in zip(coord, part, strict=True)
            for leaf in _kept(inner, mode, keep_none)
        ]
    return [part] if (coord is None) == keep_none else []


def _pick(coord: Any, layout: Any, keep_none: bool) -> Any:
    if isinstance(layout, ComposedLayout):
        inner = _pick(coord, layout.inner, keep_none)
        return ComposedLayout(layout.outer, layout.offset, inner)
    if isinstance(layout, Layout):
        return Layout(_pick(coord, layout.shape, keep_none), _pick(coord, layout.stride, keep_none))
    if not is_tuple(coord):
        return layout if (coord is None) == keep_none else ()
    return tuple(_kept(coord, layout, keep_none))


def slice_(coord: Any, layout: Any) -> Any:
    """The modes of a layout or tuple for which the coordinate has `None`, offset left out.

    >>> print(slice_((0, None), Layout((8, 4), (1, 8))), slice_((None, 0), (2, 3)))
    (4):(8) (2,)
    """
    return _pick(coord, layout, keep_none=True)


def dice(coord: Any, layout: Any) -> Any:
    """The modes of a layout or tuple for which the coordinate has an int.

    >>> print(dice((0, None), Layout((8, 4), (1, 8))))
    (8):(1)
    """
    return _pick(coord, layout, keep_none=False)


def slice_and_offset(coord: Any, layout: Any) -> tuple[Any, Any]:
    """(sub-layout, offset of its begin); a composed layout keeps the offset inside, so 0.

    >>> layout, offset = slice_and_offset((3, None), Layout((8, 4), (1, 8)))
    >>> print(layout, offset)
    (4):(8) 3
    """
    if isinstance(layout, ComposedLayout):
        inner, offset = slice_and_offset(coord, layout.inner)
        return ComposedLayout(layout.outer, add(layout.offset, offset), inner), 0
    if not has_none(coord):
        return slice_(coord, layout), layout(coord)
    return slice_(coord, layout), crd2idx(coord, layout.shape, layout.stride)
