"""Tiles that are used one after the other share storage where shared memory does not hold them all:
the numbers are right, and the emulator, which knows of races and of copies in flight, is silent.
"""

import re

import numpy as np
import pytest

import cutedialect as cute
from benchmarks.tile_program import array
from cutedialect.backend import emulator

TARGETS = ("sm_75", "sm_80", "sm_90a")


def integers(rng, *shape):
    return rng.integers(-2, 3, shape).astype(np.float16)


def bytes_of(kernel):
    found = re.search(r"smem = (\d+)", kernel.stages["convert-to-ptx"])
    assert found is not None
    return int(found[1])


def convolution(size, tile):
    """`size` times `size` products without a loop, of an image whose rows hold their neighbors."""
    bm, bn, bk = tile

    @cute.kernel
    def convolved(X, W, Y):
        i, j = cute.tile_index(Y, (bm, bn))
        acc = cute.zeros((bm, bn), cute.f32)
        for r in range(size):
            for s in range(size):
                shifted = X.slice(0, r, 10_000).slice(1, s * bk, 10_000)
                x = cute.local_tile(shifted, (bm, bk), (i, 0))
                cute.gemm(x, cute.local_tile(W, (bk, bn), (r * size + s, j)), acc)
        cute.copy(acc, cute.local_tile(Y, (bm, bn), (i, j)))

    rng = np.random.default_rng(size)
    x, w = integers(rng, bm + size - 1, size * bk), integers(rng, size * size * bk, bn)
    exact = np.zeros((bm, bn))
    for at, (r, s) in enumerate(np.ndindex(size, size)):
        part = x[r : r + bm, s * bk : (s + 1) * bk].astype(np.float64)
        exact += part @ w[at * bk : (at + 1) * bk]
    return convolved, [x, w, np.zeros((bm, bn), np.float32)], exact


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", [*TARGETS, pytest.param("sm_100a", marks=pytest.mark.long)])
def test_an_unrolled_convolution(arch):
    """Separate tiles would take 409,600 bytes."""
    program, arguments, exact = convolution(5, (64, 64, 64))
    kernel = cute.compile(program, *arguments, arch=arch)
    program(*arguments, arch=arch, backend="emulator")
    assert np.array_equal(arguments[2], exact)
    if arch in ("sm_90a", "sm_100a"):
        assert "pipeline.consumer_release" in kernel.stages["cute-synchronize"]
        assert bytes_of(kernel) <= 232_448
    else:
        # Two at a time, so that a copy waits for no reader of the tile just before.
        assert bytes_of(kernel) == 2 * 2 * (64 + 64) * 64
        assert kernel.stages["cute-synchronize"].count("offset = ") == 50


@cute.kernel
def in_a_loop(A, B, Y):
    """Twelve products in each trip: storage is used again around the back edge."""
    i, j = cute.tile_index(Y, (64, 64))
    acc = cute.zeros((64, 64), cute.f32)
    a, b = cute.local_tile(A, (64, 64), (i, None)), cute.local_tile(B, (64, 64), (None, j))
    for trip in cute.range(Y.dim(0)):
        for k in range(14):
            cute.gemm(a[k], b[(k + trip) % 14], acc)
    cute.copy(acc, cute.local_tile(Y, (64, 64), (i, j)))


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("trips", [1, 3])
def test_products_in_a_row_in_a_loop(arch, trips):
    rng = np.random.default_rng(trips)
    a, b = integers(rng, trips, 14 * 64), integers(rng, 14 * 64, 64)
    y = np.zeros((trips, 64), np.float32)
    in_a_loop(a, b, y, arch=arch, backend="emulator")
    parts_a = a.astype(np.float64).reshape(trips, 14, 64)
    parts_b = b.astype(np.float64).reshape(14, 64, 64)
    exact = sum(
        parts_a[:, k] @ parts_b[(k + trip) % 14] for trip in range(trips) for k in range(14)
    )
    assert np.array_equal(y, exact)


