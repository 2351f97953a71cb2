"""Tiles of attention's backward pass: the widest whose values a thread has registers for."""

from __future__ import annotations

import pytest

from cutedialect.choosing.attention_backward_space import (
    ATTENTION_BACKWARD,
    open_parameters,
    streamed,
)
from cutedialect.choosing.attention_problem import AttentionBackwardProblem
from cutedialect.choosing.choose import choose
from cutedialect.schedule import Schedule


def chosen(**facts):
    depth = facts.pop("d", 128)
    dims = depth, facts.pop("width", depth)
    return choose(ATTENTION_BACKWARD, AttentionBackwardProblem(dims, **facts))


@pytest.mark.parametrize(
    ("facts", "tile", "warps"),
    [
        ({"d": 64}, (128, 128), (8, 1)),
        ({"d": 64, "group": 4, "is_sliced": True, "is_masked": True}, (128, 128), (8, 1)),
        ({"d": 64, "has_window": True}, (128, 64), (8, 1)),
        ({"d": 64, "is_capped": True}, (128, 64), (8, 1)),
        ({}, (128, 64), (8, 1)),
        ({"group": 4}, (128, 64), (8, 1)),
        ({"rows": 4096}, (128, 80), (8, 1)),
        ({"rows": 4096, "d": 96}, (128, 64), (8, 1)),
        ({"rows": 4096, "is_masked": True}, (128, 64), (8, 1)),
        ({"rows": 512}, (128, 64), (8, 1)),
        ({"has_window": True}, (128, 64), (8, 1)),
        ({"is_sliced": True, "group": 8}, (128, 64), (8, 1)),
        ({"is_capped": True}, (64, 64), (4, 1)),
        ({"d": 192, "adds": False}, (64, 64), (4, 1)),
        ({"d": 192, "adds": False, "is_capped": True}, (64, 64), (4, 2)),
        ({"d": 64, "adds": False, "is_sliced": True}, (128, 64), (8, 1)),
        ({"d": 256, "adds": False, "is_capped": True, "group": 2}, (64, 32), (4, 2)),
    ],
)
def test_tiles_of_warpgroups(facts, tile, warps):
    """Each of these assembles without a spill; a cap takes the registers of tangents."""
    schedule = chosen(**facts)
    assert (schedule.tile, schedule.warps) == (tile, warps)


@pytest.mark.parametrize(
    ("facts", "tile", "warps"),
    [
        ({"d": 48}, (64, 64), (4, 1)),
        ({"d": 64}, (64, 32), (4, 1)),
        ({"d": 64, "is_masked": True}, (64, 32), (4, 1)),
        ({"d": 64, "is_sliced": True}, (64, 64), (4, 2)),
        ({"d": 80}, (64, 32), (4, 1)),
        ({"d": 96}, (64, 64), (4, 2)),
        ({"d": 80, "has_window": True}, (64, 64), (4, 2)),
        ({"d": 112, "group": 2}, (32, 32), (2, 2)),
        ({"d": 128}, (64, 32), (4, 2)),
        ({"d": 128, "is_sliced": True, "group": 8}, (64, 32), (4, 2)),
    ],
)
def test_tiles_of_warps_alone(facts, tile, warps):
    """What a loop keeps beside, slices, say, takes the registers of one warp for 16 keys."""
    for arch in ("sm_80", "sm_89", "sm_120a"):
        schedule = chosen(arch=arch, **facts)
        assert (schedule.tile, schedule.warps) == (tile, warps)


@pytest.mark.parametrize(
    ("facts", "tile"),
    [
        ({"d": 64}, (128, 128)),
        ({"d": 128, "is_masked": True, "group": 4}, (128, 128)),
        ({"d": 128, "is_capped": True}, (128, 128)),
        ({"d": 128, "is_capped": True, "is_sliced": True, "group": 4}, (128, 128)),
        ({"d": 112, "is_sliced": True, "group": 4}, (128, 64)),
        ({"d": 128, "loads_boxes": False}, (64, 32)),
        ({"d": 192, "adds": False}, (128, 64)),
        ({"d": 192, "width": 128, "adds": False}, (128, 64)),
        ({"d": 256, "width": 128, "adds": False}, (128, 64)),
        ({"d": 256, "adds": False}, (128, 64)),
        ({"d": 256, "adds": False, "loads_boxes": False}, (64, 16)),
    ],
)
def test_tiles_in_tensor_memory(facts, tile):
    """Where its lanes hold the keys of a block: a role adds the gradients of queries."""
    schedule = chosen(arch="sm_100a", **facts)
    assert schedule.tile == tile
    assert (schedule.plan.taking("adds") is not None) == (tile[0] == 128)


@pytest.mark.parametrize(
    ("dims", "arch", "is_apart"),
    [
        ((192, 192), "sm_100a", False),
        ((224, 192), "sm_100a", True),
        ((256, 256), "sm_100a", True),
        ((256, 256), "sm_90a", False),
    ],
)
def test_gradients_apart(dims, arch, is_apart):
    """Where tensor memory lacks columns for both beside scores and slopes."""
    problem = AttentionBackwardProblem(dims, adds=False, arch=arch)
    schedule = choose(ATTENTION_BACKWARD, problem)
    values = open_parameters(problem, schedule)["values"]
    assert (values is not None) == is_apart


