"""The last multiply of a tile works while the next tile's first block is computed on: in the IR, in
the machine code, and with the results that tiles one after the other give.
"""

from __future__ import annotations

import itertools
import re
import subprocess

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from cutedialect.backend.runtime import emulated, ptxas


def compiled(choice="yes", d=128, **masks):
    specs = [cute.TensorSpec((2, 4, None, d), cute.bf16)] * 3
    schedule = f"overlap_tiles = {choice}, overlap = turns"
    return cute.compile(cute.attention, *specs, arch="sm_90a", schedule=schedule, **masks)


def main_role(kernel):
    text = kernel.stages["cute-overlap-tiles"]
    return text.split('pipeline.role "main"')[1].split("func.func")[0]


MARKS = re.compile(
    r"scf\.(?:for|while)|cute\.gemm.*a = (?:smem|rmem)|wgmma_wait \{pending = \d|"
    r'turn_\w+ \{[^}]*\}|reduce "max"|truncf|pipeline\.receive|cute\.any(?=.*warps = 4)'
)


def without_epilogue(text):
    """Up to where warpgroups look for rows that see no key."""
    return text[: re.search(r"cute\.any.*warps = 4", text).start()]


@pytest.mark.usefixtures("looks_first")
@pytest.mark.parametrize("masks", [{}, {"causal": True}])
@pytest.mark.parametrize("scheduler", ["dynamic", "persistent"])
def test_the_last_multiply_stands_between_the_next_first_one_and_its_wait(scheduler, masks):
    specs = [cute.TensorSpec((2, 4, None, 128), cute.bf16)] * 3
    schedule = f"scheduler = {scheduler}, overlap = turns, overlap_tiles = yes"
    kernel = cute.compile(cute.attention, *specs, arch="sm_90a", schedule=schedule, **masks)
    found = [m.group().split(" a = ")[-1] for m in MARKS.finditer(main_role(kernel))]
    wait, passed = "turn_wait {warps = 4 : i32}", "turn_pass {warps = 4 : i32}"
    begin = ["smem", "wgmma_wait {pending = 0", 'reduce "max"', "truncf"]
    # The exponentials are rounded early: their sums are those of what is multiplied.
    trip = [wait, "smem", "rmem", passed, "wgmma_wait {pending = 1", 'reduce "max"', "truncf"]
    trip += ["wgmma_wait {pending = 0"]
    # The tile behind the next one is asked for while both multiplies work, and the next one where
    # nothing stands before a tile, once that is at work.
    told = ["pipeline.receive"] if scheduler == "dynamic" else []
    meet = [*trip[:4], *told, *trip[4:6], trip[7], trip[6]]
    # A result that may be lost is written, in two parts, before that is decided.
    last = ["rmem", "wgmma_wait {pending = 0", "truncf", "truncf"]
    expected = ["scf.while", *begin, *told, "scf.for", *trip, *meet, *last]
    expected += ["cute.any"] if masks else []
    found = found[found.index(expected[0]) :]
    assert found[: len(expected)] == expected


DIVISIONS = r"arith\.(?:divsi|remsi)"


def test_coordinates_are_divided_for_once_a_tile():
    """The loop carries what divisions tell, and computes the rest from that."""
    body = main_role(compiled("yes", causal=True)).split("scf.while")[1].split("} do {")[1]
    trip = without_epilogue(body)
    begin = trip.index("truncf")
    meet = trip.index("turn_pass", trip.index("turn_pass") + 1)
    divisions = [found.start() for found in re.finditer(DIVISIONS, trip)]
    assert divisions
    loop = trip.index("scf.for")
    assert all(begin < at < loop or at > meet for at in divisions)
    plain = main_role(compiled("no", causal=True))
    once = len(re.findall(DIVISIONS, without_epilogue(plain.split("} do {", 1)[1])))
    # Again for a tile that nothing stands before.
    assert len(divisions) <= 2 * once


def test_what_needs_no_result_comes_before_the_last_wait():
    trip = main_role(compiled("yes"))
    meet = trip.split("turn_pass {warps = 4 : i32}")[2]
    meet = meet[: meet.index("wgmma_wait {pending = 0")]
    places = [meet.index(each) for each in ('reduce "max"', "tma_store_wait", "arith.divf")]
    assert places == sorted(places)


def test_kernels_that_do_not_walk_over_tiles_are_left_alone():
    specs = [cute.TensorSpec((2, 4, None, 64), cute.bf16)] * 3
    for function, operands, schedule in (
        (cute.attention, specs, "scheduler = single, overlap = yes"),
        (cute.gemm, [cute.TensorSpec((None, None), cute.f16)] * 2, "stages = 3"),
    ):
        found = [
            cute.compile(
                function, *operands, arch="sm_90a", schedule=f"{schedule}, overlap_tiles = {choice}"
            )
            for choice in ("no", "yes")
        ]
        assert found[0].ptx == found[1].ptx


