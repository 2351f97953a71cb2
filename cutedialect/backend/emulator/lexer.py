"""PTX text to tokens. Comments vanish except a trailing ``// ir: <text>``, which is kept by
line.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from .errors import EmulatorError

_TOKEN = re.compile(
    r"""
    (?P<newline>\n)
  | (?P<space>[ \t\r\f\v]+)
  | (?P<comment>//[^\n]*)
  | (?P<block>/\*(?:[^*]|\*(?!/))*\*/)
  | (?P<name>[A-Za-z_$%][\w$]*(?:(?:::|\.)[\w$]+)*)
  | (?P<number>0[fF][0-9a-fA-F]{8}(?!\w)|0[dD][0-9a-fA-F]{16}(?!\w)|0[xX][0-9a-fA-F]+U?|0[bB][01]+U?
      |\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+|\d+U?)
  | (?P<punct>[,;\[\]{}()+\-*/%<>=!|:@&^~?])
  | (?P<directive>\.[A-Za-z_]\w*(?:::\w+)*)
  | (?P<string>"[^"\n]*")
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
    line, position, length = 1, 0, len(text)
    match_at, append = _TOKEN.match, tokens.append
    while position < length:
        match = match_at(text, position)
        if match is None:
            shown = text[position : position + 12].split("\n", maxsplit=1)[0]
            raise EmulatorError(f"unexpected text {shown!r}", ptx_line=line)
        kind = match.lastgroup
        position = match.end()
        if kind == "space":
            continue
        if kind == "newline":
            line += 1
        elif kind == "comment":
            found = _IR.match(match.group())
            if found:
                ir[line] = found.group(1)
        elif kind == "block":
            line += match.group().count("\n")
        else:
            append(Token(kind or "", match.group(), line))
    append(Token("end", "end of text", line))
    return tokens, ir
