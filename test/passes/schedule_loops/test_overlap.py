"""The second of two chained multiplies works while what the first one gave is computed on: in the
IR, in the machine code, and with the results that it gives in program order.
"""

from __future__ import annotations

import itertools
import re
import subprocess

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas


def compiled(overlap="yes", d=64, **masks):
    specs = [cute.TensorSpec((2, 4, None, d), cute.bf16)] * 3
    schedule = f"overlap = {overlap}"
    return cute.compile(cute.attention, *specs, arch="sm_90a", schedule=schedule, **masks)


def main_role(kernel, stage):
    return kernel.stages[stage].split('pipeline.role "main"')[1].split("func.func")[0]


MARKS = re.compile(
    r"scf\.for|cute\.gemm.*a = (?:smem|rmem)|wgmma_wait \{pending = \d|wgmma_commit|reduce \"\w+\"|"
    r"truncf"
)


@pytest.mark.usefixtures("looks_first")
def test_the_second_multiply_stands_between_the_first_and_its_wait():
    text = main_role(compiled(d=128), "cute-synchronize")
    found = [m.group().split(" a = ")[-1] for m in MARKS.finditer(text)]
    # The sums are those of the rounded exponentials.
    softmax = ['reduce "max"', "truncf", 'reduce "add"']
    first = ["smem", "wgmma_commit", "wgmma_wait {pending = 0", *softmax]
    trip = ["scf.for", "smem", "wgmma_commit", "rmem", "wgmma_commit", "wgmma_wait {pending = 1"]
    trip += [*softmax, "wgmma_wait {pending = 0"]
    last = ["rmem", "wgmma_commit", "wgmma_wait {pending = 0", 'reduce "add"']
    assert found[1 : 1 + len(first + trip + last)] == first + trip + last


def test_the_first_trip_and_the_others_take_their_sides_of_a_branch():
    """What is tried but in the first trip is ready before the second multiply is waited for, as is
    what takes its place if it does not hold.
    """
    text = main_role(compiled(d=128), "cute-synchronize")
    found = [m.group().split(" a = ")[-1] for m in MARKS.finditer(text)]
    exact = ['reduce "max"', "truncf", 'reduce "add"']
    first = ["smem", "wgmma_commit", "wgmma_wait {pending = 0", *exact]
    trip = ["scf.for", "smem", "wgmma_commit", "rmem", "wgmma_commit", "wgmma_wait {pending = 1"]
    tried = ["truncf", 'reduce "add"', 'reduce "max"', *exact, 'reduce "add"']
    trip += [*tried, "wgmma_wait {pending = 0"]
    last = ["rmem", "wgmma_commit", "wgmma_wait {pending = 0", 'reduce "add"']
    assert found[1 : 1 + len(first + trip + last)] == first + trip + last


def give_the_same_bits(heads, rows, keys, tile, *overlaps):
    rng = np.random.default_rng(keys)
    extents = (rows, keys, keys)
    q, k, v = (rng.standard_normal((1, heads, s, 64)).astype(np.float16) for s in extents)
    found = [
        cute.attention(
            q,
            k,
            v,
            causal=True,
            arch="sm_90a",
            backend="emulator",
            schedule=f"tile = {tile}, overlap = {overlap}",
        )
        for overlap in overlaps
    ]
    np.testing.assert_array_equal(*found)


@pytest.mark.some(3)
@pytest.mark.usefixtures("looks_first")
@pytest.mark.parametrize("keys", [0, 7, 64, 65, 129, 300])
def test_bits_are_those_of_the_program_order(keys):
    give_the_same_bits(1, 64, keys, "(64,64)", "yes", "no")


@pytest.mark.some(2)
@pytest.mark.usefixtures("looks_first")
@pytest.mark.parametrize("keys", [0, 130, 300])
def test_warpgroups_that_take_turns_give_the_same_bits(keys):
    give_the_same_bits(2, 200, keys, "(128,64)", "yes", "turns")


