"""Every program of the examples that streams, on shapes, tiles and paddings drawn by lot, against
float64 on several targets.
"""

from __future__ import annotations

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

EXAMPLES = Path(__file__).parents[2] / "examples"
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
ARCHS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
BOUNDS = {np.dtype(np.float32): 5e-6, np.dtype(np.float16): 2e-3, np.dtype(BF16): 1e-2}
LOTS = range(2)


def example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROWS, ELEMENTS, SUMS = example("rows"), example("elementwise"), example("sums")
ONLINE, TRANSPOSE = example("softmax"), example("transpose")


class Lot:
    """A draw for one test: a target, a type, a shape, and a tile as wide as its rows or wider."""

    def __init__(self, name: str, number: int) -> None:
        self.rng = np.random.default_rng([number, *name.encode()])
        self.arch = ARCHS[self.rng.integers(len(ARCHS))]
        self.dtype = np.dtype([np.float16, np.float32, BF16][self.rng.integers(3)])
        self.shape = int(self.rng.integers(1, 24)), int(2 ** self.rng.uniform(1, 9.5))
        self.tile = ROWS.tile_for(self.shape[1] + int(self.rng.integers(0, 9)))
        self.bound = BOUNDS[self.dtype]

    def array(self, shape=None, dtype=None):
        """Random numbers, perhaps with rows that lie apart in memory."""
        shape = shape or self.shape
        pad = int(self.rng.choice([0, 1, 4, 8]))
        whole = self.rng.standard_normal((*shape[:-1], shape[-1] + pad))
        return whole.astype(dtype or self.dtype)[..., : shape[-1]]

    def empty(self, shape=None, dtype=None):
        return np.full(shape or self.shape, np.nan).astype(dtype or self.dtype)

    def run(self, program, *args, **options):
        program(*args, arch=self.arch, backend="emulator", **options)


def wide(*arrays):
    return [each.astype(np.float64) for each in arrays]


def error(found, exact):
    return np.abs(found.astype(np.float64) - exact).max() / max(np.abs(exact).max(), 1e-30)


def lots(program):
    return pytest.mark.parametrize("lot", [Lot(program, number) for number in LOTS], ids=LOTS)


@lots("softmax")
def test_softmax(lot):
    x, y = lot.array(), lot.empty()
    (w,) = wide(x)
    e = np.exp(w - w.max(1, keepdims=True))
    lot.run(ROWS.softmax, x, y, tile=lot.tile)
    assert error(y, e / e.sum(1, keepdims=True)) < lot.bound
    y = lot.empty()
    lot.run(ONLINE.softmax, x, y, tile=(int(lot.rng.integers(1, 20)), 72))
    assert error(y, e / e.sum(1, keepdims=True)) < lot.bound


@lots("norms")
def test_norms(lot):
    x, r, y, s = lot.array(), lot.array(), lot.empty(), lot.empty()
    g, b = lot.array((lot.shape[1],)), lot.array((lot.shape[1],))
    w, v, scale, bias = wide(x, r, g, b)
    lot.run(ROWS.layer_norm, x, g, b, y, 1e-5, tile=lot.tile)
    d = w - w.mean(1, keepdims=True)
    exact = d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5) * scale + bias
    assert error(y, exact) < 4 * lot.bound
    lot.run(ROWS.rms_norm, x, r, g, y, s, 1e-5, tile=lot.tile)
    total = w + v
    exact = total / np.sqrt((total * total).mean(1, keepdims=True) + 1e-5) * scale
    assert max(error(y, exact), error(s, total)) < 4 * lot.bound


@lots("e4m3")
def test_rows_of_8_bit_floats(lot):
    x, q, scales = lot.array(), lot.empty(dtype=E4M3), lot.empty((lot.shape[0],), np.float32)
    lot.arch = lot.arch if lot.arch != "sm_80" else "sm_89"
    lot.run(ROWS.quantize, x, q, scales, tile=lot.tile)
    (w,) = wide(x)
    assert error(scales, np.abs(w).max(1) / 448) < 1e-6
    # Half of the last place of 3 bits, of the largest.
    assert error(q.astype(np.float64) * scales[:, None], w) < 2**-4 + 1e-6


@lots("cross-entropy")
def test_cross_entropy(lot):
    x, losses = lot.array(), lot.empty((lot.shape[0],), np.float32)
    labels = lot.rng.integers(0, lot.shape[1], lot.shape[0]).astype(np.int32)
    lot.run(ROWS.cross_entropy, x, labels, losses, tile=int(lot.rng.integers(30, 300)))
    (w,) = wide(x)
    exact = np.log(np.exp(w).sum(1)) - w[np.arange(len(labels)), labels]
    assert np.abs(losses - exact).max() < 1e-5


@lots("top-k")
def test_top_k(lot):
    x, k = lot.array(), int(lot.rng.integers(1, min(7, lot.shape[1] + 1)))
    values, places = lot.empty((lot.shape[0], k), np.float32), np.zeros((lot.shape[0], k), np.int32)
    lot.run(ROWS.top_k, x, values, places, tile=lot.tile, k=k)
    (w,) = wide(x)
    assert np.array_equal(values, -np.sort(-w, 1)[:, :k].astype(np.float32))
    assert np.array_equal(np.take_along_axis(w, places, 1), values)


