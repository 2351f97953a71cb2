"""The kernels of what `cute.attention` takes by default; what is chosen is a table of its own
(`test/choosing/test_attention_space.py`).
"""

from __future__ import annotations

import ml_dtypes
import numpy as np

import cutedialect as cute
from cutedialect.atoms import target
from cutedialect.frontend.attention_splits import Work, parts_of
from cutedialect.schedule import Schedule


def test_packed_sequences_count_with_their_mean_length():
    offsets = (cute.TensorSpec((65,), "i32"),) * 2
    for length, depth, tile, ctas in (
        (100, 96, (64, 64), 3),
        (100, 128, (64, 32), 2),
        (100, 256, (64, 64), None),
        (300, 96, (64, 64), None),
    ):
        rows = cute.TensorSpec((1, 16, 64 * length, depth), "bf16")
        kernel = cute.compile(cute.attention, rows, rows, rows, cu_seqlens=offsets, arch="sm_90a")
        found = Schedule.parse(kernel.schedule)
        assert (found.tile, found.ctas, found.scheduler) == (tile, ctas, "dynamic")


def test_few_keys_are_not_split():
    """Merging parts takes longer than one of the 1,000 keys."""
    schedule = Schedule(tile=(64, 128))
    for rows, keys, is_split in ((1000, 1000, False), (1000, 4096, True), (1, 1100, True)):
        work = Work((1, 1, keys, 64), rows, 1, (None, None), False)
        assert (parts_of(work, schedule, "sm_90a", "emulator") > 1) == is_split


def test_ones_leave_room_for_three_ctas_and_two_stages_of_rows():
    spec = cute.TensorSpec((1, 32, 16384, 64), cute.bf16)
    kernel = cute.compile(cute.attention, *[spec] * 3, arch="sm_90a", window=(1024, 0))
    assert "m64n72k16" in kernel.ptx
    assert ", ctas = 3" in kernel.schedule
    assert kernel.program.dynamic_smem <= target("sm_90a").smem_of(3)
    assert "(64,64,2)" in next(
        line for line in kernel.stages["cute-synchronize"].splitlines() if "%sQ = " in line
    )


def test_logarithms_leave_registers_as_they_are():
    """A number for each row, of any alignment, is no reason for threads to meet."""
    spec = cute.TensorSpec((2, 4, 1000, 128), cute.bf16)
    kernel = cute.compile(cute.attention, *[spec] * 3, return_lse=True, arch="sm_90a")
    assert "st.global.b32" in kernel.ptx
    assert "st.global.v4" not in kernel.ptx


def test_rows_that_cp_async_brings_to_tiles_without_keys():
    """Rows of q of a tile without keys give their place back by a commit without multiplies."""
    rows, values = (np.zeros((2, 1, 255, depth), ml_dtypes.float8_e4m3fn) for depth in (72, 40))
    lengths = np.full(2, 255, np.int32)
    kernel = cute.compile(
        cute.attention, rows, rows, values, lengths=lengths, causal=True, arch="sm_100a"
    )
    assert "cp.async.ca.shared" in kernel.ptx
    assert "tcgen05.mma" in kernel.ptx


def test_loads_of_scores_find_the_largest_of_their_rows():
    """On sm_103a beside what they load. Keys that are hidden have the largest score, 0, of which
    exponentials of all others would vanish: rows with such are looked at anew.
    """
    generator = np.random.default_rng(0)
    q, k, v = (
        generator.standard_normal((1, 1, rows, 64)).astype(ml_dtypes.bfloat16)
        for rows in (130, 200, 200)
    )
    q, k = (-80 * np.abs(q)).astype(q.dtype), np.abs(k)
    s = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / 8
    assert s.max() < -100
    p = np.exp(s - s.max(-1, keepdims=True))
    want = p @ v.astype(np.float64) / p.sum(-1, keepdims=True)
    out = cute.attention(q, k, v, arch="sm_103a", backend="emulator")
    assert np.abs(out.astype(np.float64) - want).max() <= 2.0**-6
    name = "tcgen05.ld.red.sync.aligned.32x32b.x64.max.NaN.f32"
    assert name in cute.compile(cute.attention, q, k, v, arch="sm_103a").ptx
    assert name not in cute.compile(cute.attention, q, k, v, arch="sm_100a").ptx
