"""The edges between roles, which buffers one role fills and others read, and the plan of the
rings that they become. Buffers that one op reads together are one edge, and share a ring; so are
those that a trip multiplies by what it computes from others, with these and the rows for it.

Where shared memory does not hold a ring for each, edges that follow each other take turns in the
stages of one, if they are alike:

    copy x, %a (load); use %a; copy y, %b (load); use %b

So do edges of loops that follow each other, whatever their trips: a ring's place goes on from one
loop to the next.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, i64
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocTmemOp,
    CopyOp,
    GemmOp,
    KernelOp,
    LoadOp,
    fragment_of,
    shape_of,
)
from cutedialect.dialects.cute.storage import is_paired
from cutedialect.dialects.effects import RMEM, Unit, effects_of, is_pure, space_of
from cutedialect.dialects.walks import index_in_block, ops_around, ops_behind, ops_of, walk
from cutedialect.passes.analysis.memory_views import root_of, uses_of
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.analysis.operand_plans import computes_ahead, multiplies_fed
from cutedialect.passes.analysis.resource_plan import Buffer, room, stage_bytes, stages_of_results
from cutedialect.passes.analysis.role_plan import multiplies_into, role_of
from cutedialect.passes.analysis.tensor_accumulators import corrects
from cutedialect.passes.analysis.tensor_columns import column_plan, tensor_overlays
from cutedialect.passes.analysis.trips import STAGE
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import block_of
from cutedialect.plans import MAIN

FILLS = "fills"
READS = "reads"
"""The attributes of ops that fill a ring, and of those that read some: their numbers."""
READS_EARLY = ("reads_early", "reads_earlier")
"""The same of ops behind which others still read the trip's stage, one or two trips later."""
GUARDED = "guarded"
"""The attribute of a branch that holds what a trip does for an earlier one, if there is one."""
_COMPUTED_STAGES = 2
# Elements of a thread that take no registers from what is computed beside them.
_FEW = 4
# Of edges that take turns: one stage is read by a group at work while the next is waited for.
_LEAST_STAGES = 2
# Stages that loops which follow each other share at most.
_MOST_SHARED = 8
_LOOPS = (scf.ForOp, scf.WhileOp)
Staged = Sequence[tuple[Buffer, int]]


@dataclass(eq=False)
class Edge:
    """Buffers that one role, the producer, fills and others, the consumers, read together."""

    buffers: list[Buffer]
    writers: list[CopyOp]
    readers: list[Operation]
    block: Block
    producer: str
    consumers: tuple[str, ...]

    @property
    def ends(self) -> tuple[Block, str, tuple[str, ...]]:
        """Where it is filled and read, and by whom."""
        return self.block, self.producer, self.consumers

    def readers_of(self, consumer: str) -> list[Operation]:
        """The ops in the block that read it in a role, or hold who does."""
        return [
            reader
            for reader in self.readers
            if any((role_of(op) or MAIN) == consumer for op in walk(reader))
        ]

    @property
    def crosses(self) -> bool:
        """Whether what one role has computed goes to another one."""
        return all(space_of(writer.source) == RMEM for writer in self.writers)

    @property
    def loads(self) -> bool:
        """Whether what comes from global memory goes to another role."""
        return space_of(self.writers[0].source) == "gmem"

    def may_join(self, other: Edge) -> bool:
        """Whether one barrier serves both: they are filled by one role for an op that reads both,
        and all is there before the first reader of either. What has to be computed behind that
        reader may be made of what follows from this, and the reader would wait for itself; loads
        depend on nothing that is read here, but wait for room in the rings of loops in front.
        """
        if self.producer != other.producer or not {*self.readers} & {*other.readers}:
            return False
        at = index_in_block
        both = (self, other)
        last = max(at(op) for e in both for op in e.writers)
        first = min(at(op) for e in both for op in e.readers)
        if last < first:
            return True
        loops = [op for op in self.block.ops if isinstance(op, _LOOPS) and first <= at(op) < last]
        return not (self.crosses or other.crosses or any(map(self._loads_in, loops)))

    def _loads_in(self, loop: Operation) -> bool:
        """Whether its role fills other rings in a loop."""
        return any(
            role_of(op) == role_of(self.writers[0]) and isinstance(op.destination.owner, Buffer)
            for op in ops_of(loop, CopyOp)
        )

    def with_other(self, other: Edge) -> Edge:
        """One edge in the place of two of a block."""
        readers = sorted({*self.readers, *other.readers}, key=index_in_block)
        consumers = tuple(dict.fromkeys((*self.consumers, *other.consumers)))
        buffers, writers = self.buffers + other.buffers, self.writers + other.writers
        return Edge(buffers, writers, readers, self.block, self.producer, consumers)


