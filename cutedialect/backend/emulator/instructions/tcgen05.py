"""tcgen05: allocation of tensor memory, copies between it and registers or shared memory, shifts,
fences, commits and waits (PTX ISA 9.7.16.7 to 9.7.16.9, 9.7.16.11). Multiplications are in
``tcgen05_mma``.

What the manual leaves open: ``shifted`` (which way rows go "down").
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tensor_numbers as numbers
from ..convergence import whole_warps
from ..lanes import Array, Lanes, anywhere
from ..module import Imm, Instruction, Modifiers, Operand, Reg, Sink, Vector
from ..shared import BARRIER, IN_FLIGHT, LOADING, UNSET
from ..tcgen05_descriptors import CHUNK, footprint
from ..tensor_allocator import sleeper
from ..tensor_memory import Region
from ..types import TYPES
from .load_store import resolve
from .registry import instruction
from .shared_place import shared_place

if TYPE_CHECKING:
    from ..machine import Machine, Step


def take_group(ins: Instruction, mods: Modifiers) -> int:
    """Consume ``.cta_group``; all tcgen05 instructions of a kernel name the same."""
    group = mods.take("cta_group::1", "cta_group::2")
    if group is None:
        raise ins.unsupported("expected .cta_group::1 or .cta_group::2")
    return int(group[-1])


def shifted(rows: Array) -> Array:
    """Each row moves to the next higher lane; the first stays."""
    return np.concatenate((rows[:1], rows[:-1]))


def _agree(ins: Instruction, machine: Machine, group: int) -> None:
    """CD-D9 unless every tcgen05 instruction of the kernel has this .cta_group."""
    other = f".cta_group::{3 - group}"
    for each in machine.module.code:
        if each.opcode.startswith("tcgen05") and other in each.opcode:
            raise ins.error(
                "CD-D9",
                f"expected the same .cta_group in all tcgen05 instructions of a kernel, got "
                f".cta_group::{group} here and {other} at PTX line {each.line}",
            )


def _uniform(ins: Instruction, machine: Machine, values: Array, lanes: Lanes, what: str) -> Array:
    """One value a warp, the same in all of its threads."""
    rows = np.broadcast_to(values, (lanes.count,)).reshape(-1, 32)
    if anywhere(rows != rows[:, :1]):
        raise ins.error("CD-D8", f"expected the same {what} in all threads of a warp")
    return rows[:, 0]


# Allocation.


@instruction("tcgen05.alloc")
def _alloc(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("tcgen05.alloc")
    group = take_group(ins, mods)
    collective = mods.has("sync") and mods.has("aligned")
    space = mods.take("shared::cta", "shared")
    mods.type("b32")
    mods.done()
    ins.expect(2)
    if not collective:
        raise ins.unsupported("expected .sync.aligned")
    _agree(ins, machine, group)
    where = "shared" if space else "generic"
    locate, sources = shared_place(ins, machine, ins.operands[0], where, 4, "write")
    read = machine.read(ins, ins.operands[1], TYPES["u32"])
    sources = sources + machine.sources(ins.operands[1])

    def run(lanes: Lanes) -> Any:
        machine.demand(sources, lanes, "an operand of tcgen05.alloc")
        counts = _uniform(ins, machine, read(lanes), lanes, "number of columns")
        places = _uniform(ins, machine, locate(lanes), lanes, "address")

        def wait(scheduler: Any, arrived: Lanes, pc: int, stack: Any) -> None:
            for i, warp in enumerate(lanes.warps.tolist()):
                members = Lanes.of(np.arange(warp * 32, warp * 32 + 32), machine.total)
                wake = sleeper(machine, members, pc, stack)
                machine.tensor.allocator.request(
                    ins, warp, int(counts[i]), group, _grant(machine, warp, int(places[i]), wake)
                )

        return wait

    return whole_warps(ins, machine, run)


def _grant(machine: Machine, warp: int, place: int, wake: Any) -> Any:
    def grant(column: int) -> None:
        first = Lanes.of(np.array([warp * 32]), machine.total)
        at = np.array([place])
        machine.shared.store(at, np.array([column], np.uint32), 4)
        machine.stamp(first, at, 4)
        wake()

    return grant


@instruction("tcgen05.dealloc")
def _dealloc(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("tcgen05.dealloc")
    group = take_group(ins, mods)
    collective = mods.has("sync") and mods.has("aligned")
    mods.type("b32")
    mods.done()
    ins.expect(2)
    if not collective:
        raise ins.unsupported("expected .sync.aligned")
    _agree(ins, machine, group)
    read = machine.read(ins, ins.operands[0], TYPES["b32"])
    count = machine.read(ins, ins.operands[1], TYPES["u32"])
    sources = machine.sources(*ins.operands)

    def run(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an operand of tcgen05.dealloc")
        addresses = _uniform(ins, machine, read(lanes), lanes, "address").tolist()
        counts = _uniform(ins, machine, count(lanes), lanes, "number of columns").tolist()
        for warp, address, columns in zip(lanes.warps.tolist(), addresses, counts, strict=True):
            machine.tensor.allocator.free(ins, warp, address, columns, group)

    return whole_warps(ins, machine, run)


@instruction("tcgen05.relinquish_alloc_permit")
def _relinquish(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("tcgen05.relinquish_alloc_permit")
    _agree(ins, machine, take_group(ins, mods))
    collective = mods.has("sync") and mods.has("aligned")
    mods.done()
    ins.expect(0)
    if not collective:
        raise ins.unsupported("expected .sync.aligned")
    return whole_warps(
        ins, machine,
        lambda lanes: machine.tensor.allocator.relinquish(lanes.warps // machine.warps),
    )  # fmt: skip


# Fences, waits and commits.


@instruction("tcgen05.fence::before_thread_sync")
def _before(ins: Instruction, machine: Machine) -> Step:
    ins.expect(0)
    ordering = machine.ordering
    assert ordering is not None
    return lambda lanes: ordering.fence_before_sync(lanes.warps)


@instruction("tcgen05.fence::after_thread_sync")
def _after(ins: Instruction, machine: Machine) -> Step:
    ins.expect(0)
    ordering = machine.ordering
    assert ordering is not None
    return lambda lanes: ordering.fence_after_sync(lanes.warps)


@instruction("tcgen05.wait::ld", "tcgen05.wait::st")
def _wait(ins: Instruction, machine: Machine) -> Step:
    loads = ins.opcode.startswith("tcgen05.wait::ld")
    mods = ins.modifiers(ins.opcode[:16])
    collective = mods.has("sync") and mods.has("aligned")
    mods.done()
    ins.expect(0)
    if not collective:
        raise ins.unsupported("expected .sync.aligned")
    return whole_warps(ins, machine, lambda lanes: machine.tensor.wait(lanes.warps, loads))


@instruction("tcgen05.commit")
def _commit(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("tcgen05.commit")
    group = take_group(ins, mods)
    arrives = mods.has("mbarrier::arrive::one")
    space = mods.take("shared::cluster")
    multicast = mods.has("multicast::cluster")
    mods.type("b64")
    mods.done()
    ins.expect(2 if multicast else 1)
    if not arrives:
        raise ins.unsupported("expected .mbarrier::arrive::one")
    _agree(ins, machine, group)
    where = "cluster" if space else "generic"
    locate, sources = shared_place(ins, machine, ins.operands[0], where, 8, "mbarrier", True)
    mask = machine.read(ins, ins.operands[1], TYPES["u16"], wide=True) if multicast else None
    sources = sources + (machine.sources(ins.operands[1]) if multicast else [])

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an operand of tcgen05.commit")
        at = locate(lanes)
        masks = None if mask is None else np.broadcast_to(mask(lanes), (lanes.count,))
        for i, lane in enumerate(lanes.index.tolist()):
            spots = at[i : i + 1]
            if masks is not None:
                spots = _multicast(ins, machine, lane, int(at[i]), int(masks[i]))
                if group == 2 and machine.pipes.is_empty(lane):
                    spots = _alone(ins, machine, lane, spots)
            slots = machine.mbarriers.find_by(np.repeat(lane >> 5, len(spots)), spots)
            pitch = machine.shared.pitch
            pairs = [(int(s) // pitch, int(slot)) for s, slot in zip(spots, slots, strict=True)]
            machine.pipes.commit(ins, lane, pairs)

    return step


def _alone(ins: Instruction, machine: Machine, lane: int, spots: Array) -> Array:
    """A commit for a CTA pair that has nothing to track signals the issuing CTA alone.

    The manual (PTX ISA 9.7.16.12.1, tcgen05.commit) lets a commit track all prior instructions of
    the thread, and signal every CTA of the mask once they are over: also those that a commit before
    it tracks. CUTLASS (include/cutlass/pipeline/sm100_pipeline.hpp: consumer_release and then
    producer_commit behind the last multiply) and DeepGEMM (impls/sm100_bf16_gemm.cuh,
    empty_barrier_arrive) issue two in a row and wait for both in both CTAs. What happens where
    nothing is pending the manual does not say; that the signal then reaches the own CTA only is an
    observation in FlashAttention (AI/DEBUG_2CTA.md, "tcgen05.commit with empty commit groups")."""
    own = spots[spots // machine.shared.pitch == machine.lane_cta[lane]]
    if len(own) < len(spots):
        machine.tensor.note(
            f"CD-D10: PTX line {ins.line}: the thread has waited for all tcgen05 instructions that "
            "it issued, if any, so that this tcgen05.commit signals no CTA but its own"
        )
    return own


def _multicast(ins: Instruction, machine: Machine, lane: int, at: int, bits: int) -> Array:
    """Where the mbarrier lies in each CTA of the mask."""
    size, own = machine.cluster_size, int(machine.lane_cta[lane])
    if bits == 0 or bits >> size:
        raise ins.error(
            "CD-B13", f"expected a multicast mask of CTAs in a cluster of {size}, got {bits:#x}"
        )
    first = own - own % size
    rows = np.array([first + rank for rank in range(size) if bits >> rank & 1])
    away = rows[rows != own]
    if len(away):
        machine.clusters.reach(np.repeat(lane >> 5, len(away)), away, counted=True)
    return at % machine.shared.pitch + rows * machine.shared.pitch


# Registers and tensor memory.

# Shape to (registers of .x1, columns of .x1, lanes).
_SHAPES = {
    "32x32b": (1, 1, 32), "16x64b": (1, 2, 16), "16x128b": (2, 4, 16), "16x256b": (4, 8, 16),
    "16x32bx2": (1, 1, 16),
}  # fmt: skip


def _places(shape: str, registers: int, half: int) -> tuple[Array, Array]:
    """``(lane, column)`` of register i of thread t, ``[registers, 32]`` each (PTX ISA 9.7.16.2.3.1,
    the figures of the matrix fragments)."""
    t, i = np.arange(32)[None, :], np.arange(registers)[:, None]
    none = 0 * (t + i)
    if shape == "32x32b":
        return t + none, i + none
    if shape == "16x64b":
        return t // 4 + 8 * (t % 2) + none, t // 2 % 2 + 2 * i
    if shape == "16x128b":
        return t // 4 + 8 * (i % 2), t % 4 + 4 * (i // 2)
    if shape == "16x256b":
        return t // 4 + 8 * (i // 2 % 2), 2 * (t % 4) + i % 2 + 8 * (i // 4)
    return t % 16 + none, t // 16 * half + i


class _Transfer:
    """tcgen05.ld or st: where each register of each thread lies."""

    def __init__(self, ins: Instruction, machine: Machine, load: bool) -> None:
        self.ins, self.machine = ins, machine
        mods = ins.modifiers("tcgen05.ld" if load else "tcgen05.st")
        self.reduces = load and mods.has("red")
        collective = mods.has("sync") and mods.has("aligned")
        shape = mods.take(*_SHAPES)
        times = mods.take(*(f"x{1 << i}" for i in range(8)))
        self.packed = mods.has("pack::16b" if load else "unpack::16b")
        self.operation = mods.take("min", "max") if self.reduces else None
        self.absolute, self.keeps_nan = mods.has("abs"), mods.has("NaN")
        self.type = mods.type(*(("f32", "u32", "s32") if self.reduces else ("b32",)))
        mods.done()
        if not collective or shape is None or times is None:
            raise ins.unsupported("expected .sync.aligned, a shape and .xN")
        each, wide, self.height = _SHAPES[shape]
        count = int(times[1:]) * each
        if count > 128:
            raise ins.unsupported(f".{shape}.{times} has more than 128 registers")
        halved = shape == "16x32bx2"
        registers, address, half = self._operands(load, halved)
        items = registers.items if isinstance(registers, Vector) else (registers,)
        if len(items) != count or not all(isinstance(item, Reg | Sink) for item in items):
            raise ins.malformed(f"expected {count} registers, got {len(items)}")
        self.items: tuple[Operand, ...] = tuple(items)
        self.address, self.sources = resolve(ins, machine, address, "tensor")
        self.lane, self.column = _places(shape, count, half)
        self.wide = wide * int(times[1:])
        spread = 2 if self.packed else 1
        if self.packed:
            self.column = np.stack((2 * self.column, 2 * self.column + 1))
            if halved:
                # The distance of the halves counts columns of 32 bits.
                low, column = self.column[0] // 2 - np.arange(32)[None, :] // 16 * half, half
                start = np.arange(32)[None, :] // 16 * column
                self.column = np.stack((start + 2 * low, start + 2 * low + 1))
        self.reach = [(0, self.wide * spread)] + ([(half, self.wide * spread)] if halved else [])

    def _operands(self, load: bool, halved: bool) -> tuple[Operand, Operand, int]:
        """The registers, the address and how many columns the second half lies behind the first."""
        ins, half = self.ins, 0
        operands = list(ins.operands)
        ins.expect(2 + halved + self.reduces)
        if halved:
            offset = operands.pop(2 + self.reduces if load else 1)
            if not isinstance(offset, Imm) or offset.kind != "int":
                raise ins.malformed(f"expected a constant distance of the halves, got {offset}")
            half = int(offset.value)
        self.extra = operands[1] if self.reduces else None
        if not load:
            return operands[1], operands[0], half
        return operands[0], operands[2 if self.reduces else 1], half

    def cells(self, lanes: Lanes) -> Array:
        """Indices into the flattened memory: ``[warps, registers, 32]``, or for packed registers
        ``[2, warps, registers, 32]``."""
        machine, ins = self.machine, self.ins
        machine.demand(self.sources, lanes, "a tensor memory address")
        addresses = _uniform(ins, machine, self.address(lanes), lanes, "tensor memory address")
        machine.tensor.make()
        found: list[Array] = []
        for warp, address in zip(lanes.warps.tolist(), addresses.tolist(), strict=True):
            cta, local = divmod(warp, machine.warps)
            row, first = address >> 16, address & 0xFFFF
            starts = (32 * (local % 4),) if self.height == 32 else (
                32 * (local % 4), 32 * (local % 4) + 16)  # fmt: skip
            if row not in starts:
                raise ins.error(
                    "CD-D8",
                    f"warp {local} of CTA {machine.describe_cta(cta)} reaches lanes "
                    f"{32 * (local % 4)} to {32 * (local % 4) + 31} of tensor memory: expected an "
                    f"address with lane {' or '.join(map(str, starts))}, got lane {row}",
                )
            head = ins.opcode[:10]
            for offset, wide in self.reach:
                machine.tensor.columns_of(ins, cta, first + offset, wide, head)
            found.append((cta * 128 + row + self.lane) * 512 + first + self.column)
        return np.stack(found, axis=1 if self.packed else 0)


@instruction("tcgen05.ld")
def _load(ins: Instruction, machine: Machine) -> Step:
    form = _Transfer(ins, machine, load=True)
    targets = [machine.target(item) for item in form.items]
    writes = [machine.write(ins, item, TYPES["b32"]) for item in form.items]
    slots = [item.slot for item in form.items if isinstance(item, Reg)]
    reduced = form.extra
    last = None if reduced is None else machine.write(ins, reduced, TYPES["b32"])
    last_target = None if reduced is None else machine.target(reduced)
    why = "CD-I4", f"loaded at PTX line {ins.line} from tensor memory that was never written"

    def define(lanes: Lanes, target: Any, write: Any, words: Array, bad: Array) -> None:
        write(lanes, np.ascontiguousarray(words))
        if target is not None:
            if anywhere(bad):
                target.taint(lanes, bad, why, machine.total)
            else:
                target.clear(lanes)

    def run(lanes: Lanes) -> None:
        cells = form.cells(lanes)
        warps = lanes.warps
        words: Array
        bad: Array
        if form.packed:
            low, bad = machine.tensor.load(ins, warps, cells[0])
            high, more = machine.tensor.load(ins, warps, cells[1])
            words = low & np.uint32(0xFFFF) | high << np.uint32(16)
            bad = np.logical_or(bad, more)
        else:
            words, bad = machine.tensor.load(ins, warps, cells)
        for i, target in enumerate(targets):
            define(lanes, target, writes[i], words[:, i].reshape(-1), bad[:, i].reshape(-1))
        if last is not None:
            value = _reduce(form, words).view(np.uint32)
            define(lanes, last_target, last, value.reshape(-1), bad.any(axis=1).reshape(-1))
        machine.tensor.loaded(ins, warps, slots)

    return whole_warps(ins, machine, run)


def _reduce(form: _Transfer, words: Array) -> Array:
    """The least or largest of a thread's registers (PTX ISA 9.7.16.8.1, ``.red``)."""
    values = np.ascontiguousarray(words).view(form.type.dtype)
    if form.absolute:
        values = np.abs(values)
    low = form.operation == "min"
    if form.type.kind == "f" and not form.keeps_nan:
        return (np.fmin if low else np.fmax).reduce(values, axis=1)
    return (np.minimum if low else np.maximum).reduce(values, axis=1)


