"""Kernels whose CTAs start while the launch in front of theirs ends (`early_launch = yes`)."""

import re

import numpy as np
import pytest

import cutedialect as cute

# Whatever reads or writes global memory.
_GLOBAL = re.compile(r"\b(?:ld\.global|st\.global|atom\.|red\.|cp\.async|cp\.reduce|multimem)")
_RNG = np.random.default_rng(22)


@pytest.mark.parametrize(
    ("arch", "schedule"),
    [
        ("sm_90a", "tile = (64,64,64), cluster = (1,1), roles = specialized"),
        ("sm_90a", "tile = (128,64,64), cluster = (2,1), roles = specialized"),
        ("sm_90a", "tile = (64,64,64), roles = alternate, split_k = 3"),
        ("sm_90a", "tile = (64,64,32), roles = uniform"),
        ("sm_100a", "tile = (128,64,64), roles = specialized"),
    ],
)
def test_memory_is_touched_behind_the_wait(arch, schedule):
    m, n, k = (int(each) for each in _RNG.integers(1, 30, 3) * 8)
    a = _RNG.integers(-2, 3, (m, k)).astype(np.float16)
    b = _RNG.integers(-2, 3, (k, n)).astype(np.float16)
    schedule += ", early_launch = yes"
    check_touches(cute.compile(cute.gemm, a, b, arch=arch, schedule=schedule, out_dtype="f32").ptx)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("batch", "heads", "rows", "depth", "options"),
    [
        (9, 20, 26, 96, {"causal": True}),
        (1, 59, 310, 256, {"window": (19, 0)}),
        (2, 53, 65, 192, {}),
        (16, 16, 128, 64, {"causal": True}),
        (1, 40, 401, 128, {}),
        (3, 16, 667, 64, {"causal": True}),
    ],
)
def test_short_attention_starts_early_and_touches_memory_behind_the_wait(
    batch, heads, rows, depth, options
):
    q = cute.TensorSpec((batch, heads, rows, depth), "bf16")
    kernel = cute.compile(cute.attention, q, q, q, out=q, arch="sm_90a", **options)
    check_touches(kernel.ptx)


def test_long_attention_does_not_start_early():
    q = cute.TensorSpec((4, 16, 4096, 128), "bf16")
    kernel = cute.compile(cute.attention, q, q, q, out=q, arch="sm_90a")
    assert "griddepcontrol" not in kernel.ptx


def check_touches(ptx):
    body = ptx[ptx.index("{") :]
    lines = [line.split("//")[0].strip() for line in body.splitlines()]
    (wait,) = [at for at, line in enumerate(lines) if line.startswith("griddepcontrol.wait")]
    (start,) = [at for at, line in enumerate(lines) if "griddepcontrol.launch" in line]
    touches = [at for at, line in enumerate(lines) if _GLOBAL.search(line)]
    assert start < wait < min(touches)
    # Barriers are made while the launch in front is at work, and no thread goes around the wait.
    made = [at for at, line in enumerate(lines) if line.startswith("mbarrier.init")]
    assert all(at < wait for at in made)
    targets = re.findall(r"\bbra (\S+);", "\n".join(lines[:wait]))
    assert all(f"{target}:" in lines[:wait] for target in targets)


@pytest.mark.parametrize(
    "schedule", ["tile = (64,64,64), roles = specialized", "tile = (64,32,64)"]
)
def test_products_are_the_same(schedule):
    a = _RNG.integers(-2, 3, (72, 200)).astype(np.float16)
    b = _RNG.integers(-2, 3, (200, 40)).astype(np.float16)
    options = {"out_dtype": "f32", "arch": "sm_90a", "backend": "emulator"}
    made = cute.gemm(a, b, schedule=f"{schedule}, early_launch = yes", **options)
    np.testing.assert_array_equal(made, a.astype(np.float32) @ b.astype(np.float32))


def test_targets_without_it_refuse():
    a = np.zeros((64, 64), np.float16)
    with pytest.raises(cute.CompileError, match="expected a target from sm_90 on"):
        cute.compile(cute.gemm, a, a, arch="sm_80", schedule="early_launch = yes")
