"""How threads do by shared memory what one of them cannot do alone: where they meet, what they store
for each other, and what they load.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, Region, SSAValue
from xdsl.irdl import (
    IRDLOperation,
    irdl_op_definition,
    opt_operand_def,
    region_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect, NoTerminator
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects.cute import BarrierOp
from cutedialect.dialects.effects import ORDERS, Effects


@irdl_op_definition
class ScratchStoreOp(IRDLOperation):
    """Threads of a team store what the op behind their `pipeline.steps` has for others to the buffer
    that the ops of a team share, each to places of its own.

    Example:

        cute.kernel @k() {
          pipeline.steps {
            pipeline.scratch_store
          }
        }
    """

    name = "pipeline.scratch_store"
    traits = traits_def(MemoryWriteEffect())
    assembly_format = "attr-dict"

    def effects(self) -> Effects:
        return ORDERS


@irdl_op_definition
class ScratchLoadOp(IRDLOperation):
    """Threads of a team load what others have stored by `pipeline.scratch_store`.

    Example:

        cute.kernel @k() {
          pipeline.steps {
            pipeline.scratch_store
            cute.barrier
            pipeline.scratch_load
          }
        }
    """

    name = "pipeline.scratch_load"
    traits = traits_def(MemoryReadEffect())
    assembly_format = "attr-dict"

    def effects(self) -> Effects:
        return ORDERS


@irdl_op_definition
class StepsOp(IRDLOperation):
    """What threads do, in this order, to do the op that follows: accesses to memory that they share,
    and what synchronizes these. They do none of it where a condition (`if`) does not hold.

    `cute-expand-roles` writes them; the op behind is lowered to them and to what each thread does by
    itself, and adds no barrier of its own.

    Example:

        cute.kernel @k(%x: f32) {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(64,8)">
          cute.fill %t, %x : !cute.fragment<f32, "(64,8)">
          pipeline.steps {
            cute.barrier
            pipeline.scratch_store
            cute.barrier
            pipeline.scratch_load
          }
          %s = cute.reduce "add", %t {mode = 0 : i64} : !cute.fragment<f32, "(64,8)"> -> !cute.fragment<f32, "(1,8)">
        }
    """

    name = "pipeline.steps"
    condition = opt_operand_def(i1)
    body = region_def("single_block")
    traits = traits_def(NoTerminator(), MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "(`if` $condition^)? attr-dict-with-keyword $body"

    def __init__(self, ops: Sequence[Operation], condition: SSAValue | None = None) -> None:
        super().__init__(operands=[condition], regions=[Region(Block(ops))])

    def effects(self) -> Effects:
        return ORDERS

    def verify_(self) -> None:
        for op in self.body.block.ops:
            if not isinstance(op, STEPS):
                names = ", ".join(step.name for step in STEPS)
                raise VerifyException(f"expected one of {names} in {self.name}, got {op.name}")


STEPS = (BarrierOp, ScratchStoreOp, ScratchLoadOp)
"""What threads do there."""
