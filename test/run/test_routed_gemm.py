"""`cute.routed_gemm`: products of groups of rows whose offsets are numbers on the device."""

import itertools
import runpy

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_80", "sm_90a", "sm_100a")
BF16 = ml_dtypes.bfloat16
# Groups of one row, of none at either end and in the middle, and of more than a tile.
OFFSETS = np.array([0, 0, 1, 71, 71, 201, 230, 230], np.int32)
GROUPS, DEPTH, COLUMNS, TOKENS = len(OFFSETS) - 1, 72, 72, 90
TOTAL = int(OFFSETS[-1]) + 9  # rows behind the last group


def integers(shape, dtype=np.float16, seed=0, low=-2, high=3):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def weights_of(dtype=np.float16, seed=1):
    """Matrices (E, K, N), contiguous along K."""
    return integers((GROUPS, COLUMNS, DEPTH), dtype, seed).transpose(0, 2, 1)


def numbers(high, kind=np.int32, count=TOTAL, seed=3):
    return np.random.default_rng(seed).integers(-1, high, count).astype(kind)


def rows_of(x, at):
    return np.where((at >= 0)[:, None], x[np.maximum(at, 0)].astype(np.float64), 0)


def products(x, b, at=None, offsets=OFFSETS, lengths=None):
    """The products of each row, NaN where no group has one."""
    rows = x.astype(np.float64) if at is None else rows_of(x, at)
    found = np.full((len(rows), b.shape[2]), np.nan)
    for e, (low, high) in enumerate(itertools.pairwise(offsets)):
        high = high if lengths is None else min(high, low + lengths[e])
        found[low:high] = rows[low:high] @ b[e].astype(np.float64)
    return found


def added(found, scatter, count, weights=None):
    total = np.zeros((count, found.shape[1]))
    for row, target in enumerate(scatter):
        if target >= 0 and not np.isnan(found[row, 0]):
            total[target] += found[row] * (1 if weights is None else weights[row])
    return total


def run(*arrays, arch="sm_90a", **options):
    return cute.routed_gemm(*arrays, arch=arch, backend="emulator", **options)


def written(shape, dtype=np.float32):
    return np.full(shape, np.nan, dtype)


@pytest.mark.parametrize("arch", TARGETS)
def test_rows_that_lie_together(arch):
    x, b, out = integers((TOTAL, DEPTH)), weights_of(), written((TOTAL, COLUMNS))
    assert run(x, b, OFFSETS, out=out, arch=arch) is out
    np.testing.assert_array_equal(out, products(x, b))


@pytest.mark.parametrize("arch", TARGETS)
def test_gathered_and_gated(arch):
    """What an expert layer begins with."""
    x, b, more, at = integers((TOKENS, DEPTH)), weights_of(), weights_of(seed=6), numbers(TOKENS)
    out = written((TOTAL, COLUMNS))
    run(x, b, OFFSETS, rows=at, gated=more, activation="relu", out=out, arch=arch)
    want = np.maximum(products(x, b, at), 0) * products(x, more, at)
    np.testing.assert_array_equal(out, want)


@pytest.mark.parametrize("arch", TARGETS)
def test_added_to_rows(arch):
    """What it ends with, by atomics."""
    x, b, to = integers((TOTAL, DEPTH)), weights_of(), numbers(TOKENS)
    shares = 2.0 ** integers(TOTAL, np.float32, 5)
    got = run(x, b, OFFSETS, scatter=to, weights=shares, count=TOKENS, arch=arch)
    assert got.dtype == np.float32
    np.testing.assert_array_equal(got, added(products(x, b), to, TOKENS, shares))


def test_added_in_order():
    x, b = integers((TOTAL, DEPTH)), weights_of()
    places = np.random.default_rng(1).permutation(230)[: 3 * 70].reshape(70, 3).astype(np.int32)
    places[::7, 1] = -1
    shares = 2.0 ** integers((70, 3), np.float32, 5)
    got = run(x, b, OFFSETS, scatter=places, weights=shares, out_dtype="f32")
    found = products(x, b)
    want = sum(rows_of(found, places[:, j]) * shares[:, j, None] for j in range(3))
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("dtype", [BF16, np.float32, ml_dtypes.float8_e4m3fn])
def test_types_and_what_follows_the_product(dtype):
    x, b, at = integers((TOKENS, DEPTH), dtype), weights_of(dtype), numbers(TOKENS, np.int64)
    bias = integers((GROUPS, COLUMNS), np.float32, 4)
    out = written((TOTAL, COLUMNS))
    run(x, b, OFFSETS.astype(np.int64), rows=at, bias=bias, activation="relu", out=out)
    groups = np.searchsorted(OFFSETS, np.arange(230), "right") - 1
    want = products(x, b, at)
    want[:230] = np.maximum(want[:230] + bias[groups], 0)
    np.testing.assert_array_equal(out, want)


def test_tanh_is_as_exact_as_results_of_f32():
    """The instruction alone is off by up to 2^-11."""
    x, b = integers((TOTAL, DEPTH), np.float32) / 16, weights_of(np.float32)
    out = written((TOTAL, COLUMNS))
    run(x, b, OFFSETS, activation="tanh", out=out)
    np.testing.assert_allclose(out, np.tanh(products(x, b)), atol=2.0**-20)


def test_weights_of_bytes():
    x, b, at = integers((TOKENS, DEPTH), BF16), weights_of(np.int8), numbers(TOKENS)
    scale = 2.0 ** integers((GROUPS, COLUMNS), np.float32, 4)
    out = written((TOTAL, COLUMNS))
    run(x, b, OFFSETS, rows=at, scale_b=scale, out=out)
    want = products(x, b, at)
    want[:230] *= scale[np.searchsorted(OFFSETS, np.arange(230), "right") - 1]
    np.testing.assert_array_equal(out, want)


