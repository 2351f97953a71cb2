"""The ops of the layout algebra, one row each: what NVIDIA's CuTe IR documents, in its order."""

from __future__ import annotations

from typing import Any

from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Attribute

from cutedialect.dialects.cute.layout_types import ComposedLayoutType, LayoutType, SwizzleType

from .algebra_op import Operand, Results, Row
from .results import (
    as_first,
    check_made,
    check_static,
    gives,
    layout,
    layouts,
    leaves,
    of_one_kind,
    pads,
    scalars,
    truth,
)
from .tuple_types import CoordType, IntTupleType, ShapeType, StrideType, TileType
from .values import (
    ANY_LAYOUT,
    TUPLES,
    VALUES,
)

LAYOUT = (LayoutType,)
SHAPE = (ShapeType,)
INDEXABLE = (ShapeType, IntTupleType, CoordType, StrideType, TileType, *ANY_LAYOUT)
SLICEABLE = (*TUPLES, *ANY_LAYOUT)
EXTENTS = (IntTupleType, ShapeType)
TILER = (LayoutType, TileType, ShapeType)
NUMBER = (IntegerType, IntTupleType)


def _one(name: str, kinds: tuple[type[Attribute], ...]) -> tuple[Operand, ...]:
    return (Operand(name, kinds),)


def _make(name: str, kind: type[Attribute], example: str) -> Row:
    return Row(
        f"make_{name}",
        f"{name.replace('_', ' ').capitalize()} with the operands for its run-time leaves, in their order.",
        operands=(Operand("operands", NUMBER, variadic=True),),
        result=(kind,),
        check=check_made,
        example=example,
    )


def _cast(name: str, kind: type[Attribute], sources: tuple[type[Attribute], ...]) -> Row:
    source = sources[-1].name.removeprefix("cute.")
    return Row(
        f"to_{name}",
        f"The same numbers as {'an' if name[0] == 'i' else 'a'} {name.replace('_', ' ')}.",
        operands=_one("src", sources),
        result=(kind,),
        rule="ints",
        arguments=("src",),
        results=gives(kind),
        types="arrow",
        example=f"{source}`(4,?)` -> {kind.name.removeprefix('cute.')}`(4,?)`",
    )


def _part(
    name: str,
    summary: str,
    sources: tuple[type[Attribute], ...],
    rule: str,
    results: Results,
    example: str,
    result: tuple[type[Attribute], ...],
    short: tuple[str, ...] = (),
) -> Row:
    return Row(
        name,
        summary,
        _one("input", sources),
        result,
        rule,
        ("input",),
        results,
        "arrow",
        example=example,
        short=short,
    )


def _binary(
    name: str, summary: str, one: str, other: str, tiler: tuple[type[Attribute], ...], example: str
) -> Row:
    return Row(
        name,
        summary,
        (Operand(one, ANY_LAYOUT), Operand(other, tiler)),
        ANY_LAYOUT,
        name,
        (one, other),
        as_first,
        example=example,
    )


def _product(name: str, summary: str, example: str) -> Row:
    return _binary(name, summary, "lhs", "rhs", LAYOUT, example)


def _divide(name: str, summary: str, example: str) -> Row:
    return _binary(name, summary, "input", "tiler", TILER, example)


def _function(
    name: str,
    summary: str,
    operands: tuple[Operand, ...],
    rule: str,
    results: Results,
    result: tuple[type[Attribute], ...],
    example: str,
    **others: Any,
) -> Row:
    arguments = others.pop("arguments", tuple(operand.name for operand in operands))
    return Row(name, summary, operands, result, rule, arguments, results, example=example, **others)


def _pair(
    one: str,
    kinds: tuple[type[Attribute], ...],
    other: str,
    others: tuple[type[Attribute], ...],
    optional: bool = False,
) -> tuple[Operand, ...]:
    return Operand(one, kinds), Operand(other, others, optional=optional)


_PADDING = _pair("input", SLICEABLE, "element", SLICEABLE)

