"""A layer that several devices share, as the benchmark has it, on two devices of JAX's CPU."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

ROOT = Path(__file__).parents[2]


def test_two_devices_share_a_layer(tmp_path):
    file = tmp_path / "figures.json"
    words = ["--only", "jax", "--device", "cpu", "--json", str(file)]
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
    shown = {(figure["engine"], figure["case"]) for figure in figures}
    assert shown == {
        (engine, case)
        for engine in ("ours, shard_map", "ours, jit")
        for case in ("mlp", "attention")
    }
    assert all(0 < figure["all_error"] < 0.01 for figure in figures)