@cute.kernel
def chained(Q, K, V, out, least, *, tile=(64, 64)):
    """out = f(Q K^T) V, where f doubles the products of the blocks of K behind the first one that
    have a number above `least`.
    """
    bq, bk = tile
    i, _ = cute.tile_index(out, (bq, 64))
    q, k, v = (
        cute.local_tile(each, (size, 64), (at, 0))
        for each, size, at in ((Q, bq, i), (K, bk, None), (V, bk, None))
    )
    o = cute.zeros((bq, 64))
    for j in cute.range((K.dim(0) + (bk - 1)) // bk):
        s = cute.zeros((bq, bk))
        cute.gemm(q, k[j].T, s)
        with cute.when(j > least), cute.when(j > 0):
            s.assign(s + s)
        cute.gemm(s.to(cute.f16), v[j], o)
    cute.copy(o.to(cute.f32), cute.local_tile(out, (bq, 64), (i, 0)))


def test_a_loop_is_skewed_whatever_its_branches_ask_for():
    specs = [cute.TensorSpec((None, 64), each) for each in (*3 * [cute.f16], cute.f32)]
    kernel = cute.compile(chained, *specs, 0, arch="sm_90a", schedule="overlap = yes")
    text = main_role(kernel, "cute-synchronize")
    found = [m.group().split(" a = ")[-1] for m in MARKS.finditer(text)]
    trip = ["scf.for", "smem", "wgmma_commit", "rmem", "wgmma_commit", "wgmma_wait {pending = 1"]
    assert found[found.index("truncf") + 1 :][: len(trip)] == trip


@pytest.mark.some(6)
@pytest.mark.parametrize("least", [-1, 0, 1])
@pytest.mark.parametrize("keys", [0, 64, 128, 300])
def test_a_branch_inside_of_another_may_ask_for_the_first_trip(keys, least):
    rng = np.random.default_rng(keys)
    q, k, v = (rng.integers(-1, 2, (s, 64)).astype(np.float16) for s in (130, keys, keys))
    out = np.zeros((130, 64), np.float32)
    launch = {"arch": "sm_90a", "backend": "emulator", "schedule": "overlap = yes"}
    chained(q, k, v, out, least, **launch)
    blocks = np.arange(keys) // 64
    doubled = (blocks > least) & (blocks > 0)
    np.testing.assert_array_equal(out, (q @ k.T * (1 + doubled)).astype(np.float32) @ v)


def test_turns_are_for_several_warpgroups():
    text = main_role(compiled("turns"), "cute-synchronize")
    steps = re.findall(r"pipeline\.turn_\w+ \{[^}]*\}|scf\.for|rmem|wgmma_fence", text)
    around = ["pipeline.turn_pass {warps = 4 : i32, outside}", "scf.for"]
    assert steps[:2] == around
    assert steps[-1] == "pipeline.turn_wait {warps = 4 : i32, outside}"
    at = steps.index("pipeline.turn_wait {warps = 4 : i32}")
    inside = ["wgmma_fence", "wgmma_fence", "rmem", "pipeline.turn_pass {warps = 4 : i32}"]
    assert steps[at - 1] == "scf.for"
    assert steps[at + 1 : at + 5] == inside
    q, k = np.zeros((1, 1, 64, 64), np.float16), np.zeros((1, 1, 128, 64), np.float16)
    alone = cute.compile(cute.attention, q, k, k, arch="sm_90a", schedule="overlap = turns")
    assert "turn_" not in alone.stages["cute-synchronize"]


def test_a_kernel_with_one_multiply_is_left_alone():
    specs = [cute.TensorSpec((None, None), cute.f16)] * 2
    kernel = cute.compile(cute.gemm, *specs, arch="sm_90a", schedule="overlap = yes")
    assert "stage = 1" not in kernel.stages["cute-schedule-loops"]
    assert "stage = 1" in compiled().stages["cute-schedule-loops"]


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("d", "overlap", "least"),
    [
        (64, "yes", 64),
        (128, "yes", 64),
        (128, "yes, tile = (192,80)", 40),
        (128, "turns, tile = (192,80)", 40),
    ],
)
def test_exponentials_lie_between_the_waits_in_machine_code(d, overlap, least, tmp_path):
    disassembler = ptxas.find("sm_90a").with_name("nvdisasm")
    if not disassembler.exists():
        pytest.skip("needs nvdisasm beside ptxas")
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(compiled(overlap, d, causal=True).cubin)
    run = subprocess.run([disassembler, "-c", cubin], capture_output=True, text=True, check=True)
    marks = re.findall(r"(HGMMA|WARPGROUP\.DEPBAR|MUFU\.EX2)[^;]*", run.stdout)
    # Blocks of like instructions: the skewed loop has two multiplies in a row.
    runs = [(mark, len(list(group))) for mark, group in itertools.groupby(marks)]
    loop = next(
        at
        for at, (mark, _) in enumerate(runs)
        if mark == "WARPGROUP.DEPBAR" and runs[at - 1][0] == "HGMMA" and runs[at - 1][1] > d // 16
    )
    exponentials = runs[loop + 1]
    assert exponentials[0] == "MUFU.EX2"
    assert exponentials[1] >= least
    assert runs[loop + 2][0] == "WARPGROUP.DEPBAR"
