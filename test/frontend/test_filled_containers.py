"""Lists and dictionaries that a loop's body fills with values of the body alone: what the trip that
fills them reads is right; what another trip or the program behind the loop would read is refused.
"""

from __future__ import annotations

import collections
from typing import Any

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

SHAPE = (16, 16)


def tile(X, *at):
    return cute.local_tile(X, SHAPE, at)


def dictionary(X, acc, n):
    parts: dict[Any, Any] = {}
    for k in cute.range(n):
        for half in range(2):
            parts["half", half] = tile(X, k, half).load()
        acc += parts["half", 0] - parts["half", 1]


def filled_list(X, acc, n):
    parts: list[Any] = [None] * 2
    for k in cute.range(n):
        for half in range(2):
            parts[half] = tile(X, k, half).load()
        acc += parts[0] - parts[1]


def growing(X, acc, n):
    """Of the list that grows each trip reads what it added itself, from the end."""
    seen: list[Any] = []
    for k in cute.range(n):
        seen.append(tile(X, k, 0).load())
        seen.append(tile(X, k, 1).load())
        acc += seen[-2] - seen[-1]


def cleared(X, acc, n):
    queue: collections.deque[Any] = collections.deque()
    for k in cute.range(n):
        queue.clear()
        queue.extend((tile(X, k, 0).load(), tile(X, k, 1).load()))
        acc += queue[0] - queue[1]


def by_a_function(X, acc, n):
    """As a class or a function of the user would keep what it makes."""
    parts: dict[Any, Any] = {}

    def keep(name, k, half):
        parts[name] = (tile(X, k, half).load(), k)
        return parts[name][0]

    for k in cute.range(n):
        keep("left", k, 0)
        keep("right", k, 1)
        acc += parts["left"][0] - parts["right"][0]


def nested(X, acc, n):
    parts: dict[Any, Any] = {}
    for k in cute.range(n):
        parts["left"] = tile(X, k, 0).load()
        for _ in cute.range(1):
            parts["right"] = tile(X, k, 1).load()
            acc += parts["left"] - parts["right"]


def again(X, acc, n):
    """A second loop fills what the first one has filled."""
    parts: dict[Any, Any] = {}
    for k in cute.range(n - 1):
        parts[0] = tile(X, k, 0).load() - tile(X, k, 1).load()
        acc += parts[0]
    for k in cute.range(n - 1, n):
        parts[0] = tile(X, k, 0).load() - tile(X, k, 1).load()
        acc += parts[0]


TAKEN = (dictionary, filled_list, growing, cleared, by_a_function, nested, again)


def kernel_of(function):
    @cute.kernel
    def program(X, Y, n):
        acc = cute.zeros(SHAPE)
        function(X, acc, n)
        cute.copy(acc, tile(Y, 0, 0))

    return program


@pytest.mark.parametrize("function", TAKEN, ids=lambda each: each.__name__)
def test_what_a_trip_fills_it_may_read(function):
    x = np.random.default_rng(0).integers(-4, 5, (48, 32)).astype(np.float32)
    y = np.zeros(SHAPE, np.float32)
    kernel_of(function)(x, y, 3, backend="emulator")
    parts = x.reshape(3, 16, 2, 16)
    assert np.array_equal(y, (parts[:, :, 0] - parts[:, :, 1]).sum(0))


def first_of_all(X, acc, n):
    seen: list[Any] = []
    for k in cute.range(n):
        seen.append(tile(X, k, 0).load())
        acc += seen[0]


def made_once(X, acc, n):
    parts: dict[Any, Any] = {}
    for k in cute.range(n):
        if "left" not in parts:
            parts["left"] = tile(X, k, 0).load()
        acc += parts["left"]


def the_one_before(X, acc, n):
    parts: dict[Any, Any] = {"last": cute.zeros(SHAPE)}
    for k in cute.range(n):
        acc += parts["last"]
        parts["last"] = tile(X, k, 0).load()


def behind_the_loop(X, acc, n):
    parts: dict[Any, Any] = {}
    for k in cute.range(n):
        parts["left"] = tile(X, k, 0).load()
    acc += parts["left"]


DEAD = (first_of_all, made_once, the_one_before, behind_the_loop)


@pytest.mark.parametrize("function", DEAD, ids=lambda each: each.__name__)
def test_values_of_another_trip(function):
    with pytest.raises(CompileError, match="got a tile made inside the loop at line") as caught:
        kernel_of(function)(np.zeros((48, 32), np.float32), np.zeros(SHAPE, np.float32), 3)
    assert caught.value.code == "CD-P5"
    assert __file__ in str(caught.value.location)


def count_behind(X, acc, n):
    seen: list[Any] = []
    for k in cute.range(n):
        seen.append(tile(X, k, 0).load())
    acc += len(seen)


def count_inside(X, acc, n):
    seen: list[Any] = []
    for k in cute.range(n):
        seen.append(tile(X, k, 0).load())
        acc += len(seen)


def number_inside(X, acc, n):
    parts: dict[Any, Any] = {}
    for k in cute.range(n):
        parts["left"], parts["count"] = tile(X, k, 0).load(), 1
        acc += parts["left"]


def other_branch(X, acc, n):
    parts: dict[Any, Any] = {}
    for k in cute.range(n):
        if "left" in parts:
            acc += 1.0
        parts["left"] = tile(X, k, 0).load()
        acc += parts["left"]


CHANGED = (count_behind, count_inside, number_inside, other_branch)


@pytest.mark.parametrize("function", CHANGED, ids=lambda each: each.__name__)
def test_what_another_trip_would_make_of_them(function):
    with pytest.raises(CompileError, match="the same in every trip of the loop, got it") as caught:
        kernel_of(function)(np.zeros((48, 32), np.float32), np.zeros(SHAPE, np.float32), 3)
    assert caught.value.code == "CD-P6"
    assert __file__ in str(caught.value.location)
