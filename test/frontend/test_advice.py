"""What messages advise in the place of names of other libraries, run as it is advised, on the types
that the advice does not exclude, and compared with NumPy.
"""

from __future__ import annotations

import linecache

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.frontend.instead import FUNCTIONS, METHODS

ROWS, COLUMNS = 4, 16
ARCH = "sm_90a"


def follow(lines, x, y, **more):
    """Run lines of a program on tiles x and of Y, in a kernel on arrays."""
    source = (
        "def program(X, Y):\n"
        "    rows, columns, m = X_SHAPE[0], X_SHAPE[1], 0\n"
        "    x = cute.local_tile(X, X_SHAPE, (0, 0)).load()\n"
        + "".join(f"    {line}\n" for line in lines)
    )
    file = f"<advice {hash(source)}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope = {"cute": cute, "X_SHAPE": x.shape, "Y_SHAPE": y.shape, **more}
    exec(compile(source, file, "exec"), scope)
    cute.kernel(scope["program"])(x, y, arch=ARCH, backend="emulator")
    return y


STORE = "cute.copy(y, cute.local_tile(Y, Y_SHAPE, (0, 0)))"


def drawn(dtype, shape=(ROWS, COLUMNS)):
    rng = np.random.default_rng(0)
    kind = np.dtype(dtype)
    if kind.kind in "iu":
        x = rng.integers(np.iinfo(kind).min, np.iinfo(kind).max, shape, kind, endpoint=True)
        x[0, 3] = x[2, 0] = np.iinfo(kind).min
        x[1, 5] = np.iinfo(kind).max
        return x
    return (rng.standard_normal(shape) * 10).astype(kind)


def advised(name, *parts, of=FUNCTIONS):
    """The parts of a program, which have to stand in what is advised for a name."""
    for part in parts:
        assert part in of[name], (name, part)
    return parts


INTEGERS = ["int8", "uint8", "int32", "int64"]
FLOATS = ["float16", "float32", "float64"]


ROW_FUNCTIONS = {
    "sum": ("cute.sum(x, 1)", lambda x: x.sum(1)),
    "max": ("cute.max(x, 1)", lambda x: x.max(1)),
    "min": ("cute.min(x, 1)", lambda x: x.min(1)),
    "mean": ("cute.mean(x, 1)", lambda x: x.mean(1)),
}


@pytest.mark.some(7)
@pytest.mark.parametrize("dtype", ["int8", "uint8", "int32", "float32", "float64"])
@pytest.mark.parametrize("name", ROW_FUNCTIONS)
def test_rows(name, dtype):
    text, exact = ROW_FUNCTIONS[name]
    advised(name, text.replace("(x, 1)", "(tile, mode)"), of=METHODS)
    x = drawn(dtype)
    if name == "sum" and dtype == "int32":
        x //= 64
    if name == "mean" and dtype not in FLOATS:
        text = text.replace("(x,", "(x.to(cute.f32),")
    want = exact(x.astype(np.float64) if name == "mean" else x)
    found = x.dtype if name in ("max", "min") or dtype in FLOATS else np.dtype("int32")
    found = np.dtype("float32") if name == "mean" and dtype not in FLOATS else found
    y = follow([f"y = {text}", STORE], x, np.zeros((ROWS, 1), found))
    np.testing.assert_allclose(y[:, 0], want, rtol=1e-5)


FORMULAS = {
    "std": (["y = cute.sqrt(cute.var(x, 1))"], lambda x: x.std(1, keepdims=True)),
    "clip": (
        ["low, high = -3.0, 4.0", "y = cute.clamp(x, low, high)"],
        lambda x: np.clip(x, -3, 4),
    ),
    "square": (["y = x * x"], np.square),
    "ones": (["y = cute.full(Y_SHAPE, 1.0)"], np.ones_like),
}


@pytest.mark.parametrize("name", FORMULAS)
def test_formulas(name):
    lines, exact = FORMULAS[name]
    for line in lines:
        value = line.removeprefix("y = ").replace("Y_SHAPE", "shape")
        stated = FUNCTIONS[name].replace("(tile, mode)", "(x, 1)")
        is_stated = value in stated or line in stated
        assert is_stated or line.startswith("low")
    x = drawn("float32")
    want = np.asarray(exact(x.astype(np.float64)), np.float64)
    y = follow([*lines, STORE], x, np.zeros(want.shape, np.float32))
    np.testing.assert_allclose(y, want, rtol=3e-5, atol=2e-6)


LINES = {
    "topk": ("y, _ = cute.top_k(x, k)", lambda x: -np.sort(-x, 1)[:, :3]),
    "associative_scan": ("y = cute.scan(x, 1, combine)", lambda x: np.maximum.accumulate(x, 1)),
    "cat": ("y = cute.concatenate((x, x), 1)", lambda x: np.concatenate((x, x), 1)),
    "gather": ("y = cute.take_along(x, numbers, 1)", lambda x: x[:, ::-1]),
    "scatter": ("y = cute.put_along(x, numbers, x, 1)", lambda x: x[:, ::-1]),
}


@pytest.mark.parametrize("name", LINES)
def test_lines(name):
    line, exact = LINES[name]
    call = line.partition("= ")[2].partition("(")[0]
    assert call in FUNCTIONS[name]
    x = drawn("float32")
    want = exact(x)
    start = "k, numbers = 3, columns - 1 - cute.coord(x, 1)"
    y = follow([start, line, STORE], x, np.zeros(want.shape, np.float32), combine=cute.maximum)
    assert np.array_equal(y, want)


def test_ceiling_division():
    advised("cdiv", "-(-a // b)", "of signed integers")
    x = drawn("int32")
    y = follow(["a, b = x // 2, 7", "y = -(-a // b)", STORE], x, np.zeros_like(x))
    assert np.array_equal(y, -(-(x // 2) // 7))


def test_methods_say_the_same():
    assert METHODS["max"] == FUNCTIONS["amax"]
    assert METHODS["min"] == FUNCTIONS["amin"]
    assert METHODS["clip"] == FUNCTIONS["clip"]
