"""Whether the roles of a loop, each with its ops in the order of their stages and places, can all
go on: a step of `cute-schedule-loops`.

    for j { s = q k[j] (mma); p = f(s); y = g(x); z = h(s) (main); x = p v[j] {1, 1} (mma) }

Here `s` of trip j + 1 stands in front of `x` of trip j. It takes the columns of `s` of trip j where
there is one stage of these, and so waits for `z`, which `main` computes behind `y`, which waits for
`x`: nobody goes on. In the order of the program no role waits for itself, as all are projections of
one run; every other order is asked here. Each wait is an edge with a distance in trips: an op waits
for the one in front of it in its role, who reads a stage for who fills it in the same trip, and who
fills one for who has read it as many trips ago as there are stages. A role waits for itself where a
cycle of such edges does not lead to a later trip.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise, product

from xdsl.ir import Block, Operation

from cutedialect.dialects.cute import AllocTmemOp, GemmOp, KernelOp
from cutedialect.dialects.walks import common_block, index_in_block
from cutedialect.passes.analysis.memory_views import uses_of
from cutedialect.passes.analysis.ring_edges import Buffer, given_stages
from cutedialect.passes.analysis.role_plan import is_corrected, multiplies_into, role_of
from cutedialect.passes.analysis.tensor_columns import ColumnPlan, column_plan
from cutedialect.passes.analysis.trips import order_of, stage_of
from cutedialect.passes.rewriting import block_of
from cutedialect.plans import MAIN


@dataclass(frozen=True)
class Passing:
    """A buffer of so many stages that ops of one role, the first, fill in each trip of a block, and
    ops of another one read. Where it lies over another buffer it has none of its own.
    """

    buffer: Buffer
    block: Block
    roles: tuple[str, str]
    writers: Sequence[Operation]
    readers: Sequence[Operation]
    stages: int | None

    @property
    def shown(self) -> str:
        """The buffer as a message names it."""
        return self.buffer.result.name_hint or "an operand that threads compute"


@dataclass(frozen=True)
class _Wait:
    """Who waits, of trip t + `distance`, for whom, of trip t; for a free stage of a `buffer`."""

    source: int
    target: int
    distance: int
    buffer: Buffer | None = None


def passings_of(kernel: KernelOp, stages: int) -> list[Passing]:
    """What the roles of a kernel pass to each other, where loads into its innermost loops have so
    many stages.
    """
    found = [
        Passing(
            edge.buffers[0],
            edge.block,
            (edge.producer, consumer),
            edge.writers,
            edge.readers_of(consumer),
            count,
        )
        for edge, count in given_stages(kernel, stages).items()
        for consumer in edge.consumers
    ]
    plan = column_plan(kernel)
    for alloc in [op for op in kernel.body.block.ops if isinstance(op, AllocTmemOp)]:
        found += _passings_in_tensor_memory(alloc, plan)
    return found


def _passings_in_tensor_memory(alloc: AllocTmemOp, plan: ColumnPlan) -> Iterator[Passing]:
    """What roles pass to each other in a buffer of tensor memory."""
    users = [use.operation for use in uses_of(alloc.result)]
    gemms = [op for op in users if isinstance(op, GemmOp)]
    others = [op for op in users if not isinstance(op, GemmOp)]
    if not gemms or not others:
        return
    block, inner = common_block(users), block_of(gemms[0])
    tensor, threads = (role_of(ops[0]) or MAIN for ops in (gemms, others))
    under = plan.operands.get(alloc) or plan.products.get(alloc)
    if under is not None:
        writers, readers, roles = others, gemms, (threads, tensor)
        if multiplies_into(alloc):
            writers, readers, roles = gemms, others, (tensor, threads)
        fills = [op for op in multiplies_into(under) if block.is_ancestor(op)]
        yield Passing(alloc, block, roles, writers, readers, None)
        # Its columns are those of a product again when it has been read, or multiplied.
        yield Passing(under, block, (tensor, roles[1]), fills, readers, plan.stages[under])
    elif is_corrected(alloc):
        trip = [op for op in others if inner.is_ancestor(op)]
        yield Passing(alloc, inner, (threads, tensor), trip, gemms, 1)
    elif multiplies_into(alloc):
        yield Passing(alloc, block, (tensor, threads), gemms, others, plan.stages[alloc])


def waits_for_itself(block: Block, passings: Sequence[Passing]) -> Passing | None:
    """What the roles of a loop's body pass to each other of which a role would wait for itself, if
    one would: of the fewest stages.
    """
    mine = [each for each in passings if each.block is block and each.writers and each.readers]
    nodes: dict[tuple[Operation, str], int] = {}

    def node(op: Operation, role: str) -> int:
        place = block.find_ancestor_op_in_block(op)
        assert place is not None
        return nodes.setdefault((place, role), len(nodes))

    waits: list[_Wait] = []
    for each in mine:
        for writer, reader in product(each.writers, each.readers):
            fills, reads = node(writer, each.roles[0]), node(reader, each.roles[1])
            if each.roles[0] != each.roles[1]:
                waits.append(_Wait(fills, reads, 0))
            if each.stages is not None:
                waits.append(_Wait(reads, fills, each.stages, each.buffer))
    waits += _orders(block, nodes)
    cycle = _cycle(len(nodes), waits)
    buffers = {wait.buffer for wait in cycle}
    taken = [each for each in mine if each.stages is not None and each.buffer in buffers]
    return min(taken, key=lambda each: each.stages or 0, default=None)


def _orders(block: Block, nodes: dict[tuple[Operation, str], int]) -> Iterator[_Wait]:
    """The waits of each role for what it does in front."""
    roles: dict[str, list[Operation]] = {}
    for place, role in nodes:
        roles.setdefault(role, []).append(place)
    for role, places in roles.items():
        places.sort(key=lambda op: (order_of(op) or 0, index_in_block(op)))
        for one, other in pairwise(places):
            distance = stage_of(one) - stage_of(other)
            yield _Wait(nodes[one, role], nodes[other, role], distance)
        first, last = places[0], places[-1]
        distance = stage_of(last) - stage_of(first) + 1
        yield _Wait(nodes[last, role], nodes[first, role], distance)


def _cycle(count: int, waits: Sequence[_Wait]) -> list[_Wait]:
    """The waits of a cycle that leads to no later trip; none if there is none."""
    # No cycle has more than `count` waits: below 0 are the sums of just those that are looked for.
    costs = [wait.distance * (count + 1) - 1 for wait in waits]
    least = [0] * count
    came: list[_Wait | None] = [None] * count
    changed: int | None = None
    for _ in range(count + 1):
        changed = None
        for wait, cost in zip(waits, costs, strict=True):
            if least[wait.source] + cost < least[wait.target]:
                least[wait.target] = least[wait.source] + cost
                came[wait.target] = wait
                changed = wait.target
        if changed is None:
            return []
    assert changed is not None
    # As many steps back as there are places lead into the cycle.
    last = _before(changed, came)
    for _ in range(count):
        last = _before(last.source, came)
    cycle = [last]
    while cycle[-1].source != last.target:
        cycle.append(_before(cycle[-1].source, came))
    return cycle


def _before(place: int, came: Sequence[_Wait | None]) -> _Wait:
    """The wait by which a place has its sum."""
    wait = came[place]
    assert wait is not None
    return wait
