"""Elementwise programs whose work items are runs of vectors that go through rows as if they were
one: matrices of any width, alignment and type, drawn at random, on all backends without a GPU.
"""

import random

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
TYPES = (BF16, np.float16, np.float32, np.int8)
WIDTHS = (1, 2, 3, 4, 7, 8, 12, 20, 31, 64, 66, 129, 260, 1024)
TILES = ((4, 1024), (1, 256), (2, 64), (16, 32), (3, 40), (1, 4096))


@cute.kernel
def scaled(X, bias, scale, Y, *, tile):
    """What is the same for a column and for a row."""
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    b = cute.row_vector(bias, j, tile[1]).to(cute.f32)
    y = (x + b) * cute.column_vector(scale, i, tile[0]).to(cute.f32)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def twice(X, Y, Z, *, tile):
    """Two results, the second of which may be larger than what is counted."""
    at = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, at).to(cute.f32)
    cute.copy(x.to(Y.dtype), cute.local_tile(Y, tile, at))
    cute.copy((x + 1.0).to(Z.dtype), cute.local_tile(Z, tile, at))


@cute.kernel
def placed(X, Y, *, tile):
    """Elements that ask where they are."""
    i, j = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    row, column = cute.coord(x, 0, i * tile[0]), cute.coord(x, 1, j * tile[1])
    y = cute.where((2 * row + column) % 3 == 0, x, -x)
    cute.copy(y.to(Y.dtype), cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def doubled(X, *, tile):
    """In place."""
    i, j = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, j)).to(cute.f32)
    cute.copy((x + x).to(X.dtype), cute.local_tile(X, tile, (i, j)))


def _matrix(rng, rows, columns, dtype, pad):
    return rng.integers(-3, 4, (rows, columns + pad)).astype(dtype)[:, :columns]


def _is_flat(program, *args, **options):
    remarks = cute.compile(program, *args, **options).remarks
    return any("go through rows as if they were one" in str(each) for each in remarks)


