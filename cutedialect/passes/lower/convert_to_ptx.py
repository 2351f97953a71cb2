"""The pass `convert-to-ptx`: each thread-level `cute.kernel` becomes a `ptx.kernel` of its name.

    cute.kernel @k(%x: !cute.memref<f32, gmem, align<16>, "(?):(1)">) attributes {...}

becomes `ptx.kernel @k(%0: b64, %1: b32)`: for each memref a pointer, its dynamic extents, its
dynamic strides; then `cute.launch` of the host part learns the bytes of shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint, Rewriter
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute, ptx
from cutedialect.dialects.walks import walk

from .kernel import lower_kernel

__all__ = ["ConvertToPtxPass"]


@dataclass(frozen=True)
class ConvertToPtxPass(ModulePass):
    """Turn thread-level kernels into the `ptx` dialect for one target."""

    name = "convert-to-ptx"

    arch: str = "sm_80"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        del ctx
        from cutedialect.atoms import target

        try:
            target(self.arch)
        except ValueError as error:
            raise PassFailedException(op, f"convert-to-ptx: {error}") from error
        smem: dict[str, int] = {}
        for kernel in [each for each in op.body.block.ops if isinstance(each, cute.KernelOp)]:
            lowered = lower_kernel(kernel, self.arch)
            smem[kernel.sym_name.data] = 0 if lowered.smem is None else lowered.smem.value.data
            Rewriter.insert_op(lowered, InsertPoint.before(kernel))
            kernel.detach()
            kernel.erase(safe_erase=False)
        for host in op.body.block.ops:
            if isinstance(host, ptx.KernelOp):
                continue
            for each in walk(host):
                if isinstance(each, cute.LaunchOp):
                    size = smem.get(each.kernel.string_value())
                    if size is not None:
                        each.properties["smem"] = IntegerAttr(size, i32)
