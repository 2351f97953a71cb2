"""Divides cut a layout into tiles, products repeat a block: both are compositions with complements.

A tiler is a layout or int (of the whole layout), or a tuple that works mode by mode; the modes past
its end stay whole.
"""

from __future__ import annotations

from typing import Any

from .algebra import coalesce, complement, composition
from .composed_layout import AnyLayout, ComposedLayout
from .errors import LayoutError
from .int_tuple import (
    Dyn,
    ScaledBasis,
    ceil_div,
    extent,
    flatten,
    is_tuple,
    nested,
    to_text,
    unflatten,
)
from .layout import Layout


def _bundle(modes: list[Layout]) -> Layout:
    return Layout(tuple(m.shape for m in modes), tuple(m.stride for m in modes))


def _text(tiler: Any) -> str:
    from .text import format_tile

    return format_tile(tiler) if is_tuple(tiler) else str(tiler)


def _as_tiler(tiler: Any) -> Any:
    tiler = nested(tiler)
    if is_tuple(tiler):
        return tuple(map(_as_tiler, tiler))
    return Layout(tiler, 1) if isinstance(tiler, int | Dyn) else tiler


def _check_rank(layout: AnyLayout, tiler: tuple[Any, ...]) -> None:
    if len(tiler) > len(layout):
        raise LayoutError(
            f"expected rank(tiler) <= rank(layout), got rank {len(tiler)} of {_text(tiler)} and "
            f"rank {len(layout)} of {layout}"
        )


def logical_divide(layout: Any, tiler: Any) -> Any:
    """(tile, rest): the elements that `tiler` picks, and where its copies begin.

    A `None` in a tuple keeps that mode. Tiles that do not divide the size over-run it.

    >>> from cutedialect.layout import Layout
    >>> print(logical_divide(Layout((6, 8), (8, 1)), (3, 4)))
    ((3,2),(4,2)):((8,24),(1,4))
    >>> print(logical_divide(Layout(9, 1), Layout(4, 1)))
    (4,3):(1,4)
    """
    tiler = _as_tiler(tiler)
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, logical_divide(layout.inner, tiler))
    if tiler is None:
        return layout
    if is_tuple(tiler):
        _check_rank(layout, tiler)
        return _bundle(
            [
                logical_divide(mode, tiler[i]) if i < len(tiler) else mode
                for i, mode in enumerate(layout)
            ]
        )
    if not isinstance(tiler, Layout):
        raise LayoutError(f"expected a layout, an int or a tuple to divide {layout}, got {tiler!r}")
    rest = complement(tiler, layout.shape)
    try:
        return composition(layout, _bundle([tiler, rest]))
    except LayoutError as error:
        raise LayoutError(f"expected a tile that divides {layout}, got {tiler}: {error}") from None


def _unzip(layout: Layout, tiler: Any, keep: str) -> Layout:
    """((tiles), (rests)) of a divided or multiplied layout, nested as the tiler is."""
    if not is_tuple(tiler):
        if len(layout) != 2:
            raise LayoutError(
                f"expected a mode that is (tile, rest) already where the tiler has _, "
                f"got {layout} of rank {len(layout)} ({keep})"
            )
        return layout
    pairs = [_unzip(mode, part, keep) for mode, part in zip(layout, tiler, strict=False)]
    extra = list(layout)[len(tiler) :]
    return _bundle(
        [_bundle([pair[0] for pair in pairs]), _bundle([pair[1] for pair in pairs] + extra)]
    )


def _zip_inner(result: Any, tiler: Any, keep: str) -> Any:
    if isinstance(result, ComposedLayout):
        return ComposedLayout(result.outer, result.offset, _unzip(result.inner, tiler, keep))
    return _unzip(result, tiler, keep)


def _spread(zipped: Any, first: bool) -> Any:
    """(first, second modes...) or all modes of both, of a zipped layout."""
    if isinstance(zipped, ComposedLayout):
        return ComposedLayout(zipped.outer, zipped.offset, _spread(zipped.inner, first))
    return _bundle([*(zipped[0] if first else [zipped[0]]), *zipped[1]])


def zipped_divide(layout: Any, tiler: Any) -> Any:
    """((tiles), (rests)): the logical divide with the tiles of all modes in mode 0.

    A `None` in a tuple reads its mode as (tile, rest) already, as C++ does.

    >>> from cutedialect.layout import Layout
    >>> print(zipped_divide(Layout((6, 8), (8, 1)), (3, 4)))
    ((3,4),(2,2)):((8,1),(24,4))
    """
    tiler = _as_tiler(tiler)
    return _zip_inner(logical_divide(layout, tiler), tiler, f"{layout} by {_text(tiler)}")


