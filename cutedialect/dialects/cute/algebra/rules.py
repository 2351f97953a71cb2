"""Rules of ops that CuTe IR states in other terms than the function of `cutedialect.layout` that
computes them: operands of several kinds, mode paths, and what it leaves out or asks for besides.
"""

from __future__ import annotations

from typing import Any

from cutedialect.layout import (
    ComposedLayout,
    Dyn,
    Layout,
    LayoutError,
    ScaledBasis,
    Swizzle,
    append,
    composition,
    is_tuple,
    make_ordered_layout,
    prepend,
    to_text,
    weakly_congruent,
)
from cutedialect.layout import ceil_div as layout_ceil_div
from cutedialect.layout import complement as layout_complement
from cutedialect.layout import dice as layout_dice
from cutedialect.layout import flatten as leaves_of
from cutedialect.layout import get as layout_get
from cutedialect.layout import idx2crd as layout_idx2crd
from cutedialect.layout import make_layout_like as layout_like
from cutedialect.layout.elementwise import layout_eval as evaluate_layout
from cutedialect.layout.expression import compute, is_static_value
from cutedialect.layout.int_tuple import compact, crd2idx, extent
from cutedialect.layout.modes import has_none, rank, slice_, slice_and_offset


def shape_of(value: Any) -> Any:
    """The shape of a layout; of a tiler those of its layouts."""
    if is_tuple(value):
        return tuple(map(shape_of, value))
    if value is None:
        raise LayoutError("expected a tile of layouts only, got '_'")
    return value.shape


def stride_of(layout: Layout) -> Any:
    """The strides of a layout."""
    return layout.stride


def outside(composed: ComposedLayout) -> Any:
    """The layout or swizzle that is applied last; CuTe IR says inner."""
    return composed.outer


def offset_of(composed: ComposedLayout) -> Any:
    """The offset of a composed layout."""
    return composed.offset


def inside(composed: ComposedLayout) -> Layout:
    """The layout that is applied first; CuTe IR says outer."""
    return composed.inner


def same(value: Any) -> Any:
    """The value itself."""
    return value


def ints(value: Any) -> Any:
    """The tuple, which must have ints for leaves."""
    for leaf in leaves_of(value):
        if leaf is None or isinstance(leaf, ScaledBasis):
            raise LayoutError(f"expected int leaves, got {to_text(leaf)} in {to_text(value)}")
    return value


def plain_layout(shape: Any, stride: Any) -> Layout:
    """The layout of a shape and strides."""
    return Layout(shape, stride)


def composed_layout(outer: Any, offset: Any, inner: Layout) -> ComposedLayout:
    """`outer o offset o inner`."""
    return ComposedLayout(outer, offset, inner)


def make_layout_like(layout: Any) -> Layout:
    """The compact layout in the order of the strides; of a composed layout that of the inner one."""
    if isinstance(layout, ComposedLayout):
        if isinstance(layout.outer, Layout):
            raise LayoutError(f"expected a composed layout of a swizzle, got {layout}")
        layout = layout.inner
    return layout_like(layout)


def ordered_layout(shape: Any, order: Any) -> Layout:
    """The compact layout in an order, which must be static."""
    if not is_static_value(order):
        raise LayoutError(f"expected a static order, got {to_text(order)}")
    return make_ordered_layout(shape, order)


def complement(layout: Layout, cotarget: Any = None) -> Layout:
    """The complement up to a shape, of a layout its own."""
    if cotarget is None:
        if not is_static_value(layout):
            raise LayoutError(f"expected a static layout without a cotarget, got {layout}")
        return layout_complement(layout)
    if any(isinstance(leaf, ScaledBasis) for leaf in leaves_of(layout.stride)):
        raise LayoutError(f"expected int strides up to a cotarget, got {layout}")
    shape = cotarget.shape if isinstance(cotarget, Layout) else cotarget
    return layout_complement(layout, _joined(shape))


def _joined(shape: Any) -> Any:
    """The extents with neighbors that are both static, or both dynamic, as one."""
    joined: list[Any] = []
    for size in leaves_of(shape):
        if joined and isinstance(joined[-1], int) == isinstance(size, int):
            joined[-1] = joined[-1] * size
        else:
            joined.append(size)
    return tuple(joined)


def slice(coord: Any, value: Any) -> Any:
    """The modes that have `_`; a composed layout keeps the offset of the others."""
    domain = value.shape if isinstance(value, Layout | ComposedLayout) else value
    if not weakly_congruent(coord, domain):
        raise LayoutError(f"expected a coordinate of {to_text(domain)}, got {to_text(coord)}")
    if not isinstance(value, ComposedLayout):
        return slice_(coord, value)
    if isinstance(value.outer, Swizzle):
        if not is_static_value(value.inner):
            raise LayoutError(f"expected a static layout below a swizzle to slice, got {value}")
        if not has_none(coord):
            raise LayoutError(f"expected a coordinate with '_', got {to_text(coord)}")
        return _sliced_below_swizzle(coord, value, value.outer)
    return slice_and_offset(coord, value)[0]


