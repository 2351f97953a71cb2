"""What a scalar mnemonic says about its operands and its result: counts and register classes. The
types of an instruction are those of its modifiers that name one (PTX ISA 5.2); a register agrees
with an instruction type of its width if either is untyped bits (PTX ISA 9.2).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

from xdsl.utils.exceptions import VerifyException

_CLASS_OF_TYPE = {
    "pred": "pred",
    "f32": "f32",
    "f64": "f64",
    "tf32": "b32",
    "f16": "b16",
    "bf16": "b16",
    "f16x2": "b32",
    "bf16x2": "b32",
    "f32x2": "b64",
    "e4m3x2": "b16",
    "e5m2x2": "b16",
    "e2m3x2": "b16",
    "e3m2x2": "b16",
    "ue8m0x2": "b16",
} | {
    f"{kind}{bits}": {8: "b16", 16: "b16", 32: "b32", 64: "b64"}[bits]
    for kind in "bus"
    for bits in (8, 16, 32, 64)
}

# Classes that an operand of a type may have when they are more than the class of that type.
_ALSO = {"f32": ("b32",), "f64": ("b64",), "b32": ("f32",), "b64": ("f64",), "tf32": ("f32",)}
_PACKED = ("f16x2", "bf16x2", "e4m3x2", "e5m2x2", "e2m3x2", "e3m2x2", "ue8m0x2")
_WIDER = {"b16": ("b32", "b64"), "b32": ("b64",)}

# Families whose operands all have the instruction's type, by number of operands.
_UNIFORM = {
    1: "mov neg abs not cnot rcp sqrt rsqrt ex2 lg2 sin cos tanh popc clz brev cvta",
    2: "add sub mul mul24 div rem min max and or xor copysign",
    3: "fma mad24 sad prmt dp4a",
}
_COUNTS = {family: count for count, names in _UNIFORM.items() for family in names.split()}

# Numbers of f32 of which one instruction finds the largest (PTX ISA 9.7.3, sm_100).
_MOST_COMPARED = 3

Classes = tuple[str, ...]
_SHAPE = re.compile(r"m(\d+)n(\d+)k(\d+)")


@lru_cache(maxsize=1024)
def result_class(mnemonic: str) -> str:
    """Register class of the result of `family.modifiers`.

    >>> result_class("mul.wide.u32"), result_class("setp.lt.s32"), result_class("cvt.f32.f16")
    ('b64', 'pred', 'f32')
    """
    family, modifiers, types = _parts(mnemonic)
    if family == "setp":
        return "pred"
    if family in ("mul", "mad") and "wide" in modifiers:
        return _widened(mnemonic, types[-1])
    if family in ("cvt", "slct"):
        return _CLASS_OF_TYPE[types[0]]
    if family in ("popc", "clz"):
        return "b32"
    return _CLASS_OF_TYPE[types[-1]]


@lru_cache(maxsize=1024)
def operand_classes(mnemonic: str, count: int | None = None) -> tuple[Classes, ...]:
    """For each operand of `family.modifiers`, the register classes that it may have. Where a form
    with `count` operands is one of several (`max` of two or three f32), those of that one.

    >>> operand_classes("shl.b64")
    (('b64', 'f64'), ('b32',))
    >>> operand_classes("cvt.rn.f16x2.f32")
    (('f32', 'b32'), ('f32', 'b32'))
    >>> len(operand_classes("max.NaN.f32")), len(operand_classes("max.NaN.f32", 3))
    (2, 3)
    """
    family, modifiers, types = _parts(mnemonic)
    last = types[-1]
    own = _accepted(last)
    bits, predicate = ("b32",), ("pred",)
    match family:
        case "mad" if "wide" in modifiers:
            return own, own, (_widened(mnemonic, last),)
        case "mad":
            return own, own, own
        case "shl" | "shr":
            return own, bits
        case "shf":
            return own, own, bits
        case "bfe":
            return own, bits, bits
        case "bfi":
            return own, own, bits, bits
        case "lop3":
            return own, own, own, bits
        case "selp":
            return own, own, predicate
        case "slct":
            first = _accepted(types[0])
            return first, first, own
        case "setp":
            combines = any(name in modifiers for name in ("and", "or", "xor"))
            return (own, own, predicate) if combines else (own, own)
        case "cvt":
            first = types[0]
            if last[0] in "us":
                own = own + _WIDER.get(own[0], ())
            return (own, own) if first in _PACKED and last == "f32" else (own,)
        case "createpolicy":
            return (("f32",),)
        case "min" | "max" if last == "f32" and count == _MOST_COMPARED:
            return (own,) * _MOST_COMPARED
        case _:
            return (own,) * _COUNTS[family]


def _parts(mnemonic: str) -> tuple[str, list[str], list[str]]:
    family, *modifiers = mnemonic.split(".")
    types = [modifier for modifier in modifiers if modifier in _CLASS_OF_TYPE]
    if not types:
        raise VerifyException(f"expected a type in the modifiers of {family}, got '{mnemonic}'")
    return family, modifiers, types


def _accepted(type_: str) -> Classes:
    return (_CLASS_OF_TYPE[type_], *_ALSO.get(type_, ()))


def _widened(mnemonic: str, type_: str) -> str:
    widths = {"u16": "b32", "s16": "b32", "u32": "b64", "s32": "b64"}
    if type_ not in widths:
        raise VerifyException(f"expected a wide product of u16, s16, u32 or s32, got '{mnemonic}'")
    return widths[type_]


_ELEMENTS = {"v2": 2, "v4": 4, "v8": 8, "x1": 1, "x2": 2, "x4": 4}


@lru_cache(maxsize=256)
def vector_length(mnemonic: str) -> int:
    """Registers that one memory instruction moves.

    >>> vector_length("ld.global.v4.b32"), vector_length("ld.shared.b32")
    (4, 1)
    """
    return next((_ELEMENTS[part] for part in mnemonic.split(".") if part in _ELEMENTS), 1)


@lru_cache(maxsize=256)
def memory_classes(mnemonic: str) -> Classes:
    """Register classes that a memory instruction moves; integers and bits may be wider than what
    a load or store moves (PTX ISA 9.4.1).

    >>> memory_classes("ld.global.u8")
    ('b16', 'b32', 'b64')
    """
    family, _, types = _parts(mnemonic)
    if family in ("ldmatrix", "stmatrix"):
        return ("b32",)
    last = types[-1]
    own = _accepted(last)
    if family in ("ld", "st") and last[0] in "bus" and last[1:].isdigit():
        own += _WIDER.get(own[0], ())
    return own


_ELEMENT_BITS = {"f32": 32, "s32": 32, "f64": 64, "tf32": 32, "f16": 16, "bf16": 16, "b1": 1}
_ELEMENT_BITS |= {"s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "s4": 4, "u4": 4}
# Floats of 6 bits stand in bytes. So do those of 4, but in products of this depth.
_ELEMENT_BITS |= {"e3m2": 8, "e2m3": 8, "e2m1": 8}
_PAIRED, _PAIRED_DEPTH = "e2m1", 64


@lru_cache(maxsize=64)
def mma_counts(mnemonic: str) -> tuple[int, int, int] | None:
    """Registers of C, A and B that each lane gives to a dense `mma` (PTX ISA 9.7.14.5); None for
    a form whose fragments are not spread evenly over the 32 lanes.

    >>> mma_counts("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    (4, 4, 2)
    """
    parts = mnemonic.split(".")
    shape = next((found for part in parts if (found := _SHAPE.fullmatch(part))), None)
    types = [part for part in parts if part in _ELEMENT_BITS]
    if shape is None or len(types) < 4:
        return None
    m, n, k = map(int, shape.groups())
    if (m, n, k) == (8, 8, 4) and types[1] == "f16":
        return None
    bits = [4 if (x, k) == (_PAIRED, _PAIRED_DEPTH) else _ELEMENT_BITS[x] for x in types[:3]]
    registers = [
        max(1, rows * columns * each // (32 * max(32, each)))
        for (rows, columns), each in zip(((m, n), (m, k), (n, k)), bits, strict=True)
    ]
    return registers[0], registers[1], registers[2]


@dataclass(frozen=True)
class WgmmaForm:
    """What a `wgmma.mma_async` says about its operands: accumulators of each lane and their class,
    and how many immediates for signs and for majors (of A and B) it takes.
    """

    registers: int
    register_class: str
    signs: int
    majors: int


@lru_cache(maxsize=256)
def wgmma_form(mnemonic: str) -> WgmmaForm:
    """The form of a dense `wgmma.mma_async` (PTX ISA 9.7.15.5.2).

    >>> wgmma_form("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16")
    WgmmaForm(registers=128, register_class='f32', signs=2, majors=2)
    """
    parts = mnemonic.split(".")
    shape = next((found for part in parts if (found := _SHAPE.fullmatch(part))), None)
    types = [part for part in parts if part in _ELEMENT_BITS]
    if shape is None or len(types) != 3:
        raise VerifyException(
            f"expected a shape and the types of D, A and B in the modifiers, got '{mnemonic}'"
        )
    m, n, k = map(int, shape.groups())
    depth = 256 // _ELEMENT_BITS[types[1]]
    if (m, k) != (64, depth) or n % 8 or not 8 <= n <= 256:
        raise VerifyException(
            f"expected a shape m64nNk{depth} for {types[1]}, N a multiple of 8 in 8..256, got "
            f"{shape.group()}"
        )
    halves = types[0] == "f16"
    return WgmmaForm(
        registers=n // 4 if halves else n // 2,
        register_class="f32" if types[0] == "f32" else "b32",
        signs=0 if types[0] == "s32" else 2,
        majors=2 if types[1] in ("f16", "bf16") else 0,
    )


# Registers of `.x1` of the shapes of `tcgen05.ld` and `st`.
_TMEM = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4}


@lru_cache(maxsize=128)
def tmem_registers(modifiers: str) -> int:
    """Registers that one `tcgen05.ld` or `st` moves for each thread (PTX ISA 9.7.16.8).

    >>> tmem_registers("sync.aligned.16x256b.x8.b32")
    32
    """
    parts = modifiers.split(".")
    each = next((_TMEM[part] for part in parts if part in _TMEM), None)
    times = next((int(part[1:]) for part in parts if re.fullmatch(r"x\d+", part)), 0)
    if each is None or times not in (1, 2, 4, 8, 16, 32, 64, 128) or times * each > 128:
        raise VerifyException(
            f"expected a shape ({', '.join(_TMEM)}) and .xN of at most 128 registers, got "
            f"'{modifiers}'"
        )
    return each * times
