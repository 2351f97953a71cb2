"""Register tiles whose integers hold several elements each, and where in them an element lies.

An order says where the elements of a block go: it maps the number of an element in the block to the
place of its bits, counted in elements from the lowest bits of the first integer on. `2:1` is two
neighbors in a byte, the first one below; `(2,4):(4,1)` that of AWQ, eight in a word of 32 bits.
"""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, IntegerType, i64
from xdsl.ir import SSAValue
from xdsl.irdl import ParsePropInAttrDict, operand_def, prop_def, result_def, traits_def
from xdsl.traits import MemoryReadEffect
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import Effects
from cutedialect.layout import Layout
from cutedialect.layout.orders import check_order

from .attributes import LayoutAttr
from .types import FragmentType, element_bits

# Bits of packed elements, and of what registers have for each.
_WIDTHS = (4, 8)
_BYTE = 8
# Widths of the integers that hold packed elements.
HOLDERS = (8, 32)


@irdl_op_definition
class UnpackOp(IRDLOperation):
    """The elements of 4 or 8 bits that the integers of a register tile hold along a mode, in the
    order of a layout: a byte each, those of 4 bits 0 to 15.

    Example:

        cute.kernel @k(%a: !cute.memref<ui8, gmem, align<16>, "(64,32):(32,1)">) {
          %t = cute.load %a : !cute.memref<ui8, gmem, align<16>, "(64,32):(32,1)"> -> !cute.fragment<ui8, "(64,32)">
          %u = cute.unpack %t {mode = 1 : i64, order = #cute.layout<"2:1">} : !cute.fragment<ui8, "(64,32)"> -> !cute.fragment<ui8, "(64,64)">
        }
    """

    name = "cute.unpack"
    source = operand_def(FragmentType)
    mode = prop_def(IntegerAttr)
    order = prop_def(LayoutAttr)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$source attr-dict `:` type($source) `->` type($result)"

    def __init__(self, source: SSAValue, mode: int, order: Layout, result: FragmentType) -> None:
        super().__init__(
            operands=[source],
            properties={"mode": IntegerAttr(mode, i64), "order": LayoutAttr(order)},
            result_types=[result],
        )

    @property
    def per(self) -> int:
        """Elements of an integer."""
        source, result = self.source.type, self.result.type
        assert isinstance(source, FragmentType)
        assert isinstance(result, FragmentType)
        mode = self.mode.value.data
        return max(1, result.shape[mode] // source.shape[mode])

    @property
    def bits(self) -> int:
        """Bits of an element."""
        source = self.source.type
        assert isinstance(source, FragmentType)
        return source.bits // self.per

    def effects(self) -> Effects:
        return Effects(reads=(self.source,))

    def verify_(self) -> None:
        source, result = self.source.type, self.result.type
        assert isinstance(source, FragmentType)
        assert isinstance(result, FragmentType)
        for type_, widths in ((source, HOLDERS), (result, (_BYTE,))):
            width = element_bits(type_.element)
            check(
                isinstance(type_.element, IntegerType) and width in widths,
                f"expected integers of {' or '.join(map(str, widths))} bits, got {type_.element}",
            )
        mode, order = self.mode.value.data, self.order.data
        check(
            0 <= mode < len(source.shape),
            f"expected a mode in 0..{len(source.shape) - 1}, got {mode}",
        )
        per = [source.bits // width for width in _WIDTHS]
        tiles = [
            (*source.shape[:mode], n * source.shape[mode], *source.shape[mode + 1 :]) for n in per
        ]
        shown = " or ".join(map(str, tiles))
        check(result.shape in tiles, f"expected a tile {shown}, got {result.shape}")
        expected = result.shape
        try:
            check_order(order, self.per)
        except ValueError as error:
            raise VerifyException(str(error)) from error
        size = order.size()
        check(
            expected[mode] % size == 0,
            f"expected whole blocks of {size} elements of {order}, got {expected[mode]}",
        )
