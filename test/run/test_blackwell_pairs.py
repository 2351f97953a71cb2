"""`cute.gemm` for sm_100a by CTA pairs on the emulator: each CTA loads its rows of A and half of B,
the even one multiplies for both, and each stores what its own tensor memory holds.
"""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend import emulator

E4M3, E5M2, BF16 = ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2, ml_dtypes.bfloat16
SMALL = "tile = (128,64,64), cluster = (2,1), stages = 3"
KINDS = {
    "f16": (np.float16, np.float16, "f32", 64),
    "bf16": (BF16, BF16, "bf16", 64),
    "tf32": (np.float32, np.float32, "f32", 32),
    "f8": (E4M3, E5M2, "f16", 128),
    "i8": (np.int8, np.uint8, "i32", 128),
}


def integers(shape, dtype=np.float16, seed=0):
    low = 0 if dtype is np.uint8 else -3
    return np.random.default_rng(seed).integers(low, 4, shape).astype(dtype)


def along(array, is_last):
    """The same values, contiguous along the last mode or along the first."""
    return np.ascontiguousarray(array) if is_last else np.ascontiguousarray(array.T).T


def exact(a, b):
    return a.astype(np.float64) @ b.astype(np.float64)


def run(a, b, **options):
    return cute.gemm(a, b, arch="sm_100a", backend="emulator", **options)


def compiled(a, b, *, arch: Any = "sm_100a", **options):
    return cute.compile(cute.gemm, a, b, arch=arch, backend="emulator", **options)


def is_exact(shape, **options):
    m, n, k = shape
    a, b = integers((m, k), seed=1), integers((k, n), seed=2)
    return np.array_equal(run(a, b, out_dtype="f32", **options), exact(a, b))


@pytest.mark.some(5)
@pytest.mark.parametrize("majors", ["TN", "NT"])
@pytest.mark.parametrize("kind", KINDS)
def test_kinds_and_majors(kind, majors):
    """Words of 32 bits are multiplied only along K; TMA wants rows of 16 bytes."""
    first, second, out, depth = KINDS[kind]
    if majors == "NT" and kind == "tf32":
        pytest.skip("no pairs")
    a = along(integers((144, depth + 16), first, 1), majors[0] == "T")
    b = along(integers((depth + 16, 144), second, 2), majors[1] == "T")
    options = {"schedule": f"tile = (128,128,{depth}), cluster = (2,1)", "out_dtype": out}
    want = exact(a, b).astype(BF16 if out == "bf16" else np.float64)
    assert np.array_equal(run(a, b, **options).astype(np.float64), want.astype(np.float64))
    assert "tcgen05.mma.cta_group::2" in compiled(a, b, **options).ptx


@pytest.mark.some(3)
@pytest.mark.parametrize("trips", [0, 1, 2, 3, 4, 7])
def test_trips_around_the_stages_of_the_ring(trips):
    for k in {64 * trips, max(0, 64 * trips - 24)}:
        assert is_exact((256, 128, k), schedule=SMALL)


@pytest.mark.some(3)
@pytest.mark.parametrize(
    "schedule",
    [
        "cluster = (2,2)",
        "cluster = (4,1)",
        "tile = (128,128,64), cluster = (4,2)",
        "tile = (256,64,64)",
        "tile = (256,64,64), warps = (8,2)",
        "split_k = 2",
        "scheduler = stream",
        "scheduler = single",
        "epilogue = direct",
        "stages = 1",
    ],
)
def test_schedules(schedule):
    for default in ("tile = (128,64,64)", "cluster = (2,1)"):
        schedule = schedule if default.split()[0] in schedule else f"{schedule}, {default}"
    kernel = compiled(integers((600, 200)), integers((200, 136)), schedule=schedule)
    assert "tcgen05.mma.cta_group::2" in kernel.ptx
    assert is_exact((600, 136, 200), schedule=schedule)


@pytest.mark.parametrize("seed", range(4))
def test_ragged_sizes(seed):
    rng = np.random.default_rng(seed)
    m, n, k = (int(rng.integers(1, high)) for high in (600, 200, 150))
    tile = rng.choice(["(128,64,64)", "(128,32,64)", "(256,64,32)", "(128,160,64)"])
    assert is_exact((m, n, k), schedule=f"tile = {tile}, cluster = (2,1)"), (m, n, k, tile)


def test_groups():
    """The work items of all products are one list, in blocks of two tiles of rows."""
    a, b = integers((3, 130, 72), seed=1), integers((3, 72, 40), seed=2)
    parts = [(a[0], b[0]), (a[1, :20, :64], b[1, :64]), (a[2, :, :0], b[2, :0])]
    left, right = [one for one, _ in parts], [other for _, other in parts]
    options: dict[str, Any] = {"arch": "sm_100a", "backend": "emulator", "schedule": SMALL}
    for each, pair in zip(cute.grouped_gemm(left, right, **options), parts, strict=True):
        assert np.array_equal(each.astype(np.float64), exact(*pair))


