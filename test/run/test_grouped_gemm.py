"""`cute.grouped_gemm`: results against NumPy, and what is said about wrong arguments."""

import numpy as np
import pytest

import cutedialect as cute

SIZES = [(96, 72, 40), (64, 130, 8), (1, 16, 24), (65, 8, 0), (0, 24, 16), (40, 40, 136)]


def integers(shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def problems(sizes, dtype=np.float16):
    as_ = [integers((m, k), dtype, i) for i, (m, _, k) in enumerate(sizes)]
    bs = [integers((n, k), dtype, 50 + i).T for i, (_, n, k) in enumerate(sizes)]
    return as_, bs


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_problems_of_different_sizes(arch):
    as_, bs = problems(SIZES)
    got = cute.grouped_gemm(as_, bs, arch=arch, backend="emulator")
    assert isinstance(got, list)
    for result, a, b in zip(got, as_, bs, strict=True):
        np.testing.assert_array_equal(result, product(a, b).astype(np.float16))


def test_everything_behind_the_product():
    sizes = SIZES[:4]
    as_, bs = problems(sizes, np.float32)
    c = [integers((m, n), np.float32, 7) for m, n, _ in sizes]
    bias = [integers((n,), np.float32, 8) for _, n, _ in sizes]
    out = [np.full((m, n), np.nan, np.float32) for m, n, _ in sizes]
    got = cute.grouped_gemm(
        as_, bs, c=c, bias=bias, out=out, alpha=2.0, beta=-1.0, activation="relu",
        arch="sm_80", backend="emulator",
    )  # fmt: skip
    for result, given, a, b, addend, vector in zip(got, out, as_, bs, c, bias, strict=True):
        assert result is given
        np.testing.assert_array_equal(result, np.maximum(2 * product(a, b) - addend + vector, 0))


def test_no_problems():
    assert cute.grouped_gemm([], [], backend="emulator") == []


A, B = np.zeros((8, 16), np.float16), np.zeros((16, 8), np.float16)


@pytest.mark.parametrize(
    ("arguments", "options", "kind", "message"),
    [
        ((A, [B]), {}, TypeError, "as_: expected a list of arrays, got ndarray"),
        (([A], B), {}, TypeError, "bs: expected a list of arrays, got ndarray"),
        (([A, A], [B]), {}, ValueError, "bs: expected 2 arrays as in as_, got 1"),
        (([A], [B]), {"out": []}, ValueError, "out: expected 1 arrays as in as_, got 0"),
        (([A, 3], [B, B]), {}, TypeError, r"as_\[1\]: expected an array, got int"),
        (([A, A], [B, A]), {}, ValueError, r"bs\[1\]: expected 16 rows .*got 8"),
        (
            ([A], [B]),
            {"out": [np.zeros((8, 9), np.float16)]},
            ValueError,
            r"out\[0\]: expected shape \(8, 8\), got \(8, 9\)",
        ),
        (
            ([A], [B]),
            {"bias": [np.zeros(9, np.float16)]},
            ValueError,
            r"bias\[0\]: expected shape \(8\), got \(9\)",
        ),
    ],
)
def test_wrong_arguments(arguments, options, kind, message):
    with pytest.raises(kind, match=message):
        cute.grouped_gemm(*arguments, backend="emulator", **options)
