"""Python state in a body that is traced once: refused at the user's line where the trace would
freeze it, and free where nothing can go wrong.
"""

from __future__ import annotations

import collections
import inspect
import itertools
import random
import types

import numpy as np
import pytest

import cutedialect as cute
from cutedialect import CompileError

SHAPE = (8, 8)
COUNT = 0
LOG: list[object] = []


def tile(tensor):
    return cute.local_tile(tensor, SHAPE, (0, 0))


def run(function, n=3):
    y = np.zeros(SHAPE, np.float32)
    cute.kernel(function)(y, n, backend="emulator")
    assert (y == y[0, 0]).all()
    return y[0, 0]


def store(Y, value):
    cute.copy(value if isinstance(value, cute_tile()) else cute.full(SHAPE, value, "f32"), tile(Y))


def cute_tile():
    from cutedialect.frontend.tile import Tile

    return Tile


def number(Y, n):
    s = 0
    acc = cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        s = s + 1
        acc += s
    store(Y, acc)


def augmented(Y, n):
    s, acc = 1.0, cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        s *= 0.5
        acc += s
    store(Y, acc)


def read_behind(Y, n):
    s = 0
    for _j in cute.range(n):  # here
        s = 5
    store(Y, s)


def flag(Y, n):
    first, acc = True, cute.zeros(SHAPE)
    for j in cute.range(n):  # here
        if first:
            acc += j
        first = False
    store(Y, acc)


def none_at_first(Y, n):
    m = None
    for j in cute.range(n):  # here
        m = cute.full(SHAPE, j) if m is None else cute.maximum(m, j)
    store(Y, n)


def swap(Y, n):
    a, b = 1, 2
    acc = cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += a
        a, b = b, a
    store(Y, acc)


def through_a_comprehension(Y, n):
    sizes, acc = [1, 2], cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        sizes = [2 * size for size in sizes]
        acc += sum(sizes)
    store(Y, acc)


def inner_loop(Y, n):
    s, acc = 0, cute.zeros(SHAPE)
    for _j in cute.range(n):
        for _k in cute.range(n):  # here
            acc += s
            s = s + 1
    store(Y, acc)


def unrolled_inside(Y, n):
    s, acc = 0, cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        for _k in range(2):
            acc += s
            s += 1
    store(Y, acc)


def list_append(Y, n):
    seen = []
    for _j in cute.range(n):  # here
        seen.append(1)
    store(Y, len(seen))


def nested_list(Y, n):
    state = {"seen": [[]]}
    for _j in cute.range(n):  # here
        state["seen"][0].append(1)
    store(Y, len(state["seen"][0]))


def dictionary(Y, n):
    table, acc = {"step": 0}, cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        table["step"] += 1
        acc += table["step"]
    store(Y, acc)


def other_containers(Y, n):
    queue, names = collections.deque([1, 2]), {1}
    for _j in cute.range(n):  # here
        names.add(queue.popleft())
    store(Y, len(names))


class Counter:
    steps = 0

    def __init__(self):
        self.count = 0

    def step(self):
        self.count += 1
        return self.count


class Slotted:
    __slots__ = ("count",)


def attribute(Y, n):
    counter, acc = Counter(), cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += counter.step()
    store(Y, acc)


def slot(Y, n):
    state = Slotted()
    for _j in cute.range(n):  # here
        state.count = 1
    store(Y, n)


def namespace(Y, n):
    state = types.SimpleNamespace(inner=types.SimpleNamespace(count=0))
    for _j in cute.range(n):  # here
        state.inner.count += 1
    store(Y, state.inner.count)


def class_attribute(Y, n):
    for _j in cute.range(n):  # here
        Counter.steps += 1
    store(Y, Counter.steps)


def global_name(Y, n):
    global COUNT
    for _j in cute.range(n):  # here
        COUNT += 1
    store(Y, COUNT)


def helper_with_a_global():
    LOG.append(1)
    return len(LOG)


def global_list(Y, n):
    acc = cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += helper_with_a_global()
    store(Y, acc)


def closure_cell(Y, n):
    count = 0

    def step():
        nonlocal count
        count += 1
        return count

    acc = cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += step()
    store(Y, acc)


def mutable_default(Y, n, seen=None):
    def helper(x, seen=[]):  # noqa: B006
        seen.append(x)
        return len(seen)

    acc = cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += helper(1)
    store(Y, acc)


