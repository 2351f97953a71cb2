"""Sums over the threads of a row leave the loops that carry them, if these do nothing else with
them, and are what they were.
"""

from __future__ import annotations

import numpy as np
import pytest

import cutedialect as cute

LOCAL = ", local}"
ROWS, WIDTH, TRIPS = 32, 64, 5
X = np.random.default_rng(0).integers(-4, 5, (ROWS, WIDTH * TRIPS)).astype(np.float32)
TILES = X.reshape(ROWS, TRIPS, WIDTH).transpose(1, 0, 2).astype(np.float64)


def run(program, *numbers, x=X, warps="(4,1)"):
    """The result (rows, 1) of a program, and its IR behind the pass."""
    out = np.full((ROWS, 1), 99, x.dtype)
    options = {"arch": "sm_80", "backend": "emulator", "schedule": f"warps = {warps}"}
    kernel = cute.compile(program, x, out, *numbers, **options)
    kernel.launch(x, out, *numbers)
    return out[:, 0], kernel.stages["cute-defer-sums"]


def tile(x, j):
    return cute.load(cute.local_tile(x, (ROWS, WIDTH), (0, j)))


def store(y, value):
    cute.copy(value, cute.local_tile(y, (ROWS, 1), (0, 0)))


def meets(text):
    """How many reductions over threads there are."""
    return sum("cute.reduce" in line and LOCAL not in line for line in text.splitlines())


def assert_deferred(text, sums=1):
    assert text.count(LOCAL) == sums
    assert meets(text) == 1
    assert text.rindex("cute.reduce") > text.rindex(LOCAL)


def assert_left_alone(text):
    assert LOCAL not in text


@pytest.mark.parametrize("trips", [0, 1, 5])
def test_a_sum_is_added_up_once(trips):
    @cute.kernel
    def program(x, y, n):
        total = cute.zeros((ROWS, 1))
        for j in cute.range(n):
            total += cute.row_sum(tile(x, j))
        store(y, total)

    out, text = run(program, np.int32(trips))
    assert_deferred(text)
    np.testing.assert_array_equal(out, TILES[:trips].sum((0, 2)))


def test_a_sum_may_start_from_anything():
    @cute.kernel
    def program(x, y, n):
        total = cute.row_sum(tile(x, 0)) + 2.0
        sums = cute.zeros((ROWS, 1))
        sums.assign(total)
        for j in cute.range(n):
            sums += cute.row_sum(tile(x, j))
        store(y, sums)

    out, text = run(program, np.int32(TRIPS))
    assert text.count(LOCAL) == 1
    np.testing.assert_array_equal(out, 2 + TILES[0].sum(1) + TILES.sum((0, 2)))


def test_two_loops_one_behind_the_other():
    @cute.kernel
    def program(x, y, n):
        total = cute.zeros((ROWS, 1))
        for j in cute.range(n):
            total += cute.row_sum(tile(x, j))
        total.assign(total * total)
        for j in cute.range(n):
            total -= cute.row_sum(tile(x, j))
        store(y, total)

    out, text = run(program, np.int32(TRIPS))
    assert text.count(LOCAL) == meets(text) == 2
    np.testing.assert_array_equal(out, TILES.sum((0, 2)) ** 2 - TILES.sum((0, 2)))


def test_scaled_by_what_the_row_has_in_common():
    @cute.kernel
    def program(x, y, n):
        m, total = cute.full((ROWS, 1), -cute.inf), cute.zeros((ROWS, 1))
        for j in cute.range(n):
            value = tile(x, j)
            new = cute.maximum(m, cute.row_max(value))
            total.assign(total * cute.exp2(m - new) + cute.row_sum(cute.exp2(value - new)))
            m.assign(new)
        store(y, total)

    out, text = run(program, np.int32(TRIPS))
    assert text.count(LOCAL) == 1
    assert meets(text) == 2, "the largest, and the sum"
    np.testing.assert_array_equal(out, np.exp2(TILES - TILES.max((0, 2))[:, None]).sum((0, 2)))


def test_several_sums_and_branches_of_nested_loops():
    @cute.kernel
    def program(x, y, n):
        total = cute.zeros((ROWS, 1))
        for i in cute.range(n):
            with cute.when(i > 1):
                total.assign(-total)
            for j in cute.range(i):
                v = tile(x, j)
                total.assign(total * 2.0 + cute.row_sum(v) - 3.0 * cute.row_sum(v * v))
            with cute.when(i == 3):
                total.assign(cute.where(cute.coord(total, 0, 0) < 7, 0.0, total))
        store(y, total)

    out, text = run(program, np.int32(TRIPS))
    assert_deferred(text, 2)
    exact = np.zeros(ROWS)
    for i in range(TRIPS):
        if i > 1:
            exact = -exact
        for j in range(i):
            exact = exact * 2 + TILES[j].sum(1) - 3 * (TILES[j] ** 2).sum(1)
        if i == 3:
            exact[:7] = 0
    np.testing.assert_array_equal(out, exact)


def test_integers():
    x = X.astype(np.int32)

    @cute.kernel
    def program(x, y, n):
        total = cute.zeros((ROWS, 1), cute.i32)
        for j in cute.range(n):
            total.assign(total * 3 + cute.row_sum(tile(x, j)))
        store(y, total)

    out, text = run(program, np.int32(TRIPS), x=x)
    assert_deferred(text)
    weights = 3 ** np.arange(TRIPS)[::-1]
    np.testing.assert_array_equal(out, (x.reshape(ROWS, TRIPS, WIDTH).sum(2) * weights).sum(1))


