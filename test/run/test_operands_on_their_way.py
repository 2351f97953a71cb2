"""Operands that are computed between memory and a multiply: what is loaded comes ahead of its trip,
by TMA or `cp.async`, as it is in memory.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
STAGES = 3
SCHEDULE = cute.Schedule(stages=STAGES)
COPIES = {
    "sm_80": "cp.async.c",
    "sm_90a": "cp.async.bulk.tensor",
    "sm_100a": "cp.async.bulk.tensor",
}


@cute.kernel
def weights_first(W, X, Y, *, tile=(64, 16, 32)):
    """Y = W X of integer weights: the operand that `wgmma` takes from registers."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    w = cute.local_tile(W, (bm, bk), (m, None))
    x = cute.local_tile(X, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(w.tiles):
        cute.gemm(w[k].load().to(X.dtype), x[k], acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def nibbles(X, W, Y, *, tile=(64, 32, 32)):
    """Y = X W, W of 4 bits: the bytes of a row hold the two halves of the depth."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (bm, bk), (m, None))
    w = cute.local_tile(W, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(w.tiles):
        both = w[k].load()
        cute.gemm(x[k], (both & 15).to(X.dtype), acc)
        cute.gemm(x[k + w.tiles], (both >> 4).to(X.dtype), acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@pytest.fixture
def rng():
    return np.random.default_rng(35)


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", COPIES)
@pytest.mark.parametrize("type_", [np.int8, np.uint8])
def test_integer_weights_come_ahead_of_their_trip(arch, type_, rng):
    low, high = (0, 256) if type_ is np.uint8 else (-128, 128)
    for trips in (0, 1, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1):
        m, n, depth = (72, 24, 32 * trips) if trips % 2 else (64, 16, max(0, 32 * trips - 16))
        w = rng.integers(low, high, (m, depth)).astype(type_)
        x = rng.integers(-2, 3, (depth, n)).astype(BF16)
        y = np.ones((m, n), np.float32)
        weights_first(w, x, y, arch=arch, backend="emulator", schedule=SCHEDULE)
        assert np.array_equal(y, w.astype(np.float32) @ x.astype(np.float32)), trips
    kernel = cute.compile(weights_first, w, x, y, arch=arch, schedule=SCHEDULE)
    assert COPIES[arch] in kernel.ptx
    assert "ld.global" not in kernel.ptx
    assert f"stages = {STAGES}" in kernel.schedule


def test_trips_of_wide_tiles(rng):
    for depth in (0, 32, 64, 96, 200):
        w = rng.integers(-128, 128, (72, depth)).astype(np.int8)
        x = rng.integers(-2, 3, (depth, 264)).astype(BF16)
        y = np.ones((72, 264), np.float32)
        weights_first(w, x, y, tile=(64, 256, 32), arch="sm_90a", backend="emulator")
        assert np.array_equal(y, w.astype(np.float32) @ x.astype(np.float32)), depth


def test_warpgroups_compute_an_operand_while_they_multiply_the_one_before():
    specs = (cute.TensorSpec((512, 512), kind) for kind in ("i8", "bf16", "f32"))
    tile = (64, 256, 64)
    ptx = cute.compile(weights_first, *specs, arch="sm_90a", tile=tile, schedule=SCHEDULE).ptx
    beside = [
        part[: part.index("wgmma.wait_group")] for part in ptx.split("wgmma.commit_group")[1:]
    ]
    assert [("ld.shared" in part, "fma.rn.bf16x2" in part) for part in beside] == [
        (True, True),
        (False, False),
    ]
    # A fence waits for what multiplies beside it.
    assert "fence.proxy.async" not in beside[0]


@pytest.mark.parametrize("arch", COPIES)
def test_two_halves_of_a_byte_are_two_operands_of_one_load(arch, rng):
    for m, n, depth in ((64, 32, 64), (70, 48, 192)):
        q = rng.integers(0, 16, (depth, n)).astype(np.uint8)
        x = rng.integers(-2, 3, (m, depth)).astype(np.float16)
        y = np.zeros((m, n), np.float32)
        packed = q[: depth // 2] | q[depth // 2 :] << 4
        nibbles(x, packed, y, arch=arch, backend="emulator")
        assert np.array_equal(y, x.astype(np.float32) @ q.astype(np.float32))
    kernel = cute.compile(nibbles, x, packed, y, arch=arch)
    assert COPIES[arch] in kernel.ptx
    assert "ld.global" not in kernel.ptx


@cute.kernel
def offsets(W, X, Y, *, tile=(64, 16, 32)):
    """Y = (W - 1024) X: weights of f32, of which tensor cores would cut off what is left here."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    w = cute.local_tile(W, (bm, bk), (m, None))
    x = cute.local_tile(X, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(w.tiles):
        cute.gemm((w[k].load() - 1024.0).to(X.dtype), x[k], acc)
    cute.copy(acc.to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


def test_what_is_computed_from_comes_as_it_is_in_memory(rng):
    w = (1024 + rng.integers(-8, 9, (64, 96)) / 16).astype(np.float32)
    x = rng.integers(-2, 3, (96, 16)).astype(np.float16)
    y = np.zeros((64, 16), np.float32)
    offsets(w, x, y, arch="sm_90a", backend="emulator")
    assert np.array_equal(y, (w.astype(np.float64) - 1024) @ x)


@cute.kernel
def turned_bytes(W, X, Y, *, tile):
    """Y = W X^T of integers X, columns of which are contiguous: the right operand is computed."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    w = cute.local_tile(W, (bm, bk), (m, None))
    x = cute.local_tile(X, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn), cute.f32)
    for k in cute.range(w.tiles):
        cute.gemm(w[k], (x[k].load() | 12).to(W.dtype) * 3, acc)
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


@pytest.mark.parametrize("arch", ["sm_80", "sm_120a"])
def test_threads_have_registers_for_a_right_operand_that_they_compute(arch, rng):
    w = rng.integers(-2, 3, (130, 80)).astype(BF16)
    x = rng.integers(-64, 64, (80, 129)).astype(np.int8)
    y = np.zeros((130, 129), np.float32)
    options = {"tile": (128, 128, 64), "arch": arch}
    turned_bytes(w, x, y, backend="emulator", **options)
    assert np.array_equal(y, w.astype(np.float32) @ ((x | 12).astype(np.float32) * 3))
    kernel = cute.compile(turned_bytes, w, x, y, **options)
    assert "warps = (2,4)" in kernel.schedule
    assert kernel.resources.spills == 0


def remarks_of(schedule, arch="sm_90a", align=16, **tile):
    w, x, y = (
        cute.TensorSpec((None, None), element, align=align)
        for element in (cute.i8, cute.bf16, cute.f32)
    )
    kernel = cute.compile(weights_first, w, x, y, arch=arch, schedule=schedule, **tile)
    return kernel, [one.message for one in kernel.remarks]


def test_a_role_that_prepares_leaves_what_is_computed_to_those_who_multiply():
    shifting, said = remarks_of("roles = shifting, warps = (4,1)")
    why = "operand not computed by a role that prepares: its steps are laid out in the registers"
    assert [text for text in said if text.startswith(why)]
    plain, said = remarks_of("roles = specialized")
    assert not [text for text in said if "a role that prepares" in text]
    assert all("wgmma.mma_async" in kernel.ptx for kernel in (shifting, plain))


@pytest.mark.parametrize(
    ("arch", "align", "said"),
    [
        ("sm_90a", 16, []),
        ("sm_90a", 4, ["TMA not taken for a load: its tensor is aligned to 4 bytes, not 16"]),
        ("sm_80", 4, []),
        ("sm_80", 2, ["cp.async not taken for a load: threads copy 2 bytes at once, fewer than 4"]),
    ],
)
def test_who_does_not_bring_a_tile_says_why(arch, align, said):
    _, found = remarks_of(None, arch, align)
    assert {text for text in found if "not taken for a load" in text} == {*said}
