"""The part of `cute-synchronize` for operands in tensor memory that lie over accumulators
(`tensor_columns.py`): one stage of columns goes from the multiplies that fill it to the threads
that write the operand there, and back to the multiplies that read it.

    gemm q, k, s (mma); copy s, x; copy f(x), p (main); gemm p, v, o (mma)
    =>
    acquire A; gemm q, k, s[i]; commit A (mma)
    wait A; copy s[i], x; copy f(x), p[i]; commit B (main)
    wait B; gemm p[i], v, o; release A by a commit (mma)

The stage is empty when the tensor core has read the operand: the release of ring A is that of both
buffers, and ring B, which tells that the operand is there, has no other.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocTmemOp,
    CopyOp,
    GemmOp,
    KernelOp,
    MemRefType,
    StageOp,
    SubviewOp,
)
from cutedialect.dialects.pipeline import (
    AdvanceOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    IndexOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    StateOp,
)
from cutedialect.dialects.walks import walk
from cutedialect.layout import Layout
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.roles.crossing_tiles import role_of
from cutedialect.passes.roles.tensor_columns import tensor_overlays
from cutedialect.passes.synchronize.accumulator_rings import last_alloc, stand_like
from cutedialect.passes.synchronize.ring_buffers import ring_type
from cutedialect.passes.synchronize.ring_edges import depth


def insert_overlaid_rings(kernel: KernelOp, roles: Sequence[Role], most: int) -> None:
    """Give every accumulator under an operand, and that, their rings, of `most` stages in loops."""
    for operand, under in tensor_overlays(kernel).items():
        _insert_rings(kernel, operand, under, roles, most)


def _insert_rings(
    kernel: KernelOp,
    operand: AllocTmemOp,
    under: AllocTmemOp,
    roles: Sequence[Role],
    most: int,
) -> None:
    uses, others = _users(under), _users(operand)
    block = next(op for op in uses if isinstance(op, GemmOp)).parent
    assert block is not None
    fills, reads = _parted(block, uses, GemmOp)
    stores, multiplies = _parted(block, others, CopyOp)
    tensor, threads = _role(fills + multiplies, roles), _role(reads + stores, roles)
    stages = most if depth(block) else 1
    top = kernel.body.block
    first = CreateOp("tcgen05", stages, 1, 1)
    second = CreateOp("tmem", stages, threads.warps, 0)
    for create in (first, second):
        create.location = under.location
        top.insert_op_after(create, last_alloc(kernel))
    columns, whole = _buffers(operand, under, stages)
    top.insert_op_before(columns, under)
    top.insert_op_after(whole, columns)
    sides = {
        "filling": ("producer", first, tensor),
        "reading": ("consumer", first, threads),
        "releasing": ("consumer", first, tensor),
        "storing": ("producer", second, threads),
        "taking": ("consumer", second, tensor),
    }
    states: dict[str, StateOp] = {}
    for name, (side, create, role) in sides.items():
        states[name] = state = StateOp(side, create.ring)
        stand_like(state, under, role.name)
        top.insert_op_after(state, max(first, second, key=top.get_operation_index))
    at = {name: state.state for name, state in states.items()}
    ring, told = first.ring, second.ring
    _around(
        fills, under, columns, tensor, at["filling"],
        [ProducerAcquireOp(ring, at["filling"])],
        [ProducerCommitOp(ring, at["filling"]), AdvanceOp(at["filling"])],
    )  # fmt: skip
    _around(
        reads, under, columns, threads, at["reading"],
        [ConsumerWaitOp(ring, at["reading"])],
        [AdvanceOp(at["reading"])],
    )  # fmt: skip
    _around(
        stores, operand, whole, threads, at["storing"],
        [],
        [ProducerCommitOp(told, at["storing"]), AdvanceOp(at["storing"])],
    )  # fmt: skip
    _around(
        multiplies, operand, whole, tensor, at["taking"],
        [ConsumerWaitOp(told, at["taking"])],
        [
            ConsumerReleaseOp(ring, at["releasing"], commits=True),
            AdvanceOp(at["releasing"]),
            AdvanceOp(at["taking"]),
        ],
    )  # fmt: skip
    for alloc in (operand, under):
        alloc.detach()
        alloc.erase()


def _buffers(
    operand: AllocTmemOp, under: AllocTmemOp, stages: int
) -> tuple[AllocTmemOp, AllocTmemOp]:
    """The rings of an accumulator and of the operand over it, stage over stage."""
    columns = AllocTmemOp(ring_type(under.result.type, stages))
    type_ = operand.result.type
    assert isinstance(type_, MemRefType)
    step = under.columns * operand.packed
    layout = Layout((*type_.modes, stages), (*type_.stride, step))
    whole = AllocTmemOp(type_.with_layout(layout), columns.result)
    for made, old in ((columns, under), (whole, operand)):
        made.location = old.location
        made.result.name_hint = old.result.name_hint
    return columns, whole


def _users(alloc: AllocTmemOp) -> list[Operation]:
    """The ops that use a buffer, and the views of it with those that use them."""
    found: list[Operation] = []
    pending: list[SSAValue] = [alloc.result]
    while pending:
        for use in pending.pop().uses:
            found.append(use.operation)
            if isinstance(use.operation, SubviewOp):
                pending.append(use.operation.result)
    return found


def _parted(
    block: Block, ops: Sequence[Operation], kind: type[Operation]
) -> tuple[list[Operation], list[Operation]]:
    """The ops of a block that are of a kind or hold such, and the others, in order."""
    found: Mapping[bool, set[Operation]] = {True: set(), False: set()}
    for op in ops:
        place = block.find_ancestor_op_in_block(op)
        assert place is not None
        found[isinstance(op, kind)].add(place)
    mine, others = (sorted(found[each], key=block.get_operation_index) for each in (True, False))
    return mine, others


def _role(ops: Sequence[Operation], roles: Sequence[Role]) -> Role:
    names = {name for op in ops for inner in walk(op) if (name := role_of(inner)) is not None}
    found = [role for role in roles if role.name in names]
    if len(names) != 1 or len(found) != 1:
        raise PassFailedException(
            ops[0],
            "expected one role to multiply by way of columns that an operand shares, and one to "
            f"compute it, got {', '.join(sorted(names))}",
        )
    return found[0]


def _around(
    places: Sequence[Operation],
    alloc: AllocTmemOp,
    ring: AllocTmemOp,
    role: Role,
    state: SSAValue,
    before: Sequence[Operation],
    behind: Sequence[Operation],
) -> None:
    """Let ops have a stage of a ring in the place of a buffer, with verbs on either side."""
    block = places[0].parent
    assert block is not None
    index = IndexOp(state)
    stage = StageOp(ring.result, index.index)
    for op in (*before, index, stage):
        stand_like(op, places[0], role.name)
        block.insert_op_before(op, places[0])
    after = places[-1]
    for op in behind:
        stand_like(op, places[-1], role.name)
        block.insert_op_after(op, after)
        after = op
    inside = {inner for place in places for inner in walk(place)}
    alloc.result.replace_uses_with_if(stage.result, lambda use: use.operation in inside)