def test_columns_over_warps():
    @cute.kernel
    def program(x, y, n):
        total = cute.zeros((1, ROWS))
        for j in cute.range(n):
            total += cute.column_sum(cute.load(cute.local_tile(x, (WIDTH, ROWS), (j, 0))))
        store(y, total.T)

    x = np.ascontiguousarray(X.T)
    out, text = run(program, np.int32(TRIPS), x=x)
    assert_deferred(text)
    np.testing.assert_array_equal(out, TILES.sum((0, 2)))


def read_in_the_loop(x, y, n):
    total = cute.zeros((ROWS, 1))
    for j in cute.range(n):
        total += cute.row_sum(tile(x, j))
        store(y, total)


def added_to_something_else(x, y, n):
    total = cute.zeros((ROWS, 1))
    for j in cute.range(n):
        total += cute.row_sum(tile(x, j)) + 1.0
    store(y, total)


def squared(x, y, n):
    total = cute.zeros((ROWS, 1))
    for j in cute.range(n):
        total.assign(total * total + cute.row_sum(tile(x, j)))
    store(y, total)


def products_of_sums(x, y, n):
    total = cute.full((ROWS, 1), 1.0)
    for j in cute.range(n):
        total.assign(total * cute.row_sum(tile(x, j)))
    store(y, total)


def decides(x, y, n):
    total = cute.zeros((ROWS, 1))
    for j in cute.range(n):
        total.assign(cute.where(total > 9.0, 0.0, total) + cute.row_sum(tile(x, j)))
    store(y, total)


def largest(x, y, n):
    total = cute.zeros((ROWS, 1))
    for j in cute.range(n):
        total.assign(cute.maximum(total, cute.row_sum(tile(x, j))))
    store(y, total)


def reset(x, y, n):
    total = cute.zeros((ROWS, 1))
    for j in cute.range(n):
        total.assign(cute.full((ROWS, 1), 1.0))
        total += cute.row_sum(tile(x, j))
    store(y, total)


EXPECTED = {
    read_in_the_loop: TILES.sum((0, 2)),
    added_to_something_else: TILES.sum((0, 2)) + TRIPS,
    squared: None,
    products_of_sums: TILES.sum(2).prod(0),
    decides: None,
    largest: np.maximum(TILES.sum(2).max(0), 0),
    reset: 1 + TILES[-1].sum(1),
}


@pytest.mark.parametrize("program", EXPECTED, ids=lambda each: each.__name__)
def test_other_loops_are_left_alone(program):
    out, text = run(cute.kernel(program), np.int32(TRIPS))
    assert_left_alone(text)
    exact = EXPECTED[program]
    if exact is None:
        exact = np.zeros(ROWS)
        for x in TILES:
            kept = exact * exact if program is squared else np.where(exact > 9, 0, exact)
            exact = (kept + x.sum(1)).astype(np.float32).astype(np.float64)
        np.testing.assert_allclose(out, exact, rtol=1e-5)
    else:
        np.testing.assert_array_equal(out, exact)


def test_sums_of_16_bits_are_left_alone():
    @cute.kernel
    def program(x, y, n):
        total = cute.zeros((ROWS, 1), cute.f16)
        for j in cute.range(n):
            total += cute.row_sum(tile(x, j))
        store(y, total)

    out, text = run(program, np.int32(TRIPS), x=X.astype(np.float16))
    assert_left_alone(text)
    np.testing.assert_array_equal(out, TILES.sum((0, 2)))


@pytest.mark.some(1)
@pytest.mark.parametrize("arch", ["sm_80", "sm_90a"])
def test_attention_keeps_parts_of_its_denominators(arch):
    spec = cute.TensorSpec((None, 4, None, 64), "f16")
    schedule = "overlap = no" if arch == "sm_90a" else None
    kernel = cute.compile(cute.attention, spec, spec, spec, arch=arch, schedule=schedule)
    lines = kernel.stages["cute-defer-sums"].splitlines()
    parts, whole = [line for line in lines if 'cute.reduce "add"' in line]
    assert LOCAL in parts
    assert LOCAL not in whole
    assert indent(parts) > indent(whole), "one is in the loop, the other one behind it"


@pytest.mark.some(1)
@pytest.mark.parametrize(("dtype", "sides"), [("bf16", 4), ("f16", 5)])
def test_it_keeps_them_where_branches_add_to_them(dtype, sides):
    """Each side of what is tried, and of what is not, adds to parts."""
    spec = cute.TensorSpec((None, 4, None, 128), dtype)
    guessed = "maxima = guessed"
    kernel = cute.compile(cute.attention, spec, spec, spec, arch="sm_90a", schedule=guessed)
    lines = kernel.stages["cute-defer-sums"].splitlines()
    *parts, whole = [line for line in lines if 'cute.reduce "add"' in line]
    assert len(parts) == sides
    assert all(", local" in each for each in parts)
    assert ", local" not in whole
    assert all(indent(each) > indent(whole) for each in parts)


def indent(line):
    return len(line) - len(line.lstrip())