@dataclass
class Ring:
    """What becomes of an edge, or of several that take turns, each with its number: a ring of so
    many stages, so many loops deep. The ops that fill and read an edge carry its number, so that
    their copies in each role are found.
    """

    edges: dict[int, Edge]
    stages: int
    depth: int


def edges_of(kernel: KernelOp) -> list[Edge]:
    """The edges, in program order of their first writer."""
    edges: list[Edge] = []
    overlays = tensor_overlays(kernel)
    for writer in ops_of(kernel.body.block, CopyOp):
        alloc = writer.destination.owner
        if not isinstance(alloc, Buffer):
            continue
        if isinstance(alloc, AllocTmemOp) and (multiplies_into(alloc) or alloc in overlays):
            # Two roles have it in turn, whatever threads write to an accumulator
            # (`tensor_rings.py`).
            continue
        users = _readers(alloc, writer)
        if any(effects_of(op).unit is Unit.TMA_STORE for op in users):
            # A result (`tma_stores.py`).
            continue
        producer = role_of(writer) or MAIN
        consumers = {role_of(op) or MAIN for op in users}
        if consumers == {producer}:
            continue
        if not consumers or producer in consumers:
            raise PassFailedException(
                writer,
                f"expected roles other than '{producer}' to read a tile that it writes, got "
                f"{', '.join(sorted(consumers)) or 'none'}; take roles = uniform",
            )
        block = block_of(writer)
        readers = places_in(
            block, users, "expected a staged tile to be read in the block that loads it"
        )
        edge = Edge([alloc], [writer], readers, block, producer, tuple(sorted(consumers)))
        for other in [each for each in edges if each.block is block]:
            if other.may_join(edge):
                edges.remove(other)
                edge = other.with_other(edge)
        edges.append(edge)
    return _with_rows(edges)


def _with_rows(edges: list[Edge]) -> list[Edge]:
    """Let a row that lanes share come with a tile that the same roles fill and read, from before
    the row is read until behind it, or right beside it: one barrier and one place in a ring serve
    both.
    """
    found: list[Edge] = []
    rows = [edge for edge in edges if _is_of_rows(edge)]
    for edge in [each for each in edges if each not in rows]:
        for row in [each for each in rows if each.ends == edge.ends]:
            at = [index_in_block(op) for op in row.readers]
            around = [index_in_block(op) for op in edge.readers]
            is_around = min(around) < min(at) and max(at) < max(around)
            if is_around or _are_beside(row, edge) or _goes_with(edge, row):
                edge = edge.with_other(row)
                rows.remove(row)
        found.append(edge)
    return [*found, *rows]


def _is_of_rows(edge: Edge) -> bool:
    """Whether all that loads from an edge shares what it loads with other lanes."""
    loads = [op for op in edge.readers if isinstance(op, LoadOp)]
    return bool(loads) and all(map(_is_shared_by_lanes, loads))


def _are_beside(one: Edge, other: Edge) -> bool:
    """Whether a trip reads two edges, filled alike, by loads with nothing between but other loads
    and what fills registers.
    """
    readers, writers = [*one.readers, *other.readers], [*one.writers, *other.writers]
    is_alike = len({type(writer.atom) for writer in writers}) == 1
    if not (is_alike and all(isinstance(op, LoadOp) for op in readers)):
        return False
    first, *rest = sorted(readers, key=index_in_block)
    return all(map(_loads_or_fills, takewhile(lambda op: op is not rest[-1], ops_behind(first))))


def _goes_with(edge: Edge, row: Edge) -> bool:
    """Whether a trip that multiplies what it computes from an edge's tile loads a row beside it."""
    loads = [op for op in edge.readers if isinstance(op, LoadOp)]
    fed = [gemm for op in loads for gemm in _multiplies_of_the_trip(op)]
    return bool(fed) and all(
        isinstance(op, LoadOp) and op.parent is fed[0].parent for op in row.readers
    )


def _loads_or_fills(op: Operation) -> bool:
    """Whether an op loads, in this role or another one, or touches nothing but registers."""
    if is_pure(op) or isinstance(op, LoadOp):
        return True
    if isinstance(op, CopyOp) and space_of(op.source) == "gmem":
        return True
    effects = effects_of(op)
    waits = op.regions or effects.orders or effects.meets or effects.completes is not None
    return not waits and all(space_of(x) == RMEM for x in (*effects.reads, *effects.writes))