@cute.kernel
def interleaved(A, B, Y):
    """Two accumulators, what is computed from one of them, and a multiply of registers between."""
    i, j = cute.tile_index(Y, (64, 64))
    total = cute.zeros((64, 64), cute.f32)
    for k in range(16):
        acc = cute.zeros((64, 64), cute.f32)
        a = cute.local_tile(A, (64, 64), (i, k))
        b = cute.local_tile(B, (64, 64), (k, j))
        cute.gemm(a, b, acc)
        small = cute.minimum(cute.maximum(acc, -1), 1).to(cute.f16)
        cute.gemm(small, b, total)
        total += small.to(cute.f32)
    cute.copy(total, cute.local_tile(Y, (64, 64), (i, j)))


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", TARGETS)
def test_tiles_that_two_multiplies_read(arch):
    rng = np.random.default_rng(7)
    a, b = integers(rng, 64, 1024), integers(rng, 1024, 64)
    y, exact = np.zeros((64, 64), np.float32), np.zeros((64, 64))
    for k in range(16):
        part = b[64 * k : 64 * k + 64].astype(np.float64)
        small = np.clip(a[:, 64 * k : 64 * k + 64].astype(np.float64) @ part, -1, 1)
        exact += small @ part + small
    interleaved(a, b, y, arch=arch, backend="emulator")
    assert np.array_equal(y, exact)


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_75", "sm_80"])
def test_tiles_of_several_kinds_share_storage(arch):
    """Products of other extents follow each other, and their sums are turned through scratch."""

    @cute.kernel
    def mixed(A, B, Y):
        cute.tile_index(Y, (64, 64))
        total = cute.zeros((64, 64), cute.f32)
        for k, depth in enumerate((128, 64, 192, 32, 192, 16, 160)):
            acc = cute.zeros((64, 64), cute.f32)
            a = cute.local_tile(A.slice(1, k * 256, 10_000), (64, depth), (0, 0))
            b = cute.local_tile(B.slice(0, k * 256, 10_000), (depth, 64), (0, 0))
            cute.gemm(a, b, acc)
            total += cute.row_sum(acc) + acc
        cute.copy(total, cute.local_tile(Y, (64, 64), (0, 0)))

    rng = np.random.default_rng(11)
    a, b = integers(rng, 64, 7 * 256), integers(rng, 7 * 256, 64)
    y, exact = np.zeros((64, 64), np.float32), np.zeros((64, 64))
    for k, depth in enumerate((128, 64, 192, 32, 192, 16, 160)):
        part = slice(256 * k, 256 * k + depth)
        acc = a[:, part].astype(np.float64) @ b[part].astype(np.float64)
        exact += acc + acc.sum(1, keepdims=True)
    kernel = cute.compile(mixed, a, b, y, arch=arch)
    assert "offset = " in kernel.stages["cute-synchronize"]
    mixed(a, b, y, arch=arch, backend="emulator")
    assert np.array_equal(y, exact)


