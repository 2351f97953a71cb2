"""Logic, shifts and bit fields (PTX ISA 9.7.1.16 on and 9.7.8)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from ..lanes import Array, where
from ..module import Imm, Instruction, Operand, Pair
from ..types import STORAGE, TYPES, ScalarType
from .integer import simple
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Compute, Machine, Step

_BITS = ("pred", "b16", "b32", "b64")


def _bitwise(head: str, compute: Compute, count: int) -> None:
    @instruction(head)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        type = mods.type(*_BITS)
        mods.done()
        step = simple(ins, machine, type, compute, count)
        if type.bits == 1 and head in ("and", "or"):
            d, *sources = ins.operands
            return machine.settled(ins, step, [d], sources, sources, head == "or")
        return step


_bitwise("and", np.bitwise_and, 2)
_bitwise("or", np.bitwise_or, 2)
_bitwise("xor", np.bitwise_xor, 2)
_bitwise("not", np.invert, 1)
_bitwise("cnot", lambda a: (a == 0).astype(a.dtype), 1)


def _shift(ins: Instruction, machine: Machine, left: bool) -> Step:
    mods = ins.modifiers("shl" if left else "shr")
    untyped = ("b16", "b32", "b64")
    type = mods.type(*untyped, *(() if left else ("u16", "u32", "u64", "s16", "s32", "s64")))
    mods.done()
    ins.expect(3)
    bits = type.bits
    d, a, b = ins.operands

    def compute(value: Array, amount: Array) -> Array:
        over = amount >= bits
        within = np.minimum(amount, bits - 1).astype(value.dtype)
        if left:
            return where(over, value.dtype.type(0), value << within)
        shifted = value >> within
        if type.is_signed:
            return shifted
        return where(over, value.dtype.type(0), shifted)

    def by_constant(value: Array) -> Array:
        if amount >= bits:
            if left or not type.is_signed:
                return np.zeros_like(value)
            return value >> value.dtype.type(bits - 1)
        within = value.dtype.type(amount)
        return value << within if left else value >> within

    if isinstance(b, Imm):
        amount = int(b.value) & 0xFFFFFFFF
        return machine.pure(ins, [(d, type)], [(a, type)], by_constant)
    return machine.pure(ins, [(d, type)], [(a, type), (b, TYPES["u32"])], compute)


@instruction("shl")
def _shl(ins: Instruction, machine: Machine) -> Step:
    return _shift(ins, machine, left=True)


@instruction("shr")
def _shr(ins: Instruction, machine: Machine) -> Step:
    return _shift(ins, machine, left=False)


@instruction("shf.l", "shf.r")
def _funnel(ins: Instruction, machine: Machine) -> Step:
    head = ins.opcode[:5]
    mods = ins.modifiers(head)
    mode = mods.take("clamp", "wrap")
    mods.type("b32")
    mods.done()
    ins.expect(4)
    if mode is None:
        raise ins.unsupported("expected .clamp or .wrap")

    def compute(low: Array, high: Array, amount: Array) -> Array:
        n = (np.minimum(amount, 32) if mode == "clamp" else amount & 31).astype(np.uint64)
        both = high.astype(np.uint64) << np.uint64(32) | low
        if head == "shf.l":
            return ((both << n) >> np.uint64(32)).astype(np.uint32)
        return (both >> n).astype(np.uint32)

    d, a, b, c = ins.operands
    u32 = TYPES["u32"]
    return machine.pure(ins, [(d, u32)], [(a, u32), (b, u32), (c, u32)], compute)


@instruction("lop3")
def _lop3(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("lop3")
    combine = mods.take("or", "and")
    mods.type("b32")
    mods.done()
    ins.expect(6 if combine else 5)
    table_operand = ins.operands[4]
    if not isinstance(table_operand, Imm):
        raise ins.malformed("the lookup table must be a constant")
    table = int(table_operand.value)

    def compute(a: Array, b: Array, c: Array) -> Array:
        out = np.zeros(1, np.uint32)
        for i in range(8):
            if table >> i & 1:
                out = out | ((a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c))
        return out

    u32 = TYPES["b32"]
    sources: list[tuple[Operand, ScalarType]] = [(o, u32) for o in ins.operands[1:4]]
    if combine is None:
        return machine.pure(ins, [(ins.operands[0], u32)], sources, compute)
    pair = ins.operands[0]
    if not isinstance(pair, Pair):
        raise ins.malformed("expected d|p")

    def with_predicate(a: Array, b: Array, c: Array, q: Array) -> tuple[Array, Array]:
        value = compute(a, b, c)
        return value, (value != 0) | q if combine == "or" else (value != 0) & q

    pred = TYPES["pred"]
    return machine.pure(
        ins, [(pair.first, u32), (pair.second, pred)], [*sources, (ins.operands[5], pred)],
        with_predicate,
    )  # fmt: skip


_PERMUTE = {
    "f4e": [[0, 1, 2, 3], [1, 2, 3, 4], [2, 3, 4, 5], [3, 4, 5, 6]],
    "b4e": [[0, 7, 6, 5], [1, 0, 7, 6], [2, 1, 0, 7], [3, 2, 1, 0]],
    "rc8": [[0] * 4, [1] * 4, [2] * 4, [3] * 4],
    "ecl": [[0, 1, 2, 3], [1, 1, 2, 3], [2, 2, 2, 3], [3, 3, 3, 3]],
    "ecr": [[0, 0, 0, 0], [0, 1, 1, 1], [0, 1, 2, 2], [0, 1, 2, 3]],
    "rc16": [[0, 1, 0, 1], [2, 3, 2, 3], [0, 1, 0, 1], [2, 3, 2, 3]],
}


@instruction("prmt")
def _prmt(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("prmt")
    mods.type("b32")
    mode = mods.take(*_PERMUTE)
    mods.done()

    def compute(a: Array, b: Array, c: Array) -> Array:
        a, b, c = np.broadcast_arrays(a, b, c)
        eight = np.stack((a, b), axis=1).view(np.uint8).reshape(-1, 8)
        if mode is not None:
            pick = np.array(_PERMUTE[mode])[c & 3]
            return np.take_along_axis(eight, pick, axis=1).view(np.uint32)[:, 0]
        nibble = c[:, None] >> np.array([0, 4, 8, 12], np.uint32) & np.uint32(15)
        out = np.take_along_axis(eight, (nibble & 7).astype(np.intp), axis=1)
        sign = where(out & 0x80, np.uint8(0xFF), np.uint8(0))
        return where(nibble & 8, sign, out).astype(np.uint8).view(np.uint32)[:, 0]

    return simple(ins, machine, TYPES["b32"], compute, 3)


def _counting(head: str, compute: Callable[[Array], Array]) -> None:
    @instruction(head)
    def build(ins: Instruction, machine: Machine) -> Step:
        mods = ins.modifiers(head)
        type = mods.type("b32", "b64")
        mods.done()
        ins.expect(2)
        return machine.pure(
            ins, [(ins.operands[0], TYPES["u32"])], [(ins.operands[1], type)], compute
        )


def highest_bit(values: Array) -> Array:
    """Index of the highest set bit of unsigned numbers, -1 for zero."""
    out = np.full(values.shape, -1, np.int64)
    rest = values.astype(np.uint64)
    for step in (32, 16, 8, 4, 2, 1):
        big = rest >> np.uint64(step) != 0
        out = out + where(big, step, 0)
        rest = where(big, rest >> np.uint64(step), rest)
    return out + (rest != 0)


_counting("popc", lambda a: np.bitwise_count(a).astype(np.uint32))
_counting("clz", lambda a: (8 * a.dtype.itemsize - 1 - highest_bit(a)).astype(np.uint32))


@instruction("bfind")
def _bfind(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("bfind")
    amount = mods.has("shiftamt")
    type = mods.type("u32", "s32", "u64", "s64")
    mods.done()
    ins.expect(2)

    def compute(a: Array) -> Array:
        value = where(a < 0, ~a, a) if type.is_signed else a
        found = highest_bit(value.view(STORAGE[type.bits]))
        if amount:
            found = where(found < 0, -1, type.bits - 1 - found)
        return (found & 0xFFFFFFFF).astype(np.uint32)

    return machine.pure(ins, [(ins.operands[0], TYPES["u32"])], [(ins.operands[1], type)], compute)


@instruction("brev")
def _brev(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("brev")
    type = mods.type("b32", "b64")
    mods.done()

    def compute(a: Array) -> Array:
        rows = a.view(np.uint8).reshape(len(a), -1)
        bits = np.unpackbits(rows, axis=1, bitorder="little")[:, ::-1]
        return np.packbits(bits, axis=1, bitorder="little").view(a.dtype)[:, 0]

    return simple(ins, machine, type, compute, 1)


@instruction("bfe")
def _bfe(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("bfe")
    type = mods.type("u32", "s32", "u64", "s64")
    mods.done()
    ins.expect(4)
    bits = type.bits

    def compute(a: Array, b: Array, c: Array) -> Array:
        start, length = (b & 0xFF).astype(np.int64), (c & 0xFF).astype(np.int64)
        value = a.view(STORAGE[bits]).astype(np.uint64)
        sign_at = np.minimum(start + length - 1, bits - 1)
        if type.is_signed:
            sign = where(
                length == 0, 0, value >> np.maximum(sign_at, 0).astype(np.uint64) & np.uint64(1)
            )
        else:
            sign = np.zeros(1, np.uint64)
        size = np.clip(np.minimum(length, bits - start), 0, bits)
        mask = _ones(size)
        field = where(start < bits, value >> np.minimum(start, bits - 1).astype(np.uint64), 0)
        field = field.astype(np.uint64) & mask
        field = where(sign != 0, field | ~mask, field)
        return field.astype(STORAGE[bits]).view(type.dtype)

    d, a, b, c = ins.operands
    u32 = TYPES["u32"]
    return machine.pure(ins, [(d, type)], [(a, type), (b, u32), (c, u32)], compute)


def _ones(count: Array) -> Array:
    """The low ``count`` bits (0 to 64) set."""
    small = np.minimum(count, 63).astype(np.uint64)
    return where(count >= 64, np.uint64(0xFFFFFFFFFFFFFFFF), (np.uint64(1) << small) - np.uint64(1))


@instruction("bfi")
def _bfi(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("bfi")
    type = mods.type("b32", "b64")
    mods.done()
    ins.expect(5)
    bits = type.bits

    def compute(a: Array, b: Array, c: Array, d: Array) -> Array:
        start, length = (c & 0xFF).astype(np.int64), (d & 0xFF).astype(np.int64)
        size = np.clip(np.minimum(length, bits - start), 0, bits)
        at = np.minimum(start, 63).astype(np.uint64)
        mask = _ones(size) << at
        out = (b.astype(np.uint64) & ~mask) | (a.astype(np.uint64) << at & mask)
        return out.astype(type.dtype)

    f, a, b, c, d = ins.operands
    u32 = TYPES["u32"]
    return machine.pure(ins, [(f, type)], [(a, type), (b, type), (c, u32), (d, u32)], compute)


@instruction("bmsk.clamp", "bmsk.wrap")
def _bmsk(ins: Instruction, machine: Machine) -> Step:
    clamps = ins.opcode.startswith("bmsk.clamp")
    ins.modifiers(ins.opcode[: 10 if clamps else 9]).type("b32")

    def compute(a: Array, b: Array) -> Array:
        start, length = a.astype(np.int64), b.astype(np.int64)
        if not clamps:
            start, length = start & 31, length & 31
        length = np.minimum(length, 64)
        mask = _ones(length) << np.minimum(start, 63).astype(np.uint64)
        return where(start > 31, 0, mask & np.uint64(0xFFFFFFFF)).astype(np.uint32)

    return simple(ins, machine, TYPES["b32"], compute, 2)


@instruction("szext.clamp", "szext.wrap")
def _szext(ins: Instruction, machine: Machine) -> Step:
    clamps = ins.opcode.startswith("szext.clamp")
    type = ins.modifiers(ins.opcode[: 11 if clamps else 10]).type("u32", "s32")

    def compute(a: Array, b: Array) -> Array:
        size = np.minimum(b, 32).astype(np.int64) if clamps else (b & 31).astype(np.int64)
        mask = _ones(size)
        value = a.view(np.uint32).astype(np.uint64) & mask
        top = value >> np.maximum(size - 1, 0).astype(np.uint64) & np.uint64(1)
        if type.is_signed:
            value = where((top != 0) & (size > 0), value | ~mask, value)
        return (value & np.uint64(0xFFFFFFFF)).astype(np.uint32).view(type.dtype)

    d, a, b = ins.operands
    return machine.pure(ins, [(d, type)], [(a, type), (b, TYPES["u32"])], compute)


@instruction("fns")
def _fns(ins: Instruction, machine: Machine) -> Step:
    ins.modifiers("fns").type("b32")

    def one(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> (base & 31) & 1 else 0xFFFFFFFF
        step = 1 if offset > 0 else -1
        left = abs(offset)
        at = base
        while 0 <= at < 32:
            if mask >> at & 1:
                left -= 1
                if left == 0:
                    return at
            at += step
        return 0xFFFFFFFF

    def compute(mask: Array, base: Array, offset: Array) -> Array:
        rows = zip(*np.broadcast_arrays(mask, base, offset), strict=True)
        return np.array([one(int(m), int(b), int(o)) for m, b, o in rows], np.uint32)

    d, mask, base, offset = ins.operands
    return machine.pure(
        ins, [(d, TYPES["b32"])],
        [(mask, TYPES["b32"]), (base, TYPES["b32"]), (offset, TYPES["s32"])], compute,
    )  # fmt: skip
