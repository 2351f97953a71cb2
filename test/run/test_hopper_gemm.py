"""`cute.gemm` for sm_90a on the emulator: a warp that loads by TMA, warpgroups that multiply, and
the plan of one role where no warpgroup can multiply them.
"""

from __future__ import annotations

import itertools
from functools import partial
from math import erf

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

BF16 = ml_dtypes.bfloat16
SMALL = "tile = (64,64,64), stages = 3"
TYPES = {
    "f16": np.float16,
    "bf16": BF16,
    "tf32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "s8": np.int8,
    "u8": np.uint8,
}
# The depth of a tile that is one line of 128 bytes.
DEPTHS = {"tf32": 32, "f16": 64, "bf16": 64, "e4m3": 128, "e5m2": 128, "s8": 128, "u8": 128}


def integers(shape, dtype=np.float16, seed=0, low=-3, high=4):
    rng = np.random.default_rng(seed)
    return rng.integers(0 if dtype is np.uint8 else low, high, shape).astype(dtype)


def in_major(array, contiguous_last):
    """The same values, row-major or column-major in the last two modes."""
    if contiguous_last:
        return np.ascontiguousarray(array)
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def operands(shape, majors="TN", kind="f16"):
    m, n, k = shape
    a, b = integers((m, k), TYPES[kind], 1), integers((k, n), TYPES[kind], 2)
    return in_major(a, majors[0] == "T"), in_major(b, majors[1] == "T")


def run(a, b, **options):
    options.setdefault("arch", "sm_90a")
    return cute.gemm(a, b, backend="emulator", **options)


def compiled(a, b, **options):
    options.setdefault("arch", "sm_90a")
    return cute.compile(cute.gemm, a, b, backend="emulator", **options)


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def same(got, want):
    """Equal after one rounding of the exact values to the result's type."""
    return np.array_equal(got.astype(np.float64), want.astype(got.dtype).astype(np.float64))


@pytest.mark.some(6)
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("majors", ["TN", "TT", "NN", "NT"])
def test_types_and_majors(kind, majors):
    a, b = operands((72, 40, 3 * DEPTHS[kind] // 2), majors, kind)
    assert same(run(a, b, schedule=f"tile = (64,32,{DEPTHS[kind]})"), exact(a, b))
    # Operands of other than 16 bits are multiplied by warpgroups only along K (9.7.15.5.1): they
    # are transposed in shared memory before, bytes by matrices.
    text = compiled(a, b, schedule=f"tile = (64,32,{DEPTHS[kind]})").ptx
    assert "wgmma.mma_async" in text
    turns_bytes = majors != "TN" and DEPTHS[kind] == DEPTHS["e4m3"]
    assert ("stmatrix" in text and "prmt" in text) == turns_bytes


@pytest.mark.some(4)
@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("ragged", [0, 5])
def test_trip_counts(stages, ragged):
    """Trips 0, 1, S-1, S, S+1, 2S+1 of a ring of S stages, whole and ragged in k."""
    schedule = f"tile = (64,8,16), stages = {stages}"
    for trips in sorted({0, 1, stages - 1, stages, stages + 1, 2 * stages + 1}):
        a, b = operands((64, 8, max(0, 16 * trips - ragged)), "TT" if ragged else "TN")
        assert same(run(a, b, schedule=schedule), exact(a, b)), trips


@pytest.mark.parametrize("trips", [0, 1, 3, 4])
def test_trip_counts_and_work_items(trips):
    """The ring goes on from one work item of a CTA to the next, whatever its stage and phase."""
    a, b = operands((200, 60, 16 * trips))
    assert same(run(a, b, schedule="tile = (64,16,16), stages = 3"), exact(a, b))


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "shape", [(1, 1, 1), (65, 63, 33), (7, 130, 40), (130, 7, 31), (64, 72, 8), (129, 257, 65)]
)
@pytest.mark.parametrize("majors", ["TN", "NT"])
def test_ragged_sizes(shape, majors):
    a, b = operands(shape, majors)
    assert same(run(a, b), exact(a, b))


@pytest.mark.parametrize("out_major", ["rows", "columns"])
def test_results_in_either_major(out_major):
    a, b = operands((72, 80, 64))
    store = np.empty((80, 72) if out_major == "columns" else (72, 80), np.float16)
    out = store.T if out_major == "columns" else store
    run(a, b, out=out, schedule=SMALL)
    assert same(out, exact(a, b))


@pytest.mark.parametrize("out_dtype", ["f16", "bf16", "f32", "f64", "i32"])
def test_types_of_the_result(out_dtype):
    a, b = operands((72, 80, 64))
    if out_dtype == "i32":
        a, b = operands((72, 80, 64), "TN", "s8")
    got = run(a, b, out_dtype=out_dtype, schedule="tile = (64,64,64)")
    assert same(got, exact(a, b))


CLUSTERS = ("(1,2)", "(2,1)", "(2,2)", "(4,1)", "(1,4)")


@pytest.mark.some(5)
@pytest.mark.parametrize("cluster", CLUSTERS)
@pytest.mark.parametrize(
    ("shape", "majors"),
    [((64, 64, 64), "TN"), ((130, 200, 130), "NT"), ((256, 128, 0), "TN"), ((200, 20, 200), "TT")],
)
def test_clusters(cluster, shape, majors):
    """CTAs of a cluster load parts of the tiles that they share, for each other."""
    schedule = f"tile = (64,64,64), stages = 2, cluster = {cluster}"
    a, b = operands(shape, majors)
    assert same(run(a, b, schedule=schedule), exact(a, b))


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "schedule",
    [
        "tile = (64,8,64)",
        "tile = (64,256,64)",
        "tile = (64,64,128), stages = 2",
        "tile = (128,64,64), warps = (4,1)",
        "tile = (128,64,32), warps = (8,1)",
        "tile = (128,128,64), warps = (4,2)",
        "tile = (192,64,64), warps = (12,1)",
        "tile = (128,24,64)",
        "tile = (64,40,16)",
        "tile = (128,96,64), scheduler = single",
        "tile = (128,64,64), epilogue = direct",
        "tile = (128,64,64), epilogue = smem",
        "tile = (64,32,64), swap_ab = yes",
        "tile = (64,64,64), raster = 1",
        "tile = (64,64,64), roles = uniform, warps = (2,2)",
    ],
)
def test_schedules(schedule):
    a, b = operands((150, 200, 136))
    assert same(run(a, b, schedule=schedule), exact(a, b))


