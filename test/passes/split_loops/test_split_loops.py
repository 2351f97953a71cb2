"""A loop whose branch is taken in its first or last trips becomes loops in which that is decided,
and every trip does what it did.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import cutedialect as cute

CONDITIONS = {
    "above": (lambda j, x, y: j * 3 + 2 > x, 2),
    "at_least": (lambda j, x, y: x <= j * 3, 2),
    "below": (lambda j, x, y: j * 2 < x + 1, 2),
    "at_most": (lambda j, x, y: j - 1 <= x - y, 2),
    "falling_index": (lambda j, x, y: 5 - j * 2 > x, 2),
    "index_on_both_sides": (lambda j, x, y: j + x < j * 4 - 3, 2),
    "outside_of_two": (lambda j, x, y: (j * 2 + 2 > x) | (j < y), 3),
    "one_of_two_that_rise": (lambda j, x, y: (j * 2 + 2 > x) | (j > y), 2),
    "between_two": (lambda j, x, y: (j * 2 <= x) & (j >= y), 3),
    "both_of_two_that_fall": (lambda j, x, y: (j * 2 <= x) & (j < y), 2),
    "made_inside": (lambda j, x, y: j * 2 > cute.minimum(x + y, 6) - x, 2),
}
WHOLE = {
    "the_same_in_all_trips": lambda j, x, y: x > y,
    "equal": lambda j, x, y: j == x,
    "of_both_kinds": lambda j, x, y: ((j > x) | (j < y)) & (j > 2),
    "squared": lambda j, x, y: j * j > x,
}


def kernel_of(condition):
    @cute.kernel
    def walk(A, B, sums, taken, first, last, x, y):
        tile = cute.local_tile(A, (16, 16), (0, 0)), cute.local_tile(B, (16, 8), (0, 0))
        acc, steps = cute.zeros((16, 8)), cute.zeros((16, 8))
        for j in cute.range(first, last):
            cute.gemm(*tile, acc)
            # The trips so far as the digits of a number.
            with cute.when(condition(j, x, y)):
                steps.assign(steps * 3.0 + 2.0)
            with cute.otherwise():
                steps.assign(steps * 3.0 + 1.0)
        cute.copy(acc, cute.local_tile(sums, (16, 8), (0, 0)))
        cute.copy(steps, cute.local_tile(taken, (16, 8), (0, 0)))

    return walk


def compiled(condition, split="yes"):
    half, single = np.ones((16, 16), np.float16), np.zeros((16, 8), np.float32)
    arrays = half, half[:, :8].copy(), single, single.copy()
    numbers = (np.int32(0),) * 4
    options: Any = {"arch": "sm_80", "backend": "emulator", "schedule": f"split_loops = {split}"}
    return cute.compile(kernel_of(condition), *arrays, *numbers, **options), arrays


def loops(kernel):
    """How many loops multiply: a trip has one multiply."""
    return kernel.stages["cute-split-loops"].count("cute.gemm")


@pytest.mark.some(2)
@pytest.mark.parametrize("name", CONDITIONS)
def test_every_trip_takes_its_branch(name):
    condition, parts = CONDITIONS[name]
    kernel, arrays = compiled(condition)
    assert loops(kernel) == parts
    assert "scf.if" not in kernel.stages["cute-split-loops"]
    bounds = [(0, 5), (2, 7), (3, 3), (4, 2)]
    for first, last in bounds:
        for x, y in [(-9, 2), (3, 3), (4, 1), (5, 4), (6, -3), (40, 40)]:
            kernel.launch(*arrays, *map(np.int32, (first, last, x, y)))
            digits = 0
            for j in range(first, last):
                digits = digits * 3 + 1 + bool(plain(condition, j, x, y))
            assert (arrays[3] == digits).all(), (first, last, x, y)
            assert (arrays[2] == 16 * max(0, last - first)).all()


@pytest.mark.parametrize("split", ["yes", "no"])
def test_all_branches_on_the_condition_are_decided(split):
    """One inside of another branch, one without another side, and the first one."""

    @cute.kernel
    def walk(A, B, taken, last, x):
        tile = cute.local_tile(A, (16, 16), (0, 0)), cute.local_tile(B, (16, 8), (0, 0))
        acc, steps = cute.zeros((16, 8)), cute.zeros((16, 8))
        for j in cute.range(last):
            cute.gemm(*tile, acc)
            is_late = j * 2 > x
            with cute.when(is_late):
                steps.assign(steps * 2.0 + 1.0)
            with cute.when(cute.any(acc > 40.0)):
                with cute.when(is_late):
                    steps.assign(steps * 2.0)
                with cute.otherwise():
                    steps.assign(steps * 2.0 + 1.0)
            with cute.otherwise(), cute.when(is_late):
                steps.assign(steps + 0.5)
        cute.copy(steps, cute.local_tile(taken, (16, 8), (0, 0)))

    half, taken = np.ones((16, 16), np.float16), np.zeros((16, 8), np.float32)
    arrays = half, half[:, :8].copy(), taken
    options: Any = {"arch": "sm_80", "backend": "emulator", "schedule": f"split_loops = {split}"}
    kernel = cute.compile(walk, *arrays, np.int32(0), np.int32(0), **options)
    # What is left asks for what was multiplied.
    left = kernel.stages["cute-split-loops"].count("scf.if")
    assert left == (2 if split == "yes" else 4)
    for last, x in [(0, 0), (5, 3), (5, -1), (6, 4), (7, 20)]:
        kernel.launch(*arrays, np.int32(last), np.int32(x))
        steps = 0.0
        for j in range(last):
            is_late, is_much = j * 2 > x, 16 * (j + 1) > 40
            steps = steps * 2 + 1 if is_late else steps
            if is_much:
                steps = steps * 2 + (not is_late)
            else:
                steps += 0.5 * is_late
        assert (taken == steps).all(), (last, x)


def test_behind_the_first_trips_their_condition_is_decided():
    """Each side of a window is asked for by itself, in trips in which one of them may hold."""

    @cute.kernel
    def walk(A, B, taken, last, x, y):
        tile = cute.local_tile(A, (16, 16), (0, 0)), cute.local_tile(B, (16, 8), (0, 0))
        acc, steps = cute.zeros((16, 8)), cute.zeros((16, 8))
        for j in cute.range(last):
            cute.gemm(*tile, acc)
            is_late, is_early = j * 2 > x, j < y
            with cute.when(is_late | is_early):
                steps.assign(steps * 4.0 + 1.0)
                with cute.when(is_late):
                    steps.assign(steps + 1.0)
                with cute.when(is_early):
                    steps.assign(steps + 2.0)
        cute.copy(steps, cute.local_tile(taken, (16, 8), (0, 0)))

    half, taken = np.ones((16, 16), np.float16), np.zeros((16, 8), np.float32)
    arrays = half, half[:, :8].copy(), taken
    options: Any = {"arch": "sm_80", "backend": "emulator", "schedule": "split_loops = yes"}
    kernel = cute.compile(walk, *arrays, *(np.int32(0),) * 3, **options)
    # Both in the first trips, and one in the last ones.
    assert kernel.stages["cute-split-loops"].count("scf.if") == 3
    for last, x, y in [(0, 0, 0), (6, 6, 2), (6, 3, 4), (6, -1, 0), (5, 20, 9)]:
        kernel.launch(*arrays, *map(np.int32, (last, x, y)))
        steps = 0.0
        for j in range(last):
            if j * 2 > x or j < y:
                steps = steps * 4 + 1 + (j * 2 > x) + 2 * (j < y)
        assert (taken == steps).all(), (last, x, y)


def plain(condition, *numbers):
    """A condition on Python's numbers."""
    minimum = cute.minimum
    cute.minimum = min
    try:
        return condition(*numbers)
    finally:
        cute.minimum = minimum


