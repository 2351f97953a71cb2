"""Names and operators of NumPy in a kernel: the message says what to write instead."""

import linecache
import re
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.frontend.instead import FUNCTIONS, METHODS


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x.sum()", r"expected cute.sum\(tile, mode\), got .sum of a Tile"),
        ("x.exp()", r"expected cute.exp\(x\), got .exp of a Tile"),
        ("x.astype('f4')", r"expected .to\(dtype\), got .astype of a Tile"),
        ("y.store(x)", r"expected cute.copy\(tile, view\), got .store of a View"),
        (
            "X.reshape(4, 4)",
            "another tile extent in cute.local_tile, got .reshape of a Tensor",
        ),
        ("x.nonsense", r"'Tile' object has no attribute 'nonsense'"),
        ("cute.concat([x, x])", r"expected cute.concatenate\(tiles, mode\), got cute.concat"),
        ("cute.topk(x, 3)", r"expected cute.top_k\(tile, k\), got cute.topk"),
        ("cute.rwo_sum(x)", r"no attribute 'rwo_sum'; did you mean row_sum\?"),
        ("x @ x", r"CD-P11.*expected cute.gemm\(a, b, acc\) .* got a @ b"),
        ("x[0, 0]", r"expected a Tile as a whole, got \[...\] on it; take a part with"),
        (
            "X.__setitem__((i, j), 3)",
            r"expected cute.copy\(tile, .* to store",
        ),
    ],
)
def test_what_to_write_instead(text, message):
    source = (
        "def kernel(X, Y):\n    i, j = cute.tile_index(Y, (16, 16))\n"
        "    x = cute.local_tile(X, (16, 16), (i, j)).load()\n"
        f"    y = cute.local_tile(Y, (16, 16), (i, j))\n    {text}\n    cute.copy(x, y)\n"
    )
    file = f"<hint {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {"cute": cute}
    exec(compile(source, file, "exec"), scope)
    x = np.ones((16, 16), np.float32)
    with pytest.raises((AttributeError, cute.CompileError), match=message):
        cute.kernel(scope["kernel"])(x, x.copy(), arch="sm_80", backend="emulator")


LOCATED = {
    "x >> 3": r"expected integers for '>>', got f32",
    "np.exp(x)": r"expected cute.exp\(x\), got np.exp of a Tile",
    "np.arctan2(x, x)": r"expected cute.atan2\(y, x\), got np.arctan2 of a Tile",
    "np.floor(x)": r"expected cute.floor\(x\), got np.floor of a Tile",
    "np.rint(x)": r"expected cute.round\(x\), got np.rint of a Tile",
    "np.maximum(x, 0.0)": r"expected cute.maximum\(x, y\), got np.maximum of a Tile",
    "np.exp(i)": r"expected cute.exp\(x\), got np.exp of a Scalar",
    "np.ones(3) * x": "expected tiles, scalars or numbers, got ndarray",
    "np.add.reduce(x)": "got np.add of a Tile",
    "x.sum()": r"expected cute.sum\(tile, mode\), got .sum of a Tile",
    "cute.cat(x, 1)": r"expected cute.concatenate.tiles, mode., got cute.cat",
    "cute.associative_scan(x, 1, None)": r"expected cute.scan\(.*got cute.associative_scan",
    "x.cumsum(1)": r"expected cute.cumsum\(tile, mode\), got .cumsum of a Tile",
    "cute.gather(x, i, 0)": r"whose rows a tile of numbers chooses, got cute.gather",
    "cute.atomic_cas(x, 0, 1)": r"expected cute.atomic_compare_and_swap\(.* got cute.atomic_cas",
    "cute.local_tile(X, 64, 0)": r"expected a tile of extents such as \(64, 64\), .* got 64",
    "cute.local_tile(X, (16, 16), 0)": r"expected coordinates such as \(m, n\), .* got 0",
    "x > 0 and x < 1": r"use & and \| for and and or, ~ for not, .*cute.any\(condition\)",
    "max(x, 0)": "cute.maximum and cute.minimum for max and min",
    "sum(x)": "cute.row_sum and cute.row_max for sum and max, got iteration over a tile",
    "len(x)": r"expected one of the extents tile.shape = \(16, 16\), got len of a tile",
    "x // 2": r"expected integers for '//' and '%' \(use / or convert with .to\(cute.i32\)\)",
    "cute.when(x > 0)": r"got a tile; take cute.any\(condition\), or choose elements",
    "cute.where(x, 1, 0) if x else 0": r"`with cute.when\(cute.any\(condition\)\):`",
}


