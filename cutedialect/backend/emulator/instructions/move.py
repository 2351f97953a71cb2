"""mov, selp, slct, address conversion and other moves (PTX ISA 9.7.9)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..clusters import RANK_SHIFT
from ..lanes import Array, Lanes, anywhere, where
from ..memory import (
    CONST_BASE,
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAM_BASE,
    SHARED_WINDOW,
    WINDOW_SIZE,
)  # fmt: skip
from ..module import Instruction, Operand, Reg, Sink, Vector
from ..types import STORAGE, TYPES, ScalarType
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

_WINDOWS = {"shared": SHARED_WINDOW, "local": LOCAL_WINDOW, "param": PARAM_BASE}
_RANGES = {
    "shared": (SHARED_WINDOW, SHARED_WINDOW + WINDOW_SIZE),
    "local": (LOCAL_WINDOW, LOCAL_WINDOW + WINDOW_SIZE),
    "const": (CONST_BASE, GLOBAL_BASE),
    "param": (PARAM_BASE, CONST_BASE),
    "global": (GLOBAL_BASE, SHARED_WINDOW),
}


@instruction("mov")
def _mov(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("mov")
    type = mods.type()
    mods.done()
    ins.expect(2)
    target, source = ins.operands
    if type.kind == "x":
        raise ins.unsupported(f".{type.name}")
    if isinstance(target, Vector):
        return _unpack(ins, machine, target.items, source, type)
    if isinstance(source, Vector):
        return _pack(ins, machine, target, source.items, type)
    if type.kind == "f" and isinstance(source, Reg):
        type = TYPES[f"b{type.bits}"]
    return machine.pure(ins, [(target, type)], [(source, type)], lambda a: a)


def _part(ins: Instruction, count: int, type: ScalarType) -> ScalarType:
    if count not in (2, 4, 8) or type.bits % count or type.bits // count < 8:
        raise ins.malformed(f"{count} parts of .{type.name}")
    return TYPES[f"b{type.bits // count}"]


def _unpack(
    ins: Instruction, machine: Machine, parts: tuple[Operand, ...], source: Operand,
    type: ScalarType,
) -> Step:  # fmt: skip
    element = _part(ins, len(parts), type)
    storage = STORAGE[element.bits]

    def compute(value: Array) -> list[Array]:
        rows = np.ascontiguousarray(value).view(storage).reshape(-1, len(parts))
        return [rows[:, i] for i in range(len(parts)) if not isinstance(parts[i], Sink)]

    results: list[tuple[Operand, ScalarType]] = [
        (p, element) for p in parts if not isinstance(p, Sink)
    ]
    if not results:
        return lambda lanes: None
    if len(results) == 1:
        return machine.pure(ins, results, [(source, type)], lambda value: compute(value)[0])
    return machine.pure(ins, results, [(source, type)], compute)


def _pack(
    ins: Instruction, machine: Machine, target: Operand, parts: tuple[Operand, ...],
    type: ScalarType,
) -> Step:  # fmt: skip
    element = _part(ins, len(parts), type)

    def compute(*columns: Array) -> Array:
        rows = np.stack(np.broadcast_arrays(*columns), axis=1)
        if type.bits == 128:
            return rows.view(np.uint64).reshape(-1, 2)
        return rows.view(STORAGE[type.bits])[:, 0]

    return machine.pure(ins, [(target, type)], [(p, element) for p in parts], compute)


@instruction("selp", "slct")
def _select(ins: Instruction, machine: Machine) -> Step:
    """The poison of the operand that is not selected does not matter."""
    head = ins.opcode.split(".")[0]
    mods = ins.modifiers(head)
    mods.has("ftz")
    types = mods.types()
    mods.done()
    ins.expect(4)
    if len(types) != (1 if head == "selp" else 2) or types[0].kind == "x":
        raise ins.unsupported("unknown types")
    type = types[0]
    d, a, b, c = ins.operands
    read_a, read_b = machine.read(ins, a, type), machine.read(ins, b, type)
    selector = TYPES["pred"] if head == "selp" else types[1]
    read_c = machine.read(ins, c, selector)
    write = machine.write(ins, d, type)
    target = machine.sources(d)
    regs_a, regs_b, regs_c = machine.sources(a), machine.sources(b), machine.sources(c)
    everything = regs_a + regs_b + regs_c

    def step(lanes: Lanes) -> None:
        chosen = read_c(lanes)
        if head == "slct":
            chosen = chosen >= 0
        mask: Array = None
        origin = None
        for register in everything:
            if register.poison is not None:
                found = register.poisoned(lanes)
                if found is None:
                    continue
                if register in regs_a and register not in regs_c:
                    found = found & chosen if register not in regs_b else found
                elif register in regs_b and register not in regs_c:
                    found = found & ~chosen
                mask = found if mask is None else mask | found
                origin = origin or register.why()
        write(lanes, where(chosen, read_a(lanes), read_b(lanes)))
        for register in target:
            if mask is not None and anywhere(mask):
                register.taint(lanes, mask, origin, machine.total)
            elif register.poison is not None:
                register.clear(lanes)

    return step


@instruction("cvta")
def _cvta(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("cvta")
    to = mods.has("to")
    space = mods.take(
        "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param",
        "param::entry",
    )  # fmt: skip
    type = mods.type("u64", "u32")
    mods.done()
    ins.expect(2)
    if space is None or type.bits == 32:
        raise ins.unsupported("expected a state space and .u64")
    start = np.uint64(_WINDOWS.get(space.split("::")[0], 0))

    def compute(a: Array) -> Array:
        return a - start if to else a + start

    d, a = ins.operands
    return machine.pure(ins, [(d, type)], [(a, type)], compute)


@instruction("isspacep")
def _isspacep(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("isspacep")
    space = mods.take(
        "global", "shared", "shared::cta", "shared::cluster", "local", "const", "param",
        "param::entry",
    )  # fmt: skip
    mods.done()
    ins.expect(2)
    if space is None:
        raise ins.unsupported("unknown state space")
    low, high = _RANGES[space.split("::")[0]]
    if space == "shared::cta" or space == "shared":
        high = low + (1 << RANK_SHIFT)

    def compute(a: Array) -> Array:
        return (a >= np.uint64(low)) & (a < np.uint64(high))

    return machine.pure(
        ins, [(ins.operands[0], TYPES["pred"])], [(ins.operands[1], TYPES["u64"])], compute
    )


@instruction("createpolicy")
def _createpolicy(ins: Instruction, machine: Machine) -> Step:
    """Cache policies change no result; the policy is an opaque constant."""
    return machine.pure(
        ins,
        [(ins.operands[0], TYPES["b64"])],
        [],
        lambda: np.array([0x12F0000000000000], np.uint64),
    )