@pytest.mark.usefixtures("looks_first")
def test_numbers_that_the_next_tile_finds_are_read_behind_the_epilogue():
    """Whether what was added up is scaled: the same branch behind the end of the tile before."""
    meet = main_role(compiled("yes")).split("turn_pass {warps = 4 : i32}")[2]
    given = re.search(r"arith\.extui %\w+ : i1 to i32\s+scf\.yield (%.*) : (.*)\n", meet)
    assert given[2].count("i32") == given[1].count("%") > 1
    assert "arith.cmpi ne" in meet[meet.index("atom.tma_store<", given.end()) :]


def test_tiles_come_one_after_the_other_where_loads_wait_for_who_asks():
    specs = [cute.TensorSpec((2, 4, None, 128), cute.bf16)] * 3
    found = []
    for choice in ("no", "yes"):
        schedule = f"scheduler = dynamic, split_loads = no, overlap_tiles = {choice}"
        options = {"arch": "sm_90a", "causal": True, "backend": "emulator"}
        found.append(cute.compile(cute.attention, *specs, schedule=schedule, **options))
    assert "pipeline.receive" in found[0].stages["cute-overlap-tiles"]
    assert found[0].ptx == found[1].ptx


def operands(heads, rows, keys, d, dtype, shared=1):
    rng = np.random.default_rng(keys)
    extents = ((heads, rows), (heads // shared, keys), (heads // shared, keys))
    return [rng.standard_normal((1, h, s, d)).astype(dtype) for h, s in extents]


TURNS = "scheduler = dynamic, split_loads = yes, overlap = turns"
STRIDE = "scheduler = persistent, overlap = turns"
FREE = "scheduler = dynamic, split_loads = yes, overlap = yes"
ONE = "scheduler = dynamic, split_loads = no, overlap = turns"
CASES = {
    "one_block": ((3, 128, 60, 64), f"tile = (64,64), {FREE}", {}),
    "two_blocks": ((2, 200, 130, 64), f"tile = (128,64), {STRIDE}", {"return_lse": True}),
    "some_without_keys": ((3, 211, 113, 64), f"tile = (64,64), {TURNS}", {"causal": True}),
    "no_keys": ((2, 130, 0, 64), f"tile = (64,64), {TURNS}", {"return_lse": True}),
    "shared_heads": ((4, 200, 200, 64), f"tile = (128,64), {TURNS}", {"causal": True}),
    "window": ((2, 257, 300, 128), f"tile = (128,64), {FREE}", {"window": (107, 5)}),
    "three_warpgroups": ((2, 400, 100, 64), f"tile = (192,64), {STRIDE}", {"causal": True}),
    "more_blocks_than_stages": ((2, 300, 330, 64), f"tile = (64,64), stages = 2, {ONE}", {}),
    "wide": ((1, 200, 200, 256), f"tile = (128,64), {STRIDE}", {"causal": True}),
}


@pytest.mark.some(5)
@pytest.mark.parametrize("name", CASES)
def test_bits_are_those_of_tiles_one_after_the_other(name, monkeypatch):
    monkeypatch.setattr(emulated, "SM_COUNT", 2)
    (heads, rows, keys, d), schedule, options = CASES[name]
    shared = 2 if name == "shared_heads" else 1
    tensors = operands(heads, rows, keys, d, ml_dtypes.bfloat16, shared)
    found = []
    for choice in ("no", "yes"):
        kept = {"arch": "sm_90a", "backend": "emulator", **options}
        result = cute.attention(*tensors, schedule=f"{schedule}, overlap_tiles = {choice}", **kept)
        found.append(result if isinstance(result, tuple) else (result,))
    for one, other in zip(*found, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(
    ("d", "mask"),
    [(64, {}), *((128, mask) for mask in ({}, {"causal": True}, {"window": (1024, 0)}))],
)
def test_exponentials_of_the_next_tile_lie_between_the_waits_in_machine_code(d, mask, tmp_path):
    disassembler = ptxas.find("sm_90a").with_name("nvdisasm")
    if not disassembler.exists():
        pytest.skip("needs nvdisasm beside ptxas")
    kernel = compiled(d=d, **mask)
    assert kernel.resources.spills == 0
    cubin = tmp_path / "kernel.cubin"
    cubin.write_bytes(kernel.cubin)
    run = subprocess.run([disassembler, "-c", cubin], capture_output=True, text=True, check=True)
    marks = re.findall(r"(HGMMA|WARPGROUP\.DEPBAR|MUFU\.EX2)[^;]*", run.stdout)
    runs = [(mark, len(list(group))) for mark, group in itertools.groupby(marks)]
    # Both multiplies in a row: the parts of the split loop, and where two tiles meet.
    keys = cute.Schedule.parse(kernel.schedule).tile[1]
    both = d // 16 + keys // 16
    pairs = [at for at, (mark, count) in enumerate(runs) if mark == "HGMMA" and count >= both]
    assert len(pairs) >= 2
    for at in pairs:
        assert [mark for mark, _ in runs[at + 1 : at + 4]] == [
            "WARPGROUP.DEPBAR",
            "MUFU.EX2",
            "WARPGROUP.DEPBAR",
        ]
        assert runs[at + 2][1] >= keys // 2
