"""The layouts of tensors as values of the layout algebra."""

from __future__ import annotations

from xdsl.ir import SSAValue
from xdsl.irdl import IRDLOperation, irdl_op_definition, operand_def, result_def, traits_def
from xdsl.traits import Pure

from cutedialect.dialects.checks import check
from cutedialect.layout import flatten, is_static

from .layout_types import LayoutType
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
        for mode, stride in zip(type_.modes, type_.stride, strict=True):
            check(
                len(flatten(mode)) == 1 or (is_static(mode) and is_static(stride)),
                f"expected run-time numbers of whole modes, got {type_.layout}",
            )
        wanted = LayoutType(type_.layout)
        check(
            self.result.type == wanted,
            f"expected the result type {wanted}, got {self.result.type}",
        )
