"""Where what runs beside threads is over."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue
from xdsl.irdl import traits_def, var_operand_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.cute import FragmentType, MemRefType
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import Effects


@irdl_op_definition
class CompleteOp(IRDLOperation):
    """What was copied into some tiles of shared memory, or multiplied into register tiles, is there
    for all threads that read it.

    It does nothing to a program that is run op by op: a schedule puts it where waiting costs
    least, and `cute-synchronize` makes of it what the copies and multiplies before it need (a wait
    for their groups, a barrier).

    Example:

        cute.kernel @k() {
          %s = cute.alloc_smem : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
          pipeline.complete %s : !cute.memref<f16, smem, align<128>, "(64,32):(32,1)">
        }
    """

    name = "pipeline.complete"
    tiles = var_operand_def(MemRefType | FragmentType)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "$tiles attr-dict `:` type($tiles)"

    def __init__(self, tiles: Sequence[SSAValue]) -> None:
        super().__init__(operands=[list(tiles)])

    def effects(self) -> Effects:
        return Effects(reads=tuple(self.tiles), orders=True)
