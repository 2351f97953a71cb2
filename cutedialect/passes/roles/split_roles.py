"""The last step of `cute-synchronize` for kernels with roles: a copy of the program for each role.

A role keeps its own ops, the loops and branches around them, and the scalar code that these need;
buffers and rings stay in front, shared. Only code without effects is cloned.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Reversible, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, Region, SSAValue

from cutedialect.dialects.cute import AllocSmemOp, AllocTmemOp, GemmOp, KernelOp, ShareOp
from cutedialect.dialects.cute_nvgpu import FenceTensorMapsOp
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.pipeline import CreateOp, RoleOp
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.rewriting import cloned
from cutedialect.passes.roles.assign_warp_roles import Role, is_of_pair
from cutedialect.passes.roles.crossings import ROLE, role_of

_SHARED = (AllocSmemOp, AllocTmemOp, CreateOp, FenceTensorMapsOp)
_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp)


def split_roles(kernel: KernelOp, roles: Sequence[Role]) -> None:
    """Move the program of each role into a `pipeline.role`."""
    block = kernel.body.block
    old = [op for op in block.ops if not isinstance(op, _SHARED)]
    doers: dict[Operation, set[str]] = {}
    _note_doers(old, doers)
    made: list[RoleOp] = []
    for role in roles:
        needs = _Needs(role.name, doers)
        needs.add(old)
        body = Block()
        _clone(old, role.name, needs.ops, body, {})
        op = RoleOp(
            role.name,
            role.first,
            role.warps,
            body,
            role.registers or None,
            elect=role.elect,
            instances=role.instances,
            pair=any(map(is_of_pair, ops_of(body, GemmOp))),
        )
        op.location = kernel.location
        made.append(op)
    for op in reversed(old):
        op.detach()
        op.erase(safe_erase=False)
    block.add_ops(made)


def _note_doers(ops: Iterable[Operation], doers: dict[Operation, set[str]]) -> set[str]:
    """The roles that do some of the ops, or of those inside of them; loops and branches are noted
    with theirs.
    """
    found: set[str] = set()
    for op in ops:
        given = role_of(op)
        mine: set[str] = set() if given is None else {given}
        for region in op.regions:
            for block in region.blocks:
                mine |= _note_doers(block.ops, doers)
        if op.regions and isinstance(op, _CONTROL):
            doers[op] = mine
        found |= mine
    return found


class _Needs:
    """What a role's program has: its own ops, the loops and branches around them, and the code that
    gives these their numbers, so that nothing is cloned that nobody uses.
    """

    def __init__(self, role: str, doers: Mapping[Operation, set[str]]) -> None:
        self.role = role
        self.doers = doers
        self.ops: set[Operation] = set()
        self.values: set[SSAValue] = set()

    def add(self, ops: Reversible[Operation]) -> None:
        """Add what is needed of the ops of a block, the last first."""
        for op in reversed(ops):
            if role_of(op) not in (None, self.role):
                continue
            doers = self.doers.get(op)
            if doers is not None:
                if self.role not in doers:
                    continue
                for region in op.regions:
                    for block in region.blocks:
                        self.add(block.ops)
            if type(op) is ShareOp and self.role not in (op.makes, *op.takes):
                continue
            if op.results and self.values.isdisjoint(op.results) and is_pure(op):
                continue
            self.ops.add(op)
            if type(op) is ShareOp and self.role != op.makes:
                continue
            inside = walk(op) if op.regions and doers is None else (op,)
            self.values.update(value for each in inside for value in each.operands)


def _clone(
    ops: Iterable[Operation],
    role: str,
    needed: set[Operation],
    into: Block,
    values: dict[SSAValue, SSAValue],
) -> None:
    """Copies of the ops that a role needs."""
    for op in ops:
        if op not in needed:
            continue
        if op.regions and isinstance(op, _CONTROL):
            into.add_op(_clone_control(op, role, needed, values))
            continue
        clone = cloned(op, values)
        if type(op) is ShareOp and role != op.makes:
            clone.operands = []
        clone.attributes.pop(ROLE, None)
        clone.location = op.location
        into.add_op(clone)


def _clone_control(
    op: scf.ForOp | scf.IfOp | scf.WhileOp,
    role: str,
    needed: set[Operation],
    values: dict[SSAValue, SSAValue],
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
        _clone(region.block.ops, role, needed, body, values)
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
