"""The layout algebra as IR: types and ops of NVIDIA's open CuTe IR, which the `cute` dialect loads when
text asks for them. `tuple_types.py` has the types beside layouts, `table.py` a row for each op,
`algebra_op.py` what a row means, `values.py` the way from types to values of `cutedialect.layout` and
back, `rules.py` what CuTe IR states in other terms than the function that computes it.
"""

from __future__ import annotations

from .algebra_op import AlgebraOp, outcome
from .operations import OPERATIONS, OPS
from .tuple_types import (
    ATTRIBUTES,
    CoordType,
    IntTupleType,
    ShapeType,
    StrideType,
    TileType,
)
from .values import (
    bits_of,
    is_static_type,
    is_value,
    layout_type_of,
    numbers_of,
    scalar_types,
    type_of,
    value_of,
)

__all__ = [
    "ATTRIBUTES",
    "OPERATIONS",
    "OPS",
    "AlgebraOp",
    "CoordType",
    "IntTupleType",
    "ShapeType",
    "StrideType",
    "TileType",
    "bits_of",
    "is_static_type",
    "is_value",
    "layout_type_of",
    "numbers_of",
    "outcome",
    "scalar_types",
    "type_of",
    "value_of",
]
