"""GPU time of launches that follow each other, as those of a network do, by CUDA events of the
driver: their operands rotate past L2. A launch by itself, behind a flush of L2, does not show what
it saves that CTAs start early. The device fills memory while the host queues what is timed. Waiting
polls, so that Ctrl-C works while a kernel runs.
"""

from __future__ import annotations

import time
import weakref
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, Protocol

from cutedialect.backend.runtime import buffers
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.cuda import PreparedCall
from cutedialect.backend.runtime.device_memory import Allocation
from cutedialect.backend.runtime.devices import current_arch, device_name
from cutedialect.backend.runtime.driver import (
    L2_CACHE_SIZE,
    Driver,
    DriverError,
    OutOfMemoryError,
    find_driver,
)
from cutedialect.backend.runtime.errors import PtxasNotFoundError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.outcomes import Outcomes
from cutedialect.backend.runtime.program import assembled
from cutedialect.backend.runtime.target_fit import fitting_arch

# Filling so many bytes so often takes longer than the host needs to queue the launches of a batch.
_LEAST_FILLED_BYTES, _DELAYS = 1 << 26, 8
# Between two uses of an operand so many times L2 is read or written, by so many copies at most.
_L2_TURNS, _MOST_SETS = 2, 64
# Launches of a batch take about so long.
_BATCH_US, _LEAST, _MOST = 400.0, 3, 40
_PATIENCE = 20.0
_POLL = 1e-4


class NoDeviceError(RuntimeError):
    """There is no CUDA device to time kernels on."""

    code = "CD-DEVICE"


class DeviceLostError(RuntimeError):
    """A kernel left the device unusable for this process, or does not end."""

    code = "CD-DEVICE"


class Timer(Protocol):
    """What tuning asks of a device."""

    @property
    def device(self) -> str:
        """The device's name; results are kept under it."""
        ...

    @property
    def arch(self) -> str:
        """The target to compile for by default."""
        ...

    def random(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, align: int
    ) -> Any:
        """An array of random numbers for a spec."""
        ...

    def copied(self, tensor: TensorArgument) -> Any:
        """A private copy of an array."""
        ...

    def assemble(self, kernel: Kernel) -> object:
        """Make the machine code for the device, from any thread; raises where there is none."""
        ...

    def prepare(self, kernel: Kernel, arguments: Sequence[Any]) -> Any:
        """Load a kernel and run it once; raises what keeps it from running, and ValueError for a
        result that is not the first one's.
        """
        ...

    def time(self, prepared: Sequence[Any]) -> list[float]:
        """Microseconds of one launch of each."""
        ...

    def close(self) -> None:
        """Wait for what is queued, before its memory is used for something else."""
        ...


