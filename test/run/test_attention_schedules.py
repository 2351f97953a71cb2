"""What `cute.attention` takes by default: the tile, its warpgroups and how they overlap, by what is
known of the work.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

import cutedialect as cute
from cutedialect.atoms import target
from cutedialect.frontend.attention_splits import Work, parts_of
from cutedialect.frontend.library.attention_schedules import (
    choose_schedule,
    maxima,
    meets_at,
    packed,
    summed_by,
    tile_columns,
)
from cutedialect.frontend.library.attention_work import AttentionWork
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


def taken(given=None, causal=False, **more):
    work = replace(AttentionWork((128, 128), is_uneven=causal), **more)
    schedule = choose_schedule(work, "sm_90a", given and Schedule.parse(given))
    return schedule.tile, schedule.warps, schedule.overlap


@pytest.mark.parametrize(
    ("dims", "keys", "fewer"),
    [
        ((32, 32), 96, 96),
        ((64, 64), 96, 96),
        ((96, 96), 96, 80),
        ((80, 80), 96, 80),
        ((64, 96), 96, 80),
        ((88, 40), 96, 80),
        ((112, 112), 80, 64),
        ((112, 64), 80, 64),
    ],
)
@pytest.mark.parametrize("causal", [False, True])
def test_three_warpgroups_share_tiles_of_narrow_heads(dims, keys, fewer, causal):
    few = {"causal": causal, "dims": dims, "keys": 2047}
    assert taken(**few) == ((192, keys), (12, 1), "yes")
    assert taken(**few, keeps_more=True)[0] == (192, fewer)


@pytest.mark.parametrize(
    ("more", "tile", "unroll"),
    [
        ({}, (128, 128), 2),
        ({"keys": 2047}, (128, 128), None),
        ({"is_packed": True, "rows": 2047}, (128, 128), None),
        ({"spills": 1}, (128, 128), None),
        ({"is_f16": True}, (128, 128), 2),
        ({"dims": (64, 64)}, (192, 96), 2),
        ({"dims": (32, 32)}, (192, 96), None),
        ({"dims": (32, 32), "is_f16": True}, (192, 96), 2),
        ({"dims": (96, 96)}, (192, 80), 2),
        ({"dims": (96, 96), "keys": 1024}, (192, 96), None),
        ({"dims": (80, 80), "is_uneven": True}, (192, 96), None),
        ({"dims": (112, 112), "is_uneven": True}, (192, 64), 2),
        ({"dims": (192, 192)}, (128, 96), None),
        ({"dims": (192, 192), "is_f16": True}, (128, 96), 2),
        ({"dims": (256, 256), "is_f16": True}, (128, 64), None),
        ({"group": 4, "keeps_more": True, "returns_lse": True}, (128, 128), None),
        ({"has_window": True, "keeps_more": True, "sees": 1024}, (128, 128), 2),
        ({"has_window": True, "keeps_more": True, "sees": 1023}, (128, 128), None),
        ({"bits": 8, "bits_q": 8}, (192, 96), None),
        ({"sequences": 8, "rows": 2048, "keys": 4096}, (128, 128), None),
    ],
)
def test_two_blocks_take_turns_where_rows_see_many_and_registers_suffice(more, tile, unroll):
    found = choose_schedule(replace(AttentionWork((128, 128)), **more), "sm_90a")
    assert (found.tile, found.unroll) == (tile, unroll)


@pytest.mark.parametrize(
    ("more", "sums"),
    [
        ({}, (2, 1)),
        ({"is_uneven": True}, (4, 1)),
        ({"is_uneven": True, "is_f16": True}, (2, 1)),
        ({"is_uneven": True, "has_window": True}, (4, 4)),
        ({"dims": (192, 192)}, (1, 1)),
        ({"dims": (48, 48)}, (8, 1)),
    ],
)
def test_unmasked_rows_add_pairs(more, sums):
    work = replace(AttentionWork((128, 128)), **more)
    assert packed(work, choose_schedule(work, "sm_90a"), "sm_90a") == sums


@pytest.mark.parametrize(
    "given", ["unroll = 1", "tile = (128,64)", "maxima = lazy", "maxima = exact"]
)
def test_blocks_take_no_turns_where_what_is_given_is_against_it(given):
    found = choose_schedule(AttentionWork((128, 128)), "sm_90a", Schedule.parse(given))
    assert found.unroll in (None, 1)


@pytest.mark.parametrize(
    ("more", "scheduler"), [({"is_f16": True}, "dynamic"), ({}, None),
                            ({"is_f16": True, "dims": (256, 256)}, None)]
)  # fmt: skip
def test_tiles_of_guesses_of_f16_are_claimed(more, scheduler):
    work = replace(AttentionWork((128, 128)), **more)
    assert choose_schedule(work, "sm_90a").scheduler == scheduler


@pytest.mark.parametrize("dims", [(64, 64), (96, 96)])
@pytest.mark.parametrize(
    ("causal", "rows", "tile"), [(False, 192, 192), (False, 191, 128), (True, 2048, 192),
                                 (True, 2047, 128), (False, 60, 64)]
)  # fmt: skip
def test_they_do_where_rows_are_many(dims, causal, rows, tile):
    found, _, overlap = taken(causal=causal, dims=dims, rows=rows)
    assert found is not None
    assert (found[0], overlap) == (tile, "yes")


@pytest.mark.parametrize(
    "more",
    [
        {"dims": (128, 128)},
        {"dims": (128, 64)},
        {"dims": (112, 128)},
        {"dims": (192, 128)},
        {"bits": 8},
        {"loads_boxes": False},
        {"stores_boxes": False},
        {"bits_out": 32},
        {"is_paged": True, "is_sliced": True},
        {"is_sliced": True, "is_packed": True, "causal": True},
        {"is_sliced": True},
        {"has_window": True, "causal": True, "keeps_more": True},
        {"has_window": True, "causal": True, "keeps_more": True, "dims": (64, 64)},
    ],
)
def test_other_work_goes_to_two_warpgroups_at_most(more):
    tile, _, _ = taken(**({"dims": (96, 96)} | more))
    assert tile is not None
    assert tile[0] <= 128


@pytest.mark.parametrize(
    ("more", "tile"),
    [
        ({}, (192, 80)),
        ({"is_uneven": True}, (192, 80)),
        ({"is_uneven": True, "group": 2}, (192, 64)),
        ({"group": 2}, (192, 80)),
        ({"keeps_more": True}, (192, 64)),
        ({"is_uneven": True, "group": 2, "dims": (96, 96)}, (192, 96)),
    ],
)
def test_heads_of_112_have_few_registers_for_keys(more, tile):
    work = replace(AttentionWork((112, 112), keys=1024), **more)
    assert choose_schedule(work, "sm_90a").tile == tile


def test_windows_on_heads_of_112_go_to_three():
    more = {"has_window": True, "keeps_more": True, "causal": True}
    assert taken(dims=(112, 112), **more) == ((192, 64), (12, 1), "yes")


@pytest.mark.parametrize(
    ("more", "given"),
    [
        ({}, None),
        ({"dims": (64, 64)}, None),
        ({"dims": (96, 96)}, None),
        ({"dims": (112, 112), "keeps_more": True}, None),
        ({"dims": (192, 192)}, None),
        ({"dims": (256, 256), "is_uneven": True}, None),
        ({"rows": 64}, None),
        ({"keeps_more": True, "is_uneven": True, "has_window": True}, None),
        ({"keeps_more": True, "is_uneven": True, "is_sliced": True, "is_packed": True}, None),
        ({"dims": (64, 64)}, "tile = (128,176)"),
        ({}, "overlap = turns"),
    ],
)
def test_exponentials_count_from_the_largest_score_of_the_blocks_before(more, given):
    assert maxima(*optimism(more, given)) == "guessed"


@pytest.mark.parametrize(
    ("more", "given"),
    [
        ({}, "overlap = no"),
        ({}, "tile = (128,160)"),
        ({}, "tile = (192,80)"),
        ({"dims": (96, 96), "keeps_more": True}, "tile = (192,96)"),
        ({"dims": (192, 192), "keeps_more": True}, None),
        ({"dims": (256, 256)}, None),
        ({"bits": 8, "bits_q": 8}, None),
        ({"bits": 8}, None),
        ({"loads_boxes": False}, None),
        ({"dims": (256, 256), "is_uneven": True, "spills": 1}, None),
        ({"is_paged": True, "is_sliced": True}, None),
        ({"has_window": True, "is_sliced": True, "keeps_more": True, "is_uneven": True}, None),
    ],
)
def test_other_work_looks_for_it_first(more, given):
    assert maxima(*optimism(more, given)) != "guessed"


def optimism(more, given):
    work = replace(AttentionWork((128, 128)), **more)
    return work, choose_schedule(work, "sm_90a", given and Schedule.parse(given))


@pytest.mark.parametrize("more", [{}, {"bits": 8, "bits_q": 8, "dims": (128, 128)}])
def test_masked_tiles_of_what_tma_does_not_store_have_two_warpgroups_at_most(more):
    work = replace(AttentionWork((64, 64), stores_boxes=False), **more)
    for is_uneven, rows in ((False, 192), (True, 128)):
        tile = choose_schedule(replace(work, is_uneven=is_uneven), "sm_90a").tile
        assert tile is not None
        assert tile[0] == rows


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"dims": (96, 96)},
        {"dims": (64, 128)},
        {"dims": (64, 64)},
        {"group": 4},
        {"is_packed": True},
        {"rows": 128},
    ],
)
def test_tiles_of_a_window_begin_with_the_same_keys(more):
    schedule = choose_schedule(replace(WINDOW, **more), "sm_90a")
    assert schedule.overlap == "yes"
    assert meets_at(replace(WINDOW, **more), schedule) == 8


@pytest.mark.parametrize(("more", "loads"), [({}, "no"), ({"is_paged": True}, None)])
def test_one_thread_loads_for_windows_of_narrow_heads(more, loads):
    work = replace(WINDOW, dims=(64, 64), **more)
    assert choose_schedule(work, "sm_90a").split_loads == loads


@pytest.mark.parametrize(
    ("more", "given"),
    [
        ({"has_window": False}, None),
        ({"dims": (192, 128)}, None),
        ({"rows": 64}, None),
        ({"bits": 8, "bits_q": 8}, None),
        ({"loads_boxes": False}, None),
        ({"is_paged": True}, None),
        ({"is_packed": True, "group": 4}, None),
        ({}, "cluster = (2,1)"),
    ],
)
def test_other_tiles_begin_with_their_first_block(more, given):
    work = replace(WINDOW, **more)
    schedule = choose_schedule(work, "sm_90a", given and Schedule.parse(given))
    assert meets_at(work, schedule) == 0


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ({}, [128, 128, 112, 96]),
        ({"dims": (64, 64)}, [96, 96, 80, 64]),
        ({"dims": (64, 64), "keys": 1024}, [96, 80, 64, 48]),
        ({"dims": (256, 256)}, [64, 48, 32, 16]),
        ({"bits": 8, "bits_q": 8}, [96, 64, 32, 32]),
        ({"is_paged": True, "is_sliced": True}, [128, 64, 32, 16]),
    ],
)
def test_blocks_have_fewer_keys_where_the_assembler_spilled(more, keys):
    work = replace(AttentionWork((128, 128)), **more)
    tiles = [choose_schedule(replace(work, spills=n), "sm_90a").tile for n in range(4)]
    assert [tile and tile[1] for tile in tiles] == keys


@pytest.mark.parametrize(
    ("more", "keys"),
    [
        ({}, 128),
        ({"group": 4}, 128),
        ({"is_sliced": True}, 112),
        ({"dims": (96, 96)}, 96),
        ({"dims": (96, 96), "group": 4}, 80),
        ({"is_sliced": True, "is_paged": True}, 128),
        ({"is_sliced": True, "bits": 8, "bits_q": 8}, 96),
    ],
)
def test_a_cap_takes_registers(more, keys):
    work = replace(AttentionWork((128, 128), is_capped=True), **more)
    tile = choose_schedule(work, "sm_90a").tile
    assert tile is not None
    assert tile[1] == keys


def test_slices_of_capped_scores_leave_registers_to_those_that_load():
    work = AttentionWork((64, 64), is_sliced=True, is_uneven=True, keeps_more=True, group=4)
    assert choose_schedule(work, "sm_90a").registers is None
    for more in ({"is_capped": True}, {"spills": 1}):
        chosen = choose_schedule(replace(work, **more), "sm_90a")
        assert chosen.registers == (40, 152)
        assert maxima(work, chosen) == "guessed"


WIDE = AttentionWork((256, 256), is_uneven=True, keeps_more=True)


@pytest.mark.parametrize(
    ("more", "tile", "splits"),
    [
        ({}, (128, 64), None),
        ({"keeps_more": False, "group": 4}, (128, 64), None),
        ({"group": 4}, (128, 48), None),
        ({"has_window": True}, (128, 64), "no"),
        ({"has_window": True, "is_sliced": True, "is_packed": True, "group": 4}, (128, 48), "no"),
    ],
)
def test_heads_of_256_have_few_registers_beside_the_result(more, tile, splits):
    schedule = choose_schedule(replace(WIDE, **more), "sm_90a")
    assert (schedule.tile, schedule.split_loops) == (tile, splits)


SHORT = AttentionWork((96, 96), rows=512, keys=512, sequences=64)


@pytest.mark.parametrize(
    ("more", "rows", "keys", "scheduler"),
    [
        # 4 x 16 heads: two waves of 256 tiles rather than two of 192 larger ones.
        ({}, 128, 128, "dynamic"),
        ({"is_uneven": True}, 128, 128, "dynamic"),
        # A wave of 128 tiles, and one of 128 smaller ones where 64 would leave processors idle.
        ({"rows": 1024, "keys": 1024, "sequences": 16}, 128, 128, "single"),
        ({"rows": 1000, "keys": 1000, "sequences": 8}, 64, 128, "single"),
        # Few keys: blocks of 64.
        ({"rows": 256, "keys": 256, "sequences": 256}, 128, 64, "dynamic"),
        ({"rows": 256, "keys": 256, "sequences": 16, "dims": (128, 128)}, 64, 64, "single"),
        # Many waves: three warpgroups.
        ({"rows": 1024, "keys": 1024, "sequences": 256}, 192, 96, None),
        ({"rows": 4096, "keys": 4096, "sequences": 128, "is_uneven": True}, 192, 96, "dynamic"),
        # Another device.
        ({"sequences": 32, "processors": 64}, 128, 128, "dynamic"),
    ],
)
def test_tiles_of_short_problems_fill_the_processors(more, rows, keys, scheduler):
    found = choose_schedule(replace(SHORT, **more), "sm_90a")
    assert (found.tile, found.scheduler) == ((rows, keys), scheduler)


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


@pytest.mark.parametrize("way", ["exact", "lazy", "guessed"])
def test_a_schedule_forces_how_the_largest_scores_are_kept(way):
    work = AttentionWork((64, 64))
    assert maxima(work, choose_schedule(work, "sm_90a", Schedule(maxima=way))) == way


FEW = AttentionWork((64, 64), rows=1024, keys=1024, sequences=256)
FEW_BEFORE = replace(FEW, rows=2048, keys=2048, is_uneven=True)
FEW_IN_WINDOW = replace(
    FEW, rows=16384, keys=16384, is_uneven=True, keeps_more=True, has_window=True, sees=1025
)


@pytest.mark.parametrize(
    ("more", "given", "way"),
    [
        ({}, None, "multiply"),
        ({"dims": (32, 32)}, None, "multiply"),
        ({"dims": (128, 64)}, "maxima = lazy", "multiply"),
        ({"is_f16": True, "keys": 4096}, None, "multiply"),
        ({}, "maxima = exact", "registers"),
        ({}, "roles = alternate", "registers"),
        ({}, "tile = (32,64), maxima = lazy", "registers"),
        ({}, "warps = (4,2), maxima = lazy", "registers"),
        ({}, "ctas = 4, registers = (24,104), tile = (64,48), maxima = lazy", "registers"),
        ({"dims": (32, 32)}, "ctas = 4, registers = (24,104), tile = (64,64)", "multiply"),
        ({"dims": (64, 128)}, None, "registers"),
        ({"dims": (48, 48)}, None, "registers"),
        ({"is_sliced": True, "is_packed": True}, "tile = (192,96)", "registers"),
        ({"keys": 128}, None, "registers"),
        ({"loads_boxes": False}, "maxima = lazy", "registers"),
    ],
)
def test_narrow_values_have_columns_that_add_up_rows(more, given, way):
    work = replace(AttentionWork((64, 64)), **more)
    found = choose_schedule(work, "sm_90a", Schedule.parse(given) if given else None)
    assert summed_by(work, found, "sm_90a") == way
    assert summed_by(work, found, "sm_100a") == "registers"


def test_ones_leave_room_for_three_ctas_and_two_stages_of_rows():
    spec = cute.TensorSpec((1, 32, 16384, 64), cute.bf16)
    kernel = cute.compile(cute.attention, *[spec] * 3, arch="sm_90a", window=(1024, 0))
    assert "m64n72k16" in kernel.ptx
    assert ", ctas = 3" in kernel.schedule
    assert kernel.program.dynamic_smem <= target("sm_90a").smem_of(3)
    assert "(64,64,2)" in next(
        line for line in kernel.stages["cute-synchronize"].splitlines() if "%sQ = " in line
    )


@pytest.mark.parametrize("work", [FEW, FEW_BEFORE, FEW_IN_WINDOW])
def test_rows_that_see_few_keys_are_computed_by_three_ctas_of_a_processor(work):
    found = choose_schedule(work, "sm_90a")
    assert (found.tile, found.ctas, found.registers) == ((64, 64), 3, (24, 136))
    assert found.scheduler == "dynamic"


@pytest.mark.parametrize(
    ("more", "tile", "ctas", "scheduler"),
    [
        # Few tiles are dealt out in advance, and very few of two CTAs.
        ({"sequences": 64}, (64, 64), 3, "persistent"),
        ({"sequences": 16}, (64, 128), 2, "persistent"),
        ({"sequences": 32, "keys": 100}, (64, 112), 2, "persistent"),
        # No more than it takes to compute all at once.
        ({"sequences": 12, "rows": 774, "dims": (32, 32)}, (64, 64), 2, "persistent"),
        ({"sequences": 20, "dims": (32, 32)}, (64, 64), 3, "persistent"),
        # Of wider heads, and of few rows, as many as it takes to compute all at once.
        ({"sequences": 180, "rows": 26, "keys": 26, "dims": (96, 96)}, (64, 32), 2, "persistent"),
        ({"sequences": 300, "rows": 40, "keys": 40, "dims": (80, 80)}, (64, 32), 3, "persistent"),
        ({"sequences": 140, "rows": 9, "keys": 200, "dims": (32, 32)}, (64, 64), 2, "persistent"),
        (
            {"sequences": 50, "rows": 300, "keys": 300, "dims": (128, 128)},
            (64, 64),
            2,
            "persistent",
        ),
        ({"sequences": 106, "rows": 65, "keys": 65, "dims": (192, 192)}, (64, 32), 2, "persistent"),
        # Two of them where rows see few keys.
        (
            {
                "sequences": 200,
                "rows": 96,
                "keys": 96,
                "dims": (80, 80),
                "has_window": True,
                "is_uneven": True,
                "sees": 25,
            },
            (64, 32),
            2,
            "dynamic",
        ),
        ({"sequences": 2000, "rows": 80, "keys": 80, "dims": (128, 128)}, (64, 32), 2, "dynamic"),
        ({"dims": (32, 32)}, (64, 64), 4, "dynamic"),
        ({"dims": (32, 64)}, (64, 64), 3, "dynamic"),
        (
            {"rows": 110, "is_packed": True, "is_sliced": True, "sequences": 64},
            (64, 64),
            3,
            "dynamic",
        ),
    ],
)
def test_ctas_of_a_processor_are_as_many_as_heads_and_tiles_allow(more, tile, ctas, scheduler):
    found = choose_schedule(replace(FEW, **more), "sm_90a")
    assert (found.tile, found.ctas, found.scheduler) == (tile, ctas, scheduler)


@pytest.mark.parametrize(
    ("work", "more"),
    [
        (FEW, {"keys": 4096}),
        (FEW_BEFORE, {"rows": 4096, "keys": 4096}),
        (FEW_IN_WINDOW, {"sees": 8193}),
        # One side alone: as many keys as there are.
        (FEW_IN_WINDOW, {"sees": None}),
        # One tile of each head, whose processors wait for memory.
        (FEW, {"rows": 64, "sequences": 4096}),
        # Registers and shared memory.
        (FEW, {"dims": (128, 128)}),
        (FEW, {"is_capped": True}),
        (FEW, {"loads_boxes": False}),
        (FEW_BEFORE, {"is_sliced": True}),
        # Among sequences of many rows some may see many keys.
        (FEW_BEFORE, {"is_sliced": True, "is_packed": True}),
        # Boxes of half of a row of swizzled shared memory.
        (FEW, {"dims": (48, 48)}),
        (FEW, {"is_padded": True}),
    ],
)
def test_others_have_a_processor_each(work, more):
    assert choose_schedule(replace(work, **more), "sm_90a").ctas is None


@pytest.mark.parametrize(
    ("more", "early"),
    [
        ({"sequences": 16}, "yes"),
        # Two and a half tiles for each CTA, which land on any processor when they start early.
        ({"rows": 256, "keys": 256, "sequences": 256}, None),
        ({"rows": 192, "keys": 192, "sequences": 264}, "yes"),
        ({"rows": 256, "keys": 256, "sequences": 256, "dims": (96, 96)}, "yes"),
        ({"sequences": 256}, None),
        ({"dims": (256, 256), "rows": 512, "keys": 512, "is_uneven": True}, "yes"),
        ({"dims": (256, 256), "rows": 512, "keys": 512, "sequences": 512}, None),
        ({"rows": 1, "keys": 65536, "sequences": 128, "group": 4}, None),
        ({"sequences": None}, None),
        ({"bits": 8, "bits_q": 8, "sequences": 16}, None),
    ],
)
def test_short_launches_start_early_where_that_leaves_processors_alike(more, early):
    assert choose_schedule(replace(FEW, **more), "sm_90a").early_launch == early


def test_few_of_the_widest_heads_are_computed_together_where_keys_are_few():
    work = replace(FEW, dims=(256, 256), rows=512, keys=512, is_uneven=True)
    assert choose_schedule(work, "sm_90a").raster == 16
    assert choose_schedule(replace(work, dims=(128, 128)), "sm_90a").raster == 32


@pytest.mark.parametrize(("keys", "loads"), [(222, "no"), (8192, None)])
def test_one_thread_loads_for_a_single_tile_with_few_keys(keys, loads):
    work = AttentionWork((256, 256), rows=222, keys=keys, sequences=34)
    found = choose_schedule(work, "sm_90a")
    assert (found.scheduler, found.split_loads) == ("single", loads)


def test_a_default_that_spills_gives_way_to_one_ctas():
    first, second = (choose_schedule(replace(FEW, spills=n), "sm_90a") for n in (1, 2))
    assert first == choose_schedule(replace(FEW, sequences=None), "sm_90a").merged(
        Schedule(scheduler=first.scheduler)
    )
    assert second.tile is not None
    assert first.tile is not None
    assert second.tile[1] < first.tile[1]


@pytest.mark.parametrize(
    "given", ["tile = (128,64)", "ctas = 1", "warps = (8,1)", "registers = (40,232)"]
)
def test_what_is_given_is_kept(given):
    assert choose_schedule(FEW, "sm_90a", Schedule.parse(given)).ctas in (None, 1)


@pytest.mark.parametrize(
    ("depth", "bits", "boxes", "arch", "wide"),
    [
        (33, 16, True, "sm_90a", 64),
        (48, 16, True, "sm_90a", 64),
        (48, 16, False, "sm_90a", 48),
        (48, 16, True, "sm_80", 48),
        (32, 16, True, "sm_90a", 32),
        (72, 16, True, "sm_90a", 80),
        (48, 8, True, "sm_90a", 64),
    ],
)
def test_columns_of_a_tile(depth, bits, boxes, arch, wide):
    assert tile_columns(depth, bits, arch, boxes) == wide


@pytest.mark.parametrize(("keys", "block"), [(5, 16), (33, 48), (64, 64), (4000, 64)])
def test_a_block_has_no_more_keys_than_there_are(keys, block):
    work = AttentionWork((256, 256), rows=33, keys=keys, sequences=153, is_uneven=True)
    found = choose_schedule(work, "sm_90a").tile
    assert found is not None
    assert found[1] == block


def test_logarithms_leave_registers_as_they_are():
    """A number for each row, of any alignment, is no reason for threads to meet."""
    spec = cute.TensorSpec((2, 4, 1000, 128), cute.bf16)
    kernel = cute.compile(cute.attention, *[spec] * 3, return_lse=True, arch="sm_90a")
    assert "st.global.b32" in kernel.ptx
    assert "st.global.v4" not in kernel.ptx


@pytest.mark.parametrize(
    ("more", "tile", "registers"),
    [
        ({}, (128, 64), (136, 184)),
        ({"is_paged": True}, (128, 64), (136, 184)),
        ({"is_paged": True, "bits": 8, "bits_q": 8}, (128, 64), (120, 192)),
        ({"dims": (448, 448)}, (64, 16), (136, 184)),
    ],
)
def test_threads_that_shift_rows_take_registers(more, tile, registers):
    work = {"dims": (128, 128), "is_shifted": True, "loads_boxes": False, "is_uneven": True} | more
    chosen = choose_schedule(AttentionWork(**work), "sm_90a")
    assert chosen.registers == registers
    assert chosen.tile == tile
    given = cute.Schedule(tile=(64, 64))
    assert choose_schedule(AttentionWork(**work), "sm_90a", given).registers != registers