def test_groups_of_padded_rows():
    """Each group has room for 40 rows, and so many of them as `lengths` says."""
    offsets, lengths = (
        np.arange(GROUPS + 1, dtype=np.int32) * 40,
        integers(GROUPS, np.int32, 2, 0, 41),
    )
    x, b, out = integers((40 * GROUPS, DEPTH)), weights_of(), written((40 * GROUPS, COLUMNS))
    run(x, b, offsets, lengths=lengths, out=out)
    np.testing.assert_array_equal(out, products(x, b, None, offsets, lengths))


def test_many_groups_of_few_rows():
    generator = np.random.default_rng(0)
    counts = generator.integers(0, 4, 256) * (generator.random(256) < 0.5)
    offsets = np.concatenate([[0], counts.cumsum()]).astype(np.int32)
    x, b = integers((TOKENS, 32)), integers((256, 32, 40), seed=1)
    at = numbers(TOKENS, count=int(offsets[-1]))
    out = written((len(at), 40))
    run(x, b, offsets, rows=at, out=out)
    np.testing.assert_array_equal(out, products(x, b, at, offsets))


@pytest.mark.parametrize(
    "offsets", [[0, 50, 20, 90, 7, 300, 5, 90], [-40, 9, 9, 200, 1000, 3, 8, 90]]
)
def test_nothing_outside_is_touched(offsets, monkeypatch):
    """The kernel itself bounds offsets that fall and rows that are not there; the emulator checks
    each access.
    """
    monkeypatch.setattr("cutedialect.frontend.routed_gemm._check_numbers", lambda *_: None)
    x, b = integers((TOKENS, DEPTH)), weights_of()
    at, to = (integers(90, np.int32, seed, -300, 300) for seed in (0, 1))
    run(x, b, np.array(offsets, np.int32), rows=at, scatter=to, count=50)
    run(x, b, np.array(offsets, np.int32))


def test_no_result():
    x, b = integers((0, DEPTH)), weights_of()
    assert run(x, b, np.zeros(GROUPS + 1, np.int32)).shape == (0, COLUMNS)


X, B, STARTS = (
    np.zeros((8, 16), np.float16),
    np.zeros((2, 16, 24), np.float16),
    np.array([0, 4, 8], "i4"),
)
R = np.arange(8, dtype=np.int32)


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"b": B[:, :8]}, ValueError, r"b: expected \(E, 16, N\) \(a is \(8, 16\)\), got 8 rows"),
        ({"b": B.astype(np.float32)}, TypeError, "b: expected f16 as in a, or integers of 8 or 4"),
        ({"offsets": STARTS[:2]}, ValueError, "offsets: expected 3 numbers, .* got 2"),
        (
            {"offsets": STARTS.astype(np.float32)},
            TypeError,
            "offsets: expected i32 or i64, got f32",
        ),
        (
            {"offsets": STARTS[::-1].copy()},
            ValueError,
            "offsets: expected numbers that do not fall, got 4",
        ),
        ({"offsets": STARTS + 3}, ValueError, "offsets: expected 0 to 8, the rows .* got 3 to 11"),
        ({"lengths": R[:1]}, ValueError, "lengths: expected 2 groups as in b, got 1"),
        (
            {"rows": R + 1},
            ValueError,
            "rows: expected numbers of the 8 rows, or -1 for none, got 8",
        ),
        ({"scatter": R}, ValueError, "count: expected how many rows the result"),
        ({"scatter": R[:3], "count": 4}, ValueError, "scatter: expected 8 numbers, .* got 3"),
        (
            {"scatter": R, "count": 7},
            ValueError,
            "scatter: expected numbers of the 7 rows, .* got 7",
        ),
        ({"scatter": R[None, None]}, ValueError, r"scatter: expected the row .* shape \(1, 1, 8\)"),
        ({"count": 4}, ValueError, "count: expected None without a scatter"),
        ({"weights": R[:4] + 0.5}, ValueError, r"weights: expected shape \(8,\), got \(4,\)"),
        ({"gated": B[:, :, :8]}, ValueError, "gated: expected 24 columns as in b, got 8"),
        ({"activation": "tanhh"}, ValueError, "activation: expected 'relu'"),
        ({"out": X}, ValueError, r"out: expected shape \(8, 24\), got \(8, 16\)"),
    ],
)
def test_wrong_arguments(changed, error, message):
    with pytest.raises(error, match=f"^{message}"):
        run(**({"a": X, "b": B, "offsets": STARTS} | changed))


def test_lists_have_no_rows():
    with pytest.raises(TypeError, match=r"rows.*cute.routed_gemm"):
        cute.grouped_gemm([X], [B[0]], rows=R)


def test_a_layer_of_experts_is_two_calls(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    assert runpy.run_path("examples/experts.py")["main"]() == 0


def test_what_is_compiled_without_arrays():
    specs = (
        cute.TensorSpec((None, 2048), "bf16"),
        cute.TensorSpec((128, 2048, 4096), "bf16", (None, 1, 2048)),
    )
    numbers = cute.TensorSpec((129,), "i32"), cute.TensorSpec((None,), "i32")
    kernel = cute.compile(cute.routed_gemm, *specs, numbers[0], rows=numbers[1], arch="sm_90a")
    assert "roles = specialized" in kernel.schedule
    assert "cp.async.cg.shared.global" in kernel.ptx
    assert "wgmma" in kernel.ptx
