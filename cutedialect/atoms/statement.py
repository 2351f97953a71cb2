"""One PTX instruction taken apart: guard, opcode with modifiers, operands by kind. Names are not
looked up: whether `%r1` is declared, and how wide, is for the assembler to say.
"""

from __future__ import annotations

import re
from dataclasses import dataclass


class StatementError(ValueError):
    """The text is not one PTX instruction."""


@dataclass(frozen=True)
class Register:
    """`%r1`, `!%p0`, or with a dot a special register such as `%tid.x`."""

    name: str
    negated: bool = False
    minus: bool = False


@dataclass(frozen=True)
class Immediate:
    """A literal; `value` is an int or, for a floating-point literal, a float."""

    value: int | float
    text: str


@dataclass(frozen=True)
class Symbol:
    """A variable, function or label, with a byte offset."""

    name: str
    offset: int = 0


@dataclass(frozen=True)
class Sink:
    """The bit bucket `_`."""


@dataclass(frozen=True)
class Vector:
    """`{a, b, c}`, or `(a, b)` around the parameters of a call."""

    elements: tuple[Operand, ...]
    in_parentheses: bool = False


@dataclass(frozen=True)
class Address:
    """`[base+8]`, or `[map, {x, y}]` with the vector in `rest`."""

    base: Operand
    rest: tuple[Operand, ...] = ()


@dataclass(frozen=True)
class Pair:
    """`d|p`."""

    first: Operand
    second: Operand


Operand = Register | Immediate | Symbol | Sink | Vector | Address | Pair


@dataclass(frozen=True)
class Statement:
    """`@!%p0 ld.global.b32 %r0, [%rd0];` taken apart. `opcode` is the whole dotted word."""

    opcode: str
    operands: tuple[Operand, ...]
    guard: Register | None = None

    @property
    def family(self) -> str:
        """What stands before the first dot (and before `::`)."""
        return self.opcode.partition(".")[0]


_TOKEN = re.compile(
    r"\s*(?:(?P<float>-?0[fF][0-9a-fA-F]{8}|-?0[dD][0-9a-fA-F]{16}"
    r"|-?(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?|-?\d+[eE][+-]?\d+)"
    r"|(?P<int>-?(?:0[xX][0-9a-fA-F]+|0[bB][01]+|\d+)U?)"
    r"|(?P<name>[%$A-Za-z_][\w$]*(?:(?:\.|::)\w+)*)"
    r"|(?P<punct>[\[\]{}(),;@!|+\-]))"
)
_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)


class _Reader:
    def __init__(self, text: str) -> None:
        self.tokens: list[tuple[str, str]] = []
        at, end = 0, len(text.rstrip())
        while at < end:
            match = _TOKEN.match(text, at)
            if match is None:
                raise StatementError(f"expected a PTX operand, got {text[at:].strip()[:20]!r}")
            kind = match.lastgroup or ""
            self.tokens.append((kind, match[kind]))
            at = match.end()
        self.at = 0

    def peek(self) -> tuple[str, str]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("end", "")

    def take(self, text: str) -> bool:
        if self.peek() == ("punct", text):
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> None:
        if not self.take(text):
            raise StatementError(f"expected '{text}', got {self.peek()[1] or 'the end'!r}")

    def operand(self) -> Operand:
        first = self.single()
        return Pair(first, self.single()) if self.take("|") else first

    def single(self) -> Operand:
        if self.take("{"):
            return Vector(self.listed("}"))
        if self.take("("):
            empty = self.take(")")
            return Vector(() if empty else self.listed(")"), in_parentheses=True)
        if self.take("["):
            base = self.single()
            if isinstance(base, Register):
                self.offset()
            rest = self.listed("]") if self.take(",") else ()
            if not rest:
                self.expect("]")
            return Address(base, rest)
        if self.take("!"):
            inner = self.single()
            if not isinstance(inner, Register):
                raise StatementError("expected a register after '!'")
            return Register(inner.name, negated=True)
        if self.take("-"):
            inner = self.single()
            if not isinstance(inner, Register):
                raise StatementError("expected a register after '-'")
            return Register(inner.name, minus=True)
        kind, text = self.peek()
        self.at += 1
        if kind == "int":
            return Immediate(_integer(text), text)
        if kind == "float":
            return Immediate(_float(text), text)
        if kind != "name":
            raise StatementError(f"expected an operand, got {text or 'the end'!r}")
        if text == "_":
            return Sink()
        if text.startswith("%") or text == "WARP_SZ":
            return Register(text)
        return Symbol(text, self.offset())

    def offset(self) -> int:
        """`+8`, `+-8`, `-8` after a base."""
        if self.take("+"):
            kind, text = self.peek()
            if kind != "int":
                raise StatementError(f"expected a byte offset, got {text or 'the end'!r}")
            self.at += 1
            return _integer(text)
        kind, text = self.peek()
        if kind == "int" and text.startswith("-"):
            self.at += 1
            return _integer(text)
        return 0

    def listed(self, close: str) -> tuple[Operand, ...]:
        items = [self.operand()]
        while self.take(","):
            items.append(self.operand())
        self.expect(close)
        return tuple(items)


def _integer(text: str) -> int:
    text = text.rstrip("U")
    sign = -1 if text.startswith("-") else 1
    digits = text.lstrip("-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        return sign * int(digits, 8)
    return sign * int(digits, 0)


def _float(text: str) -> float:
    import struct

    head = text.lstrip("-")[:2].lower()
    if head in ("0f", "0d"):
        raw = bytes.fromhex(text.lstrip("-")[2:])
        value = struct.unpack(">f" if head == "0f" else ">d", raw)[0]
        return -value if text.startswith("-") else value
    return float(text)


def parse_statement(text: str) -> Statement:
    """One instruction with or without its semicolon; `StatementError` for anything else.

    >>> parse_statement("@!%p0 bar.sync 0, 128;").opcode
    'bar.sync'
    """
    reader = _Reader(_COMMENT.sub(" ", text))
    guard = None
    if reader.take("@"):
        operand = reader.single()
        if not isinstance(operand, Register):
            raise StatementError("expected a predicate register after '@'")
        guard = operand
    kind, opcode = reader.peek()
    if kind != "name" or opcode.startswith("%"):
        raise StatementError(f"expected an instruction, got {opcode or 'the end'!r}")
    reader.at += 1
    operands: list[Operand] = []
    if reader.peek() not in (("end", ""), ("punct", ";")):
        operands.append(reader.operand())
        while reader.take(","):
            operands.append(reader.operand())
    reader.take(";")
    if reader.peek()[0] != "end":
        raise StatementError(f"expected the end of the instruction, got {reader.peek()[1]!r}")
    return Statement(opcode, tuple(operands), guard)
