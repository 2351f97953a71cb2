"""docs/blackwell-attention.md: its code runs, and what it shows of stages, PTX, tensor memory and
the timeline is what the compiler and the emulator make. `python -m cutedialect tmem` and `timeline`
write the blocks and the picture anew.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from cutedialect import __main__

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "blackwell-attention.md").read_text()
CODE = re.search(r"```python\n(.*?)```", PAGE, re.DOTALL)[1]
BLOCKS = dict(re.findall(r"```(?:mlir|text)\n// (\S+)\n(.*?)```", PAGE, re.DOTALL))


@pytest.fixture(scope="module")
def kernel():
    """The kernel of the page's first block."""
    scope = {}
    compiles = CODE[: CODE.index("out = ")]
    exec(compile(compiles, "blackwell-attention.md", "exec"), scope)
    return scope["kernel"]


@pytest.mark.parametrize("stage", BLOCKS)
def test_each_line_of_a_stage_is_there_in_order(kernel, stage):
    text = kernel.ptx if stage == "ptx" else kernel.stages[stage]
    lines = [line.strip() for line in text.splitlines()]
    for shown in BLOCKS[stage].splitlines():
        pattern = re.compile(".*".join(map(re.escape, shown.strip().split("..."))))
        at = next((i for i, line in enumerate(lines) if pattern.match(line)), None)
        assert at is not None, f"{stage}: {shown}"
        del lines[: at + 1]


def test_each_stage_that_changes_the_module_is_shown():
    assert list(BLOCKS) == [
        "cute-tile", "cute-partition", "cute-assign-warp-roles", "cute-schedule-loops",
        "cute-synchronize", "ptx",
    ]  # fmt: skip


def test_the_map_is_what_the_command_draws(kernel, tmp_path, capsys):
    (tmp_path / "fmha.mlir").write_text(kernel.stages["cute-synchronize"])
    assert __main__.main(["tmem", str(tmp_path / "fmha.mlir")]) == 0
    assert f"```text\n{capsys.readouterr().out}```" in PAGE


@pytest.mark.long
def test_its_code_runs_and_the_timeline_is_what_the_command_draws(tmp_path, capsys):
    (tmp_path / "fmha.py").write_text(CODE)
    out = tmp_path / "fmha.svg"
    assert __main__.main(["timeline", str(tmp_path / "fmha.py"), "-o", str(out)]) == 0
    assert f"```text\n{capsys.readouterr().out}```" in PAGE
    assert out.read_text() == (DOCS / "blackwell-attention.svg").read_text()
