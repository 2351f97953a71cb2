"""A program without a schedule is refused only where no other schedule of a few is right."""

import re

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.frontend.fitting import compiled_by_default


@cute.kernel
def sums_over_warps(X, W, R, Y):
    """What warps exchange for a sum of 64 columns stands beside rings that fill shared memory."""
    cute.tile_index(Y, (None, 64))
    columns, rows = cute.zeros((1, 64)), cute.full((128, 1), 1.0)
    for t in cute.range(1):
        x, product = cute.local_tile(X, (128, 64), (t, 0)), cute.zeros((128, 64))
        cute.gemm(x, cute.local_tile(W, (64, 64), (0, 0)), product)
        columns += cute.column_sum(cute.where(columns > 1.0, product, x.to(cute.f32) - 1.0))
    cute.copy(rows * 1.0, cute.local_tile(R, (128, 1), (0, 0)))
    cute.copy(cute.zeros((128, 64)) + columns, cute.local_tile(Y, (128, 64), (0, 0)))


@cute.kernel
def two_accumulators(X, W, Y):
    """Each takes 128 registers of a thread in two warpgroups, more than there are beside others."""
    first, second = cute.zeros((128, 256)), cute.zeros((128, 256))
    x = cute.local_tile(X, (128, 32), (0, 0))
    for n in cute.range(2):
        cute.gemm(x, cute.local_tile(W, (32, 256), (n, 0)), first)
        cute.gemm(x, cute.local_tile(W, (32, 256), (0, 0)), second)
    cute.copy(first - second, cute.local_tile(Y, (128, 256), (0, 0)))


def integers(*shape):
    return np.random.default_rng(sum(shape)).integers(-2, 3, shape).astype(np.float16)


def test_what_warps_exchange_counts_where_stages_are_planned():
    x, w = integers(128, 64), integers(64, 64)
    r, y = np.zeros((128, 1), np.float32), np.zeros((128, 64), np.float32)
    sums_over_warps(x, w, r, y, arch="sm_90a", backend="emulator")
    assert np.array_equal(y, np.tile(x.astype(np.float32).sum(0) - 128, (128, 1)))
    kernel = cute.compile(sums_over_warps, x, w, r, y, arch="sm_90a")
    assert "roles = specialized" in kernel.schedule
    assert "stages = 8" in kernel.schedule


def test_a_default_that_is_refused_gives_way_to_one_that_is_not():
    x, w, y = integers(128, 32), integers(64, 256), np.zeros((128, 256), np.float32)
    two_accumulators(x, w, y, arch="sm_90a", backend="emulator")
    exact = x.astype(np.float64) @ (w[32:].astype(np.float64) - w[:32])
    assert np.array_equal(y, exact)
    kernel = cute.compile(two_accumulators, x, w, y, arch="sm_90a")
    assert "roles = uniform" in kernel.schedule
    assert any(
        "roles = uniform taken by default, else: expected accumulators" in each.message
        for each in kernel.remarks
    )
    assert "roles = uniform" in kernel.stages["cute-tile"]


@pytest.mark.parametrize(
    ("lacks", "tried"),
    [
        ("bytes of shared memory on sm_90a", ["", "epilogue = direct", "warps = (4,1)"]),
        ("registers of a thread", ["", "roles = uniform", "warps = (4,1)"]),
    ],
)
def test_no_more_than_three_compilations(lacks, tried):
    """And the error is that of the first."""
    given = []

    def lowered(schedule):
        given.append("" if schedule is None else schedule.text())
        raise cute.CompileError(f"number {len(given)}: expected fewer {lacks}", code="CD-PASS")

    with pytest.raises(cute.CompileError, match="number 1"):
        compiled_by_default(lowered, None)
    assert [text.partition(", ")[0] for text in given] == tried
    given.clear()
    with pytest.raises(cute.CompileError, match="number 1"):
        compiled_by_default(lowered, cute.Schedule(stages=2))
    assert given == ["stages = 2"]


def test_a_schedule_that_is_given_is_refused():
    x, w, y = integers(128, 32), integers(64, 256), np.zeros((128, 256), np.float32)
    with pytest.raises(cute.CompileError, match="expected accumulators") as caught:
        cute.compile(two_accumulators, x, w, y, arch="sm_90a", schedule="roles = specialized")
    assert "it compiles without a schedule" in str(caught.value)


