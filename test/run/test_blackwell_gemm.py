"""`cute.gemm` for sm_100a on the emulator: one warp loads by TMA, one thread multiplies into tensor
memory, a warpgroup stores what it finds there.
"""

from __future__ import annotations

import re
import subprocess
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator
from cutedialect.backend.runtime import ptxas

E4M3, E5M2, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16
SMALL = "tile = (128,64,64), stages = 3"
KINDS = {
    "f16": (np.float16, np.float16, "f32", 64),
    "bf16": (BF16, BF16, "bf16", 64),
    "tf32": (np.float32, np.float32, "f32", 32),
    "f8": (E4M3, E5M2, "f16", 128),
    "i8": (np.int8, np.uint8, "i32", 128),
}
TARGETS = ("sm_100a", "sm_103a", "sm_100f")


def integers(shape, dtype: Any = np.float16, seed=0):
    low = 0 if dtype is np.uint8 else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(dtype)


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def along(array, is_last):
    """The same values, contiguous along the last mode or along the first."""
    return np.ascontiguousarray(array) if is_last else np.ascontiguousarray(array.T).T


def run(a, b, arch: Any = "sm_100a", **options):
    return cute.gemm(a, b, arch=arch, backend="emulator", **options)


def compiled(a, b, arch: Any = "sm_100a", **options):
    return cute.compile(cute.gemm, a, b, arch=arch, backend="emulator", **options)


def is_exact(shape, **options):
    m, n, k = shape
    a, b = integers((m, k), seed=1), integers((k, n), seed=2)
    got = run(a, b, out_dtype="f32", **options)
    return np.array_equal(got, exact(a, b))


@pytest.mark.some(5)
@pytest.mark.parametrize(
    "majors", ["TN", "NT", *(pytest.param(each, marks=pytest.mark.long) for each in ("TT", "NN"))]
)
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_and_majors(kind, majors):
    first, second, out, depth = KINDS[kind]
    a = along(integers((136, depth + 16), first, 1), majors[0] == "T")
    b = along(integers((depth + 16, 80), second, 2), majors[1] == "T")
    options = {"schedule": f"tile = (128,64,{depth})", "out_dtype": out}
    want = exact(a, b).astype(BF16 if out == "bf16" else np.float64)
    assert np.array_equal(run(a, b, **options).astype(np.float64), want.astype(np.float64))
    assert "tcgen05.mma" in compiled(a, b, **options).ptx


@pytest.mark.some(2)
@pytest.mark.parametrize("schedule", ["cluster = (2,1)", "cluster = (4,2)", "loads = threads"])
def test_words_that_are_contiguous_across_the_depth(schedule):
    """Lines of 128 bytes in which 32 bytes stay together, by TMA or by threads."""
    a = along(integers((512, 72), np.float32, 1), False)
    b = along(integers((72, 128), np.float32, 2), True)
    kernel = compiled(a, b, schedule=f"tile = (128,64,32), {schedule}")
    assert "S<2,5,2>" in kernel.stages["cute-partition"]
    assert ("cp.async.bulk.tensor.2d.shared" in kernel.ptx) == ("cluster" in schedule)
    assert np.array_equal(run(a, b, schedule=f"tile = (128,64,32), {schedule}"), exact(a, b))


def test_a_tile_of_words_that_is_multiplied_in_either_direction():
    """Each direction has a buffer of its own."""

    @cute.kernel
    def both(X, W, V, Y, Z):
        m, _ = cute.tile_index(Y, (128, None))
        x = cute.local_tile(X, (128, 128), (m, 0))
        first, second = cute.zeros((128, 64), cute.f32), cute.zeros((128, 64), cute.f32)
        cute.gemm(x, cute.local_tile(W, (128, 64), (0, 0)), first)
        cute.gemm(x.T, cute.local_tile(V, (128, 64), (m, 0)), second)
        cute.copy(first, cute.local_tile(Y, (128, 64), (m, 0)))
        cute.copy(second, cute.local_tile(Z, (128, 64), (m, 0)))

    x, w = integers((128, 128), np.float32, 1), integers((128, 64), np.float32, 2)
    v, y, z = (
        integers((128, 64), np.float32, 3),
        np.zeros((128, 64), "f4"),
        np.zeros((128, 64), "f4"),
    )
    both(x, w, v, y, z, arch="sm_100a", backend="emulator")
    assert np.array_equal(y, exact(x, w))
    assert np.array_equal(z, exact(x.T, v))


