"""Contiguous bulk copies and their groups: cp.async.bulk, cp.reduce.async.bulk, prefetches of them
(PTX ISA 9.7.9.25.4). Addresses and sizes are multiples of 16 bytes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lanes import Array, Lanes, anywhere
from ..module import Imm, Instruction, Operand
from ..registers import Register
from ..shared import CHUNK
from ..tensor_map import combine
from ..transfers import Load
from ..types import TYPES
from .load_store import resolve
from .registry import instruction
from .shared_place import Locate, destinations, shared_place

if TYPE_CHECKING:
    from ..machine import Machine, Step

_SPACES = ("shared::cluster", "shared::cta", "global")
_INTEGERS = ("u32", "s32", "u64", "s64")
_REDUCIBLE = {
    "add": ("u32", "s32", "u64", "f16", "bf16", "f32", "f64"),
    "min": (*_INTEGERS, "f16", "bf16"), "max": (*_INTEGERS, "f16", "bf16"),
    "inc": ("u32",), "dec": ("u32",),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
}  # fmt: skip


class _Amount:
    """The size operand and the checks of a range of bytes."""

    def __init__(self, ins: Instruction, machine: Machine, operand: Operand) -> None:
        self.ins, self.machine = ins, machine
        self._read = machine.read(ins, operand, TYPES["u32"])
        self.sources = machine.sources(operand)

    def of(self, lanes: Lanes) -> list[int]:
        self.machine.demand(self.sources, lanes, "a copy size")
        sizes = np.broadcast_to(self._read(lanes), (lanes.count,)).astype(np.int64)
        if anywhere(sizes % 16):
            bad = int(sizes[np.argmax(sizes % 16 != 0)])
            raise self.ins.error("CD-E6", f"expected a size that is a multiple of 16, got {bad}")
        return sizes.tolist()

    def shared(self, at: int, size: int) -> Array:
        """Chunk numbers of ``size`` bytes at an offset into the shared data."""
        machine = self.machine
        offset = at % machine.shared.pitch
        if offset + size > machine.shared.size:
            raise self.ins.error(
                "CD-I1",
                f"out-of-bounds bulk copy of {size} bytes at {machine.describe_shared(at)}: it "
                f"ends at byte {offset + size} of {machine.shared.size}",
            )
        return np.arange(at // CHUNK, (at + size) // CHUNK)

    def linear(self, address: int, size: int) -> Array:
        """Addresses of the 16-byte words of ``size`` bytes in global memory, checked."""
        if address % 16:
            raise self.ins.error(
                "CD-E6",
                "expected a global address that is a multiple of 16 bytes, got "
                + self.machine.global_memory.describe(address),
            )
        words = np.arange(address, address + size, 16, dtype=np.uint64)
        if size:
            self.machine.global_memory.check(words, 16, "bulk copy")
        return words


@instruction("cp.async.bulk", "cp.reduce.async.bulk")
def _bulk(ins: Instruction, machine: Machine) -> Step:
    reduces = ins.opcode.startswith("cp.reduce")
    mods = ins.modifiers("cp.reduce.async.bulk" if reduces else "cp.async.bulk")
    target, source = mods.take(*_SPACES), mods.take(*_SPACES)
    if ".global.shared::cta" in ins.opcode:
        target, source = "global", "shared::cta"
    if ".shared::cluster.shared::cta" in ins.opcode:
        target, source = "shared::cluster", "shared::cta"
    group = mods.has("bulk_group")
    counted = mods.has("mbarrier::complete_tx::bytes")
    multicast = mods.has("multicast::cluster")
    hint = mods.has("L2::cache_hint")
    operation: Any = None
    number: Any = None
    if reduces:
        operation = mods.take(*_REDUCIBLE)
        mods.has("noftz")
        kind = mods.type()
        if operation is None or kind.name not in _REDUCIBLE[operation]:
            raise ins.unsupported(f".{operation}.{kind.name}")
        number = kind.dtype
    mods.done()
    if target == "global" and source == "shared::cta" and group:
        ins.expect(3 + hint)
        return _store(ins, machine, operation, number)
    if source not in ("global", "shared::cta") or target not in _SPACES[:2] or not counted:
        raise ins.unsupported("unknown combination of state spaces and completion")
    ins.expect(4 + multicast + hint)
    if source == "global":
        if reduces:
            raise ins.unsupported("a reduction takes its source from shared memory")
        return _load(ins, machine, target, multicast)
    if multicast or target != "shared::cluster":
        raise ins.unsupported("expected .shared::cluster.shared::cta without multicast")
    return _between(ins, machine, operation, number)


def _load(ins: Instruction, machine: Machine, target: str, multicast: bool) -> Step:
    space = "cluster" if target == "shared::cluster" else "shared"
    locate, sources = shared_place(ins, machine, ins.operands[0], space, 16, "bulk load", True)
    read, more = resolve(ins, machine, ins.operands[1], "global")
    amount = _Amount(ins, machine, ins.operands[2])
    targets = destinations(
        ins, machine, ins.operands[3], ins.operands[4] if multicast else None, space
    )

    def step(lanes: Lanes) -> None:
        machine.demand(sources + more, lanes, "an address")
        sizes = amount.of(lanes)
        origins = np.broadcast_to(read(lanes), (lanes.count,)).tolist()
        for i, at, slot in targets(lanes, locate(lanes)):
            words = amount.linear(origins[i], sizes[i])
            machine.transfers.load(
                Load(ins, int(lanes.index[i]), at // machine.shared.pitch, slot, sizes[i],
                     amount.shared(at, sizes[i]), _fetch(machine, words))
            )  # fmt: skip

    return step


def _fetch(machine: Machine, words: Array) -> Callable[[], Array]:
    return lambda: machine.global_memory.load(words, 16) if len(words) else words


def _source(ins: Instruction, machine: Machine, operand: Operand) -> tuple[Locate, list[Register]]:
    return shared_place(ins, machine, operand, "shared", 16, "bulk copy")


def _data(ins: Instruction, machine: Machine, lane: int, chunks: Array) -> Array:
    """The bytes of a source in shared memory, all of which must have been written."""
    data, poison = machine.transfers.read_shared(ins, lane, chunks)
    if poison is not None:
        at = int(chunks[np.argmax(poison.any(axis=1))]) * CHUNK
        raise ins.error(
            "CD-I3",
            f"a bulk copy from shared memory never written, at {machine.describe_shared(at)}",
        )
    return data


def _store(ins: Instruction, machine: Machine, operation: Any, number: Any) -> Step:
    read, sources = resolve(ins, machine, ins.operands[0], "global")
    locate, more = _source(ins, machine, ins.operands[1])
    amount = _Amount(ins, machine, ins.operands[2])

    def step(lanes: Lanes) -> None:
        machine.demand(sources + more, lanes, "an address")
        sizes = amount.of(lanes)
        goals = np.broadcast_to(read(lanes), (lanes.count,)).tolist()
        for i, at in enumerate(locate(lanes).tolist()):
            chunks = amount.shared(at, sizes[i])
            lane = int(lanes.index[i])
            words = amount.linear(goals[i], sizes[i])
            data = _data(ins, machine, lane, chunks)
            machine.transfers.store(
                ins, lane, chunks, _write(machine, words, data, operation, number)
            )

    return step


def _write(
    machine: Machine, words: Array, data: Array, operation: Any, number: Any
) -> Callable[[], None]:
    def write() -> None:
        if not len(words):
            return
        memory = machine.global_memory
        new = np.ascontiguousarray(data)
        if operation is not None:
            old = np.ascontiguousarray(memory.load(words, 16))
            new = combine(operation, number)(old.view(number), new.view(number)).astype(number)
        memory.store(words, new.view(np.uint32).reshape(-1, 4), 16)

    return write


def _between(ins: Instruction, machine: Machine, operation: Any, number: Any) -> Step:
    """From the CTA's shared memory to another's of the cluster."""
    locate, sources = shared_place(ins, machine, ins.operands[0], "cluster", 16, "bulk copy", True)
    origin, more = _source(ins, machine, ins.operands[1])
    amount = _Amount(ins, machine, ins.operands[2])
    targets = destinations(ins, machine, ins.operands[3], None, "cluster")

    def step(lanes: Lanes) -> None:
        machine.demand(sources + more, lanes, "an address")
        sizes = amount.of(lanes)
        origins = origin(lanes).tolist()
        for i, at, slot in targets(lanes, locate(lanes)):
            source = amount.shared(origins[i], sizes[i])
            chunks = amount.shared(at, sizes[i])
            lane = int(lanes.index[i])
            data = _data(ins, machine, lane, source)
            machine.shared.begin_read(source)
            load = Load(ins, lane, at // machine.shared.pitch, slot, sizes[i], chunks,
                        lambda data=data: data, source)  # fmt: skip
            if operation is None:
                machine.transfers.load(load)
                continue
            load.chunks = chunks[:0]
            load.finish = _add(machine, chunks, data, operation, number)
            machine.transfers.event(load)

    return step


def _add(
    machine: Machine, chunks: Array, data: Array, operation: Any, number: Any
) -> Callable[[], Array]:
    """A reduction into shared memory, which others may reduce into at the same time."""

    def finish() -> Array:
        words, poison = machine.shared.load(chunks * CHUNK, CHUNK)
        old = np.ascontiguousarray(words).view(number)
        new = combine(operation, number)(old, np.ascontiguousarray(data).view(number))
        raw = new.astype(number).view(np.uint32).reshape(-1, 4)
        machine.shared.store(chunks * CHUNK, raw, CHUNK)
        if poison is not None:
            machine.shared.poison(chunks * CHUNK, poison)
        return chunks[:0]

    return finish


@instruction("cp.async.bulk.commit_group")
def _commit(ins: Instruction, machine: Machine) -> Step:
    ins.modifiers("cp.async.bulk.commit_group").done()
    ins.expect(0)
    return lambda lanes: machine.transfers.commit(lanes)


@instruction("cp.async.bulk.wait_group")
def _wait(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("cp.async.bulk.wait_group")
    only_read = mods.has("read")
    mods.done()
    ins.expect(1)
    count = ins.operands[0]
    if not isinstance(count, Imm):
        raise ins.malformed("expected a constant")
    allowed = int(count.value)
    return lambda lanes: machine.transfers.wait(lanes, allowed, only_read)


@instruction("cp.async.bulk.prefetch.L2")
def _prefetch(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("cp.async.bulk.prefetch.L2")
    source = mods.has("global")
    hint = mods.has("L2::cache_hint")
    mods.done()
    if not source:
        raise ins.unsupported("expected .global")
    ins.expect(2 + hint)
    read, sources = resolve(ins, machine, ins.operands[0], "global")
    amount = _Amount(ins, machine, ins.operands[1])

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        sizes = amount.of(lanes)
        for address, size in zip(
            np.broadcast_to(read(lanes), (lanes.count,)).tolist(), sizes, strict=True
        ):
            amount.linear(address, size)

    return step
