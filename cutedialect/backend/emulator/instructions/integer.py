"""Integer arithmetic (PTX ISA 9.7.1) and extended-precision arithmetic with the carry flag
(9.7.2).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..lanes import Array, Lanes, where
from ..module import Instruction, Operand, Reg
from ..types import STORAGE, TYPES, ScalarType
from .registry import BUILDERS, Builder, instruction

if TYPE_CHECKING:
    from ..machine import Compute, Machine, Step

_INTEGERS = ("u16", "s16", "u32", "s32", "u64", "s64")

_BY_TYPE: dict[str, dict[str, Builder]] = {}


def by_type(head: str, *types: str) -> Callable[[Builder], Builder]:
    """Register a builder for the forms of ``head`` whose opcode ends in one of the types: integer,
    float and half forms of one mnemonic live in different files."""

    def register(builder: Builder) -> Builder:
        table = _BY_TYPE.setdefault(head, {})
        for name in types:
            table[name] = builder
        BUILDERS.setdefault(head, _dispatch(head))
        return builder

    return register


def _dispatch(head: str) -> Builder:
    def build(ins: Instruction, machine: Machine) -> Step:
        for part in reversed(ins.opcode.split(".")):
            if part in _BY_TYPE[head]:
                return _BY_TYPE[head][part](ins, machine)
        raise ins.unsupported("unknown type")

    return build


def simple(
    ins: Instruction, machine: Machine, type: ScalarType, compute: Compute, count: int
) -> Step:
    """``count`` operands and one result, all of one type."""
    ins.expect(count + 1)
    operands: list[tuple[Operand, ScalarType]] = [(o, type) for o in ins.operands[1:]]
    return machine.pure(ins, [(ins.operands[0], type)], operands, compute)


def double_width(values: Array) -> Array:
    """The same numbers in twice the width (32 to 64 bits at most)."""
    kind, size = values.dtype.kind, values.dtype.itemsize
    return values.astype(np.dtype(f"{kind}{2 * size}"))


def multiply_high(a: Array, b: Array) -> Array:
    """The upper half of the product."""
    bits = 8 * a.dtype.itemsize
    if bits < 64:
        return (double_width(a) * double_width(b) >> np.array(bits, f"{a.dtype.kind}{bits // 4}")
                ).astype(a.dtype)  # fmt: skip
    ua, ub = a.view(np.uint64), b.view(np.uint64)
    low = np.uint64(0xFFFFFFFF)
    s = np.uint64(32)
    a0, a1, b0, b1 = ua & low, ua >> s, ub & low, ub >> s
    middle = a1 * b0 + (a0 * b0 >> s)
    other = a0 * b1 + (middle & low)
    high = a1 * b1 + (middle >> s) + (other >> s)
    if a.dtype.kind == "i":
        high = high - where(a < 0, ub, 0).astype(np.uint64)
        high = high - where(b < 0, ua, 0).astype(np.uint64)
    return high.view(a.dtype) if high.dtype != a.dtype else high


def saturate_s32(wide: Array) -> Array:
    return np.clip(wide, -(1 << 31), (1 << 31) - 1).astype(np.int32)


def _add_sub(head: str, compute: Callable[[Array, Array], Array]) -> None:
    @by_type(head, *_INTEGERS)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        carries = mods.has("cc")
        saturates = mods.has("sat")
        type = mods.type(*(("s32",) if saturates else _INTEGERS))
        mods.done()
        if carries:
            return _with_carry(ins, machine, type, head, reads_carry=False, writes_carry=True)
        if saturates:
            return simple(
                ins, machine, type,
                lambda a, b: saturate_s32(compute(a.astype(np.int64), b.astype(np.int64))), 2,
            )  # fmt: skip
        return simple(ins, machine, type, compute, 2)


_add_sub("add", np.add)
_add_sub("sub", np.subtract)


def _with_carry(
    ins: Instruction,
    machine: Machine,
    type: ScalarType,
    kind: str,
    *,
    reads_carry: bool,
    writes_carry: bool,
) -> Step:
    """add / sub with CC.CF; the borrow of a subtraction is kept as CF = 1."""
    ins.expect(3)
    storage = STORAGE[type.bits]
    unsigned = TYPES[f"u{type.bits}"]
    reads = [machine.read(ins, o, unsigned) for o in ins.operands[1:]]
    write = machine.write(ins, ins.operands[0], unsigned)
    target = [machine.register(o) for o in ins.operands[:1] if isinstance(o, Reg)]
    finish = machine.finisher(target, machine.sources(*ins.operands[1:]))
    flags = machine.carry

    def step(lanes: Lanes) -> None:
        a, b = reads[0](lanes), reads[1](lanes)
        carry = flags[lanes.sel].astype(storage) if reads_carry else np.zeros(1, storage)
        if kind == "add":
            first = a + b
            value = first + carry
            out = (first < a) | (value < first)
        else:
            first = a - b
            value = first - carry
            out = (a < b) | (first < carry)
        write(lanes, value)
        if writes_carry:
            flags[lanes.sel] = out
        finish(lanes)

    return step


@instruction("addc", "subc")
def _carry(ins: Instruction, machine: Machine) -> Step:
    head = ins.opcode.split(".")[0]
    mods = ins.modifiers(head)
    writes = mods.has("cc")
    type = mods.type("u32", "s32", "b32", "u64", "s64", "b64")
    mods.done()
    return _with_carry(ins, machine, type, head[:3], reads_carry=True, writes_carry=writes)


@by_type("mul", *_INTEGERS)
def _mul(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("mul")
    part = mods.take("lo", "hi", "wide")
    type = mods.type(*_INTEGERS)
    mods.done()
    if part == "wide":
        if type.bits == 64:
            raise ins.unsupported("mul.wide of 64 bits")
        wide = TYPES[f"{type.kind}{2 * type.bits}"]
        ins.expect(3)
        return machine.pure(
            ins, [(ins.operands[0], wide)], [(o, type) for o in ins.operands[1:]],
            lambda a, b: double_width(a) * double_width(b),
        )  # fmt: skip
    if part is None:
        raise ins.unsupported("expected .lo, .hi or .wide")
    return simple(ins, machine, type, np.multiply if part == "lo" else multiply_high, 2)


@by_type("mad", *_INTEGERS)
def _mad(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("mad")
    part = mods.take("lo", "hi", "wide")
    saturates, carries = mods.has("sat"), mods.has("cc")
    type = mods.type(*_INTEGERS)
    mods.done()
    ins.expect(4)
    if carries:
        return _mad_carry(ins, machine, type, part, reads_carry=False, writes_carry=True)
    d, a, b, c = ins.operands
    if part == "wide":
        if type.bits == 64:
            raise ins.unsupported("mad.wide of 64 bits")
        wide = TYPES[f"{type.kind}{2 * type.bits}"]
        return machine.pure(
            ins, [(d, wide)], [(a, type), (b, type), (c, wide)],
            lambda x, y, z: double_width(x) * double_width(y) + z,
        )  # fmt: skip
    if part == "lo" and not saturates:
        return simple(ins, machine, type, lambda x, y, z: x * y + z, 3)
    if part == "hi":
        if saturates:
            return simple(
                ins, machine, type,
                lambda x, y, z: saturate_s32(multiply_high(x, y).astype(np.int64) + z), 3,
            )  # fmt: skip
        return simple(ins, machine, type, lambda x, y, z: multiply_high(x, y) + z, 3)
    raise ins.unsupported("expected .lo, .hi or .wide")


@instruction("madc")
def _madc(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("madc")
    part = mods.take("lo", "hi")
    writes = mods.has("cc")
    type = mods.type("u32", "s32", "u64", "s64")
    mods.done()
    return _mad_carry(ins, machine, type, part, reads_carry=True, writes_carry=writes)


def _mad_carry(
    ins: Instruction,
    machine: Machine,
    type: ScalarType,
    part: str | None,
    *,
    reads_carry: bool,
    writes_carry: bool,
) -> Step:
    ins.expect(4)
    if part not in ("lo", "hi"):
        raise ins.unsupported("expected .lo or .hi")
    storage = STORAGE[type.bits]
    reads = [machine.read(ins, o, type) for o in ins.operands[1:]]
    write = machine.write(ins, ins.operands[0], TYPES[f"u{type.bits}"])
    target = [machine.register(o) for o in ins.operands[:1] if isinstance(o, Reg)]
    finish = machine.finisher(target, machine.sources(*ins.operands[1:]))
    flags = machine.carry

    def step(lanes: Lanes) -> None:
        a, b, c = (read(lanes) for read in reads)
        product = (a * b if part == "lo" else multiply_high(a, b)).view(storage)
        carry = flags[lanes.sel].astype(storage) if reads_carry else np.zeros(1, storage)
        first = product + c.view(storage)
        value = first + carry
        write(lanes, value)
        if writes_carry:
            flags[lanes.sel] = (first < product) | (value < first)
        finish(lanes)

    return step


def _signed24(values: Array) -> Array:
    eight = values.dtype.type(8)
    return (values << eight) >> eight


@instruction("mul24", "mad24")
def _mul24(ins: Instruction, machine: Machine) -> Step:
    head = ins.opcode.split(".")[0]
    mods = ins.modifiers(head)
    part = mods.take("lo", "hi")
    saturates = mods.has("sat")
    type = mods.type("u32", "s32")
    mods.done()
    shift = 0 if part == "lo" else 16

    def product(a: Array, b: Array) -> Array:
        wide = double_width(_signed24(a)) * double_width(_signed24(b))
        return wide >> wide.dtype.type(shift)

    if head == "mul24":
        return simple(ins, machine, type, lambda a, b: product(a, b).astype(a.dtype), 2)
    if saturates:
        return simple(ins, machine, type, lambda a, b, c: saturate_s32(product(a, b) + c), 3)
    return simple(ins, machine, type, lambda a, b, c: product(a, b).astype(a.dtype) + c, 3)


def divide(a: Array, b: Array) -> Array:
    """Toward zero; division by zero gives all ones, as the hardware does."""
    zero = b == 0
    safe = where(zero, b.dtype.type(1), b)
    quotient = a // safe
    if a.dtype.kind == "i":
        quotient = quotient + ((quotient < 0) & (quotient * safe != a))
    return where(zero, np.array(-1).astype(a.dtype), quotient).astype(a.dtype)


def remainder(a: Array, b: Array) -> Array:
    """Sign of the dividend; a remainder by zero is all ones, as the hardware has it."""
    zero = b == 0
    rest = np.fmod(a, where(zero, b.dtype.type(1), b))
    return where(zero, np.array(-1).astype(a.dtype), rest).astype(a.dtype)


def _typed(head: str, compute: Compute, count: int, *types: str) -> None:
    @by_type(head, *types)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        type = mods.type(*types)
        mods.done()
        return simple(ins, machine, type, compute, count)


_typed("div", divide, 2, *_INTEGERS)
_typed("rem", remainder, 2, *_INTEGERS)
_typed("abs", np.abs, 1, "s16", "s32", "s64")
_typed("neg", np.negative, 1, "s16", "s32", "s64")
_typed("sad", lambda a, b, c: c + where(a < b, b - a, a - b), 3, *_INTEGERS)


def _min_max(head: str, compute: Callable[[Array, Array], Array]) -> None:
    @by_type(head, *_INTEGERS)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        relu = mods.has("relu")
        type = mods.type(*(("s32",) if relu else _INTEGERS))
        mods.done()
        if relu:
            return simple(ins, machine, type, lambda a, b: np.maximum(compute(a, b), 0), 2)
        return simple(ins, machine, type, compute, 2)

    @by_type(head, "u16x2", "s16x2")
    def packed(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        relu = mods.has("relu")
        type = mods.type("u16x2", "s16x2")
        mods.done()
        half = np.dtype(np.int16 if type.name == "s16x2" else np.uint16)

        def pairs(a: Array, b: Array) -> Array:
            value = compute(a.view(half).reshape(-1, 2), b.view(half).reshape(-1, 2))
            value = np.maximum(value, half.type(0)) if relu else value
            return np.ascontiguousarray(value).view(np.uint32)[:, 0]

        return simple(ins, machine, type, pairs, 2)


_min_max("min", np.minimum)
_min_max("max", np.maximum)


@by_type("add", "u16x2", "s16x2")
def _add_pairs(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("add")
    type = mods.type("u16x2", "s16x2")
    mods.done()

    def pairs(a: Array, b: Array) -> Array:
        value = a.view(np.uint16).reshape(-1, 2) + b.view(np.uint16).reshape(-1, 2)
        return np.ascontiguousarray(value).view(np.uint32)[:, 0]

    return simple(ins, machine, type, pairs, 2)


@instruction("dp4a", "dp2a")
def _dot(ins: Instruction, machine: Machine) -> Step:
    head = ins.opcode.split(".")[0]
    mods = ins.modifiers(head)
    half = mods.take("lo", "hi") if head == "dp2a" else None
    kinds = mods.types()
    mods.done()
    ins.expect(4)
    if len(kinds) != 2 or any(k.name not in ("u32", "s32") for k in kinds):
        raise ins.unsupported("expected two of .u32, .s32")
    a_type, b_type = kinds
    result = TYPES["s32" if "s" in (a_type.kind, b_type.kind) else "u32"]
    size = 1 if head == "dp4a" else 2

    def compute(a: Array, b: Array, c: Array) -> Array:
        left = a.view(f"{'i' if a_type.is_signed else 'u'}{size}").reshape(-1, 4 // size)
        right = b.view(f"{'i' if b_type.is_signed else 'u'}1").reshape(-1, 4)
        if half is not None:
            right = right[:, :2] if half == "lo" else right[:, 2:]
        total = (left.astype(np.int64) * right.astype(np.int64)).sum(axis=1)
        return (c.astype(np.int64) + total).astype(result.dtype)

    d, a, b, c = ins.operands
    u32 = TYPES["u32"]
    return machine.pure(ins, [(d, result)], [(a, u32), (b, u32), (c, result)], compute)
