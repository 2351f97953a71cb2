"""What the README shows is what the tools print: its program runs, its excerpts are in the stages.

In an excerpt `...` stands for anything within a line, lines between two shown ones may be left out,
and values and registers may have other names.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "README.md").read_text()


def blocks(language):
    return re.findall(rf"^```{language}\n(.*?)^```", TEXT, re.DOTALL | re.MULTILINE)


@pytest.fixture(scope="module")
def kernel(tmp_path_factory):
    """The kernel that the README's program compiles, once it has run and checked its product."""
    program = "\n".join(blocks("python"))
    path = tmp_path_factory.mktemp("readme") / "readme.py"
    path.write_text(program)
    spec = importlib.util.spec_from_file_location("readme", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.kernel


def nameless(line):
    """A line without the names of values, registers and the comments of the README."""
    line = re.sub(r"\s+// (?!ir:).*", "", line.strip())
    return re.sub(r"%[\w.]+", "%", line)


def assert_shown(excerpt, text):
    """Every line of the excerpt occurs in the text, in order."""
    lines = iter([nameless(line) for line in text.split("\n")])
    for line in excerpt.strip("\n").split("\n"):
        parts = re.split(r"\s*\.\.\.\s*", nameless(line))
        pattern = re.compile(r"\s*.*".join(map(re.escape, parts)))
        shown = any(pattern.fullmatch(each) for each in lines)
        assert shown, f"not in the output, or not here: {line}"


def test_the_roles(kernel):
    roles, host = blocks("mlir")
    assert_shown(roles, kernel.stages["cute-synchronize"])
    assert_shown(host, kernel.stages["cute-synchronize"])


def test_the_ptx(kernel):
    excerpt = next(block for block in blocks("text") if "wgmma" in block)
    assert_shown(excerpt, kernel.ptx)


def test_an_excerpt_that_is_stale_is_noticed(kernel):
    roles, _ = blocks("mlir")
    stage = kernel.stages["cute-synchronize"]
    for old, new in (("bytes = 49152", "bytes = 1"), ("wgmma_fence", "fence"), ("stsm", "copy")):
        with pytest.raises(AssertionError):
            assert_shown(roles.replace(old, new), stage)
    lines = roles.strip("\n").split("\n")
    with pytest.raises(AssertionError):
        assert_shown("\n".join([lines[-1], *lines[:-1]]), stage)


def test_the_passes_are_listed_in_order():
    from cutedialect.passes.cute_to_ptx import pipeline

    rows = re.findall(r"^\| `([\w-]+)` \|", TEXT, re.MULTILINE)
    assert rows == [each.name for each in pipeline("sm_80")]


def test_the_commands_are_all_named():
    from cutedialect.__main__ import COMMANDS

    named = re.search(r"python -m cutedialect ([a-z |]+)$", TEXT, re.MULTILINE)
    assert named
    assert set(named[1].split(" | ")) == set(COMMANDS)
