"""`cute.grouped_gemm`: results against NumPy, and what is said about wrong arguments."""

from importlib import import_module

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime.kernel import Kernel

grouped = import_module("cutedialect.frontend.grouped_gemm")

SIZES = [(96, 72, 40), (64, 130, 8), (1, 16, 24), (65, 8, 0), (0, 24, 16), (40, 40, 136)]


def integers(shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def problems(sizes, dtype=np.float16):
    as_ = [integers((m, k), dtype, i) for i, (m, _, k) in enumerate(sizes)]
    bs = [integers((n, k), dtype, 50 + i).T for i, (_, n, k) in enumerate(sizes)]
    return as_, bs


def product(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.fixture
def launches(monkeypatch):
    """How many problems each launch of a kernel was given."""
    found = []
    launch = Kernel.launch

    def record(self, *args, **options):
        found.append(len(args[0]))
        return launch(self, *args, **options)

    monkeypatch.setattr(Kernel, "launch", record)
    return found


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_problems_of_different_sizes_are_one_launch(arch, launches):
    as_, bs = problems(SIZES)
    got = cute.grouped_gemm(as_, bs, arch=arch, backend="emulator")
    assert isinstance(got, list)
    for result, a, b in zip(got, as_, bs, strict=True):
        np.testing.assert_array_equal(result, product(a, b).astype(np.float16))
    assert launches == [sum(m * n > 0 for m, n, _ in SIZES)]


@pytest.mark.some(3)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float8_e4m3fn"])
@pytest.mark.parametrize("schedule", [None, "tile = (128,64,64), cluster = (2,1), stages = 2"])
def test_types_on_hopper(dtype, schedule, launches):
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if schedule and kind.itemsize == 1:
        schedule = schedule.replace("64,64", "64,128")
    sizes = [(264, 136, 144), (8, 16, 0), (16, 264, 64), (130, 24, 272)]
    as_, bs = problems(sizes, kind)
    out = [np.full((m, n), np.nan, np.float32) for m, n, _ in sizes]
    got = cute.grouped_gemm(
        as_, bs, out=out, arch="sm_90a", backend="emulator", schedule=schedule
    )  # fmt: skip
    for result, given, a, b in zip(got, out, as_, bs, strict=True):
        assert result is given
        np.testing.assert_array_equal(result, product(a, b))
    assert launches == [4]


def test_one_problem_and_many():
    many = [(8 * (i % 5 + 1), 8 * (7 - i % 3), 16 * (i % 4)) for i in range(19)]
    for sizes in ([(72, 200, 48)], many):
        as_, bs = problems(sizes)
        got = cute.grouped_gemm(as_, bs, arch="sm_90a", backend="emulator")
        for result, a, b in zip(got, as_, bs, strict=True):
            np.testing.assert_array_equal(result, product(a, b).astype(np.float16))


def strided(array, columns):
    """The same numbers with rows `columns` apart, on an odd address."""
    wide = np.zeros(array.shape[0] * columns + 1, array.dtype)[1:].reshape(-1, columns)
    wide[:, : array.shape[1]] = array
    return wide[:, : array.shape[1]]


@pytest.mark.some(2)
@pytest.mark.parametrize("case", ["unaligned", "majors", "strides"])
def test_arrays_that_tma_does_not_take_in_one_kernel(case, launches):
    """The kernel is one for what all problems have in common."""
    as_, bs = problems([(96, 72, 40), (64, 136, 48), (33, 8, 16)])
    if case == "unaligned":
        as_[1] = strided(as_[1], 49)
    elif case == "majors":
        bs[1] = np.ascontiguousarray(bs[1])
    else:
        as_[2] = np.repeat(as_[2], 2, axis=1)[:, ::2]
    got = cute.grouped_gemm(as_, bs, arch="sm_90a", backend="emulator")
    for result, a, b in zip(got, as_, bs, strict=True):
        np.testing.assert_array_equal(result, product(a, b).astype(np.float16))
    assert launches == [3]


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_everything_behind_the_product(arch):
    sizes = [(96, 72, 40), (64, 136, 8), (65, 8, 0), (7, 264, 72)]
    as_, bs = problems(sizes)
    c = [integers((m, n), np.float16, 7) for m, n, _ in sizes]
    bias = [integers((n,), np.float16, 8) for _, n, _ in sizes]
    out = [np.full((m, n), np.nan, np.float32) for m, n, _ in sizes]
    aux = [np.full((m, n), np.nan, np.float32) for m, n, _ in sizes]
    got = cute.grouped_gemm(
        as_, bs, c=c, bias=bias, out=out, aux=aux, alpha=2.0, beta=-1.0, activation="relu",
        arch=arch, backend="emulator",
    )  # fmt: skip
    for result, given, before, a, b, addend, vector in zip(
        got, out, aux, as_, bs, c, bias, strict=True
    ):
        assert result is given
        wanted = 2 * product(a, b) - addend + vector
        np.testing.assert_array_equal(before, wanted)
        np.testing.assert_array_equal(result, np.maximum(wanted, 0))


def test_few_rows_are_computed_transposed(launches):
    sizes = [(1, 264, 64), (5, 512, 128), (16, 128, 72)]
    as_, bs = problems(sizes)
    bias = [integers((n,), np.float16, 8) for _, n, _ in sizes]
    got = cute.grouped_gemm(as_, bs, bias=bias, arch="sm_90a", backend="emulator")
    for result, a, b, vector in zip(got, as_, bs, bias, strict=True):
        np.testing.assert_array_equal(result, (product(a, b) + vector).astype(np.float16))
    assert launches == [3]


@pytest.mark.parametrize("kind", ["number", "rows"])
def test_scales(kind):
    sizes = [(96, 72, 64), (65, 136, 0), (7, 264, 192)]
    as_, bs = problems(sizes, ml_dtypes.float8_e4m3fn)
    rows = [2.0 ** np.arange(m, dtype=np.float32).reshape(m, 1) % 7 for m, _, _ in sizes]
    scale = 0.5 if kind == "number" else rows
    got = cute.grouped_gemm(
        as_, bs, scale_a=scale, out_dtype="f32", arch="sm_90a", backend="emulator"
    )
    for result, a, b, factor in zip(got, as_, bs, rows, strict=True):
        wanted = product(a, b) * (0.5 if kind == "number" else factor)
        np.testing.assert_array_equal(result, wanted)


def test_a_warm_call_prepares_nothing(monkeypatch):
    as_, bs = problems(SIZES[:3])
    first = cute.grouped_gemm(as_, bs, arch="sm_80", backend="emulator")
    monkeypatch.setattr(grouped.GroupCall, "prepare", None)
    again = cute.grouped_gemm([a + 1 for a in as_], bs, arch="sm_80", backend="emulator")
    for one, other, b in zip(first, again, bs, strict=True):
        np.testing.assert_array_equal(other - one, np.broadcast_to(b.sum(0), one.shape))


def test_compiling_needs_no_arrays():
    def spec(rows, columns, strides=None):
        return cute.TensorSpec((rows, columns), "bf16", strides)

    as_ = [spec(256, 512), spec(None, None), spec(64, 0)]
    bs = [spec(512, 128, (1, None)), spec(None, 64, (1, None)), spec(0, 0, (1, None))]
    kernel = cute.compile(cute.grouped_gemm, as_, bs, arch="sm_90a")
    assert "cp.async.bulk.tensor" in kernel.ptx
    assert [str(each)[0] for each in kernel.signature.parameters] == ["[", "[", "[", "f"]
    with pytest.raises(ValueError, match="as_: expected a problem whose output has elements"):
        cute.compile(cute.grouped_gemm, as_[2:], bs[2:], arch="sm_90a")


def test_no_problems_and_empty_ones(launches):
    assert cute.grouped_gemm([], [], backend="emulator") == []
    as_, bs = problems([(0, 8, 16), (8, 0, 16)])
    got = cute.grouped_gemm(as_, bs, arch="sm_90a", backend="emulator")
    assert [each.shape for each in got] == [(0, 8), (8, 0)]
    assert launches == []


A, B = np.zeros((8, 16), np.float16), np.zeros((16, 8), np.float16)
F = A.astype(np.float32)


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
            r"bias\[0\]: expected shape \(8,\), got \(9,\)",
        ),
        (([A, F], [B, F.T]), {}, TypeError, r"as_\[1\]: expected f16 as in as_\[0\], got f32"),
        (
            ([A, A], [B, B]),
            {"out": [np.zeros((8, 8), np.float16), np.zeros((8, 8), np.float32)]},
            TypeError,
            r"out\[1\]: expected f16 as in out\[0\], got f32",
        ),
        (
            ([A[None]], [B]),
            {},
            ValueError,
            r"as_\[0\]: expected 2 dimensions, got shape \(1, 8, 16",
        ),
        (
            ([A, A], [B, B]),
            {"scale_a": [np.ones((8, 1), np.float32), np.ones(1, np.float32)], "out_dtype": "f32"},
            ValueError,
            r"scale_a\[1\]: expected a scale of the same kind as scale_a\[0\]",
        ),
        (([A], [B]), {"activation": "tanhh"}, ValueError, "activation: expected 'relu'"),
    ],
)
def test_wrong_arguments(arguments, options, kind, message):
    with pytest.raises(kind, match=message):
        cute.grouped_gemm(*arguments, backend="emulator", **options)


def test_pairs_of_ctas_multiply_several_problems_in_tensor_memory(launches):
    """Those that have no row for the odd CTA are right too."""
    sizes = [(300, 128, 96), (40, 72, 72), (0, 24, 16), (257, 64, 8)]
    as_, bs = problems(sizes)
    pairs = "tile = (128,64,64), cluster = (2,1)"
    got = cute.grouped_gemm(as_, bs, arch="sm_100a", backend="emulator", schedule=pairs)
    for result, a, b in zip(got, as_, bs, strict=True):
        np.testing.assert_array_equal(result, product(a, b).astype(np.float16))
    assert launches == [3]


@pytest.mark.parametrize("given", [None, "scheduler = persistent", "stages = 3"])
def test_large_problems_in_tensor_memory_are_multiplied_by_pairs(given):
    sizes = [(4096, 2048), (1000, 2048)]
    as_ = [cute.TensorSpec(size, "bf16") for size in sizes]
    bs = [cute.TensorSpec((2048, 4096), "bf16", (1, 2048))] * 2
    kernel = cute.compile(cute.grouped_gemm, as_, bs, arch="sm_100a", schedule=given)
    assert "tile = (128,256,64), warps = (4,1), cluster = (2,1)" in kernel.schedule
