"""Reads a pass pipeline, `cute-tile{tile=64,32 swizzle=false},cse` or the same inside MLIR's
`builtin.module(...)`, into pass objects. A mistake is reported with its column: an unknown pass or
option with the nearest known name, a value of the wrong type with the type that was expected.

    pipeline ::= `builtin.module` `(` list? `)` | list?
    list     ::= item (`,` item)*
    item     ::= name (`{` option* `}`)?
    option   ::= name (`=` value (`,` value)*)?
    value    ::= a quoted string, or anything up to a blank, comma, quote or brace
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Literal, NoReturn, TypeVar, get_args, get_origin, get_type_hints

from xdsl.passes import ModulePass
from xdsl.utils.arg_spec import ArgSpecConvertible
from xdsl.utils.hints import isa, type_repr

from cutedialect.tools.diagnostics import (
    Diagnostic,
    Position,
    ReportedError,
    did_you_mean,
    one_line,
)

_TOKEN = re.compile(
    r"""(?P<blank>\s+)
      | (?P<string>"(?:[^"\\]|\\.)*+"|'(?:[^'\\]|\\.)*+')
      | (?P<punctuation>[,{}()=])
      | (?P<word>[^\s,{}()="']+)""",
    re.VERBOSE | re.DOTALL,
)
_ANCHOR = "builtin.module"
_INTEGER = re.compile(r"[+-]?[0-9]{1,18}$")
_FLOAT = re.compile(r"[+-]?[0-9]+(\.[0-9]*([eE][+-]?[0-9]+)?|[eE][+-]?[0-9]+)$")

_NAMES = {int: "an integer", float: "a number", bool: "true or false", str: "a text"}

_Convertible = TypeVar("_Convertible", bound=ArgSpecConvertible)


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int


@dataclass(frozen=True)
class _Option:
    name: _Token
    values: tuple[_Token, ...]


@dataclass(frozen=True)
class _Item:
    name: _Token
    options: tuple[_Option, ...]


def parse_pipeline(
    text: str, table: Mapping[str, Callable[[], type[ModulePass]]], source: str = "<pass-pipeline>"
) -> tuple[ModulePass, ...]:
    """The passes that `text` names, made from the lazy `table`. Raises `ReportedError` with a
    position in `source` (the name under which `text` is shown).
    """
    reader = _Reader(text, source)
    return tuple(_build(reader, item, table, "pass") for item in reader.pipeline())


def parse_target(
    text: str, table: Mapping[str, Callable[[], type[_Convertible]]], source: str = "<target>"
) -> _Convertible:
    """One `name{options}`, such as the argument of `-t`; raises as `parse_pipeline` does."""
    reader = _Reader(text, source)
    item = reader.item("a target")
    reader.expect_end()
    return _build(reader, item, table, "target")


class _Reader:
    """A cursor over the tokens of one text."""

    def __init__(self, text: str, source: str) -> None:
        self.text = text
        self.source = source
        self.tokens: list[_Token] = []
        position = 0
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                self.fail("expected the string to be closed", position)
            self.tokens.append(_Token(str(match.lastgroup), match[0], position))
            position = match.end()
        self.next = 0

    def fail(self, message: str, start: int, width: int = 1) -> NoReturn:
        line = self.text.count("\n", 0, start) + 1
        column = start - (self.text.rfind("\n", 0, start) + 1) + 1
        position = Position(self.source, line, column)
        raise ReportedError(Diagnostic(message, position, width=width))

    def fail_at(self, message: str, token: _Token) -> NoReturn:
        self.fail(message, token.start, len(token.text))

    def peek(self) -> _Token:
        if self.next < len(self.tokens):
            return self.tokens[self.next]
        return _Token("end", "", len(self.text))

    def take(self) -> _Token:
        token = self.peek()
        self.next += 1
        return token

    def skip_blanks(self) -> None:
        while self.peek().kind == "blank":
            self.next += 1

    def accept(self, punctuation: str) -> bool:
        if self.peek().kind == "punctuation" and self.peek().text == punctuation:
            self.next += 1
            return True
        return False

    def expected(self, what: str) -> NoReturn:
        token = self.peek()
        got = f"'{token.text}'" if token.kind != "end" else "the end"
        self.fail(f"expected {what}, got {got}", token.start, max(1, len(token.text)))

    def expect_end(self) -> None:
        self.skip_blanks()
        if self.peek().kind != "end":
            self.expected("nothing more")

    def pipeline(self) -> list[_Item]:
        self.skip_blanks()
        anchored = False
        if self.peek().text == _ANCHOR:
            self.take()
            self.skip_blanks()
            if not self.accept("("):
                self.expected(f"'(' after '{_ANCHOR}'")
            anchored = True
        items: list[_Item] = []
        self.skip_blanks()
        if not (self.peek().kind == "end" or (anchored and self.peek().text == ")")):
            items.append(self.item("a pass"))
            while self.accept(","):
                items.append(self.item("a pass"))
        if anchored and not self.accept(")"):
            self.expected("',' or ')'")
        if self.peek().kind != "end":
            self.expected("the end of the pipeline" if anchored else "',' or the end")
        return items

    def item(self, what: str) -> _Item:
        self.skip_blanks()
        if self.peek().kind != "word":
            self.expected(what)
        name = self.take()
        if self.peek().text == "(":
            self.fail_at(
                f"expected {what}, got the anchor '{name.text}': passes run on modules", name
            )
        options: list[_Option] = []
        if self.accept("{"):
            self.skip_blanks()
            while not self.accept("}"):
                options.append(self.option())
                separated = self.peek().kind == "blank"
                self.skip_blanks()
                if not separated and self.peek().text != "}":
                    self.expected("a blank or '}' after an option")
        self.skip_blanks()
        return _Item(name, tuple(options))

    def option(self) -> _Option:
        if self.peek().kind != "word":
            self.expected("an option name or '}'")
        name = self.take()
        values: list[_Token] = []
        if self.accept("="):
            values.append(self.value())
            while self.accept(","):
                values.append(self.value())
        return _Option(name, tuple(values))

    def value(self) -> _Token:
        if self.peek().kind not in ("word", "string"):
            self.expected("a value")
        return self.take()


@cache
def _hints(cls: type) -> dict[str, Any]:
    return get_type_hints(cls)


def _build(
    reader: _Reader,
    item: _Item,
    table: Mapping[str, Callable[[], type[_Convertible]]],
    what: str,
) -> _Convertible:
    name = item.name.text
    if name not in table:
        reader.fail_at(f"unknown {what} '{name}'{did_you_mean(name, table)}", item.name)
    cls = table[name]()
    hints = _hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}
    arguments: dict[str, Any] = {}
    for option in item.options:
        key = option.name.text.replace("-", "_")
        if key not in fields:
            spelled = [field.replace("_", "-") for field in fields]
            hint = did_you_mean(option.name.text, spelled) or ("" if fields else "; it has none")
            reader.fail_at(f"{what} '{name}' has no option '{option.name.text}'{hint}", option.name)
        if key in arguments:
            reader.fail_at(f"option '{option.name.text}' is given twice", option.name)
        arguments[key] = _convert(reader, option, hints[key], f"'{name}'")
    for key in cls.required_fields():
        if key not in arguments and key in fields:
            reader.fail_at(
                f"{what} '{name}' needs the option '{key.replace('_', '-')}' "
                f"({_spelled(hints[key])})",
                item.name,
            )
    try:
        return cls(**arguments)
    except Exception as error:
        if isinstance(error, (AttributeError, KeyError, NameError)):
            raise
        reader.fail_at(f"{what} '{name}': {one_line(str(error))}", item.name)


