"""The part of `cute-synchronize` for tensor memory: buffers there that pass from role to role are
rings, of two stages where tensor memory holds them and work items or trips follow each other.

An accumulator is full when a commit behind its multiplies has signaled, and empty when all warps
that read it have arrived:

    for k { gemm a, b, t (mma) }; copy t, y (main)
    =>
    acquire; for k { gemm a, b, t[i] }; commit; advance (mma)
    wait; copy t[j], y; release; advance (main)

One that threads correct between multiplies has a ring of one stage, in place. Who waits for it to
be empty without filling it has it as the last multiply has left it; each trip hands it over once,
whether a branch has changed it or not:

    copy z, t (correction); for j { copy t, x; copy f(x), t (correction); gemm a, b, t (mma) }
    copy t, y (correction)
    =>
    copy z, t; for j { acquire; copy t, x; copy f(x), t; commit; advance }
    acquire; copy t, y
    for j { wait; gemm a, b, t; release by a commit; advance }

An operand that lies over an accumulator (`tensor_columns.py`) shares its columns: the release of
ring A is that of both buffers, and ring B, which tells that the operand is there, has no other:

    gemm q, k, s (mma); copy s, x; copy f(x), p (main); gemm p, v, o (mma)
    =>
    acquire A; gemm q, k, s[i]; commit A (mma)
    wait A; copy s[i], x; copy f(x), p[i]; commit B (main)
    wait B; gemm p[i], v, o; release A by a commit (mma)

So does an accumulator that lies over another one: each product waits until the one before it has
been read. The second one asks for the stage that the first one's next product has:

    gemm v, g, s (mma); copy s, x; copy f(x), b (main); gemm a, b, t (mma); copy t, y (reduction)
    =>
    acquire A; acquire B; gemm v, g, s; commit A (mma); wait A; copy s, x; release A (main)
    acquire A; gemm a, b, t; commit B (mma); wait B; copy t, y; release B (reduction)
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AllocTmemOp, CopyOp, GemmOp, KernelOp, memref_of
from cutedialect.dialects.pipeline import CreateOp
from cutedialect.dialects.walks import common_block, index_in_block, ops_of
from cutedialect.layout import Layout
from cutedialect.passes.analysis.memory_views import uses_of, views_of
from cutedialect.passes.analysis.ring_edges import depth, places_in
from cutedialect.passes.analysis.role_plan import is_corrected
from cutedialect.passes.analysis.tensor_columns import column_plan
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import block_of, erase, ring_of
from cutedialect.passes.roles.assign_warp_roles import Role
from cutedialect.passes.synchronize.ring_ends import RoleEnd, insert_ring, ring_between, role_among

_AROUND_LOOP = "expected uses of an accumulator around one loop"


@anchored(AllocTmemOp)
def insert_tensor_rings(kernel: KernelOp, roles: Sequence[Role]) -> None:
    """Give every buffer in tensor memory that passes between roles its ring."""
    plan = column_plan(kernel)
    overlays, products, rings = plan.operands, plan.products, plan.stages
    allocs = [op for op in kernel.body.block.ops if isinstance(op, AllocTmemOp)]
    allocs = [op for op in allocs if op not in {*overlays, *overlays.values()}]
    allocs = [op for op in allocs if op not in {*products, *products.values()}]
    for over, under in products.items():
        _insert_products(kernel, over, under, roles, rings[under])
    for operand, under in overlays.items():
        _insert_overlaid(kernel, operand, under, roles, rings[under])
    corrected = [op for op in allocs if is_corrected(op)]
    for alloc in allocs:
        gemms = [op for op in _users(alloc) if isinstance(op, GemmOp) and op.acc is alloc.result]
        if gemms and alloc not in corrected:
            _insert_accumulator(kernel, alloc, gemms, roles, rings[alloc])
    for alloc in corrected:
        _insert_in_place(kernel, alloc, roles)


def _insert_products(
    kernel: KernelOp, over: AllocTmemOp, under: AllocTmemOp, roles: Sequence[Role], most: int
) -> None:
    fills = [op for op in _users(under) if isinstance(op, GemmOp)]
    columns, filling = _insert_accumulator(kernel, under, fills, roles, most)
    gemms = [op for op in _users(over) if isinstance(op, GemmOp)]
    filling.before(gemms[0], *filling.begins())
    _insert_accumulator(kernel, over, gemms, roles, most, (columns, fills[0]))


def _insert_accumulator(
    kernel: KernelOp,
    alloc: AllocTmemOp,
    gemms: list[GemmOp],
    roles: Sequence[Role],
    most: int,
    under: tuple[AllocTmemOp, Operation] | None = None,
) -> tuple[AllocTmemOp, RoleEnd]:
    """The ring of an accumulator, and the place of who fills it; of one that lies over the columns
    of another ring, `under`, whose first multiply waits until it is free.
    """
    readers = [op for op in _users(alloc) if op not in gemms]
    if not readers:
        raise PassFailedException(
            alloc, "expected multiplies into tensor memory and copies out of it, got none"
        )
    reading = [*readers, *views_of(alloc.result)]
    block = common_block([*gemms, *reading])
    expected = "expected one role to multiply into tensor memory, and one to copy out of it"
    writer, reader = (role_among(roles, ops, expected) for ops in (gemms, readers))
    is_looped, ctas = depth(block) > 0, _ctas_of(gemms)
    arriving = reader.warps // (reader.instances if is_looped else 1) * ctas
    stages = most if is_looped else 1
    create = CreateOp("tcgen05", stages, 1, arriving, pair=ctas == 2)
    ends = ring_between(kernel, create, alloc, writer, reader)
    buffer = ring_of(alloc, stages) if under is None else _over(alloc, under[0], stages)
    if under is not None:
        kernel.body.block.insert_op_after(buffer, under[0])
    for end, ops in zip(ends, (gemms, reading), strict=True):
        places, begins = places_in(block, ops, _AROUND_LOOP), end.begins()
        if under is not None and end is ends[0]:
            end.before(under[1], *begins)
            begins = []
        end.around(places, begins, end.ends(), (alloc, buffer))
    erase(alloc)
    return buffer, ends[0]


def _insert_in_place(kernel: KernelOp, alloc: AllocTmemOp, roles: Sequence[Role]) -> None:
    users = _users(alloc)
    gemms = [op for op in users if isinstance(op, GemmOp)]
    others = [op for op in users if not isinstance(op, GemmOp)]
    block = block_of(gemms[0])
    gemms.sort(key=index_in_block)
    loop = block.parent_op()
    expected = "expected one role to correct an accumulator, and one to multiply into it"
    threads, multiplying = (role_among(roles, ops, expected) for ops in (others, gemms))
    if not isinstance(loop, scf.ForOp) or threads.instances > 1:
        raise PassFailedException(
            alloc, "expected one role to correct an accumulator in each trip of a loop"
        )
    ctas = _ctas_of(gemms)
    create = CreateOp("tmem", 1, threads.warps * ctas, 1, pair=ctas == 2)
    filling, reading = ring_between(kernel, create, alloc, threads, multiplying)
    # Where threads touch it in front of the loop, in its trips and behind it.
    outer = block_of(loop)
    around, at = places_in(outer, others, _AROUND_LOOP), index_in_block
    before = [op for op in around if at(op) < at(loop)]
    behind = [op for op in around if at(op) > at(loop)]
    inside = [op for op in others if outer.find_ancestor_op_in_block(op) is loop]
    trip = places_in(block, inside, _AROUND_LOOP)
    # Who has read it behind the loop has waited for the last multiply.
    for outside in (behind or before)[:1]:
        filling.before(outside, *filling.begins())
    filling.before(trip[0] if trip else gemms[0], *filling.begins())
    filling.before(gemms[0], *filling.ends(), like=trip[-1] if trip else None)
    reading.around(gemms, reading.begins(), reading.ends(commits=True))


def _insert_overlaid(
    kernel: KernelOp, operand: AllocTmemOp, under: AllocTmemOp, roles: Sequence[Role], most: int
) -> None:
    block = block_of(next(op for op in _users(under) if isinstance(op, GemmOp)))
    fills, reads = _parted(block, under, GemmOp)
    stores, multiplies = _parted(block, operand, CopyOp)
    expected = (
        "expected one role to multiply by way of columns that an operand shares, and one to "
        "compute it"
    )
    tensor = role_among(roles, fills + multiplies, expected)
    threads = role_among(roles, reads + stores, expected)
    stages = most if depth(block) else 1
    ctas = _ctas_of([op for place in multiplies for op in ops_of(place, GemmOp)])
    is_paired = ctas == 2
    first = insert_ring(kernel, CreateOp("tcgen05", stages, 1, 1, pair=is_paired), under)
    second = CreateOp("tmem", stages, threads.warps * ctas, 0, pair=is_paired)
    insert_ring(kernel, second, under)
    columns, whole = _overlaid_buffers(operand, under, stages)
    kernel.body.block.insert_op_after(whole, columns)
    # The second ring stands in front of the first one.
    filling = RoleEnd.of(first, "producer", tensor)
    reading = RoleEnd.of(first, "consumer", threads)
    releasing = RoleEnd.of(first, "consumer", tensor)
    storing = RoleEnd.of(second, "producer", threads, first)
    taking = RoleEnd.of(second, "consumer", tensor, first)
    filling.around(fills, filling.begins(), filling.ends(), (under, columns))
    reading.around(reads, reading.begins(), reading.goes_on(), (under, columns))
    storing.around(stores, [], storing.ends(), (operand, whole))
    freed = [*releasing.ends(commits=True), *taking.goes_on()]
    taking.around(multiplies, taking.begins(), freed, (operand, whole))
    erase(operand, under)


def _overlaid_buffers(
    operand: AllocTmemOp, under: AllocTmemOp, stages: int
) -> tuple[AllocTmemOp, AllocTmemOp]:
    """The rings of an accumulator and of the operand over it, stage over stage."""
    columns = ring_of(under, stages)
    return columns, _over(operand, columns, stages, under.columns)


def _over(alloc: AllocTmemOp, ring: AllocTmemOp, stages: int, columns: int = 0) -> AllocTmemOp:
    """A ring of so many stages of a buffer over one of another, whose stages have so many columns:
    as many as the buffer where there is one stage.
    """
    type_ = memref_of(alloc.result)
    step = (columns or alloc.columns) * alloc.packed
    layout = Layout((*type_.modes, stages), (*type_.stride, step))
    whole = AllocTmemOp(type_.with_layout(layout), ring.result)
    whole.location = alloc.location
    whole.result.name_hint = alloc.result.name_hint
    return whole


def _ctas_of(gemms: Sequence[GemmOp]) -> int:
    """How many CTAs do some multiplies together."""
    return 2 if any(op.is_paired for op in gemms) else 1


def _users(alloc: AllocTmemOp) -> list[Operation]:
    """The ops that read or write a buffer or a part of it."""
    return [use.operation for use in uses_of(alloc.result)]


def _parted(
    block: Block, alloc: AllocTmemOp, kind: type[Operation]
) -> tuple[list[Operation], list[Operation]]:
    """The ops of a block that are or hold users of a buffer of one kind, and others and views."""
    users = [*_users(alloc), *views_of(alloc.result)]
    mine = [op for op in users if isinstance(op, kind)]
    others = [op for op in users if op not in mine]
    return places_in(block, mine, _AROUND_LOOP), places_in(block, others, _AROUND_LOOP)
