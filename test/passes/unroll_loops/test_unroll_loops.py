"""`cute-unroll-loops`: two trips in one compute what single ones do, bit by bit, with no copies."""

import re
import subprocess
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import cutedialect as cute
from benchmarks.chains import three
from cutedialect.backend.runtime import ptxas

ROLE = 'pipeline.role "main"'
ROWS, KEYS = 64, 32
SMALL = f"tile = ({ROWS},{KEYS}), warps = (4,1)"


def attention(trips, unroll, missing=0, maxima="guessed", dtype: Any = np.float16, **masks):
    """Attention over so many blocks of keys, of which the last one lacks some; in its fourth and
    its fifth block scores are so large that those before are no guess for them.
    """
    rng = np.random.default_rng(trips)
    keys = max(0, KEYS * trips - missing)
    q, k, v = (rng.standard_normal((1, 1, n, 64)).astype(np.float32) for n in (ROWS, keys, keys))
    k[..., 3 * KEYS : 4 * KEYS, :] *= 8
    k[..., 4 * KEYS : 5 * KEYS, :] *= 64
    plan = f"{SMALL}, maxima = {maxima}, unroll = {unroll}"
    options = {"arch": "sm_90a", "backend": "emulator", "schedule": plan} | masks
    return np.asarray(cute.attention(*(x.astype(dtype) for x in (q, k, v)), **options))


@pytest.mark.some(5)
@pytest.mark.parametrize("trips", range(1, 8))
@pytest.mark.parametrize("missing", [0, 5])
def test_any_number_of_blocks(trips, missing):
    one, two = (attention(trips, unroll, missing) for unroll in (1, 2))
    assert np.isfinite(one).all()
    assert one.tobytes() == two.tobytes()


@pytest.mark.some(1)
@pytest.mark.parametrize("maxima", ["guessed", "lazy", "exact"])
@pytest.mark.parametrize("masks", [{"causal": True}, {"window": (70, 9)}])
def test_masks(maxima, masks):
    for trips in (4, 5):
        for dtype in (np.float16, ml_dtypes.bfloat16):
            given = (trips, 1), (trips, 2)
            one, two = (attention(*each, 3, maxima, dtype, **masks) for each in given)
            assert one.tobytes() == two.tobytes()


@pytest.mark.some(3)
@pytest.mark.parametrize("trips", range(6))
def test_three_multiplies(trips):
    rng = np.random.default_rng(trips)
    shapes = [(100, 64)] + [(64 * trips, 64)] * 3
    arrays = [(rng.standard_normal(shape) * 0.5).astype(np.float16) for shape in shapes]
    found = []
    for unroll in (1, 2):
        out = np.full((100, 64), np.nan, np.float32)
        plan = f"unroll = {unroll}"
        three(*arrays, out, arch="sm_90a", backend="emulator", schedule=plan)
        found.append(out)
    assert np.isfinite(found[0]).all()
    assert found[0].tobytes() == found[1].tobytes()


def compiled(schedule="unroll = 2", heads=64, **options):
    specs = [cute.TensorSpec((2, 4, None, heads), cute.bf16)] * 3
    return cute.compile(cute.attention, *specs, arch="sm_90a", schedule=schedule, **options)


@pytest.mark.some(2)
@pytest.mark.parametrize("tile", ["", f", {SMALL}"])
@pytest.mark.parametrize("masks", [{}, {"causal": True}])
def test_trips_that_mask_stay(masks, tile):
    """Behind the first trip two of those without a mask, one that is odd, and those with one."""
    kernel = compiled(f"unroll = 2{tile}", **masks)
    text = kernel.stages["cute-unroll-loops"].split(ROLE)[1].split("func.func")[0]
    counts = [count for part in text.split("scf.for") if (count := part.count("cute.gemm"))]
    assert counts == [1, 4 + 2, 2 + 1]


def test_nothing_is_unrolled_unless_asked_for():
    for schedule in ("unroll = 1", SMALL):
        kernel = compiled(schedule)
        assert kernel.stages["cute-unroll-loops"] == kernel.stages["cute-split-loops"]


def test_a_remark_where_no_trip_ends_with_a_copy():
    kernel = compiled("unroll = 2, overlap = no")
    assert kernel.stages["cute-unroll-loops"] == kernel.stages["cute-split-loops"]
    told = [each.message for each in kernel.remarks if "no loop unrolled" in each.message]
    assert len(told) == 1


@pytest.mark.some(2)
@pytest.mark.parametrize(("heads", "maxima"), [(64, "guessed"), (128, "guessed"), (64, "lazy")])
def test_the_assembler_leaves_no_copies(heads, maxima, tmp_path):
    disassembler = ptxas.find("sm_90a").with_name("nvdisasm")
    if not disassembler.exists():
        pytest.skip("needs nvdisasm beside ptxas")
    moves = []
    for unroll in (1, 2):
        kernel = compiled(f"maxima = {maxima}, unroll = {unroll}", heads)
        assert kernel.resources.spills == 0
        cubin = tmp_path / "kernel.cubin"
        cubin.write_bytes(kernel.cubin)
        run = subprocess.run(
            [disassembler, "-c", cubin], capture_output=True, text=True, check=True
        )
        moved = r"\bMOV R\d+, R\d+|\bIMAD\.MOV\.U32 R\d+, RZ, RZ, R\d+"
        moves.append(len(re.findall(moved, skewed_loop(run.stdout))))
    assert moves[0] >= 24
    assert moves[1] <= 8


def skewed_loop(text):
    """The first loop of machine code with multiplies: the one without masks."""
    places = {}
    for place in re.finditer(r"^(\.L_\w+):|BRA `\((\.L_\w+)\)", text, re.MULTILINE):
        label, target = place.groups()
        if label is not None:
            places[label] = place.start()
        elif target in places and "HGMMA" in (loop := text[places[target] : place.start()]):
            return loop
    raise AssertionError("expected a loop with multiplies, got none")
