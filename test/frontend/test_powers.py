"""`**` on tiles and scalars, against NumPy."""

import linecache
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

rng = np.random.default_rng(0)
VALUES = np.abs(rng.standard_normal((16, 16)).astype(np.float32)) + 0.25


def run(text, x, *more, arch="sm_80"):
    """`Y = text` of tiles x, with scalars s, ..., in the type of the result."""
    names = ["X", "Y", *["s", "t"][: len(more)]]
    source = (
        f"def kernel({', '.join(names)}):\n    i, j = cute.tile_index(Y, (16, 16))\n"
        f"    x = cute.local_tile(X, (16, 16), (i, j)).load()\n"
        f"    cute.copy(({text}).to(Y.dtype), cute.local_tile(Y, (16, 16), (i, j)))\n"
    )
    file = f"<power {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {"cute": cute}
    exec(compile(source, file, "exec"), scope)
    y = np.zeros_like(x)
    cute.kernel(scope["kernel"])(x, y, *more, arch=arch, backend="emulator")
    return y


@pytest.mark.some(13)
@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 5, 7, -1, -2, 0.5, 1.5, -0.25, 20.5, 64])
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_numbers_as_exponents(exponent, arch):
    found = run(f"x ** {exponent}", VALUES, arch=arch)
    np.testing.assert_allclose(found, VALUES.astype(np.float64) ** exponent, rtol=2e-5, atol=1e-30)


@pytest.mark.parametrize(
    "text", ["2 ** x", "0.5 ** x", "x ** x", "x ** (x + 1)", "x ** s", "s ** x"]
)
def test_exponents_that_the_gpu_computes(text):
    s = np.float32(1.75)
    exact = eval(text, {"x": VALUES.astype(np.float64), "s": float(s)})
    given = (s,) if "s" in text else ()
    np.testing.assert_allclose(run(text, VALUES, *given), exact, rtol=1e-5)


def test_whole_numbers_stay_exact():
    x = rng.integers(-5, 6, (16, 16)).astype(np.int32)
    assert np.array_equal(run("x ** 5", x), x**5)
    assert np.array_equal(run("x ** 0", x), x**0)
    half = x.astype(np.float16)
    assert np.array_equal(run("x ** 3", half), half**3)
    assert np.array_equal(run("x * s ** 2", x, 3), x * 9)


def test_special_values():
    x = np.full((16, 16), np.nan, np.float32)
    x[0, :3] = -2, np.inf, 0
    assert (run("x ** 0", x) == 1).all()
    assert run("x ** 2", x)[0, :3].tolist() == [4, np.inf, 0]
    assert np.isnan(run("x ** 1.5", x)[0, 0])


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x ** -1", r"expected floats for a base with a negative exponent, got i32"),
        ("x ** 0.5", r"expected floats for a base with such an exponent, got i32"),
        ("2 ** x", r"expected floats for an exponent, got i32; convert it with .to\(cute.f32\)"),
        ("-2 ** x * 1", r"expected floats for an exponent"),
        ("(-2) ** x.to(cute.f32)", r"expected a positive base .*, got -2"),
    ],
)
def test_what_has_no_power(text, message):
    with pytest.raises(CompileError, match=message):
        run(text, np.ones((16, 16), np.int32))
