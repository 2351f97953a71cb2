"""CuTe's layout algebra in plain Python: usable in a REPL, with no IR and no GPU.

>>> a = Layout((4, 8), (8, 1))
>>> print(a, a(1, 2), logical_divide(a, (2, 4)))
(4,8):(8,1) 10 ((2,2),(4,2)):((8,16),(1,4))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from .algebra import (
    coalesce,
    complement,
    composition,
    filter,
    filter_zeros,
    left_inverse,
    right_inverse,
)
from .composed_layout import AnyLayout, ComposedLayout
from .divide_product import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    make_layout_like,
    make_ordered_layout,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from .errors import LayoutError, LayoutSyntaxError
from .int_tuple import (
    Dyn,
    IntTuple,
    ScaledBasis,
    ceil_div,
    compact,
    congruent,
    crd2idx,
    flatten,
    idx2crd,
    is_static,
    is_tuple,
    product,
    to_text,
    unflatten,
    weakly_congruent,
)
from .int_tuple_algebra import (
    Integer,
    crd2crd,
    elem_scale,
    has_none,
    inner_product,
    is_int,
    prefix_product,
    shape_div,
    tuple_max,
)
from .layout import Layout
from .local_tile import local_partition, local_tile
from .modes import (
    append,
    cosize,
    depth,
    dice,
    get,
    group,
    group_modes,
    make_identity_layout,
    make_layout,
    prepend,
    rank,
    replace,
    select,
    size,
    slice_,
    slice_and_offset,
    take,
)
from .recast import downcast, max_common_layout, max_common_vector, offset_by, recast, upcast
from .swizzle import Swizzle
from .text import (
    format_tile,
    parse,
    parse_composed_layout,
    parse_int_tuple,
    parse_layout,
    parse_swizzle,
    parse_tile,
)

if TYPE_CHECKING:
    from .banks import Wavefronts, access_conflicts, bank_conflicts, ldmatrix_conflicts
    from .draw_text import layout_text, print_layout, tv_text
    from .elementwise import (
        elem_less,
        equal,
        increment_coord,
        layout_eval,
        product_each,
        tuple_add,
        tuple_product,
        tuple_sub,
    )
    from .expression import Expression, evaluate
    from .tiled import (
        MMAAtomLike,
        TiledCopy,
        TiledMMA,
        invert_tv,
        is_bijective,
        is_injective,
        is_surjective,
        make_tiled_copy_tv,
    )

__all__ = [
    "AnyLayout",
    "ComposedLayout",
    "Dyn",
    "Expression",
    "IntTuple",
    "Integer",
    "Layout",
    "LayoutError",
    "LayoutSyntaxError",
    "MMAAtomLike",
    "ScaledBasis",
    "Swizzle",
    "TiledCopy",
    "TiledMMA",
    "Wavefronts",
    "access_conflicts",
    "append",
    "bank_conflicts",
    "blocked_product",
    "ceil_div",
    "coalesce",
    "compact",
    "complement",
    "composition",
    "congruent",
    "cosize",
    "crd2crd",
    "crd2idx",
    "depth",
    "dice",
    "downcast",
    "elem_less",
    "elem_scale",
    "equal",
    "evaluate",
    "filter",
    "filter_zeros",
    "flat_divide",
    "flat_product",
    "flatten",
    "format_tile",
    "get",
    "group",
    "group_modes",
    "has_none",
    "idx2crd",
    "increment_coord",
    "inner_product",
    "invert_tv",
    "is_bijective",
    "is_injective",
    "is_int",
    "is_static",
    "is_surjective",
    "is_tuple",
    "layout_eval",
    "layout_text",
    "ldmatrix_conflicts",
    "left_inverse",
    "local_partition",
    "local_tile",
    "logical_divide",
    "logical_product",
    "make_identity_layout",
    "make_layout",
    "make_layout_like",
    "make_ordered_layout",
    "make_tiled_copy_tv",
    "max_common_layout",
    "max_common_vector",
    "offset_by",
    "parse",
    "parse_composed_layout",
    "parse_int_tuple",
    "parse_layout",
    "parse_swizzle",
    "parse_tile",
    "prefix_product",
    "prepend",
    "print_layout",
    "product",
    "product_each",
    "raked_product",
    "rank",
    "recast",
    "replace",
    "right_inverse",
    "select",
    "shape_div",
    "size",
    "slice_",
    "slice_and_offset",
    "take",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "to_text",
    "tuple_add",
    "tuple_max",
    "tuple_product",
    "tuple_sub",
    "tv_text",
    "unflatten",
    "upcast",
    "weakly_congruent",
    "zipped_divide",
    "zipped_product",
]

# What a compiler run does not need is imported at its first use.
_LAZY = {
    "Expression": "expression",
    "evaluate": "expression",
    "elem_less": "elementwise",
    "equal": "elementwise",
    "increment_coord": "elementwise",
    "layout_eval": "elementwise",
    "product_each": "elementwise",
    "tuple_add": "elementwise",
    "tuple_product": "elementwise",
    "tuple_sub": "elementwise",
    "Wavefronts": "banks",
    "access_conflicts": "banks",
    "bank_conflicts": "banks",
    "ldmatrix_conflicts": "banks",
    "layout_text": "draw_text",
    "print_layout": "draw_text",
    "tv_text": "draw_text",
    "MMAAtomLike": "tiled",
    "TiledCopy": "tiled",
    "TiledMMA": "tiled",
    "invert_tv": "tiled",
    "is_bijective": "tiled",
    "is_injective": "tiled",
    "is_surjective": "tiled",
    "make_tiled_copy_tv": "tiled",
}


def __getattr__(name: str) -> object:
    if name not in _LAZY:
        raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
    value = getattr(import_module(f".{_LAZY[name]}", __name__), name)
    globals()[name] = value
    return value
