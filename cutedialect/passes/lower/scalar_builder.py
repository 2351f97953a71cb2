"""Scalar PTX code with hash-consing and hoisting: a pure instruction is written once, and outside
of every loop in which its operands do not change, by construction. Branches keep their own code.
Constants are plain Python numbers until an instruction needs them as operands.
"""

from __future__ import annotations

import math
import operator
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache, partialmethod
from typing import TYPE_CHECKING

from xdsl.dialects.builtin import UNKNOWN_LOC, LocationAttr, StringAttr
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.atoms import Target
from cutedialect.atoms.matrix_descriptor import MatrixDescriptor
from cutedialect.dialects import ptx
from cutedialect.dialects.ptx.mnemonics import operand_classes

if TYPE_CHECKING:
    from .packed_codes import Code

Scalar = SSAValue | int | float
"""A register, or a constant (a Python number; `True` and `False` for predicates)."""

_NUMBERS = (int, float)
# The bytes of either half, as `prmt` selects them of its first source.
_HALVES = (0x10, 0x32)
_BITS = {"pred": 1, "f16x2": 32, "bf16x2": 32, "f32x2": 64} | dict.fromkeys(
    ("e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2"), 16
)


@lru_cache(maxsize=512)
def parse_mnemonic(mnemonic: str) -> tuple[str, str, int, bool]:
    """(operation, type, bits, signed): `mul.lo.s32` is (`mul.lo`, `s32`, 32, True)."""
    operation, _, type_ = mnemonic.rpartition(".")
    bits = _BITS.get(type_, 0)
    if not bits and type_[-1].isdigit():
        bits = int(type_.lstrip("bfsut") or 0)
    return operation, type_, bits, type_.startswith("s")


def wrap(value: int, bits: int, signed: bool) -> int:
    """`value` modulo 2^bits, as a signed or unsigned number."""
    value &= (1 << bits) - 1
    return value - (1 << bits) if signed and value >> (bits - 1) else value


def _truncated(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add,
    "sub": operator.sub,
    "mul.lo": operator.mul,
    "mul.wide": operator.mul,
    "and": operator.and_,
    "or": operator.or_,
    "xor": operator.xor,
    "shl": lambda a, b: a << b if b < 64 else 0,
    "shr": operator.rshift,
    "min": min,
    "max": max,
    "div": _truncated,
    "rem": lambda a, b: a - b * _truncated(a, b),
}
_COMPARES = {name: getattr(operator, name) for name in ("eq", "ne", "lt", "le", "gt", "ge")}
# Ops that print nothing of their own.
_UNNAMED = {ptx.ImmOp, ptx.YieldOp, ptx.RegArrayOp}
_PAIR_CONVERSIONS = {f"cvt.rn.{each}.f32": f"cvt.rn.{each}x2.f32" for each in ("f16", "bf16")}
_BYTE_CONVERSIONS = (
    *(f"cvt.rn.satfinite.{name}x2.f32" for name in ("e4m3", "e5m2", "e2m3", "e3m2")),
    "cvt.rp.satfinite.ue8m0x2.f32",
)
_COMMUTATIVE = frozenset({"add", "mul.lo", "mul.wide", "and", "or", "xor", "min", "max"})
# Second operands with which operations give the first one, and operations that give 0 with 0.
_NEUTRAL = {"add": 0, "sub": 0, "or": 0, "xor": 0, "shl": 0, "shr": 0, "mul.lo": 1, "div": 1}
_ANNIHILATED = frozenset({"mul.lo", "mul.wide", "and"})


_origin = cache(StringAttr)


class _Level:
    """One open block and the pure instructions written in it."""

    def __init__(
        self, block: Block, repeats: bool, is_rare: bool = False, is_crowded: bool = False
    ) -> None:
        self.block = block
        self.repeats = repeats
        self.is_rare = is_rare
        self.is_crowded = is_crowded
        self.known: dict[tuple, SSAValue] = {}


