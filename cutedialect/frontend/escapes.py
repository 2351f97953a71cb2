"""Statements that leave a traced body early: `return`, `break` and `continue` under `cute.when`
would be taken whether or not the condition holds. Python does not tell a context how it is left, so
that the source says it, where there is one.
"""

from __future__ import annotations

import ast
import inspect
from functools import lru_cache
from types import CodeType, FrameType

_NESTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_LOOPS = (ast.For, ast.AsyncFor, ast.While)


def escape_of(frame: FrameType) -> str | None:
    """The statement that leaves the `with` at a frame's line, as "return at line 7"; None where
    there is none, or no source.
    """
    for first, last, escape in _withs(frame.f_code):
        if first <= frame.f_lineno <= last:
            return escape
    return None


@lru_cache(maxsize=64)
def _withs(code: CodeType) -> tuple[tuple[int, int, str | None], ...]:
    """The lines of the heads of `with` statements, the innermost first, and what leaves them."""
    try:
        lines, first = inspect.getsourcelines(code)
        # The line in front lets a function stay as far in as it is.
        tree = ast.parse(
            "if True:\n" + "".join(lines) if lines[0][:1].isspace() else "".join(lines)
        )
    except (OSError, SyntaxError, TypeError, IndexError):
        return ()
    shift = first - (2 if lines[0][:1].isspace() else 1)
    found: list[tuple[int, int, str | None]] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.With):
            last = node.body[0].lineno - 1
            found.append(
                (node.lineno + shift, max(node.lineno, last) + shift, _escape(node, shift))
            )
    return tuple(reversed(found))


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
        left += [(child, inner) for child in reversed(list(ast.iter_child_nodes(each)))]
    return None
