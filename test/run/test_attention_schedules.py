"""What `cute.attention` takes by default: the tile, its warpgroups and how they overlap, by what is
known of the work.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from cutedialect.frontend.library.attention_schedules import AttentionWork, choose_schedule
from cutedialect.schedule import Schedule

SMALL = AttentionWork((128, 128), bits=8, bits_q=8)
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
        ({"bits_q": 16}, (64, 128), "turns"),
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
