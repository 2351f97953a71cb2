"""A position in the tokens of a PTX text, and the constants and constant expressions (PTX ISA 4.5)
that every part of the grammar uses.
"""

from __future__ import annotations

import operator
import struct
from collections.abc import Callable
from typing import NoReturn

from .errors import EmulatorError
from .lexer import Token, tokenize
from .module import Imm

_OPERATORS: dict[str, Callable[[int, int], int]] = {
    "+": operator.add, "-": operator.sub, "|": lambda a, b: a | b, "&": lambda a, b: a & b,
    "^": lambda a, b: a ^ b, "<": lambda a, b: a << (b & 63), ">": lambda a, b: a >> (b & 63),
}  # fmt: skip


class Cursor:
    """``at`` is the index of the next token; ``loc`` the ``file:line`` of the last ``.loc``."""

    def __init__(self, text: str) -> None:
        self.tokens, self.ir = tokenize(text)
        self.at: int = 0
        self.loc: str | None = None

    def fail(self, message: str, token: Token | None = None) -> NoReturn:
        line = (token or self.tokens[self.at]).line
        raise EmulatorError(message, ptx_line=line, ir=self.ir.get(line), python=self.loc)

    @property
    def token(self) -> Token:
        return self.tokens[self.at]

    def peek(self, text: str) -> bool:
        token = self.tokens[self.at]
        return token.text == text and token.kind != "string"

    def accept(self, text: str) -> bool:
        token = self.tokens[self.at]
        if token.text == text and token.kind != "string":
            self.at += 1
            return True
        return False

    def expect(self, text: str) -> Token:
        if not self.peek(text):
            self.fail(f"expected '{text}', got '{self.token.text}'")
        self.at += 1
        return self.tokens[self.at - 1]

    def take(self, kind: str) -> str:
        token = self.token
        if token.kind != kind:
            self.fail(f"expected a {kind}, got '{token.text}'")
        self.at += 1
        return token.text

    def skip_line(self) -> None:
        line = self.token.line
        while self.token.line == line and self.token.kind != "end":
            self.at += 1

    def integer(self) -> int:
        value = self.immediate()
        if value.kind != "int":
            self.fail("expected an integer", self.tokens[self.at - 1])
        return int(value.value)

    def constant(self) -> int:
        """A constant expression of integers."""
        value = self._term()
        while self.token.text in ("+", "-", "<", ">", "|", "&", "^"):
            symbol = self.token.text
            self.at += 1
            if symbol in "<>":
                self.expect(symbol)
            right = self._term()
            value = _OPERATORS[symbol](value, right)
        return value

    def _term(self) -> int:
        value = self._factor()
        while self.token.text in ("*", "/", "%") and self.token.kind == "punct":
            symbol = self.token.text
            self.at += 1
            right = self._factor()
            if symbol != "*" and right == 0:
                self.fail("division by zero in a constant expression")
            value = value * right if symbol == "*" else (
                value // right if symbol == "/" else value % right)  # fmt: skip
        return value

    def _factor(self) -> int:
        if self.accept("("):
            value = self.constant()
            self.expect(")")
            return value
        if self.accept("-"):
            return -self._factor()
        if self.accept("~"):
            return ~self._factor()
        return self.integer()

    def immediate(self) -> Imm:
        sign = -1 if self.accept("-") else 1
        if self.accept("+"):
            sign = 1
        if self.peek("("):
            return Imm("int", sign * self._factor())
        text = self.token.text
        if text == "WARP_SZ":
            self.at += 1
            return Imm("int", 32)
        text = self.take("number")
        head = text[:2].lower()
        if head == "0f" and len(text) == 10:
            return Imm("f32", int(text[2:], 16) ^ (0x80000000 if sign < 0 else 0))
        if head == "0d" and len(text) == 18:
            return Imm("f64", sign * struct.unpack("<d", bytes.fromhex(text[2:])[::-1])[0])
        if head == "0x":
            return Imm("int", sign * int(text.rstrip("U"), 16))
        if head == "0b":
            return Imm("int", sign * int(text.rstrip("U"), 2))
        if "." in text or "e" in text or "E" in text:
            return Imm("f64", sign * float(text))
        digits = text.rstrip("U")
        if digits[0] == "0" and len(digits) > 1:
            if not all(c in "01234567" for c in digits):
                self.fail(f"malformed octal number '{text}'", self.tokens[self.at - 1])
            return Imm("int", sign * int(digits, 8))
        return Imm("int", sign * int(digits))
