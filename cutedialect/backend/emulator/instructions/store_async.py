"""st.async and red.async (PTX ISA 9.7.9.12, 9.7.13.7): stores to and integer reductions in the
shared memory of a CTA of the cluster, whose bytes count at an mbarrier there when they have landed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..lanes import Array, Lanes
from ..module import Instruction, Vector
from ..tensor_map import combine
from ..transfers import Load
from ..types import STORAGE
from .load_store import join_words
from .registry import instruction
from .shared_place import destinations, shared_place

if TYPE_CHECKING:
    from ..machine import Machine, Step

_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


@instruction("st.async", "red.async")
def _store(ins: Instruction, machine: Machine) -> Step:
    reduces = ins.opcode.startswith("red")
    mods = ins.modifiers(ins.opcode.split(".")[0] + ".async")
    mods.take("weak", "relaxed")
    mods.take("cluster")
    counted = mods.has("mbarrier::complete_tx::bytes")
    space = mods.take("shared::cluster")
    operation = mods.take(*_OPERATIONS) if reduces else None
    vector = None if reduces else mods.take("v2", "v4")
    type = mods.type("b32", "b64", "u32", "u64", "s32", "s64", "f32", "f64")
    mods.done()
    if not counted or space is None or (reduces and operation is None):
        raise ins.unsupported("expected .shared::cluster and .mbarrier::complete_tx::bytes")
    if reduces and (type.kind == "f" or (type.bits == 64 and operation != "add")):
        raise ins.unsupported(f".{operation}.{type.name}")
    ins.expect(3)
    value = ins.operands[1]
    elements = value.items if isinstance(value, Vector) else (value,)
    if len(elements) != (int(vector[1:]) if vector else 1):
        raise ins.malformed(f"expected {vector or 'one value'}, got {value}")
    width = type.bytes * len(elements)
    reads = [machine.read(ins, element, type) for element in elements]
    values = machine.sources(*elements)
    locate, sources = shared_place(ins, machine, ins.operands[0], "cluster", width, "store", True)
    targets = destinations(ins, machine, ins.operands[2], None, "cluster")

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        machine.demand(values, lanes, "an asynchronous store")
        columns = [
            np.broadcast_to(read(lanes), (lanes.count,)).view(STORAGE[type.bits]) for read in reads
        ]
        words = join_words(columns, lanes.count, width)
        for i, at, slot in targets(lanes, locate(lanes)):
            spot = np.array([at])
            machine.transfers.event(
                Load(ins, int(lanes.index[i]), at // machine.shared.pitch, slot, width, spot[:0],
                     _landing(machine, spot, words[i : i + 1].copy(), width, operation, type.dtype))
            )  # fmt: skip

    return step


def _landing(
    machine: Machine, spot: Array, word: Array, width: int, operation: str | None, number: object
) -> Callable[[], Array]:
    def finish() -> Array:
        shared, new = machine.shared, word
        if operation is not None:
            old, poison = shared.load(spot, width)
            new = combine(operation, number)(old.view(number), word.view(number)).view(word.dtype)
            shared.store(spot, new, width)
            if poison is not None:
                shared.poison(spot, poison)
        else:
            shared.store(spot, new, width)
        return spot[:0]

    return finish
