"""What brackets warpgroup matrix multiplies: fence, commit, wait (PTX ISA 9.7.15.7)."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    prop_def,
    traits_def,
    var_operand_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.effects import Effects, Unit

from .syntax import expect


@irdl_op_definition
class WgmmaFenceOp(IRDLOperation):
    """Earlier accesses to accumulators and A registers come before the multiplies that follow.

    Example:

        cute.kernel @k() {
          cute_nvgpu.wgmma_fence
        }
    """

    name = "cute_nvgpu.wgmma_fence"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return Effects(orders=True, fences=True, team=4)


@irdl_op_definition
class WgmmaCommitOp(IRDLOperation):
    """The multiplies since the last commit become one group.

    Example:

        cute.kernel @k() {
          cute_nvgpu.wgmma_commit
        }
    """

    name = "cute_nvgpu.wgmma_commit"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return Effects(orders=True, closes=Unit.WGMMA, team=4)


@irdl_op_definition
class WgmmaWaitOp(IRDLOperation):
    """Wait until at most `pending` groups are on their way.

    What is computed `after` is complete before: the assembler moves a wait up over arithmetic that
    nothing ties to it, and the tensor cores then work alone.

    Example:

        cute.kernel @k() {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(64,1)", "((4,8,4),2):((0,1,16),8)">
          cute_nvgpu.wgmma_wait {pending = 1 : i32}
          cute_nvgpu.wgmma_wait {pending = 0 : i32} after %t : !cute.fragment<f32, "(64,1)", "((4,8,4),2):((0,1,16),8)">
        }
    """

    name = "cute_nvgpu.wgmma_wait"
    after = var_operand_def()
    pending = prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict (`after` $after^ `:` type($after))?"

    def __init__(self, pending: int, after: Sequence[SSAValue] = ()) -> None:
        super().__init__(operands=[list(after)], properties={"pending": IntegerAttr(pending, i32)})

    def effects(self) -> Effects:
        return Effects(orders=True, completes=Unit.WGMMA, team=4)

    def verify_(self) -> None:
        pending = self.pending.value.data
        expect(0 <= pending <= 7, f"expected 0 to 7 groups on their way, got {pending}")
