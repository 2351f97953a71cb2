"""ld, st and relatives (PTX ISA 9.7.9): all state spaces and generic addresses, vectors, and the
address arithmetic that atomics and matrix loads share.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..bank_conflicts import wavefronts
from ..errors import EmulatorError
from ..lanes import Array, Lanes, anywhere
from ..memory import LOCAL_WINDOW, PARAM_BASE, SHARED_WINDOW
from ..module import Address, Imm, Instruction, Modifiers, Operand, Reg, Sink, Sym, Vector
from ..races import warps_of
from ..registers import Register
from ..types import STORAGE, TYPES
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

Resolve = Callable[[Lanes], Array]

_SPACES = (
    "global", "shared", "shared::cta", "shared::cluster", "local", "param", "param::entry",
    "param::func", "const",
)  # fmt: skip
_ORDERS = ("weak", "volatile", "relaxed", "acquire", "release", "mmio", "nc")
_SCOPES = ("cta", "cluster", "gpu", "sys")


def take_space(ins: Instruction, mods: Modifiers) -> str:
    """Consume the state space; ``generic`` when there is none, ``cluster`` for shared memory of any
    CTA of the cluster."""
    space = mods.take(*_SPACES) or "generic"
    return "cluster" if space == "shared::cluster" else space.split("::")[0]


def drop_hints(mods: Modifiers) -> None:
    """Consume cache hints, which change no result."""
    for hint in ("ca", "cg", "cs", "lu", "cv", "wb", "wt"):
        mods.has(hint)
    mods.drop("L1::", "L2::", "unified")


def resolve(
    ins: Instruction, machine: Machine, operand: Operand, space: str
) -> tuple[Resolve, list[Register]]:
    """``(read, sources)``: ``read(lanes)`` gives uint64 addresses in ``space``, one a lane."""
    if not isinstance(operand, Address):
        raise ins.malformed(f"expected an address in brackets, got {operand}")
    base, offset = operand.base, operand.offset
    if isinstance(base, Imm):
        fixed = np.uint64((int(base.value) + offset) & (1 << 64) - 1)
        return lambda lanes: np.full(lanes.count, fixed), []
    if isinstance(base, Sym):
        variable = base.variable
        expected = {
            "generic": ("global", "const", "param", "shared", "local"), "cluster": ("shared",)
        }.get(space, (space,))  # fmt: skip
        if variable.space not in expected:
            raise ins.malformed(f"'{variable.name}' is in .{variable.space}, not .{space}")
        start = machine.address_of(ins, variable) + base.offset + offset
        if space == "generic":
            start += {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW}.get(variable.space, 0)
        if variable.space == "local":
            return lambda lanes: np.full(lanes.count, np.uint64(start + machine.local_shift)), []
        return lambda lanes: np.full(lanes.count, np.uint64(start)), []
    if not isinstance(base, Reg):
        raise ins.malformed(f"expected a register or symbol as address, got {base}")
    if base.type.bits == 64:
        read = machine.read(ins, base, TYPES["u64"])
        if space == "param":
            offset += PARAM_BASE
        if offset == 0:
            return read, machine.sources(base)
        delta = np.uint64(offset & (1 << 64) - 1)
        return lambda lanes: read(lanes) + delta, machine.sources(base)
    if base.type.bits != 32:
        raise ins.malformed(f"expected a 32- or 64-bit address, got {base}")
    narrow = machine.read(ins, base, TYPES["u32"])
    delta32 = np.uint32(offset & 0xFFFFFFFF)
    return lambda lanes: (narrow(lanes) + delta32).astype(np.uint64), machine.sources(base)


def count_access(
    machine: Machine, ins: Instruction, lanes: Lanes, offsets: Array, width: int
) -> None:
    """Add a shared access to the report; ``offsets`` are bytes, one a lane."""
    shift = 5 if width <= 4 else 4 if width == 8 else 3
    group = lanes.index >> shift
    group = group - group[0]
    passes = wavefronts(offsets, group, width, int(group[-1]) + 1)
    machine.count_shared(ins, passes)


class Access:
    """Loads and stores of one instruction in one space, ``width`` bytes a lane. Volatile, relaxed
    and stronger ones are flags: they order others, and race with none of their kind."""

    def __init__(
        self, ins: Instruction, machine: Machine, space: str, width: int, is_flag: bool = False
    ) -> None:
        self.ins = ins
        self.is_flag = is_flag
        self.machine = machine
        self.space = space
        self.width = width

    def load(self, lanes: Lanes, addresses: Array) -> tuple[Array, Array]:
        """``(words, poison)``: poison is one bool a byte, ``[lanes, width]``, or None."""
        machine, width = self.machine, self.width
        if self.space == "shared":
            at = machine.shared.offsets(addresses, machine.lane_cta[lanes.sel], width, "read")
            count_access(machine, self.ins, lanes, at, width)
            self._note_read(lanes, at)
            return machine.shared.load(at, width)
        if self.space == "cluster":
            owner, addresses = machine.clusters.owners(lanes, addresses)
            at = machine.shared.offsets(addresses, owner, width, "read")
            self._note_read(lanes, at)
            return machine.shared.load(at, width)
        if self.space == "local":
            at = machine.local.offsets(addresses, lanes.index, width, "read")
            return machine.local.load(at, width)
        if self.space == "frame":
            at = machine.frames.offsets(addresses, lanes.index, width, "read")
            return machine.frames.load(at, width)
        if self.space == "generic":
            return self._load_generic(lanes, addresses)
        memory = {
            "global": machine.global_memory,
            "const": machine.image.const_memory,
            "param": machine.image.param_memory,
        }[self.space]
        words = memory.load(addresses, width)
        if self.space == "global":
            machine.count_global(self.ins, lanes, addresses, width)
        if self.space == "global" and machine.races is not None and not self.is_flag:
            machine.races.read_global(self.ins, warps_of(lanes), addresses, width)
        return words, None

    def _note_read(self, lanes: Lanes, at: Array) -> None:
        races = self.machine.races
        if races is not None and not self.is_flag:
            races.read_shared(self.ins, warps_of(lanes), at, self.width)

    def _load_generic(self, lanes: Lanes, addresses: Array) -> tuple[Array, Array]:
        parts = self.machine.spaces(addresses)
        if len(parts) == 1:
            space, start, _ = parts[0]
            return self._in(space).load(lanes, addresses - np.uint64(start) if start else addresses)
        shape = (lanes.count,) if self.width <= 8 else (lanes.count, self.width // 4)
        words = np.zeros(shape, STORAGE[8 * self.width] if self.width <= 8 else np.uint32)
        poison = np.zeros((lanes.count, self.width), np.bool_)
        for space, start, mask in parts:
            part = lanes.where(mask, self.machine.total)
            assert part is not None
            words[mask], bad = self._in(space).load(part, addresses[mask] - np.uint64(start))
            if bad is not None:
                poison[mask] = bad
        return words, poison if anywhere(poison) else None

    def store(self, lanes: Lanes, addresses: Array, words: Array, poison: Array) -> None:
        """``poison`` as in ``load``; refused in global memory."""
        machine, width = self.machine, self.width
        if self.space == "generic":
            for space, start, mask in machine.spaces(addresses):
                part = lanes.where(mask, machine.total)
                assert part is not None
                self._in(space).store(
                    part, addresses[mask] - np.uint64(start), words[mask],
                    None if poison is None else poison[mask],
                )  # fmt: skip
            return
        if self.space in ("const", "param"):
            raise EmulatorError(f"write to .{self.space} memory, which is read-only", code="CD-I1")
        if self.space == "global":
            machine.progress = True
            machine.global_memory.check(addresses, width, "write")
            machine.count_global(self.ins, lanes, addresses, width)
            if machine.races is not None:
                machine.races.write_global(
                    self.ins, warps_of(lanes), addresses, width, words, self.is_flag
                )
            machine.global_memory.store(addresses, words, width)
            return
        if self.space == "shared":
            machine.progress = True
            memory, owner = machine.shared, machine.lane_cta[lanes.sel]
        elif self.space == "cluster":
            machine.progress = True
            memory = machine.shared
            owner, addresses = machine.clusters.owners(lanes, addresses)
        else:
            memory = machine.local if self.space == "local" else machine.frames
            owner = lanes.index
        at = memory.offsets(addresses, owner, width, "write")
        if self.space == "shared":
            count_access(machine, self.ins, lanes, at, width)
        if memory is machine.shared and machine.races is not None:
            machine.races.write_shared(self.ins, warps_of(lanes), at, width, words, self.is_flag)
        memory.store(at, words, width)
        if memory is machine.shared:
            machine.stamp(lanes, at, width)
        if poison is not None:
            memory.poison(at, poison)

    def _in(self, space: str) -> Access:
        return Access(self.ins, self.machine, space, self.width, self.is_flag)


def split_words(words: Array, bits: int, count: int) -> Array:
    """Loaded words as ``[lanes, count]`` elements of ``bits``."""
    return np.ascontiguousarray(words).view(STORAGE[bits]).reshape(len(words), count)


def join_words(columns: list[Array], lanes: int, width: int) -> Array:
    """Element columns to the words that ``Access.store`` takes."""
    if len(columns) == 1:
        only = columns[0]
        return only if len(only) == lanes else np.broadcast_to(only, (lanes,))
    rows = np.empty((lanes, len(columns)), columns[0].dtype)
    for i, column in enumerate(columns):
        rows[:, i] = column
    return rows.view(STORAGE[8 * width])[:, 0] if width <= 8 else rows.view(np.uint32)


def _parse(ins: Instruction, head: str) -> tuple[str, bool, int, Any]:
    """(space, polls, vector length, type) of a load or store."""
    mods = ins.modifiers(head)
    order = mods.take(*_ORDERS)
    while mods.take(*_ORDERS):
        pass
    mods.take(*_SCOPES)
    space = take_space(ins, mods)
    drop_hints(mods)
    vector = mods.take("v2", "v4", "v8")
    type = mods.type()
    mods.done()
    count = int(vector[1:]) if vector else 1
    if type.bits == 1 or type.kind == "x" or count * type.bits > 256:
        raise ins.unsupported(f".{type.name} with {count} elements")
    polls = order in ("volatile", "relaxed", "acquire", "release", "mmio")
    return space, polls, count, type


def _elements(ins: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    if count == 1 and not isinstance(operand, Vector):
        return (operand,)
    if not isinstance(operand, Vector) or len(operand.items) != count:
        raise ins.malformed(f"expected a vector of {count} elements, got {operand}")
    return operand.items


def _frame_or_param(ins: Instruction, machine: Machine, space: str, address: Operand) -> str:
    """Device-function parameters live in per-thread frames, kernel parameters in constant
    memory.
    """
    if space != "param" or not isinstance(address, Address):
        return space
    if isinstance(address.base, Sym):
        kernel = address.base.variable.uid in machine.image.entry_params
        return "param" if kernel else "frame"
    return "param"


@instruction("ld", "ldu")
def _ld(ins: Instruction, machine: Machine) -> Step:
    space, polls, count, type = _parse(ins, ins.opcode.split(".")[0])
    ins.expect(2, 3)
    address_space = space
    space = _frame_or_param(ins, machine, space, ins.operands[1])
    read, sources = resolve(ins, machine, ins.operands[1], address_space)
    elements = _elements(ins, ins.operands[0], count)
    if type.bits == 128:
        return _ld_b128(ins, machine, space, read, sources)
    # Memory gives raw words: a float register must take their bits, not their value.
    stored = type if type.is_signed else TYPES[f"b{type.bits}"]
    writes = [machine.write(ins, e, stored, wide=True) for e in elements]
    targets = [None if isinstance(e, Sink) else machine.register(e) for e in elements]  # type: ignore[arg-type]
    width = count * type.bytes
    access = Access(ins, machine, space, width, polls)
    total = machine.total
    operand = ins.operands[1]
    if space == "param" and isinstance(operand, Address) and isinstance(operand.base, Sym):
        at = machine.image.offsets[operand.base.variable.uid] + operand.base.offset + operand.offset
        constant = split_words(
            machine.image.param_memory.load(np.array([at], np.uint64), width), type.bits, count
        )

        def load_constant(lanes: Lanes) -> None:
            for i, write in enumerate(writes):
                write(lanes, constant[:, i])
                target = targets[i]
                if target is not None and target.poison is not None:
                    target.clear(lanes)

        return load_constant

    def step(lanes: Lanes) -> None:
        if sources:
            machine.demand(sources, lanes, "an address")
        if polls:
            machine.polled = True
            if machine.ordering is not None:
                machine.ordering.through_flag(lanes.warps)
        words, poison = access.load(lanes, read(lanes))
        if count == 1:
            writes[0](lanes, words)
        else:
            columns = split_words(words, type.bits, count)
            for i, write in enumerate(writes):
                write(lanes, columns[:, i])
        for i, target in enumerate(targets):
            if target is None:
                continue
            if poison is None:
                if target.poison is not None:
                    target.clear(lanes)
                continue
            mask = poison[:, i * type.bytes : (i + 1) * type.bytes].any(axis=1)
            if anywhere(mask):
                what = f"loaded at PTX line {ins.line} from {access.space} memory never written"
                target.taint(lanes, mask, ("CD-I3", what), total)
            elif target.poison is not None:
                target.clear(lanes)

    return step


def _ld_b128(
    ins: Instruction, machine: Machine, space: str, read: Resolve, sources: list[Register]
) -> Step:
    write = machine.write(ins, ins.operands[0], TYPES["b128"])
    target = machine.sources(ins.operands[0])[0]
    access = Access(ins, machine, space, 16)

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        words, poison = access.load(lanes, read(lanes))
        write(lanes, np.ascontiguousarray(words).view(np.uint64))
        target.clear(lanes)
        if poison is not None and anywhere(poison):
            target.taint(
                lanes, poison.any(axis=1), ("CD-I3", "memory never written"), machine.total
            )

    return step


@instruction("st")
def _st(ins: Instruction, machine: Machine) -> Step:
    space, flags, count, type = _parse(ins, "st")
    ins.expect(2, 3)
    address_space = space
    space = _frame_or_param(ins, machine, space, ins.operands[0])
    if space == "param":
        raise ins.malformed("kernel parameters are read-only")
    read, sources = resolve(ins, machine, ins.operands[0], address_space)
    elements = _elements(ins, ins.operands[1], count)
    storage = TYPES[f"b{type.bits}"]
    values = [machine.read(ins, e, type if isinstance(e, Imm) else storage, wide=True)
              for e in elements]  # fmt: skip
    origins = [machine.sources(e) for e in elements]
    everything = [r for found in origins for r in found]
    width = count * type.bytes
    access = Access(ins, machine, space, width, flags)
    raw = STORAGE[type.bits] if type.bits < 128 else None

    def step(lanes: Lanes) -> None:
        if sources:
            machine.demand(sources, lanes, "an address")
        if raw is None:
            columns = [values[0](lanes).view(np.uint32)]
            words = columns[0]
        else:
            columns = [value(lanes).view(raw) for value in values]
            words = join_words(columns, lanes.count, width)
        addresses = read(lanes)
        poison: Array = None
        for register in everything:
            if register.poison is not None:
                poison = _poison(lanes, origins, type.bytes, width)
                break
        if poison is not None:
            refused = machine.outside(access.space, addresses) & poison.any(axis=1)
            if anywhere(refused):
                part = lanes.where(refused, machine.total)
                assert part is not None
                machine.demand(everything, part, "a store to global memory")
        access.store(lanes, addresses, words, poison)
        if flags and machine.ordering is not None:
            machine.ordering.through_flag(lanes.warps)

    return step


def _poison(lanes: Lanes, origins: list[list[Register]], size: int, width: int) -> Array:
    found: Array = None
    for i, registers in enumerate(origins):
        for register in registers:
            mask = register.poisoned(lanes)
            if mask is not None:
                if found is None:
                    found = np.zeros((lanes.count, width), np.bool_)
                found[:, i * size : (i + 1) * size] |= mask[:, None]
    return found


@instruction("prefetch", "prefetchu", "applypriority", "discard")
def _prefetch(ins: Instruction, machine: Machine) -> Step:
    if ins.opcode.startswith("discard"):
        raise ins.unsupported("discard makes memory undefined")
    return lambda lanes: None
