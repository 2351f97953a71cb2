"""CuTe's layout algebra in plain Python: usable in a REPL, with no IR and no GPU."""

from __future__ import annotations

from .errors import LayoutError, LayoutSyntaxError
from .int_tuple import (
    Dyn,
    ScaledBasis,
    congruent,
    crd2idx,
    flatten,
    idx2crd,
    product,
)
from .layout import Layout, coalesce
from .swizzle import Swizzle
from .text import parse_int_tuple, parse_layout, parse_swizzle

__all__ = [
    "Dyn",
    "Layout",
    "LayoutError",
    "LayoutSyntaxError",
    "ScaledBasis",
    "Swizzle",
    "coalesce",
    "congruent",
    "crd2idx",
    "flatten",
    "idx2crd",
    "parse_int_tuple",
    "parse_layout",
    "parse_swizzle",
    "product",
]
