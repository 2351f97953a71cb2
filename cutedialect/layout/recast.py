"""Layouts of the same bytes in elements of another size.

`upcast` groups n elements into one, `downcast` splits each into n, `recast` does what two element
sizes ask for. Swizzles move by the binary logarithm, so that the XORed address bits stay the same:
the 128-byte swizzle is `S<3,4,3>` on bytes and `S<3,3,3>` on 16-bit elements.
"""

from __future__ import annotations

from typing import Any

from .algebra import coalesce, composition, right_inverse
from .composed_layout import ComposedLayout
from .errors import LayoutError
from .int_tuple import Dyn, ScaledBasis, add, ceil_div, leaves, unflatten
from .layout import Layout
from .swizzle import Swizzle


def recast(layout: Any, old_bits: int, new_bits: int) -> Any:
    """A layout, composed layout or swizzle of `old_bits` elements, in elements of `new_bits`.

    >>> print(recast(Layout((32, 4), (1, 32)), 8, 32), recast(Swizzle(3, 4, 3), 8, 16))
    (8,4):(1,8) S<3,3,3>
    """
    if old_bits < 1 or new_bits < 1:
        raise LayoutError(
            f"expected element sizes of at least 1 bit, got {old_bits} and {new_bits}"
        )
    if new_bits % old_bits == 0:
        return upcast(layout, new_bits // old_bits)
    if old_bits % new_bits == 0:
        return downcast(layout, old_bits // new_bits)
    # Neither divides the other: first to single bits, then up.
    return upcast(downcast(layout, old_bits), new_bits)


def upcast(layout: Any, n: int) -> Any:
    """n elements become one; each stride has to divide n or be a multiple of it.

    >>> print(upcast(Layout((8, 4), (1, 8)), 4))
    (2,4):(1,2)
    """
    if n == 1:
        return layout
    if isinstance(layout, Swizzle):
        return _shifted(layout, -_log2(n, layout))
    if isinstance(layout, ComposedLayout):
        offset = layout.offset
        if not isinstance(offset, int) or offset % n:
            raise LayoutError(f"expected an offset that {n} divides to upcast {layout}")
        return ComposedLayout(upcast(layout.outer, n), offset // n, upcast(layout.inner, n))
    modes = [_upcast_mode(*mode, n, layout) for mode in leaves(layout.shape, layout.stride)]
    return Layout(
        unflatten((s for s, _ in modes), layout.shape),
        unflatten((d for _, d in modes), layout.shape),
    )


def _upcast_mode(size: Any, stride: Any, n: int, layout: Layout) -> tuple[Any, Any]:
    """A mode of `layout` in groups of n elements, as (size, stride)."""
    if not isinstance(stride, int):
        if isinstance(stride, ScaledBasis):
            raise LayoutError(f"expected int strides to upcast, got {layout}")
        return size, ceil_div(stride, n)
    if stride % n == 0:
        return size, stride // n
    if n % abs(stride) == 0:
        step = 1 if stride > 0 else -1
        if isinstance(size, Dyn):
            return ceil_div(size, n // abs(stride)), step
        if size * abs(stride) % n == 0:
            return size // (n // abs(stride)), step
        if isinstance(size, int) and n % (size * abs(stride)) == 0:
            return 1, 0
    raise LayoutError(
        f"expected modes that fill whole groups of {n} elements to upcast {layout}, "
        f"got {size}:{stride}"
    )


def downcast(layout: Any, n: int) -> Any:
    """Each element becomes n; the mode of stride 1 (or -1) grows.

    >>> print(downcast(Layout((2, 4), (1, 2)), 4))
    (8,4):(1,8)
    """
    if n == 1:
        return layout
    if isinstance(layout, Swizzle):
        return _shifted(layout, _log2(n, layout))
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(
            downcast(layout.outer, n), layout.offset * n, downcast(layout.inner, n)
        )
    modes = [
        (size * n, stride) if stride in (1, -1) else (size, stride * n)
        for size, stride in leaves(layout.shape, layout.stride)
    ]
    static = all(isinstance(stride, int) for _, stride in modes)
    if static and sum(stride in (1, -1) for _, stride in modes) != 1:
        raise LayoutError(f"expected one mode of stride 1 to downcast, got {layout}")
    return Layout(
        unflatten((s for s, _ in modes), layout.shape),
        unflatten((d for _, d in modes), layout.shape),
    )


def _log2(n: int, swizzle: Swizzle) -> int:
    if n < 1 or n & (n - 1):
        raise LayoutError(f"expected a power of 2 to recast {swizzle}, got {n}")
    return n.bit_length() - 1


def _shifted(swizzle: Swizzle, by: int) -> Swizzle:
    if swizzle.base + by < 0:
        raise LayoutError(
            f"expected a swizzle whose base is at least {-by} bits to group elements, got {swizzle}"
        )
    return Swizzle(swizzle.bits, swizzle.base + by, swizzle.shift)


def max_common_layout(a: Layout, b: Layout) -> Layout:
    """The longest v with a(v(i)) == b(v(i)) == i, for every i below its size.

    >>> print(max_common_layout(Layout((4, 8), (1, 4)), Layout((4, 8), (1, 8))))
    4:1
    """
    common = coalesce(composition(a, right_inverse(b)))
    run = common.shape if isinstance(common.shape, int) else common.shape[0]
    step = common.stride if isinstance(common.shape, int) else common.stride[0]
    if step != 1 or run == 1:
        return Layout(1, 0)
    return coalesce(composition(right_inverse(b), Layout(run, 1)))


def max_common_vector(a: Layout, b: Layout) -> int:
    """How many elements, from the first on, lie consecutively in both layouts.

    >>> max_common_vector(Layout((4, 8), (1, 4)), Layout((4, 8), (1, 8)))
    4
    """
    return max_common_layout(a, b).size()


def offset_by(layout: Any, offset: Any) -> ComposedLayout:
    """The layout moved by an offset: `S o k o L` of a swizzled one, `1:1 o k o L` of another."""
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, add(layout.offset, offset), layout.inner)
    return ComposedLayout(Layout(1, 1), offset, layout)