@pytest.mark.parametrize(
    "seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in range(1, 6))]
)
@pytest.mark.parametrize(("backend", "arch"), [("emulator", "sm_90a"), ("interpreter", "sm_80")])
def test_matrices_of_any_width(backend, arch, seed):
    draw, rng = random.Random(seed), np.random.default_rng(seed)
    how = {"backend": backend, "arch": arch}
    for _ in range(2):
        columns = draw.choice(WIDTHS)
        rows = min(draw.choice((1, 2, 5, 33, 130)), max(1, 6000 // columns))
        tile = draw.choice(TILES)
        x, y = (
            _matrix(rng, rows, columns, draw.choice(TYPES), -columns % draw.choice((1, 2, 8, 16)))
            for _ in range(2)
        )
        beside = y.base if y.base is not None else y
        kept = beside.copy()
        wide = x.astype(np.float64)
        bias = rng.integers(-3, 4, columns).astype(BF16)
        scale = rng.integers(-3, 4, rows).astype(np.float32)
        scaled(x, bias, scale, y, tile=tile, **how)
        exact = (wide + bias.astype(np.float64)) * scale.astype(np.float64)[:, None]
        assert np.array_equal(y.astype(np.float64), exact)
        placed(x, y, tile=tile, **how)
        places = 2 * np.arange(rows)[:, None] + np.arange(columns)
        assert np.array_equal(y.astype(np.float64), np.where(places % 3 == 0, wide, -wide))
        doubled(x, tile=tile, **how)
        assert np.array_equal(x.astype(np.float64), 2 * wide)
        assert np.array_equal(beside[:, columns:], kept[:, columns:])


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_a_second_result_is_stored_to_as_far_as_tiles_go(arch):
    x, y, z = (np.ones(shape, BF16) for shape in ((40, 400), (30, 300), (40, 400)))
    remarks = cute.compile(twice, x, y, z, tile=(4, 64), arch=arch).remarks
    assert any("Z may be larger than the tensor that counts" in str(each) for each in remarks)
    twice(x, y, z, tile=(4, 64), arch=arch, backend="emulator")
    assert (z[:32, :320] == 2).all()
    assert (z[32:] == 1).all()
    assert (z[:, 320:] == 1).all()


def test_which_programs_are_flat():
    x, y = (np.zeros((6, 320), BF16) for _ in range(2))
    how = {"tile": (4, 64), "arch": "sm_90a"}
    assert _is_flat(placed, x, y, **how)
    assert _is_flat(placed, x[:, :301], y[:, :301], **how)
    assert _is_flat(doubled, x, **how)
    assert _is_flat(scaled, x, y[0], y[0, :6].astype(np.float32), y, **how)
    assert not _is_flat(placed, x, y, **how, schedule="raster = 4")
    # Elements that are loaded one by one leave no time to find their places.
    assert not _is_flat(placed, x[:, 1:], y[:, 1:], **how)
    assert not _is_flat(placed, x.T, y.T, tile=(64, 4), arch="sm_90a")


@cute.kernel
def multiplied(X, W, Y, *, tile, mode, turns):
    """The same vector of a mode of the work items, seen through so many transposes each time."""
    at = cute.tile_index(Y, tile)
    y = cute.local_tile(X, tile, at).load()
    w = cute.local_tile(W, (tile[mode],), (at[mode],))
    for number, count in enumerate(turns):
        view = w
        for _ in range(count):
            view = view.T
        value = view.load()
        y = y * (number + 2) + (value if count else value[:, None])
    cute.copy(y, cute.local_tile(Y, tile, at))


# Mode of the vector, and how often it is transposed: once more where columns have it.
TURNS = [(0, (0, 2)), (0, (0, 2, 4)), (1, (1, 3)), (1, (3, 1)), (1, (3, 3)), (1, (1, 3, 5))]
# Of square tiles, what is counted along one mode may lie along the other one.
CROSSED = [(0, (1,)), (0, (1, 0)), (1, (0,)), (1, (0, 1))]


def test_threads_that_compute_much_have_two_vectors():
    """They share where a run begins, and constants: 45 instructions of each sine instead of 54."""

    @cute.kernel
    def waves(X, Y, *, tile):
        at = cute.tile_index(Y, tile)
        cute.copy(cute.sin(cute.local_tile(X, tile, at).load()), cute.local_tile(Y, tile, at))

    def remarks(program, *dtypes):
        specs = (cute.TensorSpec((None, 1000), dtype) for dtype in dtypes)
        kernel = cute.compile(program, *specs, tile=(4, 1024), arch="sm_90a")
        return " ".join(str(remark) for remark in kernel.remarks)

    assert "runs of 512 vectors of 4 elements" in remarks(waves, cute.f32, cute.f32)
    assert "runs of 256 vectors of 4 elements" in remarks(placed, cute.f32, cute.f32)
    x = np.random.default_rng(0).standard_normal((7, 1000)).astype(np.float32)
    y = np.zeros_like(x)
    waves(x, y, tile=(4, 1024), arch="sm_90a", backend="emulator")
    np.testing.assert_allclose(y, np.sin(x), atol=2e-7)


@pytest.mark.parametrize("dtype", [cute.f32, cute.bf16])
def test_threads_that_compute_much_keep_it_in_registers(dtype, spills_of):
    """An SM holds as many threads as it can, which leaves each 32 registers."""

    @cute.kernel
    def gated(X, Y, Z, *, tile):
        at = cute.tile_index(Z, tile)
        x, y = (cute.local_tile(tensor, tile, at).load().to(cute.f32) for tensor in (X, Y))
        cute.copy((cute.gelu(x) * y).to(Z.dtype), cute.local_tile(Z, tile, at))

    spec = cute.TensorSpec((None, 2064), dtype)
    kernel = cute.compile(gated, *(spec,) * 3, tile=(4, 1024), arch="sm_90a")
    runs = "512 vectors of 4" if dtype == cute.f32 else "256 vectors of 8"
    assert f"runs of {runs} elements" in " ".join(map(str, kernel.remarks))
    assert "ctas = 8" in kernel.schedule
    assert spills_of(kernel) == 0


@pytest.mark.parametrize(
    ("tile", "mode", "turns"),
    [*(((4, 1024), *each) for each in TURNS), *(((32, 32), *each) for each in CROSSED)],
)
def test_a_vector_that_is_seen_several_ways(tile, mode, turns):
    rng = np.random.default_rng(len(turns))
    x = rng.integers(-3, 4, (37, 1000)).astype(np.float32)
    w = rng.integers(-3, 4, x.shape[mode]).astype(np.float32)
    y = np.zeros_like(x)
    multiplied(x, w, y, tile=tile, mode=mode, turns=turns, arch="sm_80", backend="emulator")
    where, want = np.indices(x.shape), x
    for number, count in enumerate(turns):
        at = where[mode] // tile[mode] * tile[mode] + where[count % 2] % tile[count % 2]
        seen = np.where(at < len(w), w[np.minimum(at, len(w) - 1)], 0)
        want = want * (number + 2) + seen
    assert np.array_equal(y, want)
    given = {"tile": tile, "mode": mode, "turns": turns, "arch": "sm_80"}
    is_along = all(count % 2 == mode for count in turns)
    assert _is_flat(multiplied, x, w, y, **given) == is_along
