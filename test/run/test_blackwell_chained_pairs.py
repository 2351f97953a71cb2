"""Two multiplies by CTA pairs on sm_100a, the first one's result A of the second: each CTA computes
and writes its own rows of A, to tensor or shared memory, and the even one multiplies for both.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
STAGES = 3
# Of a ring with so many stages: none, one, around a full ring, and around it twice.
TRIPS = (0, 1, 2, 3, 4, 7)
EMULATED: Any = {"arch": "sm_100a", "backend": "emulator"}
PLANS = {
    "specialized": (64, 64, "tile = (128,64), roles = specialized"),
    "corrected": (32, 64, "tile = (128,64), roles = corrected"),
    "split": (64, 64, "tile = (256,64), roles = split"),
    "over scores": (64, 64, "tile = (256,128), roles = split"),
    "256": (256, 256, "tile = (128,64), roles = corrected"),
    "192 and 128": (192, 128, "tile = (256,64), roles = split"),
}


def normals(rng, *shape, dtype=BF16):
    return rng.standard_normal(shape).astype(dtype)


def attended(q, k, v, causal, window):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    rows, keys = s.shape[-2:]
    behind = np.arange(rows)[:, None] + keys - rows - np.arange(keys)
    seen = (behind >= 0) if causal else (behind == behind)
    seen &= True if window is None else behind <= window
    p = np.exp(np.where(seen, s - s.max(-1, keepdims=True, initial=0.0), -np.inf))
    return p @ v / np.maximum(p.sum(-1, keepdims=True), 1e-30)


def check(q, k, v, schedule, causal=False, window=None):
    given = {"window": (window, 0)} if window is not None else {"causal": causal}
    found = cute.attention(q, k, v, schedule=schedule, **given, **EMULATED)
    want = attended(q, k, v, causal or window is not None, window)
    assert np.abs(found.astype(np.float64) - want).max() < 0.02


@pytest.mark.long
@pytest.mark.parametrize("plan", PLANS)
def test_trips_around_the_stages_of_the_rings(plan):
    """Of whole blocks and of ragged ones; the second CTA of a pair has all rows of a tile, some, or
    none.
    """
    depth, columns, tile = PLANS[plan]
    rows, block = (int(each) for each in re.findall(r"\d+", tile)[:2])
    schedule, rng = f"{tile}, cluster = (2,1), stages = {STAGES}", np.random.default_rng(0)
    if plan == "256":
        schedule = schedule.replace(f"stages = {STAGES}", "stages = 2")
    for trips, count in zip(
        TRIPS, (2 * rows, rows - 3, rows + 5, 3 * rows, 1, 2 * rows), strict=True
    ):
        keys = max(0, block * trips - int(rng.integers(0, block)) * (trips % 2))
        q, k, v = (
            normals(rng, 1, 1, n, wide)
            for n, wide in ((count, depth), (keys, depth), (keys, columns))
        )
        check(q, k, v, schedule)


@pytest.mark.long
@pytest.mark.parametrize("window", [None, 100])
@pytest.mark.parametrize("plan", PLANS)
def test_trips_below_a_mask(plan, window):
    """Both CTAs compute what one of them sees: the second one has more keys, or no tile."""
    depth, columns, tile = PLANS[plan]
    rows, block = (int(each) for each in re.findall(r"\d+", tile)[:2])
    of_each = (2 * rows, 2 * rows), (3 * rows - 7, 3 * rows), (rows + 9, 40), (rows, 7 * block)
    for count, keys in of_each:
        rng = np.random.default_rng(count)
        q, k, v = (
            normals(rng, 1, 1, n, wide)
            for n, wide in ((count, depth), (keys, depth), (keys, columns))
        )
        check(q, k, v, f"{tile}, cluster = (2,1)", causal=True, window=window)


@pytest.mark.some(1)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("plan", ["specialized", "over scores"])
def test_half_of_each_block_of_keys_is_in_each_cta(plan, causal):
    depth, _, tile = PLANS[plan]
    q = cute.TensorSpec((1, 1, None, depth), "bf16")
    kernels = [
        cute.compile(
            cute.attention, q, q, q, causal=causal, schedule=f"{tile}, cluster = {each}", **EMULATED
        )
        for each in ("(1,1)", "(2,1)")
    ]
    assert "tcgen05.mma.cta_group::1" in kernels[0].ptx
    assert set(re.findall(r"tcgen05\.mma\.cta_group::\d", kernels[1].ptx)) == {
        "tcgen05.mma.cta_group::2"
    }
    alone, paired = (cute.Schedule.parse(kernel.schedule).stages or 0 for kernel in kernels)
    assert paired > alone
    assert not any("pair" in each.message for each in kernels[1].remarks)


def squares(element=np.float16, rows=256, columns=64):
    """(program, its arguments, result, what it should be) of (A B^T)^2 C^T, block by block."""

    @cute.kernel
    def kernel(A, B, C, Y):
        m, _ = cute.tile_index(Y, (128, columns))
        a = cute.local_tile(A, (128, 64), (m, 0))
        b, c = cute.local_tile(B, (64, 64), (None, 0)), cute.local_tile(C, (columns, 64), (0, None))
        y = cute.zeros((128, columns))
        for j in cute.range(b.tiles):
            s = cute.zeros((128, 64))
            cute.gemm(a, b[j].T, s)
            cute.gemm((s * s).to(C.dtype), c[j].T, y)
        cute.copy(y, cute.local_tile(Y, (128, columns), (m, 0)))

    rng = np.random.default_rng(columns)
    a, b, c = (
        rng.integers(-1, 2, shape).astype(np.float32)
        for shape in ((rows, 64), (256, 64), (columns, 256))
    )
    a[:, 4:] = 0  # so that squares are exact in 8 bits
    y, want = np.zeros((rows, columns), np.float32), (a @ b.T) ** 2 @ c.T
    return kernel, [each.astype(element) for each in (a, b, c)], y, want


@pytest.mark.some(2)
@pytest.mark.parametrize("rows", [256, 130, 384])
@pytest.mark.parametrize("columns", [32, 64, 48])
@pytest.mark.parametrize("element", [np.float16, E4M3])
def test_a_program_of_two_multiplies(element, columns, rows):
    """Elements of 8 bits, and products of columns that are no multiple of 32, take A from shared
    memory.
    """
    kernel, args, y, want = squares(element, rows, columns)
    schedule = "cluster = (2,1), stages = 2"
    kernel(*args, y, schedule=schedule, **EMULATED)
    np.testing.assert_array_equal(y, want)
    ptx = cute.compile(kernel, *args, y, schedule=schedule, **EMULATED).ptx
    first = re.findall(r"tcgen05\.mma\.cta_group::2\S* \[\S+\], (\[?)", ptx)
    assert first
    assert ("[" in first) == (element is np.float16 and columns % 32 == 0)


def lower(is_bounded=True):
    """(A, which is 0 above its diagonal) B: no CTA multiplies what lies behind both tiles."""

    @cute.kernel
    def kernel(A, B, Y):
        m, n = cute.tile_index(Y, (128, 64))
        a, b = cute.local_tile(A, (128, 64), (m, None)), cute.local_tile(B, (64, 64), (None, n))
        y, end = cute.zeros((128, 64)), cute.minimum((m + 1) * 2, a.tiles)
        for k in cute.range(cute.cluster_max(end) if is_bounded else end):
            cute.gemm(a[k], b[k], y)
        cute.copy(y, cute.local_tile(Y, (128, 64), (m, n)))

    return kernel


@pytest.mark.parametrize("rows", [128, 384, 500])
def test_a_loop_that_is_as_long_as_the_longest_of_a_pair(rows):
    rng = np.random.default_rng(rows)
    a = np.tril(rng.integers(-2, 3, (rows, rows // 8 * 8))).astype(np.float16)
    b = rng.integers(-2, 3, (a.shape[1], 64)).astype(np.float16)
    y = np.zeros((rows, 64), np.float32)
    lower()(a, b, y, schedule="cluster = (2,1)", **EMULATED)
    np.testing.assert_array_equal(y, a.astype(np.float64) @ b)


def test_loops_that_differ_keep_ctas_apart():
    specs = [cute.TensorSpec((512, 512), "f16")] * 2 + [cute.TensorSpec((512, 512), "f32")]
    for is_bounded in (True, False):
        kernel = cute.compile(lower(is_bounded), *specs, arch="sm_100a", schedule="cluster = (2,1)")
        differ = [each for each in kernel.remarks if "control around it differs" in each.message]
        assert bool(differ) != is_bounded
        assert ("tcgen05.mma.cta_group::2" in kernel.ptx) == is_bounded
    hopper = cute.compile(lower(), *specs, arch="sm_90a", schedule="cluster = (2,1)")
    assert "multicast::cluster" in hopper.ptx


def test_a_bound_follows_from_coordinates():
    """Through numbers of tensors, too, but not through tiles."""

    def kernel_of(end):
        @cute.kernel
        def kernel(A, N, Y):
            m, n = cute.tile_index(Y, (128, 64))
            a, b = (cute.local_tile(A, (wide, 64), (at, None)) for wide, at in ((128, m), (64, n)))
            y = cute.zeros((128, 64))
            for k in cute.range(cute.cluster_max(end(a, N, m))):
                cute.gemm(a[k], b[k].T, y)
            cute.copy(y, cute.local_tile(Y, (128, 64), (m, n)))

        return kernel

    a, y = np.zeros((256, 64), np.float16), np.ones((256, 256), np.float32)
    given: Any = {"schedule": "cluster = (2,1)", **EMULATED}
    a[200, :] = 1
    kernel = kernel_of(lambda _, N, m: cute.search(lambda s: N[s] + m, 3, 3))
    kernel(a, np.array([0, 3, 9], np.int32), y, **given)
    np.testing.assert_array_equal(y, a.astype(np.float64) @ a.T.astype(np.float64))
    some = kernel_of(lambda a, N, m: cute.any(a[0].load() > 0).to(cute.i32))
    with pytest.raises(cute.CompileError, match=r"by arithmetic in cute\.cluster_max"):
        some(a, np.array([0], np.int32), y, **given)


# (what is changed in the PTX, to what, the codes of faults one of which is found)
FAULTS = {
    "no fence in front of the signal of A": (
        r"tcgen05\.fence::before_thread_sync;", "", {"CD-D7"},
    ),
    "no wait for stores": (r"tcgen05\.wait::st\.sync\.aligned;", "", {"CD-D6", "CD-D7"}),
    "operands released in one CTA": (
        r"\.multicast::cluster(\.b64 \[[^]]*\]), %\w+(?=; // ir: \S*consumer_release)", r"\1",
        {"CD-B1"},
    ),
}  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("fault", FAULTS)
def test_what_is_missing_between_the_ctas_is_found(monkeypatch, fault):
    pattern, changed, codes = FAULTS[fault]
    found = faults_of(monkeypatch, lambda ptx: re.subn(pattern, changed, ptx))
    assert found & codes, found


def test_nothing_is_left_to_note(monkeypatch):
    assert faults_of(monkeypatch, lambda ptx: (ptx, 1)) == set()


def faults_of(monkeypatch, change):
    """Codes of the error or the notes with which a changed kernel runs."""
    original, reports = emulator.launch, []

    def launch(ptx, *arguments):
        changed, count = change(ptx)
        assert count
        reports.append(original(changed, *arguments))
        return reports[-1]

    monkeypatch.setattr(emulator, "launch", launch)
    kernel, args, y, _ = squares()
    try:
        kernel(*args, y, schedule="cluster = (2,1), stages = 2", **EMULATED)
    except emulator.EmulatorError as error:
        return {error.code}
    return {note.split()[0].strip("[]:") for report in reports for note in report.notes}