def tiled_divide(layout: Any, tiler: Any) -> Any:
    """((tiles), rest, rest...).

    >>> from cutedialect.layout import Layout
    >>> print(tiled_divide(Layout((6, 8), (8, 1)), (3, 4)))
    ((3,4),2,2):((8,1),24,4)
    """
    return _spread(zipped_divide(layout, tiler), first=False)


def flat_divide(layout: Any, tiler: Any) -> Any:
    """(tile, tile..., rest, rest...).

    >>> from cutedialect.layout import Layout
    >>> print(flat_divide(Layout((6, 8), (8, 1)), (3, 4)))
    (3,4,2,2):(8,1,24,4)
    """
    return _spread(zipped_divide(layout, tiler), first=True)


def logical_product(layout: Any, tiler: Any) -> Any:
    """(block, repeats): copies of `layout` beside each other, ordered as `tiler` says.

    An int n repeats n times. Stride-0 modes of the block take no room.

    >>> from cutedialect.layout import Layout
    >>> print(logical_product(Layout((2, 2), (1, 2)), Layout((3, 3), (3, 1))))
    ((2,2),(3,3)):((1,2),(12,4))
    """
    tiler = _as_tiler(tiler)
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, logical_product(layout.inner, tiler))
    if tiler is None:
        return layout
    if is_tuple(tiler):
        _check_rank(layout, tiler)
        return _bundle(
            [
                logical_product(mode, tiler[i]) if i < len(tiler) else mode
                for i, mode in enumerate(layout)
            ]
        )
    if not isinstance(tiler, Layout):
        raise LayoutError(f"expected a layout, an int or a tuple to repeat {layout}, got {tiler!r}")
    room: Any = Dyn()
    if any(isinstance(leaf, ScaledBasis) for leaf in flatten(layout.stride)):
        room = None
    elif tiler.is_static():
        room = extent(layout.shape) * tiler.cosize()
    try:
        return _bundle([layout, composition(complement(layout, room), tiler)])
    except LayoutError as error:
        raise LayoutError(
            f"expected a block that can repeat, got {layout} by {tiler}: {error}"
        ) from None


def zipped_product(layout: Any, tiler: Any) -> Any:
    """((blocks), (repeats))."""
    tiler = _as_tiler(tiler)
    return _zip_inner(logical_product(layout, tiler), tiler, f"{layout} by {_text(tiler)}")


def tiled_product(layout: Any, tiler: Any) -> Any:
    """((blocks), repeat, repeat...)."""
    return _spread(zipped_product(layout, tiler), first=False)


def flat_product(layout: Any, tiler: Any) -> Any:
    """(block, block..., repeat, repeat...)."""
    return _spread(zipped_product(layout, tiler), first=True)


def blocked_product(layout: Any, tiler: Any) -> Any:
    """Mode by mode (block, repeat): each block stays together.

    >>> from cutedialect.layout import Layout
    >>> print(blocked_product(Layout((3, 4), (4, 1)), Layout((2, 5), (1, 2))))
    ((3,2),(4,5)):((4,12),(1,24))
    """
    return _interleave(layout, tiler, swap=False)


def raked_product(layout: Any, tiler: Any) -> Any:
    """Mode by mode (repeat, block): the repeats of one element lie together.

    >>> from cutedialect.layout import Layout
    >>> print(raked_product(Layout((3, 4), (4, 1)), Layout((2, 5), (1, 2))))
    ((2,3),(5,4)):((12,4),(24,1))
    """
    return _interleave(layout, tiler, swap=True)


def _interleave(layout: Any, tiler: Any, swap: bool) -> Any:
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, layout.offset, _interleave(layout.inner, tiler, swap))
    tiler = _as_tiler(tiler)
    if not isinstance(tiler, Layout):
        raise LayoutError(f"expected a layout or an int to repeat {layout}, got {_text(tiler)}")
    both = logical_product(layout, tiler)
    blocks, repeats = list(both[0]), list(both[1])
    # A mode that is no tuple may have become one in the product: it stays one mode.
    if not is_tuple(tiler.shape):
        repeats = [both[1]]
    if not is_tuple(layout.shape):
        blocks = [both[0]]
    modes: list[Layout] = []
    for i in range(max(len(blocks), len(repeats))):
        pair = [
            part[i] for part in ((repeats, blocks) if swap else (blocks, repeats)) if i < len(part)
        ]
        modes.append(_bundle(pair) if len(pair) == 2 else pair[0])
    return _bundle(modes)


