"""What attention chooses: a table of drawn problems, and what holds for all of them."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from itertools import islice

import pytest

from benchmarks import attention_choices
from cutedialect.choosing.attention_parameters import maxima
from cutedialect.choosing.attention_problem import RULES, AttentionProblem
from cutedialect.choosing.attention_space import ATTENTION
from cutedialect.choosing.choose import NoScheduleError, Rejection, choose
from cutedialect.choosing.need import NONE, Limits
from cutedialect.choosing.rules import Table
from cutedialect.frontend.attention_facts import tile_columns
from cutedialect.frontend.attention_variants import tuned_schedules
from cutedialect.schedule import Schedule, replace_set

SOME = attention_choices.NUMBERS[::7]


def test_drawn_problems_are_chosen_for_as_the_table_says():
    """`python -m benchmarks.attention_choices` writes it anew."""
    known = attention_choices.TABLE.read_text(encoding="utf-8").splitlines()
    found = attention_choices.table().splitlines()
    assert [line for line in found if line not in known] == []
    assert len(found) == len(known)


@pytest.mark.parametrize("number", SOME)
def test_what_is_given_stays(number):
    problem, given = attention_choices.drawn(number)
    for schedule in islice(ATTENTION.ranked(problem, given, NONE), 3):
        assert schedule.merged(given) == schedule


@pytest.mark.parametrize("number", SOME)
def test_each_rejection_leaves_threads_more_registers(number):
    """As many keys of a block, or fewer, or CTAs with more registers each; none comes twice."""
    problem, given = attention_choices.drawn(number)
    rejected: list[Rejection] = []
    with suppress(NoScheduleError):
        while len(rejected) < 5:
            schedule = choose(ATTENTION, problem, given, rejected)
            assert schedule not in [each.schedule for each in rejected]
            rejected.append(Rejection(schedule, "registers", "it spills"))
    plain = [
        each.schedule.tile[1]
        for each in rejected
        if each.schedule is not None and each.schedule.tile and not each.schedule.ctas
        and each.schedule.unroll != 2 and not each.schedule.roles
    ]  # fmt: skip
    assert plain == sorted(plain, reverse=True)


def test_a_policy_that_is_given_stays_where_registers_lack():
    problem, given = AttentionProblem((256, 256), is_uneven=True), Schedule(maxima="guessed")
    assert [each.maxima for each in islice(ATTENTION.ranked(problem, None, NONE), 2)] == [
        None,
        "lazy",
    ]
    assert {each.maxima for each in ATTENTION.ranked(problem, given, NONE)} == {"guessed"}


def test_an_error_lists_what_was_tried_with_its_need():
    problem, given = AttentionProblem((128, 128), rows=256), Schedule(tile=(128, 128))
    rejected = [Rejection(choose(ATTENTION, problem, given), "registers", "it spills")]
    with pytest.raises(NoScheduleError, match=r"needs \d+ registers of 232, \d+ bytes"):
        choose(ATTENTION, problem, given, rejected)


def test_what_lacks_memory_gives_way_to_what_takes_less():
    problem = AttentionProblem((128, 128))
    first = choose(ATTENTION, problem)
    smem = ATTENTION.need(problem, first).smem
    other = choose(ATTENTION, problem, None, [Rejection(first, "memory", "it is too large")])
    assert ATTENTION.need(problem, other).smem < smem
    assert next(ATTENTION.ranked(problem, None, Limits(smem=smem))) == other


@pytest.mark.parametrize(("depth", "tile"), [(64, (128, 64)), (128, (64, 32)), (256, (32, 16))])
def test_blocks_have_as_many_keys_as_shared_memory_holds(depth, tile):
    assert choose(ATTENTION, AttentionProblem((depth, depth), arch="sm_75")).tile == tile


def test_guesses_have_registers():
    """Over all draws, and they are no few."""
    guessed = 0
    for number in attention_choices.NUMBERS:
        problem, given = attention_choices.drawn(number)
        chosen = choose(ATTENTION, problem, given)
        if given is None and maxima(problem, chosen) == "guessed":
            guessed += 1
            assert ATTENTION.need(problem, replace_set(chosen, {"unroll": 1})).spare >= 0
    assert guessed > 40


@pytest.mark.parametrize("way", ["exact", "lazy", "guessed"])
def test_a_schedule_forces_how_the_largest_scores_are_kept(way):
    problem = AttentionProblem((64, 64))
    assert maxima(problem, choose(ATTENTION, problem, Schedule(maxima=way))) == way


@pytest.mark.parametrize(
    ("depth", "bits", "on_groups", "wide"),
    [
        (33, 16, True, 64),
        (48, 16, True, 64),
        (48, 16, False, 48),
        (32, 16, True, 32),
        (72, 16, True, 80),
        (48, 8, True, 64),
    ],
)
def test_columns_of_a_tile(depth, bits, on_groups, wide):
    assert tile_columns(depth, bits, on_groups) == wide


@pytest.mark.parametrize(("keys", "block"), [(5, 16), (33, 48), (64, 64), (4000, 64)])
def test_a_block_has_no_more_keys_than_there_are(keys, block):
    problem = AttentionProblem((256, 256), rows=33, keys=keys, sequences=153, is_uneven=True)
    tile = choose(ATTENTION, problem).tile
    assert tile is not None
    assert tile[1] == block


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_100a", "sm_120a"])
def test_more_warps_share_rows_where_a_default_spills(arch):
    work = AttentionProblem((256, 256), rows=16, bits=8, bits_q=8, loads_boxes=False, arch=arch)
    warps = [each.warps for each in islice(ATTENTION.ranked(work, None, NONE), 3)]
    assert warps == [None, (1, 2), (1, 4)]
    assert choose(ATTENTION, replace(work, is_shifted=True)).warps == (1, 4)
    narrow = replace(work, dims=(32, 16), is_shifted=True)
    assert choose(ATTENTION, narrow).warps == (1, 2)


@pytest.mark.parametrize("number", SOME)
def test_schedules_that_are_timed_differ_from_the_default_and_each_other(number):
    problem, _ = attention_choices.drawn(number)
    listed = tuned_schedules(problem)
    chosen = [choose(ATTENTION, problem, given) for given in listed]
    assert choose(ATTENTION, problem) not in chosen
    assert len(set(chosen)) == len(chosen)
    assert 10 <= len(listed) <= 100


def test_schedules_that_are_timed_have_tiles_and_policies():
    problem = AttentionProblem((128, 128), rows=4096, keys=4096, sequences=64)
    chosen = [choose(ATTENTION, problem, given) for given in tuned_schedules(problem)]
    tiles = {each.tile for each in chosen}
    assert {(64, 128), (128, 96), (128, 112), (192, 64)} <= tiles
    assert {maxima(problem, each) for each in chosen} == {"exact", "lazy", "guessed"}
    assert {each.ctas for each in chosen} >= {None, 2}


@pytest.mark.parametrize("rule", RULES.narrow_caches.rules, ids=lambda rule: rule.then.text())
def test_narrow_caches_have_what_was_fastest(rule, monkeypatch):
    """Each row of the table decides for some problem, and none for elements of 16 bits."""
    (least, _), (_, widest) = rule.when["rows"], rule.when["widest"]
    problem = AttentionProblem(
        (widest, widest), rows=least, keys=4096, sequences=64, bits=8,
        is_integer=rule.when["is_integer"], scales_keys=rule.when.get("scales_keys", False),
    )  # fmt: skip
    chosen = [choose(ATTENTION, problem)]
    chosen.append(choose(ATTENTION, problem, None, [Rejection(chosen[0], "registers", "")]))
    assert any(each.merged(rule.then) == each for each in chosen)
    wide = replace(problem, bits=16, is_integer=False, scales_keys=False)
    before = choose(ATTENTION, wide)
    monkeypatch.setattr(RULES, "narrow_caches", Table(()))
    assert choose(ATTENTION, wide) == before


@pytest.mark.parametrize(
    ("dims", "facts", "tile", "cluster"),
    [
        # Of 256 columns shared memory holds 80 keys by CTAs alone, which read slower than they
        # multiply, and 96 by pairs; of 192 and 128, 64 and 128.
        ((256, 256), {}, (128, 96), (2, 1)),
        ((192, 128), {}, (256, 128), (2, 1)),
        ((192, 128), {"is_uneven": True}, (256, 96), (2, 1)),
        ((160, 160), {}, (256, 96), (2, 1)),
        ((160, 160), {"is_uneven": True}, (256, 64), None),
        # Their products take no longer than exponentials, or than they read.
        ((64, 64), {}, (256, 128), None),
        ((128, 128), {"is_uneven": True}, (256, 128), None),
        # What pairs compute for each other below a mask, and the CTA that has no tile, cost more.
        ((256, 256), {"rows": 2048, "keys": 2048, "is_uneven": True}, (128, 96), (2, 1)),
        ((256, 256), {"rows": 300, "keys": 8192}, (128, 80), None),
        ((256, 256), {"rows": 640, "keys": 640, "is_uneven": True}, (128, 64), None),
        # No half of so many columns is multiplied.
        ((208, 208), {}, (128, 64), None),
        # Other keys, or more beside them.
        ((256, 256), {"has_window": True}, (128, 64), None),
        ((256, 256), {"is_packed": True, "is_sliced": True}, (128, 64), None),
        ((192, 128), {"keeps_more": True}, (256, 64), None),
    ],
)
def test_pairs_in_tensor_memory(dims, facts, tile, cluster):
    sizes = {"rows": 8192, "keys": 8192, "sequences": 64, "processors": 148}
    problem = AttentionProblem(dims, arch="sm_100a", **(sizes | facts))
    chosen = next(ATTENTION.ranked(problem, None, Limits(smem=problem.target.smem_per_cta)))
    assert (chosen.tile, chosen.cluster) == (tile, cluster)


def test_pairs_that_are_given_have_longer_blocks():
    problem = AttentionProblem((256, 256), rows=300, keys=300, sequences=2, arch="sm_100a")
    limits = Limits(smem=problem.target.smem_per_cta)
    tiles = {
        cluster: next(ATTENTION.ranked(problem, Schedule(cluster=cluster), limits)).tile
        for cluster in ((1, 1), (2, 1))
    }
    assert tiles == {(1, 1): (128, 64), (2, 1): (128, 96)}
    many = replace(problem, rows=8192, keys=8192)
    assert next(ATTENTION.ranked(many, Schedule(cluster=(1, 1)), limits)).tile == (128, 80)
