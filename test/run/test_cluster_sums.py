"""Tiles that the CTAs of a cluster share along K, in distributed shared memory: exact on integers,
with as many tiles for each cluster as come, and refused where a schedule has no room for it. Each
CTA stores a part of the columns where these are whole columns of atoms and go their own ways.
"""

from functools import partial

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

SHARED = "roles = specialized, reduction = cluster"
RNG = np.random.default_rng(22)
STEP = 64
STAGES = 3


def operands(m, n, k, dtype=np.float16):
    a, b = (RNG.integers(-2, 3, shape).astype(dtype) for shape in ((m, k), (n, k)))
    return a, b.T


def product(a, b):
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


def gemm(a, b, schedule, backend="emulator", **options):
    return cute.gemm(a, b, arch="sm_90a", schedule=schedule, backend=backend, **options)


@pytest.mark.parametrize(
    ("steps", "backend"),
    [
        (0, "interpreter"),
        (STAGES, "emulator"),
        (2 * STAGES + 1, "interpreter"),
        *[
            pytest.param(steps, "emulator", marks=pytest.mark.long)
            for steps in (0, 1, STAGES - 1, STAGES + 1, 2 * STAGES + 1)
        ],
    ],
)
def test_sums_are_exact_for_any_number_of_steps(steps, backend):
    parts, n = int(RNG.integers(2, 5)), int(RNG.integers(1, 9)) * 8
    m, k = int(RNG.integers(1, 300)), max(0, steps * STEP - int(RNG.integers(0, 8)) * 8)
    a, b = operands(m, n, k)
    schedule = f"tile = (64,{n},{STEP}), stages = {STAGES}, split_k = {parts}, {SHARED}"
    made = gemm(a, b, schedule, backend, out_dtype="f32")
    np.testing.assert_array_equal(made, product(a, b))


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("tile", "parts", "more"),
    [
        ("(128,32,64)", 3, "early_launch = yes"),
        pytest.param("(64,8,128)", 8, "swap_ab = yes", marks=pytest.mark.long),
        pytest.param("(128,96,64)", 2, "scheduler = single", marks=pytest.mark.long),
        pytest.param("(192,64,64)", 3, "early_launch = yes", marks=pytest.mark.long),
        ("(64,64,64)", 4, "swap_ab = yes"),
        pytest.param("(128,128,64)", 4, "epilogue = direct", marks=pytest.mark.long),
        pytest.param("(64,256,64)", 16, "epilogue = smem", marks=pytest.mark.long),
    ],
)
def test_tiles_and_what_follows_the_product(tile, parts, more):
    m, n, k = (int(each) for each in RNG.integers(1, 40, 3) * 8)
    a, b = operands(m, n, 3 * k)
    c, bias = (RNG.integers(-2, 3, shape).astype(np.float16) for shape in ((m, n), (n,)))
    aux = np.full((m, n), np.nan, np.float32)
    made = gemm(
        a, b, f"tile = {tile}, split_k = {parts}, {more}, {SHARED}", out_dtype="f32", c=c,
        alpha=2.0, beta=-1.0, bias=bias, activation="relu", aux=aux,
    )  # fmt: skip
    wanted = 2 * product(a, b) - c + bias
    np.testing.assert_array_equal(aux, wanted)
    np.testing.assert_array_equal(made, np.maximum(wanted, 0))


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("columns", "parts", "op"),
    [(64, 4, "scatter"), (64, 8, "scatter"), (64, 3, "sum"), (24, 2, "sum"), (16, 2, "scatter")],
)
def test_each_cta_goes_on_with_whole_columns_of_atoms(columns, parts, op):
    a, b = operands(64, columns, 640)
    schedule = f"tile = (64,{columns},64), split_k = {parts}, {SHARED}"
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule)
    assert f"cute.cluster_{op} " in kernel.stages["cute-tile"]


