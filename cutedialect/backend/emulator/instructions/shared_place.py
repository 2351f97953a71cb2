"""Where in shared memory an operand points: for instructions that take shared addresses only
(mbarriers, bulk copies), in the window of the CTA, of the cluster, or as a generic address.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..errors import EmulatorError
from ..lanes import Array, Lanes, anywhere
from ..memory import SHARED_WINDOW, WINDOW_SIZE
from ..module import Instruction, Operand
from ..registers import Register
from ..types import TYPES
from .load_store import resolve

if TYPE_CHECKING:
    from ..machine import Machine

Locate = Callable[[Lanes], Array]


def shared_place(
    ins: Instruction,
    machine: Machine,
    operand: Operand,
    space: str,
    width: int,
    verb: str,
    counted: bool = False,
) -> tuple[Locate, list[Register]]:
    """``(locate, sources)``: ``locate(lanes)`` gives byte offsets into the shared data, one a lane,
    for accesses of ``width`` bytes. ``space`` is ``shared``, ``cluster`` or ``generic``;
    ``counted`` accesses are waited for at an mbarrier."""
    if space not in ("shared", "cluster", "generic"):
        raise ins.unsupported(f"expected an address in shared memory, got .{space}")
    read, sources = resolve(ins, machine, operand, space)
    shared = machine.shared

    def locate(lanes: Lanes) -> Array:
        addresses = read(lanes)
        if len(addresses) != lanes.count:
            addresses = np.broadcast_to(addresses, (lanes.count,))
        if space == "generic":
            outside = (addresses < np.uint64(SHARED_WINDOW)) | (
                addresses >= np.uint64(SHARED_WINDOW + WINDOW_SIZE)
            )
            if anywhere(outside):
                bad = int(addresses[np.argmax(outside)])
                raise EmulatorError(
                    f"expected the generic address of shared memory, got {bad:#x}", code="CD-I1"
                )
            addresses = addresses - np.uint64(SHARED_WINDOW)
        if space == "shared":
            return shared.offsets(addresses, machine.lane_cta[lanes.sel], width, verb)
        owner, addresses = machine.clusters.owners(lanes, addresses, counted)
        return shared.offsets(addresses, owner, width, verb)

    return locate, sources


def destinations(
    ins: Instruction, machine: Machine, barrier: Operand, mask: Operand | None, space: str,
    group: int = 1,
) -> Callable[[Lanes, Array], Iterator[tuple[int, int, int]]]:  # fmt: skip
    """Where a load goes: ``targets(lanes, offsets)`` yields ``(position of the lane, byte offset,
    mbarrier slot)`` for each destination CTA, several of them with a multicast ``mask``. Data and
    barrier lie at the same place in each; with ``group`` 2 the barrier is in a CTA of the same
    pair, with a mask the one of each pair whose rank is as odd as that of ``barrier``."""
    locate, sources = shared_place(ins, machine, barrier, space, 8, "mbarrier", counted=True)
    read = None if mask is None else machine.read(ins, mask, TYPES["u16"], wide=True)
    sources = sources + ([] if mask is None else machine.sources(mask))

    def targets(lanes: Lanes, offsets: Array) -> Iterator[tuple[int, int, int]]:
        machine.demand(sources, lanes, "an operand of a bulk copy")
        pitch, size = machine.shared.pitch, machine.cluster_size
        barriers = locate(lanes)
        warps = lanes.index >> 5
        if read is None:
            slots = machine.mbarriers.find(lanes, barriers)
            wrong = offsets // pitch // group != barriers // pitch // group
            if anywhere(wrong):
                raise ins.error(
                    "CD-H3",
                    "the data and the mbarrier of a bulk copy lie in different CTA"
                    + ("s" if group == 1 else " pairs"),
                )
            yield from zip(range(lanes.count), offsets.tolist(), slots.tolist(), strict=True)
            return
        masks = np.broadcast_to(read(lanes), (lanes.count,)).tolist()
        for i, bits in enumerate(masks):
            if bits == 0 or bits >> size:
                raise ins.error(
                    "CD-B13",
                    f"expected a multicast mask of CTAs in a cluster of {size}, got {bits:#x}",
                )
            own = int(machine.lane_cta[lanes.index[i]])
            first = own - own % size
            rows = np.array([first + rank for rank in range(size) if bits >> rank & 1])
            away = rows[rows != own]
            if len(away):
                machine.clusters.reach(np.repeat(warps[i], len(away)), away, counted=True)
            signaled = rows if group == 1 else rows & ~1 | int(barriers[i]) // pitch & 1
            spots = int(barriers[i]) % pitch + signaled * pitch
            slots = machine.mbarriers.find_by(np.repeat(warps[i], len(rows)), spots)
            places = int(offsets[i]) % pitch + rows * pitch
            for place, slot in zip(places.tolist(), slots.tolist(), strict=True):
                yield i, place, slot

    return targets