@pytest.mark.some(3)
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 7])
def test_trips_around_the_stages_of_the_ring(trips):
    """With three stages and an odd rest; two work items for a CTA, or one."""
    for k in {64 * trips, max(0, 64 * trips - 24)}:
        assert is_exact((256, 128, k), schedule=SMALL)


def test_more_work_items_than_accumulators():
    """Three for each CTA: both accumulators are used again, and again with no trip at all; or the
    only one, where tensor memory holds no two.
    """
    a, b = integers((768, 64), seed=1), integers((64, 272), seed=2)
    for schedule in (SMALL, "tile = (256,160,64)"):
        for k in (64, 0):
            got = run(a[:, :k], b[:k], schedule=schedule)
            assert np.array_equal(got.astype(np.float64), exact(a[:, :k], b[:k]))


@pytest.mark.some(2)
@pytest.mark.parametrize("seed", range(4))
def test_ragged_sizes(seed):
    rng = np.random.default_rng(seed)
    m, n, k = (int(rng.integers(1, high)) for high in (300, 200, 150))
    tile = rng.choice(["(128,64,64)", "(64,64,64)", "(256,48,32)", "(128,32,64)"])
    assert is_exact((m, n, k), schedule=f"tile = {tile}"), (m, n, k, tile)


@pytest.mark.some(4)
@pytest.mark.parametrize(
    "schedule",
    [
        "warps = (4,2)",
        "warps = (8,1)",
        "tile = (256,64,64)",
        "tile = (256,64,64), warps = (8,2)",
        "tile = (256,64,64), warps = (4,2)",
        "tile = (64,64,64)",
        "cluster = (2,1)",
        "cluster = (2,2)",
        "split_k = 2",
        "split_k = 3, reduction = atomic",
        "scheduler = stream",
        "scheduler = dynamic",
        "epilogue = direct",
        "epilogue = smem",
        "stages = 1",
    ],
)
def test_schedules(schedule):
    schedule = schedule if "tile" in schedule else f"{schedule}, tile = (128,64,64)"
    kernel = compiled(integers((264, 200)), integers((200, 136)), schedule=schedule)
    assert "tcgen05.mma" in kernel.ptx
    assert "mma.sync" not in kernel.ptx
    assert is_exact((264, 136, 200), schedule=schedule)


def test_wide_results_leave_tensor_memory_a_line_at_a_time():
    """What stays there takes no registers, so that parts need not be narrow."""
    kernel = compiled(integers((256, 64)), integers((64, 256)), schedule="tile = (128,256,64)")
    loads = re.findall(
        r"atom.tmem_load<f32, 16x256b>.*\(128,(\d+)\)", kernel.stages["cute-partition"]
    )
    assert loads == ["64"] * 4


SHARED = {
    "split in order": ("tile = (128,256,64), split_k = 3", np.float16, "f16"),
    "split in memory": ("tile = (256,128,64), split_k = 2, reduction = atomic", np.float16, "f32"),
    "pairs": ("tile = (128,256,64), cluster = (2,1), split_k = 2", np.float16, "f32"),
    "streams of pairs": (
        "tile = (256,256,64), cluster = (2,1), scheduler = stream", np.float16, "f16",
    ),
    "two CTAs on an SM": (
        "tile = (128,96,32), split_k = 2, scheduler = dynamic, ctas = 2", np.float16, "f32",
    ),
    "streams by threads": (
        "tile = (128,192,64), scheduler = stream, loads = threads", np.float16, "f16",
    ),
    "integers": ("tile = (128,256,128), split_k = 2", np.int8, "i32"),
}  # fmt: skip


@pytest.mark.some(1)
@pytest.mark.parametrize("name", SHARED)
def test_wide_tiles_that_ctas_share(name):
    """Sums come back from memory to tensor memory, in as many columns as threads have registers
    for: no spill, and the epilogue reads them there. Without any trip all is 0.
    """
    run_shared(*SHARED[name])


def test_a_tile_that_ctas_share_and_many_warps_write_as_a_whole():
    """What they write is no operand, although it is the accumulator and no part of it."""
    run_shared("tile = (256,32,32), warps = (8,2), split_k = 2", np.int8, "i32")