def array(Y, n):
    weights, acc = np.ones(4), cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        weights[0] *= 2
        acc += float(weights[0])
    store(Y, acc)


def iterator(Y, n):
    numbers, acc = iter([1, 2, 3]), cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += next(numbers)
    store(Y, acc)


def count_of_itertools(Y, n):
    numbers, acc = itertools.count(), cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += next(numbers)
    store(Y, acc)


def generator(Y, n):
    def numbers():
        yield from (1, 2, 3)

    values, acc = numbers(), cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += next(values)
    store(Y, acc)


def random_number(Y, n):
    acc = cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += random.random()
    store(Y, acc)


def random_array(Y, n):
    rng, acc = np.random.default_rng(0), cute.zeros(SHAPE)
    for _j in cute.range(n):  # here
        acc += float(rng.random())
    store(Y, acc)


def through_a_generator_of_the_user(Y, n):
    def steps():
        for j in cute.range(n):  # here
            yield j + 0

    s, acc = 0, cute.zeros(SHAPE)
    for _j in steps():
        s = s + 1
        acc += s
    store(Y, acc)


LOOPS = [
    number, augmented, read_behind, flag, none_at_first, swap, through_a_comprehension, inner_loop,
    unrolled_inside, list_append, nested_list, dictionary, other_containers, attribute, slot,
    namespace, class_attribute, global_name, global_list, closure_cell, mutable_default, array,
    iterator, count_of_itertools, generator, random_number, random_array,
    through_a_generator_of_the_user,
]  # fmt: skip


def refused(function, message):
    with pytest.raises(CompileError, match=message) as caught:
        run(function)
    lines, first = inspect.getsourcelines(function)
    at = first + next(i for i, line in enumerate(lines) if "# here" in line)
    assert caught.value.location == f"{__file__}:{at}"


@pytest.mark.parametrize("function", LOOPS)
def test_state_in_a_loop_is_refused(function):
    refused(function, r"to be the same in every trip of the loop, got it .* in the body, .*assign")


def enumerated(Y, n):
    acc = cute.zeros(SHAPE)
    for i, _j in enumerate(cute.range(n)):  # here
        acc += i
    store(Y, acc)


def zipped(Y, n):
    acc = cute.zeros(SHAPE)
    for i, _j in zip((1, 2, 3), cute.range(n), strict=False):  # here
        acc += i
    store(Y, acc)


def comprehension(Y, n):
    ones = [1 for _j in cute.range(n)]  # here
    store(Y, len(ones))


def expression(Y, n):
    store(Y, sum(1 for _j in cute.range(n)))  # here


def listed(Y, n):
    store(Y, len(list(cute.range(n))))  # here


def unpacked(Y, n):
    (j,) = cute.range(n)  # here
    store(Y, j)


def delegated(Y, n):
    def steps():
        yield from cute.range(n)  # here

    acc = cute.zeros(SHAPE)
    for j in steps():
        acc += j
    store(Y, acc)


@pytest.mark.parametrize(
    "function", [enumerated, zipped, comprehension, expression, listed, unpacked, delegated]
)
def test_a_range_in_a_call_is_refused(function):
    refused(function, r"around a body, got the range in a call or a comprehension")


def untaken(Y, n):
    s = 1
    with cute.when(n > 5):  # here
        s = 2
    store(Y, s)


def both_sides(Y, n):
    s = 0
    with cute.when(n > 5):
        s = 1
    with cute.otherwise():  # here
        s = 2
    store(Y, s)


def in_a_loop(Y, n):
    s, acc = 1, cute.zeros(SHAPE)
    for j in cute.range(n):
        acc += s
        with cute.when(j > 0):  # here
            s = 2
    store(Y, acc)


def appended(Y, n):
    seen = []
    with cute.when(n > 5):  # here
        seen.append(3)
    store(Y, len(seen))


def attribute_in_a_branch(Y, n):
    counter = Counter()
    with cute.when(n > 5):
        store(Y, 3)
    with cute.otherwise():  # here
        counter.step()
    store(Y, counter.count)


@pytest.mark.parametrize(
    "function", [untaken, both_sides, in_a_loop, appended, attribute_in_a_branch]
)
def test_state_under_a_condition_is_refused(function):
    refused(function, r"whether or not the condition holds, got it .* under it; .*cute\.where")


