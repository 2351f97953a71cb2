"""The storage of rings: a buffer with one more mode, the stage."""

from __future__ import annotations

from xdsl.ir import Attribute

from cutedialect.dialects.cute import MemRefType
from cutedialect.layout import Layout


def ring_type(type_: Attribute, stages: int) -> MemRefType:
    """Type of a ring of `stages` buffers of a type."""
    assert isinstance(type_, MemRefType)
    extent = 1
    for mode in type_.shape:
        extent *= mode
    # A stage starts on the swizzle's repeat, so that the pattern is the same in each.
    repeat = max(1, type_.alignment * 8 // type_.bits)
    extent = -(-extent // repeat) * repeat
    return type_.with_layout(Layout((*type_.modes, stages), (*type_.stride, extent)))