def test_an_atom_by_name_says_how_many_ctas_multiply():
    a, b = integers((256, 64), seed=1), integers((64, 64), seed=2)
    for atom, group in (("cg1_m128", 1), ("cg2_m256", 2)):
        schedule = f"{SMALL}, atom = tcgen05_f16_{atom}n64k16_f32_f16_f16"
        assert f"tcgen05.mma.cta_group::{group}" in compiled(a, b, schedule=schedule).ptx
        assert np.array_equal(run(a, b, schedule=schedule).astype(np.float64), exact(a, b))
    alone = schedule.replace("(2,1)", "(1,1)")
    with pytest.raises(cute.CompileError, match="expected an even number of CTAs along M"):
        compiled(a, b, schedule=alone)


@pytest.mark.parametrize(
    ("tile", "why"),
    [
        ("(64,64,64)", "each CTA of a pair multiplies 128 rows at once, got 64"),
        ("(128,48,64)", "no multiplies of CTA pairs"),
    ],
)
def test_what_keeps_pairs_away_is_said(tile, why):
    a, b = integers((256, 64), seed=1), integers((64, 64), seed=2)
    schedule = f"tile = {tile}, cluster = (2,1)"
    kernel = compiled(a, b, schedule=schedule)
    assert "tcgen05.mma.cta_group::1" in kernel.ptx
    assert any(why in each.message for each in kernel.remarks), kernel.remarks
    assert np.array_equal(run(a, b, schedule=schedule).astype(np.float64), exact(a, b))


def test_more_stages_fit_where_each_cta_has_half_of_b():
    a, b = integers((256, 64)), integers((64, 256))
    stages = [
        cute.Schedule.parse(compiled(a, b, schedule=schedule).schedule).stages or 0
        for schedule in ("tile = (128,256,64)", "tile = (128,256,64), cluster = (2,1)")
    ]
    assert stages[1] > stages[0]
    # And all of them stay: each CTA has 128 rows of A and 128 of B in a stage.
    kernel = compiled(a, b, schedule="tile = (128,256,64), cluster = (2,1)")
    rings = re.findall(r"alloc_smem.*?f16, smem.*?,(\d+)\):", kernel.stages["cute-synchronize"])
    assert str(stages[1]) in rings
    assert not kernel.remarks


def test_large_problems_take_pairs_and_small_ones_the_tiles_that_fill_a_device():
    large, small = (
        cute.compile(
            cute.gemm,
            cute.TensorSpec((n, n), "bf16"),
            cute.TensorSpec((n, n), "bf16"),
            arch="sm_100a",
            backend="emulator",
        )
        for n in (4096, 128)
    )
    assert "tcgen05.mma.cta_group::2" in large.ptx
    assert "tcgen05.mma.cta_group::1" in small.ptx
    assert not large.remarks


@pytest.mark.parametrize("scheduler", ["persistent", "cancel", "stream", "dynamic"])
def test_a_scheduler_by_name_leaves_pairs(scheduler):
    """All but one know clusters."""
    specs = [cute.TensorSpec((4096, 4096), "bf16")] * 2
    named = compiled(*specs, schedule=f"scheduler = {scheduler}")
    assert f"scheduler = {scheduler}" in named.schedule
    group = 1 if scheduler == "dynamic" else 2
    assert f"tcgen05.mma.cta_group::{group}" in named.ptx
    assert scheduler != "persistent" or named.schedule == compiled(*specs).schedule


# (instruction, the codes of faults, or of notes, one of which is found)
FAULTS = {
    "no deallocation": (r"tcgen05\.dealloc[^;]*;", {"CD-D1"}),
    "no meeting before the end": (r"barrier\.cluster\.(arrive|wait);", {"CD-D4"}),
    "operands never released": (r"tcgen05\.commit[^;]*;(?= // ir: \S*release)", {"CD-HANG"}),
    "products never complete": (r"tcgen05\.commit[^;]*;(?= // ir: \S*commit)", {"CD-HANG"}),
    "no wait for loads": (r"tcgen05\.wait::ld\.sync\.aligned;", {"CD-D6"}),
    "no fence after waits": (r"tcgen05\.fence::after_thread_sync;", {"CD-D7"}),
    "no fence before signals": (r"tcgen05\.fence::before_thread_sync;", {"CD-D7"}),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_missing_instruction_is_found(monkeypatch, fault):
    pattern, codes = FAULTS[fault]
    found = faults_of(monkeypatch, lambda ptx: re.subn(pattern, "", ptx))
    assert found & codes, found


def test_a_commit_of_products_to_one_cta_is_found(monkeypatch):
    commit = r"\.multicast::cluster(\.b64 \[[^]]*\]), %\w+(?=; // ir: \S*producer_commit)"
    found = faults_of(monkeypatch, lambda ptx: re.subn(commit, r"\1", ptx))
    assert found & {"CD-B5", "CD-H4"}, found


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
    a, b = integers((640, 136), seed=1), integers((136, 128), seed=2)
    try:
        run(a, b, schedule=SMALL)
    except emulator.EmulatorError as error:
        return {error.code}
    return {note.split()[0].strip("[]:") for report in reports for note in report.notes}
