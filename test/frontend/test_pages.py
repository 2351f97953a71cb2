"""Tensors of pages: rows that go through a table, as operands of multiplies."""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

ARCHS = ["sm_80", "sm_90a"]


@cute.kernel
def scores(Q, K, S, table, lengths, *, block, size):
    b, i = cute.tile_index(S, (1, 64))
    paged = K.paged(1, table, size).slice(1, 0, lengths[b])
    q, k = (
        cute.local_tile(Q, (64, 64), (b, i, 0)),
        cute.local_tile(paged, (block, 64), (b, None, 0)),
    )
    for j in cute.range(k.tiles):
        acc = cute.zeros((64, block))
        cute.gemm(q, k[j].T, acc)
        cute.copy(acc, cute.local_tile(S, (64, block), (b, i, j)))


@cute.kernel
def weighted(P, V, out, table, *, block, size):
    b, i = cute.tile_index(out, (1, 64))
    paged = V.paged(1, table, size)
    p, v = (
        cute.local_tile(P, (64, block), (b, i, None)),
        cute.local_tile(paged, (block, 64), (b, None, 0)),
    )
    acc = cute.zeros((64, 64))
    for j in cute.range(v.tiles):
        cute.gemm(p[j], v[j], acc)
    cute.copy(acc, cute.local_tile(out, (64, 64), (b, i, 0)))


