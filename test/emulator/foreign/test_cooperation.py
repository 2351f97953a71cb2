"""Foreign kernels in which threads work together: shuffles, votes, barriers, atomics, flags."""

from collections import Counter

import numpy as np


def test_block_reduce(launch, rng):
    n, blocks = 1000, 2
    x = rng.standard_normal(n).astype(np.float32)
    y = rng.integers(-(2**31), 2**31, n).astype(np.int32)
    total, low, norm = np.zeros(blocks, np.float32), np.zeros(blocks, np.int32), np.zeros(blocks)
    launch("block_reduce", blocks, 128, x, y, total, low, norm, np.int32(n))
    owner = np.arange(n) // 128 % blocks
    for block in range(blocks):
        mine = owner == block
        assert np.isclose(total[block], x[mine].sum(dtype=np.float64), atol=1e-4)
        assert low[block] == y[mine].min()
        assert np.isclose(norm[block], np.linalg.norm(x[mine].astype(np.float64)), rtol=1e-12)


def test_block_scan(launch, rng):
    n, size = 300, 128
    x = rng.integers(-1000, 1000, n).astype(np.int32)
    scan, totals = np.full(n, -1, np.int32), np.zeros(3, np.int32)
    launch("block_scan", 3, size, x, scan, totals, np.int32(n))
    padded = np.zeros(3 * size, np.int32)
    padded[:n] = x
    inclusive = padded.reshape(3, size).cumsum(axis=1)
    np.testing.assert_array_equal(scan, (inclusive.ravel() - padded)[:n])
    np.testing.assert_array_equal(totals, inclusive[:, -1])


def test_global_atomics(launch, rng):
    n = 100
    x = rng.integers(0, 200, n).astype(np.int32)
    ints = np.array([5, 10**6, -1, 0, 0, 0], np.int32)
    words = np.array([0xFFFFFFFF, 0, 0, 0, 0], np.uint32)
    longs = np.array([1, 0, 0], np.uint64)
    floats, doubles = np.zeros(1, np.float32), np.array([0.0, 1.0])
    tickets = np.full(n, -1, np.int32)
    launch("global_atomics", 4, 32, x, ints, words, longs, floats, doubles, tickets, np.int32(n))
    total = int(x.sum())
    assert ints.tolist() == [5 + total, x.min(), x.max(), -total, n, 77]
    low_bits = np.bitwise_or.reduce(np.uint32(1) << (x & 31).astype(np.uint32))
    products = x.astype(np.uint32) * np.uint32(2654435761)
    assert words[:3].tolist() == [~low_bits, low_bits, np.bitwise_xor.reduce(products)]
    assert words[3] == n % 7  # counts 0..6 and starts again
    assert words[4] == -n % 10  # counts down from 9 and starts again
    assert longs.view(np.int64).tolist() == [
        1 + (total << 20),
        int(x.max()) << 33,
        -int(x.max()) * 1000000007,
    ]
    assert floats[0] == 0.25 * total
    assert doubles.tolist() == [0.125 * total, 0.5 ** int((x % 16 == 0).sum())]
    assert sorted(tickets) == list(range(n))


def test_histogram(launch, rng):
    data = rng.integers(0, 256, 1111).astype(np.uint8) // 3
    bins = np.zeros(256, np.uint32)
    launch("histogram", 2, 96, data, bins, np.int32(data.size))
    np.testing.assert_array_equal(bins, np.bincount(data, minlength=256))


