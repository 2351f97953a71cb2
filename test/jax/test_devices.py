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


SHARDED = """
import re
import jax.numpy as jnp
mesh = Mesh(np.array(jax.devices()).reshape(2, 2), ("x", "y"))

def put(array, *spec):
    return jax.device_put(array, NamedSharding(mesh, P(*spec)))

def parted(function, *arrays, shape, spec, gathers=0):
    \"\"\"The result of a function whose calls of kernels are for parts of a shape.\"\"\"
    compiled = jax.jit(function).lower(*arrays).compile()
    text = compiled.as_text()
    calls = re.findall(r"= .?f\\d+\\[([\\d,]*)\\]\\S* custom-call\\([^\\n]*cutedialect_call", text)
    assert calls == [shape], (calls, shape)
    assert len(re.findall(r"all-gather\\(", text)) == gathers, text
    result = compiled(*arrays)
    assert result.sharding.spec == P(*spec), result.sharding
    return np.asarray(result)
"""


def test_sharded_products_stay_in_parts(tmp_path):
    code = """
stacked = np.stack([a] * 4)
same, exact = np.testing.assert_array_equal, a.astype(float) @ b
rows, columns, depth = put(a, "x"), put(b, None, "y"), put(a, None, "x")
same(parted(cj.gemm, rows, b, shape="32,48", spec=("x",)), exact)
same(parted(cj.gemm, rows, columns, shape="32,24", spec=("x", "y")), exact)
batch = put(stacked, ("x", "y"))
same(parted(cj.gemm, batch, b, shape="1,64,48", spec=(("x", "y"),)), stacked.astype(float) @ b)
same(parted(cj.gemm, depth, b, shape="64,48", spec=(), gathers=2), exact)
wide = lambda a, b, c: cj.gemm(a, b, bias=c, activation="relu")
biased = parted(wide, a, columns, put(b[0], "y"), shape="64,24", spec=(None, "y"))
same(biased, np.maximum(exact + b[0], 0))
result = cj.gemm(rows, b)  # outside of jit
assert result.sharding.spec == P("x")
same(result, exact)
total = lambda a, b: cj.gemm(a, b).astype(jnp.float32).sum()
same(jax.jit(jax.grad(total))(rows, b), np.ones_like(exact) @ b.T)
same(jax.vmap(cj.gemm, in_axes=(0, None))(stacked, b), stacked.astype(float) @ b)
"""
    done = run(SHARDED + code, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_problems_of_lists_stay_in_parts(tmp_path):
    """Each in its own way; the depth of one is gathered."""
    code = """
as_ = [put(a, "x"), put(a[:12]), put(a[:8], None, "x")]
bs = [put(b), put(b[:, :16], None, "y"), put(b[:, :8])]
function = jax.jit(lambda as_, bs: cj.grouped_gemm(as_, bs, activation="relu"))
compiled = function.lower(as_, bs).compile()
text = compiled.as_text()
(call,) = re.findall(r"= \\((.*?)\\) custom-call\\([^\\n]*cutedialect_call", text)
assert re.findall(r"f16\\[([\\d,]*)\\]", call) == ["32,48", "12,8", "8,8"], call
assert "all-gather(" in text
results = compiled(as_, bs)
specs = P("x"), P(None, "y"), P()
for result, left, right, spec in zip(results, as_, bs, specs, strict=True):
    exact = np.maximum(np.asarray(left).astype(float) @ np.asarray(right), 0)
    np.testing.assert_array_equal(result, exact)
    assert result.sharding.is_equivalent_to(NamedSharding(mesh, spec), 2), result.sharding
total = lambda as_, bs: sum(x.astype(jnp.float32).sum() for x in cj.grouped_gemm(as_, bs))
for gradient, left, right in zip(jax.jit(jax.grad(total))(as_, bs), as_, bs, strict=True):
    ones = np.ones((left.shape[0], right.shape[1]))
    np.testing.assert_array_equal(gradient, ones @ np.asarray(right).astype(float).T)
"""
    done = run(SHARDED + code, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_scales_of_rows_are_whole(tmp_path):
    code = """
small = (a.astype(jnp.float8_e4m3fn), b.astype(jnp.float8_e4m3fn))
scale = np.arange(1, 65, dtype=np.float32).reshape(64, 1)
scaled = lambda a, b, s: cj.gemm(a, b, scale_a=s, out_dtype="f32", arch="sm_89")
given = put(small[0], "x"), small[1], scale
exact = (a.astype(float) @ b) * scale
result = jax.jit(scaled)(*given)
np.testing.assert_array_equal(result, exact)
"""
    done = run(SHARDED + code, tmp_path)
    assert done.returncode == 0, done.stderr[-3000:]


def test_sharded_attention_stays_in_parts(tmp_path):
    """By sequences and by heads, of which several share keys; rows of which a mask counts are
    brought together.
    """
    code = """
q = rng.integers(-2, 3, (2, 4, 16, 16)).astype(np.float16) / 4
k = rng.integers(-2, 3, (2, 2, 16, 16)).astype(np.float16) / 4
masked = lambda q, k: cj.attention(q, k, k, causal=True)
exact = masked(q, k)
close = lambda result: np.testing.assert_allclose(result, exact, atol=1e-3)
both = put(q, "x", "y"), put(k, "x", "y")
close(parted(masked, *both, shape="1,2,16,16", spec=("x", "y")))
close(parted(masked, put(q, None, "y"), k, shape="2,2,16,16", spec=(None, "y")))
close(jax.jit(masked)(put(q, None, ("x", "y")), k))
close(jax.jit(masked)(put(q, None, None, "x"), k))
"""
    done = run(SHARDED + code, tmp_path)
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
