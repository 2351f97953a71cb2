"""A remembered call is repeated only where it is the same call."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.runtime.repeated_calls import RepeatedCalls


class DeviceArray:
    __module__ = "cupy"
    data: Any = None

    def __init__(self, pointer: int) -> None:
        self.data = SimpleNamespace(ptr=pointer, device_id=0)
        self.shape, self.strides, self.dtype = (4,), (4,), np.dtype("float32")


class FakePrepared:
    def __init__(self) -> None:
        self.streams: list[Any] = []

    def repeat(self, stream: Any) -> bool:
        self.streams.append(stream)
        return True


def test_equal_calls_are_repeated() -> None:
    calls, prepared = RepeatedCalls(), FakePrepared()
    kernel: Any = SimpleNamespace(prepared=lambda *args: prepared)
    arrays = (DeviceArray(16), None, 1.0)
    assert not calls.repeat(arrays, ("relu",))
    calls.keep(arrays, ("relu",), kernel, arrays)
    assert calls.repeat((DeviceArray(16), None, 1.0), ("relu",), 5)
    assert prepared.streams == [5]
    for other, options in [
        ((DeviceArray(32), None, 1.0), ("relu",)),
        ((DeviceArray(16), None, 1), ("relu",)),
        ((DeviceArray(16), 1.0, 1.0), ("relu",)),
        ((DeviceArray(16), None, 1.0), ("gelu",)),
        ((DeviceArray(16), None, True), ("relu",)),
    ]:
        assert not calls.repeat(other, options)


@pytest.mark.parametrize(
    ("arrays", "options"), [((np.zeros(4),), ()), ((DeviceArray(16),), ([],)), (("text",), ())]
)
def test_what_cannot_be_remembered(arrays: tuple[Any, ...], options: Any) -> None:
    calls = RepeatedCalls()
    kernel: Any = SimpleNamespace(prepared=lambda *args: FakePrepared())
    calls.keep(arrays, options, kernel, arrays)
    assert not calls.repeat(arrays, options)
