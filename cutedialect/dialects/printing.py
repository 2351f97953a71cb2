"""IR as text: what xDSL prints, in half of its time. It writes a string character by character, and a
type again for each value that has it.
"""

from __future__ import annotations

import re
from typing import Any

from xdsl.ir import Attribute, Operation
from xdsl.printer import Printer

# What a string literal writes otherwise: quotes, backslashes, and all but printable ASCII.
_ESCAPED = re.compile(rb"[^ -!#-\[\]-~]")


class Parts:
    """A stream that keeps what is written, part by part."""

    def __init__(self) -> None:
        self.parts: list[str] = []
        self.write = self.parts.append

    def text(self) -> str:
        """All that was written."""
        return "".join(self.parts)


class QuickPrinter(Printer):
    """xDSL's printer, whose text is `text()`."""

    def __init__(self, **options: Any) -> None:
        self._out = Parts()
        # The text of an attribute by its identity; the attribute beside it stays alive.
        self._texts: dict[int, tuple[Attribute, str]] = {}
        super().__init__(stream=self._out, **options)  # type: ignore[arg-type]

    def text(self) -> str:
        """What was printed so far."""
        return self._out.text()

    def print_string(self, text: str, *, indent: int | None = None) -> None:
        if "\n" in text:
            super().print_string(text, indent=indent)
        else:
            self._current_column += len(text)
            self._out.write(text)

    def print_bytes_literal(self, bytestring: bytes) -> None:
        shown = _ESCAPED.sub(_escape, bytestring)
        self.print_string(f'"{shown.decode("ascii")}"')

    def print_attribute(self, attribute: Attribute) -> None:
        known = self._texts.get(id(attribute))
        if known is not None:
            self.print_string(known[1])
            return
        parts = self._out.parts
        start = len(parts)
        super().print_attribute(attribute)
        text = "".join(parts[start:])
        # Lines are indented where they stand.
        if "\n" not in text:
            self._texts[id(attribute)] = attribute, text


def _escape(match: re.Match[bytes]) -> bytes:
    byte = match[0]
    return b"\\\\" if byte == b"\\" else b"\\%02X" % byte[0]


def text_of(op: Operation) -> str:
    """`str(op)`."""
    printer = QuickPrinter()
    printer.print_op(op)
    return printer.text()
