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
_ON_HOST = (cute.DimOp, cute.StrideOp, cute.MakeViewOp)
# Integer arithmetic that the host part is compiled from.
_SCALAR_CODE = frozenset(
    f"arith.{name}"
    for name in (
        *("constant", "addi", "subi", "muli", "divsi", "ceildivsi", "floordivsi", "remsi"),
        *("minsi", "maxsi", "andi", "ori", "xori", "shli", "shrsi", "shrui"),
        *("cmpi", "select", "extsi", "extui", "trunci"),
    )
)


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


def is_known_on_host(kernel: cute.KernelOp, value: SSAValue) -> bool:
    """Whether the host part can compute a number or a view of a kernel: by scalar code alone, from
    the kernel's arguments.
    """
    if isinstance(value, BlockArgument):
        return value.owner is kernel.body.block
    op = value.owner
    assert isinstance(op, Operation)
    return (op.name in _SCALAR_CODE or isinstance(op, _ON_HOST)) and all(
        is_known_on_host(kernel, operand) for operand in op.operands
    )


def on_host(kernel: cute.KernelOp, launch: cute.LaunchOp, value: SSAValue) -> SSAValue:
    """What a launch has for such a number or view: an argument of it, or what is computed as the
    kernel does, in front of the launch.
    """
    if isinstance(value, BlockArgument):
        return launched_with(kernel, launch, value)
    assert isinstance(value.owner, Operation)
    again = value.owner.clone(
        {operand: on_host(kernel, launch, operand) for operand in value.owner.operands}
    )
    insert_before(launch, again)
    return again.results[value.owner.results.index(value)]  # pyright: ignore[reportArgumentType]


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
