"""`cute.routed_gemm` by matrices of narrow numbers: weights of 8 and 4 bits with zeros, and scales
of columns and groups; and fp8 with scales of blocks.
"""

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute

TARGETS = ("sm_80", "sm_90a", "sm_100a", "sm_120a")
BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
OFFSETS = np.array([0, 0, 1, 71, 71, 141, 170], np.int32)
GROUPS, COLUMNS, TOKENS, ROWS = len(OFFSETS) - 1, 72, 50, int(OFFSETS[-1])
OF_ROWS = np.searchsorted(OFFSETS, np.arange(ROWS), "right") - 1


@pytest.fixture
def rng():
    return np.random.default_rng(57)


def weights(rng, depth, bits=4, group=64, zero="groups", order=None):
    """Matrices (E, K, N), what is beside them as (scale, zero), and the numbers they stand for."""
    q = rng.integers(0, 16, (GROUPS, depth, COLUMNS)).astype(np.uint8)
    shape = (GROUPS, COLUMNS) if group is None else (GROUPS, -(-depth // group), COLUMNS)
    scale = rng.choice([0.5, 1, 2], shape).astype(np.float32)
    zeros = 8 if zero == "number" else rng.integers(0, 16, shape).astype(np.uint8)

    def spread(of):
        of = np.asarray(of, np.float64)
        if of.ndim < 3:
            return of[:, None] if of.ndim else of
        return np.repeat(of, group, 1)[:, :depth]

    packed = q if bits == 8 else cute.pack(q, "u4", order)
    return packed, scale, zeros, (q - spread(zeros)) * spread(scale)


def gathered(x, at):
    return np.where((at >= 0)[:, None], x[np.maximum(at, 0)].astype(np.float64), 0)


def multiplied(rows, matrices):
    return np.einsum("rk,rkn->rn", rows, matrices[OF_ROWS])


def run(*arrays, arch, **options):
    return cute.routed_gemm(*arrays, arch=arch, backend="emulator", out_dtype="f32", **options)


CASES = {
    "groups": (192, {}),
    "a number": (200, {"group": None, "zero": "number"}),
    "groups of 32": (96, {"group": 32, "order": "(2,4,2,2):(2,8,4,1)"}),
    "bytes": (160, {"bits": 8, "group": 128}),
    "columns of bytes": (72, {"bits": 8, "group": None}),
}


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("case", CASES)
def test_weights_of_experts(case, arch, rng):
    depth, options = CASES[case]
    b, scale, zero, wide = weights(rng, depth, **options)
    x, at = rng.integers(-2, 3, (TOKENS, depth)).astype(BF16), rng.integers(-1, TOKENS, ROWS)
    got = run(x, b, OFFSETS, rows=at, scale_b=scale, zero_b=zero, arch=arch)
    np.testing.assert_array_equal(got, multiplied(gathered(x, at), wide))


@pytest.mark.parametrize("arch", TARGETS)
def test_gated_and_added(arch, rng):
    """Both calls of a layer of experts, of which every matrix has 4 bits."""
    x, at = rng.integers(-1, 2, (TOKENS, 128)).astype(BF16), rng.integers(0, TOKENS, ROWS)
    (b, scale, zero, up), (gate, scale_g, zero_g, down) = (weights(rng, 128) for _ in range(2))
    to = rng.integers(-1, 20, ROWS).astype(np.int32)
    got = run(
        x, b, OFFSETS, rows=at, scale_b=scale, zero_b=zero, gated=gate, scale_gated=scale_g,
        zero_gated=zero_g, activation="relu", scatter=to, count=20, arch=arch,
    )  # fmt: skip
    rows = gathered(x, at)
    found = np.maximum(multiplied(rows, up), 0) * multiplied(rows, down)
    want = np.zeros((20, COLUMNS))
    np.add.at(want, to[to >= 0], found[to >= 0])
    np.testing.assert_array_equal(got, want)


@pytest.mark.parametrize("arch", TARGETS[1:])
@pytest.mark.parametrize(("depth", "columns", "gathers"), [(256, 136, True), (72, 72, False)])
def test_blocks_of_bytes(arch, depth, columns, gathers, rng):
    count = TOKENS if gathers else ROWS
    x = rng.integers(-2, 3, (count, depth)).astype(E4M3)
    b = rng.integers(-2, 3, (GROUPS, columns, depth)).astype(E4M3)
    steps, across = -(-depth // 128), -(-columns // 128)
    of_rows = rng.choice([0.5, 1, 2], (count, steps)).astype(np.float32)
    of_blocks = rng.choice([0.5, 1, 2], (GROUPS, across, steps)).astype(np.float32)
    wide = x.astype(float) * np.repeat(of_rows, 128, 1)[:, :depth]
    spread = np.repeat(np.repeat(of_blocks, 128, 1)[:, :columns], 128, 2)[:, :, :depth]
    at = rng.integers(-1, TOKENS, ROWS) if gathers else None
    got = run(
        x, b.swapaxes(1, 2), OFFSETS, rows=at, scale_a=of_rows, scale_b=of_blocks.swapaxes(1, 2),
        arch=arch,
    )  # fmt: skip
    want = multiplied(gathered(wide, at) if gathers else wide, (b * spread).swapaxes(1, 2))
    np.testing.assert_array_equal(got, want)


def test_products_of_bytes_are_added_in_the_type_of_the_result(rng):
    """They were rounded to 8 bits."""
    x = rng.integers(-8, 9, (ROWS, 128)).astype(E4M3)
    b = rng.integers(-8, 9, (GROUPS, 128, COLUMNS)).astype(E4M3)
    places = np.arange(ROWS, dtype=np.int32)[:, None]
    got = run(x, b, OFFSETS, scatter=places, arch="sm_90a")
    np.testing.assert_array_equal(got, multiplied(x.astype(float), b.astype(float)))


@pytest.mark.parametrize("arch", TARGETS)
@pytest.mark.parametrize("gated", [False, True])
@pytest.mark.parametrize("kind", ["bf16", "u4", "u8", "e4m3"])
def test_defaults_do_not_spill(arch, gated, kind, spills_of):
    if kind == "e4m3" and arch == "sm_80":
        pytest.skip("its tensor cores multiply none")
    spec = cute.TensorSpec
    groups, rows, depth, columns = 8, 8192, 1024, 2048
    packs, types = kind == "u4", {"u4": "u8", "u8": "u8"}
    held = depth // 2 if packs else depth
    b = spec((groups, held, columns), types.get(kind, kind), (None, 1, None))
    numbers = spec((rows,), "i32")
    given = {"rows": numbers, "scatter": numbers, "count": 2048, "arch": arch}
    if kind in types:
        beside = spec((groups, depth // 64, columns), "f32")
        zero = spec((groups, depth // 64, columns), "u8")
        given |= {"scale_b": beside, "zero_b": zero}
        given |= {"packed_b": "u4 -2 (2,4,2,(2,2)):(2,16,4,(1,8))"} if packs else {}
        given |= {"gated": b, "scale_gated": beside, "zero_gated": zero} if gated else {}
    elif kind == "e4m3":
        blocks = spec((groups, depth // 128, columns // 128), "f32")
        given |= {"scale_a": spec((2048, depth // 128), "f32"), "scale_b": blocks}
        given |= {"gated": b, "scale_gated": blocks} if gated else {}
    elif gated:
        given["gated"] = b
    of_rows = spec((2048, depth), kind if kind == "e4m3" else "bf16")
    kernel = cute.routed_gemm.compile(of_rows, b, spec((groups + 1,), "i32"), **given)
    assert spills_of(kernel) == 0


X, STARTS = np.zeros((8, 128), BF16), np.array([0, 4, 8], np.int32)
W = np.zeros((2, 128, 72), np.uint8)
BYTES = np.zeros((2, 128, 72), E4M3)
F32 = np.float32


@pytest.mark.parametrize(
    ("changed", "error", "message"),
    [
        ({"scale_b": np.zeros((2, 3, 72), F32)}, ValueError,
         r"scale_b: expected \(2, 72\) .*\(2, 2, 72\), .* for groups of 128, 64, 32 rows, .*"
         r"got shape \(2, 3, 72\)"),
        ({"scale_b": np.zeros((2, 72), np.float64)}, TypeError, "scale_b: expected f32, bf16"),
        ({"scale_b": np.zeros((2, 1, 72), ml_dtypes.float8_e8m0fnu)}, TypeError,
         "scale_b: .*panels are those of cute.grouped_gemm"),
        ({"zero_b": np.zeros((3, 72), np.uint8)}, ValueError, r"zero_b: expected \(2, 72\)"),
        ({"zero_gated": 8}, ValueError, "zero_gated: expected None without gated"),
        ({"scale_gated": np.zeros((2, 72), F32)}, ValueError, "scale_gated: expected None without"),
        ({"gated": W, "scale_b": np.zeros((2, 72), F32)}, ValueError, "scale_gated: expected sca"),
        ({"a": X.astype(E4M3), "b": BYTES, "zero_b": 3}, TypeError, "zero_b: expected None but"),
        ({"a": X.astype(E4M3), "b": BYTES, "scale_b": np.zeros((2, 1, 1), F32)}, ValueError,
         "scale_a: expected blocks of rows of a beside blocks of b"),
        ({"scale_a": np.zeros((8, 1), F32)}, ValueError, "scale_a: expected blocks"),
        ({"b": cute.pack(W), "scale_b": np.zeros((2, 4, 72), F32)}, ValueError,
         "whole blocks of 64 packed elements of b, got 32"),
        ({"b": cute.pack(W), "gated": cute.pack(W, "i4")}, ValueError, "gated: expected elements"),
        ({"scale_b": np.zeros((2, 2, 72), F32), "schedule": "tile = (64,64,128)"}, ValueError,
         "schedule: expected a tile whose depth divides 64"),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(changed, error, message):
    given = {"a": X, "b": W, "offsets": STARTS} | changed
    with pytest.raises(error, match=message):
        cute.routed_gemm(**given, arch="sm_90a", backend="emulator")
