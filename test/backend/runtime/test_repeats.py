"""Calls made again as one function: it launches with the addresses of arrays that look like those
of the first call, and nothing at all for others.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.runtime.repeats import Overlap, Repeat, overlap, repeat_of


class Array:
    """CuPy's attributes on made-up memory; strides count bytes."""

    __module__ = "cupy"
    data: Any = None

    def __init__(
        self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...] = (),
        dtype: str = "float32", device: int = 0,
    ) -> None:  # fmt: skip
        steps = tuple(4 * int(np.prod(shape[i + 1 :])) for i in range(len(shape)))
        self.data = SimpleNamespace(ptr=pointer, device_id=device)
        self.shape, self.strides, self.dtype = shape, strides or steps, np.dtype(dtype)
        self._c_contiguous = self.strides == steps


class Plain(Array):
    """The same of a CuPy without that flag, which is looked at in full."""

    def __getattribute__(self, name: str) -> Any:
        if name == "_c_contiguous":
            raise AttributeError(name)
        return super().__getattribute__(name)


class Launches(list[tuple[Any, ...]]):
    """What was launched: pointers, numbers, stream."""

    def prepared(self, values: Sequence[Any], places: Sequence[int], numbers: Any = ()) -> Any:
        return SimpleNamespace(
            template=SimpleNamespace(run=lambda *given: self.append(given)),
            pointers=tuple(values[place].data.ptr for place in places),
            numbers=numbers,
            stream=lambda: 77,
        )


def made(values: Sequence[Any], places: Sequence[int], **more: Any) -> tuple[Launches, Repeat]:
    launches = Launches()
    repeat = repeat_of(
        launches.prepared(values, places, more.pop("numbers", ())), values, places, **more
    )
    assert repeat is not None
    return launches, repeat


def drawn_array(rng: random.Random, kind: type[Array]) -> Array:
    shape = tuple(rng.choice((8, 16, 24)) for _ in range(rng.randint(1, 3)))
    strides = tuple(4 * each for each in (512, 32, 1)[-len(shape) :]) if rng.random() < 0.4 else ()
    return kind(16 * rng.randrange(1, 1 << 30), shape, strides)


def like(rng: random.Random, array: Array) -> Array:
    return type(array)(16 * rng.randrange(1, 1 << 30), array.shape, array.strides)


def other_than(rng: random.Random, array: Any) -> Any:
    """Something that looks different in one way."""
    if array is None or isinstance(array, float):
        return rng.choice((1, Array(256, (4, 4))))
    pointer, shape, strides = 16 * rng.randrange(1, 1 << 30), array.shape, array.strides
    kind = type(array)
    return rng.choice(
        (
            kind(pointer + rng.choice((1, 2, 4, 8)), shape, strides),
            kind(pointer, (*shape[:-1], shape[-1] + 8), strides),
            kind(pointer, (*shape, 1), (*strides, 4)),
            kind(pointer, shape, (strides[0] + 64, *strides[1:])),
            kind(pointer, shape, strides, "int32"),
            kind(pointer, shape, strides, "float32", 1),
            (Plain if kind is Array else Array)(pointer, shape, strides),
            None,
        )
    )


@pytest.mark.parametrize("seed", range(30))
def test_calls_of_any_kind_launch_for_the_same_looks_alone(seed: int) -> None:
    rng = random.Random(seed)
    values: list[Any] = []
    for _ in range(rng.randint(1, 7)):
        value = drawn_array(rng, rng.choice((Array, Array, Plain)))
        values.append(rng.choice((value, value, value, None, rng.random())))
    values.append(drawn_array(rng, Array))
    arrays = [place for place, value in enumerate(values) if isinstance(value, Array)]
    places = [rng.choice(arrays) for _ in range(len(arrays) + 1)]
    returned = [rng.choice(arrays)]
    launches, repeat = made(values, places, returned=returned)
    for stream in (None, 5):
        again = [like(rng, value) if isinstance(value, Array) else value for value in values]
        again = [rng.random() if isinstance(value, float) else value for value in again]
        numbers = tuple(value for value in again if isinstance(value, float))
        assert repeat(None, stream, False, *again) is again[returned[0]]
        pointers = tuple(again[place].data.ptr for place in places)
        assert launches.pop() == (pointers, numbers, 77 if stream is None else stream)
        place = rng.randrange(len(values))
        differs = other_than(rng, again[place])
        given = [*again[:place], differs, *again[place + 1 :]]
        if isinstance(differs, Array) and differs.data.ptr % 16 and place not in places:
            continue  # it is no array of the kernel
        assert repeat(None, stream, False, *given) is None
        assert not launches


