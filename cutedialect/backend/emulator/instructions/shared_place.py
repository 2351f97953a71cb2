"""Where in shared memory an operand points: for instructions that take shared addresses only
(mbarriers, bulk copies), in the window of the CTA, of the cluster, or as a generic address.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..errors import EmulatorError
from ..lanes import Array, Lanes
from ..memory import SHARED_WINDOW, WINDOW_SIZE
from ..module import Instruction, Operand
from ..registers import Register
from .load_store import resolve

if TYPE_CHECKING:
    from ..machine import Machine

Locate = Callable[[Lanes], Array]


def shared_place(
    ins: Instruction, machine: Machine, operand: Operand, space: str, width: int, verb: str
) -> tuple[Locate, list[Register]]:
    """``(locate, sources)``: ``locate(lanes)`` gives byte offsets into the shared data, one a lane,
    for accesses of ``width`` bytes. ``space`` is ``shared``, ``cluster`` or ``generic``."""
    if space not in ("shared", "cluster", "generic"):
        raise ins.unsupported(f"expected an address in shared memory, got .{space}")
    read, sources = resolve(ins, machine, operand, space)
    shared = machine.shared

    def locate(lanes: Lanes) -> Array:
        addresses = np.broadcast_to(read(lanes), (lanes.count,))
        if space == "generic":
            outside = (addresses < np.uint64(SHARED_WINDOW)) | (
                addresses >= np.uint64(SHARED_WINDOW + WINDOW_SIZE)
            )
            if outside.any():
                bad = int(addresses[np.argmax(outside)])
                raise EmulatorError(
                    f"expected the generic address of shared memory, got {bad:#x}", code="CD-I1"
                )
            addresses = addresses - np.uint64(SHARED_WINDOW)
        if space == "shared":
            return shared.offsets(addresses, machine.lane_cta[lanes.sel], width, verb)
        owner, addresses = machine.clusters.owners(lanes, addresses)
        return shared.offsets(addresses, owner, width, verb)

    return locate, sources