@pytest.mark.long
@pytest.mark.parametrize("arch", TARGETS)
def test_each_wait_for_shared_storage_is_needed(monkeypatch, arch):
    """Without any one barrier, or any one release of a stage, the emulator names the fault."""
    program, arguments, _ = convolution(5, (64, 64, 64))
    pattern = r"^\s*bar\.sync .*;.*$" if arch != "sm_90a" else r"^.*mbarrier\.arrive\.shared.*$"
    launch = emulator.launch
    missed = []

    def launch_without(ptx, *given):
        found = list(re.finditer(pattern, ptx, re.MULTILINE))
        # The last stages are released for nobody.
        for at in range(2, len(found) // 3, 3):
            taken = found[at]
            try:
                launch(ptx[: taken.start()] + ptx[taken.end() :], *given)
                missed.append(f"{at}: {taken[0]}")
            except emulator.EmulatorError:
                pass
        assert len(found) >= 20
        return launch(ptx, *given)

    monkeypatch.setattr(emulator, "launch", launch_without)
    program(*arguments, arch=arch, backend="emulator")
    assert missed == []


def test_what_fits_shares_nothing():
    program, arguments, _ = convolution(3, (64, 64, 32))
    for arch in ("sm_80", "sm_90a"):
        kernel = cute.compile(program, *arguments, arch=arch)
        assert "offset = " not in kernel.stages["cute-synchronize"]
        assert not any("share" in remark.message for remark in kernel.remarks)


def test_mbarriers_of_many_rings_have_room():
    """Nine rings for the places of a window: their mbarriers are more than what is reserved."""

    @cute.kernel
    def program(X0, Y1, Z2, A3, B4):
        b, i, j = cute.tile_index(X0, (1, 64, 32))
        cute.local_tile(Y1, (64, 32), (i, 0)).load()
        acc = cute.zeros((64, 32), cute.f32)
        for dy in range(3):
            for dx in range(3):
                window = Z2.slice(1, dx - 1, Z2.dim(1) + 3)
                x = cute.local_tile(window, (64, 16), (i + dy - 1, i, None))
                w = cute.local_tile(A3, (16, 32), (dy, dx, None, j))
                for k in cute.range(x.tiles):
                    cute.gemm(x[k], w[k], acc)
        cute.copy(acc, cute.local_tile(B4, (32, 64), (b, i, j)).T)
        small = cute.minimum(cute.maximum(acc, -2), 2).to(cute.i8)
        cute.copy(small, cute.local_tile(X0, (64, 32), (b, i, j)))

    arguments = [
        array((2, 89, 8), "i8", (0, 1, 2), 0, 8, 792, -5, 5),
        array((114, 19), "i8", (0, 1), 0, 8, 329, -5, 5),
        array((2, 95, 21), "f16", (0, 2, 1), 4, 0, 997, -4, 4),
        array((3, 3, 21, 22), "f16", (1, 2, 0, 3), 4, 0, 748, 0, 1),
        array((2, 64, 3), "f32", (0, 1, 2), 0, 1, 690, -5, 5),
    ]
    kernel = cute.compile(program, *arguments, arch="sm_90a")
    assert kernel.ptx.count("mbarrier.init") > 128


def test_rows_with_the_words_around_them_have_one_stage_where_two_do_not_fit():
    q, k, v = (
        cute.TensorSpec((1, 8, length, depth), cute.e5m2, align=align)
        for length, depth, align in ((8192, 136, 2), (384, 136, 2), (384, 128, 2))
    )
    lengths = cute.TensorSpec((1,), cute.i32)
    kernel = cute.compile(
        cute.attention, q, k, v, lengths=lengths, arch="sm_90a", backend="emulator"
    )
    assert "one stage for what stays while a loop runs" in str(kernel.remarks)


def test_instances_have_results_of_their_own_where_a_second_stage_is_planned():
    q, k, v = (
        cute.TensorSpec((1, 3, length, 112), cute.f16, align=align)
        for length, align in ((28, 16), (33, 16), (33, 2))
    )
    options = {"arch": "sm_90a", "backend": "emulator"}
    schedule = "roles = alternate, maxima = exact, overlap = no"
    remarks: dict[int | None, str] = {}
    for stages in (None, 4, 5):
        asked = schedule if stages is None else f"{schedule}, stages = {stages}"
        kernel = cute.compile(cute.attention, q, k, v, schedule=asked, **options)
        remarks[cute.Schedule.parse(kernel.schedule).stages] = str(kernel.remarks)
        if stages == 5:
            assert "4 stages instead of 5" in str(kernel.remarks)
    # Left open, the next tile's rows come early, and the loop has a stage less.
    assert set(remarks) == {3, 4}
    assert "one stage for what stays while a loop runs" in remarks[4]
    assert "one stage for what stays while a loop runs" not in remarks[3]
