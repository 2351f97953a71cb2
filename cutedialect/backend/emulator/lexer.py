"""PTX text to tokens. Comments vanish except a trailing ``// ir: <text>``, which is kept by
line.
"""

from __future__ import annotations

import re
from typing import Any, NamedTuple

from .errors import EmulatorError

_TOKEN = re.compile(
    r"""
    [ \t\r\f\v]*
  (?: (?P<name>[A-Za-z_$%][\w$]*(?:(?:::|\.)[\w$]+)*)
  | (?P<newline>\n)
  | (?P<comment>//[^\n]*)
  | (?P<block>/\*(?:[^*]|\*(?!/))*\*/)
  | (?P<number>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w)|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
  | (?P<punct>[,;\[\]{}()+\-*/%<>=!|:@&^~?])
  | (?P<directive>\.[A-Za-z_]\w*(?:::\w+)*)
  | (?P<string>"[^"\n]*")
  | (?P<end>\Z)
  | (?P<unknown>.))
    """,
    re.VERBOSE,
)
_IR = re.compile(r"//\s*ir:\s*(.*?)\s*$")


class Token(NamedTuple):
    """``kind`` is name, number, punct, directive, string or end; ``line`` is 1-based."""

    kind: str
    text: str
    line: int


def tokenize(text: str) -> tuple[list[Token], dict[int, str]]:
    """The tokens of ``text`` (an ``end`` token last) and the IR comments by line."""
    tokens: list[Token] = []
    ir: dict[int, str] = {}
    line, append = 1, tokens.append
    # The constructor of a NamedTuple is Python code that takes as long as the match.
    new: Any = tuple.__new__  # type: ignore[misc]
    for match in _TOKEN.finditer(text):
        kind = match.lastgroup or ""
        if kind == "name" or kind == "punct":
            append(new(Token, (kind, match[kind], line)))
        elif kind == "newline":
            line += 1
        elif kind == "comment":
            found = _IR.match(match[kind])
            if found:
                ir[line] = found.group(1)
        elif kind == "block":
            line += match[kind].count("\n")
        elif kind == "unknown":
            start = match.start(kind)
            shown = text[start : start + 12].split("\n", maxsplit=1)[0]
            raise EmulatorError(f"unexpected text {shown!r}", ptx_line=line)
        elif kind != "end":
            append(new(Token, (kind, match[kind], line)))
    append(Token("end", "end of text", line))
    return tokens, ir
