"""Statements that leave a traced body early: `return`, `break` and `continue` under `cute.when`
would be taken whether or not the condition holds. Python does not tell a context how it is left, so
that the source says it, where there is one.
"""

from __future__ import annotations

import ast
import dis
import linecache
import re
import sys
from contextlib import suppress
from functools import lru_cache
from types import CodeType, FrameType

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
# The fields of statements, handlers and cases that are lists of such.
_HOLD = ("body", "handlers", "cases", "orelse", "finalbody")
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def escape_of(frame: FrameType) -> str | None:
    """The statement that leaves the `with` at a frame's line, as "return at line 7"; None where
    there is none, or no source.
    """
    if sys.version_info < (3, 14):
        # An instruction is two bytes, of which the first says what it does.
        here = dis.opname[frame.f_code.co_code[frame.f_lasti]]
        if here not in ("BEFORE_WITH", "BEFORE_ASYNC_WITH"):
            return None
    name = frame.f_code.co_filename
    linecache.checkcache(name)
    linecache.lazycache(name, frame.f_globals)
    if _is_plain(linecache.getlines(name), frame.f_lineno):
        return None
    for first, last, node, shift in _withs(frame.f_code):
        if first <= frame.f_lineno <= last:
            return _escape(node, shift)
    return None


def choice_of(frame: FrameType) -> str:
    """What the statement at a frame's line does whose condition Python asks for: "while", "break",
    "return", "if", or "" where there is no source or the condition is part of an expression.
    """
    linecache.checkcache(frame.f_code.co_filename)
    parsed = _parsed(linecache.getlines(frame.f_code.co_filename), frame.f_code.co_firstlineno)
    if parsed is None:
        return ""
    tree, shift = parsed
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        left += _statements(node)
        if not isinstance(node, ast.If | ast.While):
            continue
        first, last = node.test.lineno + shift, (node.test.end_lineno or node.test.lineno) + shift
        if first <= frame.f_lineno <= last:
            is_one = isinstance(node, ast.If) and len(node.body) == 1 and not node.orelse
            kind = type(node.body[0] if is_one else node)
            return _CHOICES.get(kind, "if")
    return ""


_CHOICES: dict[type[ast.AST], str] = {ast.While: "while", ast.Break: "break", ast.Return: "return"}


def _is_plain(lines: list[str], number: int) -> bool:
    """Whether the line is the whole head of a `with` whose body, up to a line that is no further
    in, has no word that could leave it, nor anything by which it could go on behind that line: then
    there is nothing to parse.
    """
    if not 0 < number <= len(lines):
        return False
    head = lines[number - 1]
    code = head.partition("#")[0].strip()
    if not (code.startswith("with ") and code.endswith(":")) or _MAY_GO_ON.search(code):
        return False
    body: list[str] = []
    for line in lines[number:]:
        code = line.lstrip()
        if code and not code.startswith("#") and _depth(line) <= _depth(head):
            break
        body.append(line)
    text = "".join([head, *body])
    pairs = ("()", "[]", "{}")
    return (
        not _LEAVES.search(text)
        and not _MAY_GO_ON.search(text)
        and all(text.count(opens) == text.count(closes) for opens, closes in pairs)
    )


_LEAVES = re.compile(r"\b(?:return|break|continue)\b")
# Strings of many lines, and lines that are joined.
_MAY_GO_ON = re.compile(r"\"\"\"|'''|\\\n")


@lru_cache(maxsize=64)
def _withs(code: CodeType) -> tuple[tuple[int, int, ast.With, int], ...]:
    """The lines of the heads of `with` statements, the innermost first, each with its tree and what
    has to be added to the lines in it.
    """
    parsed = _parsed(linecache.getlines(code.co_filename), code.co_firstlineno)
    if parsed is None:
        return ()
    tree, shift = parsed
    found: list[tuple[int, int, ast.With, int]] = []
    left: list[ast.AST] = [tree]
    while left:
        node = left.pop()
        if isinstance(node, ast.With):
            last = node.body[0].lineno - 1
            found.append((node.lineno + shift, max(node.lineno, last) + shift, node, shift))
        left += _statements(node)
    return tuple(sorted(found, key=lambda each: each[0], reverse=True))


def _statements(node: ast.AST) -> list[ast.AST]:
    """The statements that one holds, without the many expressions in it; handlers and cases hold
    others.
    """
    return [each for name in _HOLD for each in getattr(node, name, ())]


def _parsed(lines: list[str], first: int) -> tuple[ast.AST, int] | None:
    """The statement that begins at a line, and what has to be added to the lines in its tree.

    It goes on to a line that is no further in. Where it does not end there, as at the bracket that
    closes its arguments or in a string of many lines, it goes on to the next such line.
    """
    if not 0 < first <= len(lines):
        return None
    start = lines[first - 1]
    depth = _depth(start)
    # The line in front lets a function stay as far in as it is.
    text, shift = ("if True:\n", first - 2) if depth else ("", first - 1)
    text += start
    for line in [*lines[first:], ""]:
        is_code = line.strip() and not line.lstrip().startswith("#")
        if not line or (is_code and _depth(line) <= depth):
            with suppress(SyntaxError):
                return ast.parse(text), shift
        text += line
    return None


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())


def _escape(node: ast.With, shift: int) -> str | None:
    """The first statement of a body that leaves it."""
    left: list[tuple[ast.AST, bool]] = [(each, False) for each in reversed(node.body)]
    while left:
        each, in_loop = left.pop()
        if isinstance(each, _NESTED):
            continue
        if isinstance(each, ast.Return):
            return f"return at line {each.lineno + shift}"
        if isinstance(each, ast.Break | ast.Continue) and not in_loop:
            return f"{type(each).__name__.lower()} at line {each.lineno + shift}"
        inner = in_loop or isinstance(each, _LOOPS)
        left += [(child, inner) for child in reversed(_statements(each))]
    return None
