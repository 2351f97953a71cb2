"""The last step of `cute-synchronize` for kernels with roles: a copy of the program for each role.

A role keeps its own ops, the loops and branches around them, and the scalar code that these need;
buffers and rings stay in front, shared. Only code without effects is cloned.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Reversible, Sequence
from itertools import takewhile

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import AllocSmemOp, AllocTmemOp, GemmOp, KernelOp, ShareOp
from cutedialect.dialects.cute_nvgpu import FenceTensorMapsOp
from cutedialect.dialects.effects import is_pure
from cutedialect.dialects.pipeline import CreateOp, RoleOp
from cutedialect.dialects.walks import ops_around, ops_of, walk
from cutedialect.passes.analysis.role_plan import ROLE, role_of
from cutedialect.passes.rewriting import cloned
from cutedialect.passes.roles.assign_warp_roles import Role

_SHARED = (AllocSmemOp, AllocTmemOp, CreateOp, FenceTensorMapsOp)
_CONTROL = (scf.ForOp, scf.IfOp, scf.WhileOp)


def split_roles(kernel: KernelOp, roles: Sequence[Role]) -> None:
    """Move the program of each role into a `pipeline.role`."""
    block = kernel.body.block
    old = [op for op in block.ops if not isinstance(op, _SHARED)]
    doers: defaultdict[Operation, set[str]] = defaultdict(set)
    for op in walk(block):
        if (name := role_of(op)) is not None:
            for around in takewhile(lambda each: each is not kernel, ops_around(op)):
                doers[around].add(name)
    made: list[RoleOp] = []
    for role in roles:
        needs = _Needs(role.name, doers)
        needs.add(old)
        values: dict[SSAValue, SSAValue] = {}
        kept = (op for op in old if op in needs.ops)
        body = Block(cloned(op, values, needs.ops.__contains__) for op in kept)
        for op in walk(body):
            op.attributes.pop(ROLE, None)
            if type(op) is ShareOp and role.name != op.makes:
                op.operands = []
        made.append(
            RoleOp(
                role.name,
                role.first,
                role.warps,
                body,
                role.registers or None,
                elect=role.elect,
                instances=role.instances,
                pair=any(op.is_paired for op in ops_of(body, GemmOp)),
            )
        )
        made[-1].location = kernel.location
    for op in reversed(old):
        op.detach()
        op.erase(safe_erase=False)
    block.add_ops(made)


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
            is_control = type(op) in _CONTROL
            if is_control:
                # Or one whose numbers it takes, such as whether a loop was left early.
                if self.role not in self.doers[op] and self.values.isdisjoint(op.results):
                    continue
                for region in op.regions:
                    for block in region.blocks:
                        self.add(block.ops)
            if type(op) is ShareOp and self.role not in (op.makes, *op.takes):
                continue
            if op.results and self.values.isdisjoint(op.results) and is_pure(op):
                continue
            inside = (op,) if is_control else tuple(walk(op))
            self.ops.update(inside)
            if type(op) is not ShareOp or self.role == op.makes:
                self.values.update(value for each in inside for value in each.operands)