def _sliced_below_swizzle(coord: Any, value: ComposedLayout, swizzle: Swizzle) -> Any:
    """The slice of a swizzled layout. Of the offset of its begin only the bits that the swizzle
    reads or moves stay inside; where its own offsets meet none of them, it is a plain layout.
    """
    inner, begin = slice_and_offset(coord, value.inner)
    if all(leaf is None for leaf in leaves_of(coord)):
        return ComposedLayout(swizzle, value.offset, inner)
    low = min(swizzle.base, swizzle.base + swizzle.shift)
    high = max(swizzle.base, swizzle.base + swizzle.shift)
    ones = (1 << swizzle.bits) - 1
    mask = ones << low | ones << high
    offset = compute("xor", value.offset, compute("and", begin, mask))
    active = (inner.cosize() - 1) & mask
    if active & ~swizzle(active):
        return ComposedLayout(swizzle, offset, inner)
    # Each bit of the layout's own offsets adds a number of its own.
    steps = [1]
    steps += [
        swizzle(compute("xor", offset, 1 << bit)) - swizzle(offset)
        for bit in range(low, high + swizzle.bits)
    ]
    above = 1 << high + swizzle.bits
    bits = Layout((1 << low, *[2] * (len(steps) - 1), 2), (*steps, above))
    return composition(bits, inner)


def dice(coord: Any, value: Any) -> Any:
    """The modes that have an int."""
    domain = value.shape if isinstance(value, Layout | ComposedLayout) else value
    if not is_static_value(coord):
        raise LayoutError(f"expected a static coordinate, got {to_text(coord)}")
    if not weakly_congruent(coord, domain):
        raise LayoutError(f"expected a coordinate of {to_text(domain)}, got {to_text(coord)}")
    return layout_dice(coord, value)


def size(value: Any, mode: tuple[int, ...] = ()) -> Any:
    """The number of coordinates of a mode of a layout, or the product of a tuple."""
    part = layout_get(value, mode)
    return extent(part.shape if isinstance(part, Layout | ComposedLayout) else part)


def cosize(value: Any, mode: tuple[int, ...] = ()) -> Any:
    """One more than the last offset of a layout; of coordinates the product over their modes."""
    if isinstance(value, ComposedLayout):
        if isinstance(value.outer, Layout):
            raise LayoutError(f"expected a composed layout of a swizzle, got {value}")
        value = value.inner
    layout = layout_get(value, mode)
    strides = tuple(_magnitude(leaf) for leaf in leaves_of(layout.stride))
    flat = Layout(leaves_of(layout.shape), strides)
    last = evaluate_layout(extent(layout.shape) + -1, flat)
    return _one_more(last)


def _magnitude(stride: Any) -> Any:
    if isinstance(stride, ScaledBasis):
        return ScaledBasis(abs(stride.value), stride.path)
    return abs(stride)


def _one_more(value: Any) -> Any:
    if is_tuple(value):
        return extent(tuple(map(_one_more, value)))
    return value + 1


def coord_to_index(coord: Any, shape: Any) -> Any:
    """The colexicographic index of a coordinate."""
    if not weakly_congruent(coord, shape) or has_none(coord):
        raise LayoutError(f"expected a coordinate of {to_text(shape)}, got {to_text(coord)}")
    return crd2idx(coord, shape, compact(shape))


def index_to_coord(index: Any, shape: Any) -> Any:
    """The coordinate of a colexicographic index; the last mode is not reduced."""
    if is_tuple(index):
        if len(index) == 1 and rank(shape) != 1:
            return layout_idx2crd(index[0], shape)
        if len(index) != rank(shape):
            raise LayoutError(f"expected an index of {to_text(shape)}, got {to_text(index)}")
        if not is_tuple(shape):
            return (layout_idx2crd(index[0], shape),)
    return layout_idx2crd(index, shape)


def append_to_rank(value: Any, element: Any, count: int) -> Any:
    """The value with the element as last modes, up to a rank."""
    return append(value, element, _padded(value, element, count))


def prepend_to_rank(value: Any, element: Any, count: int) -> Any:
    """The value with the element as first modes, up to a rank."""
    return prepend(value, element, _padded(value, element, count))


def _padded(value: Any, element: Any, count: int) -> int:
    if count < 1:
        raise LayoutError(f"expected a rank of at least 1, got {count}")
    return max(count, rank(value))


def ceil_div(value: Any, tiler: Any) -> Any:
    """The tuple divided by a tuple, or the number of tiles in each mode."""
    if isinstance(tiler, Layout):
        return layout_complement(tiler, extent(value)).shape
    if is_tuple(tiler) and any(
        part is None or not isinstance(part, int | Dyn) for part in leaves_of(tiler)
    ):
        return layout_ceil_div(value, tuple(_tile_size(part) for part in tiler))
    return layout_ceil_div(value, tiler)


def _tile_size(slot: Any) -> Any:
    """The number of elements of a slot of a tiler; of `_` it is 1."""
    if is_tuple(slot):
        return tuple(map(_tile_size, slot))
    return 1 if slot is None else extent(slot.shape)


def product_rule(name: str) -> Any:
    """A product whose block is static and whose tiler has int strides."""
    import cutedialect.layout

    function = getattr(cutedialect.layout, name)

    def multiplied(block: Any, tiler: Layout) -> Any:
        inner = block.inner if isinstance(block, ComposedLayout) else block
        if not is_static_value(inner):
            raise LayoutError(f"expected a static block to repeat, got {block}")
        if any(isinstance(leaf, ScaledBasis) for leaf in leaves_of(tiler.stride)):
            raise LayoutError(f"expected int strides of the tiler, got {tiler}")
        coordinates = any(isinstance(leaf, ScaledBasis) for leaf in leaves_of(inner.stride))
        if coordinates and not is_static_value(tiler):
            raise LayoutError(f"expected a static tiler of coordinates, got {tiler}")
        return function(block, tiler)

    return multiplied


logical_product = product_rule("logical_product")
zipped_product = product_rule("zipped_product")
tiled_product = product_rule("tiled_product")
flat_product = product_rule("flat_product")
blocked_product = product_rule("blocked_product")
raked_product = product_rule("raked_product")
