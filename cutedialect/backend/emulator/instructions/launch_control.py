"""clusterlaunchcontrol (PTX ISA 9.7.13.17): a CTA cancels the launch of a cluster that has not
started, and learns which one it was, to do its work itself. The response is opaque; here it is four
words: 1 and the coordinates of the cluster's first CTA, or 0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EmulatorError
from ..image import cta_order
from ..lanes import Array, Lanes, anywhere
from ..module import Instruction, Vector
from ..shared import CHUNK
from ..transfers import Load
from ..types import TYPES
from .registry import instruction
from .shared_place import shared_place

if TYPE_CHECKING:
    from ..machine import Machine, Step


@instruction("clusterlaunchcontrol.try_cancel")
def _try_cancel(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("clusterlaunchcontrol.try_cancel")
    asynchronous = mods.has("async")
    space = "shared" if mods.has("shared::cta") else "generic"
    counted = mods.has("mbarrier::complete_tx::bytes")
    everywhere = mods.has("multicast::cluster::all")
    mods.type("b128")
    mods.done()
    ins.expect(2)
    if not asynchronous or not counted:
        raise ins.unsupported("expected .async and .mbarrier::complete_tx::bytes")
    response, sources = shared_place(ins, machine, ins.operands[0], space, 16, "response")
    barrier, more = shared_place(ins, machine, ins.operands[1], space, 8, "mbarrier")

    def step(lanes: Lanes) -> None:
        machine.demand(sources + more, lanes, "an operand of try_cancel")
        places, barriers = response(lanes), barrier(lanes)
        pitch, size = machine.shared.pitch, machine.cluster_size
        for i, lane in enumerate(lanes.index.tolist()):
            own = int(machine.lane_cta[lane])
            rows = np.array([own])
            if everywhere:
                rows = np.arange(own - own % size, own - own % size + size)
                away = rows[rows != own]
                if len(away):
                    machine.clusters.reach(np.repeat(lane >> 5, len(away)), away, counted=True)
            first = own - own % size
            if first in machine.denied:
                raise EmulatorError(
                    "a request to cancel a launch behind a response that all clusters have begun",
                    code="CD-H5",
                )
            words = _cancel(machine)

            def land(words: Array = words, first: int = first) -> Array:
                if not words[0]:
                    machine.denied.add(first)
                return words

            spots = int(barriers[i]) % pitch + rows * pitch
            slots = machine.mbarriers.find_by(np.repeat(lane >> 5, len(rows)), spots)
            for row, slot in zip(rows.tolist(), slots.tolist(), strict=True):
                chunk = np.array([(int(places[i]) % pitch + row * pitch) // CHUNK])
                if machine.races is not None:
                    machine.races.request(ins, lane >> 5, chunk)
                machine.transfers.load(Load(ins, lane, row, slot, 16, chunk, land))

    return step


def _cancel(machine: Machine) -> Array:
    """The response to one request."""
    row = machine.image.queue.cancel()
    if row is None:
        return np.zeros(4, np.uint32)
    cta = int(cta_order(machine.image.grid, machine.image.cluster, row, 1)[0])
    x, y, _ = machine.image.grid
    return np.array([1, cta % x, cta // x % y, cta // (x * y)], np.uint32)


@instruction("clusterlaunchcontrol.query_cancel")
def _query(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("clusterlaunchcontrol.query_cancel")
    asks = mods.has("is_canceled")
    axis = mods.take(
        "get_first_ctaid", "get_first_ctaid::x", "get_first_ctaid::y", "get_first_ctaid::z"
    )
    mods.take("v4")
    mods.drop("pred", "b32", "b128")
    mods.done()
    ins.expect(2)
    if not asks and axis is None:
        raise ins.unsupported("expected .is_canceled or .get_first_ctaid")
    read = machine.read(ins, ins.operands[1], TYPES["b128"])
    sources = machine.sources(ins.operands[1])
    result = ins.operands[0]
    items: list[Any] = list(result.items) if isinstance(result, Vector) else [result]
    if asks:
        return machine.pure(
            ins, [(result, TYPES["pred"])], [(ins.operands[1], TYPES["b128"])],
            lambda words: _valid(words),
        )  # fmt: skip
    first = {"x": 1, "y": 2, "z": 3}.get(str(axis)[-1], 1)
    writes = [machine.write(ins, item, TYPES["b32"]) for item in items[: 4 - first]]
    targets = machine.sources(*items)
    why = "CD-I4", f"the first CTA of a request that was not granted (PTX line {ins.line})"

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "a response of try_cancel")
        words = np.broadcast_to(read(lanes), (lanes.count, 2))
        table = np.ascontiguousarray(words).view(np.uint32).reshape(-1, 4)
        for i, write in enumerate(writes):
            write(lanes, np.ascontiguousarray(table[:, first + i]))
        denied = table[:, 0] == 0
        for target in targets:
            if anywhere(denied):
                target.taint(lanes, denied, why, machine.total)
            else:
                target.clear(lanes)

    return step


def _valid(words: Array) -> Array:
    return (words.reshape(-1, 2)[:, 0] & np.uint64(1)).astype(np.bool_)
