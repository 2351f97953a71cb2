"""`cute.gemm` with scales (one number, rows and columns, blocks of 128) and with sums of 8-bit
floats that are promoted to f32 every 128 of K.
"""

from __future__ import annotations

import itertools

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas

BF16 = ml_dtypes.bfloat16
E4M3, E5M2 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2
SMALL = "tile = (64,64,128), stages = 2"
BLOCK = 128


def integers(shape, dtype=E4M3, seed=0, low=-3, high=4):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


def powers(shape, seed=0):
    """Powers of two from 1/4 to 4, with which products of small integers stay exact."""
    return np.exp2(np.random.default_rng(seed).integers(-2, 3, shape)).astype(np.float32)


def in_columns(array):
    """The same values, column-major in the last two modes."""
    return np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)


def operands(shape, kinds=(E4M3, E4M3)):
    m, n, k = shape
    return integers((m, k), kinds[0], 1), in_columns(integers((k, n), kinds[1], 2))


def run(a, b, **options):
    options.setdefault("arch", "sm_90a")
    options.setdefault("schedule", SMALL)
    return cute.gemm(a, b, backend="emulator", **options)


def wide(array):
    return np.asarray(array).astype(np.float64)


def spread(scale, shape):
    """A scale as one number for each element of an operand of this shape (rows, columns)."""
    scale = np.asarray(scale)
    if scale.ndim < 2:
        scale = scale.reshape(1, 1) if scale.size == 1 else scale
    for mode, extent in enumerate(shape[-2:], -2):
        if scale.shape[mode] not in (1, extent):
            scale = np.repeat(scale, BLOCK, mode).take(np.arange(extent), mode)
    return scale


def scaled(a, b, scale_a, scale_b):
    """The product in f64."""
    return (wide(a) * spread(scale_a, a.shape)) @ (wide(b) * spread(scale_b, b.shape))


def same(got, want):
    """Equal after one rounding of the exact values to the result's type."""
    return np.array_equal(wide(got), wide(want.astype(got.dtype)))


FP8 = list(itertools.product((E4M3, E5M2), repeat=2))


@pytest.mark.some(4)
@pytest.mark.parametrize("kinds", FP8)
@pytest.mark.parametrize("arch", ["sm_89", "sm_90a"])
def test_kinds_of_8_bits_mix(arch, kinds):
    a, b = operands((72, 40, 200), kinds)
    schedule = SMALL if arch == "sm_90a" else "tile = (64,32,64), warps = (2,2)"
    for fast in (True, False):
        if fast or arch == "sm_90a":
            got = run(a, b, arch=arch, schedule=schedule, fast_accum=fast)
            assert got.dtype == BF16
            assert same(got, wide(a) @ wide(b))


ONE = {
    "number": 0.5,
    "numpy number": np.float32(0.5),
    "element": np.array([0.5], np.float32),
    "matrix of one": np.array([[0.5]], np.float32),
    "array without modes": np.array(0.5, np.float32),
}


@pytest.mark.parametrize("which", ONE)
def test_one_scale_for_an_operand(which):
    a, b = operands((72, 40, 200))
    got = run(a, b, scale_a=ONE[which], scale_b=4.0, out_dtype="f32")
    assert same(got, wide(a) @ wide(b) * 2)


KINDS = {
    "e4m3": (E4M3, "sm_90a", SMALL),
    "s8": (np.int8, "sm_90a", SMALL),
    "s8 sm_80": (np.int8, "sm_80", "tile = (64,64,64), warps = (2,2)"),
    "f16": (np.float16, "sm_90a", "tile = (64,64,64)"),
    "bf16 sm_80": (BF16, "sm_80", "tile = (64,64,32), warps = (2,2)"),
}


@pytest.mark.some(5)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rank", [1, 2])
def test_scales_of_rows_and_columns(kind, rank):
    dtype, arch, schedule = KINDS[kind]
    a, b = operands((72, 136, 200), (dtype, dtype))
    scale_a, scale_b = powers(72, 3), powers(136, 4)
    one, other = (scale_a, scale_b) if rank == 1 else (scale_a[:, None], scale_b[None])
    got = run(a, b, scale_a=one, scale_b=other, out_dtype="f32", arch=arch, schedule=schedule)
    assert same(got, scaled(a, b, scale_a[:, None], scale_b[None]))


@pytest.mark.parametrize("swap", ["no", "yes"])
def test_scale_of_one_operand_of_the_transposed_product(swap):
    a, b = operands((72, 136, 200))
    scale = powers((72, 1), 3)
    for promoted in (True, False):
        got = run(
            *(a, b), scale_a=scale, fast_accum=not promoted, schedule=f"{SMALL}, swap_ab = {swap}"
        )
        assert same(got, scaled(a, b, scale, 1.0))


