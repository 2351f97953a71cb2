"""Rows that the registers of a CTA do not hold: programs on whole rows walk them in parts, or any
number of CTAs of a cluster share them.
"""

import importlib.util
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

BF16 = ml_dtypes.bfloat16
EXAMPLES = Path(__file__).parents[2] / "examples"


def _example(name):
    spec = importlib.util.spec_from_file_location(f"example_{name}", EXAMPLES / f"{name}.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _walked(program, *args, **options):
    remarks = cute.compile(program, *args, **options).remarks
    return any("are walked in parts" in str(each) for each in remarks)


@cute.kernel
def moments(X, S, Q, M, *, tile):
    """Three reductions of a row that is read once, in a loop of one trip."""
    i = cute.tile_index(S, (1,))
    x = cute.local_tile(X, tile, (i, None))
    total, squares, least = cute.zeros((1, 1)), cute.zeros((1, 1)), cute.full((1, 1), cute.inf)
    for j in cute.range(x.tiles):
        v = x[j].to(cute.f32)
        v = cute.where(cute.coord(v, 1, x) < X.shape[1], v, 0.0)
        total.assign(total + cute.row_sum(v))
        squares.assign(squares + cute.row_sum(v * v))
        least.assign(cute.minimum(least, -cute.row_max(-v)))
    for tensor, value in ((S, total), (Q, squares), (M, least)):
        cute.copy(value, cute.local_tile(tensor, (1,), (i,)))


@pytest.mark.parametrize("backend", ["interpreter", "emulator"])
@pytest.mark.parametrize(("rows", "columns"), [(2, 40_000), (1, 40_961)])
def test_rows_that_are_read_once(rows, columns, backend):
    x = np.random.default_rng(0).integers(-3, 4, (rows, columns)).astype(BF16)
    s, q, m = (np.zeros(rows, np.float32) for _ in range(3))
    assert _walked(moments, x, s, q, m, tile=(1, columns), arch="sm_90a")
    moments(x, s, q, m, tile=(1, columns), arch="sm_90a", backend=backend)
    wide = x.astype(np.float64)
    assert np.array_equal(s, wide.sum(1))
    assert np.array_equal(q, (wide * wide).sum(1))
    assert np.array_equal(m, wide.min(1))


LONG = pytest.param("emulator", 700_001, "sm_90a", marks=pytest.mark.long)


@pytest.mark.some(1)
@pytest.mark.parametrize(
    ("backend", "columns", "arch"),
    [("emulator", 90_001, "sm_80"), ("interpreter", 700_001, "sm_90a"), LONG],
)
def test_rows_that_are_read_again(backend, columns, arch):
    """A row of one CTA, and the parts of those that share one; in place as well."""
    rows = _example("rows")
    rng = np.random.default_rng(columns)
    x, r = (rng.standard_normal((1, columns)).astype(BF16) for _ in range(2))
    scale = rng.standard_normal(columns).astype(BF16)
    how = {"tile": (1, columns), "arch": arch}
    assert _walked(rows.softmax, x, x, **how)
    wide, y, s = x.astype(np.float64), np.empty_like(x), np.empty_like(x)
    rows.rms_norm(x, r, scale, y, s, 1e-5, **how, backend=backend)
    total = wide + r.astype(np.float64)
    exact = total / np.sqrt((total * total).mean() + 1e-5) * scale.astype(np.float64)
    assert np.abs(s.astype(np.float64) - total).max() < 4e-3 * np.abs(total).max()
    assert np.abs(y.astype(np.float64) - exact).max() < 4e-3 * np.abs(exact).max()
    rows.softmax(x, x, **how, backend=backend)
    exact = np.exp(wide - wide.max())
    exact /= exact.sum()
    assert np.abs(x.astype(np.float64) - exact).max() < 4e-3 * exact.max()


SHARED = [(22_224, 3), (20_480, 5), (28_896, 6), (21_016, 7)]


LATER = [pytest.param(*each, marks=pytest.mark.long) for each in SHARED[1:]]


@pytest.mark.parametrize(("columns", "parts"), [SHARED[0], *LATER])
def test_rows_of_parts_that_keep_lanes_busy(columns, parts):
    rows = _example("rows")
    rng = np.random.default_rng(columns)
    x, scale, bias = (rng.standard_normal(columns).astype(BF16) for _ in range(3))
    x, y = x[None], np.empty((1, columns), BF16)
    how = {"tile": (1, columns), "arch": "sm_90a"}
    assert f"split_k = {parts}," in str(cute.compile(rows.softmax, x, y, **how).schedule)
    rows.softmax(x, y, **how, backend="emulator")
    wide = x.astype(np.float64)
    exact = np.exp(wide - wide.max())
    exact /= exact.sum()
    assert np.abs(y.astype(np.float64) - exact).max() < 4e-3 * exact.max()
    rows.layer_norm(x, scale, bias, y, 1e-5, **how, backend="emulator")
    d = wide - wide.mean()
    exact = d / np.sqrt((d * d).mean() + 1e-5) * scale.astype(np.float64) + bias.astype(np.float64)
    assert np.abs(y.astype(np.float64) - exact).max() < 4e-3 * np.abs(exact).max()
