"""Tiles of products whose rows or pixels threads gather: the table's order, and what it leaves."""

import random
from itertools import pairwise

import pytest

import cutedialect as cute
from cutedialect.choosing.choose import NoScheduleError, Rejection, choose
from cutedialect.choosing.gathered_space import GATHERED, RULES, GatheredProblem
from cutedialect.schedule import Schedule


def problems(count=3000):
    rng = random.Random("gathered")
    sizes = (None, 1, 20, 30, 64, 65, 128, 200, 256, 300, 5000, 100_000)
    for _ in range(count):
        kind = rng.choice(("rows", "pixels", "depth", "diagonal"))
        of_rows = {
            name: kind == "rows" and rng.random() < 0.4
            for name in ("is_gated", "adds", "is_weight", "has_blocks")
        }
        yield GatheredProblem(
            kind, *(rng.choice(sizes) for _ in range(3)), products=rng.choice((1, 9, 64)),
            bits=rng.choice((8, 16, 32)), unit=rng.choice(("warps", "groups", "tensor")),
            group=rng.choice((0, 0, 32, 128)) if of_rows["is_weight"] else 0,
            is_ragged=rng.random() < 0.3, **of_rows,
        )  # fmt: skip


@pytest.mark.parametrize("name", vars(RULES))
def test_each_row_of_a_table_tells_something_else_than_the_rows_behind_it(name):
    table, found = getattr(RULES, name), set()
    for problem in problems():
        fact = table.fact(problem, {})
        held = [place for place, rule in enumerate(table.rules) if rule.holds(fact)]
        found |= {a for a, b in pairwise(held) if table.rules[a].then != table.rules[b].then}
        found |= {*held[-1:]}
    assert found == set(range(len(table.rules)))


def test_what_lacked_registers_gives_way_to_fewer_sums_of_a_thread():
    for problem in problems(200):
        first = choose(GATHERED, problem)
        rejected = [Rejection(first, "registers", "it spills")]
        try:
            second = choose(GATHERED, problem, None, rejected)
        except NoScheduleError:
            continue
        spare = [GATHERED.need(problem, each).spare for each in (first, second)]
        assert spare[1] >= spare[0] + 24


def test_pixels_have_the_largest_tile_that_gives_each_multiprocessor_one():
    def tile(**facts):
        return choose(GATHERED, GatheredProblem("pixels", depth=576, **facts)).tile

    assert tile(rows=100_000, columns=256) == (128, 256, 64)
    assert tile(rows=132 * 128, columns=256) == (128, 256, 64)
    assert tile(rows=131 * 128, columns=256) == (128, 128, 64)
    assert tile(rows=100, columns=256) == (64, 64, 64)
    assert tile(rows=100, columns=256, unit="tensor") == (128, 64, 64)
    assert tile(rows=100_000, columns=30) == (128, 64, 64)
    assert tile(rows=None, columns=None) == (128, 256, 64)


def test_few_tiles_of_filters_share_their_depth():
    problem = GatheredProblem("depth", 64, 64, 100_000, products=9)
    schedule = choose(GATHERED, problem)
    assert schedule.tile == (64, 64, 64)
    assert schedule.split_k == 132 // 9
    assert choose(GATHERED, problem, Schedule(stages=3)).split_k is None


def test_tiles_of_which_the_diagonal_alone_is_a_result_are_square():
    for unit, side in (("groups", 64), ("tensor", 128), ("warps", 64)):
        problem = GatheredProblem("diagonal", 192, 1, 100_000, products=9, unit=unit)
        assert choose(GATHERED, problem).tile[:2] == (side, side)
    assert choose(GATHERED, problem).split_k == 132 // 27


def test_steps_divide_the_groups_that_share_scales():
    weights = GatheredProblem("rows", 60, 512, 4096, is_weight=True, group=32)
    assert choose(GATHERED, weights).tile == (64, 128, 32)
    assert choose(GATHERED, GatheredProblem("rows", 16, 512, 4096, bits=8)).tile[2] == 128


def test_weights_of_experts_become_wider_once_for_as_many_rows_as_groups_have():
    def tile(rows, **facts):
        return choose(GATHERED, GatheredProblem("rows", rows, 512, 4096, **facts)).tile

    rows = (8, 16, 20, 32, 256, 512, None)
    tiles = [tile(each, is_weight=True) for each in rows]
    assert [each[0] for each in tiles] == [16, 16, 32, 64, 64, 128, 64]
    assert {each[1:] for each in tiles} == {(128, 128)}
    assert tile(512, is_weight=True, is_gated=True) == (64, 64, 64)
    assert tile(512, is_weight=True, unit="warps") == (64, 128, 32)


def test_calls_take_the_tile_that_is_chosen_for_them():
    spec = cute.TensorSpec
    operands = spec((512, 256), "bf16"), spec((4, 256, 512), "bf16"), spec((5,), "i32")
    for rows, atom in ((4 * 64, "m64n128k16"), (4 * 65, "m64n256k16")):
        kernel = cute.routed_gemm.compile(*operands, rows=spec((rows,), "i32"), arch="sm_90a")
        assert atom in kernel.ptx
    x, w = spec((8, 56, 56, 3), "f16"), spec((64, 3, 3, 3), "f16")
    assert "m64n64k16" in cute.conv2d.compile(x, w, padding=1, arch="sm_90a").ptx


def test_a_given_tile_of_experts_weights_is_that_of_rows_and_columns():
    """The program multiplies the transposed tile, whose weights are in registers."""
    spec = cute.TensorSpec
    operands = spec((512, 256), "bf16"), spec((4, 256, 512), "i8"), spec((5,), "i32")
    kernel = cute.routed_gemm.compile(*operands, arch="sm_90a", schedule="tile = (32,128,64)")
    assert "m64n32k16" in kernel.ptx
