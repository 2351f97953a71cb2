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


def attended(q, k, v):
    q, k, v = (x.astype(np.float64) for x in (q, k, v))
    if not k.shape[-2]:
        return np.zeros((*q.shape[:-1], v.shape[-1]))
    s = q @ k.swapaxes(-1, -2) / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(-1, keepdims=True))
    return p @ v / p.sum(-1, keepdims=True)


def check(q, k, v, schedule):
    found = cute.attention(q, k, v, schedule=schedule, **EMULATED)
    assert np.abs(found.astype(np.float64) - attended(q, k, v)).max() < 0.01


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


@pytest.mark.parametrize(
    "plan", ["specialized", pytest.param("over scores", marks=pytest.mark.long)]
)
def test_half_of_each_block_of_keys_is_in_each_cta(plan):
    depth, _, tile = PLANS[plan]
    q = cute.TensorSpec((1, 1, None, depth), "bf16")
    kernels = [
        cute.compile(cute.attention, q, q, q, schedule=f"{tile}, cluster = {each}", **EMULATED)
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
