"""What docs/torch-and-jax.md shows of JAX runs."""

import re
from pathlib import Path

import pytest

pytest.importorskip("jax")

TEXT = (Path(__file__).parents[2] / "docs" / "torch-and-jax.md").read_text()
SECTION = TEXT.split("## JAX\n")[1]


def test_the_program_runs(tmp_path):
    program = tmp_path / "documented.py"
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)))
    names = {"__name__": "documented"}
    exec(compile(program.read_text(), str(program), "exec"), names)
    assert names["step"](names["weight"], names["x"]).any()
