"""Names and operators of NumPy in a kernel: the message says what to write instead."""

import linecache
from typing import Any

import numpy as np
import pytest

import cutedialect as cute


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("x.sum()", r"expected cute.row_sum\(tile\), .*, got .sum of a Tile"),
        ("x.exp()", r"expected cute.exp\(x\), got .exp of a Tile"),
        ("x.astype('f4')", r"expected .to\(dtype\), got .astype of a Tile"),
        ("y.store(x)", r"expected cute.copy\(tile, view\), got .store of a View"),
        (
            "X.reshape(4, 4)",
            "another tile extent in cute.local_tile, got .reshape of a Tensor",
        ),
        ("x.nonsense", r"'Tile' object has no attribute 'nonsense'"),
        ("x @ x", r"CD-P11.*expected cute.gemm\(a, b, acc\) .* got a @ b"),
        ("x[0]", r"expected a Tile as a whole, got \[...\] on it; take a smaller tile"),
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
