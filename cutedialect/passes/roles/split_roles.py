"""The last step of `cute-synchronize` for kernels with roles: a copy of the program for each role.

A role keeps its own ops, the loops and branches around them, and the scalar code that these need;
buffers and rings stay in front, shared. Only code without effects is cloned.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, Region, SSAValue

from cutedialect.dialects.cute import AllocSmemOp, AllocTmemOp, KernelOp, MapOp, ShareOp
from cutedialect.dialects.cute_nvgpu import FenceTensorMapsOp
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.pipeline import CreateOp, RoleOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.roles.assign_warp_roles import Role, is_of_pair

_SHARED = (AllocSmemOp, AllocTmemOp, CreateOp, FenceTensorMapsOp)


def split_roles(kernel: KernelOp, roles: Sequence[Role]) -> None:
    """Move the program of each role into a `pipeline.role`."""
    block = kernel.body.block
    old = [op for op in block.ops if not isinstance(op, _SHARED)]
    made: list[RoleOp] = []
    for role in roles:
        body = Block()
        _clone(old, role.name, body, {})
        sweep(body)
        op = RoleOp(
            role.name,
            role.first,
            role.warps,
            body,
            role.registers or None,
            elect=role.elect,
            instances=role.instances,
            pair=any(map(is_of_pair, walk(body))),
        )
        op.location = kernel.location
        made.append(op)
    for op in reversed(old):
        op.detach()
        op.erase(safe_erase=False)
    block.add_ops(made)


def _clone(
    ops: Sequence[Operation], role: str, into: Block, values: dict[SSAValue, SSAValue]
) -> None:
    """Copies of the ops that a role keeps."""
    for op in ops:
        given = op.attributes.get("role")
        if isinstance(given, StringAttr) and given.data != role:
            continue
        if isinstance(op, scf.ForOp | scf.IfOp | scf.WhileOp):
            if _concerns(op, role):
                into.add_op(_clone_control(op, role, values))
            continue
        clone = op.clone(values)
        if isinstance(op, ShareOp):
            if role not in (op.makes, *op.takes):
                clone.erase()
                continue
            if role != op.makes:
                clone.operands = []
        clone.attributes.pop("role", None)
        clone.location = op.location
        into.add_op(clone)


def _clone_control(
    op: scf.ForOp | scf.IfOp | scf.WhileOp, role: str, values: dict[SSAValue, SSAValue]
) -> Operation:
    """A loop or branch with the role's part of its body."""
    regions: list[Region] = []
    for region in op.regions:
        if not region.blocks:
            regions.append(Region())
            continue
        body = Block(arg_types=[arg.type for arg in region.block.args])
        for mine, theirs in zip(body.args, region.block.args, strict=True):
            mine.name_hint = theirs.name_hint
            values[theirs] = mine
        _clone(list(region.block.ops), role, body, values)
        regions.append(Region(body))
    made = type(op).create(
        operands=[values.get(operand, operand) for operand in op.operands],
        result_types=[result.type for result in op.results],
        regions=regions,
        attributes=op.attributes,
        properties=op.properties,
    )
    values.update(zip(op.results, made.results, strict=True))
    made.location = op.location
    return made


def _concerns(op: Operation, role: str) -> bool:
    """Whether a role does anything inside of an op."""
    return any(
        isinstance(given := inner.attributes.get("role"), StringAttr) and given.data == role
        for inner in walk(op)
    )


def sweep(block: Block) -> None:
    """Erase scalar code that nothing uses."""
    for op in reversed(list(block.ops)):
        for region in op.regions:
            if not isinstance(op, MapOp):
                for inner in region.blocks:
                    sweep(inner)
        if (
            op.results
            and not any(True for result in op.results for _ in result.uses)
            and is_pure(op)
        ):
            op.detach()
            op.erase()