@pytest.mark.parametrize("rows", [1, 3, 16, 40])
def test_few_rows_become_columns(rows):
    a, b = operands((rows, 200, 136))
    assert same(run(a, b, schedule="tile = (64,16,64), swap_ab = yes"), exact(a, b))


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", ["f16", "s8"])
@pytest.mark.parametrize("columns", [65, 102])
def test_a_row_of_results_that_ends_within_16_bytes(kind, columns):
    """Made by the call itself: it may lie before another array."""
    a, b = operands((1, columns, 48), kind=kind)
    assert same(run(a, b), exact(a, b))
    group = cute.grouped_gemm([a, a], [b, b], arch="sm_90a", backend="emulator")
    assert all(same(each, exact(a, b)) for each in group)


@pytest.mark.some(2)
@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32], ids=["f16", "i8", "f32"])
def test_an_operand_of_one_element_has_no_major(dtype):
    a = np.full((1, 1), 2, dtype)
    for b in (np.ones((200, 17), dtype)[:, :1].T, np.ones((1, 200), dtype)):
        assert (run(a, b) == 2).all()
        assert (run(b.T, a) == 2).all()


@pytest.mark.parametrize("swap", ["no", "yes"])
def test_epilogue(swap):
    rng = np.random.default_rng(0)
    shapes = (70, 48), (48, 90), (70, 90), (90,)
    a, b, c, bias = (rng.standard_normal(shape).astype(np.float16) for shape in shapes)
    got = run(
        *(a, b),
        c=c,
        alpha=0.5,
        beta=-2.0,
        bias=bias,
        activation="relu",
        schedule=f"tile = (64,32,32), swap_ab = {swap}",
    )
    want = np.maximum(0.5 * exact(a, b) - 2.0 * c.astype(np.float64) + bias.astype(np.float64), 0)
    error = np.abs(got.astype(np.float64) - want).max()
    assert error <= 2 * np.abs(want.astype(np.float16) - want).max() + 1e-3


ACTIVATIONS = {
    "relu": lambda x: np.maximum(x, 0),
    "gelu": lambda x: 0.5 * x * (1 + np.vectorize(erf)(x / 2**0.5)),
    "silu": lambda x: x / (1 + np.exp(-x)),
}


@pytest.mark.parametrize("activation", ACTIVATIONS)
def test_activations(activation):
    rng = np.random.default_rng(1)
    a, b = (rng.standard_normal((64, 64)).astype(np.float16) for _ in range(2))
    want = ACTIVATIONS[activation](exact(a, b))
    got = run(a, b, activation=activation, out_dtype="f32", schedule="tile = (64,32,64)")
    assert np.abs(got - want).max() < 1e-5 * np.abs(want).max()


