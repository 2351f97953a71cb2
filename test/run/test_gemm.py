"""`cute.gemm` on the emulator: types, majors, ragged sizes, trip counts, batches, epilogues."""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

SMALL = "tile = (64,64,32), warps = (2,2), stages = 3"
BF16 = ml_dtypes.bfloat16


def integers(shape, dtype, seed=0, low=-3, high=4):
    rng = np.random.default_rng(seed)
    return rng.integers(low, high, shape).astype(dtype)


def in_major(array, contiguous_last):
    """The same values, row-major or column-major in the last two modes."""
    if contiguous_last:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def run(a, b, **options):
    options.setdefault("schedule", SMALL)
    return cute.gemm(a, b, backend="emulator", **options)


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


TYPES = {
    "f16": (np.float16, "tile = (64,64,32), warps = (2,2), stages = 3"),
    "bf16": (BF16, "tile = (64,64,32), warps = (2,2), stages = 3"),
    "f32": (np.float32, "tile = (64,64,32), warps = (2,2), stages = 2"),
    "f64": (np.float64, "tile = (32,32,16), warps = (2,2), stages = 2"),
    "s8": (np.int8, "tile = (64,64,64), warps = (2,2), stages = 2"),
    "u8": (np.uint8, "tile = (64,64,64), warps = (2,2), stages = 2"),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("majors", ["TN", "TT", "NN", "NT"])
def test_types_and_majors(kind, majors):
    dtype, schedule = TYPES[kind]
    low = 0 if kind == "u8" else -3
    m, n, k = (40, 24, 48) if kind == "f64" else (80, 48, 96)
    a = in_major(integers((m, k), dtype, 1, low), majors[0] == "T")
    b = in_major(integers((k, n), dtype, 2, low), majors[1] == "T")
    got = run(a, b, schedule=schedule)
    want = exact(a, b)
    assert got.dtype == (np.int32 if kind in ("s8", "u8") else dtype)
    assert np.array_equal(got.astype(np.float64), want.astype(got.dtype).astype(np.float64))


@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 7])
@pytest.mark.parametrize("ragged", [0, 5])
def test_trip_counts(trips, ragged):
    """Trips 0, 1, S-1, S, S+1, 2S+1 of a ring of S = 3 stages, whole and ragged in k."""
    k = max(0, 32 * trips - ragged)
    a, b = integers((64, k), np.float16, 3), integers((k, 64), np.float16, 4)
    assert np.array_equal(run(a, b), exact(a, b).astype(np.float16))


@pytest.mark.some(9)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (65, 63, 33), (7, 130, 40), (130, 7, 31), (64, 72, 8)]
)
@pytest.mark.parametrize("majors", ["TN", "TT", "NN", "NT"])
def test_ragged_sizes(shape, majors):
    m, n, k = shape
    a = in_major(integers((m, k), np.float16, 5), majors[0] == "T")
    b = in_major(integers((k, n), np.float16, 6), majors[1] == "T")
    assert np.array_equal(run(a, b), exact(a, b).astype(np.float16))


@pytest.mark.parametrize("stages", [1, 2, 4])
def test_stages(stages):
    a, b = integers((64, 160), np.float16, 7), integers((160, 64), np.float16, 8)
    schedule = f"tile = (64,64,32), warps = (2,2), stages = {stages}"
    assert np.array_equal(run(a, b, schedule=schedule), exact(a, b).astype(np.float16))


def test_misaligned_base_and_strides():
    """Rows at odd element offsets: no vector copy is legal, the result is the same."""
    store = integers((70, 75), np.float16, 9)
    a, b = store[1:65, 1:42], integers((41, 64), np.float16, 10)
    assert np.array_equal(run(a, b), exact(a, b).astype(np.float16))


def test_no_contiguous_mode():
    a = integers((64, 128), np.float16, 11)[:, ::2]
    b = integers((64, 64), np.float16, 12)
    assert np.array_equal(run(a, b), exact(a, b).astype(np.float16))


def test_epilogue():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((70, 48)), rng.standard_normal((48, 90))
    c, bias = rng.standard_normal((70, 90)), rng.standard_normal(90)
    a, b, c, bias = (x.astype(np.float16) for x in (a, b, c, bias))
    got = run(a, b, c=c, alpha=0.5, beta=-2.0, bias=bias, activation="relu")
    want = np.maximum(0.5 * exact(a, b) - 2.0 * c.astype(np.float64) + bias.astype(np.float64), 0)
    error = np.abs(got.astype(np.float64) - want).max()
    assert error <= 2 * np.abs(want.astype(np.float16) - want).max() + 1e-3


@pytest.mark.parametrize("activation", ["gelu", "silu"])
def test_activations(activation):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    x = exact(a, b)
    from math import erf

    want = {
        "gelu": 0.5 * x * (1 + np.vectorize(erf)(x / 2**0.5)),
        "silu": x / (1 + np.exp(-x)),
    }[activation]
    got = run(a, b, activation=activation, out_dtype="f32")
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()