class ScalarBuilder:
    """Appends ops to the innermost open block, pure ones before the loops that do not change them.

    `location` and `origin` (the name of the op being lowered) go onto every op that is made.
    """

    def __init__(self, entry: Block, chip: Target | None = None) -> None:
        self.chip = chip
        self.levels = [_Level(entry, False)]
        self.depth: dict[SSAValue, int] = {}
        self.definitions: dict[SSAValue, tuple] = {}
        self.nonnegative: set[SSAValue] = set()
        # Elements of 4 bits by the 16-bit registers that hold one.
        self.codes: dict[Scalar, Code] = {}
        # The thread's number in its role, where that is not its number in the CTA.
        self.thread: Scalar | None = None
        self.location: LocationAttr = UNKNOWN_LOC
        self._origin: StringAttr | None = None

    def at(self, op: Operation) -> None:
        """Give the location and name of `op` to what is made from now on."""
        self.location = op.location
        self._origin = _origin(op.name)

    def push(
        self, block: Block, repeats: bool, is_rare: bool = False, is_crowded: bool = False
    ) -> None:
        """Open a nested block, which runs several times or (a branch) at most once. A rare one
        keeps what it computes: in front of a loop around it, that would always hold registers. A
        crowded one keeps what is computed `near` its use.
        """
        self.levels.append(_Level(block, repeats, is_rare, is_crowded))
        for arg in block.args:
            self.depth[arg] = len(self.levels) - 1

    def pop(self) -> None:
        self.levels.pop()

    @contextmanager
    def near(self) -> Iterator[None]:
        """Where what follows is computed by few instructions: a loop with registers for little that
        stays computes it again in each trip.
        """
        crowded = [level for level in self.levels if level.is_crowded and not level.is_rare]
        for level in crowded:
            level.is_rare = True
        yield
        for level in crowded:
            level.is_rare = False

    def emit(self, op: Operation, level: int | None = None) -> Operation:
        """Append `op` to the innermost open block (or to that of `level`)."""
        at = len(self.levels) - 1 if level is None else level
        op.location = self.location
        if self._origin is not None and type(op) not in _UNNAMED:
            op.attributes["from"] = self._origin
        self.levels[at].block.add_op(op)
        for result in op.results:
            self.depth[result] = at
        return op

    def result(self, op: Operation, level: int | None = None) -> SSAValue:
        """Append `op` as `emit` does, for its one result."""
        return self.emit(op, level).results[0]

    def get(self, array: SSAValue, index: int) -> SSAValue:
        """What a register of an array holds now."""
        return self.result(ptx.GetOp(array, index))

    def settled(self, array: SSAValue, index: int) -> SSAValue:
        """What a register of an array holds that nothing writes any more: read where the array was
        made, so that what is computed from it leaves the loops behind.
        """
        level = self.level_of(array)
        known, key = self.levels[level].known, ("settled", array, index)
        if key not in known:
            known[key] = self.result(ptx.GetOp(array, index), level)
        return known[key]

    def set(self, array: SSAValue, index: int, value: Scalar) -> None:
        self.emit(ptx.SetOp(array, index, self.value(value, array_type(array).cls)))

    def level_of(self, value: Scalar) -> int:
        """Nesting level at which a scalar is available; 0 is the kernel's body."""
        return 0 if isinstance(value, _NUMBERS) else self.depth.get(value, 0)

    def imm(self, value: int | float, cls: str) -> SSAValue:
        """A constant as an operand."""
        if isinstance(value, float) and (math.isnan(value) or value == 0):
            key = ("imm", str(math.copysign(1, value)), str(value), cls)
        else:
            key = ("imm", float(value) if cls in ("f32", "f64") else value, cls)
        known = self.levels[0].known
        found = known.get(key)
        if found is None:
            if cls in ("f32", "f64"):
                value = float(value)
            elif isinstance(value, float):
                raise TypeError(f"expected an integer constant of class {cls}, got {value}")
            found = self.emit(ptx.imm(value, cls), 0).results[0]
            known[key] = found
            self.definitions[found] = ("imm", value)
        return found

    def value(self, scalar: Scalar, cls: str) -> SSAValue:
        """A scalar as an operand; constant predicates are computed by a comparison."""
        if not isinstance(scalar, _NUMBERS):
            return scalar
        if cls == "pred":
            one = self.imm(1 if scalar else 0, "b32")
            return self._raw("setp.ne.s32", (one, self.imm(0, "b32")))
        return self.imm(scalar, cls)

    def constant(self, value: Scalar) -> int | float | None:
        """The number that a scalar is known to be, or None."""
        # Much faster than to ask for an SSAValue, which is abstract.
        if isinstance(value, _NUMBERS):
            return value
        definition = self.definitions.get(value)
        return definition[1] if definition is not None and definition[0] == "imm" else None

    def definition(self, value: Scalar) -> tuple:
        """The pure instruction that gives a scalar, and its operands, or ()."""
        return () if isinstance(value, _NUMBERS) else self.definitions.get(value, ())

    def is_nonnegative(self, value: Scalar) -> bool:
        return value >= 0 if isinstance(value, _NUMBERS) else value in self.nonnegative

    def assume_nonnegative(self, value: Scalar) -> Scalar:
        if not isinstance(value, _NUMBERS):
            self.nonnegative.add(value)
        return value

    def guard(self, predicate: Scalar) -> SSAValue | None:
        """A predicate as an operand; None where it always holds."""
        return None if predicate is True else self.value(predicate, "pred")

    def _once(self, key: tuple, make: Callable[[], SSAValue]) -> SSAValue:
        """What is computed once, at entry."""
        known = self.levels[0].known
        found = known.get(key)
        if found is None:
            found = known[key] = make()
        return found

    def special(self, name: str) -> SSAValue:
        """A special register, read once at entry."""

        def read() -> SSAValue:
            found = self.result(ptx.SpecialOp(name), 0)
            self.nonnegative.add(found)
            return found

        return self._once(("special", name), read)

    def thread_index(self) -> Scalar:
        """The thread's number in its role, or in the CTA."""
        return self.special("tid.x") if self.thread is None else self.thread

    def warp_index(self) -> SSAValue:
        """The warp's number in the CTA; one lane tells it to all, so that ptxas knows it is one
        number for the warp and keeps what depends on it in uniform registers.
        """

        def read() -> SSAValue:
            shift = ptx.scalar("shr.u32", self.special("tid.x"), self.imm(5, "b32"))
            found = self._of_first_lane(self.result(shift, 0), 0)
            self.nonnegative.add(found)
            return found

        return self._once(("warp_index",), read)

    def uniform(self, value: SSAValue) -> SSAValue:
        """A loaded b32 that is the same in all lanes of a warp. One lane tells it to all: ptxas
        takes what depends on a load for different in each, and moves the descriptors of multiplies
        in a loop of so many trips through a register of each lane before every one.
        """
        if self.thread == 0:  # one lane works for the role
            return value
        return self._of_first_lane(value)

    def _of_first_lane(self, value: SSAValue, level: int | None = None) -> SSAValue:
        """What the first lane of the warp has, computed in the innermost open block or another."""
        zero, clamp, members = (self.imm(each, "b32") for each in (0, 31, 0xFFFFFFFF))
        shuffle = ptx.ShflOp("sync.idx.b32", value, zero, clamp, members)
        return self.result(shuffle, level)

    def mapped(self, address: Scalar, rank: Scalar) -> SSAValue:
        """The same address of shared memory in another CTA of the cluster."""
        operands = (self.value(address, "b32"), self.value(rank, "b32"))
        return self._shared(("mapa", *operands), operands, lambda: ptx.MapaOp(*operands))

    def matrix(self, start: Scalar, described: MatrixDescriptor) -> SSAValue:
        """The descriptor of a matrix in shared memory that starts so many 16 bytes behind 0."""
        wide = self.value(self.pure("cvt.u64.u32", start), "b64")
        key = ("smem_desc", wide, described)
        return self._shared(key, (wide,), lambda: ptx.SmemDescOp(wide, described))

    def smem_base(self) -> SSAValue:
        return self._once(("smem_base",), lambda: self.result(ptx.SmemBaseOp(), 0))

    def smem(self, *terms: Scalar) -> SSAValue:
        """An address in shared memory, so many bytes behind its base."""
        return self.value(self.total([self.smem_base(), *terms]), "b32")

    def pure(self, mnemonic: str, *operands: Scalar) -> Scalar:
        """The value of a pure instruction, simplified, shared and hoisted."""
        simplified = self._simplify(mnemonic, operands)
        if simplified is not None:
            return simplified
        registers = [
            self.value(each, operand_classes(mnemonic, len(operands))[index][0])
            if isinstance(each, _NUMBERS)
            else each
            for index, each in enumerate(operands)
        ]
        return self._raw(mnemonic, tuple(registers))

    def register(self, mnemonic: str, *operands: Scalar) -> SSAValue:
        """The same of an instruction that gives no known number."""
        found = self.pure(mnemonic, *operands)
        assert isinstance(found, SSAValue)
        return found

    add = partialmethod(pure, "add.s32")
    sub = partialmethod(pure, "sub.s32")
    mul = partialmethod(pure, "mul.lo.s32")
    div = partialmethod(pure, "div.u32")
    rem = partialmethod(pure, "rem.u32")
    equal = partialmethod(pure, "setp.eq.s32")

    def _raw(self, mnemonic: str, operands: tuple[SSAValue, ...]) -> SSAValue:
        # Values are told apart by their numbers: to hash one takes two calls.
        return self._shared(
            (mnemonic, *operands),
            operands,
            lambda: ptx.scalar(mnemonic, *operands),
            (mnemonic, *map(id, operands)),
        )

    def _shared(
        self,
        definition: tuple,
        operands: Iterable[SSAValue],
        make: Callable[[], Operation],
        key: tuple = (),
    ) -> SSAValue:
        """What a definition of a pure instruction gives, found by a key, or by itself."""
        key = key or definition
        depth = self.depth
        levels = self.levels
        first = 0
        for operand in operands:
            available = depth.get(operand, 0)
            if available > first:
                first = available
        at = len(levels) - 1
        for i in range(first, at + 1):
            found = levels[i].known.get(key)
            if found is not None:
                return found
        for i in range(at, first, -1):
            if levels[i].is_rare:
                first = i
                break
        for i in range(first + 1, at + 1):
            if levels[i].repeats:
                at = i - 1
                break
        found = self.result(make(), at)
        levels[at].known[key] = found
        self.definitions[found] = definition
        self._note_sign(found, definition)
        return found

    def _note_sign(self, value: SSAValue, key: tuple) -> None:
        """Note where an instruction's result is known not to be negative."""
        operation, type_, _, _ = parse_mnemonic(key[0])
        operands = key[1:]
        match operation:
            case "and" | "max":
                known = any(self._at_least_zero(each) for each in operands)
            case "shr":
                is_unsigned = type_[0] in "ub" and self.constant(operands[1])
                known = operands[0] in self.nonnegative or is_unsigned
            case "div" | "rem":
                is_unsigned = type_[0] == "u" and self.constant(operands[1])
                known = is_unsigned or all(self.is_nonnegative(each) for each in operands)
            case _:
                return
        if known:
            self.nonnegative.add(value)

    def _at_least_zero(self, value: SSAValue) -> bool:
        constant = self.constant(value)
        return value in self.nonnegative if constant is None else constant >= 0

    def has(self, instruction: str) -> bool:
        """Whether the target has one of `capability.INSTRUCTIONS`; without a target, all."""
        return self.chip is None or self.chip.has_instruction(instruction)

    @property
    def pairs_f32(self) -> bool:
        """Whether the target has machine instructions for two f32 at once."""
        return self.chip is not None and self.chip.pairs_f32

    def pack(self, *parts: Scalar, cls: str = "b32") -> SSAValue:
        """One register of class `cls` made of 16-bit parts, low part first."""
        if len(parts) == 2 and cls == "b32":
            first, second = map(self.definition, parts)
            for narrow, pair in _PAIR_CONVERSIONS.items():
                if self.has("cvt.rn.f16x2.f32") and first[:1] == second[:1] == (narrow,):
                    return self._raw(pair, (second[1], first[1]))
            if (
                first[:1] == second[:1] == ("unpack",)
                and first[1] is second[1]
                and (first[2], second[2]) == (0, 1)
            ):
                return first[1]
            low, high = (self._half_of_word(part) for part in parts)
            if low is not None and high is not None:
                selector = _HALVES[low[1]] | _HALVES[high[1]] << 8 | 0x4400
                return self.register("prmt.b32", low[0], high[0], selector)
        registers = tuple(self.value(part, "b16") for part in parts)
        return self._shared(
            (f"pack.{cls}", *registers), registers, lambda: ptx.PackOp(registers, cls)
        )

    def pack_bytes(self, low: Scalar, high: Scalar) -> Scalar:
        """A 16-bit register whose bytes are the low bytes of two."""
        first, second = self.definition(low), self.definition(high)
        if first[:1] == second[:1] and first and first[0] in _BYTE_CONVERSIONS:
            # Each has nothing in the high byte, and the number for the low byte last.
            return self._raw(first[0], (second[2], first[2]))
        if second[:2] == ("shr.u16", low) and self.constant(second[2]) == 8:
            return low
        return self.pure("or.b16", self.pure("and.b16", low, 255), self.pure("shl.b16", high, 8))

    def _half_of_word(self, part: Scalar) -> tuple[Scalar, int] | None:
        """The word that a 16-bit register is a half of, which arithmetic took, and which half."""
        cut = self.definition(part)
        if cut[:1] not in (("cvt.u16.u32",), ("cvt.s16.s32",)):
            return None
        shifted = self.definition(cut[1])
        if shifted[:1] == ("shr.u32",) and self.constant(shifted[2]) == 16:
            return shifted[1], 1
        return cut[1], 0

    def unpack(self, value: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The two 16-bit halves of a 32-bit register, low half first."""
        return self._divided(value, "unpack", "b16")

    def _divided(self, value: SSAValue, how: str, cls: str) -> tuple[SSAValue, SSAValue]:
        """Two registers of half a register's width, once."""
        at = self.level_of(value)
        known = self.levels[at].known
        found = known.get((how, value))
        if found is None:
            op = self.emit(ptx.UnpackOp(value, 2, cls), at)
            found = known[how, value] = op.results[0]
            for half in range(2):
                self.definitions[op.results[half]] = (how, value, half)
        low, high = found.owner.results  # pyright: ignore[reportAttributeAccessIssue]
        return low, high

    def paired(self, low: Scalar, high: Scalar) -> SSAValue:
        """Two f32 as one register of 64 bits, the first in the low one."""
        if isinstance(low, _NUMBERS) and isinstance(high, _NUMBERS):
            return self.register("mov.b64", int.from_bytes(struct.pack("<ff", low, high), "little"))
        first, second = self.definition(low), self.definition(high)
        if (
            first[:1] == second[:1] == ("halves",)
            and first[1] is second[1]
            and (first[2], second[2]) == (0, 1)
        ):
            return first[1]
        registers = tuple(self.value(part, "f32") for part in (low, high))
        return self._shared(("paired", *registers), registers, lambda: ptx.PackOp(registers, "b64"))

    def halves(self, value: SSAValue) -> tuple[SSAValue, SSAValue]:
        """The two f32 of a register of 64 bits, the low one first."""
        return self._divided(value, "halves", "f32")

    def parts(self, register: SSAValue, count: int) -> list[Scalar]:
        """The elements of a register, of 16 bits or bytes, in 16-bit registers, low part first."""
        halves = self.unpack(register) if register.type == ptx.B32 else (register,)
        if len(halves) == count:
            return [*halves]
        return [part for half in halves for part in (half, self.pure("shr.u16", half, 8))]

    def joined(self, parts: Sequence[Scalar], bits: int) -> Scalar:
        """One register of so many bits made of elements in 16-bit registers, low part first."""
        if len(parts) * 16 > bits:
            if self.codes and bits == 32:
                from .packed_codes import packed_codes

                codes = packed_codes(self, parts)
                if codes is not None:
                    return codes
            parts = [self.pack_bytes(*parts[i : i + 2]) for i in range(0, len(parts), 2)]
        return parts[0] if len(parts) == 1 else self.pack(*parts)

    def _simplify(self, mnemonic: str, operands: Sequence[Scalar]) -> Scalar | None:
        operation, type_, _, _ = parse_mnemonic(mnemonic)
        constants = [self.constant(operand) for operand in operands]
        if type_ == "pred":
            return self._simplify_predicate(operation, operands, constants)
        if operation == "selp":
            return self._simplify_selection(operands, constants[2])
        if len(operands) != 2:
            return None
        last = constants[1]
        if operation == "sub.rn" and last == 0 and math.copysign(1, last) > 0:
            return operands[0]
        return self._simplify_integers(mnemonic, operands, constants) if type_[0] in "sub" else None

    def _simplify_integers(
        self, mnemonic: str, operands: Sequence[Scalar], constants: Sequence[int | float | None]
    ) -> Scalar | None:
        operation, _, bits, signed = parse_mnemonic(mnemonic)
        a, b = constants
        if a is not None and b is not None:
            return self._fold(operation, bits, signed, int(a), int(b))
        if a is not None and operation in _COMMUTATIVE:
            return self.pure(mnemonic, operands[1], operands[0])
        if b is not None:
            return self._simplify_right(mnemonic, operands[0], int(b))
        if operation == "sub" and operands[0] is operands[1]:
            return 0
        if operation in ("div", "rem") and bits == 32 and self._divides_often(*operands):
            return self._divide_by_reciprocal(operation, *operands)
        return None

    @staticmethod
    def _simplify_selection(
        operands: Sequence[Scalar], condition: int | float | None
    ) -> Scalar | None:
        if condition is not None:
            return operands[0] if condition else operands[1]
        return operands[0] if operands[0] is operands[1] else None

    def _divides_often(self, x: Scalar, divisor: Scalar) -> bool:
        """Whether a loop divides by what it does not change, both of them not negative."""
        inside = range(self.level_of(divisor) + 1, self.level_of(x) + 1)
        return (
            any(self.levels[level].repeats for level in inside)
            and self.is_nonnegative(x)
            and self.is_nonnegative(divisor)
        )

    def _divide_by_reciprocal(self, operation: str, x: Scalar, divisor: Scalar) -> Scalar:
        """x / d or x % d as a product with floor((2^32 - 1) / d), which leaves the loop.

        The high half of the product is the quotient or one less: x/d - x*m/2^32 < 1 + x/2^32 < 2.
        """
        reciprocal = self.div(0xFFFFFFFF, divisor)
        below = self.pure("mul.hi.u32", x, reciprocal)
        rest = self.sub(x, self.mul(below, divisor))
        short = self.pure("setp.ge.u32", rest, divisor)
        if operation == "div":
            result = self.pure("selp.b32", self.add(below, 1), below, short)
        else:
            result = self.pure("selp.b32", self.sub(rest, divisor), rest, short)
        return self.assume_nonnegative(result)

    def _fold(self, operation: str, bits: int, signed: bool, a: int, b: int) -> Scalar | None:
        if operation.startswith("setp."):
            return _COMPARES[operation[5:]](wrap(a, bits, signed), wrap(b, bits, signed))
        fold = _FOLDS.get(operation)
        if fold is None or (operation in ("div", "rem") and b == 0):
            return None
        if operation == "mul.wide":
            return wrap(a, bits, signed) * wrap(b, bits, signed)
        return wrap(fold(wrap(a, bits, signed), wrap(b, bits, signed)), bits, True)

    def _simplify_right(self, mnemonic: str, x: Scalar, c: int) -> Scalar | None:
        operation, type_, bits, _ = parse_mnemonic(mnemonic)
        if c == _NEUTRAL.get(operation) or (operation == "and" and wrap(c, bits, True) == -1):
            return x
        if c == 0 and operation in _ANNIHILATED:
            return 0
        if operation == "sub":
            return self.pure(f"add.{type_}", x, -c)
        if operation == "add":
            return self._add_to_sum(mnemonic, x, c)
        if c > 0 and c & (c - 1) == 0:
            return self._by_power(mnemonic, x, c)
        return None

    def _add_to_sum(self, mnemonic: str, x: Scalar, c: int) -> Scalar | None:
        """A constant more than a sum that ends in one."""
        inner = None if isinstance(x, _NUMBERS) else self.definition(x)
        if not inner or inner[0] != mnemonic or (more := self.constant(inner[2])) is None:
            return None
        _, _, bits, _ = parse_mnemonic(mnemonic)
        return self.pure(mnemonic, inner[1], wrap(int(more) + c, bits, True))

    def _by_power(self, mnemonic: str, x: Scalar, c: int) -> Scalar | None:
        """Products, quotients and rests by a power of two as shifts and masks."""
        operation, type_, bits, _ = parse_mnemonic(mnemonic)
        power = c.bit_length() - 1
        if operation == "mul.lo":
            return self.pure(f"shl.b{bits}", x, power)
        if operation not in ("div", "rem") or not (type_[0] == "u" or self.is_nonnegative(x)):
            return None
        if operation == "div":
            return self.pure(f"shr.u{bits}", x, power)
        return self.pure(f"and.b{bits}", x, c - 1)

    def _simplify_predicate(
        self, operation: str, operands: Sequence[Scalar], constants: Sequence[int | float | None]
    ) -> Scalar | None:
        if operation == "not":
            return None if constants[0] is None else not constants[0]
        if operation not in ("and", "or"):
            return None
        absorbing = operation == "or"
        for this, other in ((0, 1), (1, 0)):
            if constants[this] is not None:
                return absorbing if bool(constants[this]) == absorbing else operands[other]
        return operands[0] if operands[0] is operands[1] else None

    def both(self, *predicates: Scalar) -> Scalar:
        """The conjunction; the outermost are combined first so that they leave loops."""
        result: Scalar = True
        for each in sorted(predicates, key=self.level_of):
            result = self.pure("and.pred", result, each)
        return result

    def total(self, terms: Iterable[Scalar], type_: str = "s32") -> Scalar:
        """A sum, outermost terms first so that partial sums leave loops; constants come last."""
        result: Scalar = 0
        constant = 0
        for term in sorted(terms, key=self.level_of):
            known = self.constant(term)
            if known is not None:
                constant += int(known)
            else:
                result = self.pure(f"add.{type_}", result, term) if result != 0 else term
        return self.pure(f"add.{type_}", result, constant)

    def widen(self, value: Scalar) -> Scalar:
        """A signed 32-bit value as 64 bits."""
        constant = self.constant(value)
        return self.pure("cvt.s64.s32", value) if constant is None else int(constant)

    def product64(self, value: Scalar, factor: Scalar) -> Scalar:
        """A signed 32-bit value times a 64-bit factor."""
        constant = self.constant(factor)
        if constant is not None and -(1 << 31) <= constant < 1 << 31:
            return self.pure("mul.wide.s32", value, int(constant))
        return self.pure("mul.lo.s64", factor, self.widen(value))


def array_type(array: SSAValue) -> ptx.RegsType:
    """Class and count of an array of registers."""
    type_ = array.type
    assert isinstance(type_, ptx.RegsType)
    return type_
