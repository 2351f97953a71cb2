"""What the site's page in WebAssembly runs: a program on layouts, whose last value is drawn, and
`cute-opt` on a text. Standard Python and xDSL alone; what it can not run there, it says.
"""

from __future__ import annotations

import ast
import contextlib
import io
import json
import shlex
import sys
import traceback
from collections.abc import Callable
from typing import Any

# What a browser has no part of, and where it is found instead.
ABSENT = (
    ("the emulator", "needs ml_dtypes, for which there is no wheel of WebAssembly"),
    ("programs of tiles", "are traced with NumPy and ml_dtypes; the explorer has them"),
    ("machine code", "needs ptxas, a program of its own"),
    ("launches", "need a GPU of NVIDIA and its driver"),
)
_SOURCE = "playground.py"
_TEXT = "playground.mlir"
# Longer output is cut, since a page that shows it stands still.
_MOST_CHARACTERS = 200_000


def run(kind: str, text: str, words: str = "") -> str:
    """The JSON of `text` (what was printed), `svg` (a picture or null), `error` and `absent`, for
    a "program" of Python, or for the IR of "cute-opt" with the words of its command line.
    """
    found = {"program": _program, "cute-opt": _cute_opt}[kind](text, words)
    found["text"] = str(found["text"])[:_MOST_CHARACTERS]
    absent = [f"{what}: {why}" for what, why in ABSENT]
    return json.dumps({"svg": None, "error": "", "absent": absent} | found)


def _program(text: str, words: str) -> dict[str, Any]:
    del words
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("from cutedialect.layout import *", names)

    def execute() -> Any:
        tree = ast.parse(text, _SOURCE)
        last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
        exec(compile(tree, _SOURCE, "exec"), names)
        if not isinstance(last, ast.Expr):
            return None
        return eval(compile(ast.Expression(last.value), _SOURCE, "eval"), names)

    value, printed, error = _captured(execute)
    draw = getattr(value, "_repr_svg_", None)
    shown = printed if value is None or error else f"{printed}{value}\n"
    return {"text": shown, "svg": None if draw is None or error else draw(), "error": error}


def _captured(execute: Callable[[], Any]) -> tuple[Any, str, str]:
    """A value, what was printed, and the error with its line."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            value = execute()
    except SystemExit as exit_:
        return None, printed.getvalue(), f"exit code {exit_.code}" if exit_.code else ""
    except SyntaxError as error:
        return None, printed.getvalue(), f"line {error.lineno}: {error.msg}"
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == _SOURCE
        ]
        place = f"line {lines[-1]}: " if lines else ""
        return None, printed.getvalue(), f"{place}{type(error).__name__}: {error}"
    return value, printed.getvalue(), ""


def _cute_opt(text: str, words: str) -> dict[str, Any]:
    from cutedialect.tools.cute_opt import CuteOpt

    try:
        given = shlex.split(words)
    except ValueError as error:
        return {"text": "", "error": f"options: {error}"}

    before = sys.stdin
    sys.stdin = io.TextIOWrapper(io.BytesIO(text.encode()), encoding="utf-8")

    def execute() -> int:
        return CuteOpt([*given, "-"]).run()

    try:
        code, printed, error = _captured(execute)
    finally:
        sys.stdin = before
    printed = printed.replace("<stdin>", _TEXT)
    return {"text": printed, "error": error or (f"exit code {code}" if code else "")}
