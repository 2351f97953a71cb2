"""The look at the arguments of a launch: equal for those that launch alike, and for no others."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.launch_looks import launch_look, launch_look_for


class Plain:
    """An array of CuPy at a made-up address."""

    __module__ = "cupy"
    data: Any = None

    def __init__(self, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> None:
        self.data = SimpleNamespace(ptr=pointer, device_id=0)
        self.shape, self.strides, self.dtype = shape, strides, np.dtype("float32")


class Told(Plain):
    """One that says whether its elements follow each other, as CuPy's do."""

    __module__ = "cupy"

    @property
    def _c_contiguous(self) -> bool:
        steps = [4]
        for extent in self.shape[:0:-1]:
            steps.insert(0, steps[0] * extent)
        return tuple(steps) == self.strides


def drawn(rng: random.Random) -> list[Any]:
    values: list[Any] = []
    for _ in range(rng.randint(0, 4)):
        shape = rng.choice([(4, 8), (8, 4), (4, 4)])
        strides = rng.choice([(4 * shape[1], 4), (4, 4 * shape[0]), (64, 4)])
        cls = rng.choice([Plain, Told])
        values.append(cls(rng.choice([256, 260, 512, 1024]), shape, strides))
        values.append(rng.choice([1.5, -0.0, 0.0, 3, None, np.float32(2)]))
    return values


def facts(value: Any) -> Any:
    """What of a value decides a launch, beside the addresses and the floats of Python."""
    if isinstance(value, Plain):
        return type(value), value.shape, value.strides, value.data.ptr % 16
    return (type(value), None if type(value) is float else repr(value))


def test_looks_are_equal_where_launches_are() -> None:
    rng = random.Random(0)
    seen: dict[Any, Any] = {}
    keys: dict[Any, Any] = {}
    for _ in range(600):
        values = drawn(rng)
        look = launch_look(values)
        assert look is not None
        key, pointers, numbers = look
        assert pointers == tuple(each.data.ptr for each in values if isinstance(each, Plain))
        assert repr(numbers) == repr(tuple(each for each in values if type(each) is float))
        wanted = tuple(map(facts, values))
        assert seen.setdefault(key, wanted) == wanted
        assert keys.setdefault(wanted, key) == key


@pytest.mark.parametrize("values", [[], [1.5], [Told(256, (4, 4), (16, 4)), 2.5]])
def test_values_of_other_classes_need_another_look(values: list[Any]) -> None:
    look = launch_look_for(values)
    assert look(values) == launch_look(values)
    for other in ([*values, 1.5], [*values[:-1], 7], [None, *values]):
        if list(map(type, other)) != list(map(type, values)):
            assert look(other) is NotImplemented
            assert launch_look(other) is not NotImplemented


def test_an_array_that_has_to_be_bound_each_time_has_no_look() -> None:
    host = np.zeros((4, 4), np.float32)
    told = SimpleNamespace(argument=TensorArgument(256, (4,), (1,), "float32", 0, None, stream=5))
    for value in (host, told, "text"):
        assert launch_look([Told(256, (4, 4), (16, 4)), value]) is None