def _readers(alloc: Buffer, writer: CopyOp) -> list[Operation]:
    """The ops that read a buffer, beside who fills it."""
    found: list[Operation] = []
    for op in [use.operation for use in uses_of(alloc.result) if use.operation is not writer]:
        found.append(op)
        if isinstance(op, LoadOp) and _is_shared_by_lanes(op) and not _is_small(op):
            # Elements that all rows need are read where they are used, not held from here on.
            found += [use.operation for use in op.result.uses if use.operation.parent is op.parent]
        if isinstance(op, LoadOp):
            found += _multiplies_of_the_trip(op)
    return [*dict.fromkeys(found)]


def _multiplies_of_the_trip(op: LoadOp) -> list[GemmOp]:
    """The multiplies of warpgroups of which an operand is computed from what is loaded, in the same
    trip.
    """
    gemms = multiplies_fed(op)
    kernel = next(each for each in ops_around(op) if isinstance(each, KernelOp))
    if not all(is_warpgroup_multiply(gemm) and not computes_ahead(kernel, gemm) for gemm in gemms):
        return []
    return gemms


def _is_small(op: LoadOp) -> bool:
    """Whether a thread holds few of the elements that a load reads, such as scales of its rows."""
    return fragment_of(op.result).values <= _FEW


def _is_shared_by_lanes(op: LoadOp) -> bool:
    """Whether lanes hold the same elements of a tile."""
    type_ = fragment_of(op.result)
    return type_.values * type_.threads > prod(type_.shape)


def places_in(block: Block, ops: Iterable[Operation], expected: str) -> list[Operation]:
    """The ops of a block that are some ops or hold them, in order; an error, that says what was
    `expected`, for one that stands elsewhere.
    """
    found = {block.find_ancestor_op_in_block(op): op for op in ops}
    if None in found:
        raise PassFailedException(found[None], expected)
    return sorted((op for op in found if op is not None), key=index_in_block)


def stages_of(edge: Edge, stages: int) -> int:
    """Stages of an edge's ring where loads have so many: what a role computes for another one it
    computes a trip ahead at most, in tensor memory in as many stages as accumulators have. Numbers
    of rows that correct accumulators there are read before anything else: they have one.
    """
    in_tensors = [alloc for alloc in edge.buffers if isinstance(alloc, AllocTmemOp)]
    if in_tensors:
        kernel = in_tensors[0].parent_op()
        assert isinstance(kernel, KernelOp)
        rings = column_plan(kernel).stages
        stages = min(stages, *(rings[alloc] for alloc in in_tensors))
    if edge.crosses and all(map(_corrects_rows, edge.buffers)):
        return 1
    return min(_COMPUTED_STAGES, stages) if edge.crosses else stages


def _corrects_rows(alloc: Buffer) -> bool:
    """Whether a buffer holds a number for each row, in a kernel with a role that corrects."""
    shape = shape_of(alloc.result.type)
    return shape[1:] == (1,) and corrects(alloc)


def depth(block: Block) -> int:
    """How many loops are around a block."""
    return sum(isinstance(op, _LOOPS) for op in ops_around(block))


def is_read_by_multiplies(readers: Iterable[Operation]) -> bool:
    """Whether tensor cores read the buffers, through the asynchronous proxy (PTX ISA 8.9)."""
    units = (effects_of(op).unit for reader in readers for op in ops_of(reader, GemmOp))
    return any(unit in (Unit.WGMMA, Unit.TCGEN05) for unit in units)


# The plan


def planned_stages(depths: Mapping[Edge, int], stages: int) -> dict[Edge, int]:
    """The stages of edges, by how many loops are around each, where the innermost have so many."""
    deepest = max(depths.values(), default=0)
    return {e: stages_of(e, stages if at == deepest else 1) for e, at in depths.items()}


def own_stages(kernel: KernelOp, edges: Sequence[Edge]) -> dict[Edge, int]:
    """The stages that the schedule gives rings of their own: of edges that load the same tensor the
    same.

    Raises PassFailedException where it has another number of them than there are tensors.
    """
    given = kernel.choices.ring_stages
    if given is None:
        return {}
    loads: dict[SSAValue, list[Edge]] = {}
    for edge in edges:
        if edge.loads:
            loads.setdefault(root_of(edge.writers[0].source), []).append(edge)
    if len(loads) != len(given):
        names = ", ".join(value.name_hint or "?" for value in loads)
        raise PassFailedException(
            kernel,
            f"expected ring_stages of {len(loads)} rings ({names}), got {len(given)}; give "
            "each one a number, or 0 for that of stages",
        )
    numbers = zip(loads.values(), given, strict=True)
    return {edge: count for of_tensor, count in numbers for edge in of_tensor if count}