def test_activation_function():
    a, b = integers((64, 32), np.float16, 1), integers((32, 64), np.float16, 2)
    got = run(a, b, activation=lambda x: cute.maximum(x, 0.0) + 1.0)
    assert np.array_equal(got, np.maximum(exact(a, b), 0) + 1)


def test_batches_broadcast():
    a, b = integers((2, 1, 64, 32), np.float16, 1), integers((3, 32, 64), np.float16, 2)
    got = run(a, b)
    assert got.shape == (2, 3, 64, 64)
    assert np.array_equal(got, exact(a, b).astype(np.float16))


def test_zero_k_gives_the_addends():
    a, b = np.empty((64, 0), np.float16), np.empty((0, 64), np.float16)
    c, bias = integers((64, 64), np.float16, 1), integers((64,), np.float16, 2)
    assert np.array_equal(run(a, b, c=c, beta=2.0, bias=bias), 2 * c + bias)


def test_empty_output_launches_nothing():
    out = run(np.empty((0, 32), np.float16), np.empty((32, 64), np.float16))
    assert out.shape == (0, 64)


def test_out_is_written_in_place():
    a, b = integers((64, 32), np.float16, 1), integers((32, 64), np.float16, 2)
    store = np.full((70, 80), 9, np.float16)
    out = store[3:67, 8:72]
    assert run(a, b, out=out) is out
    assert np.array_equal(out, exact(a, b).astype(np.float16))
    store[3:67, 8:72] = 9
    assert np.all(store == 9)


def test_random_error_is_that_of_the_precision():
    rng = np.random.default_rng(2)
    for kind, dtype in (("f16", np.float16), ("bf16", BF16)):
        a, b = (rng.standard_normal((128, 128)).astype(dtype) for _ in range(2))
        want = exact(a, b)
        reference = (a.astype(np.float32) @ b.astype(np.float32)).astype(dtype).astype(np.float64)
        got = run(a, b, schedule=TYPES[kind][1]).astype(np.float64)
        assert np.abs(got - want).max() <= 2 * np.abs(reference - want).max()


def test_atom_and_accumulator_choices():
    a, b = integers((64, 64), np.float16, 1, 0, 2), integers((64, 64), np.float16, 2, 0, 2)
    got = run(a, b, acc_dtype="f16")
    assert np.array_equal(got, exact(a, b).astype(np.float16))
    kernel = cute.compile(cute.gemm, a, b, acc_dtype="f16", schedule=SMALL, arch="sm_80")
    assert "mma.sync.aligned.m16n8k16.row.col.f16.f16.f16.f16" in kernel.ptx


BAD = {
    "rank": (lambda a, b: run(a[0], b), ValueError, "a: expected 2 or more dimensions"),
    "k": (lambda a, b: run(a, b[:16]), ValueError, "b: expected 32 rows"),
    "types": (lambda a, b: run(a, b.astype(np.float32)), TypeError, "b: expected f16"),
    "type": (lambda a, b: run(a.astype("i8"), b.astype("i8")), TypeError, "a: expected one of"),
    "bias": (lambda a, b: run(a, b, bias=np.zeros(3, "f2")), ValueError, "bias: expected shape"),
    "c": (lambda a, b: run(a, b, beta=1.0), ValueError, "c: expected an array"),
    "activation": (lambda a, b: run(a, b, activation="tanhh"), ValueError, "activation: expected"),
    "list": (lambda a, b: run([1], b), TypeError, "a: expected an array"),
    "arch": (lambda a, b: run(a, b, arch="sm_81"), ValueError, "sm_80"),
    "schedule": (lambda a, b: run(a, b, schedule="tiles = (1,2,3)"), ValueError, "did you mean"),
    "acc": (lambda a, b: run(a, b, acc_dtype="f64"), TypeError, "acc_dtype: expected f32 or f16"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument(case):
    call, kind, message = BAD[case]
    a, b = integers((64, 32), np.float16), integers((32, 64), np.float16)
    with pytest.raises(kind, match=message):
        call(a, b)


def test_bad_out_leaves_it_untouched():
    a, b = integers((64, 32), np.float16), integers((32, 64), np.float16)
    out = np.full((64, 63), 7, np.float16)
    with pytest.raises(ValueError, match="out: expected shape"):
        run(a, b, out=out)
    assert np.all(out == 7)


def test_one_kernel_serves_all_sizes():
    sizes = itertools.product((16, 64), (8, 64), (32, 96))
    kernels = {
        id(cute.compile(cute.gemm, np.empty((m, k), "f2"), np.empty((k, n), "f2"), schedule=SMALL))
        for m, n, k in sizes
    }
    assert len(kernels) == 1
