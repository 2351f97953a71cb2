"""A layer that several devices share, as the benchmark has it, on two processes of a CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")
if not torch.distributed.is_available():
    pytest.skip("torch has no torch.distributed", allow_module_level=True)

ROOT = Path(__file__).parents[2]


def test_two_processes_share_a_layer(tmp_path: Path) -> None:
    file = tmp_path / "figures.json"
    words = ["--only", "torch", "--device", "cpu", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tensor_parallel", *words],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=110,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    figures = json.loads(file.read_text())["figures"]
    assert [(figure["case"], figure["devices"]) for figure in figures] == [
        ("mlp", 2),
        ("attention", 2),
    ]
    assert all(0 < figure["all_error"] < 0.01 for figure in figures)
    assert done.stdout.count("ours, torch") == 2
