"""Several devices: four of JAX's CPU, in processes of their own, whose calls come from as many
threads of XLA at one time, and ends of such processes while they are at work.
"""

import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")

ROOT = Path(__file__).parents[2]
START = """
import jax
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec as P
import cutedialect.jax as cj

mesh = Mesh(np.array(jax.devices()), ("x",))
rng = np.random.default_rng(0)
a = rng.integers(-2, 3, (64, 32)).astype(np.float16)
b = rng.integers(-2, 3, (32, 48)).astype(np.float16)
rows, whole = P("x", None), P(None, None)
product = jax.jit(jax.shard_map(cj.gemm, mesh=mesh, in_specs=(rows, whole), out_specs=rows))
"""


def run(code, folder):
    return subprocess.run(
        [sys.executable, "-c", START + code],
        cwd=ROOT,
        env={
            "CUTEDIALECT_CACHE_DIR": str(folder), "CUTEDIALECT_BACKEND": "emulator",
            "PYTHONPATH": str(ROOT), "PATH": "", "JAX_PLATFORMS": "cpu",
            "XLA_FLAGS": "--xla_force_host_platform_device_count=4",
        },
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )  # fmt: skip


def test_a_first_product_on_four_devices(tmp_path):
    done = run("np.testing.assert_array_equal(product(a, b), a @ b)", tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("held = product(a, b)", 0),
        ("product(a, b)", 0),
        ("held = product(a, b); raise SystemExit(3)", 3),
    ],
    ids=["held", "dropped", "failed"],
)
def test_a_process_ends_while_calls_are_at_work(tmp_path, code, status):
    """It would wait for them for ever, and they for Python, if nobody let them end before."""
    done = run(code, tmp_path)
    assert done.returncode == status, done.stderr[-3000:]
