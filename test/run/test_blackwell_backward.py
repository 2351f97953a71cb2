"""The gradients of attention on sm_100a: scores, slopes and gradients in tensor memory, and a role
that adds the gradients of queries to memory.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from benchmarks.attention_gradients import ALLOWED, gradients, shares

# Heads of 128 columns take all columns of tensor memory, those of 64 leave some.
DEPTHS = {64: (), 128: ("dQ over dP",)}
ROWS, STAGES = 128, 2


def compiled(depth: int, heads: int = 8, **options: Any) -> Any:
    rows = cute.TensorSpec((2, 8, 4096, depth), "bf16")
    keys = cute.TensorSpec((2, heads, 4096, depth), "bf16")
    sums = cute.TensorSpec((2, 8, 4096), "f32")
    call = rows, rows, keys, keys, rows, sums
    return cute.compile(cute.attention_backward, *call, arch="sm_100a", **options)


def roles(kernel: Any) -> dict[str, str]:
    """The programs of the roles of the kernel that multiplies most, by name."""
    text = kernel.stages["cute-synchronize"].split("@key_gradients")[1]
    parts = re.split(r'pipeline\.role "(\w+)"', text)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


@pytest.mark.parametrize("depth", DEPTHS)
def test_each_role_does_its_part(depth):
    found = roles(compiled(depth))
    assert list(found) == ["load", "mma", "reduction", "main"]
    multiplies, reduction = found["mma"], found["reduction"]
    assert "mma.sync" not in multiplies
    # Those of a trip, and of the two that begin ahead of the loop, and end behind it.
    assert multiplies.count("cute.gemm") == 10
    assert "cute.atomic" in reduction
    assert "cute.atomic" not in found["main"]
    assert len(re.findall(r"tmem_load", reduction)) == depth // 32
    # P is read from tensor memory.
    assert len(re.findall(r"cute\.gemm .*: !cute\.memref<bf16, tmem", multiplies)) == 2


@pytest.mark.parametrize("depth", DEPTHS)
def test_products_lie_over_others_where_columns_lack(depth):
    text = compiled(depth).stages["cute-synchronize"].split("@key_gradients")[1]
    over = re.findall(r"cute\.alloc_tmem over .* : !cute\.memref<(\w+), tmem", text)
    # P over S, in either case.
    assert sorted(over) == ["bf16", *["f32" for _ in DEPTHS[depth]]]


def test_heads_that_share_keys_add_up_in_tensor_memory():
    found = roles(compiled(128, heads=2))
    assert found["mma"].count("scf.for") == 2
    assert found["main"].count("cute.gemm") == 0
    # Of a trip threads read scores and slopes alone: sums stay until all heads have added theirs.
    loads = re.findall(r"^( *)cute\.copy .*tmem_load", found["main"], re.MULTILINE)
    assert loads.count(max(loads)) == 2


@pytest.mark.parametrize(
    ("depth", "heads", "options"),
    [
        (64, 8, {"causal": True}),
        (96, 8, {}),
        (128, 8, {}),
        (128, 2, {}),
        (128, 2, {"causal": True}),
        (96, 2, {"softcap": 30.0, "deterministic": True}),
        (128, 8, {"causal": True, "deterministic": True}),
        (128, 8, {"window": (511, 0)}),
        (96, 2, {"causal": True, "softcap": 30.0}),
        (128, 8, {"causal": True, "softcap": 30.0}),
    ],
)
def test_a_default_fits_registers(depth, heads, options):
    kernel = compiled(depth, heads, **options)
    assert kernel.schedule.startswith("tile = (128,128)")
    assert kernel.resources.spills in (None, 0)


def normals(*shape: int, seed: int) -> Any:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float16)


def check(
    rows: int, keys: int, depth: int, shared: int = 1, schedule: str | None = None, **masks: Any
) -> None:
    do, q = (normals(1, shared, rows, depth, seed=seed) for seed in (1, 2))
    k, v = (normals(1, 1, keys, depth, seed=seed) for seed in (3, 4))
    out, lse, _ = gradients(do, q, k, v, np.float64, **masks)
    given = do, q, k, v
    made = out.astype(np.float16), lse.astype(np.float32)
    where = {"arch": "sm_100a", "backend": "emulator", "schedule": schedule}
    found = cute.attention_backward(*given, *made, **where, **masks)
    figures = shares(found, *given, **masks)
    assert max(figures.values()) <= ALLOWED, figures


@pytest.mark.long
@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("trips", [1, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1])
def test_trips_around_the_stages(depth, trips):
    check(ROWS * trips - 15, 150, depth)


@pytest.mark.parametrize(
    ("depth", "width", "options"),
    [
        (192, 128, {"causal": True}),
        (192, 192, {"window": (511, 0), "softcap": 30.0}),
        (256, 128, {}),
        (256, 256, {}),
    ],
)
def test_wide_heads_take_tensor_memory(depth, width, options):
    rows, sums = cute.TensorSpec((2, 8, 4096, depth), "bf16"), cute.TensorSpec((2, 8, 4096), "f32")
    out = cute.TensorSpec((2, 8, 4096, width), "bf16")
    call = out, rows, rows, out, out, sums
    kernel = cute.compile(cute.attention_backward, *call, arch="sm_100a", **options)
    assert kernel.schedule.startswith("tile = (128,64)")
    assert "mma.sync" not in kernel.ptx
    assert kernel.resources.spills in (None, 0)


@pytest.mark.parametrize(("depth", "wanted"), [(128, "k"), (128, "v"), (256, "v"), (256, "qk")])
def test_some_gradients(depth, wanted):
    """Kernels that load less have rings of their own, for which any number of stages fits."""
    do, q = (normals(1, 1, 130, depth, seed=seed) for seed in (1, 2))
    k, v = (normals(1, 1, 70, depth, seed=seed) for seed in (3, 4))
    out, lse, _ = gradients(do, q, k, v, np.float64)
    given = do, q, k, v, out.astype(np.float16), lse.astype(np.float32)
    where: Any = {"arch": "sm_100a", "backend": "emulator"}
    whole = cute.attention_backward(*given, **where, deterministic=True)
    found = cute.attention_backward(*given, **where, wanted=wanted)
    for name, mine, other in zip("qkv", found, whole, strict=True):
        assert (mine is not None) == (name in wanted)
        assert mine is None or np.abs(mine - other).max() <= 2e-3 * np.abs(other).max()


def test_capped_scores():
    """The slopes of tangents multiply weights that tensor memory has in 16 bits by then."""
    check(70, 130, 128, shared=2, softcap=3.0)


def test_tiles_of_half_the_rows():
    check(65, 150, 112, schedule="tile = (128,64), warps = (4,2), roles = reduced", softcap=3.0)


@pytest.mark.long
@pytest.mark.parametrize("depth", DEPTHS)
def test_masks_and_shared_heads(depth):
    check(130, 211, depth, causal=True)
    check(130, 211, depth, causal=True, softcap=3.0)
    check(70, 130, depth, shared=2)
    check(200, 140, depth, window=(40, 3))