def test_numbers_are_those_of_the_call_or_of_the_first() -> None:
    values = [Array(256, (4,))]
    launches, repeat = made(values, [0], numbers=(2.0,))
    repeat((-0.0,), None, False, *values)
    repeat(None, None, True, *values)
    assert [each[1] for each in launches] == [(-0.0,), (2.0,)]


def test_an_output_on_another_array_is_left_to_be_refused() -> None:
    rng = random.Random(3)
    one, two, out = (Array(0x10000 * each, (8, 8)) for each in (1, 2, 3))
    values = [one, two, out]
    for may_be_same in (False, True):
        checks = [overlap(values, 2, 0, may_be_same), overlap(values, 2, 1)]
        assert checks[0] == Overlap(2, 0, 256, 256, may_be_same)
        launches, repeat = made(values, [0, 1, 2], overlaps=checks)
        for _ in range(50):
            at = 0x8000 + 16 * rng.randrange(-20, 20)
            given = [Array(0x8000, (8, 8)), two, Array(at, (8, 8))]
            apart = abs(at - 0x8000) >= 256 or (may_be_same and at == 0x8000)
            assert (repeat(None, None, False, *given) is not None) == apart
            assert (repeat(None, None, True, *given) is not None) == apart
            assert len(launches) == 2 * apart
            launches.clear()


def test_bytes_below_the_first_element_count() -> None:
    back, ahead = np.zeros((8, 8), np.float32)[::-1], np.zeros((9, 8), np.float32)
    found, other = overlap([back, ahead], 0, 1), overlap([ahead, back], 0, 1)
    low, first = 0x1000, 0x1000 + 7 * 32
    for at in range(0x1000 - 0x200, 0x1000 + 0x200, 16):
        meets = low < at + 288 and at < low + 256
        assert found.meets({0: first, 1: at}) == meets
        assert other.meets({0: at, 1: first}) == meets


def test_arrays_that_have_to_be_apart() -> None:
    values = [Array(256, (8,)), Array(512, (8,))]
    launches, repeat = made(values, [0, 1], apart=[(0, 1)])
    assert repeat(None, None, False, *values)
    assert repeat(None, None, False, values[0], values[0]) is None
    assert len(launches) == 1


def test_results_are_made_for_the_stream_and_may_not_be_given() -> None:
    results: list[Array] = []
    asked: list[Any] = []

    def make(like: Array, stream: Any) -> Array:
        asked.append((like, stream))
        results.append(Array(4096 + 256 * len(results), like.shape))
        return results[-1]

    values = [Array(256, (8,)), Array(512, (8,)), Array(768, (8,))]
    launches, repeat = made(values, [0, 1, 2], makers={1: make, 2: make}, returned=[1, 2])
    given = Array(1024, (8,))
    assert repeat(None, 9, False, given, None, None) == tuple(results)
    assert asked == [(given, 9)] * 2
    assert launches == [((1024, 4096, 4352), (), 9)]
    assert repeat(None, None, False, given, values[1], None) is None
    assert len(launches) == 1


def test_addresses_have_the_remainders_of_the_first_ones() -> None:
    for first in (256, 260, 264):
        values = [Array(first, (8,)), Array(512, (8,))]
        launches, repeat = made(values, [0, 1], alignment=128)
        for pointer in range(0, 1024, 4):
            given = [Array(4096 + pointer, (8,)), values[1]]
            same = pointer % 128 == first % 128
            assert (repeat(None, None, True, *given) is not None) == same
        assert len(launches) == 8


def test_what_has_no_address_is_not_repeated() -> None:
    host = np.zeros(4)
    array = Array(256, (8,))
    assert repeat_of(Launches().prepared([array], [0]), [array, host], [0]) is None
