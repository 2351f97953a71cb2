"""How warps, stages and registers are allocated, told of plain facts: what tiles, rings and roles
there are. The passes ask here behind the roles, where the facts are those of the IR, and whoever
compares schedules asks in front of them, with the facts of a candidate. Bytes are those of one CTA,
registers those of a thread.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from cutedialect.atoms import REGISTER_FILE, WARP_SIZE

MOST_RING_STAGES = 16
"""More stages than this hide no more latency."""
MOST_STAGES_OF_ALL = 4
"""The same where every warp does everything, by `cp.async`."""
RESERVED_BYTES = 2048
"""What barriers and the places where threads meet take at most."""
LEAST_RESERVED_BYTES = 1024
"""What they take where no reduction or vote crosses warps."""
ONES_BYTES = 2048
"""A tile of ones beside B, where a multiply adds up the rows of A: 16 of its depth."""
# What a kernel with such a tile reserves: its buffers lie without gaps, and no reduction crosses
# warps.
_BESIDE_ONES = 760
# What a kernel reserves beside what its reductions over warps take: of any kernel, and of one whose
# mbarriers are counted.
_BESIDE_SCRATCH, _BESIDE_BARRIERS = 512, 128
# Bytes of the mbarriers of a stage, and of what else a kernel of many rings has.
_RING_BARRIERS, _LEAST_OTHERS = 16, 512
_MOST_REGISTERS = 255
# A quarter of a processor has a quarter of the file; `setmaxnreg` counts by 8 (PTX ISA 9.7.20.5).
_QUARTERS, _REGISTER_UNIT = 4, 8
_GROUP_THREADS = 128
# Registers of a thread of the warpgroup that loads, beside one, two, and three that compute: where
# one thread loads boxes, alone or for more than two multiplies, whose operands and accumulators lie
# beside each other; where threads copy, with addresses and values on their way; where they shift
# aligned words into place; and where some transpose or convert operands in shared memory.
_LOADING = {
    "boxes": (56, 40, 32),
    "boxes of many": (56, 24, 32),
    "copies": (56, 104, 80),
    "shifts": (152, 104, 80),
    "prepares": (128, 72, 56),
}
_FEW_MULTIPLIES = 2
# Rows that a warpgroup multiplies at once, lanes of tensor memory, a warpgroup's warps, and how
# many warpgroups share a tile, the first that fit.
_GROUP_ROWS, _LANES, _GROUP_WARPS = 64, 128, _GROUP_THREADS // WARP_SIZE
_SHARING_GROUPS = (2, 3)
# The same beside two that add to accumulators in registers what is in tensor memory, and of two
# warpgroups, of which one copies and one multiplies, beside one that reads tensor memory.
_BESIDE_ADDING, _BESIDE_READING = 72, 136


def multiplying_warps(tile: tuple[int, ...], teams: int) -> tuple[int, int]:
    """Warpgroups on 64 rows each, up to three in all, or for each team one that holds the tile."""
    groups = () if teams > 1 else _SHARING_GROUPS
    shared = (count for count in groups if tile[0] % (count * _GROUP_ROWS) == 0)
    return _GROUP_WARPS * next(shared, 1), 1


def reading_warps(tile: tuple[int, ...]) -> tuple[int, int]:
    """The warps that read a tile of tensor memory: one warpgroup, or two where each has whole
    blocks of its 128 rows.
    """
    return (2 if tile[0] % (2 * _LANES) == 0 else 1) * _GROUP_WARPS, 1


@dataclass(frozen=True)
class Ring:
    """Buffers with the stages of the loads into a loop: bytes of one stage, and how many stages
    they have at most.
    """

    stage_bytes: int
    most: int = MOST_RING_STAGES


@dataclass(frozen=True)
class SharedUse:
    """What a kernel takes of the `capacity` of a CTA's shared memory: `kept` bytes that are there
    whatever the stages are, `rings`, of which `signaled` have mbarriers, and `scratch` bytes in
    which reductions cross warps. `second_bytes` are those of a second stage of all that stays while
    a loop runs, with which the next work item's comes early.
    """

    capacity: int
    kept: int
    rings: tuple[Ring, ...] = field(default=())
    signaled: int = 0
    second_bytes: int = 0
    scratch: int = 0
    adds_rows: bool = False

    def left(self, stages: int = 1, reserved: int | None = None) -> int:
        """Bytes that are left where loads have so many stages; negative where they do not fit.
        `reserved` are those of barriers and meeting places, which else are counted.
        """
        if reserved is None:
            others = max(_LEAST_OTHERS, _BESIDE_BARRIERS + self.scratch)
            reserved = max(LEAST_RESERVED_BYTES, _RING_BARRIERS * stages * self.signaled + others)
        if self.adds_rows:
            reserved = ONES_BYTES + min(reserved, _BESIDE_ONES)
        else:
            reserved = max(reserved, _BESIDE_SCRATCH + self.scratch)
        return self.capacity - self.buffer_bytes(stages) - reserved

    def buffer_bytes(self, stages: int = 1) -> int:
        """Bytes of all buffers where loads have so many stages."""
        rings = sum(ring.stage_bytes * min(ring.most, stages) for ring in self.rings)
        return self.kept + rings


def stages_that_fit(use: SharedUse, most: int, is_asked: bool = False) -> int:
    """As many stages as shared memory holds, up to `most`: beside a second stage of what stays
    while a loop runs, unless this leaves one stage, or `most` is what a schedule asks for.

    >>> use = SharedUse(capacity=100_000, kept=0, rings=(Ring(16_384),), second_bytes=40_000)
    >>> stages_that_fit(use, 16), stages_that_fit(use, 16, is_asked=True)
    (3, 6)
    """
    for beside in (0,) if is_asked else (use.second_bytes, 0):
        for stages in range(most, 1, -1):
            if use.left(stages) >= beside:
                return stages
    return 1


def registers_at_start(warps: int) -> int:
    """Registers of a thread where an SM has so many warps: a quarter of it has a quarter of the
    register file for its own warps, and gives them a multiple of 8 each.

    >>> [registers_at_start(warps) for warps in (4, 8, 12, 13)]
    [255, 255, 168, 128]
    """
    file = REGISTER_FILE // _QUARTERS // (-(-warps // _QUARTERS) * WARP_SIZE)
    return min(_MOST_REGISTERS, file // _REGISTER_UNIT * _REGISTER_UNIT)


def registers_at_entry(threads: int, ctas: int = 1) -> int:
    """Registers of each thread before any `setmaxnreg`: what the threads of a CTA share from then
    on, where an SM holds so many CTAs.

    >>> [registers_at_entry(threads) for threads in (256, 384, 512)]
    [248, 168, 128]
    """
    most = min(_MOST_REGISTERS, REGISTER_FILE // (threads * ctas))
    return most // _REGISTER_UNIT * _REGISTER_UNIT


def computing_registers(narrow: int, computing: int, others: int = 1, ctas: int = 1) -> int:
    """Registers of a thread of the warpgroups that compute, beside `others` with `narrow` each: all
    that a CTA starts with, where an SM holds so many CTAs.

    >>> computing_registers(40, 2), computing_registers(56, 3), computing_registers(40, 1, ctas=2)
    (232, 152, 216)
    """
    entry = registers_at_entry(_GROUP_THREADS * (computing + others), ctas)
    free = (entry * (computing + others) - narrow * others) // computing
    most = min(_MOST_REGISTERS, free)
    return most // _REGISTER_UNIT * _REGISTER_UNIT


@dataclass(frozen=True)
class RoleUse:
    """What the warpgroups of a CTA do: how many compute, in all teams, of so many multiplies; how
    operands come, by TMA, which copies boxes, or rows whose numbers threads have too, by copies of
    threads, or by copies that are shifted into place; whether some warps prepare operands in shared
    memory, whether accumulators are in tensor memory, and if so, whether threads add them to others
    in registers.
    """

    computing: int
    multiplies: int
    loads: Literal["boxes", "rows", "copies", "shifts"] = "boxes"
    prepares: bool = False
    in_tensor_memory: bool = False
    adds: bool = False
    ctas: int = 1


def registers_of_roles(use: RoleUse) -> tuple[int, int] | None:
    """Registers of a thread of the warpgroup that loads and of those that compute; None where all
    have what they start with: with several CTAs on an SM, and where accumulators in tensor memory
    leave enough.

    >>> registers_of_roles(RoleUse(computing=2, multiplies=1))
    (40, 232)
    >>> registers_of_roles(RoleUse(computing=2, multiplies=1, loads="copies"))
    (104, 200)
    """
    if use.ctas > 1:
        return None
    by_boxes = use.loads == "boxes"
    if use.in_tensor_memory:
        if use.adds and use.loads in ("boxes", "rows") and use.computing == 2:
            return _BESIDE_ADDING, computing_registers(_BESIDE_ADDING, use.computing)
        if not by_boxes and use.computing == 1:
            return _BESIDE_READING, computing_registers(_BESIDE_READING, use.computing, others=2)
        return None
    # Numbers of rows take as many registers as addresses do.
    kind = "copies" if use.loads == "rows" else use.loads
    if by_boxes:
        few = "boxes" if use.multiplies <= _FEW_MULTIPLIES else "boxes of many"
        kind = "prepares" if use.prepares else few
    groups = min(max(1, use.computing), len(_LOADING[kind]))
    narrow = _LOADING[kind][groups - 1]
    return narrow, computing_registers(narrow, groups)
