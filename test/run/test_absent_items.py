"""Clusters that hang over the last tile: CTAs without a tile have no effect, and do not hang. So do
instances that count the trips of work items, maybe past the last one.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import emulated

SCHEDULERS = ("single", "persistent")


def drawn(*shape, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(np.float16)


def padded(x, rows, columns):
    return np.pad(x.astype(np.float32), ((0, rows - x.shape[0]), (0, columns - x.shape[1])))


@cute.kernel
def chosen_blocks(A, B, M, C, D, total, *, tile=(64, 64, 32)):
    """Blocks of K that a work item's own numbers choose; a sum of all, and a copy elsewhere."""
    bm, bn, bk = tile
    i, j = cute.tile_index(C, (bm, bn))
    a, b = cute.local_tile(A, (bm, bk), (i, None)), cute.local_tile(B, (bk, bn), (None, j))
    acc = cute.zeros((bm, bn))
    for k in cute.range(M[i, 0]):
        with cute.when(M[i, 1 + k] != 0):
            cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(C, (bm, bn), (i, j)))
    cute.copy(acc, cute.local_tile(D, (bm, bn), (0, 3 * i + j)))
    # A cluster lies along rows and columns, of which the sum takes neither.
    cute.atomic_add(cute.row_sum(cute.column_sum(acc)), cute.local_tile(total, (1,), (0,)))


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("scheduler", SCHEDULERS)
@pytest.mark.parametrize("cluster", ["(2,1)", "(1,2)", "(2,2)"])
def test_ctas_beyond_the_last_tile_have_no_effect(cluster, scheduler, arch):
    a, b = drawn(130, 96), drawn(96, 150, seed=1)
    numbers = np.array([[3, 1, 0, 1], [1, 1, 1, 1], [2, 0, 1, 1]], np.int32)
    c, d = np.zeros((130, 150), np.float32), np.zeros((64, 10 * 64), np.float32)
    total = np.zeros(1, np.float32)
    schedule = f"cluster = {cluster}, scheduler = {scheduler}"
    chosen_blocks(a, b, numbers, c, d, total, arch=arch, schedule=schedule, backend="emulator")
    wide_a, wide_b = padded(a, 192, 96), padded(b, 96, 192)
    right = np.zeros((192, 192), np.float32)
    for i, (count, *kept) in enumerate(numbers):
        for k in range(count):
            rows, depth = slice(64 * i, 64 * i + 64), slice(32 * k, 32 * k + 32)
            right[rows] += kept[k] * (wide_a[rows, depth] @ wide_b[depth])
    assert np.array_equal(c, right[:130, :150])
    tiles = right.reshape(3, 64, 3, 64).transpose(1, 0, 2, 3).reshape(64, 9 * 64)
    assert np.array_equal(d[:, : 9 * 64], tiles)
    assert not d[:, 9 * 64 :].any()
    assert total == right.sum()


def test_a_tile_is_shared_where_all_that_take_it_run_alike():
    """Not within a branch, or a loop, that the CTAs of a cluster take in ways of their own."""

    @cute.kernel
    def plain(A, B, C, *, tile=(64, 64, 32)):
        bm, bn, bk = tile
        i, j = cute.tile_index(C, (bm, bn))
        a, b = cute.local_tile(A, (bm, bk), (i, None)), cute.local_tile(B, (bk, bn), (None, j))
        acc = cute.zeros((bm, bn))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc, cute.local_tile(C, (bm, bn), (i, j)))

    half, full = (cute.TensorSpec((None, None), dtype) for dtype in ("f16", "f32"))
    options = {"arch": "sm_90a", "schedule": "cluster = (2,1)"}
    assert ".multicast::cluster" in cute.compile(plain, half, half, full, **options).ptx
    numbers, total = cute.TensorSpec((None, None), "i32"), cute.TensorSpec((None,), "f32")
    args = half, half, numbers, full, full, total
    assert ".multicast::cluster" not in cute.compile(chosen_blocks, *args, **options).ptx


@cute.kernel
def rows_alone(X, Y):
    i = cute.tile_index(Y, (8,))
    cute.copy(cute.local_tile(X, (8,), (i,)).load(), cute.local_tile(Y, (8,), (i,)))


@cute.kernel
def whole_rows(X, Y):
    i, _ = cute.tile_index(Y, (8, None))
    cute.copy(cute.local_tile(X, (8, 16), (i, 0)).load(), cute.local_tile(Y, (8, 16), (i, 0)))


@pytest.mark.parametrize(
    ("kernel", "rank", "cluster", "message"),
    [
        (rows_alone, 1, "(2,1)", "work items of 2 coordinates with cluster = .2, 1., got 1; take"),
        (
            whole_rows,
            2,
            "(1,2)",
            "tiles of mode 1 with cluster = .1, 2., got the whole mode",
        ),
    ],
)
def test_a_cluster_along_no_tiles_is_refused(kernel, rank, cluster, message):
    spec = cute.TensorSpec((None,) * rank, "f32")
    with pytest.raises(cute.CompileError, match=message):
        cute.compile(kernel, spec, spec, arch="sm_90a", schedule=f"cluster = {cluster}")


def test_roles_of_a_program_without_a_multiply_are_refused_where_no_thread_is_elected():
    spec = cute.TensorSpec((None, None), "f32")
    message = "expected the role plan uniform on sm_80, got specialized"
    with pytest.raises(cute.CompileError, match=message):
        cute.compile(whole_rows, spec, spec, arch="sm_80", schedule="roles = specialized")


