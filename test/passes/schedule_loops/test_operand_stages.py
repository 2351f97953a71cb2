"""What multiplies of its trip read in shared memory has two buffers where there is room."""

import numpy as np
import pytest

import cutedialect as cute


@cute.kernel
def squares(Q, K, Y, *, tile=(64, 64)):
    """Y += (Q K[j]^T)^T Q for each j: threads write the product where it is read turned."""
    bq, bk = tile
    q = cute.local_tile(Q, (bq, 64), (0, 0))
    k = cute.local_tile(K, (bk, 64), (None, 0))
    (i,) = cute.tile_index(Y, (bk, None))[:1]
    y = cute.zeros((bk, 64), cute.f32)
    for j in cute.range(k.tiles):
        s = cute.zeros((bq, bk), cute.f32)
        cute.gemm(q, k[j].T, s)
        cute.gemm(s.to(Q.dtype).T, q, y)
    cute.copy(y, cute.local_tile(Y, (bk, 64), (i, 0)))


@cute.kernel
def clipped(A, B, Y, *, tile=(128, 128)):
    """Y = A max(B, 0): threads write once for each tile what is multiplied."""
    m, n = tile
    i, j = cute.tile_index(Y, (m, n))
    b = cute.maximum(cute.local_tile(B, (64, n), (0, j)).load(), 0).to(B.dtype)
    y = cute.zeros((m, n))
    cute.gemm(cute.local_tile(A, (m, 64), (i, 0)), b, y)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, (m, n), (i, j)))


ROWS = cute.TensorSpec((64, 64), cute.f16), cute.TensorSpec((None, 64), cute.f16)
SPECS = (*ROWS, cute.TensorSpec((64, 64), cute.f32))


def meetings(kernel):
    """The barriers and stages of the loop."""
    text = kernel.stages["cute-synchronize"].split('role "main"')[1]
    loop = text[text.rindex("scf.for") :]
    return loop[: loop.index("cute.extract")].count("cute.barrier"), "cute.stage" in loop


@pytest.mark.parametrize("trips", [0, 1, 2, 5])
def test_trips_around_the_stages(trips):
    rng = np.random.default_rng(trips)
    q = rng.integers(-1, 2, (64, 64)).astype(np.float16)
    k = rng.integers(-1, 2, (64 * trips, 64)).astype(np.float16)
    y = np.full((64, 64), np.nan, np.float32)
    schedule = "scheduler = single, overlap = no"
    squares(q, k, y, arch="sm_90a", backend="emulator", schedule=schedule)
    expected = sum((k[64 * j : 64 * j + 64].astype(np.float64) @ q.T @ q for j in range(trips)), 0)
    assert np.array_equal(y, np.broadcast_to(expected, y.shape))


def test_threads_meet_once_in_a_trip():
    kernel = cute.compile(
        squares, *SPECS, arch="sm_90a", schedule="scheduler = single, overlap = no, stages = 2"
    )
    assert meetings(kernel) == (1, True)


@pytest.mark.parametrize(
    "schedule",
    [
        "roles = specialized, stages = 3",
        "roles = specialized, stages = 3, cluster = (1,2)",
        "roles = alternate, stages = 2",
    ],
)
def test_work_items_some_ctas_apart_take_turns(schedule):
    """An item's number goes up by the number of clusters, or by twice that, which may be even: with
    the buffer of the item before the check would refuse the kernel.
    """
    specs = [cute.TensorSpec((None, None), dtype) for dtype in (cute.bf16, cute.bf16, cute.f16)]
    schedule += ", scheduler = persistent, epilogue = direct"
    kernel = cute.compile(clipped, *specs, arch="sm_90a", schedule=schedule)
    assert "{ahead = 0 : i32}" in kernel.stages["cute-synchronize"]
    rng = np.random.default_rng(0)
    a, b = (rng.integers(-2, 3, shape).astype(cute.bf16.numpy) for shape in ((384, 64), (64, 512)))
    y = np.full((384, 512), np.nan, np.float16)
    clipped(a, b, y, arch="sm_90a", backend="emulator", schedule=schedule)
    assert np.array_equal(y, a.astype(np.float32) @ np.maximum(b, 0).astype(np.float32))


def test_what_another_role_multiplies_gets_a_ring():
    """Warps transpose the values of 8 bits for the role that issues multiplies."""
    q, k = (cute.TensorSpec((1, 2, 256, 128), "e4m3") for _ in range(2))
    scale = cute.TensorSpec((2,), "f32")
    kernel = cute.compile(
        cute.attention, q, k, k, out=cute.TensorSpec((1, 2, 256, 128), "bf16"),
        scale_q=scale, scale_k=scale, scale_v=scale, arch="sm_100a",
    )  # fmt: skip
    assert "threads" in kernel.stages["cute-synchronize"].partition("pipeline.create {kind")[2]
