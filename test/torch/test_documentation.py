"""What docs/torch-and-jax.md shows of torch runs."""

import re
from pathlib import Path

import pytest

pytest.importorskip("torch")

TEXT = (Path(__file__).parents[2] / "docs" / "torch-and-jax.md").read_text()
SECTION = TEXT.split("## torch\n")[1].split("## JAX\n")[0]


def test_the_programs_run(tmp_path):
    program = tmp_path / "documented.py"
    program.write_text("\n".join(re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)))
    names = {"__name__": "documented"}
    exec(compile(program.read_text(), str(program), "exec"), names)
    assert names["weight"].grad.any()
