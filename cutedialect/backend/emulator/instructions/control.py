"""Control flow: branches, calls, returns, exits, traps (PTX ISA 9.7.12)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..errors import EmulatorError
from ..lanes import Array, Lanes, anywhere, distinct
from ..machine import FUNCTION_BASE
from ..module import Function, FunctionRef, Group, Instruction, Label, Reg, Sym, Variable
from ..printf import format_output
from ..types import TYPES
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

MAX_DEPTH = 2000


@dataclass(frozen=True, eq=False)
class Frame:
    """A call in progress. ``saved`` holds what a recursive call displaced (None otherwise);
    ``local_shift`` is the byte offset of the callee's local variables."""

    return_pc: int
    call: Instruction
    callee: Function
    results: tuple[Any, ...]
    saved: dict[Any, Any] | None
    saved_lanes: Array
    local_shift: int


@instruction("bra", handles_guard=True)
def _bra(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("bra")
    mods.has("uni")
    mods.done()
    ins.expect(1)
    label = ins.operands[0]
    if not isinstance(label, Label) or label.targets:
        raise ins.malformed(f"expected a label, got {label}")
    target = label.pc
    if ins.guard is None:
        return lambda lanes: target
    register, negated, total = machine.register(ins.guard[0]), ins.guard[1], machine.total
    bits = register.bits

    def step(lanes: Lanes) -> Any:
        if register.poison is not None:
            machine.demand([register], lanes, "a branch")
        mask = bits[lanes.sel]
        if negated:
            mask = ~mask
        taken = lanes.where(mask, total)
        if taken is None:
            return None
        if taken is lanes:
            return target
        rest = lanes.where(~mask, total)

        def split(scheduler: Any, _: Lanes, pc: int, stack: Any) -> None:
            scheduler.add(taken, target, stack)
            scheduler.add(rest, pc + 1, stack)

        return split

    return step


@instruction("brx.idx")
def _brx(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("brx.idx")
    mods.has("uni")
    mods.done()
    ins.expect(2)
    table = ins.operands[1]
    if not isinstance(table, Label) or not table.targets:
        raise ins.malformed(f"expected a branch table, got {table}")
    read = machine.read(ins, ins.operands[0], TYPES["u32"])
    sources = machine.sources(ins.operands[0])

    def step(lanes: Lanes) -> Any:
        machine.demand(sources, lanes, "a branch index")
        index = np.broadcast_to(read(lanes), (lanes.count,))
        if int(index.max()) >= len(table.targets):
            raise ins.error(
                "CD-I1", f"branch index {index.max()} is beyond the {len(table.targets)} targets"
            )

        def split(scheduler: Any, all_lanes: Lanes, pc: int, stack: Any) -> None:
            for value in distinct(index):
                chosen = all_lanes.where(index == value, machine.total)
                scheduler.add(chosen, table.targets[int(value)], stack)

        return split

    return step


@instruction("exit")
def _exit(ins: Instruction, machine: Machine) -> Step:
    ins.modifiers("exit").done()

    def leave(scheduler: Any, lanes: Lanes, pc: int, stack: Any) -> None:
        scheduler.exit(lanes)

    return lambda lanes: leave


@instruction("ret")
def _ret(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("ret")
    mods.has("uni")
    mods.done()

    def leave(scheduler: Any, lanes: Lanes, pc: int, stack: Any) -> None:
        if not stack:
            scheduler.exit(lanes)
            return
        frame: Frame = stack[-1]
        _return(machine, lanes, frame)
        scheduler.add(lanes, frame.return_pc, stack[:-1])

    return lambda lanes: leave


@instruction("trap")
def _trap(ins: Instruction, machine: Machine) -> Step:
    def step(lanes: Lanes) -> Any:
        where = machine.describe_lane(int(lanes.index[0]))
        raise EmulatorError(f"trap executed by {where}", code="CD-TRAP")

    return step


@instruction("brkpt", "pmevent")
def _brkpt(ins: Instruction, machine: Machine) -> Step:
    return lambda lanes: None


@instruction("call")
def _call(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("call")
    mods.has("uni")
    mods.done()
    operands = list(ins.operands)
    results: tuple[Any, ...] = ()
    if operands and isinstance(operands[0], Group):
        results = _items(operands.pop(0))
    if not operands:
        raise ins.malformed("expected a function")
    target = operands.pop(0)
    arguments: tuple[Any, ...] = ()
    if operands and isinstance(operands[0], Group):
        arguments = _items(operands.pop(0))
    if isinstance(target, FunctionRef):
        if target.name == "vprintf":
            return _printf(ins, machine, results, arguments)
        if target.name == "__assertfail":
            return _assert_fail(ins, machine, arguments)
        function = machine.module.functions[target.name]
        if function.start == function.end:
            raise ins.unsupported(f"function '{target.name}' has no body in this module")
        _match(ins, function, results, arguments)

        def direct(scheduler: Any, lanes: Lanes, pc: int, stack: Any) -> None:
            _enter(scheduler, machine, ins, function, results, arguments, lanes, pc, stack)

        return lambda lanes: direct
    if not isinstance(target, Reg):
        raise ins.malformed(f"expected a function, got {target}")
    read = machine.read(ins, target, TYPES["u64"])
    sources = machine.sources(target)
    by_address = {
        FUNCTION_BASE + f.start: f for f in machine.module.functions.values() if f.start < f.end
    }

    def step(lanes: Lanes) -> Any:
        machine.demand(sources, lanes, "a call")
        address = read(lanes)

        def indirect(scheduler: Any, all_lanes: Lanes, pc: int, stack: Any) -> None:
            for value in distinct(address):
                function = by_address.get(int(value))
                if function is None:
                    raise EmulatorError(f"call of {int(value):#x}, which is no function",
                                        code="CD-I1")  # fmt: skip
                _match(ins, function, results, arguments)
                chosen = all_lanes.where(address == value, machine.total)
                assert chosen is not None
                _enter(scheduler, machine, ins, function, results, arguments, chosen, pc, stack)

        return indirect

    return step


def _items(group: Any) -> tuple[Any, ...]:
    return group.items


def _match(
    ins: Instruction, function: Function, results: tuple[Any, ...], arguments: tuple[Any, ...]
) -> None:
    if len(arguments) != len(function.params) or len(results) != len(function.results):
        raise ins.malformed(
            f"'{function.name}' takes {len(function.params)} parameters and returns "
            f"{len(function.results)}, got {len(arguments)} and {len(results)}"
        )


def _enter(
    scheduler: Any,
    machine: Machine,
    ins: Instruction,
    function: Function,
    results: tuple[Any, ...],
    arguments: tuple[Any, ...],
    lanes: Lanes,
    pc: int,
    stack: tuple[Frame, ...],
) -> None:
    if len(stack) > MAX_DEPTH:
        raise EmulatorError(f"calls nest deeper than {MAX_DEPTH}", code="CD-LIMIT")
    incoming = [_fetch(machine, ins, a, p, lanes) for a, p in
                zip(arguments, function.params, strict=True)]  # fmt: skip
    shift = stack[-1].local_shift if stack else 0
    if any(frame.callee is function for frame in stack):
        shift += -(-machine.image.local_size // 16) * 16
        machine.grow_local(machine.image.local_size + shift)
        saved = _save(machine, function, lanes)
        frame = Frame(pc + 1, ins, function, results, saved, lanes.index, shift)
    else:
        key = (pc, function.name, shift)
        interned: dict[Any, Frame] = machine.interned_frames
        frame = interned.get(key) or interned.setdefault(
            key, Frame(pc + 1, ins, function, results, None, None, shift)
        )
    for parameter, value in zip(function.params, incoming, strict=True):
        _place(machine, ins, parameter, value, lanes)
    scheduler.add(lanes, function.start, (*stack, frame))


def _return(machine: Machine, lanes: Lanes, frame: Frame) -> None:
    values = [_fetch(machine, frame.call, _operand(r), o, lanes) for r, o in
              zip(frame.callee.results, frame.results, strict=True)]  # fmt: skip
    if frame.saved is not None:
        _restore(machine, frame, lanes)
    for place, value in zip(frame.results, values, strict=True):
        target = place.variable if isinstance(place, Sym) else place
        _place(machine, frame.call, target, value, lanes)


def _operand(place: Variable | Reg) -> Any:
    return Sym(place) if isinstance(place, Variable) else place


def _rows(machine: Machine, variable: Variable) -> tuple[Array, Array]:
    memory = machine.frames
    at = machine.image.offsets[variable.uid]
    shape = (machine.total, memory.pitch)
    part = slice(at, at + max(variable.size, 0))
    return memory.data.reshape(shape)[:, part], memory.shadow.reshape(shape)[:, part]


def _fetch(machine: Machine, ins: Instruction, source: Any, like: Any, lanes: Lanes) -> Any:
    """``(bytes [lanes, size], shadow [lanes, size])`` of a parameter, register or constant."""
    if isinstance(source, Sym) and source.variable.space == "param":
        data, shadow = _rows(machine, source.variable)
        return data[lanes.sel].copy(), shadow[lanes.sel].copy()
    kind = like.type if isinstance(like, (Reg, Variable)) else like.variable.type
    if isinstance(source, Reg):
        kind = source.type
    storage = TYPES["pred"] if kind.bits == 1 else TYPES[f"b{kind.bits}"]
    values = np.broadcast_to(machine.read(ins, source, storage)(lanes), (lanes.count,))
    data = np.ascontiguousarray(values).view(np.uint8).reshape(lanes.count, -1)
    shadow = np.zeros_like(data)
    for register in machine.sources(source):
        poison = register.poisoned(lanes)
        if poison is not None:
            shadow[poison] = 1
    return data, shadow


def _place(machine: Machine, ins: Instruction, target: Any, value: Any, lanes: Lanes) -> None:
    data, shadow = value
    if isinstance(target, Variable):
        rows, states = _rows(machine, target)
        if rows.shape[1] != data.shape[1]:
            raise ins.malformed(
                f"parameter '{target.name}' has {rows.shape[1]} bytes, got {data.shape[1]}"
            )
        rows[lanes.sel], states[lanes.sel] = data, shadow
        return
    register = machine.register(target)
    if data.shape[1] * 8 != max(8, register.width):
        raise ins.malformed(f"parameter {target} does not fit the argument's {data.shape[1]} bytes")
    register.bits[lanes.sel] = np.ascontiguousarray(data).view(register.bits.dtype)[:, 0]
    poison = shadow.any(axis=1)
    if anywhere(poison):
        register.taint(lanes, poison, None, machine.total)
    else:
        register.clear(lanes)


def _owned(machine: Machine, function: Function) -> tuple[list[Reg], list[Variable]]:
    registers = machine.registers_of(function)
    variables = [
        v for v in machine.module.variables
        if v.space == "param" and v.uid in machine.image.offsets
        and (v.function == function.name or v in function.results)
    ]  # fmt: skip
    return registers, variables


def _save(machine: Machine, function: Function, lanes: Lanes) -> dict[Any, Any]:
    registers, variables = _owned(machine, function)
    saved: dict[Any, Any] = {}
    for reg in registers:
        register = machine.register(reg)
        poison = None if register.poison is None else register.poison[lanes.sel].copy()
        saved[reg] = register.bits[lanes.sel].copy(), poison
    for variable in variables:
        data, shadow = _rows(machine, variable)
        saved[variable] = data[lanes.sel].copy(), shadow[lanes.sel].copy()
    return saved


def _restore(machine: Machine, frame: Frame, lanes: Lanes) -> None:
    at: Array = frame.saved_lanes.searchsorted(lanes.index)
    assert frame.saved is not None
    for owner, (first, second) in frame.saved.items():
        if isinstance(owner, Reg):
            register = machine.register(owner)
            register.bits[lanes.sel] = first[at]
            if second is None or not anywhere(second[at]):
                register.clear(lanes)
            else:
                register.taint(lanes, second[at], register.origin, machine.total)
        else:
            data, shadow = _rows(machine, owner)
            data[lanes.sel], shadow[lanes.sel] = first[at], second[at]


def _pointer(machine: Machine, ins: Instruction, argument: Any, lanes: Lanes) -> Array:
    data, _ = _fetch(machine, ins, argument, argument, lanes)
    return np.ascontiguousarray(data).view(np.uint64)[:, 0]


def _printf(
    ins: Instruction, machine: Machine, results: tuple[Any, ...], arguments: tuple[Any, ...]
) -> Step:
    if len(arguments) != 2:
        raise ins.malformed("vprintf takes a format and a buffer")

    def step(lanes: Lanes) -> None:
        formats = _pointer(machine, ins, arguments[0], lanes)
        buffers = _pointer(machine, ins, arguments[1], lanes)
        for i, lane in enumerate(lanes.index):
            machine.output.append(
                format_output(machine, int(lane), int(formats[i]), int(buffers[i]))
            )
        for place in results:
            target = place.variable if isinstance(place, Sym) else place
            ok = np.zeros((lanes.count, 4), np.uint8)
            _place(machine, ins, target, (ok, np.zeros_like(ok)), lanes)

    return step


def _assert_fail(ins: Instruction, machine: Machine, arguments: tuple[Any, ...]) -> Step:
    from ..printf import read_string

    def step(lanes: Lanes) -> Any:
        lane = int(lanes.index[0])
        pointer = _pointer(machine, ins, arguments[0], lanes) if arguments else None
        text = "" if pointer is None else read_string(machine, lane, int(pointer[0]))
        raise EmulatorError(
            f"assertion failed: {text} ({machine.describe_lane(lane)})", code="CD-TRAP"
        )

    return step