@pytest.mark.parametrize(
    ("facts", "keys"),
    [
        ({"d": 128, "group": 4, "is_masked": True}, 64),
        ({"d": 192}, 64),
        ({"d": 192, "group": 4, "is_masked": True}, 32),
        ({"d": 192, "is_capped": True, "is_masked": True}, 32),
        ({"d": 256, "is_masked": True}, 32),
        ({"d": 256, "group": 4, "is_masked": True}, 16),
    ],
)
def test_keys_of_a_block_of_the_pass_over_them(facts, keys):
    """Fewer where a loop keeps more beside the gradients of wide heads: these spilled."""
    depth = facts["d"]
    problem = AttentionBackwardProblem(
        (depth, depth),
        adds=False,
        loads_boxes=False,
        **{name: fact for name, fact in facts.items() if name != "d"},
    )
    tile = streamed(problem, choose(ATTENTION_BACKWARD, problem)).tile
    assert tile is not None
    assert tile[0] == keys


@pytest.mark.parametrize(
    ("facts", "tile"),
    [
        ({"d": 256}, (32, 128)),
        ({"d": 192, "rows": 4096, "sequences": 32}, (48, 128)),
        ({"d": 192, "rows": 512, "sequences": 16}, (48, 64)),
        ({"d": 128}, (64, 128)),
        ({"d": 128, "is_capped": True}, (64, 64)),
        ({"d": 160, "loads_boxes": False}, (64, 64)),
        ({"d": 128, "arch": "sm_80"}, (64, 32)),
        ({"d": 128, "arch": "sm_100a"}, (64, 128)),
        ({"d": 256, "arch": "sm_100a"}, (48, 128)),
        ({"d": 256, "arch": "sm_100a", "loads_boxes": False}, (32, 16)),
    ],
)
def test_tiles_of_the_pass_over_the_keys(facts, tile):
    """Two warpgroups, unless registers lack, or one each leaves processors idle."""
    facts = dict(facts)
    depth = facts.pop("d")
    problem = AttentionBackwardProblem((depth, depth), adds=False, **facts)
    schedule = streamed(problem, choose(ATTENTION_BACKWARD, problem))
    assert schedule.tile == tile


@pytest.mark.parametrize("roles", ["uniform", "(load 1: loads; main *: rest)"])
def test_another_plan_has_no_rings_of_a_row(roles):
    given = Schedule(roles=roles)
    problem = AttentionBackwardProblem((128, 128), arch="sm_100a")
    schedule = choose(ATTENTION_BACKWARD, problem, given)
    assert (schedule.roles, schedule.ring_stages, schedule.tile) == (roles, None, (64, 32))


def test_fields_of_a_schedule_are_kept():
    schedule = Schedule(tile=(64, 64))
    problem = AttentionBackwardProblem((128, 128))
    assert choose(ATTENTION_BACKWARD, problem, schedule).tile == (64, 64)


def test_blocks_of_unequal_length_begin_with_the_longest_of_many_heads():
    assert chosen(is_masked=True).order == "sections"
    assert chosen().order is None
    assert chosen(is_masked=True, has_window=True).order is None
    # L2 holds the rows of few heads of 256.
    wide = chosen(d=256, is_masked=True, adds=False)
    assert (wide.order, wide.epilogue) == (None, "direct")


def test_trips_have_two_stages_and_results_leave_registers_where_slices_keep_more():
    for facts in ({}, {"is_sliced": True}, {"group": 4}, {"rows": 16384, "is_masked": True}):
        schedule = chosen(**facts)
        assert (schedule.overlap, schedule.stages, schedule.epilogue) == ("no", 2, None)
    assert chosen(is_sliced=True, group=4).epilogue == "direct"
    narrow = chosen(d=64)
    assert (narrow.overlap, narrow.stages, narrow.polynomials) == ("no", 2, (5, 3))
    assert chosen(d=64, is_sliced=True).polynomials is None


@pytest.mark.parametrize(
    ("facts", "keys"),
    [
        ({"d": 160, "is_masked": True}, 64),
        ({"d": 192}, 64),
        ({"d": 192, "is_masked": True}, 32),
        ({"d": 192, "is_sliced": True}, 32),
        ({"d": 192, "is_masked": True, "group": 4}, 16),
        ({"d": 256, "is_masked": True}, 32),
    ],
)
@pytest.mark.parametrize("arch", ["sm_80", "sm_100a", "sm_120a"])
def test_keys_of_a_block_of_warps_alone(facts, keys, arch):
    """Fewer than of warpgroups for the bounds of masks and of slices: these spilled."""
    facts = dict(facts)
    depth = facts.pop("d")
    problem = AttentionBackwardProblem(
        (depth, depth), adds=False, arch=arch, loads_boxes=False, **facts
    )
    tile = streamed(problem, choose(ATTENTION_BACKWARD, problem)).tile
    assert tile is not None
    assert tile[0] == keys
