"""docs/blackwell.md: its code runs, and what it shows of the stages of a kernel, of its PTX and of
tensor memory is what the compiler makes.
"""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path

import pytest

from cutedialect import __main__

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "blackwell.md").read_text()


def load(path):
    spec = importlib.util.spec_from_file_location(path.name.replace(".", "_"), path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def kernel():
    """The kernel of the page's first block."""
    scope = {}
    exec(
        compile(re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1], "blackwell.md", "exec"),
        scope,
    )
    return scope["kernel"]


def test_its_code_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = tmp_path / "blackwell.py"
    code.write_text(load(ROOT / ".ci" / "documents.py").program(PAGE))
    load(code)


BLOCKS = re.findall(r"```(?:mlir|text)\n// (\S+)\n(.*?)```", PAGE, re.DOTALL)


@pytest.mark.parametrize("stage", [stage for stage, _ in BLOCKS])
def test_each_line_of_a_stage_is_there_in_order(kernel, stage):
    text = kernel.ptx if stage == "ptx" else kernel.stages[stage]
    lines = [line.strip() for line in text.splitlines()]
    for shown in dict(BLOCKS)[stage].splitlines():
        pattern = re.compile(".*".join(map(re.escape, shown.strip().split("..."))))
        at = next((i for i, line in enumerate(lines) if pattern.match(line)), None)
        assert at is not None, f"{stage}: {shown}"
        del lines[: at + 1]


def test_each_stage_that_changes_the_module_is_shown():
    assert [stage for stage, _ in BLOCKS] == [
        "cute-tile", "cute-partition", "cute-assign-warp-roles", "cute-synchronize", "ptx",
    ]  # fmt: skip


def test_the_map_is_what_the_command_draws(kernel, tmp_path, capsys):
    (tmp_path / "gemm.mlir").write_text(kernel.stages["cute-synchronize"])
    assert __main__.main(["tmem", str(tmp_path / "gemm.mlir")]) == 0
    assert f"```text\n{capsys.readouterr().out}```" in PAGE
