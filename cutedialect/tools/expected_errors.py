"""MLIR's `--verify-diagnostics`: comments in the input say which diagnostics it must produce, and
every difference between the two lists is an error.

    // expected-error @+1 {{expected an f16 operand}}
    // expected-note @below {{...}}   @above, @-2, @unknown; without @: this line
    // expected-error-re {{tile {{[0-9]+}} is too large}}   parts in inner braces are patterns
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from cutedialect.tools.diagnostics import Diagnostic, Position, Severity

_COMMENT = re.compile(
    r"expected-(?P<severity>error|warning|remark|note)(?P<regex>-re)?\s*"
    r"(?:@(?P<place>[+-][0-9]{1,9}|above|below|unknown))?\s*\{\{(?P<text>.*)\}\}\s*$"
)
# Something that was meant as an expectation but is not one must not pass in silence.
_MEANT = re.compile(r"//.*\bexpected-(?:error|warning|remark|note)\b")


@dataclass(frozen=True)
class ExpectedDiagnostic:
    """One expectation; `line` is None for @unknown, `position` is that of the comment."""

    severity: Severity
    text: str
    is_regex: bool
    line: int | None
    position: Position

    def matches(self, diagnostic: Diagnostic) -> bool:
        """Whether `diagnostic` is the one expected: kind, line and text."""
        place = diagnostic.position
        if diagnostic.severity != self.severity:
            return False
        if self.line is None:
            if place is not None:
                return False
        elif place is None or place.file != self.position.file or place.line != self.line:
            return False
        if not self.is_regex:
            return self.text in diagnostic.message
        return re.search(_pattern(self.text), diagnostic.message) is not None


def read_expected(text: str, file: str) -> tuple[list[ExpectedDiagnostic], list[Diagnostic]]:
    """The expectations in the comments of `text`, and an error for each one that is misspelt."""
    expected: list[ExpectedDiagnostic] = []
    misspelt: list[Diagnostic] = []
    lines = text.split("\n")
    designators = [_MEANT.search(line) is not None for line in lines]
    for index, line in enumerate(lines):
        if not designators[index]:
            continue
        match = _COMMENT.search(line)
        column = line.index("expected-") + 1
        position = Position(file, index + 1, column)
        if match is None:
            message = "expected 'expected-<kind> @<place> {{text}}' in this comment"
            misspelt.append(Diagnostic(message, position, width=len(line) - column + 1))
            continue
        severity: Severity = match["severity"]  # type: ignore[assignment]
        target = _target_line(match["place"], index, designators)
        regex = match["regex"] is not None
        if regex:
            try:
                re.compile(_pattern(match["text"]))
            except re.error as error:
                misspelt.append(Diagnostic(f"invalid pattern: {error}", position))
                continue
        expected.append(ExpectedDiagnostic(severity, match["text"], regex, target, position))
    return expected, misspelt


def compare(
    expected: Iterable[ExpectedDiagnostic], produced: Iterable[Diagnostic]
) -> list[Diagnostic]:
    """An error for every diagnostic that was not expected and every expectation that was not met;
    notes count like the messages that they belong to.
    """
    pending = list(expected)
    faults: list[Diagnostic] = []
    for diagnostic in _with_notes(produced):
        met = next((one for one in pending if one.matches(diagnostic)), None)
        if met is not None:
            pending.remove(met)
            continue
        faults.append(
            Diagnostic(
                f"unexpected {diagnostic.severity}: {diagnostic.message}",
                diagnostic.position,
                width=diagnostic.width,
            )
        )
    for one in pending:
        where = "without a location" if one.line is None else f"on line {one.line}"
        message = f'expected {one.severity} "{one.text}" {where} was not produced'
        faults.append(Diagnostic(message, one.position))
    return faults


def _with_notes(diagnostics: Iterable[Diagnostic]) -> Iterable[Diagnostic]:
    for diagnostic in diagnostics:
        yield diagnostic
        yield from _with_notes(diagnostic.notes)


def _target_line(place: str | None, index: int, designators: list[bool]) -> int | None:
    """The line (from 1) that the comment on line `index` (from 0) speaks of."""
    match place:
        case None:
            return index + 1
        case "unknown":
            return None
        case "above" | "below":
            # Comments of a group all speak of the same line of code.
            step = -1 if place == "above" else 1
            index += step
            while 0 <= index < len(designators) and designators[index]:
                index += step
            return index + 1
        case _:
            return index + 1 + int(place)


def _pattern(text: str) -> str:
    """A regular expression: literal text with patterns in double braces."""
    pieces = re.split(r"\{\{(.*?)\}\}", text)
    return "".join(
        f"(?:{piece})" if number % 2 else re.escape(piece) for number, piece in enumerate(pieces)
    )
