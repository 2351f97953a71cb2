"""Any base and any row pitch on sm_90a: the largest power of two up to 16 that divides them chooses
each tensor's copy: TMA, `cp.async`, or `cp.async` of the aligned words around rows, which others
shift into place for the same multiplies, so that no bit of the result depends on it. The result is
stored by TMA or by threads.
"""

from __future__ import annotations

import importlib.util
import itertools
import re
from functools import partial
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas

CLASSES = (16, 8, 4, 2)
TYPES = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "s8": np.int8,
}
SMALL = "tile = (64,16,32), stages = 2"
SHAPE = (72, 40, 80)


def aligned(array, to, odd=0):
    """A copy in rows whose base and pitch are divided by `to` bytes and by no larger power of 2
    below 32; rows lie `odd` times `to` bytes further apart than they have to.
    """
    rows, columns = array.shape
    pitch = -(-columns * array.itemsize // 32) * 32 + (to if to < 32 else 0) + odd * 2 * to
    store = np.zeros(rows * pitch + 64, np.uint8)
    start = -store.ctypes.data % 32 + to
    made = store[start : start + rows * pitch].reshape(rows, pitch)
    made = made[:, : columns * array.itemsize].view(array.dtype)
    made[...] = array
    assert made.ctypes.data % (2 * to) == to
    return made


def placed(array, to, major, odd=0):
    """`array` with the last mode contiguous (major T) or the first."""
    return aligned(array, to, odd) if major == "T" else aligned(array.T, to, odd).T


def values(shape, kind, seed):
    dtype = TYPES[kind]
    rng = np.random.default_rng(seed)
    if kind == "s8":
        return rng.integers(-100, 100, shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def operands(kind="f16", shape=SHAPE):
    m, n, k = shape
    return values((m, k), kind, 1), values((k, n), kind, 2)


def small_integers(shape, seed):
    return np.random.default_rng(seed).integers(-3, 4, shape).astype(np.float16)


def run(a, b, **options):
    options.setdefault("schedule", SMALL)
    return cute.gemm(a, b, arch="sm_90a", backend="emulator", **options)


def compiled(a, b, **options):
    options.setdefault("schedule", SMALL)
    return cute.compile(cute.gemm, a, b, arch="sm_90a", backend="emulator", **options)


def bits(array):
    return np.ascontiguousarray(array).view(f"u{array.itemsize}")


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


@pytest.fixture(params=range(2))
def late(request, monkeypatch):
    """Asynchronous copies complete late, each time in another order."""
    monkeypatch.setattr(emulator, "launch", partial(emulator.launch, seed=request.param))


def _pairs():
    """All pairs of classes; of the majors that are seen second, those of one class often."""
    for majors, pair in itertools.product(("TN", "NT"), itertools.product(CLASSES, CLASSES)):
        often = majors == "TN" or pair[0] == pair[1]
        yield pytest.param(majors, pair, marks=() if often else pytest.mark.long)


@pytest.mark.some(7)
@pytest.mark.parametrize(("majors", "classes"), list(_pairs()))
def test_each_operand_has_its_own_copy(majors, classes):
    """One ring, filled in two ways where the operands differ; every value is right."""
    a, b = small_integers((72, 80), 1), small_integers((80, 40), 2)
    a, b = (placed(x, to, major) for x, to, major in zip((a, b), classes, majors, strict=True))
    assert np.array_equal(run(a, b), exact(a, b))
    text = compiled(a, b).ptx
    assert "wgmma.mma_async" in text
    loads = re.findall(r"cp\.async\.bulk\.tensor\.2d\.shared::cluster", text)
    assert len(loads) == classes.count(16)
    for to in (8, 4):
        found = re.search(rf"cp\.async\.ca\.shared\.global \[\S+\], \[\S+\], {to}", text)
        assert (found is not None) == (to in classes)
    assert ("cp.async.cg.shared.global" in text) == (2 in classes)
    assert ("shf.r" in text) == (2 in classes)
    assert text.count("fence.proxy.async.shared::cta") > (classes != (16, 16))


@pytest.mark.some(2)
@pytest.mark.parametrize("kind", TYPES)
def test_no_bit_depends_on_the_operands(kind):
    a, b = operands(kind, (40, 20, 72))
    depth = 16 * 4 // np.dtype(TYPES[kind]).itemsize
    options = {"schedule": f"tile = (64,16,{depth}), stages = 2"}
    want = bits(run(placed(a, 16, "T"), placed(b, 16, "N"), **options))
    least = np.dtype(TYPES[kind]).itemsize
    pairs = [(8, 16), (16, 4), (2, 8), (2, 2), (1, 1)]
    for x, y in pairs:
        if min(x, y) >= least:
            got = run(placed(a, x, "T", 1), placed(b, y, "N", 3), **options)
            assert np.array_equal(bits(got), want), (x, y)


def test_ties_are_rounded_to_tf32_alike():
    """f32 halfway between two values of tf32, as both TMA and threads round them."""
    words = np.arange(64 * 32, dtype=np.uint32).reshape(64, 32) * 0x1000 + 0x3F800000
    a, b = words.view(np.float32), values((32, 16), "f32", 5)
    options = {"schedule": "tile = (64,16,32)"}
    want = run(placed(a, 16, "T"), placed(b, 16, "N"), **options)
    for to in (8, 4):
        got = run(placed(a, to, "T"), placed(b, to, "N"), **options)
        assert np.array_equal(bits(got), bits(want))


@pytest.mark.some(6)
@pytest.mark.parametrize("offset", [2, 4, 8, 16])
@pytest.mark.parametrize("pitch", [81, 84, 88])
def test_no_bit_depends_on_offset_and_pitch(offset, pitch):
    a, b = operands()
    want = bits(run(a, np.ascontiguousarray(b.T).T))
    store = np.zeros(80 * pitch + 64, np.float16)
    start = (-store.ctypes.data % 32 + offset) // 2
    moved = store[start : start + 72 * pitch].reshape(72, pitch)[:, :80]
    moved[...] = a
    assert np.array_equal(bits(run(moved, np.ascontiguousarray(b.T).T)), want)


@pytest.mark.some(6)
@pytest.mark.parametrize("loads", [16, 2])
@pytest.mark.parametrize("to", CLASSES)
@pytest.mark.parametrize("major", ["T", "N"])
def test_the_store_follows_the_result_alone(major, to, loads):
    a, b = operands()
    want = bits(run(a, b))
    a, b = placed(a, loads, "T"), placed(b, loads, "T")
    store = np.full((76, 48), 9, np.float16)
    out = placed(store, to, major)[:72, :40]
    run(a, b, out=out)
    assert np.array_equal(bits(out), want)
    whole = out.base.view(np.uint8)
    assert whole is not None
    text = compiled(a, b, out=out).ptx
    assert ("cp.async.bulk.tensor.2d.global" in text) == (to == 16)
    assert ("cp.async.bulk.tensor.2d.shared" in text) == (loads == 16)


def test_nothing_beside_the_result_is_written():
    a, b = operands()
    for to in CLASSES:
        store = aligned(np.full((76, 48), 9, np.float16), to)
        out = store[:72, :40]
        run(placed(a, to, "T"), placed(b, to, "N"), out=out)
        out[...] = 9
        assert np.all(store == 9)


MIXED = [(8, 8), (4, 16), (16, 2)]


@pytest.mark.some(3)
@pytest.mark.parametrize("classes", MIXED)
@pytest.mark.parametrize("stages", [1, 3])
def test_trip_counts(stages, classes):
    """Trips 0, 1, S-1, S, S+1, 2S+1 of a ring of S stages, whole and ragged in k."""
    x, y = classes
    for trips in sorted({0, 1, stages - 1, stages, stages + 1, 2 * stages + 1}):
        for depth in {16 * trips, max(0, 16 * trips - 3)}:
            a, b = small_integers((66, depth), 1), small_integers((depth, 20), 2)
            a, b = placed(a, x, "T"), placed(b, y, "N")
            got = run(a, b, schedule=f"tile = (64,16,16), stages = {stages}")
            assert np.array_equal(got, exact(a, b)), (trips, depth)


@pytest.mark.some(9)
@pytest.mark.parametrize("classes", MIXED)
@pytest.mark.parametrize(
    "schedule", ["stages = 3", "stages = 1", "stages = 2, cluster = (2,1)", "warps = (4,2)"]
)
def test_when_copies_are_late(schedule, classes, late):
    x, y = classes
    a, b = small_integers((70, 70), 1), small_integers((70, 45), 2)
    a, b = placed(a, x, "T"), placed(b, y, "N")
    got = run(a, b, schedule=f"tile = (64,32,32), {schedule}")
    assert np.array_equal(got, exact(a, b))


@pytest.mark.some(3)
@pytest.mark.parametrize("classes", [(16, 4), (2, 16), (8, 2)])
@pytest.mark.parametrize("cluster", ["(1,2)", "(2,2)"])
def test_clusters_share_what_tma_loads(cluster, classes):
    x, y = classes
    a, b = small_integers((200, 70), 1), small_integers((70, 90), 2)
    a, b = placed(a, x, "T"), placed(b, y, "N")
    schedule = f"tile = (64,32,32), stages = 2, cluster = {cluster}"
    assert np.array_equal(run(a, b, schedule=schedule), exact(a, b))
    shared = ("multicast::cluster" in compiled(a, b, schedule=schedule).ptx, cluster)
    # CTAs along N share A, those along M share B.
    assert shared[0] == ((x == 16 and cluster[3] == "2") or (y == 16 and cluster[1] == "2"))


@pytest.mark.some(4)
@pytest.mark.parametrize("shape", [(1, 1, 1), (65, 63, 33), (7, 130, 41), (129, 7, 31)])
@pytest.mark.parametrize("majors", ["TT", "NN"])
def test_ragged_sizes(majors, shape):
    """Sizes give the pitch, and so the class of each tensor."""
    m, n, k = shape
    a, b = small_integers((m, k), 1), small_integers((k, n), 2)
    a, b = (
        np.ascontiguousarray(x) if major == "T" else np.ascontiguousarray(x.T).T
        for x, major in zip((a, b), majors, strict=True)
    )
    assert np.array_equal(run(a, b, schedule="tile = (64,32,32)"), exact(a, b))
    assert np.array_equal(run(a, b, schedule=None), exact(a, b))


@pytest.mark.parametrize("kind", ["f16", "s8"])
def test_neither_mode_contiguous(kind):
    a = values((64, 128), kind, 3)[:, ::2]
    b = values((128, 64), kind, 4).T[::2, ::2]
    a, b = a[:, :32], b[:32]
    text = compiled(a, b, schedule="tile = (64,32,32)").ptx
    assert "wgmma.mma_async" in text
    packed = run(np.ascontiguousarray(a), np.ascontiguousarray(b.T).T, schedule="tile = (64,32,32)")
    assert np.array_equal(bits(run(a, b, schedule="tile = (64,32,32)")), bits(packed))


@pytest.mark.parametrize("to", [8, 2])
def test_batches(to):
    a = np.stack([small_integers((66, 36), seed) for seed in (1, 2, 3)])
    flat = aligned(a.reshape(-1, 36), to)
    strided = np.lib.stride_tricks.as_strided(flat, a.shape, (66 * flat.strides[0], *flat.strides))
    b = small_integers((36, 40), 4)
    assert np.array_equal(run(strided, b), exact(a, b))


@pytest.mark.parametrize("to", CLASSES)
def test_no_depth_and_no_output(to):
    a, b, c = (
        np.empty((66, 0), np.float16),
        np.empty((0, 40), np.float16),
        values((66, 40), "f16", 7),
    )
    c = aligned(c, to)
    assert np.array_equal(run(a, b, c=c, beta=2.0), 2 * c)
    assert run(aligned(values((8, 20), "f16", 8), to)[:0], small_integers((20, 40), 9)).size == 0


def gated_mlp():
    path = Path(__file__).parents[2] / "examples" / "gated_mlp.py"
    spec = importlib.util.spec_from_file_location("example_gated_mlp_of_any_class", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.gated_mlp


@pytest.mark.some(2)
@pytest.mark.parametrize("classes", [(8, 16, 16), (16, 4, 2), (2, 16, 8)])
def test_three_operands_of_three_classes(classes):
    """A program with two multiplies: one ring of what TMA brings, others of what is shifted."""
    program = gated_mlp()
    x, w1, w2 = values((72, 80), "f16", 1), *(values((80, 40), "f16", seed) for seed in (2, 3))
    results = []
    for to in ((16, 16, 16), classes):
        given = placed(x, to[0], "T"), placed(w1, to[1], "N"), placed(w2, to[2], "N")
        y = np.full((72, 40), np.nan, np.float16)
        kernel = cute.compile(
            program, *given, y, arch="sm_90a", backend="emulator", tile=(64, 16, 32)
        )
        kernel.launch(*given, y)
        results.append((bits(y), kernel.stages["cute-synchronize"].count("pipeline.create")))
    (by_tma, rings), (shifted, more) = results
    assert np.array_equal(by_tma, shifted)
    assert rings == 1
    assert (more > 1) == (2 in classes)


# (instruction, classes, codes of faults that may be found first)
FAULTS = {
    "no fence by readers": (r"fence\.proxy\.async\.shared::cta;", (8, 8), {"CD-A1", "CD-A2"}),
    "no fence by writers": (r"fence\.proxy\.async\.shared::cta;", (2, 2), {"CD-A1", "CD-A2"}),
    "no arrival of copies": (
        r"cp\.async\.mbarrier\.arrive\.noinc\.\S+ \[[^]]*\];", (8, 8), {"CD-HANG"}
    ),
    "stages are not waited for": (
        r"mbarrier\.try_wait\.parity\.\S+ (%\w+), [^;]*;", (8, 8), {"CD-I5", "CD-I9"}
    ),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_missing_instruction_is_found(fault, monkeypatch):
    pattern, (x, y), codes = FAULTS[fault]
    original = emulator.launch

    def launch(ptx, *arguments):
        # What a try_wait would set is set all the same: it has passed.
        replacement = r"setp.eq.s32 \1, 0, 0;" if "try_wait" in pattern else ""
        changed, count = re.subn(pattern, replacement, ptx)
        assert count
        return original(changed, *arguments)

    monkeypatch.setattr(emulator, "launch", launch)
    a, b = operands()
    with pytest.raises(emulator.EmulatorError) as caught:
        run(placed(a, x, "T"), placed(b, y, "N"), schedule="tile = (64,16,32), epilogue = direct")
    assert caught.value.code in codes, caught.value


LARGE = [
    *(("f16", 16, 8), ("f16", 2, 2), ("f32", 4, 4), ("i8", 1, 1)),
    *(pytest.param(*case, marks=pytest.mark.long) for case in [("f16", 4, 4), ("i8", 4, 8)]),
]


@pytest.mark.some(2)
@pytest.mark.parametrize(("kind", "x", "y"), LARGE)
def test_large_tiles_assemble_without_a_loss(kind, x, y):
    """The default schedule of a large problem: threads that copy have the registers for it."""
    a = cute.TensorSpec((4096, 4096), kind, (None, 1), x)
    b = cute.TensorSpec((4096, 4096), kind, (1, None), y)
    kernel = compiled(a, b, schedule=None)
    assert "wgmma.mma_async" in kernel.ptx
    if ptxas.candidates():
        assembly = ptxas.assemble(kernel.ptx, "sm_90a")
        assert [message for message in assembly.messages if message.is_loss] == []
        assert (assembly.spill_stores, assembly.spill_loads, assembly.stack) == (0, 0, 0)