def test_what_reduces_the_columns_goes_on_with_all_of_them():
    @cute.kernel
    def row_sums(A: cute.Tensor, B: cute.Tensor, D: cute.Tensor):
        m, n = cute.tile_index(D, (64, 1))
        acc = cute.zeros((64, 64), cute.f32)
        a, b = cute.local_tile(A, (64, 64), (m, None)), cute.local_tile(B, (64, 64), (None, n))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(cute.row_sum(acc), cute.local_tile(D, (64, 1), (m, n)))

    a, b = operands(64, 64, 256)
    made = np.zeros((64, 1), np.float32)
    launch = cute.compile(
        row_sums, a, b, made, arch="sm_90a", backend="emulator",
        schedule=f"split_k = 4, {SHARED}",
    )  # fmt: skip
    assert "cute.cluster_sum " in launch.stages["cute-tile"]
    launch.launch(a, b, made)
    np.testing.assert_array_equal(made, product(a, b).sum(1, keepdims=True))


@pytest.mark.long
def test_integers_and_batches():
    a, b = operands(72, 136, 400, np.int8)
    made = gemm(a, b, f"tile = (64,64,128), split_k = 3, {SHARED}")
    np.testing.assert_array_equal(made, product(a, b))
    a, b = (x.astype(np.float32).astype(ml_dtypes.float8_e4m3fn) for x in (a, b))
    made = gemm(a, b, f"tile = (64,64,128), split_k = 3, {SHARED}", out_dtype="f32")
    np.testing.assert_array_equal(made, product(a, b))
    a = RNG.integers(-2, 3, (3, 72, 328)).astype(np.float16)
    b = RNG.integers(-2, 3, (3, 328, 40)).astype(np.float16)
    made = gemm(a, b, f"tile = (64,64,64), split_k = 2, {SHARED}", out_dtype="f32")
    np.testing.assert_array_equal(made, product(a, b))


@pytest.mark.long
def test_parts_are_added_in_order_whatever_comes_first(monkeypatch):
    a, b = (RNG.standard_normal((72, 520)).astype(np.float16) for _ in range(2))
    launch, found = emulator.launch, set()
    for seed in (0, 1, 2):
        monkeypatch.setattr(emulator, "launch", partial(launch, seed=seed))
        made = gemm(a, b.T, f"tile = (64,64,64), split_k = 3, {SHARED}", out_dtype="f32")
        found.add(made.tobytes())
    assert len(found) == 1
    ordered = gemm(a, b.T, "tile = (64,64,64), split_k = 3, roles = specialized", out_dtype="f32")
    assert ordered.tobytes() in found


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("split_k = 17, roles = specialized", "expected split_k of at most 16 with"),
        ("split_k = 2, cluster = (2,1), roles = specialized", r"expected cluster = \(1,1\) with"),
        ("split_k = 2, scheduler = dynamic, roles = specialized", "expected the scheduler single"),
        ("split_k = 2, roles = alternate", "expected roles = specialized with"),
        ("split_k = 2, roles = uniform", "expected roles = specialized with"),
    ],
)
def test_other_schedules_are_refused(schedule, message):
    a, b = operands(64, 64, 256)
    with pytest.raises(cute.CompileError, match=message):
        gemm(a, b, f"tile = (64,64,64), {schedule}, reduction = cluster")


@pytest.mark.parametrize(
    ("tile", "parts", "stages"),
    [
        # A part of a tile from each: the room is a tile's, 64 of 227 KB, the buffer of results has
        # 34, and a stage takes 32.
        ("(128,128,64)", 8, 4),
        # Tiles from seven others of 20 KB each, and a stage takes 18.
        ("(64,80,64)", 8, 4),
    ],
)
def test_stages_leave_room_for_the_parts_of_the_others(tile, parts, stages):
    """Beside what is reordered through shared memory, which takes none where TMA stores."""
    a, b = operands(105, 331, 1564)
    schedule = f"tile = {tile}, split_k = {parts}, epilogue = smem, {SHARED}"
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule)
    assert f"stages = {stages}" in kernel.schedule
