"""Groups: any number of tensors of one type, of their tensor maps, or of integers, as a table in
global memory that the host fills before the launch. A kernel takes members out at run time.
"""

from __future__ import annotations

from xdsl.dialects.builtin import i32
from xdsl.ir import Attribute, Data, SSAValue, TypeAttribute
from xdsl.irdl import irdl_attr_definition, operand_def, result_def, traits_def
from xdsl.parser import AttrParser, Parser
from xdsl.printer import Printer
from xdsl.traits import Pure

from cutedialect.dialects.checks import check
from cutedialect.dialects.cute_nvgpu import TmaDescriptorType
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition

from .attributes import with_attributes
from .types import MemRefType


@irdl_attr_definition
class GroupType(Data[Attribute], TypeAttribute):
    """A table in global memory of run-time length: `!cute.group<!cute.memref<...>>`.

    A kernel argument of this type is the table's address (64 bits) and its length (32 bits). An
    entry of tensors holds the pointer, then each dynamic stride (8 bytes each), then each dynamic
    extent (4 bytes each), up to a multiple of 8 bytes; an entry of tensor maps is one of 128 bytes,
    an entry of i32 has 4 bytes.
    """

    name = "cute.group"

    @property
    def member(self) -> Attribute:
        """The type of one entry: a memref in gmem, a tensor map, or i32."""
        return self.data

    @classmethod
    def parse_parameter(cls, parser: AttrParser) -> Attribute:
        with parser.in_angle_brackets():
            return parser.parse_type()

    def print_parameter(self, printer: Printer) -> None:
        with printer.in_angle_brackets():
            printer.print_attribute(self.data)

    def verify(self) -> None:
        member = self.data
        check(
            member == i32
            or isinstance(member, TmaDescriptorType)
            or (isinstance(member, MemRefType) and member.space == "gmem"),
            f"expected a group of memrefs in gmem, tensor maps or i32, got {member}",
        )


@irdl_op_definition
class GroupSizeOp(IRDLOperation):
    """How many entries a group has, as i32.

    Example:

        cute.kernel @k(%g: !cute.group<i32>) {
          %n = cute.group_size %g : !cute.group<i32>
        }
    """

    name = "cute.group_size"
    group = operand_def(GroupType)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$group attr-dict `:` type($group)"

    def __init__(self, group: SSAValue) -> None:
        super().__init__(operands=[group], result_types=[i32])


@irdl_op_definition
class MemberOp(IRDLOperation):
    """One entry of a group: a tensor, a tensor map, or a number. The index has to be in range.

    Example:

        cute.kernel @k(%g: !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>, %i: i32) {
          %a = cute.member %g[%i] : !cute.group<!cute.memref<f16, gmem, align<16>, "(?,?):(?{i64 div=8},1)">>
        }
    """

    name = "cute.member"
    group = operand_def(GroupType)
    index = operand_def(i32)
    result = result_def()
    traits = traits_def(Pure())

    def __init__(self, group: SSAValue, index: SSAValue) -> None:
        assert isinstance(group.type, GroupType)
        super().__init__(operands=[group, index], result_types=[group.type.member])

    @classmethod
    def parse(cls, parser: Parser) -> MemberOp:
        unresolved = parser.parse_unresolved_operand()
        with parser.in_square_brackets():
            index = parser.parse_unresolved_operand()
        attributes = parser.parse_optional_attr_dict()
        parser.parse_punctuation(":")
        start = parser.pos
        type_ = parser.parse_type()
        if not isinstance(type_, GroupType):
            parser.raise_error(f"expected a group, got {type_}", start, parser.pos)
        group = parser.resolve_operand(unresolved, type_)
        return with_attributes(cls(group, parser.resolve_operand(index, i32)), attributes)

    def print(self, printer: Printer) -> None:
        printer.print_string(" ")
        printer.print_ssa_value(self.group)
        with printer.in_square_brackets():
            printer.print_ssa_value(self.index)
        printer.print_op_attributes(self.attributes)
        printer.print_string(" : ")
        printer.print_attribute(self.group.type)

    def verify_(self) -> None:
        assert isinstance(self.group.type, GroupType)
        check(
            self.result.type == self.group.type.member,
            f"expected a result of type {self.group.type.member}, got {self.result.type}",
        )


@irdl_op_definition
class FindOp(IRDLOperation):
    """The last entry of an ascending group of numbers that is at most `value`: its index, as i32.

    The first entry has to be at most `value`. Of equal entries the last is found, so that with the
    offsets of tiles (`cute.tile_offsets`) a tensor without tiles is never found.

    Example:

        cute.kernel @k(%offsets: !cute.group<i32>, %item: i32) {
          %problem = cute.find %item in %offsets : !cute.group<i32>
        }
    """

    name = "cute.find"
    value = operand_def(i32)
    group = operand_def(GroupType)
    result = result_def(i32)
    traits = traits_def(Pure())
    assembly_format = "$value `in` $group attr-dict `:` type($group)"

    def __init__(self, value: SSAValue, group: SSAValue) -> None:
        super().__init__(operands=[value, group], result_types=[i32])

    def verify_(self) -> None:
        assert isinstance(self.group.type, GroupType)
        check(
            self.group.type.member == i32,
            f"expected a group of i32 to search, got {self.group.type}",
        )
