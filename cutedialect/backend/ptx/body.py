"""The body of a kernel while it is printed: its lines, and what each value is called. A value is a
name or a literal, an array of registers a list of names. Registers are unlimited and typed, so that
naming is all the allocation there is.
"""

from __future__ import annotations

import struct

from xdsl.ir import SSAValue

from cutedialect.atoms import Target
from cutedialect.dialects.ptx import RegType

# The move that copies a register of a class.
MOVES = {
    "pred": "mov.pred",
    "b16": "mov.b16",
    "b32": "mov.b32",
    "b64": "mov.b64",
    "f32": "mov.f32",
    "f64": "mov.f64",
}
TYPED_ZERO = {"f32": "0f00000000", "f64": "0d0000000000000000"}
# Register class to (name prefix, type of its .reg declaration).
PREFIXES = {
    "pred": ("%p", ".pred"),
    "b16": ("%rs", ".b16"),
    "b32": ("%r", ".b32"),
    "b64": ("%rd", ".b64"),
    "b128": ("%q", ".b128"),
    "f32": ("%f", ".f32"),
    "f64": ("%fd", ".f64"),
}


class Body:
    """Lines and names of one kernel for a target; `strings` formats were declared by the kernels
    before it.
    """

    def __init__(self, name: str, strings: int, chip: Target) -> None:
        self.name = name
        self.chip = chip
        self.lines: list[str] = []
        self.names = Names()
        self.values: dict[SSAValue, str] = {}
        self.arrays: dict[SSAValue, list[str]] = {}
        self.declarations: list[str] = []
        self.strings = strings
        self.labels = 0

    def define(self, value: SSAValue) -> str:
        """A new name for a value."""
        name = self.values[value] = self.names.fresh(class_of(value))
        return name

    def register(self, value: SSAValue) -> str:
        """The name of a value where PTX takes no literal."""
        shown = self.values[value]
        return shown if shown.startswith("%") else self.in_register(shown, class_of(value))

    def in_register(self, shown: str, register_class: str) -> str:
        """A new register that holds a literal."""
        name = self.names.fresh(register_class)
        self.lines.append(f"\t{MOVES[register_class]} {name}, {shown};")
        return name

    def guard(self, pred: SSAValue | None) -> str:
        """The predicate before an instruction, if any."""
        return "" if pred is None else f"@{self.values[pred]} "

    def label(self) -> int:
        """A number that no other label of the kernel has."""
        self.labels += 1
        return self.labels


def class_of(value: SSAValue) -> str:
    """The class of a scalar register."""
    type_ = value.type
    assert isinstance(type_, RegType)
    return type_.data


def address(base: str, offset: int) -> str:
    """An address operand."""
    return f"[{base}+{offset}]" if offset else f"[{base}]"


def mask(members: str) -> str:
    """A literal mask of lanes in hexadecimal; a register as it is."""
    return members if members[0] == "%" else f"0x{int(members) & 0xFFFFFFFF:08x}"


class Names:
    """Fresh names by class, and their declarations."""

    def __init__(self) -> None:
        self.counts = dict.fromkeys(PREFIXES, 0)

    def fresh(self, register_class: str) -> str:
        """The next name of a class."""
        number = self.counts[register_class]
        self.counts[register_class] = number + 1
        return f"{PREFIXES[register_class][0]}{number}"

    def array(self, register_class: str, count: int) -> list[str]:
        """Consecutive names."""
        first = self.counts[register_class]
        self.counts[register_class] = first + count
        prefix = PREFIXES[register_class][0]
        return [f"{prefix}{number}" for number in range(first, first + count)]

    def declarations(self) -> list[str]:
        """The `.reg` lines of all classes in use."""
        lines: list[str] = []
        for register_class, count in self.counts.items():
            if count:
                prefix, type_ = PREFIXES[register_class]
                lines.append(f"\t.reg {type_} {prefix}<{count}>;")
        return lines


def literal(value: float, register_class: str) -> str:
    """A constant operand; floats by their bits (PTX ISA 4.5.2)."""
    if register_class == "f32":
        return "0f" + struct.pack(">f", value).hex().upper()
    if register_class == "f64":
        return "0d" + struct.pack(">d", value).hex().upper()
    return str(int(value))