def bound_under_it(Y, n):
    with cute.when(n > 5):  # here
        s = 2
    store(Y, s)


def test_a_name_bound_under_a_condition_only():
    refused(bound_under_it, r"'s' to have a value whether or not .*cute\.where")


def test_what_cannot_go_wrong_is_free():
    """Names that a trip binds before it reads them, and state that is its own."""
    numbers = [1, 2]
    options = {"scale": 2}

    def program(Y, n):
        acc = cute.zeros(SHAPE)
        i, size, parts = 7, 3, ()
        for i in range(2):
            acc += i
        for j in cute.range(n):
            for i in range(4):
                acc += i
            size = options["scale"] * 2
            acc += size
            parts = [j * i for i in numbers]
            parts.append(1)
            for part in parts:
                acc += part
            own = {"a": 1}
            own["a"] += 1
            with cute.when(j > 0):
                size = 4
                acc += size
            count = len(own)
            del count
            assert numbers == [1, 2]
        for i, _number in enumerate(numbers):
            acc += i
        size = 1
        acc += size
        store(Y, acc)

    n, want = 3, 1.0
    for j in range(n):
        want += 6 + 4 + 3 * j + 1 + (4 if j else 0)
    assert run(program, n) == want + 1 + 1


def test_a_generator_of_the_user_around_a_loop():
    def steps(n):
        for j in cute.range(n):
            yield j, j * 2

    def program(Y, n):
        acc = cute.zeros(SHAPE)
        for one, two in steps(n):
            acc += one + two
        store(Y, acc)

    assert run(program, 4) == 18


def test_equal_values_are_no_change():
    def program(Y, n):
        s, pair, acc = 1, (1, 2.0), cute.zeros(SHAPE)
        for _j in cute.range(n):
            s = s * 1
            pair = (pair[0], pair[1] + 0.0)
            acc += s + pair[1]
        store(Y, acc)

    assert run(program, 2) == 6


def returns(Y, n):
    with cute.when(n > 5):  # here
        store(Y, 1)
        return
    store(Y, 2)


def breaks(Y, n):
    for i in range(3):
        with cute.when(n > i):  # here
            store(Y, i)
            if COUNT < 0:
                break


def continues_in_the_other_branch(Y, n):
    for i in range(3):
        with cute.when(n > i):
            store(Y, i)
        with cute.otherwise():  # here
            continue
        store(Y, n)


@pytest.mark.parametrize("function", [returns, breaks, continues_in_the_other_branch])
def test_a_condition_that_is_left_early(function):
    refused(function, "of a condition to run to its end, got (return|break|continue) at line")


def swallowed(Y, n):
    try:
        with cute.when(n > 5):
            raise KeyError
    except KeyError:
        pass
    store(Y, n)


def when_alone(Y, n):
    cute.when(n > 5)
    store(Y, n)


def otherwise_alone(Y, n):
    with cute.when(n > 5):
        store(Y, 1)
    cute.otherwise()


def range_alone(Y, n):
    cute.range(n)
    store(Y, n)


def formatted(Y, n):
    cute.printf(f"n = {n}")
    store(Y, n)


def as_float(Y, n):
    store(Y, float(n))


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (swallowed, "of a condition to run to its end, got an exception"),
        (when_alone, r"expected `with cute.when\(condition\):` around a body, got the call alone"),
        (otherwise_alone, r"expected `with cute.otherwise\(\):` around a body, got the call alone"),
        (range_alone, "around a body, got the range alone"),
        (formatted, "known while the kernel is traced, got a run-time scalar; print it"),
        (as_float, "expected a Python number, got a run-time scalar"),
    ],
)
def test_what_would_have_no_effect(function, message):
    with pytest.raises(CompileError, match=message) as caught:
        run(function)
    assert caught.value.location is not None
    assert caught.value.location.startswith(__file__)


def test_loops_of_python_under_a_condition_may_break():
    def program(Y, n):
        acc = cute.zeros(SHAPE)
        with cute.when(n > 1):
            for i in range(5):
                acc += abs(n - 2 * n)
                if i == 1:
                    break

            def unused():
                return 3

        store(Y, acc)

    assert run(program, 3) == 6