ROWS = (
    Row(
        "static",
        "A value that its type says all of.",
        result=VALUES,
        types="result",
        check=check_static,
        example="layout`(2,3):(1,2)`",
    ),
    Row(
        "print",
        "Print a value when the program runs.",
        _one("value", VALUES),
        types="operands",
        does="writes",
        example="shape`(4,?)`",
    ),
    _make("int_tuple", IntTupleType, "(i32) -> int_tuple`(?,4)`"),
    _make("shape", ShapeType, "(i32, i64) -> shape`(?,(4,?{i64}))`"),
    _make("stride", StrideType, "(i32) -> stride`(?@0,1@1)`"),
    _make("coord", CoordType, "(i32) -> coord`(?,_)`"),
    _make("tile", TileType, "(i32) -> tile`[?:1;_]`"),
    _function(
        "make_layout",
        "The layout of a shape and strides.",
        _pair("shape", SHAPE, "stride", (StrideType,)),
        "plain_layout",
        gives(LayoutType),
        LAYOUT,
        "(shape`(?,2)`, stride`(1,?)`) -> layout`(?,2):(1,?)`",
    ),
    _function(
        "make_composed_layout",
        "`inner o offset o outer`: a coordinate goes to inner(offset + outer(coordinate)).",
        (
            Operand("inner", (LayoutType, SwizzleType)),
            Operand("offset", (IntTupleType,)),
            Operand("outer", LAYOUT),
        ),
        "composed_layout",
        layout,
        (ComposedLayoutType, LayoutType),
        "(swizzle`S<3,4,3>`, int_tuple`0`, layout`(8,64):(64,1)`) -> composed_layout`S<3,4,3> o 0 o (8,64):(64,1)`",
        short=("offset", "outer", "result"),
    ),
    _function(
        "make_layout_like",
        "The compact layout of the same shape and order of strides.",
        _one("src", ANY_LAYOUT),
        "make_layout_like",
        gives(LayoutType),
        LAYOUT,
        "layout`(4,2):(4,1)` -> layout`(4,2):(2,1)`",
        types="arrow",
    ),
    _function(
        "make_ordered_layout",
        "The compact layout whose strides grow as `order` says.",
        _pair("shape", SHAPE, "order", (IntTupleType,)),
        "ordered_layout",
        gives(LayoutType),
        LAYOUT,
        "(shape`(4,2)`, int_tuple`(1,0)`) -> layout`(4,2):(2,1)`",
    ),
    _function(
        "make_identity_layout",
        "The layout that gives each coordinate itself.",
        _one("shape", SHAPE),
        "make_identity_layout",
        gives(LayoutType),
        LAYOUT,
        "shape`(4,2)` -> layout`(4,2):(1@0,1@1)`",
        types="arrow",
    ),
    _part(
        "get_shape",
        "The shape of a layout, or those of the layouts of a tile.",
        (LayoutType, ComposedLayoutType, TileType),
        "shape_of",
        gives(ShapeType),
        "layout`(4,8):(8,1)` -> shape`(4,8)`",
        SHAPE,
    ),
    _part(
        "get_stride",
        "The strides of a layout.",
        LAYOUT,
        "stride_of",
        gives(StrideType),
        "layout`(4,8):(8,1)` -> stride`(8,1)`",
        (StrideType,),
        short=("input",),
    ),
    _part(
        "composed_get_inner",
        "The layout or swizzle that a composed layout applies last.",
        (ComposedLayoutType,),
        "outside",
        layout,
        "composed_layout`S<3,4,3> o 0 o 8:1` -> swizzle`S<3,4,3>`",
        (LayoutType, SwizzleType),
        short=("input",),
    ),
    _part(
        "composed_get_offset",
        "The offset in a composed layout.",
        (ComposedLayoutType,),
        "offset_of",
        gives(IntTupleType),
        "composed_layout`S<3,4,3> o ? o 8:1` -> int_tuple`?`",
        (IntTupleType,),
        short=("input",),
    ),
    _part(
        "composed_get_outer",
        "The layout that a composed layout applies first.",
        (ComposedLayoutType,),
        "inside",
        gives(LayoutType),
        "composed_layout`S<3,4,3> o 0 o 8:1` -> layout`8:1`",
        LAYOUT,
        short=("input", "result"),
    ),
    Row(
        "get_leaves",
        "The leaves of a tuple, each as a value.",
        _one("input", (*TUPLES, TileType)),
        (*TUPLES, TileType, LayoutType),
        "same",
        ("input",),
        leaves,
        "operands",
        variadic_result=True,
        example_results=3,
        example="shape`(4,(?,2))`",
    ),
    Row(
        "get_scalars",
        "The numbers in a value, or those that are known at run time only.",
        _one("cute_value", VALUES),
        (IntegerType,),
        "same",
        ("cute_value",),
        scalars,
        "operands",
        flag="only_dynamic",
        variadic_result=True,
        example_results=4,
        example="layout`(4,?):(1,?{i64})`",
    ),
    _function(
        "get",
        "The mode at the end of a path.",
        _one("input", INDEXABLE),
        "get",
        as_first,
        INDEXABLE,
        "<[1, 0]> shape`(4,(2,3))` -> shape`2`",
        arguments=("input", "mode"),
        types="arrow",
        mode="optional",
    ),
    _function(
        "select",
        "Some modes, in some order.",
        _one("input", INDEXABLE),
        "select",
        as_first,
        INDEXABLE,
        "<[2, 0]> shape`(4,2,8)` -> shape`(8,4)`",
        arguments=("input", "mode"),
        types="arrow",
        mode="required",
    ),
    _cast("int_tuple", IntTupleType, (StrideType, CoordType, IntTupleType, ShapeType)),
    _cast("shape", ShapeType, (IntTupleType,)),
    _cast("stride", StrideType, (IntTupleType,)),
    _cast("coord", CoordType, (IntTupleType,)),
    Row(
        "get_layouts_from_tile",
        "The layouts in a tile, without `_`.",
        _one("tile", (TileType,)),
        LAYOUT,
        "same",
        ("tile",),
        layouts,
        "operands",
        variadic_result=True,
        example_results=2,
        example="tile`[4:1;_;8:2]`",
        short=("tile",),
    ),
    _function(
        "composition",
        "The layout `lhs o rhs`: a coordinate goes to lhs(rhs(coordinate)).",
        _pair("lhs", ANY_LAYOUT, "rhs", (LayoutType, ShapeType, TileType)),
        "composition",
        as_first,
        ANY_LAYOUT,
        "(layout`(6,2):(8,2)`, layout`(4,3):(3,1)`) -> layout`((2,2),3):((24,2),8)`",
    ),
    _function(
        "coalesce",
        "The same function of an index, with the fewest modes.",
        _pair("input", ANY_LAYOUT, "target_profile", (CoordType,), True),
        "coalesce",
        as_first,
        ANY_LAYOUT,
        "(layout`(2,(1,6)):(1,(6,2))`) -> layout`12:1`",
    ),
    _function(
        "flatten",
        "The value without nesting.",
        _one("input", INDEXABLE),
        "flatten",
        as_first,
        INDEXABLE,
        "(shape`(4,(2,3))`) -> shape`(4,2,3)`",
    ),
    _function(
        "complement",
        "The layout of what a layout leaves out, up to a shape.",
        _pair("input", LAYOUT, "cotarget", (LayoutType, ShapeType), True),
        "complement",
        gives(LayoutType),
        LAYOUT,
        "(layout`4:2`, shape`16`) -> layout`(2,2):(1,8)`",
    ),
    _function(
        "group_modes",
        "Modes `begin` to `end` as one.",
        _one("input", ANY_LAYOUT),
        "group_modes",
        as_first,
        ANY_LAYOUT,
        "<0, 2> (layout`(2,3,4):(1,2,6)`) -> layout`((2,3),4):((1,2),6)`",
        arguments=("input", "begin", "end"),
        ints=("begin", "end"),
    ),
    _function(
        "recast_layout",
        "The layout of the same bits in elements of another size.",
        _one("src", ANY_LAYOUT),
        "recast",
        as_first,
        ANY_LAYOUT,
        "<32, 8> layout`(32,4):(1,32)` -> layout`(8,4):(1,8)`",
        arguments=("src", "old_type_bits", "new_type_bits"),
        types="arrow",
        ints=("new_type_bits", "old_type_bits"),
    ),
    _function(
        "slice",
        "The modes of a value for which the coordinate has `_`.",
        _pair("input", SLICEABLE, "coord", (CoordType,)),
        "slice",
        as_first,
        SLICEABLE,
        "layout`(2,3,4):(1,2,6)`, coord`(0,_,1)`",
        arguments=("coord", "input"),
        types="operands",
    ),
    _function(
        "dice",
        "The modes of a value for which the coordinate has an int.",
        _pair("input", SLICEABLE, "coord", (CoordType,)),
        "dice",
        as_first,
        SLICEABLE,
        "layout`(2,3,4):(1,2,6)`, coord`(0,_,1)`",
        arguments=("coord", "input"),
        types="operands",
    ),
    _function(
        "right_inverse",
        "R with input(R(i)) = i.",
        _one("input", LAYOUT),
        "right_inverse",
        gives(LayoutType),
        LAYOUT,
        "(layout`(4,3):(3,1)`) -> layout`(3,4):(4,1)`",
    ),
    _function(
        "left_inverse",
        "L with L(input(i)) = i.",
        _one("input", LAYOUT),
        "left_inverse",
        gives(LayoutType),
        LAYOUT,
        "(layout`(4,8):(1,5)`) -> layout`(5,8):(1,4)`",
    ),
    _function(
        "size",
        "The number of coordinates of a value or a mode of it.",
        _one("input", (*EXTENTS, *ANY_LAYOUT)),
        "size",
        gives(IntTupleType),
        (IntTupleType,),
        "<[1]> (shape`(1,(2,4),9)`) -> int_tuple`8`",
        arguments=("input", "mode"),
        mode="optional",
    ),
    _function(
        "cosize",
        "One more than the last offset of a layout or a mode of it.",
        _one("input", ANY_LAYOUT),
        "cosize",
        gives(IntTupleType),
        (IntTupleType,),
        "(layout`(4,8):(1,5)`) -> int_tuple`39`",
        arguments=("input", "mode"),
        mode="optional",
    ),
    _function(
        "tuple_product",
        "The product of all leaves.",
        _one("input", EXTENTS),
        "tuple_product",
        as_first,
        EXTENTS,
        "(shape`(2,(3,4))`) -> shape`24`",
    ),
    _function(
        "tuple_product_each",
        "The product of the leaves of each mode.",
        _one("input", EXTENTS),
        "product_each",
        as_first,
        EXTENTS,
        "(shape`(2,(3,4))`) -> shape`(2,12)`",
    ),
    _function(
        "layout_eval",
        "The offset of a coordinate.",
        _pair("coord", (CoordType,), "layout", ANY_LAYOUT),
        "layout_eval",
        gives(IntTupleType),
        (IntTupleType,),
        "(coord`(1,2)`, layout`(4,8):(8,1)`) -> int_tuple`10`",
    ),
    _function(
        "crd2idx",
        "The column-major index of a coordinate of a shape.",
        _pair("coord", (CoordType,), "shape", SHAPE),
        "coord_to_index",
        gives(IntTupleType),
        (IntTupleType,),
        "(coord`(1,2)`, shape`(4,8)`) -> int_tuple`9`",
    ),
    _function(
        "idx2crd",
        "The coordinate of a column-major index of a shape.",
        _pair("index", (IntTupleType,), "shape", SHAPE),
        "index_to_coord",
        gives(CoordType),
        (CoordType,),
        "(int_tuple`9`, shape`(4,8)`) -> coord`(1,2)`",
    ),
    _function(
        "increment_coord",
        "The next coordinate of a shape, the first mode fastest.",
        _pair("coord", (CoordType,), "shape", SHAPE),
        "increment_coord",
        gives(CoordType),
        (CoordType,),
        "(coord`(3,1)`, shape`(4,8)`) -> coord`(0,2)`",
    ),
    _function(
        "append_to_rank",
        "The value with an element as last modes, up to a rank.",
        _PADDING,
        "append_to_rank",
        as_first,
        SLICEABLE,
        "<3> shape`(4,8)`, shape`1`",
        arguments=("input", "element", "rank"),
        types="operands",
        ints=("rank",),
        requires=pads,
    ),
    _function(
        "prepend_to_rank",
        "The value with an element as first modes, up to a rank.",
        _PADDING,
        "prepend_to_rank",
        as_first,
        SLICEABLE,
        "<3> shape`(4,8)`, shape`1`",
        arguments=("input", "element", "rank"),
        types="operands",
        ints=("rank",),
        requires=pads,
    ),
    _function(
        "tuple_add",
        "The sum leaf by leaf.",
        _pair("lhs", EXTENTS, "rhs", EXTENTS),
        "tuple_add",
        as_first,
        EXTENTS,
        "(int_tuple`(1,2)`, int_tuple`(4,5)`) -> int_tuple`(5,7)`",
        requires=of_one_kind,
    ),
    _function(
        "tuple_sub",
        "The difference leaf by leaf.",
        _pair("lhs", EXTENTS, "rhs", EXTENTS),
        "tuple_sub",
        as_first,
        EXTENTS,
        "(int_tuple`(4,5)`, int_tuple`(1,2)`) -> int_tuple`(3,3)`",
        requires=of_one_kind,
    ),
    _function(
        "shape_div",
        "The shape with runs of elements taken as one.",
        _pair("a", SHAPE, "b", SHAPE),
        "shape_div",
        gives(ShapeType),
        SHAPE,
        "(shape`(3,4)`, shape`6`) -> shape`(1,2)`",
        does="divides",
    ),
    _function(
        "ceil_div",
        "The quotients rounded up.",
        _pair("input", EXTENTS, "tiler", (*EXTENTS, TileType)),
        "ceil_div",
        as_first,
        EXTENTS,
        "(shape`(9,8)`, shape`(4,4)`) -> shape`(3,2)`",
        does="divides",
    ),
    _function(
        "elem_less",
        "Whether each leaf is less than the other's.",
        _pair(
            "lhs", (IntTupleType, ShapeType, CoordType), "rhs", (IntTupleType, ShapeType, CoordType)
        ),
        "elem_less",
        truth,
        (IntegerType,),
        "(coord`(1,?)`, shape`(4,8)`) -> i1",
    ),
    _function(
        "equal",
        "Whether two values of one kind are the same.",
        _pair("lhs", (*TUPLES, LayoutType), "rhs", (*TUPLES, LayoutType)),
        "equal",
        truth,
        (IntegerType,),
        "(shape`(4,?)`, shape`(4,8)`) -> i1",
        requires=of_one_kind,
    ),
    _product(
        "logical_product",
        "(block, repeats): copies of a block beside each other.",
        "(layout`(2,2):(4,1)`, layout`6:1`) -> layout`((2,2),(2,3)):((4,1),(2,8))`",
    ),
    _product(
        "zipped_product",
        "((blocks), (repeats)).",
        "(layout`(2,2):(4,1)`, layout`6:1`) -> layout`((2,2),(2,3)):((4,1),(2,8))`",
    ),
    _product(
        "tiled_product",
        "((blocks), repeat, repeat...).",
        "(layout`(2,2):(4,1)`, layout`6:1`) -> layout`((2,2),2,3):((4,1),2,8)`",
    ),
    _product(
        "flat_product",
        "(block, block..., repeat, repeat...).",
        "(layout`(2,2):(4,1)`, layout`6:1`) -> layout`(2,2,2,3):(4,1,2,8)`",
    ),
    _product(
        "raked_product",
        "Mode by mode (repeat, block).",
        "(layout`(3,4):(4,1)`, layout`(2,5):(1,2)`) -> layout`((2,3),(5,4)):((12,4),(24,1))`",
    ),
    _product(
        "blocked_product",
        "Mode by mode (block, repeat).",
        "(layout`(3,4):(4,1)`, layout`(2,5):(1,2)`) -> layout`((3,2),(4,5)):((4,12),(1,24))`",
    ),
    _divide(
        "logical_divide",
        "(tile, rest) of each mode, or of the whole by a layout.",
        "(layout`(6,8):(8,1)`, shape`(3,4)`) -> layout`((3,2),(4,2)):((8,24),(1,4))`",
    ),
    _divide(
        "zipped_divide",
        "((tiles), (rests)).",
        "(layout`(6,8):(8,1)`, shape`(3,4)`) -> layout`((3,4),(2,2)):((8,1),(24,4))`",
    ),
    _divide(
        "tiled_divide",
        "((tiles), rest, rest...).",
        "(layout`(6,8):(8,1)`, shape`(3,4)`) -> layout`((3,4),2,2):((8,1),24,4)`",
    ),
    _divide(
        "flat_divide",
        "(tile, tile..., rest, rest...).",
        "(layout`(6,8):(8,1)`, shape`(3,4)`) -> layout`(3,4,2,2):(8,1,24,4)`",
    ),
    _function(
        "tile_to_shape",
        "A block repeated until it covers a shape.",
        (
            Operand("input", ANY_LAYOUT),
            Operand("shape", SHAPE),
            Operand("order", (IntTupleType,), optional=True),
        ),
        "tile_to_shape",
        as_first,
        ANY_LAYOUT,
        "(layout`(8,64):(64,1)`, shape`(64,128)`) -> layout`((8,8),(64,2)):((64,512),(1,4096))`",
    ),
)