def own_stages_of_loops(kernel: KernelOp) -> tuple[list[int], bool]:
    """Those of them that rings of the innermost loops have, and whether all that load there do."""
    if kernel.choices.ring_stages is None:
        return [], False
    edges = edges_of(kernel)
    deepest = max((depth(edge.block) for edge in edges), default=0)
    own = own_stages(kernel, edges)
    loads = [edge for edge in edges if depth(edge.block) == deepest and edge.loads]
    return [own[edge] for edge in loads if edge in own], own.keys() >= {*loads}


def given_stages(kernel: KernelOp, stages: int) -> dict[Edge, int]:
    """The stages of each edge where loads into the innermost loops have so many: its own ones, or
    those that follow.
    """
    edges = edges_of(kernel)
    depths = {edge: depth(edge.block) for edge in edges}
    return planned_stages(depths, stages) | own_stages(kernel, edges)


def plan_rings(kernel: KernelOp, stages: int) -> list[Ring]:
    """The rings of a kernel that is not split yet; the ops at their ends are marked."""
    edges = edges_of(kernel)
    depths = {edge: depth(edge.block) for edge in edges}
    deepest = max(depths.values(), default=0)
    own = own_stages(kernel, edges)
    given = planned_stages(depths, stages) | own
    waiting = [edge for edge, at in depths.items() if 0 < at < deepest and edge not in own]
    more = sum(stage_bytes(alloc) for edge in waiting for alloc in edge.buffers)
    results = list(stages_of_results(kernel).items())
    staged = _staged(given)
    left = room(kernel, [*results, *staged])
    if left < 0:
        # Who computes what crosses waits until the other role has read it.
        given |= {edge: 1 for edge in edges if edge.crosses}
        staged = _staged(given)
        left = room(kernel, [*results, *staged])
    lacks = left < 0 and not own
    turns, shared = _take_turns(kernel, edges, staged, results) if lacks else ([], 0)
    if lacks and not turns:
        turns, shared = _share_over_loops(kernel, edges, staged, results)
    if left >= more:
        given |= {edge: stages_of(edge, 2) for edge in waiting}
    elif waiting and not turns:
        remark(
            "cute-synchronize",
            waiting[0].writers[0],
            "one stage for what stays while a loop runs, so that the next tile's waits: a second "
            f"one takes {more} bytes of shared memory, got {max(left, 0)}",
        )
    return _rings(edges, turns, shared, given, depths)


def _staged(stages: Mapping[Edge, int]) -> Staged:
    """The buffers of edges with their stages."""
    return [(alloc, count) for edge, count in stages.items() for alloc in edge.buffers]


def _rings(
    edges: list[Edge],
    turns: Sequence[list[Edge]],
    shared: int,
    given: Mapping[Edge, int],
    depths: Mapping[Edge, int],
) -> list[Ring]:
    """A ring for each edge, or for those that take turns in so many `shared` stages; the ops at
    their ends are marked.
    """
    joined = {edge: turn for turn in turns for edge in turn}
    rings: list[Ring] = []
    for number, edge in enumerate(edges):
        together = joined.get(edge, [edge])
        if edge is together[0]:
            most = shared if is_over_loops(together) else min(shared, len(together))
            count = given[edge] if len(together) == 1 else most
            rings.append(Ring({edges.index(e): e for e in together}, count, depths[edge]))
        for op, name in (*((w, FILLS) for w in edge.writers), *((r, READS) for r in edge.readers)):
            op.attributes[name] = DenseArrayBase.from_list(i64, [*numbers_of(op, name), number])
    return rings


def _take_turns(
    kernel: KernelOp, edges: Sequence[Edge], staged: Staged, results: Staged
) -> tuple[list[list[Edge]], int]:
    """The edges that take turns, and in how many stages, as many as fit; none where even the fewest
    do not. `staged` are the stages of each edge's buffers by itself.
    """
    turns: list[list[Edge]] = []
    for edge in edges:
        mates = next((turn for turn in turns if _follows(turn[-1], edge)), None)
        if mates is None:
            turns.append([edge])
        else:
            mates.append(edge)
    turns = [turn for turn in turns if len(turn) > _LEAST_STAGES]
    alone = dict(staged) | {alloc: 0 for turn in turns for edge in turn for alloc in edge.buffers}
    for stages in range(max(map(len, turns), default=0), _LEAST_STAGES - 1, -1):
        given = {alloc: min(stages, len(turn)) for turn in turns for alloc in turn[0].buffers}
        if room(kernel, [*results, *(alone | given).items()]) >= 0:
            remark(
                "cute-synchronize",
                turns[0][0].writers[0],
                f"{sum(map(len, turns))} tiles take turns in {stages} stages of shared memory",
            )
            return turns, stages
    return [], 0


