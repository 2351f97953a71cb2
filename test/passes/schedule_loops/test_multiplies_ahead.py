"""Where a trip goes on behind its last multiply, the next trip's first one works beside that."""

import re

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def parts(Q, K, Y, *, tile=(64, 64)):
    """Y[:, j] = max(Q K[j]^T, 0) K[j]: nothing is summed over the trips, and each stores a tile."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k = cute.local_tile(K, (bk, 64), (None, 0))
    for j in cute.range(k.tiles):
        s, y = cute.zeros((bq, bk), cute.f32), cute.zeros((bq, 64), cute.f32)
        cute.gemm(q, k[j].T, s)
        with cute.when(j % 2 == 1):
            s.assign(cute.maximum(s, 0.0))
        cute.gemm(s.to(Q.dtype), k[j], y)
        cute.copy(y, cute.local_tile(Y, (bq, 64), (i, j)))


@cute.kernel
def once(Q, K, V, Y, *, tile=(64, 64)):
    """As `parts`, but for other values, so that nothing but the first multiply reads K."""
    bq, bk = tile
    i, _ = cute.tile_index(Y, (bq, None))
    q = cute.local_tile(Q, (bq, 64), (i, 0))
    k, v = (cute.local_tile(X, (bk, 64), (None, 0)) for X in (K, V))
    for j in cute.range(k.tiles):
        s, y = cute.zeros((bq, bk), cute.f32), cute.zeros((bq, 64), cute.f32)
        cute.gemm(q, k[j].T, s)
        cute.gemm(s.to(Q.dtype), v[j], y)
        cute.copy(y, cute.local_tile(Y, (bq, 64), (i, j)))


ROWS = cute.TensorSpec((None, 64), cute.f16)
WIDE = cute.TensorSpec((None, None), cute.f32, align=16)


def compiled(kernel, *specs, schedule="overlap = yes"):
    schedule = f"scheduler = single, {schedule}"
    return cute.compile(kernel, *specs, arch="sm_90a", schedule=schedule)


def trip(kernel):
    """What the computing role's loop does, in order."""
    text = kernel.stages["cute-synchronize"].split('role "main"')[1]
    found = re.findall(r"wgmma_wait \{pending = (\d)|cute\.(gemm)|(scf\.for)", text)
    words = ["".join(each) for each in found]
    return words[words.index("scf.for") + 1 :]


@pytest.mark.some(4)
@pytest.mark.parametrize("schedule", [None, "stages = 3"])
@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_trips_around_the_stages(trips, schedule):
    rng = np.random.default_rng(trips)
    q, k = (rng.integers(-2, 3, (n, 64)).astype(np.float16) for n in (100, 64 * trips))
    y = np.full((100, 64 * max(trips, 1)), 7, np.float32)
    parts(q, k, y, arch="sm_90a", backend="emulator", schedule=schedule)
    for j in range(trips):
        part = slice(64 * j, 64 * j + 64)
        s = q.astype(np.float64) @ k[part].T
        expected = (np.maximum(s, 0) if j % 2 else s) @ k[part]
        assert np.array_equal(y[:, part], expected)


def test_the_next_scores_are_issued_before_the_tile_is_stored():
    kernel = compiled(parts, ROWS, ROWS, WIDE)
    # Scores of the trip, its product, the next scores, the product waited for; then the last trip.
    assert trip(kernel)[:5] == ["0", "gemm", "gemm", "1", "0"]
    assert kernel.resources.spills in (None, 0)


def test_a_schedule_without_overlap_keeps_the_order():
    kernel = compiled(parts, ROWS, ROWS, WIDE, schedule="overlap = no")
    assert trip(kernel)[:4] == ["gemm", "0", "gemm", "0"]


def test_one_stage_is_told():
    kernel = compiled(parts, ROWS, ROWS, WIDE, schedule="stages = 1")
    assert trip(kernel)[:4] == ["gemm", "0", "gemm", "0"]
    assert "one stage holds no trip but one" in " ".join(each.message for each in kernel.remarks)


def test_what_nothing_else_of_the_trip_releases_stays():
    kernel = compiled(once, ROWS, ROWS, ROWS, WIDE)
    assert trip(kernel)[:4] == ["gemm", "0", "gemm", "0"]


@cute.kernel
def items(A, B, H, Y):
    """Multiplies of a work item behind a branch of it for which another role loads."""
    i, j = cute.tile_index(Y, (64, 64))
    for k in cute.range(2):
        with cute.when(i == 1):
            a = cute.maximum(cute.local_tile(A, (64, 64), (i, k)).load(), 0)
            acc = cute.zeros((64, 64), cute.f32)
            cute.gemm(a, cute.local_tile(B, (64, 64), (j, 0)), acc)
            cute.atomic_add(acc, cute.local_tile(Y, (64, 64), (0, 0)))
    for at in range(2):
        h = cute.local_tile(H, (64, 64), (0, at)).T
        acc = cute.zeros((64, 64), cute.f32)
        cute.gemm(h, h, acc)
        acc.assign(acc * 2)
        cute.atomic_add(acc, cute.local_tile(Y, (64, 64), (0, 0)))


def test_what_other_roles_do_in_branches_keeps_its_trips():
    rng = np.random.default_rng(0)
    a, b, h = (rng.integers(-2, 3, (128, 128)).astype(np.float16) for _ in range(3))
    y = np.zeros((128, 128), np.float32)
    items(a, b, h, y, arch="sm_90a", backend="emulator")
    wide = [x.astype(np.float64) for x in (np.maximum(a, 0), b, h)]
    branch = sum(
        wide[0][64:, at : at + 64] @ wide[1][rows : rows + 64, :64]
        for at in (0, 64)
        for rows in (0, 64)
    )
    ends = sum(part.T @ part.T for part in (wide[2][:64, :64], wide[2][:64, 64:]))
    assert np.array_equal(y[:64, :64], branch + 4 * 2 * ends)
    assert not y[64:].any()