@pytest.mark.some(1)
@lots("elementwise")
def test_elements(lot):
    x, y, z = lot.array(), lot.array(), lot.empty()
    tile = int(lot.rng.integers(1, 9)), int(lot.rng.integers(8, 300))
    w, v = wide(x, y)
    lot.run(ELEMENTS.swiglu, x, y, z, tile=tile)
    assert error(z, w / (1 + np.exp(-w)) * v) < lot.bound
    lot.run(ELEMENTS.add, x, y, z, tile=tile)
    assert error(z, w + v) < lot.bound
    half = lot.empty(dtype=np.float16)
    lot.run(ELEMENTS.cast, x, half, tile=tile)
    assert np.array_equal(half, x.astype(np.float32).astype(np.float16))
    again = lot.empty()
    lot.run(ELEMENTS.dropout, x, z, 5, 0.3, tile=tile)
    lot.run(ELEMENTS.dropout, x, again, 5, 0.3, tile=(2, 128))
    assert np.array_equal(z, again)
    kept = z != 0
    assert error(np.where(kept, z, 0), np.where(kept, w / 0.7, 0)) < lot.bound


@lots("rope")
def test_rotary_embeddings(lot):
    heads, tokens, depth = 4, int(lot.rng.integers(1, 40)), int(lot.rng.choice([16, 64, 128]))
    angles = lot.rng.standard_normal((tokens, depth // 2))
    c, s = (each(angles).astype(np.float32) for each in (np.cos, np.sin))
    x = lot.array((heads, tokens, depth)).copy()
    for view in (ELEMENTS.halves, ELEMENTS.neighbors):
        y = lot.empty(x.shape)
        group = int(lot.rng.choice([1, 2, 4]))
        lot.run(ELEMENTS.rope, view(x), c, s, view(y), tile=(8, depth // 2), heads=group)
        one, two = view(x).astype(np.float64)
        exact = np.stack([one * c - two * s, two * c + one * s])
        assert error(view(y), exact) < lot.bound


@lots("rows by number")
def test_rows_by_number(lot):
    x, y, back = lot.array(), lot.empty(), lot.empty()
    rows = lot.rng.permutation(lot.shape[0]).astype(np.int32)
    tile = int(lot.rng.integers(16, 400))
    lot.run(ELEMENTS.gather, x, rows, y, tile=tile)
    assert np.array_equal(y, x[rows])
    lot.run(ELEMENTS.scatter, y, rows, back, tile=(int(lot.rng.integers(1, 9)), tile))
    assert np.array_equal(back, x)


@lots("sums")
def test_sums(lot):
    x = lot.array((int(lot.rng.integers(1, 300)), lot.shape[1]))
    (w,) = wide(x)
    rows, columns = lot.empty((len(x),), np.float32), lot.empty((1, lot.shape[1]), np.float32)
    lot.run(SUMS.row_sums, x, rows, tile=(3, 100))
    assert np.abs(rows - w.sum(1)).max() < 1e-4
    for parts, split in ((int(lot.rng.integers(1, 6)), True), (1, False)):
        columns[:] = np.nan
        lot.run(SUMS.column_sums, x, columns, parts, tile=(64, 128), split=split)
        assert np.abs(columns - w.sum(0)).max() < 1e-4
    whole = lot.empty((1,), np.float32)
    flat = np.ascontiguousarray(x).reshape(-1)
    lot.run(SUMS.whole_sum, flat, whole, int(lot.rng.integers(1, 6)), tile=1000)
    assert abs(whole[0] - w.sum()) < 1e-2


@lots("transpose")
def test_transposes(lot):
    x = lot.array((int(lot.rng.integers(1, 200)), int(lot.rng.integers(1, 200))))
    y = lot.empty(x.shape[::-1])
    lot.run(TRANSPOSE.transpose, x, y, tile=TRANSPOSE.tile_for(*x.shape))
    assert np.array_equal(y, x.T)


def test_sums_give_the_same_bits_every_time():
    lot = Lot("bits", 0)
    x = lot.array((300, 130), np.float32)
    found = [lot.empty((1, 130), np.float32) for _ in range(2)]
    for each in found:
        lot.run(SUMS.column_sums, x, each, 3)
    assert found[0].tobytes() == found[1].tobytes()


def test_parts_are_whole_tiles_and_fill_the_device():
    for rows, columns in ((65536, 1024), (8192, 8192), (2048, 32768), (24271, 2765), (10, 70000)):
        parts = SUMS.parts_for((rows, columns))
        length = -(-rows // parts)
        assert parts * -(-columns // 128) <= max(264, -(-columns // 128))
        assert -(-rows // length) == parts


def test_an_index_outside_reads_zero():
    x, y = np.ones((4, 40), np.float32), np.full((3, 40), 7, np.float32)
    rows = np.array([2, 9, -1], np.int32)
    ELEMENTS.gather(x, rows, y, arch="sm_90a", backend="emulator", tile=64)
    assert np.array_equal(y, [[1] * 40, [0] * 40, [0] * 40])
    with pytest.raises(cute.CompileError):
        ELEMENTS.gather(x, rows, y, arch="sm_90a", backend="emulator", tile=0)
