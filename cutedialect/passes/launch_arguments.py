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
from cutedialect.passes.rewriting import erase, insert_before

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
    for launch in launches_of(kernel):
        _append(launch, make(launch), name)
    return added


def launches_of(kernel: cute.KernelOp) -> list[cute.LaunchOp]:
    """The launches of a kernel by the host functions of its module."""
    module = kernel.parent_op()
    hosts = module.ops if isinstance(module, ModuleOp) else ()
    return [
        launch
        for host in hosts
        if isinstance(host, func.FuncOp)
        for launch in ops_of(host, cute.LaunchOp)
        if launch.kernel.string_value() == kernel.sym_name.data
    ]


def launched_with(kernel: cute.KernelOp, launch: cute.LaunchOp, argument: SSAValue) -> SSAValue:
    """What a launch passes for an argument of the kernel."""
    return launch.args[list(kernel.body.block.args).index(argument)]  # pyright: ignore[reportArgumentType]


def is_workspace(kernel: cute.KernelOp, argument: BlockArgument) -> bool:
    """Whether a launch passes memory of its own for an argument."""
    launches = launches_of(kernel)
    return any(isinstance(op.args[argument.index].owner, cute.WorkspaceOp) for op in launches)


def _append(launch: cute.LaunchOp, made: Operation, name: str) -> None:
    if made.parent is None:
        made.results[0].name_hint = name
        insert_before(launch, made)
    again = cute.LaunchOp(
        launch.kernel.string_value(),
        launch.grid,
        [*launch.args, made.results[0]],
        cluster=None if launch.cluster is None else launch.cluster.get_values(),
    )
    again.properties.update({k: launch.properties[k] for k in _KEPT if k in launch.properties})
    again.attributes.update(launch.attributes)
    insert_before(launch, again)
    erase(launch)
