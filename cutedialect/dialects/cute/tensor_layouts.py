"""The layouts of tensors as values of the layout algebra, and tensors through such layouts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32, i64
from xdsl.ir import Attribute, BlockArgument, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    result_def,
    traits_def,
    var_operand_def,
)
from xdsl.parser import Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from cutedialect.dialects.checks import check, check_result
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.layout import Dyn, Layout, ScaledBasis, flatten, is_static

from .attributes import with_attributes
from .groups import MemberOp
from .layout_types import LayoutType
from .storage import AllocSmemOp
from .types import MemRefType


@irdl_op_definition
class GetLayoutOp(IRDLOperation):
    """The layout of a tensor or tile in memory, from coordinates to offsets in elements, as a value
    of the layout algebra: its shape, coordinates and tiles are computed by these operations, and
    what they give as scalars says where tiles begin. Run-time numbers are of whole modes.

    Example:

        cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">) {
          %l = cute.get_layout %a : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)"> ->
            !cute.layout<"(?,64):(64,1)">
          %s = cute.get_shape(%l) : !cute.layout<"(?,64):(64,1)"> -> !cute.shape<"(?,64)">
          %t = cute.static : !cute.shape<"(16,64)">
          %n = cute.ceil_div(%s, %t) : (!cute.shape<"(?,64)">, !cute.shape<"(16,64)">) ->
            !cute.shape<"(?,1)">
          %k = cute.get_scalars<{only_dynamic}> (%n) : !cute.shape<"(?,1)">
          %last = cute.local_tile %a, [16, 64], (%k, %k) :
            !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)"> ->
            !cute.memref<f32, gmem, align<16>, "(16,64):(64,1)">
        }
    """

    name = "cute.get_layout"
    source = operand_def(MemRefType)
    result = result_def(LayoutType)
    traits = traits_def(Pure())
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue) -> None:
        type_ = source.type
        assert isinstance(type_, MemRefType)
        super().__init__(operands=[source], result_types=[LayoutType(type_.layout)])

    def verify_(self) -> None:
        type_ = self.source.type
        assert isinstance(type_, MemRefType)
        check(
            type_.swizzle is None,
            f"expected a tensor without a swizzle, which acts on bytes, got {type_}",
        )
        pairs = zip(type_.modes, type_.stride, strict=True)
        check(
            all(len(flatten(mode)) == 1 or is_static((mode, stride)) for mode, stride in pairs),
            f"expected run-time numbers of whole modes, got {type_.layout}",
        )
        check_result(self.result, LayoutType(type_.layout))


def view_type(type_: MemRefType, layout: Layout, offset: int | Dyn = 0) -> MemRefType:
    """Type of a tensor's memory through another layout, from an element of it on. Run-time strides
    are 64 bits wide, as those of arguments are; of the alignment stays what the offset keeps.

    Raises `VerifyException` where the tensor's memory does not hold what the layout reaches.
    """
    strides = flatten(layout.stride)
    check(
        not any(isinstance(stride, ScaledBasis) for stride in strides),
        f"expected strides in elements to view memory through, got the coordinates of {layout}",
    )
    check(
        not any(isinstance(stride, int) and stride < 0 for stride in strides),
        f"expected strides of 0 and more, got {layout}; view the tensor from its first element on",
    )
    check(
        all(
            not isinstance(leaf, Dyn) or leaf.bits == i32.bitwidth for leaf in flatten(layout.shape)
        ),
        f"expected extents of 32 bits, got {layout}; truncate them",
    )
    modes = layout.shape if isinstance(layout.shape, tuple) else ()
    check(
        all(is_static(mode) for mode in modes if isinstance(mode, tuple)),
        f"expected run-time extents of whole modes, got {layout}",
    )
    if layout.is_static() and type_.layout.is_static() and isinstance(offset, int):
        held, reach = type_.layout.cosize(), offset + layout.cosize()
        at = f" at {offset}" if offset else ""
        check(
            offset >= 0 and reach <= held,
            f"expected a layout of the tensor's {held} elements, got {layout}{at}, which reaches "
            f"element {reach - 1}",
        )
    step = (offset.div if isinstance(offset, Dyn) else offset) * type_.bits // 8
    alignment = min(type_.alignment, step & -step) if step else type_.alignment
    return type_.with_layout(Layout(layout.shape, _wide(layout.stride)), alignment)


def _wide(stride: Any) -> Any:
    if isinstance(stride, tuple):
        return tuple(_wide(part) for part in stride)
    return Dyn(stride.div, i64.bitwidth) if isinstance(stride, Dyn) else stride


@irdl_op_definition
class MakeViewOp(IRDLOperation):
    """The memory of a tensor through another layout, which no data moves for: coordinate `c` is the
    element at offset `layout(c)` from the tensor's first one. It is a tensor like another: tiles of
    it, copies, multiplies and pipelines take it, and its own layout says where it ends.

    The layout is a value of the layout algebra, or its run-time numbers alone, extents before
    strides, as `cute-expand-ops` leaves it; what is static stands in the result's type. Where all of
    it is static it is checked to stay in the tensor; run-time numbers are the program's promise.

    `at` is the element that it starts at, counted from the tensor's first one, which is a multiple
    of `div`: a number, or an int tuple whose type says so.

    CuTe's `make_tensor(tensor.data() + offset, layout)`; with `cute.composition` of the tensor's own
    layout it is `composition(tensor, layout)`.

    Example:

        cute.kernel @k(%a: !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, %n: i32) {
          %w = cute.make_shape(%n) : (i32) -> !cute.shape<"(?,8,8)">
          %d = cute.static : !cute.stride<"(64,8,1)">
          %l = cute.make_layout(%w, %d) : (!cute.shape<"(?,8,8)">, !cute.stride<"(64,8,1)">) ->
            !cute.layout<"(?,8,8):(64,8,1)">
          %v = cute.make_view %a, %l :
            !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">, !cute.layout<"(?,8,8):(64,8,1)"> ->
            !cute.memref<f32, gmem, align<16>, "(?,8,8):(64,8,1)">
          %u = cute.make_view %a(%n) at %n div 1 : !cute.memref<f32, gmem, align<16>, "(?,64):(64,1)">,
            i32 -> !cute.memref<f32, gmem, align<4>, "(?,8,8):(64,8,1)">
        }
    """

    name = "cute.make_view"
    source = operand_def(MemRefType)
    layout = var_operand_def()
    offset = opt_operand_def()
    div = opt_prop_def(IntegerAttr)
    result = result_def(MemRefType)
    traits = traits_def(Pure())
    irdl_options = (AttrSizedOperandSegments(as_property=True),)

    def __init__(
        self,
        source: SSAValue,
        layout: SSAValue | Sequence[SSAValue],
        type_: Attribute | None = None,
        offset: SSAValue | None = None,
        div: int | None = None,
    ) -> None:
        """Through a value of the algebra, or through the layout of `type_` with some numbers."""
        given = [layout] if isinstance(layout, SSAValue) else list(layout)
        properties = {} if div is None else {"div": IntegerAttr(div, i64)}
        if type_ is None:
            assert isinstance(source.type, MemRefType)
            assert isinstance(given[0].type, LayoutType)
            start = _start_of(offset, properties.get("div"))
            type_ = view_type(source.type, given[0].type.data, start)
        super().__init__(
            operands=[source, given, offset], properties=properties, result_types=[type_]
        )

    @property
    def value(self) -> SSAValue | None:
        """The value of the algebra that is the layout; None where its numbers are there alone."""
        is_value = len(self.layout) == 1 and isinstance(self.layout[0].type, LayoutType)
        return self.layout[0] if is_value else None

    @property
    def start(self) -> int | Dyn:
        """The element that it starts at, as far as it is known."""
        return _start_of(self.offset, self.div)

    @classmethod
    def parse(cls, parser: Parser) -> MakeViewOp:
        source = parser.parse_unresolved_operand()
        is_value = parser.parse_optional_punctuation(",") is not None
        if is_value:
            given = [parser.parse_unresolved_operand()]
        else:
            given = parser.parse_comma_separated_list(
                parser.Delimiter.PAREN, parser.parse_unresolved_operand
            )
        offset, properties = None, {}
        if parser.parse_optional_keyword("at"):
            offset = parser.parse_unresolved_operand()
            if parser.parse_optional_keyword("div"):
                div = parser.parse_integer(allow_boolean=False, allow_negative=False)
                properties["div"] = IntegerAttr(div, i64)
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        types: list[Attribute] = []
        for _ in range(1 + is_value + (offset is not None)):
            if types:
                parser.parse_punctuation(",")
            types.append(parser.parse_type())
        parser.parse_punctuation("->")
        start = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, MemRefType):
            parser.raise_error(f"expected a memref, got {type_}", start, parser.pos)
        numbers = types[1:2] if is_value else _number_types(type_.layout)
        if len(given) != len(numbers):
            parser.raise_error(_wrong_count(type_.layout, len(given)), start, parser.pos)
        op = cls(
            parser.resolve_operand(source, types[0]),
            parser.resolve_operands(given, numbers, start),
            type_,
            None if offset is None else parser.resolve_operand(offset, types[-1]),
        )
        op.properties.update(properties)
        return with_attributes(op, attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.source)
        value = self.value
        if value is None:
            with printer.in_parens():
                printer.print_list(self.layout, printer.print_ssa_value)
        else:
            printer.print_string(", ")
            printer.print_ssa_value(value)
        if self.offset is not None:
            printer.print_string(" at ")
            printer.print_ssa_value(self.offset)
        if self.div is not None:
            printer.print_string(f" div {self.div.value.data}")
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        typed = (self.source, value, self.offset)
        types = [operand.type for operand in typed if operand is not None]
        printer.print_list(types, printer.print_attribute)
        printer.print_string(" -> ")
        printer.print_attribute(self.result.type)

    def verify_(self) -> None:
        type_, made = self.source.type, self.result.type
        assert isinstance(type_, MemRefType)
        assert isinstance(made, MemRefType)
        owner = self.source.owner
        check(
            isinstance(self.source, BlockArgument)
            or isinstance(owner, MemberOp | MakeViewOp | AllocSmemOp),
            "expected a whole tensor to view through a layout, got a part of one; view the tensor, "
            "and take the part of the view",
        )
        check(
            type_.space in ("gmem", "smem") and type_.swizzle is None,
            f"expected a tensor in gmem or smem without a swizzle, got {type_}",
        )
        value = self.value
        if value is None:
            types = [number.type for number in self.layout]
            check(
                types == _number_types(made.layout),
                _wrong_count(made.layout, len(types)),
            )
            layout = made.layout
        else:
            assert isinstance(value.type, LayoutType)
            layout = value.type.data
        check(
            type_.space == "gmem" or isinstance(self.start, int),
            "expected a constant offset in smem, got one of run time; take a part of the view by "
            "cute.subview",
        )
        check(
            self.div is None or (self.offset is not None and self.div.value.data > 0),
            "expected div, a positive number, of an offset, got it without one",
        )
        expected = view_type(type_, layout, self.start)
        check(made == expected, f"expected the view's type {expected}, got {made}")


def _start_of(offset: SSAValue | None, div: Attribute | None) -> int | Dyn:
    """The element that an operand counts to, as far as its type and what is known of it say."""
    if offset is None:
        return 0
    known = div.value.data if isinstance(div, IntegerAttr) else 1
    type_, op = offset.type, offset.owner
    if isinstance(op, arith.ConstantOp) and isinstance(op.value, IntegerAttr):
        return op.value.value.data
    if type_ in (i32, i64):
        return Dyn(max(known, 1))
    number = getattr(type_, "data", None)
    check(
        getattr(type_, "name", "") == "cute.int_tuple" and isinstance(number, int | Dyn),
        f"expected an offset that is one number, got {type_}",
    )
    assert isinstance(number, int | Dyn)
    return number


def _number_types(layout: Layout) -> list[Attribute]:
    """The types of a layout's run-time numbers in memory: extents, then strides."""
    extents, strides = (
        sum(isinstance(leaf, Dyn) for leaf in flatten(part))
        for part in (layout.shape, layout.stride)
    )
    return [*[i32] * extents, *[i64] * strides]


def _wrong_count(layout: Layout, count: int) -> str:
    types = ", ".join(map(str, _number_types(layout))) or "none"
    return f"expected the run-time numbers of {layout} ({types}), got {count}"
