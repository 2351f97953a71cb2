"""GPU time of launches that follow each other, as those of a network do: on operands that rotate
past L2. A launch by itself, behind a flush, does not show what it saves that CTAs start early.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import DeviceTensor, span_bytes
from cutedialect.backend.runtime.cuda import PreparedCall
from cutedialect.backend.runtime.driver import L2_CACHE_SIZE
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.timing import DeviceTimer

# Between two uses of an operand so many times L2 is read or written.
_L2_TURNS, _MOST_SETS = 2, 64
# Launches of a batch take about so long, and are queued while the device fills memory so often.
_BATCH_US, _LEAST, _MOST, _DELAYS = 400.0, 3, 40, 8


class RotatedTimer(DeviceTimer):
    """What is prepared is a call for each set of operands, all of which have the same numbers."""

    def __init__(self) -> None:
        super().__init__(check=False)
        self._l2 = self._driver.device_attribute(L2_CACHE_SIZE, self._index)
        self._sets: dict[int, list[TensorArgument]] = {}
        self._last: dict[int, float] = {}

    def prepare(self, kernel: Kernel, arguments: Sequence[Any]) -> Any:
        tensors = [each.argument for each in arguments if isinstance(each, DeviceTensor)]
        size = sum(span_bytes(each.shape, each.strides, each.dtype) for each in tensors)
        count = 1 + min(_MOST_SETS, -(-_L2_TURNS * self._l2 // max(1, size)))
        return [
            super(RotatedTimer, self).prepare(kernel, [self._of(number, x) for x in arguments])
            for number in range(count)
        ]

    def _of(self, number: int, value: Any) -> Any:
        """An argument, or that copy of it."""
        if number == 0 or not isinstance(value, DeviceTensor):
            return value
        first = value.argument
        copies = self._sets.setdefault(first.pointer, [])
        while len(copies) < number:
            copies.append(self.copied(first).argument)
        copy = copies[number - 1]
        return DeviceTensor(first._replace(pointer=copy.pointer, owner=copy.owner))

    def time(self, prepared: Sequence[Sequence[PreparedCall]]) -> list[float]:
        return [self._batch(calls) for calls in prepared]

    def _batch(self, calls: Sequence[PreparedCall]) -> float:
        """Microseconds of one launch of a batch."""
        driver, stream = self._driver, self._stream
        last = self._last.get(id(calls), _BATCH_US)
        launches = max(_LEAST, min(_MOST, round(_BATCH_US / max(last, 1e-3))))
        events: list[int] = []
        with self._alive():
            try:
                for _ in range(_DELAYS):
                    driver.fill(self._flush.pointer, 0, self._flushed, stream)
                events.append(driver.record(stream))
                for number in range(launches):
                    calls[number % len(calls)].repeat(stream)
                events.append(driver.record(stream))
                self._wait(events[-1])
                figure = driver.microseconds(*events) / launches
            finally:
                for event in events:
                    self._forget(event)
        self._last[id(calls)] = figure
        return figure
