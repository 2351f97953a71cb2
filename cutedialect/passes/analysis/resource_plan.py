"""What a kernel's tiles take of a CTA: bytes of shared memory for a number of stages, and registers
for the accumulators that live at one time. Passes that choose stages or check budgets ask here, and
`tensor_columns.py` for tensor memory.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import DenseArrayBase, DictionaryAttr, StringAttr
from xdsl.ir import Operation, SSAValue

from cutedialect.allocation import (
    MOST_RING_STAGES,
    RESERVED_BYTES,
    Ring,
    SharedUse,
    registers_at_entry,
    registers_at_start,
)
from cutedialect.atoms import WARP_SIZE, target
from cutedialect.dialects.cute import (
    LINE_OPS,
    AllocFragmentOp,
    AllocSmemOp,
    AllocTmemOp,
    ClusterScatterOp,
    ClusterSumOp,
    CopyOp,
    FetchOp,
    FragmentType,
    GemmOp,
    KernelOp,
    MapOp,
    MemRefType,
    ReduceOp,
)
from cutedialect.dialects.cute.storage import is_paired
from cutedialect.dialects.effects import Unit, effects_of, space_of
from cutedialect.dialects.walks import ops_around, ops_of, walk
from cutedialect.passes.analysis.lines import scratch_of
from cutedialect.passes.analysis.memory_views import uses_of
from cutedialect.passes.analysis.multiply_pairs import half_type
from cutedialect.passes.analysis.role_plan import ROLES, role_of

Buffer = AllocSmemOp | AllocTmemOp
"""What makes a tile in memory of a CTA."""
ONE_STAGE = "one_stage"
"""On a buffer from which TMA stores: it has one stage, whatever else it would have."""
# Bytes to which what an exchange takes is rounded.
_CHUNK = 16
# Where a role's numbers say how many teams it has, if several.
_TEAMS = 3
_LOADING_THREADS = 128
# What a thread needs beside its tiles in a loop of several multiplies of warpgroups.
_BESIDE_TILES = 26


def buffer_bytes(alloc: Buffer) -> int:
    """Bytes of a buffer in shared memory of one CTA: none of one in tensor memory."""
    if isinstance(alloc, AllocTmemOp):
        return 0
    type_ = alloc.result.type
    assert isinstance(type_, MemRefType)
    if is_paired(alloc):
        type_ = half_type(type_)
    return type_.bits // 8 * prod(type_.shape)  # pyright: ignore[reportArgumentType]


def stage_bytes(alloc: Buffer) -> int:
    """The same with what lies between its rows, as of tiles that come with the words around them:
    those of a stage, where the buffer has several.
    """
    if isinstance(alloc, AllocTmemOp) or is_paired(alloc):
        return buffer_bytes(alloc)
    return max(buffer_bytes(alloc), alloc.bytes)


def room(kernel: KernelOp, staged: Iterable[tuple[Buffer, int]]) -> int:
    """Bytes of shared memory that are left beside all buffers, some of which have so many stages;
    negative where they do not fit. 0 for a module that names no target.
    """
    use = shared_use(kernel, staged)
    return 0 if use is None else use.left(reserved=RESERVED_BYTES)


def shared_use(
    kernel: KernelOp,
    staged: Iterable[tuple[Buffer, int]],
    rings: Sequence[tuple[Buffer, int]] = (),
    signaled: int = 0,
    waiting: Iterable[Buffer] = (),
) -> SharedUse | None:
    """What a kernel takes of shared memory: buffers, some of which have so many stages, and those
    of `rings`, whose stages are open, each with the most that it has; so many rings have mbarriers,
    and buffers that stay while a loop runs are `waiting` for a second stage. None for a module that
    names no target.
    """
    module = kernel.parent_op()
    arch = None if module is None else module.attributes.get("cute.arch")
    if not isinstance(arch, StringAttr):
        return None
    stages, most = dict(staged), dict(rings)
    allocs = [op for op in kernel.body.block.ops if isinstance(op, AllocSmemOp)]
    taken = {op: stage_bytes(op) * _instances_with(op, kernel) for op in allocs}
    kept = sum(taken[op] * stages.get(op, 1) for op in allocs if op not in most)
    return SharedUse(
        capacity=target(arch.data).smem_of(kernel.choices.ctas or 1),
        kept=kept + sum(op.bytes for op in ops_of(kernel, ClusterSumOp, ClusterScatterOp)),
        rings=tuple(Ring(taken[op], most[op]) for op in allocs if op in most),
        signaled=signaled,
        second_bytes=sum(map(stage_bytes, waiting)),
        scratch=scratch_bytes(kernel),
        adds_rows=any(op.sums is not None for op in ops_of(kernel, GemmOp)),
    )


def use_of_loops(kernel: KernelOp) -> SharedUse | None:
    """What a kernel in which every warp does everything takes of shared memory: the buffers that
    loops fill are rings.
    """
    copies = [op for op in ops_of(kernel.body.block, CopyOp) if type(op.parent_op()) is scf.ForOp]
    filled = {op.destination.owner for op in copies}
    rings = [op for op in filled if isinstance(op, AllocSmemOp) and "scratch" not in op.attributes]
    return shared_use(kernel, (), [(op, MOST_RING_STAGES) for op in rings])


def _instances_with(alloc: AllocSmemOp, kernel: KernelOp) -> int:
    """How many instances of a role have a buffer each: those of the only role that uses it."""
    users = {role_of(use.operation) for use in uses_of(alloc.result)}
    return _teams_of(kernel, users.pop()) if len(users) == 1 else 1


def stages_of_results(kernel: KernelOp) -> dict[AllocSmemOp, int]:
    """The buffers from which TMA stores, each with its stages: two that take turns where it is
    filled an even number of times, or several times in a row by the role that stores it, while no
    multiply is at work.
    """
    found: dict[AllocSmemOp, list[CopyOp]] = {}
    for op in ops_of(kernel.body.block, CopyOp):
        if effects_of(op).unit is not Unit.TMA_STORE:
            continue
        if isinstance(op.source.owner, AllocSmemOp):
            found.setdefault(op.source.owner, []).append(op)
    at_once = kernel.choices.overlaps_multiplies
    stages: dict[AllocSmemOp, int] = {}
    for alloc, stores in found.items():
        if ONE_STAGE in alloc.attributes:
            stages[alloc] = 1
            continue
        in_a_row = len(stores) > 1 and len({op.parent for op in stores}) == 1
        takes_turns = in_a_row and not at_once and _fills_itself(alloc, stores[0])
        stages[alloc] = 2 if takes_turns or len(stores) % 2 == 0 else 1
    return stages


def _fills_itself(alloc: AllocSmemOp, store: CopyOp) -> bool:
    """Whether the role that stores a buffer fills it, too."""
    writers = (use.operation for use in alloc.result.uses)
    return any(
        isinstance(op, CopyOp) and op.destination is alloc.result and role_of(op) == role_of(store)
        for op in writers
    )


def most_accumulators(kernel: KernelOp, gemms: Sequence[GemmOp]) -> tuple[int, Operation | None]:
    """Registers of a thread for the accumulators of some multiplies of a kernel, those of a role,
    that live at one time, at most, and the multiply at which that many do.

    An accumulator lives from its first use to its last one; one that a loop's trips share lives as
    long as the loop. Those in tensor memory take none.
    """
    return _most_at_once(kernel, gemms, _registers)


def registers_of_accumulators(kernel: KernelOp) -> int:
    """The same for all threads together, of a kernel whose tiles have no layouts yet."""

    def registers(acc: SSAValue) -> int:
        type_ = acc.type
        assert isinstance(type_, FragmentType)
        return prod(type_.shape) * type_.bits // 32  # pyright: ignore[reportArgumentType]

    return _most_at_once(kernel, ops_of(kernel, GemmOp), registers)[0]


def _most_at_once(
    kernel: KernelOp, multiplies: Sequence[GemmOp], size: Callable[[SSAValue], int]
) -> tuple[int, Operation | None]:
    gemms = [op for op in multiplies if isinstance(op.acc.type, FragmentType)]
    places = {op: at for at, op in enumerate(walk(kernel.body.block))}
    lives: dict[SSAValue, tuple[int, int]] = {}
    for acc in dict.fromkeys(op.acc for op in gemms):
        ends = [span for use in acc.uses for span in _span(use.operation, acc, places)]
        lives[acc] = min(ends), max(ends)
    most, where = 0, None
    for gemm in gemms:
        at = places[gemm]
        held = sum(size(acc) for acc, (first, last) in lives.items() if first <= at <= last)
        if held > most:
            most, where = held, gemm
    return most, where


def registers_beside(kernel: KernelOp, value: SSAValue) -> int:
    """Registers of a thread for the register tiles that live at one time, at most, while one of
    them does, with that one.

    A tile of which another one is made element by element gives it its registers. One that a
    multiply of warpgroups takes stays until the second one behind is issued: two are at work.
    """
    lives = _lives(kernel)
    first, last = lives[value]
    held = dict.fromkeys(range(first + 1, last + 1), 0)
    for tile, (start, end) in lives.items():
        for at in range(max(start, first) + 1, min(end, last) + 1):
            held[at] += _registers(tile)
    return max(held.values())


def registers_where_made(kernel: KernelOp, value: SSAValue) -> int:
    """The same where a register tile is made, in front of what follows."""
    lives = _lives(kernel)
    first = lives[value][0]
    return sum(_registers(tile) for tile, (start, end) in lives.items() if start <= first < end)


def _lives(kernel: KernelOp) -> dict[SSAValue, tuple[int, int]]:
    """Between which ops, counted in program order, each register tile of a kernel lives."""
    places = {op: at for at, op in enumerate(walk(kernel.body.block))}
    gemms = [op for op in places if type(op) is GemmOp]
    later = dict(zip(gemms, gemms[2:], strict=False))
    lives: dict[SSAValue, tuple[int, int]] = {}
    for op, at in places.items():
        for tile in op.results:
            if type(tile.type) is not FragmentType or type(op.parent_op()) is MapOp:
                continue
            ends: list[int] = []
            for use in tile.uses:
                user = use.operation
                ends += _span(user, tile, places)
                second = later.get(user) if type(user) is GemmOp else None
                if second is not None and second.parent is user.parent and user.acc is not tile:
                    ends.append(places[second])
            if ends:
                lives[tile] = min(ends) if isinstance(op, AllocFragmentOp) else at, max(ends)
    return lives


def registers_of_readers(kernel: KernelOp, registers: tuple[int, int] | None) -> int:
    """Registers of a thread that reads what tcgen05 has multiplied: those that roles get, or as
    many as it starts with. Beside the computing warps there is a warpgroup that loads; where
    threads copy operands, the warp that multiplies comes on top.
    """
    assert kernel.threads is not None
    schedule = kernel.choices
    if registers is not None:
        return registers[1]
    copies = any(
        isinstance(op.destination.owner, AllocSmemOp)
        and effects_of(op).unit is not Unit.TMA_LOAD
        and space_of(op.source) == "gmem"
        for op in ops_of(kernel, CopyOp)
    )
    warps = (kernel.threads.value.data + _LOADING_THREADS) // WARP_SIZE + copies
    return registers_at_start(warps * (schedule.ctas or 1))


def registers_for_tiles(kernel: KernelOp, registers: tuple[int, int] | None) -> int:
    """Registers of a thread that computes, of a kernel whose threads load in a role of their own,
    but for addresses and places in rings.
    """
    assert kernel.threads is not None
    threads = kernel.threads.value.data + _LOADING_THREADS
    return (registers[1] if registers else registers_at_entry(threads)) - _BESIDE_TILES


def _span(op: Operation, value: SSAValue, places: dict[Operation, int]) -> list[int]:
    """The places from which and to which a use keeps a value alive: those of the outermost loop
    around the use that is not around the value's definition too.
    """
    outer = op
    for around in ops_around(op) if isinstance(value.owner, Operation) else ():
        if around.is_ancestor(value.owner):
            break
        if isinstance(around, scf.ForOp | scf.WhileOp):
            outer = around
    inner = outer
    while inner.regions and inner.regions[-1].blocks and inner.regions[-1].blocks[-1].last_op:
        inner = inner.regions[-1].blocks[-1].last_op
    return [places[outer], places[inner]]


def _registers(value: SSAValue) -> int:
    type_ = value.type
    assert isinstance(type_, FragmentType)
    return type_.values * type_.bits // 32


def scratch_bytes(kernel: KernelOp) -> int:
    """What the exchanges of all ops on lines take: those of a role have one place in turn."""
    taken = scratch_of_roles(kernel)
    return sum(_teams_of(kernel, role) * size for role, size in taken.items())


def scratch_of_roles(kernel: KernelOp) -> dict[str | None, int]:
    """By the role, None of a kernel without roles: the most that one of its exchanges takes."""
    taken: dict[str | None, int] = {}
    for op in ops_of(kernel, ReduceOp, FetchOp, *LINE_OPS):
        role, size = role_of(op), -(-scratch_of(op) // _CHUNK) * _CHUNK
        taken[role] = max(size, taken.get(role, 0))
    return taken


def _teams_of(kernel: KernelOp, role: str | None) -> int:
    """How many teams of warps a role has, each with places of its own."""
    listed = kernel.attributes.get(ROLES)
    numbers = listed.data.get(role or "") if isinstance(listed, DictionaryAttr) else None
    if not isinstance(numbers, DenseArrayBase):
        return 1
    taken = numbers.get_values()
    return int(taken[_TEAMS]) if len(taken) > _TEAMS else 1
