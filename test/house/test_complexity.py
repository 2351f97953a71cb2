"""No function of the package is above the complexity that a reader follows in one go."""

from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[2] / "cutedialect"
# McCabe's number as radon counts it: branches, boolean operators, comprehensions.
MOST = 20


def test_no_function_is_above_the_bound() -> None:
    complexity = pytest.importorskip("radon.complexity")
    above = [
        f"{path.relative_to(PACKAGE.parent)}:{block.lineno} {block.name}: {block.complexity}"
        for path in sorted(PACKAGE.rglob("*.py"))
        for block in _functions(complexity.cc_visit(path.read_text(encoding="utf-8")))
        if block.complexity > MOST
    ]
    assert not above, "\n".join(above)


def _functions(blocks: list) -> list:
    """The functions and methods among blocks; a class counts by its methods."""
    return [block for block in blocks if block.letter != "C"]


def test_the_bound_is_of_branches() -> None:
    complexity = pytest.importorskip("radon.complexity")
    branches = (f"    if x == {number}:\n        return {number}\n" for number in range(MOST))
    text = "def many(x):\n" + "".join(branches)
    (block,) = _functions(complexity.cc_visit(text))
    assert block.complexity == MOST + 1
