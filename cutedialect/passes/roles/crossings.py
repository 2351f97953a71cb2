"""What crosses roles: steps of `cute-assign-warp-roles` for register tiles and for conditions.

    gemm a, b, acc (mma); y = f(acc) (main)
    =>
    gemm a, b, acc (mma); copy acc, s (mma); copy s, t (main); y = f(t) (main)

A tile that one role makes and another one reads gets a buffer in shared memory and two copies, one
of each role; `cute-synchronize` makes the buffer a ring like any other that crosses roles. A tile
of conditions goes as bytes. A mutable tile belongs to one role, which multiplies into it, or else
to the role of the first op that writes it: that role does all that writes it.

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

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import UniversalCopyType
from cutedialect.dialects.effects import RMEM, space_of, written, written_by
from cutedialect.dialects.walks import ops_around, ops_behind, walk
from cutedialect.passes.analysis.role_plan import give, role_of
from cutedialect.passes.analysis.smem_layouts import staging_layout
from cutedialect.passes.rewriting import (
    as_bytes,
    as_conditions,
    block_of,
    insert_after,
    insert_before,
)


def settle_owners(kernel: cute.KernelOp) -> None:
    """Let one role do all that makes or writes a mutable register tile without reading another
    role's: the one that multiplies into it, or that of its first writer.
    """
    places = {op: at for at, op in enumerate(walk(kernel))}
    for alloc in [op for op in places if isinstance(op, cute.AllocFragmentOp)]:
        users = [use.operation for use in alloc.result.uses]
        writers = [op for op in users if alloc.result in written(op)]
        gemms = [op for op in writers if isinstance(op, cute.GemmOp)]
        first = min(gemms or writers or [alloc], key=places.__getitem__)
        owner = role_of(first)
        if owner is not None:
            give(owner, alloc, *(op for op in writers if not isinstance(op, cute.GemmOp)))


def cross_tiles(kernel: cute.KernelOp) -> None:
    """Bring every register tile to the roles that read it."""
    # By the tile and the role that has it: the copy that has brought it there, and its name there.
    made: dict[tuple[SSAValue, str], tuple[cute.CopyOp, SSAValue]] = {}
    for op in list(walk(kernel.body.block)):
        reader = role_of(op)
        if reader is None:
            continue
        for number, value in enumerate(op.operands):
            # A map's body names an element.
            if space_of(value) != RMEM or isinstance(value.owner, Block):
                continue
            maker = role_of(value.owner)
            if maker is None or maker == reader:
                continue
            if value in written(op):
                raise PassFailedException(
                    op,
                    f"expected one role to write a register tile, got '{reader}' for one of "
                    f"'{maker}'",
                )
            known = made.get((value, reader))
            if known is None or not _still_holds(value, known[0], op):
                known = made[value, reader] = _bring(kernel, value, maker, reader, op)
            op.operands[number] = known[1]


def _bring(
    kernel: cute.KernelOp, value: SSAValue, maker: str, reader: str, op: Operation
) -> tuple[cute.CopyOp, SSAValue]:
    """The copy that gives a register tile of one role to another one, in front of an op, and the
    tile there. Conditions, which have no place in memory, go as bytes.
    """
    made = value.owner
    is_condition = cute.fragment_of(value).element == i1
    wide = [as_bytes(value)] if is_condition else []
    sent = wide[0].result if wide else value
    type_ = cute.fragment_of(sent)
    if type_.bits < 8 or type_.tv is None:
        raise PassFailedException(
            op,
            "expected a bound tile of elements of 8 bits or more, or of conditions, to go from "
            f"role '{maker}' to role '{reader}', got {type_}; compute it in the role that takes it",
        )
    contiguous = len(type_.shape) - 1
    layout, swizzle, alignment = staging_layout(type_.shape, contiguous, type_.bits, type_.tv)
    smem = cute.MemRefType.get(type_.element, "smem", alignment, layout, swizzle)
    buffer, tile = cute.AllocSmemOp(smem), cute.AllocFragmentOp(type_)
    buffer.location = op.location
    top = kernel.body.block.first_op
    assert top is not None
    insert_before(top, buffer)
    atom = UniversalCopyType.get(type_.element, 128)
    leave = cute.CopyOp(sent, buffer.result, atom=atom)
    arrive = cute.CopyOp(buffer.result, tile.result, atom=atom)
    narrow = [as_conditions(tile.result)] if is_condition else []
    give(maker, *wide, leave)
    give(reader, tile, arrive, *narrow)
    crossing = (*wide, leave, tile, arrive, *narrow)
    if isinstance(made, cute.AllocFragmentOp):
        insert_before(op, *crossing)
    else:
        assert isinstance(made, Operation)
        insert_after(made, *crossing)
    return arrive, narrow[0].result if narrow else tile.result


def _still_holds(value: SSAValue, known: cute.CopyOp, op: Operation) -> bool:
    """Whether a copy stands in front of an op with nothing between that writes the tile."""
    around = block_of(known).find_ancestor_op_in_block(op)
    if not isinstance(value.owner, cute.AllocFragmentOp):
        return around is not None
    for between in ops_behind(known):
        if value in written_by(between) or between is around:
            return between is around and value not in written_by(between)
    return False


def cross_numbers(kernel: cute.KernelOp, alternating: frozenset[str]) -> None:
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
                + "; take roles = specialized, or let one role of the plan take what it decides on",
            )
        if isinstance(made, cute.AnyOp):
            made.properties.pop("local", None)
        share = cute.ShareOp(value, number, maker, roles)
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
    for around in ops_around(op):
        if isinstance(around, cute.KernelOp) or around in seen:
            break
        seen.add(around)
        found += _controls(around)
    return found


def _controls(op: Operation) -> list[SSAValue]:
    """The numbers that a loop, a branch or a search is given, and that its regions end with."""
    ends = (block.last_op for region in op.regions for block in region.blocks)
    given = [*op.operands, *(value for end in ends if end is not None for value in end.operands)]
    return [value for value in given if space_of(value) is None]
