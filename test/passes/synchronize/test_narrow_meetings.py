"""Conditions of rows are decided by each warp where rows do not go across warps and only registers
change under them, of which a warp holds what it adds up; else all of them meet.
"""

from __future__ import annotations

import re

import numpy as np
import pytest

import cutedialect as cute

# Threads hold 4 columns: 128 columns are a warp's, and 512 those of four warps in a row.
ROWS, NARROW, WIDE = 16, 128, 512


def numbers(width):
    """Rows of which few have a positive number."""
    x = -np.random.default_rng(width).integers(1, 9, (ROWS, width)).astype(np.float32)
    x[[1, 6, 7, 14], [5, 0, width - 1, width // 2]] = [3, 1, 7, 2]
    return x


def run(program, width):
    """(result (rows,), how many warps decide together: None for all) of a program."""
    x, out = numbers(width), np.full((ROWS, 1), 99, np.float32)
    grid = "(4,1)" if width == NARROW else "(1,4)"
    options = {"arch": "sm_80", "backend": "emulator", "schedule": f"warps = {grid}"}
    kernel = cute.compile(program, x, out, width=width, **options)
    kernel.launch(x, out)
    (found,) = re.findall(r"cute\.any %\w+ \{([^}]*)\}", kernel.stages["cute-synchronize"])
    warps = re.search(r"warps = (\d+)", found)
    # A vote of a warp, or a barrier.
    assert kernel.ptx.count("vote.sync.any") == (warps is not None)
    assert kernel.ptx.count("bar.red") == (warps is None)
    return out[:, 0], None if warps is None else int(warps[1])


def tile(x, width):
    return cute.load(cute.local_tile(x, (ROWS, width), (0, 0)))


def store(y, value):
    cute.copy(value, cute.local_tile(y, (ROWS, 1), (0, 0)))


@cute.kernel
def changes_registers(x, y, *, width=NARROW):
    top, kept = cute.row_max(tile(x, width)), cute.zeros((ROWS, 1))
    with cute.when(cute.any(top > 0.0, local=True)):
        kept.assign(cute.where(top > 0.0, top, 0.0))
    store(y, kept)


@cute.kernel
def asks_all(x, y, *, width=NARROW):
    top, kept = cute.row_max(tile(x, width)), cute.zeros((ROWS, 1))
    with cute.when(cute.any(top > 0.0)):
        kept.assign(cute.where(top > 0.0, top, 0.0))
    store(y, kept)


@cute.kernel
def stores(x, y, *, width=NARROW):
    top = cute.row_max(tile(x, width))
    store(y, cute.zeros((ROWS, 1)))
    with cute.when(cute.any(top > 0.0, local=True)):
        store(y, cute.maximum(top, 0.0))


@cute.kernel
def adds_up(x, y, *, width=NARROW):
    values, kept = tile(x, width), cute.zeros((ROWS, 1))
    with cute.when(cute.any(cute.row_max(values) > 0.0, local=True)):
        kept.assign(cute.row_max(cute.maximum(values, 0.0)))
    store(y, kept)


@cute.kernel
def loops(x, y, *, width=NARROW):
    top, kept = cute.row_max(tile(x, width)), cute.zeros((ROWS, 1))
    some = cute.any(top > 0.0, local=True)
    with cute.when(some):
        kept.assign(top * 0.0)
    for _ in cute.range(some.to(cute.i32)):
        kept.assign(kept + cute.row_max(cute.maximum(tile(x, width), 0.0)))
    store(y, kept)


@pytest.mark.some(5)
@pytest.mark.parametrize("width", [NARROW, WIDE])
@pytest.mark.parametrize("program", [changes_registers, asks_all, stores, adds_up, loops])
def test_warps_decide_for_rows_of_their_own_in_registers(program, width):
    out, warps = run(program, width)
    np.testing.assert_array_equal(out, numbers(width).max(1).clip(min=0))
    is_alone = program in (changes_registers, adds_up) and width == NARROW
    assert warps == (1 if is_alone else None)


@pytest.mark.some(2)
@pytest.mark.parametrize("masks", [{}, {"causal": True}])
@pytest.mark.parametrize("schedule", ["overlap = yes", "overlap = turns"])
def test_attention_scales_where_rows_of_a_warp_grew(schedule, masks):
    found, ptx = conditions(f"tile = (128,64), {schedule}", **masks)
    assert found[0] == "local, warps = 1 : i32"
    assert "vote.sync.any" in ptx


@pytest.mark.some(2)
@pytest.mark.usefixtures("looks_first")
@pytest.mark.parametrize(
    ("rows", "schedule", "masks"),
    [(None, "overlap = no", {}), (2047, "", {}), (None, "", {"window": (100, 0)})],
)
def test_attention_to_few_blocks_scales_in_each(rows, schedule, masks):
    found, ptx = conditions(f"tile = (128,64), {schedule}".rstrip(", "), rows, **masks)
    assert not any("warps = 1" in each for each in found)
    assert "vote.sync.any" not in ptx


@cute.kernel
def nests(x, y, *, width=NARROW):
    top, kept = cute.row_max(tile(x, width)), cute.zeros((ROWS, 1))
    with cute.when(cute.any(top > 0.0, local=True)):
        kept.assign(cute.where(top > 0.0, 1.0, 0.0))
        with cute.when(cute.any(top > 2.0, local=True)):
            kept.assign(cute.where(top > 0.0, top, 0.0))
        with cute.otherwise():
            kept.assign(cute.where(top > 0.0, top, kept))
    store(y, kept)


def test_warps_decide_on_conditions_within_others():
    x, out = numbers(NARROW), np.full((ROWS, 1), 99, np.float32)
    options = {"arch": "sm_80", "backend": "emulator", "schedule": "warps = (4,1)"}
    kernel = cute.compile(nests, x, out, **options)
    kernel.launch(x, out)
    np.testing.assert_array_equal(out[:, 0], x.max(1).clip(min=0))
    assert kernel.ptx.count("vote.sync.any") == 2
    assert "bar.red" not in kernel.ptx


def conditions(schedule, rows=None, **masks):
    spec = cute.TensorSpec((1, 4, rows, 64), cute.f16)
    options = {"arch": "sm_90a", "schedule": schedule, **masks}
    kernel = cute.compile(cute.attention, spec, spec, spec, **options)
    return re.findall(r"cute\.any %\w+ \{([^}]*)\}", kernel.stages["cute-synchronize"]), kernel.ptx