def pages(size, lengths, columns, rows_of=64, seed=0):
    """(pages, table): what no length reaches is NaN, or a page that is not there."""
    rng = np.random.default_rng(seed)
    count = sum(-(-length // size) for length in lengths)
    places = rng.permutation(2 * count)[:count]
    data = np.full((2 * count + 1, size, rows_of), np.nan, np.float16)
    table = np.full((len(lengths), columns), 10**6, np.int32)
    at = 0
    for entry, length in enumerate(lengths):
        for page in range(-(-length // size)):
            here = min(size, length - page * size)
            data[places[at], :here] = rng.standard_normal((here, rows_of))
            table[entry, page] = places[at]
            at += 1
    return data, table


def gathered(data, table, entry, length):
    size = data.shape[1]
    found = [data[table[entry, page]] for page in range(-(-length // size))]
    return np.concatenate([np.zeros((0, data.shape[2]), data.dtype), *found])[:length]


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(("size", "block"), [(16, 64), (64, 64), (128, 64), (8, 32)])
def test_rows_of_pages(size, block, arch):
    lengths = np.array([100, 0, 129], np.int32)
    data, table = pages(size, lengths, -(-130 // size))
    q = np.random.default_rng(1).standard_normal((3, 64, 64)).astype(np.float16)
    out = np.zeros((3, 64, 256), np.float32)
    scores(q, data, out, table, lengths, block=block, size=size, arch=arch, backend="emulator")
    for entry, length in enumerate(lengths):
        k = gathered(data, table, entry, length).astype(np.float64)
        np.testing.assert_allclose(out[entry, :, :length], q[entry] @ k.T, rtol=1e-4, atol=1e-4)
        assert not out[entry, :, length:].any()


@pytest.mark.parametrize("arch", ARCHS)
def test_pages_along_the_depth(arch):
    size, columns = 16, 5
    data, table = pages(size, [80, 80], columns)
    p = np.random.default_rng(1).standard_normal((2, 64, 80)).astype(np.float16)
    out = np.zeros((2, 64, 64), np.float32)
    weighted(p, data, out, table, block=64, size=size, arch=arch, backend="emulator")
    for entry in range(2):
        v = gathered(data, table, entry, 80).astype(np.float64)
        np.testing.assert_allclose(out[entry], p[entry] @ v, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("arch", ARCHS)
def test_every_page_is_a_copy_of_its_own(arch):
    data, table = pages(16, [64], 4)
    q, out = np.zeros((1, 64, 64), np.float16), np.zeros((1, 64, 64), np.float32)
    lengths = np.array([64], np.int32)
    kernel = cute.compile(scores, q, data, out, table, lengths, block=64, size=16, arch=arch)
    assert "cute.concat" in kernel.stages["trace"]
    if arch == "sm_90a":
        assert "slice 1" in kernel.stages["cute-partition"]
        assert kernel.ptx.count("cp.async.bulk.tensor.5d") == 4
    assert kernel.resources.spills == 0


@cute.kernel
def loads(K, out, turned, scores, table, *, size):
    """Pages in registers, transposed and copied on, beside a multiply that reads them, too."""
    b, _ = cute.tile_index(out, (1, 64))[:2]
    paged = K.paged(1, table, size)
    for j in cute.range(2):
        tile = cute.local_tile(paged, (32, 64), (b, j, 0))
        acc = cute.zeros((32, 32))
        cute.gemm(tile, tile.T, acc)
        cute.copy(
            acc + cute.row_sum(tile.to(cute.f32)), cute.local_tile(scores, (32, 32), (b, j, 0))
        )
        cute.copy(tile.T.load() * 2, cute.local_tile(turned, (64, 32), (b, 0, j)))
        cute.copy(tile, cute.local_tile(out, (32, 64), (b, j, 0)))


@pytest.mark.some(3)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("dtype", "size"), [(np.float16, 8), (np.float32, 16)])
def test_pages_in_registers(dtype, size, arch):
    """A thread finds the elements of a tile of several pages where shared memory has them together;
    of f32, which multiplies round, all bits.
    """
    data, table = pages(size, [64, 64], 8)
    data = data.astype(dtype)
    if dtype is np.float32:
        data += np.float32(2**-20)  # Of what is multiplied, tf32 has no such bits.
    out, turned = np.zeros((2, 64, 64), dtype), np.zeros((2, 64, 64), dtype)
    scores = np.zeros((2, 64, 32), np.float32)
    loads(data, out, turned, scores, table, size=size, arch=arch, backend="emulator")
    for entry in range(2):
        k = gathered(data, table, entry, 64)
        np.testing.assert_array_equal(out[entry], k)
        np.testing.assert_array_equal(turned[entry], 2 * k.T)
        wide = k.astype(np.float64).reshape(2, 32, 64)
        wanted = wide @ wide.transpose(0, 2, 1) + wide.sum(axis=2, keepdims=True)
        tolerance = 1e-3 if dtype is np.float16 else 5e-2
        np.testing.assert_allclose(scores[entry].reshape(2, 32, 32), wanted, tolerance, 0.2)


@cute.kernel
def odd_page(K, out, table):
    K.paged(1, table, 24)


@cute.kernel
def odd_tile(K, out, table):
    cute.local_tile(K.paged(1, table, 16), (24, 64), (0, 0, 0))


@cute.kernel
def one_element(K, out, table):
    K.paged(1, table, 16)[0, 0, 0]


@cute.kernel
def table_of_floats(K, out, table):
    K.paged(1, K, 16)


@cute.kernel
def late_slice(K, out, table):
    K.paged(1, table, 16).slice(1, 3, 20)


@cute.kernel
def pages_of_pages(K, out, table):
    K.paged(1, table, 16).paged(1, table, 16)


@cute.kernel
def first_mode(K, out, table):
    K.paged(0, table, 16)


@cute.kernel
def several_entries(K, out, table):
    cute.local_tile(K.paged(1, table, 16), (2, 16, 64), (0, 0, 0))


REFUSED = {
    odd_page: "expected a page size that is a power of two from 8 on, got 24",
    odd_tile: "expected tiles of K that are whole pages of 16 rows or divide one, got 24 rows",
    one_element: "expected tiles of the paged K, got single elements of it",
    table_of_floats: "expected a tensor of pages and a table (entries, pages) of page numbers",
    late_slice: "expected a slice from 0 on along mode 1 of the paged K",
    pages_of_pages: "expected a tensor of pages and a table",
    first_mode: "expected a mode in 1..2 of K, got 0",
    several_entries: "expected tiles of one entry of the paged K with a static number of rows",
}


@pytest.mark.parametrize("program", REFUSED, ids=lambda program: program.__name__)
def test_wrong_use_of_pages(program):
    data, table = pages(16, [64], 4)
    with pytest.raises(cute.CompileError) as caught:
        program(data, np.zeros((1, 64, 64), np.float16), table, backend="emulator")
    assert REFUSED[program] in str(caught.value)
    assert "test_pages.py" in str(caught.value.location)


@cute.kernel
def head_by_head(Q, K, S, table, *, block, size, heads_first=False):
    """A head of a cache whose pages hold all heads: its mode is one of extent 1, and dropped."""
    b, h, _ = cute.tile_index(S, (1, 1, 64))
    mode = 2 if heads_first else 1
    paged = K.paged(mode, table, size)
    q = cute.local_tile(Q, (64, 64), (b, h, 0, 0))
    for j in range(2):
        tile = (1, block, 64) if heads_first else (block, 1, 64)
        at = (b, h, j, 0) if heads_first else (b, j, h, 0)
        k = cute.local_tile(paged, tile, at)
        assert k.shape == (block, 64)
        acc = cute.zeros((64, block))
        cute.gemm(q, k.T, acc)
        cute.copy(acc, cute.local_tile(S, (64, block), (b, h, 0, j)))
    tile = (1, size, 64) if heads_first else (size, 1, 64)
    run = cute.local_tile(paged, tile, (b, h, None, 0) if heads_first else (b, None, h, 0))
    assert run.shape == (size, 64)
    for j in cute.range(run.tiles):
        last = cute.local_tile(S, (size, 64), (b, h, j + 64 // size, 0))
        cute.copy(run[j].load().to(cute.f32), last)


@pytest.mark.some(4)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("block", "heads_first"), [(16, False), (32, False), (32, True)])
def test_modes_of_one_element_are_dropped(block, heads_first, arch):
    rng = np.random.default_rng(3)
    k = rng.integers(-2, 3, (7, 2, 16, 64) if heads_first else (7, 16, 2, 64)).astype(np.float16)
    q = rng.integers(-2, 3, (2, 2, 64, 64)).astype(np.float16)
    table = np.array([[6, 1, 2, 0], [3, 5, 4, 2]], np.int32)
    s = np.zeros((2, 2, 128, 64), np.float32)
    head_by_head(
        q, k, s, table, block=block, size=16, heads_first=heads_first, arch=arch, backend="emulator"
    )
    keys = k if heads_first else k.swapaxes(1, 2)
    for b, h in np.ndindex(2, 2):
        rows = keys[table[b], h].reshape(64, 64).astype(np.float32)
        product = q[b, h].astype(np.float32) @ rows[: 2 * block].T
        assert np.array_equal(s[b, h, :64, : 2 * block], product)
        assert np.array_equal(s[b, h, 64:], rows)
