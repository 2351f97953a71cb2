"""Rows that the CTAs of a cluster share: what each computes of its part, and what crosses the
cluster, against the same program in one CTA and against float64.
"""

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
BACKENDS = ("interpreter", "emulator")


def _example(name):
    path = Path(__file__).parents[2] / "examples" / f"{name}.py"
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


ROWS = _example("rows")


def _shared(parts):
    return cute.Schedule(split_k=parts, reduction="cluster")


def _softmax(x):
    e = np.exp(x - x.max(1, keepdims=True))
    return e / e.sum(1, keepdims=True)


def _normed(x):
    d = x - x.mean(1, keepdims=True)
    return d / np.sqrt((d * d).mean(1, keepdims=True) + 1e-5)


def _close(found, exact, bound=1e-2):
    assert np.abs(found.astype(np.float64) - exact).max() <= bound * np.abs(exact).max()


def _check(seed, target, backend):
    rng = np.random.default_rng(seed)
    parts, width = int(rng.choice([2, 3, 4, 8])), int(rng.integers(40, 1500))
    if rng.random() < 0.5:
        width = -(-width // 128) * 128
    dtype = [BF16, np.float16, np.float32][rng.integers(3)]
    shape = int(rng.integers(1, 4)), width
    # Tiles may be wider than rows.
    tile = 1, width + int(rng.integers(0, 2)) * int(rng.integers(0, 99))
    where = {"tile": tile, "arch": target, "backend": backend, "schedule": _shared(parts)}
    x, r = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    scale, bias = (rng.standard_normal(width).astype(dtype) for _ in range(2))
    wide, g, b = (each.astype(np.float64) for each in (x, scale, bias))
    y, s = np.full_like(x, 7), np.full_like(x, 7)
    ROWS.softmax(x, y, **where)
    _close(y, _softmax(wide))
    ROWS.layer_norm(x, scale, bias, y, 1e-5, **where)
    _close(y, _normed(wide) * g + b)
    ROWS.rms_norm(x, r, scale, y, s, 1e-5, **where)
    total = wide + r.astype(np.float64)
    _close(s, total)
    _close(y, total / np.sqrt((total * total).mean(1, keepdims=True) + 1e-5) * g)
    q, scales = np.empty(shape, E4M3), np.empty(shape[0], np.float32)
    ROWS.quantize(x, q, scales, **where)
    _close(q.astype(np.float32) * scales[:, None], wide, 0.08)


@pytest.mark.parametrize("backend", BACKENDS)
def test_drawn(backend):
    _check(1, "sm_90a", backend)


@pytest.mark.long
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("seed", range(50, 62))
def test_more_drawn(seed, target, backend):
    _check(seed, target, backend)


@cute.kernel
def normalized_in_place(X, *, tile):
    i, _ = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, 0))
    v = x.to(cute.f32)
    cute.copy((v / cute.row_sum(v * v)).to(X.dtype), x)


@pytest.mark.parametrize("backend", BACKENDS)
def test_in_place(backend):
    x = np.random.default_rng(4).standard_normal((3, 700)).astype(np.float32)
    exact = x / (x.astype(np.float64) ** 2).sum(1, keepdims=True)
    where = {"schedule": _shared(4), "arch": "sm_90a", "backend": backend}
    normalized_in_place(x, tile=(1, 700), **where)
    _close(x, exact, 1e-5)


@cute.kernel
def statistics(X, Y, most, *, tile):
    """Of groups of columns, one tile behind the other: integers, whose sums are exact."""
    i, j = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, j)).to(cute.i32)
    top, total = cute.row_max(x), cute.row_sum(x + cute.coord(x, 1, j * tile[1]))
    cute.copy(top, cute.local_tile(most, (1, 1), (i, j)))
    cute.copy(x * 2 + total, cute.local_tile(Y, tile, (i, j)))