def make_ordered_layout(shape: Any, order: Any) -> Layout:
    """Compact strides, the smallest where `order` is smallest; extent 1 has stride 0.

    >>> print(make_ordered_layout((4, 3, 2), (2, 0, 1)))
    (4,3,2):(6,1,3)
    """
    leaves: list[tuple[Any, int, Any]] = []

    def collect(part: Any, rank: Any) -> None:
        if is_tuple(rank):
            if not is_tuple(part) or len(part) != len(rank):
                raise LayoutError(
                    f"expected an order for every mode of {to_text(shape)}, got {to_text(order)}"
                )
            for inner, key in zip(part, rank, strict=True):
                collect(inner, key)
        elif is_tuple(part):
            for inner in part:
                collect(inner, rank)
        elif not isinstance(rank, int):
            raise LayoutError(f"expected an order of ints, got {to_text(order)}")
        else:
            leaves.append((rank, len(leaves), part))

    collect(shape, order)
    strides: list[Any] = [0] * len(leaves)
    current: Any = 1
    for _, position, size in sorted(leaves, key=lambda leaf: leaf[:2]):
        if size != 1:
            strides[position] = current
            current = current * size

    def build(part: Any, at: int) -> tuple[Any, int]:
        if is_tuple(part):
            out: list[Any] = []
            for inner in part:
                value, at = build(inner, at)
                out.append(value)
            return tuple(out), at
        return strides[at], at + 1

    return Layout(shape, build(shape, 0)[0])


def make_layout_like(layout: Layout) -> Layout:
    """Compact strides in the order of those of a layout; stride 0 stays.

    >>> print(make_layout_like(Layout((4, 3, 2), (12, 0, 7))))
    (4,3,2):(2,0,1)
    """
    if any(isinstance(leaf, ScaledBasis) for leaf in flatten(layout.stride)):
        raise LayoutError(f"expected int strides to order, got {layout}")
    strides = flatten(layout.stride)
    sizes = [1 if d == 0 else s for s, d in zip(flatten(layout.shape), strides, strict=True)]
    # Run-time strides have no order of their own: they come last, as they stand.
    ranks = {
        place: rank
        for rank, place in enumerate(
            sorted(range(len(strides)), key=lambda at: _stride_rank(strides[at]))
        )
    }
    flat = make_ordered_layout(tuple(sizes), tuple(ranks[at] for at in range(len(strides))))
    return Layout(layout.shape, unflatten(iter(flatten(flat.stride)), layout.shape))


def _stride_rank(stride: Any) -> tuple[int, int]:
    return (0, abs(stride)) if isinstance(stride, int) else (1, 0)


def tile_to_shape(block: Any, shape: Any, order: Any = None) -> Any:
    """The block repeated until it covers `shape`, repeats in `order` (default: first mode fastest).

    `order` permutes the modes of `shape`. Uneven blocks over-run the shape.

    >>> from cutedialect.layout import Layout
    >>> print(tile_to_shape(Layout((8, 64), (64, 1)), (64, 128)))
    ((8,8),(64,2)):((64,512),(1,4096))
    """
    if isinstance(block, ComposedLayout):
        inner = tile_to_shape(block.inner, shape, order)
        return ComposedLayout(block.outer, block.offset, inner)
    modes = shape if is_tuple(shape) else (shape,)
    if len(block) > len(modes):
        raise LayoutError(
            f"expected a shape of at least the {len(block)} modes of {block}, got {to_text(shape)}"
        )
    order = tuple(range(len(modes))) if order is None else order
    keys = order if is_tuple(order) else (order,)
    if not is_tuple(order) or set(keys) != set(range(len(modes))) or len(keys) != len(modes):
        raise LayoutError(
            f"expected an order that permutes 0..{len(modes) - 1} to tile {block} to "
            f"{to_text(shape)}, got {to_text(order)}"
        )
    blocks = list(block) if is_tuple(block.shape) else [block]
    padded = _bundle(blocks + [Layout(1, 0)] * (len(modes) - len(blocks)))
    repeats = tuple(
        ceil_div(extent(mode), extent(part.shape)) for mode, part in zip(modes, padded, strict=True)
    )
    return coalesce_pairs(blocked_product(padded, make_ordered_layout(repeats, order)))


def coalesce_pairs(layout: Layout) -> Layout:
    """Each repeat of each (block, repeat) mode coalesced."""
    return _bundle([_bundle([mode[0], coalesce(mode[1])]) for mode in layout])
