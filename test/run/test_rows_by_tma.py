"""Rows that a program numbers, which TMA copies four at a time on sm_100a and sm_103a: as many
trips as a ring has stages and about as many, ragged edges, numbers that the tensor does not have,
and tiles that come by asynchronous copies of threads instead.
"""

from functools import partial
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

STAGES = 3
SCHEDULE = cute.Schedule(stages=STAGES)
TRIPS = (0, 1, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1)
GATHER4 = ".tile::gather4."
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn


@cute.kernel
def gathered(X, W, rows, Y, *, tile):
    """Rows of X times W."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (bm, bk), (cute.local_tile(rows, (bm,), (m,)), None))
    w = cute.local_tile(W, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def of_both(X, W, rows, columns, Y, *, tile):
    """Rows of X times rows of W."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (bm, bk), (cute.local_tile(rows, (bm,), (m,)), None))
    w = cute.local_tile(W, (bn, bk), (cute.local_tile(columns, (bn,), (n,)), None))
    acc = cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k].T, acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def of_depth(X, W, rows, Y, *, tile):
    """The transpose of gathered rows, which each trip numbers anew, times rows in order."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    acc = cute.zeros((bm, bn))
    for k in cute.range(-(-rows.shape[0] // bk)):
        x = cute.local_tile(X, (bk, bm), (cute.local_tile(rows, (bk,), (k,)), m))
        cute.gemm(x.T, cute.local_tile(W, (bk, bn), (k, n)), acc)
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def computed(X, W, rows, Y, *, tile):
    """Gathered bytes that become floats on their way."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (bm, bk), (cute.local_tile(rows, (bm,), (m,)), None))
    w = cute.local_tile(W, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm((x[k].load().to(cute.f32) - 3).to(W.dtype), w[k], acc)
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def of_matrices(X, W, rows, Y, *, tile):
    """Rows of one matrix of several."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (1, bm, bk), (1, cute.local_tile(rows, (bm,), (m,)), None))
    w = cute.local_tile(W, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w[k], acc)
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


@pytest.fixture
def rng():
    return np.random.default_rng(4)


def integers(rng, shape, dtype: Any = np.float16):
    return rng.integers(-2, 3, shape).astype(dtype)


def rows_of(x, at):
    there = (at >= 0) & (at < len(x))
    return np.where(there[:, None], x[at.clip(0, len(x) - 1)].astype(np.float32), 0)


def run(program, *arrays, shape, dtype=np.float32, **options):
    """The result of a program, and its kernel, whose synchronization is proved."""
    y = np.full(shape, np.nan, dtype)
    options = {"arch": "sm_100a", **options}
    kernel = cute.compile(program, *arrays, y, **options)
    assert not [each for each in kernel.remarks if each.pass_name == "cute-check-protocol"]
    program(*arrays, y, backend="emulator", **options)
    return y, kernel


@pytest.mark.parametrize("arch", ["sm_100a", "sm_103a"])
@pytest.mark.parametrize("trips", TRIPS)
@pytest.mark.parametrize(("m", "n", "less"), [(128, 64, 0), (130, 72, 16), (7, 8, 8)])
def test_trips_and_edges(arch, trips, m, n, less, rng):
    depth = max(0, 64 * trips - less)
    x, w = integers(rng, (50, depth)), integers(rng, (n, depth)).T
    at = rng.integers(-3, 53, m).astype(np.int32)
    y, kernel = run(
        gathered, x, w, at, shape=(m, n), tile=(128, 64, 64), arch=arch, schedule=SCHEDULE
    )
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))
    assert GATHER4 in kernel.ptx
    assert "cp.async.c" not in kernel.ptx


@pytest.mark.parametrize("tile", [(64, 64, 32), (128, 128, 128), (256, 64, 64), (128, 96, 16)])
@pytest.mark.parametrize("dtype", [BF16, np.float32, E4M3])
def test_tiles(tile, dtype, rng):
    """Several boxes along a row, short rows, and tiles of which each warp has many rows."""
    if dtype is E4M3:
        tile = (*tile[:2], 2 * tile[2])
    x, w = integers(rng, (70, 160), dtype), integers(rng, (80, 160), dtype).T
    at = rng.integers(-3, 75, 300).astype(np.int32)
    y, kernel = run(gathered, x, w, at, shape=(300, 80), tile=tile)
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))
    assert GATHER4 in kernel.ptx


@pytest.mark.parametrize("trips", TRIPS)
def test_rows_of_both_operands(trips, rng):
    x, w = integers(rng, (40, 32 * trips)), integers(rng, (60, 32 * trips))
    at, columns = (rng.integers(-3, 63, count).astype(np.int32) for count in (130, 72))
    y, kernel = run(
        of_both, x, w, at, columns, shape=(130, 72), tile=(128, 64, 32), schedule=SCHEDULE
    )
    np.testing.assert_array_equal(y, rows_of(x, at) @ rows_of(w, columns).T)
    assert len({line.split("[")[2] for line in kernel.ptx.splitlines() if GATHER4 in line}) > 1
    assert "cp.async.c" not in kernel.ptx


@pytest.mark.parametrize("trips", TRIPS)
def test_rows_that_each_trip_numbers(trips, rng):
    count = max(0, 32 * trips - 5)
    x, w = integers(rng, (50, 136)), integers(rng, (count, 72))
    at = rng.integers(-3, 53, count).astype(np.int32)
    y, kernel = run(of_depth, x, w, at, shape=(136, 72), tile=(128, 64, 32), schedule=SCHEDULE)
    np.testing.assert_array_equal(y, rows_of(x, at).T @ w.astype(np.float32))
    assert GATHER4 in kernel.ptx


@pytest.mark.parametrize("trips", TRIPS)
def test_rows_that_are_computed_with(trips, rng):
    x = integers(rng, (50, 64 * trips), np.int8)
    w, at = integers(rng, (72, 64 * trips)).T, rng.integers(-3, 53, 130).astype(np.int32)
    y, kernel = run(computed, x, w, at, shape=(130, 72), tile=(128, 64, 64), schedule=SCHEDULE)
    np.testing.assert_array_equal(y, (rows_of(x, at) - 3) @ w.astype(np.float32))
    assert GATHER4 in kernel.ptx


@pytest.mark.parametrize("seed", range(1, 7))
def test_copies_that_complete_in_any_order(seed, rng, monkeypatch):
    """Bytes of one warp may count before another one has said how many come."""
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=seed))
    x, w = integers(rng, (50, 448)), integers(rng, (72, 448)).T
    at = rng.integers(-3, 53, 300).astype(np.int32)
    options = {"tile": (128, 64, 64), "schedule": SCHEDULE}
    y, kernel = run(gathered, x, w, at, shape=(300, 72), **options)
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))
    assert GATHER4 in kernel.ptx


def test_numbers_of_64_bits(rng):
    """Those that 32 bits do not hold are of no row."""
    x, w = integers(rng, (50, 64)), integers(rng, (64, 64)).T
    at = rng.integers(0, 50, 128)
    at[::3] += 1 << 32
    at[1::7] = -(1 << 40)
    y, kernel = run(gathered, x, w, at, shape=(128, 64), tile=(128, 64, 64))
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))
    assert GATHER4 in kernel.ptx


def test_nothing_outside_is_read(rng):
    """A tensor that is a part of an array, whose other elements are no numbers."""
    whole = np.full((80, 136), np.nan, np.float16)
    x = whole[8:58, 8:72]
    x[...], w = integers(rng, x.shape), integers(rng, (64, 64)).T
    at = np.arange(-40, 88).astype(np.int32)
    at[:3] = 2**31 - 1, -(2**31), 50
    y, kernel = run(gathered, x, w, at, shape=(128, 64), tile=(128, 64, 64))
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))
    assert GATHER4 in kernel.ptx


@pytest.mark.parametrize("cluster", [(1, 2), (2, 1), (2, 2)])
def test_ctas_of_a_cluster_gather_for_themselves(cluster, rng):
    x, w = integers(rng, (50, 128)), integers(rng, (264, 128)).T
    at = rng.integers(-3, 53, 300).astype(np.int32)
    schedule = cute.Schedule(stages=STAGES, cluster=cluster)
    y, kernel = run(gathered, x, w, at, shape=(300, 264), tile=(128, 64, 64), schedule=schedule)
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))
    lines = [line for line in kernel.ptx.splitlines() if GATHER4 in line]
    assert lines
    assert not [line for line in lines if "multicast" in line or "cta_group" in line]


def test_a_lane_of_each_warp_copies_what_the_warp_has_numbers_of():
    spec = cute.TensorSpec
    specs = spec((None, 2048), "bf16"), spec((2048, 512), "bf16", (1, 2048)), spec((None,), "i32")
    kernel = cute.compile(
        gathered, *specs, spec((None, 512), "bf16"), arch="sm_100a", tile=(128, 128, 64)
    )
    loop = kernel.ptx.split("mbarrier.arrive.expect_tx")[1].split("$L_gathered_end")[0]
    assert loop.count(GATHER4) == 8
    assert "ld.global" not in loop
    before = loop.split(GATHER4)[0]
    assert "elect.sync" in before.split("expect_tx")[-1]
    assert "cp.async.mbarrier.arrive" not in kernel.ptx
    # Who says how many bytes come arrives, and nobody else.
    assert ", 32768;" in kernel.ptx


def test_other_targets_copy_by_threads(rng):
    x, w = integers(rng, (50, 64)), integers(rng, (64, 64)).T
    at, y = rng.integers(0, 50, 128).astype(np.int32), np.empty((128, 64), np.float32)
    for arch in ("sm_90a", "sm_120a"):
        kernel = cute.compile(gathered, x, w, at, y, arch=arch, tile=(128, 64, 64))
        assert GATHER4 not in kernel.ptx
        assert "cp.async.c" in kernel.ptx
        assert not [each for each in kernel.remarks if "numbered" in each.message]


ONE_WARP = "roles = (load 1: loads; mma 1: tensor_multiplies; main *: rest)"
DECLINED = {
    "pitch": ("its tensor is aligned to 8 bytes, not 16", {}),
    "other": ("threads copy other operands", {}),
    "matrices": ("its tensor has 3 modes, not 2", {}),
    "many": ("a lane would have 128 numbers of rows", {"schedule": ONE_WARP}),
    "short": ("boxes start at lines of 128 bytes in shared memory", {"tile": (128, 64, 16)}),
    "long": (
        "threads read rows of 192 bytes, which are not one line each",
        {"tile": (64, 64, 192)},
    ),
}


@pytest.mark.parametrize("case", DECLINED)
def test_what_comes_by_threads_says_why(case, rng):
    why, more = DECLINED[case]
    program = {"matrices": of_matrices, "short": computed, "long": computed}.get(case, gathered)
    x = integers(rng, (50, 192), np.int8 if program is computed else np.float16)
    w, at = integers(rng, (64, 192)).T, rng.integers(-3, 53, 256).astype(np.int32)
    of = x
    if case == "pitch":
        x = of = integers(rng, (50, 196))[:, :192]
    if case == "other":
        w = integers(rng, (64, 196))[:, :192].T
    if case == "matrices":
        of = np.stack([x + 1, x])
    y, kernel = run(program, of, w, at, shape=(256, 64), **{"tile": (128, 64, 64), **more})
    less = 3 if program is computed else 0
    np.testing.assert_array_equal(y, (rows_of(x, at) - less) @ w.astype(np.float32))
    assert GATHER4 not in kernel.ptx
    told = [each.message for each in kernel.remarks]
    assert any(f"TMA not taken for rows that are numbered: {why}" in each for each in told), told


def test_threads_where_the_schedule_wants_them(rng):
    x, w = integers(rng, (50, 64)), integers(rng, (64, 64)).T
    at = rng.integers(-3, 53, 128).astype(np.int32)
    schedule = cute.Schedule(loads="threads")
    y, kernel = run(gathered, x, w, at, shape=(128, 64), tile=(128, 64, 64), schedule=schedule)
    np.testing.assert_array_equal(y, rows_of(x, at) @ w.astype(np.float32))
    assert GATHER4 not in kernel.ptx
