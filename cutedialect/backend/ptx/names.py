"""Names of PTX registers: unlimited and typed, so that naming is all the allocation there is."""

from __future__ import annotations

import struct

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