def run_shared(schedule, dtype, out):
    a, b = integers((136, 144), dtype, 1), integers((144, 136), dtype, 2)
    kernel = compiled(a, b, schedule=schedule, out_dtype=out)
    text = kernel.stages["cute-partition"]
    assert "tmem_store" in text
    for k in (144, 0):
        got = run(a[:, :k], b[:k], schedule=schedule, out_dtype=out)
        assert np.array_equal(got.astype(np.float64), exact(a[:, :k], b[:k]))
    if ptxas.candidates():
        assert kernel.resources.spills == 0


@pytest.mark.some(1)
@pytest.mark.parametrize("seed", range(12))
def test_drawn_tiles_that_ctas_share(seed):
    rng = np.random.default_rng(seed + 50)
    tile = f"({rng.choice([128, 256])},{rng.choice([96, 128, 192, 256])},64)"
    share = rng.choice(["split_k = 2", "split_k = 3", "scheduler = stream"])
    how = rng.choice(["ordered", "atomic"])
    cluster = rng.choice(["(1,1)", "(2,1)", "(2,2)"])
    schedule = f"tile = {tile}, {share}, reduction = {how}, cluster = {cluster}"
    m, n, k = (int(rng.integers(1, high)) for high in (300, 200, 200))
    m, n, k = (8 * -(-each // 8) if rng.random() < 0.7 else each for each in (m, n, k))
    a, b = integers((m, k), seed=1), integers((k, n), seed=2)
    out, bias = rng.choice(["f16", "f32"]), integers(n, np.float32, 3)
    options = {"schedule": schedule, "out_dtype": out, "bias": bias, "activation": "relu"}
    got = run(a, b, **options)
    assert np.array_equal(got.astype(np.float64), np.maximum(exact(a, b) + bias, 0)), schedule
    if ptxas.candidates():
        assert compiled(a, b, **options).resources.spills == 0


def test_default_schedule_and_epilogue():
    a, b = integers((150, 72), seed=1), integers((72, 264), seed=2)
    bias, c = integers(264, seed=3), integers((150, 264), seed=4)
    kept = np.zeros((150, 264), np.float16)
    got = run(a, b, c=c, bias=bias, alpha=2.0, beta=-1.0, activation="relu", aux=kept)
    before = 2 * exact(a, b) - c + bias
    assert np.array_equal(kept.astype(np.float64), before)
    assert np.array_equal(got.astype(np.float64), np.maximum(before, 0))
    assert "tcgen05.mma" in compiled(a, b, c=c, bias=bias, activation="relu").ptx


def test_batches_and_groups():
    a, b = integers((3, 130, 72), seed=1), integers((3, 72, 40), seed=2)
    assert np.array_equal(run(a, b).astype(np.float64), exact(a, b))
    parts = [(a[0], b[0]), (a[1, :20, :64], b[1, :64]), (a[2, :, :0], b[2, :0])]
    left, right = [one for one, _ in parts], [other for _, other in parts]
    got = cute.grouped_gemm(left, right, arch="sm_100a", backend="emulator")
    for each, pair in zip(got, parts, strict=True):
        assert np.array_equal(each.astype(np.float64), exact(*pair))


@pytest.mark.parametrize("dtype", [np.float16, E4M3])
def test_random_data_is_as_near_as_a_sum_in_single_precision(dtype):
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(dtype) for shape in ((128, 512), (512, 64)))
    want, wide = exact(a, b), (a.astype(np.float32), b.astype(np.float32))
    plain = np.zeros((128, 64), np.float32)
    for k in range(512):
        plain += wide[0][:, k : k + 1] * wide[1][k : k + 1]
    got = run(a, b, out_dtype="f32")
    assert np.abs(got - want).max() <= 2 * np.abs(plain - want).max()


@pytest.mark.parametrize(
    ("options", "why"),
    [
        ({"acc_dtype": "f16"}, "accumulators in tensor memory have 32 bits here, got f16"),
        ({"schedule": "tile = (192,64,64)"}, "no shape of it divides the tile 192x64x64"),
        ({"schedule": "tile = (128,24,64)"}, "in shared memory that it reads holds B, 24x64 f16"),
        ({"schedule": "tile = (128,64,64), roles = uniform"}, "from a role that loads"),
    ],
)
def test_what_keeps_tensor_memory_away_is_said(options, why):
    a, b = integers((128, 64), seed=1), integers((64, 48), seed=2)
    kernel = compiled(a, b, **options)
    assert "tcgen05" not in kernel.ptx
    assert any("tcgen05.mma not taken" in each.message and why in each.message
               for each in kernel.remarks), kernel.remarks  # fmt: skip
    assert np.array_equal(run(a, b, **options).astype(np.float64), exact(a, b))


def test_a_tile_that_no_tensor_memory_holds_says_so_where_it_spills():
    """What `mma.sync` does instead has too few registers for a tile of this size."""
    if not ptxas.candidates():
        pytest.skip("needs ptxas")
    a, b = integers((256, 64)), integers((64, 272))
    kernel = compiled(a, b, schedule="tile = (256,272,64)")
    with pytest.raises(cute.CompileError) as refused:
        _ = kernel.cubin
    assert "512 columns of tensor memory, those of the kernel's multiplies 544" in str(
        refused.value
    )


def test_instances_that_alternate_are_refused():
    a, b = integers((128, 64)), integers((64, 64))
    with pytest.raises(cute.CompileError, match="expected the role plan specialized"):
        compiled(a, b, schedule="tile = (128,64,64), roles = alternate")


@pytest.mark.some(2)
@pytest.mark.parametrize("arch", TARGETS)
def test_machine_code_multiplies_into_tensor_memory(arch, tmp_path):
    if not ptxas.candidates():
        pytest.skip("needs ptxas")
    a, b = integers((256, 128)), integers((128, 256))
    kernel = compiled(a, b, arch)
    assert f".target {arch}" in kernel.ptx
    assert kernel.resources.spills == 0
    disassembler = ptxas.find(arch).with_name("nvdisasm")
    if not disassembler.exists():
        pytest.skip("needs nvdisasm beside ptxas")
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(kernel.cubin)
    shown = subprocess.run([disassembler, "-c", cubin], capture_output=True, text=True, check=True)
    for name in ("UTCHMMA", "UTMALDG", "LDTM", "UTCBAR"):
        assert name in shown.stdout, name


# (instruction, the codes of faults, or of notes, one of which is found)
FAULTS = {
    "no allocation": (r"tcgen05\.alloc[^;]*;", {"CD-I3"}),
    "no deallocation": (r"tcgen05\.dealloc[^;]*;", {"CD-D1"}),
    "operands never released": (r"tcgen05\.commit[^;]*;(?= // ir: \S*release)", {"CD-HANG"}),
    "products never complete": (r"tcgen05\.commit[^;]*;(?= // ir: \S*commit)", {"CD-HANG"}),
    "no wait for loads": (r"tcgen05\.wait::ld\.sync\.aligned;", {"CD-D6"}),
    "results in no proxy": (r"fence\.proxy\.async\.shared::cta;", {"CD-A1"}),
    "no fence after waits": (r"tcgen05\.fence::after_thread_sync;", {"CD-D7"}),
    "no fence before signals": (r"tcgen05\.fence::before_thread_sync;", {"CD-D7"}),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_missing_instruction_is_found(monkeypatch, fault):
    pattern, codes = FAULTS[fault]
    original, reports = emulator.launch, []

    def launch(ptx, *arguments):
        changed, count = re.subn(pattern, "", ptx)
        assert count
        reports.append(original(changed, *arguments))
        return reports[-1]

    monkeypatch.setattr(emulator, "launch", launch)
    a, b = integers((640, 136), seed=1), integers((136, 128), seed=2)
    try:
        run(a, b, schedule=SMALL)
    except emulator.EmulatorError as error:
        found = {error.code}
    else:
        # What the manual's memory model orders all the same is a note.
        found = {note.split()[0].strip("[]:") for note in reports[0].notes}
    assert found & codes, found


def test_nothing_is_left_to_note(monkeypatch):
    original, reports = emulator.launch, []

    def launch(*arguments):
        reports.append(original(*arguments))
        return reports[-1]

    monkeypatch.setattr(emulator, "launch", launch)
    run(integers((640, 136)), integers((136, 128)), schedule=SMALL)
    assert [report.notes for report in reports] == [[]]