def test_bitonic_sort(launch, rng):
    keys = rng.permutation(2**32 // 1009 * np.arange(512, dtype=np.uint64)).astype(np.uint32)
    values = np.arange(512, dtype=np.uint16)
    expected = [np.argsort(half) + 256 * i for i, half in enumerate(keys.reshape(2, 256))]
    sorted_keys = np.sort(keys.reshape(2, 256)).ravel()
    launch("bitonic_sort", 2, 128, keys, values)
    np.testing.assert_array_equal(keys, sorted_keys)
    np.testing.assert_array_equal(values, np.concatenate(expected))


def test_radix_sort(launch, rng):
    keys = rng.integers(-(2**31), 2**31, 128).astype(np.int32)
    keys[64:96] = keys[:32]
    indices = np.zeros(128, np.int32)
    expected = np.argsort(keys, kind="stable")
    sorted_keys = keys[expected]
    launch("radix_sort", 1, 128, keys, indices)
    np.testing.assert_array_equal(keys, sorted_keys)
    np.testing.assert_array_equal(indices, expected)


def test_warp_votes(launch, rng):
    n = 64
    x = rng.integers(0, 60, n).astype(np.int32)
    kept, sizes = np.full(n, -1, np.int32), np.zeros(2, np.int32)
    groups, reduced = np.zeros(n, np.uint32), np.zeros((n, 6), np.int32)
    segments = np.zeros((n, 2), np.int32)
    launch("warp_votes", 1, n, x, kept, sizes, groups, reduced, segments, np.int32(n))
    for warp, v in enumerate(x.reshape(2, 32)):
        lanes = slice(32 * warp, 32 * warp + 32)
        large = v[v > 10]
        np.testing.assert_array_equal(kept[lanes][: large.size], large)
        assert (kept[lanes][large.size :] == -1).all()
        assert sizes[warp] == 4 * large.size + 2 * (v == 3).any() + (v < 90).all()
        bit = np.uint32(1) << np.arange(32, dtype=np.uint32)
        same = [int(bit[v % 4 == k % 4].sum()) for k in v]
        np.testing.assert_array_equal(groups[lanes], same)
        any_bit = np.bitwise_or.reduce(np.uint32(1) << (v & 31).astype(np.uint32)).view(np.int32)
        odd_high = np.uint32(bit[16:][v[16:] % 2 == 1].sum()).view(np.int32)
        last = [np.bitwise_xor.reduce(v[:16])] * 16 + [odd_high] * 16
        for lane in range(32):
            expected = [v.sum(), v.min() - 20, v.max(), any_bit, -1, last[lane]]
            np.testing.assert_array_equal(reduced[32 * warp + lane], expected)
        octets = v.reshape(4, 8)
        np.testing.assert_array_equal(segments[lanes, 0], octets.sum(axis=1).repeat(8))
        source = np.arange(32) // 8 * 8 + (np.arange(32) + 3) % 8
        np.testing.assert_array_equal(segments[lanes, 1], v[source])


def test_life(launch, rng):
    board = (rng.random((16, 16)) < 0.4).astype(np.uint8)
    population = np.zeros(5, np.int32)
    now, counts = board.copy(), []
    for _ in range(5):
        shifts = [(dy, dx) for dy in (-1, 0, 1) for dx in (-1, 0, 1) if dy or dx]
        alive = sum(np.roll(now, shift, (0, 1)).astype(int) for shift in shifts)
        now = ((alive == 3) | ((alive == 2) & (now == 1))).astype(np.uint8)
        counts.append(now.sum())
    launch("life", 1, (16, 16), board, np.int32(5), population)
    np.testing.assert_array_equal(board, now)
    np.testing.assert_array_equal(population, counts)


def test_bfs(launch, rng):
    nodes = 64
    edges = [sorted(rng.choice(nodes, rng.integers(0, 4), replace=False)) for _ in range(nodes)]
    edges[0], edges[63] = [1, 5], []
    starts = np.cumsum([0] + [len(e) for e in edges]).astype(np.int32)
    flat = np.array([v for e in edges for v in e], np.int32)
    distance = np.full(nodes, -1, np.int32)
    distance[0] = 0
    expected, frontier, level = {0: 0}, [0], 0
    while frontier:
        level += 1
        frontier = [v for u in frontier for v in edges[u] if expected.setdefault(v, level) == level]
        frontier = sorted(set(frontier))
    rounds = np.zeros(2, np.int32)
    launch("bfs", 1, 32, starts, flat, distance, rounds, np.int32(nodes))
    assert {v: d for v, d in enumerate(distance) if d >= 0} == expected
    assert rounds.tolist() == [level, (distance[:32] >= 0).all()]


def test_last_block(launch, rng):
    x = rng.integers(-50, 50, 777).astype(np.float32)
    partial, total = np.zeros(5, np.float32), np.zeros(1, np.float32)
    launch("last_block", 5, 64, x, partial, total, np.int32(x.size))
    assert total[0] == x.sum()
    assert partial.sum() == x.sum()


def test_aggregated_atomics(launch, rng):
    x = rng.integers(0, 1000, 150).astype(np.int32)
    kept, count = np.full(150, -1, np.int32), np.zeros(1, np.int32)
    launch("aggregated_atomics", 3, 64, x, kept, count, np.int32(x.size))
    chosen = x[x % 3 == 0]
    assert count[0] == chosen.size
    assert Counter(kept[: chosen.size].tolist()) == Counter(chosen.tolist())
    assert (kept[chosen.size :] == -1).all()


def test_named_barriers(launch, rng):
    x = rng.integers(-100, 100, 128).astype(np.int32)
    out = np.zeros(128, np.int32)
    launch("named_barriers", 1, 160, x, out)
    left, right = x[:64] * 2, x[64:] + 1
    np.testing.assert_array_equal(out[:64], left[::-1] + right)
    np.testing.assert_array_equal(out[64:], right[np.arange(64) ^ 32] - left)


def test_producer_consumer(launch, rng):
    items = 5
    x = rng.integers(-(2**20), 2**20, (items, 32)).astype(np.int32)
    sums = np.zeros(32, np.int64)
    launch("producer_consumer", 1, 64, x, sums, np.int32(items))
    expected = np.zeros(32, np.int64)
    for row in x:
        expected = expected * 7 + 3 * row[np.arange(32) ^ 1]
    np.testing.assert_array_equal(sums, expected)


def test_hash_table(launch, rng):
    size = 97
    keys = rng.choice(np.arange(1, 40, dtype=np.uint32) * 7919, 80).astype(np.uint32)
    slots, found = np.zeros(size, np.uint64), np.zeros(80, np.int32)
    launch("hash_table", 3, 32, keys, slots, found, np.int32(80), np.int32(size))
    used = slots[slots != 0]
    assert dict(zip((used >> 32).tolist(), (used & 0xFFFFFFFF).tolist(), strict=True)) == Counter(
        keys.tolist()
    )
    assert found.all()


def test_cub_blocks(launch, rng):
    keys = rng.integers(-500, 500, 128).astype(np.int32)
    scan, largest = np.zeros(128, np.int32), np.zeros(2, np.int32)
    bins = np.zeros(16, np.uint32)
    ordered = np.sort(keys)
    counts = np.bincount(keys & 15, minlength=16)
    launch("cub_blocks", 1, 64, keys, scan, largest, bins)
    np.testing.assert_array_equal(keys, ordered)
    np.testing.assert_array_equal(scan, ordered.cumsum() - ordered)
    assert largest.tolist() == [(ordered[::2] ^ ordered[1::2]).max(), ordered.sum()]
    np.testing.assert_array_equal(bins, counts)


def test_library_atomics(launch, rng):
    blocks, size = 3, 64
    x = rng.integers(-100, 100, blocks * size).astype(np.int32)
    total, lock, ready = np.zeros(1, np.int32), np.zeros(1, np.int32), np.zeros(1, np.int32)
    guarded, tiles = np.zeros(1, np.int64), np.zeros(x.size, np.int32)
    launch("library_atomics", blocks, size, x, total, lock, guarded, tiles, ready)
    assert total[0] == x.sum()
    assert guarded[0] == x[::16].sum()
    assert (lock[0], ready[0]) == (0, blocks)
    sums = x.reshape(-1, 8).sum(axis=1).repeat(8)
    np.testing.assert_array_equal(tiles, 10 * sums + np.arange(x.size) % 8)