def test_what_no_schedule_fits_is_told_of_the_default():
    """With the tile that holds most, and one that fits."""

    @cute.kernel
    def large(X, W, Y, *, rows=128, depth=1024):
        acc = cute.zeros((rows, rows))
        x, w = (cute.local_tile(each, (rows, depth), (0, 0)) for each in (X, W))
        cute.gemm(x, w.T, acc)
        cute.copy(acc, cute.local_tile(Y, (rows, rows), (0, 0)))

    specs = [cute.TensorSpec((128, 1024), cute.f16)] * 2 + [cute.TensorSpec((128, 128), cute.f32)]
    message = r"bytes of shared memory on sm_90a, got 55\d+, of which 262144 hold 128 x 1024 elem"
    with pytest.raises(cute.CompileError, match=message) as caught:
        cute.compile(large, *specs, arch="sm_90a")
    fitting = re.search(r"take tiles of 1/4 of .*, such as (\d+) x (\d+) for", str(caught.value))
    rows, depth = map(int, fitting.groups())
    assert cute.compile(large, *specs, arch="sm_90a", rows=rows, depth=depth).fits


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
def test_clusters_that_add_up_a_tile_are_the_cluster(arch):
    spec = cute.TensorSpec((512, 512), cute.f16)
    kernel = cute.gemm.compile(spec, spec, arch=arch, schedule="split_k = 2, reduction = cluster")
    assert "cluster = (1,1)" in kernel.schedule


def test_a_grid_divides_the_tile_of_every_multiply():
    """Three rows of warps have 64 rows each, three columns none of 128 columns alike."""

    @cute.kernel
    def unlike(X, W, V, Y, Z):
        first, second = cute.zeros((192, 192)), cute.zeros((192, 128))
        x = cute.local_tile(X, (192, 32), (0, 0))
        cute.gemm(x, cute.local_tile(W, (32, 192), (0, 0)), first)
        cute.gemm(x, cute.local_tile(V, (32, 128), (0, 0)), second)
        cute.copy(first, cute.local_tile(Y, (192, 192), (0, 0)))
        cute.copy(second, cute.local_tile(Z, (192, 128), (0, 0)))

    shapes = [(192, 32), (32, 192), (32, 128)]
    specs = [cute.TensorSpec(shape, cute.f16) for shape in shapes]
    results = [cute.TensorSpec(shape, cute.f32) for shape in ((192, 192), (192, 128))]
    assert "warps = (4,2)" in cute.compile(unlike, *specs, *results, arch="sm_80").schedule


@cute.kernel
def turned_sums(A, B, X, V, Y, Z):
    """The turned operand and what four rows of warps exchange of sums over rows exceed 99 KB."""
    product, turned = cute.zeros((192, 256), cute.f16), cute.zeros((256, 256), cute.f16)
    a = cute.abs(cute.local_tile(A, (192, 192), (0, 0)).load()).to(cute.f16)
    cute.gemm(a, cute.local_tile(B, (192, 256), (0, 0)), product)
    x, v = (cute.local_tile(each, (192, 256), (0, 0)).load() for each in (X, V))
    doubled = x * 2
    cute.copy(cute.row_sum(doubled), cute.local_tile(Y, (192, 1), (0, 0)))
    signs = cute.minimum(cute.maximum(cute.row_sum(v), -1), 1)
    cute.gemm(doubled.T, (v * signs).to(cute.f16), turned)
    cute.copy(cute.column_max(turned), cute.local_tile(Z, (1, 256), (0, 0)))


def test_what_no_row_of_warps_has_to_itself():
    """Results leave from registers anyway, so that the third schedule is another grid of warps."""
    rng = np.random.default_rng(0)
    shapes = [(192, 192), (192, 256), (192, 256), (192, 256)]
    a, b, x, v = (rng.integers(-1, 2, shape).astype(np.float16) for shape in shapes)
    y, z = np.zeros((192, 1), np.float16), np.zeros((1, 256), np.float16)
    kernel = cute.compile(turned_sums, a, b, x, v, y, z, arch="sm_89", backend="emulator")
    assert "warps = (2,2)" in kernel.schedule
    taken = "warps = (2,2), roles = uniform taken by default, else: cute.alloc_smem: expected"
    assert any(each.message.startswith(taken) for each in kernel.remarks)
    kernel.launch(a, b, x, v, y, z)
    signs = np.clip(v.sum(1, keepdims=True), -1, 1)
    assert np.array_equal(y, 2 * x.sum(1, keepdims=True))
    turned = 2 * x.T.astype(np.float32) @ (v * signs).astype(np.float32)
    assert np.array_equal(z, turned.max(0, keepdims=True))
