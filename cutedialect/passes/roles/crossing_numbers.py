"""Conditions that cross roles: a step of `cute-assign-warp-roles`.

    y = any x (main); if y { gemm a, b, acc (mma) }
    =>
    y = any x (main); z = share y; if z { gemm a, b, acc (mma) }

Scalar code is the same in all roles and each computes it for itself, up to what one role alone
knows: a condition that it computes from tiles. Where that decides, through scalar code, loops and
branches, on what another role does, the one that computes it shares it. It is then a condition of
the whole role: its warps do not decide for themselves.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.dialects.builtin import i1
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AnyOp, KernelOp, ShareOp
from cutedialect.dialects.effects import space_of
from cutedialect.dialects.walks import walk
from cutedialect.passes.rewriting import insert_after
from cutedialect.passes.roles.crossing_tiles import role_of


def cross_numbers(kernel: KernelOp, alternating: frozenset[str]) -> None:
    """Share the conditions that steer other roles than the one that computes them. Of roles
    `alternating`, instances take work items in turns.
    """
    of_roles: dict[str, list[Operation]] = {}
    order = list(walk(kernel.body.block))
    for op in order:
        role = role_of(op)
        if role is not None:
            of_roles.setdefault(role, []).append(op)
    takers: dict[Operation, list[str]] = {}
    for role, ops in of_roles.items():
        for made in _asked(ops):
            if role_of(made) != role:
                takers.setdefault(made, []).append(role)
    for number, made in enumerate(op for op in order if op in takers):
        roles = takers[made]
        maker = role_of(made)
        assert maker is not None
        value = next(result for result in made.results if space_of(result) is None)
        if value.type != i1 or alternating & {maker, *roles}:
            raise PassFailedException(
                made,
                f"expected a condition for the role{'s' * (len(roles) > 1)} "
                f"{', '.join(roles)} and one team in each role, got {value.type} of role "
                f"'{maker}'"
                + (", whose teams take turns" if alternating & {maker, *roles} else "")
                + "; let one role of the plan take what it decides on",
            )
        if isinstance(made, AnyOp):
            made.properties.pop("local", None)
        share = ShareOp(value, number, maker, roles)
        insert_after(made, share)
        value.replace_uses_with_if(
            share.result, lambda use, share=share: use.operation is not share
        )


def _asked(ops: Sequence[Operation]) -> set[Operation]:
    """The ops with roles whose numbers some ops take, through the scalar code of all roles, or that
    decide whether these run.
    """
    found: set[Operation] = set()
    seen: set[SSAValue | Operation] = set()
    pending = [v for op in ops for inner in walk(op) for v in inner.operands if space_of(v) is None]
    for op in ops:
        pending += _steering(op, seen)
    while pending:
        value = pending.pop()
        if value in seen:
            continue
        seen.add(value)
        made = value.owner
        if isinstance(made, Block):
            # A loop's value, which follows from what the loop is given and goes on with.
            around = made.parent_op()
            if isinstance(around, scf.ForOp | scf.WhileOp):
                pending += _controls(around)
        elif role_of(made) is not None:
            found.add(made)
        else:
            pending += [each for each in made.operands if space_of(each) is None]
            pending += _controls(made) if made.regions else []
            pending += _steering(made, seen)
    return found


def _steering(op: Operation, seen: set[SSAValue | Operation]) -> list[SSAValue]:
    """What decides whether an op runs, but for what ops that were seen before are told by."""
    found: list[SSAValue] = []
    around = op.parent_op()
    while around is not None and not isinstance(around, KernelOp) and around not in seen:
        seen.add(around)
        found += _controls(around)
        around = around.parent_op()
    return found


def _controls(op: Operation) -> list[SSAValue]:
    """The numbers that a loop, a branch or a search is given, and that its regions end with."""
    ends = (block.last_op for region in op.regions for block in region.blocks)
    given = [*op.operands, *(value for end in ends if end is not None for value in end.operands)]
    return [value for value in given if space_of(value) is None]