@instruction("tcgen05.st")
def _store(ins: Instruction, machine: Machine) -> Step:
    form = _Transfer(ins, machine, load=False)
    reads = [machine.read(ins, item, TYPES["b32"]) for item in form.items]
    sources = [machine.sources(item) for item in form.items]

    def run(lanes: Lanes) -> None:
        cells = form.cells(lanes)
        shape = (len(lanes.warps), 32)
        words = np.stack([read(lanes).reshape(shape) for read in reads], axis=1)
        bad = np.zeros(words.shape, np.bool_)
        for i, registers in enumerate(sources):
            for register in registers:
                poison = register.poisoned(lanes)
                if poison is not None:
                    bad[:, i] = poison.reshape(shape)
        if form.packed:
            low, high = words & np.uint32(0xFFFF), words >> np.uint32(16)
            machine.tensor.store(ins, lanes.warps, cells[0], low, bad)
            machine.tensor.store(ins, lanes.warps, cells[1], high, bad)
        else:
            machine.tensor.store(ins, lanes.warps, cells, words, bad)

    return whole_warps(ins, machine, run)


# Copies from shared memory, and shifts.

# Shape (with its multicast) to 16-byte chunks of a row, and the lane of each row in each copy.
_ROW = np.arange(128)
_COPIES: dict[str, tuple[int, list[Array]]] = {
    "128x256b": (2, [_ROW]),
    "4x256b": (2, [_ROW[:4] * 32]),
    "128x128b": (1, [_ROW]),
    "64x128b.warpx2::02_13": (1, [_ROW[:64], _ROW[64:]]),
    "64x128b.warpx2::01_23": (
        1, [_ROW[:64] % 32 + _ROW[:64] // 32 * 64 + start for start in (0, 32)]
    ),
    "32x128b.warpx4": (1, [_ROW[start : start + 32] for start in (0, 32, 64, 96)]),
}  # fmt: skip


@instruction("tcgen05.cp")
def _copy(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("tcgen05.cp")
    group = take_group(ins, mods)
    shape = mods.take("128x256b", "4x256b", "128x128b", "64x128b", "32x128b")
    warps = mods.take("warpx2::02_13", "warpx2::01_23", "warpx4")
    narrow = None
    if mods.has("b8x16"):
        narrow = mods.take("b6x16_p32", "b4x16_p64")
    mods.done()
    ins.expect(2)
    name = f"{shape}.{warps}" if warps else str(shape)
    if name not in _COPIES:
        raise ins.unsupported(f"expected {', '.join('.' + each for each in _COPIES)}")
    _agree(ins, machine, group)
    wide, copies = _COPIES[name]
    rows = len(copies[0])
    bits = 0 if narrow is None else int(narrow[1])
    address, sources = resolve(ins, machine, ins.operands[0], "tensor")
    if not isinstance(ins.operands[1], Reg) or ins.operands[1].type.bits != 64:
        raise ins.malformed(f"expected a 64-bit matrix descriptor, got {ins.operands[1]}")
    descriptor = machine.read(ins, ins.operands[1], TYPES["u64"])
    sources = sources + machine.sources(ins.operands[1])

    def copy(lane: int, place: int, bits_: int) -> None:
        warp, own = lane >> 5, int(machine.lane_cta[lane])
        number = machine.pipes.next_number(warp)
        covered = footprint(bits_, rows, False, 1, wide)
        shared = machine.shared
        limit = (shared.size + shared.start) // CHUNK
        if covered.distinct[0] * CHUNK < shared.start or covered.distinct[-1] >= limit:
            raise ins.error("CD-C7", f"the source lies outside shared memory ({covered.matrix})")
        chunks: list[Array] = []
        for cta in [own] if group == 1 else [own & ~1, own | 1]:
            base = cta * (shared.pitch // CHUNK) - shared.start // CHUNK
            distinct = covered.distinct + base
            shared.refuse(distinct, IN_FLIGHT | LOADING | BARRIER, "tcgen05.cp reads from")
            machine.demand_visible(np.array([warp]), distinct, "tcgen05.cp", "CD-A2")
            chunks.append(distinct)
            data, shadow = shared.words(CHUNK)
            raw = data.take(covered.chunks + base, 0).view(np.uint8)
            unset = shadow.take(covered.chunks + base, 0).view(np.uint8) & UNSET != 0
            if bits:
                raw, pad = numbers.unpack(raw, bits), 16 - 2 * bits
                unset = np.repeat(unset[..., : 16 - pad].any(axis=-1), 16, axis=-1)
            words = np.ascontiguousarray(raw).reshape(rows, -1).view(np.uint32)
            bad = unset.reshape(rows, -1, 4).any(axis=2)
            column = place & 0xFFFF
            columns = machine.tensor.columns_of(ins, cta, column, words.shape[1], "tcgen05.cp")
            for lanes_of_rows in copies:
                region = Region(cta, lanes_of_rows + (place >> 16), columns)
                if int(region.lanes.max()) > 127:
                    raise ins.error("CD-D8", f"the copy leaves the 128 lanes from {place:#x} on")
                machine.tensor.begin(ins, warp, number, region, writes=True)
                machine.tensor.data[region.index] = words
                machine.tensor.unset[region.index] = bad
        machine.pipes.issue(ins, lane, chunks)

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an operand of tcgen05.cp")
        machine.tensor.make()
        places = np.broadcast_to(address(lanes), (lanes.count,)).tolist()
        matrices = np.broadcast_to(descriptor(lanes), (lanes.count,)).tolist()
        for lane, place, matrix in zip(lanes.index.tolist(), places, matrices, strict=True):
            copy(lane, place, matrix)

    return step


@instruction("tcgen05.shift")
def _shift(ins: Instruction, machine: Machine) -> Step:
    """Rows of 32 bytes move by one within the 32 lanes of the address."""
    mods = ins.modifiers("tcgen05.shift")
    group = take_group(ins, mods)
    down = mods.has("down")
    mods.done()
    ins.expect(1)
    if not down:
        raise ins.unsupported("expected .down")
    _agree(ins, machine, group)
    address, sources = resolve(ins, machine, ins.operands[0], "tensor")

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        machine.tensor.make()
        places = np.broadcast_to(address(lanes), (lanes.count,)).tolist()
        for lane, place in zip(lanes.index.tolist(), places, strict=True):
            row, own, warp = place >> 16, int(machine.lane_cta[lane]), lane >> 5
            if row % 32 or row > 96:
                raise ins.error("CD-D8", f"expected a lane that is a multiple of 32, got {row}")
            number = machine.pipes.next_number(warp)
            for cta in [own] if group == 1 else [own & ~1, own | 1]:
                columns = machine.tensor.columns_of(ins, cta, place & 0xFFFF, 8, "tcgen05.shift")
                region = Region(cta, slice(row, row + 32), columns)
                machine.tensor.begin(ins, warp, number, region, writes=True)
                for cells in (machine.tensor.data, machine.tensor.unset):
                    cells[region.index] = shifted(cells[region.index])
            machine.pipes.issue(ins, lane, [])

    return step
