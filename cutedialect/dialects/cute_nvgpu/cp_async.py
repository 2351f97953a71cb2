"""What brackets the asynchronous copies of threads: commit and wait (PTX ISA 9.7.9.25.3)."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.irdl import ParsePropInAttrDict, prop_def, traits_def
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import Effects, Unit


@irdl_op_definition
class CpAsyncCommitOp(IRDLOperation):
    """The thread's `cp.async` since its last commit become one group; there may be none.

    Example:

        cute.kernel @k() {
          cute_nvgpu.cp_async_commit
        }
    """

    name = "cute_nvgpu.cp_async_commit"
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    assembly_format = "attr-dict"

    def __init__(self) -> None:
        super().__init__()

    def effects(self) -> Effects:
        return Effects(orders=True, closes=Unit.CP_ASYNC)


@irdl_op_definition
class CpAsyncWaitOp(IRDLOperation):
    """Wait until at most `pending` of the thread's latest groups are still at work. Other threads
    see what the groups wrote behind a barrier.

    Example:

        cute.kernel @k() {
          cute_nvgpu.cp_async_wait {pending = 1 : i32}
        }
    """

    name = "cute_nvgpu.cp_async_wait"
    pending = prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "attr-dict"

    def __init__(self, pending: int) -> None:
        super().__init__(properties={"pending": IntegerAttr(pending, i32)})

    def effects(self) -> Effects:
        return Effects(orders=True, completes=Unit.CP_ASYNC)

    def verify_(self) -> None:
        pending = self.pending.value.data
        check(pending >= 0, f"expected 0 or more groups at work, got {pending}")