def test_activation_function():
    a, b = operands((64, 64, 32))
    got = run(a, b, activation=lambda x: cute.maximum(x, 0.0) + 1.0)
    assert same(got, np.maximum(exact(a, b), 0) + 1)


def test_alpha_and_beta_are_values_of_one_kernel():
    a, b = operands((64, 64, 64))
    c = integers((64, 64), seed=5)
    for alpha, beta in ((1.0, 1.0), (2.0, -1.0), (0.0, 4.0)):
        got = run(a, b, c=c, alpha=alpha, beta=beta, schedule=SMALL)
        assert same(got, alpha * exact(a, b) + beta * c.astype(np.float64))


@pytest.mark.parametrize(
    ("a_shape", "b_shape"),
    [
        ((3, 70, 40), (3, 40, 72)),
        ((2, 1, 64, 32), (3, 32, 64)),
        ((64, 40), (2, 40, 64)),
        ((2, 64, 40), (40, 64)),
        ((1, 64, 40), (4, 40, 64)),
    ],
)
def test_batches_broadcast(a_shape, b_shape):
    a, b = integers(a_shape, seed=1), integers(b_shape, seed=2)
    got = run(a, b, schedule="tile = (64,64,32)")
    want = exact(a, b)
    assert got.shape == want.shape
    assert same(got, want)


def test_batches_in_clusters():
    a, b = integers((3, 136, 72), seed=1), integers((3, 72, 136), seed=2)
    got = run(a, b, schedule="tile = (64,64,64), cluster = (2,1)")
    assert same(got, exact(a, b))


@pytest.mark.parametrize("schedule", [SMALL, "tile = (64,64,64), cluster = (2,1)"])
def test_zero_k_gives_the_addends(schedule):
    a, b = np.empty((64, 0), np.float16), np.empty((0, 64), np.float16)
    c, bias = integers((64, 64), seed=1), integers((64,), seed=2)
    assert np.array_equal(run(a, b, c=c, beta=2.0, bias=bias, schedule=schedule), 2 * c + bias)


@pytest.mark.parametrize("shape", [(0, 64, 32), (64, 0, 32), (0, 0, 0)])
def test_empty_output_launches_nothing(shape):
    m, n, k = shape
    assert run(np.empty((m, k), np.float16), np.empty((k, n), np.float16)).shape == (m, n)


def test_out_is_written_in_place_and_nothing_else():
    a, b = operands((60, 64, 40))
    store = np.full((70, 80), 9, np.float16)
    out = store[3:63, 8:72]
    assert run(a, b, out=out, schedule=SMALL) is out
    assert same(out, exact(a, b))
    out[...] = 9
    assert np.all(store == 9)


@pytest.mark.parametrize("kind", ["f16", "bf16", "tf32", "e4m3"])
def test_random_error_is_that_of_the_precision(kind):
    rng = np.random.default_rng(2)
    dtype = TYPES[kind]
    a, b = rng.standard_normal((128, 128)).astype(dtype), rng.standard_normal((128, 64))
    b = in_major(b.astype(dtype), False)
    if kind == "tf32":
        # Values that tf32 holds: the rest of the error is that of the accumulation.
        a, b = ((x.view(np.uint32) & 0xFFFFE000).view(np.float32) for x in (a, b))
    want = exact(a, b)
    out = BF16 if kind == "e4m3" else dtype
    reference = (a.astype(np.float32) @ b.astype(np.float32)).astype(out).astype(np.float64)
    got = run(a, b, schedule=f"tile = (64,64,{DEPTHS[kind]})").astype(np.float64)
    # The tensor cores cut the sums of f32 results where float32 rounds them (at most 1 ulp more).
    slack = np.abs(want).max() * 2.0**-22 if kind == "tf32" else 0.0
    assert np.abs(got - want).max() <= 2 * np.abs(reference - want).max() + slack


@pytest.mark.some(6)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("schedule", ["stages = 3", "stages = 2, cluster = (2,2)", "stages = 1"])
def test_late_copies(seed, schedule, monkeypatch):
    """Asynchronous copies complete late, each time in another order."""
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=seed))
    a, b = operands((130, 72, 100))
    assert same(run(a, b, schedule=f"tile = (64,64,32), {schedule}"), exact(a, b))


def test_one_kernel_serves_all_sizes():
    sizes = itertools.product((16, 64), (8, 64), (32, 96))
    kernels = {
        id(compiled(np.empty((m, k), "f2"), np.empty((n, k), "f2").T, schedule=SMALL))
        for m, n, k in sizes
    }
    assert len(kernels) == 1
