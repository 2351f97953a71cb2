"""What the benchmark of several devices says of an engine that ends without figures."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_an_engine_that_ends_is_reported_and_the_other_one_runs(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text("import os, signal\nos.kill(os.getpid(), signal.SIGTERM)\n")
    (tmp_path / "jax.py").write_text("raise RuntimeError('no device of this kind')\n")
    file = tmp_path / "figures.json"
    words = ["--device", "cpu", "--json", str(file)]
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.tensor_parallel", *words],
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": os.pathsep.join([str(tmp_path), str(ROOT)])},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "torch: expected figures, got none; it ended with SIGTERM" in done.stdout
    assert "jax: expected figures, got none; it ended with return code 1" in done.stdout
    assert "  RuntimeError: no device of this kind" in done.stdout
    told = json.loads(file.read_text())
    assert told["figures"] == []
    assert [text.partition(":")[0] for text in told["failures"]] == ["torch", "jax"]