class DeviceTimer:
    """Times on the calling thread's current device, with `check` comparing what kernels compute;
    raises NoDeviceError without a device. What is prepared is a call for each set of operands, all
    of which have the same numbers.
    """

    def __init__(self, check: bool = True) -> None:
        driver = find_driver()
        if driver is None:
            raise NoDeviceError(
                "expected a CUDA device to time schedules on, got none; emulated time says nothing "
                "of a device. 'python -m cutedialect schedules --problem MxNxK' shows the estimate "
                "that cute.gemm chooses by"
            )
        self._driver = driver
        self._index = driver.current_device()
        self._l2_bytes = driver.device_attribute(L2_CACHE_SIZE, self._index)
        self._filled = max(2 * self._l2_bytes, _LEAST_FILLED_BYTES)
        with driver.on(self._index):
            self._stream = driver.new_stream()
            self._filling = Allocation(driver, self._index, self._filled)
        # By the place and the bytes of an array.
        self._copies: dict[tuple[int, int], list[TensorArgument]] = {}
        # By the identity of what was prepared, what a launch of it took.
        self._last_us: dict[int, float] = {}
        weakref.finalize(self, _delete, driver, self._index, self._stream).atexit = False
        self._outcomes = Outcomes(driver, self._index) if check else None
        self.device = device_name()
        self.arch = current_arch()

    def random(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, align: int
    ) -> buffers.DeviceTensor:
        with self._driver.on(self._index):
            return buffers.random(shape, strides, dtype, align, self._driver, self._index)

    def copied(self, tensor: TensorArgument) -> buffers.DeviceTensor:
        with self._driver.on(self._index):
            return buffers.copied(tensor, self._driver, self._index)

    def assemble(self, kernel: Kernel) -> object:
        arch = fitting_arch(self._driver, self._index, kernel.name, kernel.arch)
        try:
            return assembled(kernel.ptx, arch, spills=kernel.program.spills)
        except PtxasNotFoundError:
            return None  # the driver assembles it when it is loaded

    def prepare(self, kernel: Kernel, arguments: Sequence[Any]) -> list[PreparedCall]:
        with self._alive():
            if self._outcomes is not None:
                self._outcomes.restore(kernel.signature, arguments, self._stream)
            first = kernel.prepare(*arguments, stream=self._stream)
            self._finish()
            if self._outcomes is not None:
                self._outcomes.check(kernel.signature, arguments, self._stream, self._finish)
            others = [kernel.prepare(*each, stream=self._stream) for each in self._sets(arguments)]
            self._finish()
        return [call for call in (first, *others) if call is not None]

    def _sets(self, arguments: Sequence[Any]) -> list[list[Any]]:
        """The arguments with copies of their arrays, so often that L2 holds none of them until it
        is used again, or as often as memory suffices.
        """
        sizes = [size for each in arguments for _, size in _places(each)]
        count = min(_MOST_SETS, -(-_L2_TURNS * self._l2_bytes // max(1, sum(sizes))))
        sets: list[list[Any]] = []
        with suppress(OutOfMemoryError):
            for number in range(count):
                sets.append([self._copy(number, each) for each in arguments])
        return sets

    def _copy(self, number: int, value: Any) -> Any:
        """The copy of a number of an argument; views of one array are views of one copy."""
        if isinstance(value, list | tuple):
            return [self._copy(number, each) for each in value]
        if not isinstance(value, buffers.DeviceTensor):
            return value
        first, place = value.argument, _places(value)[0]
        copies = self._copies.setdefault(place, [])
        while len(copies) <= number:
            copies.append(self.copied(first).argument)
        copy = copies[number]
        return buffers.DeviceTensor(first._replace(pointer=copy.pointer, owner=copy.owner))

    def time(self, prepared: Sequence[Sequence[PreparedCall]]) -> list[float]:
        return [self._batch(calls) for calls in prepared]

    def _batch(self, calls: Sequence[PreparedCall]) -> float:
        """Microseconds of one of some launches that follow each other."""
        driver, stream = self._driver, self._stream
        last_us = self._last_us.get(id(calls), _BATCH_US)
        launches = max(_LEAST, min(_MOST, round(_BATCH_US / max(last_us, 1e-3))))
        events: list[int] = []
        with self._alive():
            try:
                for _ in range(_DELAYS):
                    driver.fill(self._filling.pointer, 0, self._filled, stream)
                events.append(driver.record(stream))
                for number in range(launches):
                    calls[number % len(calls)].repeat(stream)
                events.append(driver.record(stream))
                self._wait(events[-1])
                self._last_us[id(calls)] = driver.microseconds(*events) / launches
            finally:
                for event in events:
                    self._forget(event)
        return self._last_us[id(calls)]

    def close(self) -> None:
        with self._driver.on(self._index):
            self._finish()

    def _finish(self) -> None:
        event = self._driver.record(self._stream)
        try:
            self._wait(event)
        finally:
            self._forget(event)

    def _forget(self, event: int) -> None:
        with suppress(DriverError):  # of a device that is lost, which is told of already
            self._driver.delete_event(event)

    def _wait(self, event: int) -> None:
        limit = time.monotonic() + _PATIENCE
        while not self._driver.has_passed(event):
            if time.monotonic() > limit:
                raise DeviceLostError(f"expected launches to end within {_PATIENCE:g} s, got none")
            time.sleep(_POLL)

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """The device's context as the calling thread's; raises DeviceLostError for an error after
        which the device is of no use: an illegal access ends every later use by this process.
        """
        with self._driver.on(self._index):
            try:
                yield
            except DeviceLostError:
                raise
            except Exception as error:
                try:
                    self._driver.synchronize_context()
                except Exception:
                    raise DeviceLostError(f"{type(error).__name__}: {error}") from error
                raise


def _places(value: Any) -> list[tuple[int, int]]:
    """Where the arrays of an argument lie, and their bytes."""
    if isinstance(value, list | tuple):
        return [place for each in value for place in _places(each)]
    if not isinstance(value, buffers.DeviceTensor):
        return []
    return [buffers.span_of(value.argument)]


def _delete(driver: Driver, device: int, stream: int) -> None:
    with suppress(DriverError), driver.on(device):
        driver.delete_stream(stream)