@pytest.mark.parametrize("text", LOCATED)
def test_errors_at_the_line(text):
    source = (
        "def kernel(X, Y):\n    i, j = cute.tile_index(Y, (16, 16))\n"
        "    x = cute.local_tile(X, (16, 16), (i, j)).load()\n"
        f"    y = {text}\n    cute.copy(x, cute.local_tile(Y, (16, 16), (i, j)))\n"
    )
    file = f"<located {text}>"
    linecache.cache[file] = (len(source), None, source.splitlines(True), file)
    scope: dict[str, Any] = {"cute": cute, "np": np}
    exec(compile(source, file, "exec"), scope)
    spec = cute.TensorSpec((None, None), cute.f32)
    with pytest.raises(cute.CompileError, match=LOCATED[text]) as caught:
        cute.kernel(scope["kernel"]).trace((spec, spec))
    assert str(caught.value).startswith(f"{file}:4: error[CD-P")


def test_a_tile_prints_what_it_is() -> None:
    """As in a `print` of a kernel's author, while the kernel is traced."""

    @cute.kernel
    def kernel(X):
        x = cute.local_tile(X, (16, 8), (0, 0)).load()
        assert repr(x) == "Tile((16, 8), f16)"
        cute.copy(x, cute.local_tile(X, (16, 8), (0, 0)))

    kernel.trace((cute.TensorSpec((None, None), cute.f16),))


@pytest.mark.parametrize("number", [np.float32(3), np.int64(3), 3])
def test_numbers_of_numpy_on_the_left(number):
    """Of tiles and of scalars, whatever the operator is."""

    @cute.kernel
    def kernel(X, Y, s):
        x = cute.local_tile(X, (4, 16), (0, 0)).load()
        tiles = [number + x, number - x, number * x, number / x, number % 2 + x]
        tiles += [cute.where(number < x, 1.0, 0.0), cute.where(number >= x, 1.0, 0.0)]
        tiles += [cute.where(number == x, 1.0, 0.0), number**x, number - s + x]
        for place, tile in enumerate(tiles):
            cute.copy(tile.to(cute.f32), cute.local_tile(Y, (4, 16), (place, 0)))

    x = np.random.default_rng(0).integers(1, 5, (4, 16)).astype(np.float32)
    y = np.zeros((40, 16), np.float32)
    kernel(x, y, 2.0, backend="emulator")
    n = float(number)
    want = [n + x, n - x, n * x, n / x, n % 2 + x, n < x, n >= x, n == x, n**x, n - 2 + x]
    np.testing.assert_allclose(y, np.concatenate(want), rtol=1e-5)


def test_probing_for_attributes_goes_on_working():
    @cute.kernel
    def kernel(X, Y):
        i, j = cute.tile_index(Y, (16, 16))
        x = cute.local_tile(X, (16, 16), (i, j)).load()
        assert not hasattr(x, "sum")
        assert getattr(x, "__cuda_array_interface__", None) is None
        cute.copy(x, cute.local_tile(Y, (16, 16), (i, j)))

    x = np.ones((16, 16), np.float32)
    kernel(x, x.copy(), arch="sm_80", backend="emulator")


def test_what_is_named_instead_is_there():
    for name, text in (*METHODS.items(), *FUNCTIONS.items()):
        for named in re.findall(r"\bcute\.(\w+)", text):
            assert hasattr(cute, named), (name, named)
    assert not any(hasattr(cute, name) for name in FUNCTIONS)
