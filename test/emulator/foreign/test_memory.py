"""Foreign kernels about where data lies: vectors, shared memory, tables, parameters, ids."""

import struct
import zlib

import numpy as np


def test_vector_copy(launch, rng):
    x = rng.standard_normal(203).astype(np.float32)
    out = np.full(205, 9.0, np.float32)
    launch("vector_copy", 2, 16, x, out, np.int32(203), np.float32(1.5))
    np.testing.assert_array_equal(out[:203], x * np.float32(1.5))
    assert (out[203:] == 9.0).all()


def test_vector_shuffle(launch, rng):
    n = 40
    b, pairs = rng.integers(0, 256, (n, 4)).astype(np.uint8), rng.standard_normal((n, 2))
    codes, swapped = np.zeros((n, 2), np.int32), np.zeros((n, 2))
    wide = np.zeros((n, 4), np.uint16)
    args = b, pairs, codes, swapped, wide, np.int32(n)
    launch("vector_copy", 2, 32, *args, entry="vector_shuffle")
    x, y, z, w = b.astype(np.int32).T
    np.testing.assert_array_equal(codes.T, [x + 256 * y, z - w])
    np.testing.assert_array_equal(swapped, pairs[:, ::-1])
    np.testing.assert_array_equal(wide.T, [w * 257, z, y, x << 8])


def test_dynamic_shared(launch, rng):
    n, blocks = 48, 2
    x = rng.integers(0, 30, (blocks, n)).astype(np.int32)
    means, ranks = np.zeros((blocks, n)), np.zeros((blocks, n), np.int16)
    size = np.zeros(1, np.int32)
    launch("dynamic_shared", blocks, n, x, means, ranks, size, smem=n * 14)
    t = np.arange(n)
    np.testing.assert_array_equal(ranks, np.argsort(x, axis=1, kind="stable"))
    expected = x.cumsum(axis=1) / (t + 1) + 10 * (t & 3)
    np.testing.assert_allclose(means, expected[:, ::-1], rtol=1e-15)
    assert size[0] == n * 14


def test_tables(launch, rng):
    threads, length = 24, 9
    data = rng.integers(0, 256, (threads, length)).astype(np.uint8)
    crc, lengths = np.zeros(threads, np.uint32), np.zeros(threads, np.int32)
    products, picked = np.zeros(threads), np.zeros(threads + 1, np.int32)
    launch("tables", 1, threads, data, np.int32(length), crc, lengths, products, picked)
    assert crc.tolist() == [zlib.crc32(row.tobytes()) for row in data]
    assert lengths.tolist() == [[4, 3, 13, 0][t & 3] for t in range(threads)]
    roots = np.array([1.0, 1.4142135623730951, -1.7320508075688772])
    np.testing.assert_array_equal(products, np.resize(roots, threads) * np.arange(threads))
    nibbles = [0, 0x1DB71064, 0x3B6E20C8, 0x26D930AC]
    nibbles += [0x76DC4190, 0x6B6B51F4, 0x4DB26158, 0x5005713C]
    entries = [(7, -300, 0), (250, 12, 4)]
    for t in range(threads):
        key, delta, base = entries[t & 1]
        assert picked[t] == key + delta + (nibbles[base + (t & 3)] >> 8)
    assert picked[threads] == 5 + 2 * threads


CONFIG = struct.Struct("<bxhifxxxxdq5B3x3f4x")  # the C layout of Config: 8-aligned, 56 bytes


def test_struct_params(launch, rng):
    def config(*fields) -> np.void:
        return np.void(CONFIG.pack(*fields))

    x = rng.integers(-(2**20), 2**20, 40).astype(np.int32)
    y = np.zeros(40)
    mask, taps = (1, 0x22, 0x33, 0xF4, 5), (0.25, -1.5, 3.0)
    first = config(-3, 5, -700, 0.125, 1e10, -(2**40), *mask, *taps)
    second = config(0, 0, 0, 0.0, 0.0, 0, 1, 2, 3, 4, 250, 7.0, 8.0, 9.5)
    scalars = np.uint8(200), np.int16(-1234), np.bool_(True), np.float32(1.75)
    launch("struct_params", 1, 40, first, x, y, *scalars, second)
    t = np.arange(40)
    v = 0.125 * (x >> 5) + 1e10 - 700 - 2.0**40
    v += np.array(taps)[t % 3] * (np.array(mask)[t % 5] & 15) + 0.5
    v = (v + 200 + 1234) * 1.75 + 250 - np.array([7.0, 8.0, 9.5])[(t + 1) % 3]
    np.testing.assert_allclose(y, -v, rtol=1e-15)


def test_indexing(launch):
    grid, block = (3, 2, 2), (4, 3, 2)
    width, height, depth = (g * b for g, b in zip(grid, block, strict=True))
    seen = np.zeros((depth, height, width), np.int32)
    ids = np.zeros((depth, height, width, 4), np.uint32)
    launch("indexing", grid, block, seen, ids, np.int32(width), np.int32(height))
    z, y, x = np.indices(seen.shape)
    thread = x % 4 + 10 * (y % 3) + 100 * (z % 2)
    blocks = x // 4 + 10 * (y // 3) + 100 * (z // 2)
    np.testing.assert_array_equal(seen, thread + 1000 * blocks)
    lane = x % 4 + 4 * (y % 3) + 12 * (z % 2)
    np.testing.assert_array_equal(ids[..., 0], lane)
    assert (ids[..., 1] == 2 * 1000 + 2 * 100 + 2 * 10 + 32).all()
    np.testing.assert_array_equal(ids[..., 2], (2 << lane) - 1)
    assert (ids[..., 3] == 12).all()


def test_string_search(launch):
    text = b"The cat scattered catnip; CATS concatenate CaT"
    pattern = b"cAt"
    first, count = np.array([10**6], np.int32), np.zeros(1, np.int32)
    marks = np.zeros(len(text), np.int8)
    letters, wanted = (np.frombuffer(s, np.uint8).copy() for s in (text, pattern))
    found = first, count, marks
    args = letters, np.int32(letters.size), wanted, np.int32(wanted.size), *found
    launch("string_search", 1, 32, *args)
    low, key = text.lower(), pattern.lower()

    def common(i: int) -> int:
        return next((j for j in range(len(key)) if low[i + j : i + j + 1] != key[j : j + 1]), -1)

    expected = [common(i) for i in range(len(text))]
    assert marks.tolist() == expected
    assert (first[0], count[0]) == (expected.index(-1), expected.count(-1))
