"""`cute.gemm` and `cute.grouped_gemm` by weights of 4 and 8 bits, with scales and zeros of columns
and of groups of rows.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.layout.text import parse_layout

ARCHS = ("sm_80", "sm_90a", "sm_100a")
BF16 = ml_dtypes.bfloat16
FRAGMENT = "(2,4,2,(2,2)):(2,16,4,(1,8))"
AWQ = "(2,4):(4,1)"
STAGES = 3


@pytest.fixture
def rng():
    return np.random.default_rng(44)


def held(q, axis, per, order=None):
    """Elements (K, N) as integers that hold so many of them, the last block filled up."""
    layout = parse_layout(order or f"{per}:1")
    size = layout.size()
    last = np.moveaxis(q, axis, -1)
    last = np.pad(last, ((0, 0), (0, -last.shape[-1] % size)), constant_values=11)
    blocks = last.reshape(last.shape[0], -1, size)
    placed = np.empty_like(blocks)
    placed[..., layout.offsets()] = blocks
    parts = placed.reshape(last.shape[0], -1, per).astype(np.uint32) & 15
    words = (parts << (4 * np.arange(per, dtype=np.uint32))).sum(-1, dtype=np.uint32)
    integers = words.astype(f"u{per // 2}")
    # Bytes lie along K, words along N.
    return (
        np.moveaxis(integers, -1, axis)
        if per == 2
        else np.ascontiguousarray(integers.swapaxes(-1, axis))
    )


def drawn(rng, m, n, k, type_=BF16, group=None, zero=None):
    """x, q, the arguments of scales and zeros, and the exact product."""
    q, x = rng.integers(0, 16, (k, n)), rng.integers(-2, 3, (m, k)).astype(type_)
    count, options, wide = -(-k // (group or k or 1)), {}, q.astype(np.float64)
    if zero is not None:
        shape = () if zero == "number" else (n,) if zero == "columns" else (count, n)
        zeros = rng.integers(0, 16, shape) / 2 if zero == "floats" else rng.integers(0, 16, shape)
        zeros = zeros.astype(np.float32 if zero == "floats" else np.uint8)
        options["zero_b"] = int(zeros) if zero == "number" else zeros
        wide = wide - (zeros if zeros.ndim < 2 else np.repeat(zeros, group, 0)[:k])
    if group is not None:
        scales = rng.choice([0.5, 1, 2], (count, n)).astype(np.float32)
        options["scale_b"], wide = scales, wide * np.repeat(scales, group, 0)[:k]
    return x, q, options, x.astype(np.float64) @ wide


@pytest.mark.parametrize("arch", ARCHS)
@pytest.mark.parametrize(
    ("shape", "axis", "per", "order", "group", "zero", "type_"),
    [
        ((16, 136, 320), 0, 2, FRAGMENT, 128, "groups", BF16),
        ((20, 72, 203), 0, 2, None, 64, "floats", np.float16),
        ((20, 72, 96), 0, 8, None, 32, "groups", BF16),
        ((24, 64, 96), 1, 8, AWQ, 32, "columns", np.float16),
        ((130, 70, 95), 0, 2, None, None, "number", BF16),
    ],
)
def test_weights_of_four_bits(arch, shape, axis, per, order, group, zero, type_, rng):
    x, q, options, exact = drawn(rng, *shape, type_, group, zero)
    w = cute.packed(held(q, axis, per, order), "u4", axis, order)
    y = cute.gemm(x, w, out_dtype="f32", arch=arch, backend="emulator", **options)
    assert np.array_equal(y, exact)


@pytest.mark.parametrize("arch", ARCHS)
def test_edge_trips_of_groups(arch, rng):
    schedule = f"tile = (64,16,64), stages = {STAGES}, swap_ab = yes"
    schedule = {"sm_80": f"tile = (64,64,64), stages = {STAGES}"}.get(arch, schedule)
    for trips in (0, 1, STAGES - 1, STAGES, STAGES + 1, 2 * STAGES + 1):
        x, q, options, exact = drawn(rng, 16, 64, 64 * trips, BF16, 64, "groups")
        w = cute.packed(held(q, 0, 2), "u4", 0)
        options |= {"arch": arch, "backend": "emulator", "schedule": schedule}
        assert np.array_equal(cute.gemm(x, w, out_dtype="f32", **options), exact), trips


@pytest.mark.parametrize("type_", [np.int8, np.uint8])
def test_weights_of_eight_bits_have_zeros_and_groups(type_, rng):
    limits = np.iinfo(type_)
    q = rng.integers(limits.min, limits.max + 1, (192, 72)).astype(type_)
    zero = rng.integers(limits.min, limits.max + 1, (3, 72)).astype(type_)
    scale = rng.choice([0.5, 1, 2], (3, 72)).astype(BF16)
    x = rng.integers(-2, 3, (20, 192)).astype(BF16)
    wide = (q.astype(np.float64) - np.repeat(zero, 64, 0)) * np.repeat(scale.astype(float), 64, 0)
    options = {"scale_b": scale, "zero_b": zero, "arch": "sm_90a", "backend": "emulator"}
    y = cute.gemm(x, q.T.copy().T, out_dtype="f32", **options)
    assert np.array_equal(y, x.astype(np.float64) @ wide)


def test_batches_share_packed_weights(rng):
    x, q, options, exact = drawn(rng, 40, 64, 128, BF16, 128, "groups")
    w = cute.packed(held(q, 0, 2), "u4", 0)
    options |= {"arch": "sm_90a", "backend": "emulator", "out_dtype": "f32"}
    y = cute.gemm(x.reshape(2, 20, 128), w, **options)
    assert np.array_equal(y.reshape(40, 64), exact)


def test_several_packed_products_in_a_launch(rng):
    problems = [drawn(rng, m, n, 128, BF16, 64, "groups") for m, n in ((20, 64), (70, 136))]
    ws = [cute.packed(held(q, 0, 2), "u4", 0) for _, q, _, _ in problems]
    lists = {name: [each[2][name] for each in problems] for name in ("scale_b", "zero_b")}
    ys = cute.grouped_gemm(
        [each[0] for each in problems], ws, out_dtype="f32", arch="sm_90a", backend="emulator",
        **lists,
    )  # fmt: skip
    for y, (_, _, _, exact) in zip(ys, problems, strict=True):
        assert np.array_equal(y, exact)


@pytest.mark.parametrize(
    ("zero", "type_", "bound"),
    [("groups", BF16, 2**-20), ("floats", BF16, 2**-9), ("floats", np.float16, 2**-12)],
)
def test_errors_stay_within_what_numerics_say(zero, type_, bound, rng):
    """The error of a sum, in parts of the sum of the magnitudes of its products."""
    m, n, k, group = 16, 64, 512, 128
    q, x = rng.integers(0, 16, (k, n)), rng.standard_normal((m, k)).astype(type_)
    zeros = rng.uniform(0, 15, (4, n)).astype(np.float32)
    zeros = zeros if zero == "floats" else np.rint(zeros).astype(np.uint8)
    scales = rng.uniform(0.01, 0.1, (4, n)).astype(np.float32)
    w = cute.packed(held(q, 0, 2), "u4", 0)
    options = {"out_dtype": "f32", "arch": "sm_90a", "backend": "emulator"}
    y = cute.gemm(x, w, scale_b=scales, zero_b=zeros, **options)
    wide = (q - np.repeat(zeros.astype(float), group, 0)) * np.repeat(
        scales.astype(float), group, 0
    )
    exact, size = x.astype(float) @ wide, np.abs(x.astype(float)) @ np.abs(wide)
    error = (np.abs(y - exact) / size).max()
    assert error <= bound
    if zero == "floats":
        assert error >= bound / 8


X, W = np.zeros((16, 128), BF16), np.zeros((64, 64), np.uint8).T


@pytest.mark.parametrize(
    ("x", "options", "error", "message"),
    [
        (X, {"zero_b": np.zeros((3, 64), np.uint8)}, ValueError,
         r"zero_b: .*\(2, 64\), \(4, 64\) for groups of 128, 64, 32 rows"),
        (X, {"scale_b": np.zeros((5, 64), np.float32)}, ValueError, "scale_b: .*groups of"),
        (X, {"zero_b": np.zeros(64, np.int64)}, TypeError, "zero_b: expected i8 or .*got i64"),
        (X.astype(np.float32), {}, TypeError, "b: expected f32 as in a, got u4"),
        (X, {"schedule": "tile = (64,64,32)", "scale_b": np.zeros((2, 64), np.float32)}, ValueError,
         "whole blocks of 64 packed elements of b, got 32"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(x, options, error, message):
    order = FRAGMENT if "schedule" in options else None
    with pytest.raises(error, match=message):
        cute.gemm(x, cute.packed(W, "u4", 0, order), backend="emulator", **options)


def test_a_zero_of_floats_is_refused_beside_what_is_no_weight():
    with pytest.raises(TypeError, match="zero_b: expected None but for weights b of 8 or 4 bits"):
        cute.gemm(X, X.T, zero_b=1.0, backend="emulator")
    with pytest.raises(ValueError, match="packed_b: expected a type, an axis and an order"):
        cute.gemm(X, W, packed_b="u4", backend="emulator")


@pytest.mark.parametrize("rows", [16, 4096])
def test_warpgroups_take_packed_weights_from_registers(rows):
    specs = cute.TensorSpec((rows, 4096), "bf16"), cute.TensorSpec((2048, 4096), "u8", (1, None))
    kernel = cute.gemm.compile(*specs, zero_b=8, packed_b="u4 -2", arch="sm_90a")
    assert "swap_ab = yes" in kernel.schedule
    assert "wgmma" in kernel.ptx
    assert "ld.global" not in kernel.ptx


def test_sums_of_groups_leave_registers_for_what_becomes_wider():
    specs = cute.TensorSpec((4096, 7168), "bf16"), cute.TensorSpec((3584, 2048), "u8", (1, None))
    scale = cute.TensorSpec((56, 2048), "f32")
    kernel = cute.gemm.compile(*specs, scale_b=scale, packed_b="u4 -2", arch="sm_90a")
    rows, columns, _ = cute.Schedule.parse(kernel.schedule).tile
    assert rows * columns <= 128 * 128


@pytest.mark.parametrize(
    ("name", "array"),
    [("out", np.zeros((16, 71), BF16)), ("bias", np.zeros(71, np.float32)),
     ("scale_b", np.zeros(71, np.float32)), ("zero_b", np.zeros((1, 71), np.uint8))],
)  # fmt: skip
def test_columns_that_end_within_an_integer_are_told_of(name, array):
    w = cute.packed(np.zeros((128, 36), np.uint8), "u4", 1)
    message = f"{name}: expected 72 columns, .* got 71; fill it up, and take the first 71 columns"
    with pytest.raises(ValueError, match=message):
        cute.gemm(X, w, backend="emulator", **{name: array})


def test_floats_of_bytes_beside_16_bits_are_told_what_takes_them():
    with pytest.raises(TypeError, match="8-bit integers, and tiles of e4m3 in a kernel"):
        cute.gemm(X, X.T.astype(ml_dtypes.float8_e4m3fn), backend="emulator")
