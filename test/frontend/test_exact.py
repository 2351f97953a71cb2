"""`cute.exact` against float64, in units in the last place, and the plain forms within the errors
that their docstrings state.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

TINY = 2.0**-125


@cute.kernel
def exactly(X, E, T, S, R, D, *, tile=(1, 1024)):
    at = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, at))
    results = (
        cute.exact.exp(x),
        cute.exact.tanh(x),
        cute.exact.sigmoid(x),
        cute.exact.rsqrt(cute.abs(x)),
        cute.exact.divide(x, 3.0),
    )
    for out, value in zip((E, T, S, R, D), results, strict=True):
        cute.copy(value, cute.local_tile(out, tile, at))


@cute.kernel
def quickly(X, E, T, S, R, D, *, tile=(1, 1024)):
    at = cute.tile_index(X, tile)
    x = cute.load(cute.local_tile(X, tile, at))
    results = cute.exp(x), cute.tanh(x), cute.sigmoid(x), cute.rsqrt(cute.abs(x)), x / 3.0
    for out, value in zip((E, T, S, R, D), results, strict=True):
        cute.copy(value, cute.local_tile(out, tile, at))


SPECIAL = [np.inf, -np.inf, np.nan, 0, -0.0, 88.72, 88.73, -86.6, 1e-3, -0.6, 0.6, 1e-30]


def numbers():
    rng = np.random.default_rng(3)
    return np.concatenate([rng.uniform(-89, 89, 600), rng.standard_normal(400), SPECIAL])


@pytest.fixture(scope="module")
def results():
    x = numbers().astype(np.float32)[None]
    found = {}
    for program in (exactly, quickly):
        outs = [np.zeros_like(x) for _ in range(5)]
        kernel = cute.compile(program, x, *outs, arch="sm_90a", backend="emulator")
        kernel.launch(x, *outs)
        found[program] = outs, kernel.ptx
    w = x.astype(np.float64)
    with np.errstate(all="ignore"):
        true = np.exp(w), np.tanh(w), 1 / (1 + np.exp(-w)), 1 / np.sqrt(np.abs(w)), w / 3
    return w, true, found


@pytest.mark.parametrize(
    ("which", "ulps"),
    list(enumerate((1.5, 2.0, 2.5, 1.5, 0.5))),
    ids=["exp", "tanh", "sigmoid", "rsqrt", "divide"],
)
def test_to_the_last_place(results, which, ulps):
    _, true, found = results
    value, exact = found[exactly][0][which].astype(np.float64), true[which]
    with np.errstate(all="ignore"):
        single = exact.astype(np.float32)
    normal = np.isfinite(single) & (np.abs(exact) > TINY)
    unit = np.spacing(np.abs(single[normal])).astype(np.float64)
    assert (np.abs(value[normal] - exact[normal]) / unit).max() <= ulps + 0.01
    rest = ~normal & ~(np.abs(exact) <= TINY)
    assert np.array_equal(value[rest], single[rest].astype(np.float64), equal_nan=True)
    assert (np.abs(value[np.abs(exact) <= TINY]) <= TINY).all()


def test_the_fast_forms_are_within_what_they_state(results):
    x, true, found = results
    outs, ptx = found[quickly]
    assert "div.rn" not in ptx
    assert {"div.full.f32", "tanh.approx.f32", "rsqrt.approx.f32"} <= set(ptx.split())
    size = np.abs(x)
    bounds = 2**-22 + size * 2**-23, 2**-11, 2**-21 + size * 2**-23, 2**-22.9, 2**-22
    for value, exact, bound in zip(outs, true, bounds, strict=True):
        normal = np.isfinite(exact) & (np.abs(exact) > 2.0**-126) & (np.abs(exact) < 3e38)
        error = np.abs(value[normal] - exact[normal]) / np.abs(exact[normal])
        assert (error <= np.broadcast_to(bound, exact.shape)[normal]).all()


def test_what_they_take():
    @cute.kernel
    def of_integers(X, Y):
        at = cute.tile_index(X, (32,))
        cute.copy(cute.exact.exp(cute.load(cute.local_tile(X, (32,), (at,)))), Y)

    spec = cute.TensorSpec((None,), cute.i32)
    with pytest.raises(cute.CompileError, match="tile of floats of at most 32 bits, got i32"):
        cute.compile(of_integers, spec, spec)
