"""What a scalar mnemonic says about its operands and its result: counts and register classes. The
types of an instruction are those of its modifiers that name one (PTX ISA 5.2); a register agrees
with an instruction type of its width if either is untyped bits (PTX ISA 9.2).
"""

from __future__ import annotations

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
    "e4m3x2": "b16",
    "e5m2x2": "b16",
} | {
    f"{kind}{bits}": {8: "b16", 16: "b16", 32: "b32", 64: "b64"}[bits]
    for kind in "bus"
    for bits in (8, 16, 32, 64)
}

# Classes that an operand of a type may have when they are more than the class of that type.
_ALSO = {"f32": ("b32",), "f64": ("b64",), "b32": ("f32",), "b64": ("f64",), "tf32": ("f32",)}
_PACKED = ("f16x2", "bf16x2", "e4m3x2", "e5m2x2")
_WIDER = {"b16": ("b32", "b64"), "b32": ("b64",)}

# Families whose operands all have the instruction's type, by number of operands.
_UNIFORM = {
    1: "mov neg abs not cnot rcp sqrt rsqrt ex2 lg2 sin cos tanh popc clz brev cvta",
    2: "add sub mul mul24 div rem min max and or xor copysign set",
    3: "fma mad24 sad prmt dp4a",
}
_COUNTS = {family: count for count, names in _UNIFORM.items() for family in names.split()}

Classes = tuple[str, ...]


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
    if family in ("cvt", "set", "slct"):
        return _CLASS_OF_TYPE[types[0]]
    if family in ("popc", "clz"):
        return "b32"
    return _CLASS_OF_TYPE[types[-1]]


@lru_cache(maxsize=1024)
def operand_classes(mnemonic: str) -> tuple[Classes, ...]:
    """For each operand of `family.modifiers`, the register classes that it may have.

    >>> operand_classes("shl.b64")
    (('b64', 'f64'), ('b32',))
    >>> operand_classes("cvt.rn.f16x2.f32")
    (('f32', 'b32'), ('f32', 'b32'))
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
