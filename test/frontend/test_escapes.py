"""Statements that leave the body of a condition are found in the source, however it is laid out."""

from __future__ import annotations

import random
import sys
from types import FrameType

import pytest

from cutedialect.frontend.escapes import escape_of

# What may stand in a function without ending it: lines no further in than its first one.
FILLERS = (
    ["# a comment at the margin"],
    ["#", ""],
    ['    text = """first', "second at the margin", '"""'],
    ["    pair = (", "1,", "2)"],
    ["    long = 1 + \\", "2"],
    ["    if one:", "        two = 2"],
)
HEADS = (
    ["def function(here, one=1):"],
    ["@plain", "def function(", "    here,", "    one=1,", "):"],
    ["@plain", "# about it", "@plain", "def function(here,", "one=1):"],
)
BODIES = (
    (["        return"], "return"),
    (["        if one:", "            # first", "            return"], "return"),
    (["        for _ in ():", "            break"], None),
    (["        def inner():", "            return 1"], None),
    (["        two = 2"], None),
)


def plain(function):
    return function


class Here:
    """Keeps the frame that enters it."""

    frame: FrameType | None = None

    def __enter__(self) -> None:
        self.frame = sys._getframe(1)
        self.line = self.frame.f_lineno

    def __exit__(self, *_: object) -> None:
        pass


@pytest.mark.parametrize("indent", [0, 4])
@pytest.mark.parametrize("seed", range(12))
def test_a_return_is_found_in_any_layout(tmp_path, seed: int, indent: int) -> None:
    rng = random.Random(seed)
    lines = ["import sys", "", *rng.choice(HEADS)]
    for _ in range(rng.randint(0, 3)):
        lines += rng.choice(FILLERS)
    body, statement = rng.choice(BODIES)
    lines += ["    with here:", *body, "    three = 3", "", "def behind():", "    return 5"]
    if indent:
        inside = [" " * indent + line if line and line[0] in " @d" else line for line in lines[2:]]
        lines = [*lines[:2], "if True:", *inside]
    path = tmp_path / "program.py"
    path.write_text("\n".join(lines) + "\n")
    names = {"plain": plain}
    exec(compile(path.read_text(), str(path), "exec"), names)
    found: list[str | None] = []

    class Asked(Here):
        def __enter__(self) -> None:
            found.append(escape_of(sys._getframe(1)))

    names["function"](Asked())  # type: ignore[operator]
    line = (
        next(at for at, text in enumerate(lines, 1) if text.strip() == "return") if statement else 0
    )
    assert found == [f"return at line {line}" if statement else None]


def test_a_function_without_source_has_no_escapes() -> None:
    names: dict[str, object] = {}
    exec("def function(here):\n    with here:\n        return", names)
    here = Here()
    names["function"](here)  # type: ignore[operator]
    assert here.frame is not None
    assert escape_of(here.frame) is None
