"""Kernels of a `gpu.module` as `ptx.kernel`. Arguments are scalars, pointers to global memory, and
structs, each leaf of which is a parameter. The block's threads are those of `known_block_size`.

    gpu.func @k(%n: i32, %to: !llvm.ptr) kernel attributes {known_block_size = array<i32: 64, 1, 1>}
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import llvm
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, IntegerType, StringAttr, i32
from xdsl.ir import Operation

from cutedialect.dialects import cute, gpu, ptx

from .context import fail
from .lowering import integers
from .structs import leaves_of

_PARAMETERS = (IntegerType, AnyFloat, llvm.LLVMPointerType)


def lower_module(
    op: Operation, lower: Callable[[cute.KernelOp], ptx.KernelOp]
) -> list[ptx.KernelOp]:
    """The kernels of a `gpu.module`; functions that no kernel can call yet are refused."""
    assert isinstance(op, gpu.ModuleOp)
    kernels: list[ptx.KernelOp] = []
    for function in list(op.body.block.ops):
        if not isinstance(function, gpu.FuncOp) or function.kernel is None:
            raise fail(function, "expected kernels alone in a gpu.module: calls are not lowered")
        kernels.append(lower(_as_kernel(function)))
    return kernels


def _as_kernel(function: gpu.FuncOp) -> cute.KernelOp:
    """A kernel with the body of a function, which it takes."""
    if len(function.body.blocks) != 1:
        count = len(function.body.blocks)
        raise fail(function, f"expected one block (branches as scf.if), got {count}")
    for arg in function.body.block.args:
        for _, leaf in leaves_of(arg.type):
            if not isinstance(leaf, _PARAMETERS):
                expected = "scalars, pointers and structs of them (cute-to-base makes these)"
                raise fail(function, f"expected {expected} as arguments, got {arg.type}")
    kernel = cute.KernelOp.create(
        properties={
            "sym_name": StringAttr(function.sym_name.data),
            "threads": IntegerAttr(_threads(function), i32),
        },
        regions=[function.detach_region(0)],
    )
    kernel.location = function.location
    return kernel


def _threads(function: gpu.FuncOp) -> int:
    size = function.known_block_size
    extents = () if size is None else integers(size)
    if len(extents) != 3 or extents[1:] != (1, 1):
        got = "none" if size is None else str(list(extents))
        raise fail(
            function,
            f"expected known_block_size = array<i32: N, 1, 1> (PTX: `.reqntid`), got {got}",
        )
    return extents[0]