def _share_over_loops(
    kernel: KernelOp, edges: Sequence[Edge], staged: Staged, results: Staged
) -> tuple[list[list[Edge]], int]:
    """The edges of loops that follow each other and load alike, one of each loop, and how many
    stages of a ring they share, as many as fit; none where not even one does.
    """
    groups: list[list[Edge]] = []
    for edge in edges:
        mates = next((group for group in groups if _is_in_next_loop(group[-1], edge)), None)
        if mates is None:
            groups.append([edge])
        else:
            mates.append(edge)
    groups = [group for group in groups if len(group) > 1]
    alone = dict(staged) | {alloc: 0 for group in groups for e in group for alloc in e.buffers}
    for stages in range(_MOST_SHARED if groups else 0, 0, -1):
        given = {alloc: stages for group in groups for alloc in group[0].buffers}
        if room(kernel, [*results, *(alone | given).items()]) >= 0:
            remark(
                "cute-synchronize",
                groups[0][0].writers[0],
                f"tiles of {sum(map(len, groups))} loops share {stages} stages of shared memory",
            )
            return groups, stages
    return [], 0


def _is_in_next_loop(one: Edge, other: Edge) -> bool:
    """Whether an edge is like one of a loop in front of its own, and neither has stages of a
    schedule.
    """
    loops = [each.block.parent_op() for each in (one, other)]
    before, after = loops
    if before is after or not all(isinstance(each, scf.ForOp) for each in loops):
        return False
    if before is None or after is None or before.parent is not after.parent:
        return False
    if one.ends[1:] != other.ends[1:] or _kind(one) != _kind(other):
        return False
    if any(STAGE in op.attributes for each in (one, other) for op in each.block.ops):
        return False
    return not any(map(is_paired, one.buffers)) and all(
        space_of(writer.source) == "gmem" and space_of(writer.destination) == "smem"
        for edge in (one, other)
        for writer in edge.writers
    )


def is_over_loops(together: Iterable[Edge]) -> bool:
    """Whether edges that share a ring belong to loops that follow each other."""
    return len({id(edge.block) for edge in together}) > 1


def _follows(one: Edge, other: Edge) -> bool:
    """Whether an edge comes behind another one that is like it, in both roles."""
    block, at = one.block, index_in_block
    if _look(one) != _look(other) or one.crosses or any(map(is_paired, one.buffers)):
        return False
    if any(STAGE in op.attributes for op in block.ops):
        return False
    return max(map(at, one.readers)) < min(map(at, other.readers)) and max(
        map(at, one.writers)
    ) < min(map(at, other.writers))


def _look(edge: Edge) -> object:
    """What edges that take turns agree in."""
    return edge.ends, _kind(edge)


def _kind(edge: Edge) -> object:
    """What edges that share a ring agree in, beside who fills and reads it."""
    return (
        [alloc.result.type for alloc in edge.buffers],
        [(writer.atom, writer.tiled) for writer in edge.writers],
        {is_read_by_multiplies([reader]) for reader in edge.readers},
    )


# Marks


def numbers_of(op: Operation, name: str = READS) -> tuple[int, ...]:
    """The rings that an op reads, or fills, or that what it holds does."""
    given = op.attributes.get(name)
    if given is None:  # as on most ops
        return ()
    values = given.get_values() if isinstance(given, DenseArrayBase) else ()
    return tuple(each for each in values if isinstance(each, int))


def read_early(op: Operation, later: Sequence[set[int]]) -> None:
    """Say of some rings that an op reads them while others of its trip are still to read them:
    those of each number of trips later.
    """
    mine = numbers_of(op)
    counts = {each: sum(each in numbers for numbers in later) for each in mine}
    if not any(counts.values()):
        return
    for count, name in enumerate((READS, *READS_EARLY)):
        numbers = [each for each in mine if counts[each] == count]
        op.attributes[name] = DenseArrayBase.from_list(i64, numbers)


def sites_of(block: Block, number: int, name: str = READS) -> list[list[Operation]]:
    """The ops that read a ring in each place where a trip does, the innermost place first."""
    found: dict[Block, list[Operation]] = {}
    for op in walk(block):
        if number in numbers_of(op, name) and op.parent is not None:
            found.setdefault(op.parent, []).append(op)
    nested = sorted(found, key=lambda each: len([*ops_around(each)]), reverse=True)
    return [found[each] for each in nested]