@pytest.mark.parametrize("name", WHOLE)
def test_other_conditions_stay(name):
    kernel, _ = compiled(WHOLE[name])
    assert loops(kernel) == 1
    assert "scf.if" in kernel.stages["cute-split-loops"]


def test_without_it_the_loop_stays():
    kernel, _ = compiled(CONDITIONS["above"][0], "no")
    assert kernel.stages["cute-split-loops"] == kernel.stages["cute-synchronize"]


def parts_of_attention(**masks):
    """The loops of the multiplying role, each with whether it masks scores."""
    specs = [cute.TensorSpec((2, 4, None, 64), cute.bf16)] * 3
    kernel = cute.compile(cute.attention, *specs, arch="sm_90a", **masks)
    text = kernel.stages["cute-split-loops"].split('pipeline.role "main"')[1].split("func.func")[0]
    # The first trip stands before the loops; a mask asks for the keys' coordinates.
    parts = [part for part in text.split("scf.for") if "cute.gemm" in part]
    return ["cute.coord 1" in part for part in parts[1:]]


@pytest.mark.some(2)
@pytest.mark.parametrize(
    ("masks", "expected"),
    [
        ({}, [False, True]),
        ({"causal": True}, [False, True]),
        # Where tiles are claimed, those of a window begin with one block and keep one loop.
        ({"window": (100, 5), "schedule": "scheduler = persistent"}, [True, False, True]),
    ],
)
def test_blocks_that_all_rows_see_have_a_loop_without_mask(masks, expected):
    assert parts_of_attention(**masks) == expected