@cute.kernel
def product_twice(A, B, C, D, *, tile=(64, 64, 32)):
    """A product, and its double in a larger tensor."""
    bm, bn, bk = tile
    i, j = cute.tile_index(C, (bm, bn))
    a, b = cute.local_tile(A, (bm, bk), (i, None)), cute.local_tile(B, (bk, bn), (None, j))
    acc = cute.zeros((bm, bn))
    for k in cute.range(2):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc.to(cute.f16), cute.local_tile(C, (bm, bn), (i, j)))
    cute.copy((acc * 2.0).to(cute.f16), cute.local_tile(D, (bm, bn), (i, j)))


@pytest.mark.parametrize("cluster", ["(2,1)", "(1,2)"])
def test_a_tensor_that_goes_on_behind_the_last_tile_keeps_what_it_has(cluster):
    a, b = drawn(192, 64), drawn(64, 192, seed=1)
    c, d = np.zeros((192, 192), np.float16), np.full((256, 256), 7, np.float16)
    schedule = f"cluster = {cluster}"
    product_twice(a, b, c, d, arch="sm_90a", schedule=schedule, backend="emulator")
    right = a.astype(np.float32) @ b.astype(np.float32)
    assert np.array_equal(c, right)
    assert np.array_equal(d[:192, :192], 2 * right)
    assert (d[192:] == 7).all()
    assert (d[:, 192:] == 7).all()


def heads(X, Y):
    """To each head's rows are added those of the head at half its number."""
    head, i = cute.tile_index(Y, (1, 64))
    x, y = cute.local_tile(X, (64,), (head // 2, i)), cute.local_tile(Y, (64,), (head, i))
    cute.copy(x.load() + y.load(), y)


@pytest.mark.parametrize("in_bounds", [False, True])
def test_a_head_behind_the_last_one_is_not_read(in_bounds):
    """What a kernel promises of its coordinates is about the work items that there are."""
    x, y = (np.ones((count, 100), np.float32) for count in (2, 3))
    program = cute.kernel(heads, in_bounds=in_bounds)
    program(x, y, arch="sm_90a", schedule="cluster = (2,1)", backend="emulator")
    assert (y == 2).all()
    x, y = (np.ones((count, 100), np.float32) for count in (3, 5))
    program(x, y, arch="sm_90a", schedule="cluster = (2,1)", backend="emulator")
    assert (y == 2).all()


@cute.kernel
def valid_depths(A, B, counts, C, *, tile=(64, 64, 32)):
    """Of a batch entry the first counts[entry] columns of A count: a loop of as many trips."""
    bm, bn, bk = tile
    entry, i, j = cute.tile_index(C, (1, bm, bn))
    depth = counts[entry].to(cute.i32)
    A = A.slice(2, 0, depth)
    a = cute.local_tile(A, (bm, bk), (entry, i, None))
    b = cute.local_tile(B, (bk, bn), (entry, None, j))
    acc = cute.zeros((bm, bn))
    for k in cute.range((depth + (bk - 1)) // bk):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(C, (bm, bn), (entry, i, j)))


@pytest.mark.some(4)
@pytest.mark.parametrize("count", [1, 2, 5, 8])
@pytest.mark.parametrize("instances", [2, 3])
def test_instances_read_nothing_of_the_items_past_the_last_one(count, instances, monkeypatch):
    """An instance counts the trips of the items that others have, which numbers of these tell."""
    monkeypatch.setattr(emulated, "SM_COUNT", 2)
    a, b = drawn(count, 64, 200), drawn(count, 200, 64, seed=1)
    counts = np.array([200, 10, 64, 0, 129, 33, 96, 200][:count], np.int32)
    c = np.zeros((count, 64, 64), np.float32)
    schedule = f"roles = alternate, instances = {instances}"
    valid_depths(a, b, counts, c, arch="sm_90a", schedule=schedule, backend="emulator")
    for entry, depth in enumerate(counts):
        right = a[entry, :, :depth].astype(np.float32) @ b[entry, :depth].astype(np.float32)
        assert np.array_equal(c[entry], right)


@cute.kernel
def packed_depths(A, B, offsets, C, *, tile=(64, 64, 32)):
    """Item n is of the sequence whose blocks of K it lies among: which one is searched for."""
    bm, bn, bk = tile
    n, i, j = cute.tile_index(C, (1, bm, bn))
    sequence = cute.search(lambda s: offsets[s], offsets.extent - 1, n)
    a = cute.local_tile(A, (bm, bk), (i, None))
    b = cute.local_tile(B, (bk, bn), (None, j))
    acc = cute.zeros((bm, bn))
    for k in cute.range(sequence, offsets[sequence + 1]):
        cute.gemm(a[k], b[k], acc)
    cute.copy(acc, cute.local_tile(C, (bm, bn), (n, i, j)))


def test_instances_search_for_the_items_of_others(monkeypatch):
    monkeypatch.setattr(emulated, "SM_COUNT", 2)
    a, b = drawn(64, 288), drawn(288, 64, seed=1)
    offsets = np.array([0, 1, 4, 6, 9], np.int32)
    c = np.zeros((9, 64, 64), np.float32)
    packed_depths(a, b, offsets, c, arch="sm_90a", schedule="roles = alternate", backend="emulator")
    for item in range(9):
        sequence = int(np.searchsorted(offsets, item, "right")) - 1
        depths = slice(32 * sequence, 32 * int(offsets[sequence + 1]))
        right = a[:, depths].astype(np.float32) @ b[depths].astype(np.float32)
        assert np.array_equal(c[item], right)