def _convert(reader: _Reader, option: _Option, hint: Any, owner: str) -> Any:
    """The value of an option as `hint` wants it: a scalar, a tuple, or None for a bare name."""
    name = option.name.text
    wanted = _spelled(hint)
    takes_flag = isa(True, hint) and not isa(1, hint)  # a bool is an int to Python
    if not option.values:
        if isa(None, hint):
            return None
        if takes_flag:
            return True
        reader.fail_at(f"option '{name}' of {owner}: expected {wanted}, got no value", option.name)
    values = [_scalars(token) for token in option.values]
    if len(values) == 1:
        for candidate in values[0]:
            if isa(candidate, hint) and (takes_flag or not isinstance(candidate, bool)):
                return candidate
    for reading in (0, -1):  # all as numbers and words, then all as text
        candidate = tuple(readings[reading] for readings in values)
        if _is_tuple(hint) and isa(candidate, hint):
            return candidate
    first, last = option.values[0], option.values[-1]
    text = reader.text[first.start : last.start + len(last.text)]
    reader.fail(
        f"option '{name}' of {owner}: expected {wanted}, got {text}", first.start, len(text)
    )


def _spelled(hint: Any) -> str:
    """A type as a user of the command line understands it."""
    if get_origin(hint) is Literal:
        return " or ".join(str(choice) for choice in get_args(hint))
    arms = [arm for arm in get_args(hint) if arm is not type(None)]
    if type(None) in get_args(hint) and len(arms) == 1:  # left out where it is not given
        return _spelled(arms[0])
    return _NAMES.get(hint) or type_repr(hint)


def _is_tuple(hint: Any) -> bool:
    return get_origin(hint) is tuple or any(get_origin(arm) is tuple for arm in get_args(hint))


def _scalars(token: _Token) -> tuple[Any, ...]:
    """What a value may mean, likeliest first; the last reading is always its text."""
    text = token.text
    if token.kind == "string":
        return (re.sub(r"\\(.)", r"\1", text[1:-1], flags=re.DOTALL),)
    if text in ("true", "false"):
        return (text == "true", text)
    if _INTEGER.match(text):
        return (int(text), float(text), text)
    if _FLOAT.match(text):
        return (float(text), text)
    return (text,)


def pipeline_spelled(passes: Sequence[ModulePass]) -> str:
    """The text of a pipeline, with every option, as `--pass-pipeline` reads it.

    >>> from cutedialect.passes.cute_to_ptx import CuteToPtxPass
    >>> pipeline_spelled([CuteToPtxPass(arch="sm_90a")])
    'builtin.module(cute-to-ptx{arch="sm_90a"})'
    """
    spelled: list[str] = []
    for one in passes:
        options: list[str] = []
        for field in dataclasses.fields(one):
            value: Any = getattr(one, field.name)
            if not field.init or value is None:
                continue
            values: Any = value if isinstance(value, tuple) else (value,)
            text = ",".join(
                f'"{each}"' if isinstance(each, str) else str(each).lower() for each in values
            )
            options.append(f"{field.name.replace('_', '-')}={text}")
        spelled.append(one.name + (f"{{{' '.join(options)}}}" if options else ""))
    return f"builtin.module({','.join(spelled)})"
