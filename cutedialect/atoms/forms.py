"""Instruction forms: one line of text says how an opcode may be spelled, what its operands are and
which targets have it. `legal` is a search in these lines.

A line is `pattern ; operands ; requirement`. In a pattern `<a|b>` is a choice, `<n=a|b>` a choice
that `<n>` repeats, `[.x]` may be left out. Operands: `d` register, `d_` register or `_`, `r` source
register, `s` register or integer, `f` register or floating-point literal, `h` the same of 16 bits,
`k` of 32 bits, `e` of 64 bits, `q` the same or a special register, `x` register or any literal, `i`
integer, `m` address, `a` address in tensor memory, `m3` address with a vector of three coordinates,
`v4` four registers in braces, `w4` the same with literals, `p` predicate, `u{0,2/0..3}` a pair in
braces of registers or of integers with these values, `y` name, `_` the sink, `r|p` a pair,
`s{0..15}`, `i{24..256:8}`, `i{4,8}` with these values only. A trailing `?` marks operands that may
be left out from there on.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from cutedialect.atoms.statement import (
    Address,
    Immediate,
    Operand,
    Pair,
    Register,
    Sink,
    Symbol,
    Vector,
)

_KINDS = {
    "d": "a register",
    "d_": "a register or _",
    "r": "a register",
    "s": "a register or an integer",
    "f": "a register or a floating-point literal",
    "h": "a 16-bit register or an integer",
    "k": "a 32-bit register or an integer",
    "q": "a register or an integer",
    "e": "a 64-bit register or an integer",
    "x": "a register or a literal",
    "i": "an integer literal",
    "m": "an address",
    "a": "an address",
    "p": "a predicate register",
    "p_": "a predicate register or _",
    "c": "a predicate register or an integer",
    "n": "a register, an integer or a name",
    "g": "a list in parentheses",
    "y": "a name",
    "_": "_",
}
_OPERAND = re.compile(r"(?P<kind>[a-z]_?|_)(?P<count>\d*)(?:\{(?P<range>[^}]*)\})?$")


@dataclass(frozen=True)
class Form:
    """One legal spelling. `macros` of `parse_forms` are already expanded in `pattern`."""

    pattern: str
    operands: tuple[str, ...]
    requires: str

    @cached_property
    def regex(self) -> re.Pattern[str]:
        out: list[str] = []
        for part in re.split(r"(<[^>]*>|\[|\])", self.pattern):
            if part == "[":
                out.append("(?:")
            elif part == "]":
                out.append(")?")
            elif part.startswith("<"):
                name, equals, choices = part[1:-1].rpartition("=")
                if not equals and "|" not in choices:
                    out.append(f"(?P={choices})")
                else:
                    body = "|".join(map(re.escape, choices.split("|")))
                    out.append(f"(?P<{name}>{body})" if equals else f"(?:{body})")
            else:
                out.append(re.escape(part))
        return re.compile("".join(out))

    @cached_property
    def prefix(self) -> str:
        """What every spelling starts with: a cheap test before the regular expression."""
        return re.split(r"[<\[]", self.pattern, maxsplit=1)[0]

    def spells(self, opcode: str) -> bool:
        return opcode.startswith(self.prefix) and self.regex.fullmatch(opcode) is not None

    @cached_property
    def words(self) -> frozenset[str]:
        """Every modifier that may occur in the form."""
        return frozenset(re.split(r"[.<>|\[\]]+", re.sub(r"<\w+=", "<", self.pattern)))

    @cached_property
    def required(self) -> int:
        """Operands that must be there."""
        count = next((i for i, o in enumerate(self.operands) if o.endswith("?")), None)
        return len(self.operands) if count is None else count

    def mismatch(self, operands: tuple[Operand, ...]) -> tuple[int, str]:
        """How many operands fit, and why the next one does not (empty when all do)."""
        for index, (token, operand) in enumerate(zip(self.operands, operands, strict=False)):
            why = _refuse(token.rstrip("?"), operand)
            if why:
                return index, f"operand {index + 1}: {why}"
        if not self.required <= len(operands) <= len(self.operands):
            count = (
                f"{self.required}"
                if self.required == len(self.operands)
                else f"{self.required} to {len(self.operands)}"
            )
            fitting = min(len(operands), len(self.operands))
            return fitting, f"expected {count} operands, got {len(operands)}"
        return len(operands), ""


def parse_forms(text: str, macros: dict[str, str] | None = None) -> list[Form]:
    """The forms of a table; empty lines and lines that start with `#` separate.

    `$name` in a line stands for `macros[name]`.
    """
    forms: list[Form] = []
    for line in text.splitlines():
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if "$" in line:
            line = re.sub(r"\$(\w+)", lambda m: (macros or {})[m[1]], line)
        pattern, operands, requires = (part.strip() for part in line.split(";"))
        forms.append(Form(pattern, tuple(operands.split()), requires))
    return forms


def allowed(spec: str) -> Sequence[int]:
    """The integers of `4,8,16`, `0..15` or `24..256:8`."""
    if ".." not in spec:
        return tuple(int(each) for each in spec.split(","))
    bounds, _, step = spec.partition(":")
    low, high = (int(each) for each in bounds.split(".."))
    return range(low, high + 1, int(step or 1))


def _describe(operand: Operand) -> str:
    match operand:
        case Register(name, negated, minus):
            return f"register {'!' if negated else '-' if minus else ''}{name}"
        case Immediate(_, text):
            return f"literal {text}"
        case Symbol(name, _):
            return f"name {name}"
        case Sink():
            return "_"
        case Vector(elements, _):
            return f"a vector of {len(elements)}"
        case Address(_, rest):
            return f"an address with {len(rest)} more operands" if rest else "an address"
        case Pair(_, _):
            return "a pair with |"


def _refuse(token: str, operand: Operand) -> str:
    """Why `operand` does not fit `token`; empty when it does."""
    if "|" in token:
        first, second = token.split("|")
        if not isinstance(operand, Pair):
            return f"expected a pair {token}, got {_describe(operand)}"
        return _refuse(first, operand.first) or _refuse(second, operand.second)
    parsed = _OPERAND.match(token)
    if parsed is None:
        raise ValueError(f"expected an operand token, got {token!r}")
    kind, count, values = parsed["kind"], parsed["count"], parsed["range"]
    if kind in ("v", "w"):
        return _refuse_vector(kind, int(count), operand)
    if kind == "u":
        return _refuse_selectors(values or "", operand)
    if kind in "ma":
        return _refuse_address(int(count) if count else None, operand)
    if not _is_of(kind, values, operand):
        return f"expected {_KINDS[kind]}, got {_describe(operand)}"
    if (
        isinstance(operand, Immediate)
        and values is not None
        and int(operand.value) not in allowed(values)
    ):
        return f"expected one of {values}, got {operand.text}"
    return ""


def _is_of(kind: str, values: str | None, operand: Operand) -> bool:
    """Whether an operand is of a kind of token, which may list integers."""
    match operand:
        case Register(name, negated, minus):
            is_special = "." in name
            is_plain = not minus and (not negated or kind == "c")
            return is_plain and kind not in "iyg_" and (not is_special or kind in "xq")
        case Immediate(float(), _):
            return kind in "xf"
        case Immediate():
            return kind in "xsihkqecn" or values is not None
        case Symbol():
            return kind in "yn"
        case Vector(_, in_parentheses=True):
            return kind == "g"
        case Sink():
            return kind.endswith("_")
        case _:
            return False


def _refuse_vector(kind: str, count: int, operand: Operand) -> str:
    fits = isinstance(operand, Vector) and not operand.in_parentheses
    if not isinstance(operand, Vector) or not fits or len(operand.elements) != count:
        plural = "register" if count == 1 else "registers"
        return f"expected a vector of {count} {plural}, got {_describe(operand)}"
    for element in operand.elements:
        literal = isinstance(element, Immediate) and kind == "w"
        if not (literal or isinstance(element, (Register, Sink))):
            return f"expected registers in the vector, got {_describe(element)}"
    return ""


def _refuse_selectors(values: str, operand: Operand) -> str:
    specs = values.split("/")
    if not isinstance(operand, Vector) or len(operand.elements) != len(specs):
        return f"expected a vector of {len(specs)} selectors, got {_describe(operand)}"
    for spec, element in zip(specs, operand.elements, strict=True):
        why = _refuse(f"s{{{spec}}}", element)
        if why:
            return f"in the vector {why}"
    return ""


def _refuse_address(coordinates: int | None, operand: Operand) -> str:
    if not isinstance(operand, Address):
        return f"expected an address, got {_describe(operand)}"
    if not isinstance(operand.base, (Register, Symbol)):
        return f"expected an address in a register or a name, got {_describe(operand.base)}"
    if coordinates is None:
        return "" if not operand.rest else "expected an address without coordinates"
    if len(operand.rest) != 1:
        return f"expected an address with a vector of {coordinates} coordinates"
    return _refuse_vector("w", coordinates, operand.rest[0])