# What (M, K) and (K, N) of these blocks are cut into.
BLOCKS = {
    "rows and squares": ((1, BLOCK), (BLOCK, BLOCK)),
    "rows and columns": ((1, BLOCK), (BLOCK, 1)),
    "squares": ((BLOCK, BLOCK), (BLOCK, BLOCK)),
    "rows of a alone": ((1, BLOCK), None),
    "squares of b alone": (None, (BLOCK, BLOCK)),
}


def entries(shape, blocks):
    return tuple(-(-extent // block) for extent, block in zip(shape, blocks, strict=True))


@pytest.mark.some(6)
@pytest.mark.parametrize("blocks", BLOCKS)
@pytest.mark.parametrize(
    ("shape", "tile"),
    [
        ((72, 136, 384), "(64,64,128)"),
        ((130, 260, 200), "(128,64,128)"),
        ((200, 24, 129), "(64,16,128)"),
        ((64, 128, 16), "(64,128,128)"),
        ((64, 64, 0), "(64,64,128)"),
    ],
)
def test_blocks(shape, tile, blocks):
    """Whole and ragged along every mode; K = 0."""
    m, n, k = shape
    a, b = operands((m, n, -(-k // 16) * 16))
    a, b = a[:, :k], b[:k]
    of_a, of_b = BLOCKS[blocks]
    scale_a = None if of_a is None else powers(entries((m, k), of_a), 3)
    scale_b = None if of_b is None else powers(entries((k, n), of_b), 4)
    got = run(a, b, scale_a=scale_a, scale_b=scale_b, schedule=f"tile = {tile}, stages = 2")
    want = scaled(a, b, 1.0 if of_a is None else scale_a, 1.0 if of_b is None else scale_b)
    assert same(got, want if k else np.zeros((m, n)))


@pytest.mark.some(4)
@pytest.mark.parametrize("blocks", ["rows and squares", "rows of a alone", "squares of b alone"])
@pytest.mark.parametrize(
    ("shape", "schedule"),
    [
        ((300, 136, 384), "tile = (256,128,128), epilogue = smem, stages = 2"),
        ((300, 136, 384), "tile = (256,128,128), epilogue = smem, cluster = (1,2), stages = 2"),
        ((130, 136, 640), "tile = (64,64,128), split_k = 3"),
        ((130, 136, 640), "tile = (64,64,128), split_k = 2, reduction = cluster"),
        ((130, 136, 640), "tile = (64,64,128), split_k = 2, reduction = atomic"),
        ((130, 136, 640), "tile = (64,64,128), scheduler = stream"),
        ((130, 136, 640), "tile = (64,64,128), scheduler = tail, split_k = 2"),
    ],
)
def test_bands_and_parts(shape, schedule, blocks):
    """Bands of rows that follow each other, and parts of the depth, whose scales come a step ahead
    from the first step of each.
    """
    m, n, k = shape
    a, b = operands(shape)
    of_a, of_b = BLOCKS[blocks]
    scale_a = None if of_a is None else powers(entries((m, k), of_a), 3)
    scale_b = None if of_b is None else powers(entries((k, n), of_b), 4)
    got = run(a, b, scale_a=scale_a, scale_b=scale_b, schedule=schedule)
    want = scaled(a, b, 1.0 if scale_a is None else scale_a, 1.0 if scale_b is None else scale_b)
    assert same(got, want)


LINES = (
    "tile = (128,128,128)",
    "tile = (64,64,128), overlap = yes, unroll = 2",
    "tile = (128,24,128), swap_ab = yes",
    "tile = (128,40,128), swap_ab = yes, overlap = yes, unroll = 2, stages = 2",
    "tile = (128,64,128), cluster = (2,1), stages = 1",
    "tile = (256,128,128), epilogue = smem, stages = 2",
    "tile = (64,64,128), split_k = 2, reduction = cluster",
)


@pytest.mark.some(4)
@pytest.mark.parametrize("m", [132, 130])
@pytest.mark.parametrize("schedule", LINES)
def test_lines_of_scales_come_in_rings(schedule, m):
    """TMA brings the scales of a step's rows, which lie one behind the other, where lines are a
    multiple of 16 bytes apart; threads load others a step ahead.
    """
    a, b = operands((m, 200, 912))
    scale_a, scale_b = in_columns(powers((m, 8), 3)), in_columns(powers((8, 2), 4))
    options = {"scale_a": scale_a, "scale_b": scale_b, "schedule": schedule, "arch": "sm_90a"}
    kernel = cute.gemm.compile(a, b, out_dtype="f32", **options)
    rings = kernel.stages["cute-partition"].count("%sscale_")
    assert (rings > 0) == (m % 4 == 0)
    assert same(run(a, b, out_dtype="f32", **options), scaled(a, b, scale_a, scale_b))


@pytest.mark.parametrize("dtype", [np.float16, np.int8, np.float32])
def test_blocks_of_other_types(dtype):
    a, b = operands((72, 136, 300), (dtype, dtype))
    scale_a, scale_b = powers((72, 3), 3), powers((3, 2), 4)
    got = run(
        *(a, b), scale_a=scale_a, scale_b=scale_b, out_dtype="f32", schedule="tile = (64,64,128)"
    )
    assert same(got, scaled(a, b, scale_a, scale_b))


@pytest.mark.parametrize("arch", ["sm_80", "sm_89"])
def test_blocks_without_warpgroups(arch):
    dtype = np.float16 if arch == "sm_80" else E4M3
    a, b = operands((72, 136, 300), (dtype, dtype))
    scale_a, scale_b = powers((72, 3), 3), powers((3, 2), 4)
    got = run(
        *(a, b),
        arch=arch,
        scale_a=scale_a,
        scale_b=scale_b,
        out_dtype="f32",
        schedule="tile = (64,64,128), warps = (2,2), stages = 2",
    )
    assert same(got, scaled(a, b, scale_a, scale_b))


def test_scales_of_weights_lie_as_the_weights():
    """b is a view of weights (N, K), its scales one of (N / 128, K / 128); a's are column-major."""
    a = integers((72, 256), seed=1)
    weights, scale = integers((264, 256), seed=2), powers((3, 2), 4)
    scale_a = in_columns(powers((72, 2), 3))
    got = run(a, weights.T, scale_a=scale_a, scale_b=scale.T)
    assert same(got, scaled(a, weights.T, scale_a, scale.T))


def test_one_kernel_serves_all_sizes():
    """Run-time extents: block scales of rows of a and of squares of b."""
    kernel = cute.compile(
        cute.gemm,
        cute.TensorSpec((None, None), "e4m3"),
        cute.TensorSpec((None, None), "e4m3", strides=(1, None)),
        scale_a=cute.TensorSpec((None, None), "f32", align=4),
        scale_b=cute.TensorSpec((None, None), "f32", strides=(1, None), align=4),
        out_dtype="bf16",
        arch="sm_90a",
        schedule=SMALL,
        backend="emulator",
    )
    for m, n, k in ((64, 64, 128), (80, 144, 304)):
        a, b = operands((m, n, k))
        blocks = -(-k // BLOCK)
        scale_a, scale_b = powers((m, blocks), 3), in_columns(powers((blocks, -(-n // BLOCK)), 4))
        out = np.empty((m, n), BF16)
        kernel.launch(a, b, out, 1.0, scale_a, scale_b)
        assert same(out, scaled(a, b, scale_a, scale_b))


def test_scales_of_a_batch():
    a, b = integers((3, 72, 256), seed=1), in_columns(integers((3, 256, 72), seed=2))
    scale_a, scale_b = powers((3, 72, 2), 3), powers((2, 1), 4)
    got = run(a, b, scale_a=scale_a, scale_b=scale_b)
    want = np.stack([scaled(a[i], b[i], scale_a[i], scale_b) for i in range(3)])
    assert same(got, want)


@pytest.mark.some(2)
@pytest.mark.parametrize(("cluster", "stages"), [("(2,1)", 1), ("(1,2)", 2), ("(2,1)", 4)])
def test_rings_and_clusters(cluster, stages):
    """Trips 1, S - 1, S, S + 1, 2 S + 1 of a ring of S stages, whose sums are promoted."""
    for trips in sorted({1, stages - 1, stages, stages + 1, 2 * stages + 1} - {0}):
        a, b = operands((72, 72, BLOCK * trips))
        scale_a, scale_b = powers((72, trips), 3), powers((trips, 1), 4)
        schedule = f"tile = (64,64,128), stages = {stages}, cluster = {cluster}"
        got = run(a, b, scale_a=scale_a, scale_b=scale_b, schedule=schedule)
        assert same(got, scaled(a, b, scale_a, scale_b)), trips


def test_epilogue_of_scaled_sums():
    a, b = operands((72, 136, 256))
    scale_a, scale_b = powers((72, 2), 3), powers((2, 2), 4)
    c, bias = integers((72, 136), np.float32, 5), integers(136, np.float16, 6)
    aux = np.empty((72, 136), np.float32)
    got = run(
        *(a, b),
        scale_a=scale_a,
        scale_b=scale_b,
        alpha=2.0,
        c=c,
        beta=-1.0,
        bias=bias,
        activation="relu",
        aux=aux,
    )
    want = 2 * scaled(a, b, scale_a, scale_b) - wide(c) + wide(bias)
    assert same(aux, want)
    assert same(got, np.maximum(want, 0))


def test_results_of_8_bits_with_their_own_scale():
    """The factor that quantizes a result is one of alpha."""
    a, b = operands((72, 136, 256))
    got = run(a, b, scale_a=0.5, scale_b=np.array([0.25], "f4"), alpha=2.0, out_dtype="e4m3")
    assert same(got, np.clip(wide(a) @ wide(b) / 4, -448, 448))


def test_fast_sums_keep_fewer_bits_than_promoted_ones():
    """A sum of 2^20 swallows ones in the tensor cores, which keep 13 bits below the largest addend;
    promoted, the ones of later blocks of 128 are summed apart and added in f32.
    """
    a, b = np.zeros((64, 4 * BLOCK), E4M3), np.zeros((4 * BLOCK, 64), E4M3)
    a[:, 0], b[0] = 256.0, 256.0
    a[:, 1], b[1] = 256.0, 256.0
    a[:, BLOCK:], b[BLOCK:] = 1.0, 1.0
    exact = 2 * 256.0 * 256.0 + 3 * BLOCK
    fast = run(a, in_columns(b), out_dtype="f32")
    promoted = run(a, in_columns(b), out_dtype="f32", fast_accum=False)
    assert np.all(promoted == exact)
    assert np.all(fast < exact)


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("options", "is_exact"),
    [
        ({}, True),
        ({"fast_accum": False}, True),
        ({"schedule": "tile = (64,128,128), stages = 2"}, False),
    ],
    ids=["default", "promoted", "large tile"],
)
def test_long_sums_of_small_tiles_are_promoted(options, is_exact):
    """By default the error of few rows with a long K is that of a result in bf16, though all of K
    in the tensor cores would lose several times as much.
    """
    rng = np.random.default_rng(3)
    a, b = (rng.standard_normal(shape).astype(E4M3) for shape in ((16, 7168), (7168, 40)))
    got = run(a, in_columns(b), arch="sm_90a", **options)
    exact = a.astype("f8") @ b.astype("f8")
    found = np.abs(got.astype("f8") - exact).max()
    rounded = np.abs((wide(a) @ wide(b)).astype(BF16).astype("f8") - exact).max()
    assert (found <= 2 * rounded) == is_exact


@pytest.mark.some(2)
@pytest.mark.parametrize("scales", ["none", "one", "rows", "blocks"])
def test_random_error_is_that_of_the_precision(scales):
    """At most twice the error of numpy's f32 from operands of the same precision."""
    rng = np.random.default_rng(7)
    a, b = rng.standard_normal((128, 640)), rng.standard_normal((640, 128))
    shapes = {
        "none": ((1, 1), (1, 1)),
        "one": ((1, 1), (1, 1)),
        "rows": ((128, 1), (1, 128)),
        "blocks": ((128, 5), (5, 1)),
    }[scales]
    scale_a, scale_b = (rng.uniform(0.5, 2, shape).astype(np.float32) for shape in shapes)
    given = {} if scales == "none" else {"scale_a": scale_a, "scale_b": scale_b}
    if scales == "none":
        scale_a, scale_b = (np.ones((1, 1), np.float32) for _ in range(2))
    a, b = a.astype(E4M3), in_columns(b).astype(E4M3)
    want = scaled(a, b, scale_a, scale_b)
    reference = (a.astype(np.float32) * spread(scale_a, a.shape)) @ (
        b.astype(np.float32) * spread(scale_b, b.shape)
    )
    for out, dtype in (("bf16", BF16), ("f32", np.float32)):
        got = run(a, b, out_dtype=out, fast_accum=False, **given)
        bound = 2 * np.abs(wide(reference.astype(dtype)) - want).max()
        # Within a block of 128 tensor cores keep 13 bits of the sum so far, four times.
        slack = np.abs(want).max() * 2.0**-11 if out == "f32" else 0.0
        assert np.abs(wide(got) - want).max() <= bound + slack


def test_empty_output_launches_nothing():
    a, b = np.empty((0, 256), E4M3), np.empty((256, 64), E4M3)
    got = run(a, b, scale_a=np.empty((0, 2), "f4"), scale_b=np.ones((2, 1), "f4"))
    assert got.shape == (0, 64)


F4 = np.float32
BAD = {
    "shape of a": ({"scale_a": np.ones((3, 2), F4)}, ValueError, r"scale_a: .*\(64, 2\)"),
    "shape of b": ({"scale_b": np.ones((2, 5), F4)}, ValueError, r"scale_b: .*\(2, 2\)"),
    "vector": ({"scale_b": np.ones(63, F4)}, ValueError, r"scale_b: .*\(256,\)"),
    "type": ({"scale_a": np.ones(64)}, TypeError, "scale_a: expected f32"),
    "no array": ({"scale_a": "1"}, TypeError, "scale_a: expected an array"),
    "integers": (
        {"scale_a": np.ones(1, F4), "out_dtype": "i32"},
        TypeError,
        "out_dtype: expected a float type with scales",
    ),
    "tile": (
        {"scale_b": np.ones((2, 2), F4), "schedule": "tile = (64,192,128)"},
        ValueError,
        "schedule: expected a tile whose columns divide 128",
    ),
    "depth": (
        {"fast_accum": False, "schedule": "tile = (64,64,256)"},
        ValueError,
        "schedule: expected a tile whose depth divide 128",
    ),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_names_the_argument(case):
    options, kind, message = BAD[case]
    with pytest.raises(kind, match=message):
        run(*operands((64, 256, 256)), **options)


M, N, K = 8192, 7168, 4096


def spec(*shape, dtype="f32", columns=False):
    return cute.TensorSpec(shape, dtype, strides=(1, None) if columns else None)


ASSEMBLED = {
    "promoted": {"fast_accum": False},
    "one": {"scale_a": spec(1), "scale_b": spec(1)},
    "rows": {"scale_a": spec(M, 1), "scale_b": spec(1, N)},
    "rows promoted": {"scale_a": spec(M, 1), "scale_b": spec(1, N), "fast_accum": False},
    "blocks": {"scale_a": spec(M, K // 128), "scale_b": spec(K // 128, N // 128, columns=True)},
    "squares": {
        "scale_a": spec(M // 128, K // 128),
        "scale_b": spec(K // 128, N // 128, columns=True),
        "bias": spec(N),
        "activation": "gelu",
        "aux": spec(M, N, dtype="bf16"),
    },
}


@pytest.mark.some(6)
@pytest.mark.parametrize("kinds", [("e4m3", "e4m3"), ("e5m2", "e4m3")])
@pytest.mark.parametrize("case", ASSEMBLED)
def test_default_schedule_assembles_with_nothing_lost(case, kinds):
    kernel = cute.compile(
        cute.gemm,
        spec(M, K, dtype=kinds[0]),
        spec(K, N, dtype=kinds[1], columns=True),
        arch="sm_90a",
        backend="emulator",
        **ASSEMBLED[case],
    )
    assert "stmatrix" in kernel.ptx
    assert "st.global" not in kernel.ptx
    if kernel.ptx.count("wgmma.wait_group") == 1:
        # The sums of a block start anew in its first multiply: nothing sets them to zero, but the
        # three scales of the next block that a thread takes, which may lie behind the last one.
        loop = kernel.ptx[kernel.ptx.index("pipeline.consumer_wait") :]
        assert loop[: loop.index("wgmma.wait_group")].count("0f00000000") <= 3
    if ptxas.candidates():
        assembly = ptxas.assemble(kernel.ptx, "sm_90a")
        assert [message for message in assembly.messages if message.is_loss] == []
        assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)


def test_order_of_a_step_with_block_scales():
    """Scales are on their way before a step waits for its operands; these are free again as soon as
    the tensor cores are done; then the sums are scaled and added.
    """
    kernel = cute.compile(
        cute.gemm,
        spec(M, K, dtype="e4m3"),
        spec(K, N, dtype="e4m3", columns=True),
        arch="sm_90a",
        backend="emulator",
        **ASSEMBLED["blocks"],
    )
    text = kernel.stages["cute-synchronize"]
    loading, computing = text.split('pipeline.role "main"')
    assert "cute.load" not in loading
    step = computing[computing.index("cute.load %scale_a") :]
    order = [
        "cute.load %scale_a",
        "cute.load %scale_b",
        "pipeline.consumer_wait",
        "cute_nvgpu.wgmma_fence",
        "cute.gemm",
        "cute_nvgpu.wgmma_commit",
        "cute_nvgpu.wgmma_wait {pending = 0 : i32}",
        "pipeline.consumer_release",
        "math.fma",
    ]
    places = [step.index(each) for each in order]
    assert places == sorted(places)