@cute.kernel
def extremes(X, Y, places, *, tile):
    """Rows as long as the tile, so that nothing is masked: negative elements."""
    i, _ = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, 0)).load()
    cute.copy(cute.row_max(x), cute.local_tile(Y, (1, 1), (i, 0)))
    cute.copy(cute.row_sum(x), cute.local_tile(Y, (1, 1), (i, 1)))
    cute.copy(cute.argmax(-x), cute.local_tile(places, (1, 1), (i, 0)))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("width", "dtype"), [(100, BF16), (333, np.float32), (256, np.float16)])
def test_nothing_behind_the_row_is_seen(width, dtype, backend, monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_VERIFY", "each")
    x = -1 - np.random.default_rng(width).permutation(2 * width).reshape(2, width) / 4
    x, y, places = x.astype(dtype), np.empty((2, 2), dtype), np.empty((2, 1), np.int32)
    where = {"schedule": _shared(3), "arch": "sm_90a", "backend": backend}
    extremes(x, y, places, tile=(1, width), **where)
    assert np.array_equal(y[:, 0], x.max(1))
    # Sums of 16-bit floats are rounded once.
    assert np.array_equal(y[:, 1], x.astype(np.float64).sum(1).astype(dtype))
    assert np.array_equal(places, x.astype(np.float64).argmin(1)[:, None])


@pytest.mark.parametrize("backend", BACKENDS)
def test_groups_of_columns(backend):
    x = np.random.default_rng(3).integers(-9, 9, (3, 512)).astype(np.int32)
    y, most = np.empty_like(x), np.empty((3, 4), np.int32)
    statistics(x, y, most, tile=(1, 128), schedule=_shared(4), arch="sm_90a", backend=backend)
    groups = x.reshape(3, 4, 128)
    assert np.array_equal(most, groups.max(2))
    total = (x + np.arange(512)).reshape(3, 4, 128).sum(2, keepdims=True)
    assert np.array_equal(y.reshape(3, 4, 128), groups * 2 + total)


def _compiled(kernel, *specs, **options):
    return cute.compile(kernel, *specs, arch=options.pop("arch", "sm_90a"), **options)


def _matrix(width, dtype=cute.bf16):
    return cute.TensorSpec((64, width), dtype, (width, 1))


@pytest.mark.parametrize(
    ("width", "arch", "parts"),
    [(8192, "sm_90a", None), (32768, "sm_80", None), (131072, "sm_90a", 8), (70001, "sm_100a", 7)],
)
def test_long_rows_are_shared(width, arch, parts):
    kernel = _compiled(ROWS.softmax, *[_matrix(width)] * 2, tile=(1, width), arch=arch)
    assert cute.Schedule.parse(kernel.schedule).split_k == parts
    assert ("cluster_ctarank" in kernel.ptx) == (parts is not None)
    told = [each.message for each in kernel.remarks if "clusters of" in each.message]
    assert bool(told) == (parts is not None)
    if parts:
        assert f"rows of {width} elements are shared by clusters of {parts} CTAs" in told[0]
    apart = {"schedule": "split_k = 1"}
    kernel = _compiled(ROWS.softmax, *[_matrix(width)] * 2, tile=(1, width), arch=arch, **apart)
    assert "cluster" not in kernel.ptx


@cute.kernel
def in_place(X, label, *, tile):
    i, _ = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    right = cute.local_tile(X, (1, 1), (i, label[i])).to(cute.f32)
    cute.copy((x - cute.row_max(x) * right).to(X.dtype), cute.local_tile(X, tile, (i, 0)))


@cute.kernel
def shifted(X, Y, *, tile):
    """In place: part of what a CTA loads is stored by its neighbor."""
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X.slice(1, 1, tile[1]), tile, (i, 0)).to(cute.f32)
    y = cute.local_tile(Y, tile, (i, 0)).to(cute.f32)
    cute.copy((x * cute.row_sum(y)).to(X.dtype), cute.local_tile(X, tile, (i, 0)))


