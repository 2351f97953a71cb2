"""Tiles that CTAs share along K: exact on integers, in the same bits at every order of events, and
everything behind the product once.
"""

import linecache
import re
from functools import partial

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas

MODES = {
    "split": "split_k = 3",
    "atomic": "split_k = 3, reduction = atomic",
    "stream": "scheduler = stream",
    "atomic stream": "scheduler = stream, reduction = atomic",
}
TILES = {"sm_80": "tile = (64,64,32)", "sm_90a": "tile = (64,64,64), stages = 3"}


def integers(shape, dtype=np.float16, seed=0):
    return np.random.default_rng(seed).integers(-2, 3, shape).astype(dtype)


def operands(m, n, k, dtype=np.float16):
    return integers((m, k), dtype, 1), integers((n, k), dtype, 2).T


def product(a, b):
    return np.matmul(a.astype(np.float64), b.astype(np.float64))


@pytest.mark.some(11)
@pytest.mark.parametrize("arch", TILES)
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("sizes", [(72, 136, 328), (8, 8, 1000), (65, 72, 0)])
def test_sums_are_exact(sizes, mode, arch):
    a, b = operands(*sizes)
    schedule = f"{TILES[arch]}, {MODES[mode]}"
    got = cute.gemm(a, b, out_dtype="f32", arch=arch, schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(got, product(a, b))


@pytest.mark.some(2)
@pytest.mark.parametrize("mode", MODES)
def test_what_follows_the_product_is_done_once(mode):
    a, b = operands(136, 72, 456)
    c, bias = integers((136, 72), np.float16, 3), integers((72,), np.float16, 4)
    aux = np.full((136, 72), np.nan, np.float32)
    got = cute.gemm(
        a, b, c=c, alpha=2.0, beta=-1.0, bias=bias, activation="relu", aux=aux, out_dtype="f32",
        arch="sm_90a", schedule=f"{TILES['sm_90a']}, {MODES[mode]}", backend="emulator",
    )  # fmt: skip
    wanted = 2 * product(a, b) - c + bias
    np.testing.assert_array_equal(aux, wanted)
    np.testing.assert_array_equal(got, np.maximum(wanted, 0))


@pytest.mark.parametrize("arch", TILES)
@pytest.mark.parametrize("mode", ["split", "stream"])
def test_parts_are_kept_in_vectors(mode, arch):
    """Threads keep and take 16 bytes at once, those of a warp next to each other."""
    a, b = (cute.TensorSpec((256, 256), "f16") for _ in range(2))
    kernel = cute.compile(cute.gemm, a, b, arch=arch, schedule=f"{TILES[arch]}, {MODES[mode]}")
    for op in ("ld.global.", "st.global."):
        parts = re.findall(rf"{re.escape(op)}(\S+)\s.*%f", kernel.ptx)
        assert parts
        assert set(parts) == {"v4.b32"}


@pytest.mark.parametrize(("parts", "scheduler"), [(2, "single"), (7, "persistent")])
def test_more_parts_than_steps_and_any_scheduler(parts, scheduler):
    a, b = operands(136, 72, 200)
    schedule = f"{TILES['sm_90a']}, split_k = {parts}, scheduler = {scheduler}"
    got = cute.gemm(a, b, arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(got, product(a, b).astype(np.float16))


@pytest.mark.parametrize(("cluster", "mode"), [("(2,1)", "split"), ("(1,2)", "stream")])
def test_clusters_share_tiles_together(cluster, mode):
    a, b = operands(136, 136, 200)
    schedule = f"{TILES['sm_90a']}, cluster = {cluster}, {MODES[mode]}"
    got = cute.gemm(a, b, out_dtype="f32", arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(got, product(a, b))


@pytest.mark.some(2)
@pytest.mark.parametrize("mode", ["split", "atomic", "stream"])
def test_teams_that_alternate_share_tiles(mode):
    a, b = operands(264, 72, 456)
    schedule = f"{TILES['sm_90a']}, roles = alternate, {MODES[mode]}"
    got = cute.gemm(a, b, out_dtype="f32", arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(got, product(a, b))


@pytest.mark.some(1)
@pytest.mark.parametrize("mode", ["split", "atomic stream"])
def test_integers_and_promoted_sums(mode):
    a, b = integers((72, 400), np.int8, 1), integers((136, 400), np.int8, 2).T
    schedule = f"tile = (64,64,128), {MODES[mode]}"
    got = cute.gemm(a, b, arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(got, product(a, b))
    a, b = (x.astype(np.float32).astype(ml_dtypes.float8_e4m3fn) for x in (a, b))
    got = cute.gemm(
        a, b, fast_accum=False, out_dtype="f32", arch="sm_90a", schedule=schedule,
        backend="emulator",
    )  # fmt: skip
    np.testing.assert_array_equal(got, product(a, b))


def test_batches_groups_and_transposed_products():
    a, b = integers((3, 72, 328)), integers((3, 328, 136), seed=5)
    schedule = f"{TILES['sm_90a']}, split_k = 3, cluster = (2,1)"
    got = cute.gemm(a, b, out_dtype="f32", arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(got, product(a, b))
    a, b = operands(8, 264, 328)
    swapped = "tile = (64,8,64), swap_ab = yes, split_k = 4"
    got = cute.gemm(a, b, arch="sm_90a", schedule=swapped, backend="emulator")
    np.testing.assert_array_equal(got, product(a, b).astype(np.float16))
    pairs = [operands(*sizes) for sizes in [(72, 136, 328), (200, 8, 0), (8, 264, 64)]]
    as_, bs = zip(*pairs, strict=True)
    got = cute.grouped_gemm(
        list(as_), list(bs), out_dtype="f32", arch="sm_90a", schedule=schedule, backend="emulator"
    )
    for result, (a, b) in zip(got, pairs, strict=True):
        np.testing.assert_array_equal(result, product(a, b))


@pytest.mark.some(2)
@pytest.mark.parametrize("mode", ["split", "stream"])
@pytest.mark.parametrize("arch", TILES)
def test_ordered_sums_have_the_same_bits_at_every_order_of_events(mode, arch, monkeypatch):
    rng = np.random.default_rng(0)
    a, b = (rng.standard_normal((72, 520)).astype(np.float16) for _ in range(2))
    launch = emulator.launch
    found = []
    for seed in (0, 1, 2):
        monkeypatch.setattr(emulator, "launch", partial(launch, seed=seed))
        schedule = f"{TILES[arch]}, {MODES[mode]}"
        got = cute.gemm(a, b.T, out_dtype="f32", arch=arch, schedule=schedule, backend="emulator")
        found.append(got.tobytes())
        np.testing.assert_allclose(got, product(a, b.T), rtol=1e-5, atol=1e-4)
    assert len(set(found)) == 1


def test_parts_are_added_in_their_order():
    """One trip each of 2^24, 1, -2^24: only one order of f32 sums gives 0."""
    a = np.zeros((64, 192), np.float32)
    b = np.ones((64, 192), np.float32)
    a[:, 0], a[:, 64], a[:, 128] = 1 << 24, 1, -(1 << 24)
    schedule = "tile = (64,64,64), split_k = 3, roles = uniform"
    a, b = a.astype(ml_dtypes.bfloat16), b.astype(ml_dtypes.bfloat16)
    got = cute.gemm(a, b.T, out_dtype="f32", arch="sm_90a", schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(got, 0)


def test_two_products_in_one_loop_are_shared_together():
    @cute.kernel
    def gated(A, B, C, D):
        m, n = cute.tile_index(D, (64, 64))
        a = cute.local_tile(A, (64, 64), (m, None))
        b, c = (cute.local_tile(X, (64, 64), (None, n)) for X in (B, C))
        one, other = cute.zeros((64, 64)), cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], one)
            cute.gemm(a[k], c[k], other)
        cute.copy((one * other).to(D.dtype), cute.local_tile(D, (64, 64), (m, n)))

    a, b = operands(72, 136, 328)
    c = integers((136, 328), seed=7).T
    wanted = product(a, b) * product(a, c)
    for mode in ("split", "atomic stream"):
        out = np.zeros((72, 136), np.float32)
        schedule = f"stages = 3, {MODES[mode]}"
        gated(a, b, c, out, arch="sm_90a", schedule=schedule, backend="emulator")
        np.testing.assert_array_equal(out, wanted)


@pytest.mark.skipif(not ptxas.candidates(), reason="no ptxas")
@pytest.mark.parametrize("mode", ["split", "stream"])
def test_the_largest_tile_does_not_spill(mode):
    a, b = cute.TensorSpec((None, None), "bf16"), cute.TensorSpec((None, None), "bf16", (1, None))
    schedule = f"tile = (128,256,64), cluster = (2,1), {MODES[mode]}"
    kernel = cute.compile(cute.gemm, a, b, arch="sm_90a", schedule=schedule)
    assert kernel.resources.spills == 0


def tile(tensor, *place):
    return cute.local_tile(tensor, (64, 64), place)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    ("front", "trip", "message"),
    [
        ("", "cute.copy(tile(R, 0, t).load(), tile(Y, m, t))", ""),
        ("cute.copy(tile(R, 0, 0).load(), tile(Y, m, n))", "", ""),
        ("", "cute.atomic_add(tile(R, 0, t).load(), tile(Y, m, n))", ""),
        ("", "cute.copy(tile(R, 0, t).load(), tile(Y, m, n))", "expected a store at another place"),
        ("cute.atomic_add(tile(R, 0, 0).load(), tile(Y, m, n))", "", "expected no atomic in front"),
        ("cute.copy(tile(Y, m, n).load() + 1, tile(Y, m, n))", "", "expected nothing but the"),
        (
            "r = tile(Y, 0, 0).load()",
            "cute.copy(r, tile(Y, m, t))",
            "expected nothing but the store in a loop .* got another access in front of it",
        ),
    ],
)  # fmt: skip
def test_what_each_part_does_in_memory(front, trip, message):
    """CTAs do what stands in front of the loop each, and know nothing of each other's trips."""
    source = (
        "def program(X, W, R, Y, Z):",
        "    m, n = cute.tile_index(Z, (64, 64))",
        "    acc = cute.zeros((64, 64))",
        f"    {front}",
        "    for t in cute.range(3):",
        "        cute.gemm(tile(X, m, t), tile(W, t, n), acc)",
        f"        {trip}",
        "    cute.copy(acc, tile(Z, m, n))",
    )
    file, scope = f"parts_{front}_{trip}.py", {"cute": cute, "tile": tile}
    linecache.cache[file] = (0, None, [line + "\n" for line in source], file)
    exec(compile("\n".join(source), file, "exec"), scope)
    program = cute.kernel(scope["program"])
    x, w, r = integers((64, 192)), integers((192, 64)), integers((64, 192), np.float32)
    given = [x, w, r, np.zeros((64, 192), np.float32), np.zeros((64, 64), np.float32)]
    wanted = [each.copy() for each in given]
    if message:
        with pytest.raises(cute.CompileError, match=message):
            program(*given, arch="sm_80", schedule="split_k = 2", backend="emulator")
        return
    program(*given, arch="sm_80", schedule="split_k = 2", backend="emulator")
    program(*wanted, backend="interpreter")
    for got, want in zip(given, wanted, strict=True):
        np.testing.assert_array_equal(got, want)


def test_only_sums_from_zero_are_shared():
    @cute.kernel
    def from_one(A, B, D):
        m, n = cute.tile_index(D, (64, 64))
        a = cute.local_tile(A, (64, 32), (m, None))
        b = cute.local_tile(B, (32, 64), (None, n))
        acc = cute.full((64, 64), 1.0)
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
        cute.copy(acc.to(D.dtype), cute.local_tile(D, (64, 64), (m, n)))

    @cute.kernel
    def halved(A, B, D):
        m, n = cute.tile_index(D, (64, 64))
        a = cute.local_tile(A, (64, 32), (m, None))
        b = cute.local_tile(B, (32, 64), (None, n))
        acc = cute.zeros((64, 64))
        for k in cute.range(a.tiles):
            cute.gemm(a[k], b[k], acc)
            acc.assign(acc * 0.5)
        cute.copy(acc.to(D.dtype), cute.local_tile(D, (64, 64), (m, n)))

    @cute.kernel
    def copied(A, D):
        m, n = cute.tile_index(D, (64, 64))
        cute.copy(cute.local_tile(A, (64, 64), (m, n)), cute.local_tile(D, (64, 64), (m, n)))

    a, b = operands(64, 64, 64)
    out = np.zeros((64, 64), np.float16)
    for kernel in (from_one, halved):
        with pytest.raises(cute.CompileError, match=r"start from zero .*; take a schedule"):
            kernel(a, b, out, schedule="split_k = 2", backend="emulator")
    with pytest.raises(cute.CompileError, match=r"expected one loop of matrix multiplies .* got 0"):
        copied(a, out, schedule="split_k = 2", backend="emulator")
    with pytest.raises(cute.CompileError, match="expected one tensor for the scheduler stream"):
        cute.grouped_gemm([a], [b], schedule="scheduler = stream", arch="sm_80", backend="emulator")
    with pytest.raises(
        cute.CompileError, match=r"expected split_k = 1 with the scheduler stream, .* 2"
    ):
        cute.gemm(
            a, b, schedule="scheduler = stream, split_k = 2", arch="sm_80", backend="emulator"
        )


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", TILES)
def test_a_tile_of_one_cta_is_not_shared_and_the_next_one_waits_for_its_reads(arch):
    """CTAs that share no tile do not meet to count; copies of the next tile wait for all warps."""
    a, b = operands(157, 41, 146, np.float32)
    b = np.ascontiguousarray(b)
    schedule = "tile = (64,96,16), cluster = (1,2), scheduler = stream, raster = 1"
    schedule = schedule if arch == "sm_90a" else schedule.replace("cluster = (1,2), ", "")
    aux = np.zeros((157, 41), np.float32)
    cute.gemm(a, b, aux=aux, arch=arch, schedule=schedule, backend="emulator")
    np.testing.assert_array_equal(aux, product(a, b))
