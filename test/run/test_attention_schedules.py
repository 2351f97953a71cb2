"""What `cute.attention` takes by default: the tile, its warpgroups and how they overlap, by what is
known of the work.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutedialect.frontend.library.attention_schedules import AttentionWork, choose_schedule
from cutedialect.schedule import Schedule

SMALL = AttentionWork((128, 128), bits=8, bits_q=8)
WIDE = AttentionWork((128, 128))
WINDOW = AttentionWork((128, 128), is_uneven=True, keeps_more=True, has_window=True)


def chosen(given=None, **more):
    schedule = choose_schedule(replace(SMALL, **more), "sm_90a", given and Schedule.parse(given))
    return schedule.tile, schedule.warps, schedule.overlap


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rows": 2048, "keys": 2048},
        {"rows": 16384, "keys": 16384, "is_uneven": True},
        {"is_uneven": True, "keeps_more": True},
        {"is_uneven": True, "keeps_more": True, "is_sliced": True, "is_packed": True},
        {"dims": (128, 64), "group": 4},
        {"dims": (96, 96)},
        {"dims": (64, 96)},
    ],
)
def test_many_rows_of_8_bits_go_to_three_warpgroups(more):
    assert chosen(**more) == ((192, 96), (12, 1), "yes")


@pytest.mark.parametrize(
    ("more", "tile", "overlap"),
    [
        ({"rows": 2047}, (128, 192), "yes"),
        ({"rows": 1}, (64, 192), "yes"),
        ({"dims": (64, 64)}, (128, 192), "yes"),
        ({"dims": (128, 192)}, (128, 96), "yes"),
        ({"is_paged": True, "is_sliced": True}, (128, 128), "yes"),
        ({"loads_boxes": False}, (128, 192), "no"),
        ({"is_uneven": True, "is_packed": True, "group": 4}, (128, 192), "yes"),
        ({"bits_q": 16}, (64, 128), "yes"),
        ({"bits_q": 16, "dims": (64, 64)}, (128, 128), "yes"),
    ],
)
def test_other_work_of_8_bits_goes_to_two_warpgroups_at_most(more, tile, overlap):
    assert chosen(**more) == (tile, None, overlap)


@pytest.mark.parametrize(
    ("given", "overlap"),
    [
        ("tile = (192,64)", "yes"),
        ("tile = (128,192)", "yes"),
        ("tile = (64,96)", "yes"),
        ("tile = (192,96), overlap = turns", "turns"),
    ],
)
def test_the_overlap_follows_a_tile_that_is_given(given, overlap):
    tile = Schedule.parse(given).tile
    assert chosen(given) == (tile, None, overlap)


def test_three_warpgroups_hide_the_exponentials_of_narrow_heads():
    for rows, tile in ((None, (192, 128)), (192, (192, 128)), (191, (128, 128))):
        schedule = choose_schedule(AttentionWork((64, 64), rows), "sm_90a")
        assert schedule.tile == tile
        assert schedule.overlap == ("turns" if tile[0] == 192 else "yes")


def wide(given=None, causal=False, **more):
    work = replace(WIDE, is_uneven=causal, **more)
    schedule = choose_schedule(work, "sm_90a", given and Schedule.parse(given))
    return schedule.tile, schedule.warps, schedule.overlap


def square(extent, heads=None, **more):
    return {"rows": extent, "keys": extent, "heads": heads, **more}


@pytest.mark.parametrize(
    "more",
    [
        {},
        square(2048),
        square(2048, 128),
        square(4096, 64),
        square(8192, 32),
        square(16384, 16),
        square(4096, keeps_more=True),
        square(4096, group=4),
        {"rows": 192, "keys": 2048},
        {"dims": (112, 112)},
        {"dims": (128, 64)},
        {"dims": (64, 112)},
        {"given": "stages = 1, raster = 4"},
    ],
)
def test_three_warpgroups_share_tiles_of_wide_heads(more):
    assert wide(**more) == ((192, 80), (12, 1), "turns")


@pytest.mark.parametrize(
    "more",
    [
        square(8192),
        square(8192, 32),
        square(16384, 16),
        square(8192, 64, group=4),
        square(16384, 16, keeps_more=True),
        {"keys": 8192},
    ],
)
def test_they_do_with_a_causal_mask_where_keys_are_many(more):
    """One that hides nothing from whole blocks lets them take turns."""
    assert wide(causal=True, **more) == ((192, 80), (12, 1), "yes")


def test_logarithms_of_shared_heads_leave_no_registers_for_turns():
    assert wide(keeps_more=True, group=4) == ((192, 80), (12, 1), "yes")


@pytest.mark.parametrize(
    "more",
    [
        # Blocks of fewer keys scale more often, where that is not rare.
        square(1024),
        {"keys": 2047},
        # Tiles of 192 rows that are not full.
        {"rows": 128},
        {"rows": 200},
        {"rows": 640, "keys": 8192},
        # As many waves as with tiles of 128, or tiles for a part of the processors.
        square(2048, 16),
        square(4096, 32),
        square(2048, 11),
        square(16384, 1),
        square(2112, 8),
        # A causal mask cuts tiles of few keys.
        square(4096, causal=True),
        square(8192, 4, causal=True),
        {"rows": 1024, "keys": 8192, "causal": True},
        {"rows": 2048, "keys": 32768, "heads": 32, "causal": True},
        {"causal": True},
        # Other work.
        {"dims": (128, 144)},
        {"bits": 8},
        {"loads_boxes": False},
        {"stores_boxes": False},
        {"bits_out": 32},
        {"is_sliced": True, "is_packed": True, "causal": True},
        {"is_sliced": True, "keys": 8192},
        {"has_window": True, "keys": 8192, "causal": True},
        # They have no registers for what may be given.
        {"given": "overlap = yes"},
        {"given": "cluster = (2,1)"},
        {"given": "split_k = 2"},
        {"given": "warps = (8,1)"},
        {"given": "scheduler = dynamic"},
    ],
)
def test_other_wide_heads_go_to_two_warpgroups_at_most(more):
    tile, _, _ = wide(**more)
    assert tile is not None
    assert tile[0] <= 128


@pytest.mark.parametrize("dims", [(96, 96), (80, 80), (64, 96), (88, 40)])
@pytest.mark.parametrize(
    "more",
    [
        {},
        {"rows": 192, "keys": 2048},
        square(4096, 64, keeps_more=True, group=4),
        square(2048, 128, causal=True),
        {"keys": 2048, "causal": True},
    ],
)
def test_heads_of_up_to_96_have_registers_for_more_keys(dims, more):
    assert wide(dims=dims, **more) == ((192, 96), (12, 1), "yes")


@pytest.mark.parametrize(
    "more", [{"keys": 2047}, {"keys": 2047, "causal": True}, {"causal": True}, {"rows": 128}]
)
def test_fewer_keys_of_them_do_not_pay(more):
    assert wide(dims=(96, 96), **more)[0][0] <= 128


def test_the_end_of_few_masked_tiles_is_waited_for():
    """344 tiles of 192 rows are 2.6 waves, of 128 rows 3.9: the first take 7 % longer."""
    tiles = {heads: wide(**square(8192, heads, causal=True))[0] for heads in (8, 32)}
    assert tiles == {8: (128, 128), 32: (192, 80)}


def test_waves_are_those_of_the_processors_that_there_are():
    """352 tiles of 192 rows fill four waves of 88, and 512 of 128 rows nearly six."""
    tiles = {count: wide(**square(4096, 16, processors=count))[0] for count in (88, 132)}
    assert tiles == {88: (192, 80), 132: (128, 128)}


def test_the_overlap_of_wide_heads_follows_a_tile_that_is_given():
    assert wide("tile = (192,80)") == ((192, 80), None, "turns")
    assert wide("tile = (192,80)", causal=True) == ((192, 80), None, "yes")
    assert wide("tile = (128,128)", **square(8192, causal=True)) == ((128, 128), None, "yes")


@pytest.mark.parametrize("more", [{}, {"bits": 8, "bits_q": 8, "dims": (128, 128)}])
def test_masked_tiles_of_what_tma_does_not_store_have_two_warpgroups_at_most(more):
    work = replace(AttentionWork((64, 64), stores_boxes=False), **more)
    for is_uneven, rows in ((False, 192), (True, 128)):
        tile = choose_schedule(replace(work, is_uneven=is_uneven), "sm_90a").tile
        assert tile is not None
        assert tile[0] == rows


@pytest.mark.parametrize(
    "more",
    [{}, {"dims": (96, 96)}, {"dims": (64, 128)}, {"group": 4}, {"is_packed": True}, {"rows": 128}],
)
def test_tiles_of_a_window_begin_beside_the_end_of_the_one_before(more):
    schedule = choose_schedule(replace(WINDOW, **more), "sm_90a")
    assert (schedule.overlap_tiles, schedule.overlap) == ("yes", "yes")


@pytest.mark.parametrize(
    ("more", "given"),
    [
        ({"has_window": False}, None),
        ({"dims": (64, 64)}, None),
        ({"dims": (192, 128)}, None),
        ({"rows": 64}, None),
        ({"bits": 8, "bits_q": 8}, None),
        ({"loads_boxes": False}, None),
        ({"is_paged": True}, None),
        ({"is_packed": True, "group": 4}, None),
        ({}, "tile = (128,64)"),
        ({}, "cluster = (2,1)"),
    ],
)
def test_other_tiles_come_one_after_the_other(more, given):
    schedule = choose_schedule(replace(WINDOW, **more), "sm_90a", given and Schedule.parse(given))
    assert schedule.overlap_tiles is None