@cute.kernel
def folded(X, Y, *, tile):
    i, _ = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, 0)).to(cute.f32)
    worst = cute.reduce(x, 1, lambda a, b: a + b * b)
    cute.copy((x * worst).to(Y.dtype), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def looped(X, Y, *, tile):
    i, _ = cute.tile_index(Y, (1, None))
    x, y = (cute.local_tile(each, tile, (i, None)) for each in (X, Y))
    total = cute.zeros((1, 1))
    for j in cute.range(x.tiles):
        total.assign(total + cute.row_sum(x[j].to(cute.f32)))
    for j in cute.range(x.tiles):
        cute.copy((x[j].to(cute.f32) * total).to(Y.dtype), y[j])


@cute.kernel
def several(X, Y, *, tile):
    i, _ = cute.tile_index(X, (2, tile[1]))
    x = cute.local_tile(X, (2, tile[1]), (i, 0)).to(cute.f32)
    cute.copy((x - cute.row_max(x)).to(Y.dtype), cute.local_tile(Y, (2, tile[1]), (i, 0)))


@pytest.mark.parametrize(
    ("kernel", "why"),
    [
        (in_place, "stores what another CTA may not have loaded yet"),
        (shifted, "stores what another CTA may not have loaded yet"),
        (folded, "a reduction folds by a function"),
        (looped, "rows are loaded or computed in a loop or branch"),
        (several, "tiles have 2 rows"),
    ],
)
def test_rows_that_are_not_shared(kernel, why):
    width = 512
    second = cute.TensorSpec((64,), cute.i32) if kernel is in_place else _matrix(width)
    with pytest.raises(cute.CompileError, match=f"2 CTAs of a cluster can share, but .*{why}"):
        _compiled(kernel, _matrix(width), second, tile=(1, width), schedule=_shared(2))


def test_schedules_that_rows_cannot_share():
    specs = [_matrix(512)] * 2
    for more, message in (
        ({"roles": "specialized"}, "roles = uniform"),
        ({"scheduler": "persistent"}, "the scheduler single"),
        ({"split_k": 32}, "split_k of at most 16"),
    ):
        schedule = cute.Schedule(**({"split_k": 2, "reduction": "cluster"} | more))
        with pytest.raises(cute.CompileError, match=message):
            _compiled(ROWS.softmax, *specs, tile=(1, 512), schedule=schedule)
    with pytest.raises(cute.CompileError, match="split_k of at most 1 "):
        _compiled(ROWS.softmax, *specs, tile=(1, 512), schedule=_shared(2), arch="sm_80")


@cute.host
def both(X, Y, W, Z, *, width):
    cute.launch(ROWS.softmax, X, Y, tile=(1, width))
    cute.launch(ROWS.softmax, W, Z, tile=(1, 64))


def test_only_the_kernels_with_long_rows_share_them():
    rng = np.random.default_rng(8)
    x, w = (rng.standard_normal((1, width)).astype(np.float32) for width in (16500, 64))
    y, z = np.empty_like(x), np.empty_like(w)
    both(x, y, w, z, width=x.shape[1], arch="sm_90a", backend="emulator")
    for found, source in ((y, x), (z, w)):
        _close(found, _softmax(source.astype(np.float64)), 1e-5)
    kernel = cute.compile(both, x, y, w, z, width=x.shape[1], arch="sm_90a")
    assert kernel.ptx.count(".reqnctapercluster") == 1


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_120a"])
def test_a_row_without_work_items(arch):
    """One work item is one CTA, or the cluster that shares its row."""

    @cute.kernel
    def shifted(X, Y):
        x = cute.local_tile(X, (20000,), (0,)).T.load()
        cute.copy(x - cute.row_max(x), cute.local_tile(Y, (1, 20000), (0, 0)))

    x = np.random.default_rng(0).integers(-9, 9, 19999).astype(np.float32)
    x[-1], y = 9, np.zeros((1, 19999), np.float32)
    shifted(x, y, arch=arch, backend="emulator")
    np.testing.assert_array_equal(y, [x - 9])
