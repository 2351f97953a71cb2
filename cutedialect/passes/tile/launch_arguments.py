"""Kernel arguments that passes add: what the host part makes of the tensors it was given (tensor
maps, tables) and passes with every launch.
"""

from __future__ import annotations

from collections.abc import Callable

from xdsl.dialects import func
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Attribute, BlockArgument, Operation, SSAValue

from cutedialect.dialects import cute
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.rewriting import block_of, erase

_KEPT = ("threads", "smem")


def add_argument(
    kernel: cute.KernelOp, type_: Attribute, name: str, make: Callable[[cute.LaunchOp], Operation]
) -> BlockArgument:
    """A new last argument of a kernel. `make` gives, for each launch of it, the op that computes
    the argument: a new one, which is placed in front of the launch, or one that is there already.
    """
    block = kernel.body.block
    added = block.insert_arg(type_, len(block.args))
    added.name_hint = name
    module = kernel.parent_op()
    assert isinstance(module, ModuleOp)
    hosts = [op for op in module.ops if isinstance(op, func.FuncOp)]
    for launch in [op for host in hosts for op in ops_of(host, cute.LaunchOp)]:
        if launch.kernel.string_value() == kernel.sym_name.data:
            _append(launch, make(launch), name)
    return added


def launched_with(kernel: cute.KernelOp, launch: cute.LaunchOp, argument: SSAValue) -> SSAValue:
    """What a launch passes for an argument of the kernel."""
    position = next(i for i, arg in enumerate(kernel.body.block.args) if arg is argument)
    return launch.args[position]


def is_workspace(kernel: cute.KernelOp, argument: BlockArgument) -> bool:
    """Whether a launch passes memory of its own for an argument."""
    module = kernel.parent_op()
    if not isinstance(module, ModuleOp):
        return False
    hosts = [op for op in module.ops if isinstance(op, func.FuncOp)]
    return any(
        isinstance(op.args[argument.index].owner, cute.WorkspaceOp)
        for host in hosts
        for op in ops_of(host, cute.LaunchOp)
        if op.kernel.string_value() == kernel.sym_name.data
    )


def _append(launch: cute.LaunchOp, made: Operation, name: str) -> None:
    host = block_of(launch)
    assert isinstance(host.parent_op(), func.FuncOp)
    if made.parent is None:
        made.location = launch.location
        made.results[0].name_hint = name
        host.insert_op_before(made, launch)
    again = cute.LaunchOp(
        launch.kernel.string_value(),
        launch.grid,
        [*launch.args, made.results[0]],
        cluster=None if launch.cluster is None else launch.cluster.get_values(),
    )
    again.properties.update({k: launch.properties[k] for k in _KEPT if k in launch.properties})
    again.attributes.update(launch.attributes)
    again.location = launch.location
    host.insert_op_before(again, launch)
    erase(launch)
