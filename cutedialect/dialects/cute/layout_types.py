"""Layouts as types: static layouts, composed layouts and swizzles in the text of NVIDIA's CuTe IR, so
that signatures and tests pass between the two. As attributes they are spelled the same with `#`.
"""

from __future__ import annotations

from typing import Any

from xdsl.ir import TypeAttribute
from xdsl.irdl import irdl_attr_definition
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.checks import check
from cutedialect.layout import (
    ComposedLayout,
    Dyn,
    Layout,
    LayoutError,
    ScaledBasis,
    Swizzle,
    flatten,
    is_tuple,
    to_text,
    weakly_congruent,
)
from cutedialect.layout import text as layout_text

from .attributes import QuotedData

MAX_SWIZZLE_BITS = 32


@irdl_attr_definition
class LayoutType(QuotedData[Layout], TypeAttribute):
    """A layout as a type: `!cute.layout<"(4,8):(8,1)">`; leaves may be dynamic (`?`)."""

    name = "cute.layout"
    read = staticmethod(layout_text.parse_layout)

    def verify(self) -> None:
        check_layout(self.data)


@irdl_attr_definition
class ComposedLayoutType(QuotedData[ComposedLayout], TypeAttribute):
    """A composed layout as a type: `!cute.composed_layout<"S<3,4,3> o 0 o (8,64):(64,1)">`.

    Its swizzle acts on *element offsets*; that of a memref acts on byte addresses.
    """

    name = "cute.composed_layout"
    read = staticmethod(layout_text.parse_composed_layout)

    def verify(self) -> None:
        composed = self.data
        check(
            not is_plain(composed),
            f"expected a swizzle that moves bits, or an offset, got {composed}, which is the "
            f"layout {composed.inner}",
        )
        check_layout(composed.inner)
        if isinstance(composed.outer, Layout):
            check_layout(composed.outer)
        _check_offsets(composed)


@irdl_attr_definition
class SwizzleType(QuotedData[Swizzle], TypeAttribute):
    """A swizzle as a type: `!cute.swizzle<"S<3,4,3>">`."""

    name = "cute.swizzle"
    read = staticmethod(layout_text.parse_swizzle)

    def verify(self) -> None:
        bits = self.data.bits + self.data.base + abs(self.data.shift)
        check(
            bits <= MAX_SWIZZLE_BITS,
            f"expected a swizzle of at most {MAX_SWIZZLE_BITS} bits, got {bits} of {self.data}",
        )


def is_plain(composed: ComposedLayout) -> bool:
    """Whether a composed layout is its inner layout: a swizzle of no bits and no offset."""
    outer = composed.outer
    return isinstance(outer, Swizzle) and outer.bits == 0 and composed.offset == 0


def check_layout(layout: Layout) -> None:
    """Positive extents and strides of one kind, or `VerifyException`."""
    extents = [leaf for leaf in flatten(layout.shape) if isinstance(leaf, int)]
    check(all(extent > 0 for extent in extents), f"expected positive extents, got {layout}")
    check_strides(layout.stride)


def check_strides(strides: Any) -> None:
    """Strides that are ints, or basis vectors of which none is on the way to another."""
    leaves = flatten(strides)
    paths = [leaf.path for leaf in leaves if isinstance(leaf, ScaledBasis)]
    others = any(
        not isinstance(leaf, ScaledBasis) and (isinstance(leaf, Dyn) or leaf != 0)
        for leaf in leaves
    )
    if paths and others:
        raise VerifyException(
            f"expected strides that are all ints or all scaled basis vectors (0 aside), got "
            f"{to_text(strides)}"
        )
    for path in paths:
        for other in paths:
            if len(other) < len(path) and path[: len(other)] == other:
                raise VerifyException(
                    f"expected basis vectors of coordinates of one nesting, got {to_text(strides)}"
                )


def _check_offsets(composed: ComposedLayout) -> None:
    """What is inside gives offsets that what is outside takes."""
    from cutedialect.layout.elementwise import layout_eval
    from cutedialect.layout.int_tuple import add

    try:
        origin = add(composed.offset, layout_eval(0, composed.inner))
    except LayoutError as error:
        raise VerifyException(
            f"expected an offset to add to those of {composed.inner}, got "
            f"{to_text(composed.offset)}: {error}"
        ) from error
    if isinstance(composed.outer, Swizzle):
        check(
            not is_tuple(origin),
            f"expected int offsets below {composed.outer}, got {to_text(origin)} of {composed}",
        )
    elif is_tuple(origin):
        check(
            weakly_congruent(origin, composed.outer.shape),
            f"expected an int or a coordinate of {composed.outer}, got {to_text(origin)}",
        )
