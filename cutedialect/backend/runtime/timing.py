"""GPU time of one launch, by CUDA events of the driver: L2 is flushed before each launch, a round's
launches are queued before any is waited for, and the flush keeps the device busy while the host
queues what is timed. Waiting polls, so that Ctrl-C works while a kernel runs.
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
from cutedialect.backend.runtime.driver import L2_CACHE_SIZE, Driver, DriverError, find_driver
from cutedialect.backend.runtime.errors import PtxasNotFoundError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.outcomes import Outcomes
from cutedialect.backend.runtime.program import assembled
from cutedialect.backend.runtime.target_fit import fitting_arch

# A flush of this size takes longer than the host needs to queue a launch and its two events.
_LEAST_FLUSH = 1 << 26
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
        """Microseconds of one launch of each, launched one after the other."""
        ...

    def close(self) -> None:
        """Wait for what is queued, before its memory is used for something else."""
        ...


class DeviceTimer:
    """Times on the calling thread's current device, with `check` comparing what kernels compute;
    raises NoDeviceError without a device.
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
        self._flushed = max(2 * driver.device_attribute(L2_CACHE_SIZE, self._index), _LEAST_FLUSH)
        with driver.on(self._index):
            self._stream = driver.new_stream()
            self._flush = Allocation(driver, self._index, self._flushed)
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

    def prepare(self, kernel: Kernel, arguments: Sequence[Any]) -> PreparedCall:
        with self._alive():
            if self._outcomes is not None:
                self._outcomes.restore(kernel.signature, arguments, self._stream)
            prepared = kernel.prepare(*arguments, stream=self._stream)
            self._finish()
            if self._outcomes is not None:
                self._outcomes.check(kernel.signature, arguments, self._stream, self._finish)
        assert prepared is not None
        return prepared

    def time(self, prepared: Sequence[PreparedCall]) -> list[float]:
        driver, stream = self._driver, self._stream
        marks: list[tuple[int, int]] = []
        with self._alive():
            try:
                for call in prepared:
                    driver.fill(self._flush.pointer, 0, self._flushed, stream)
                    start = driver.record(stream)
                    marks.append((start, start))
                    call.repeat(stream)
                    marks[-1] = (start, driver.record(stream))
                if marks:
                    self._wait(marks[-1][1])
                return [driver.microseconds(start, stop) for start, stop in marks]
            finally:
                for event in {event for pair in marks for event in pair}:
                    self._forget(event)

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


def _delete(driver: Driver, device: int, stream: int) -> None:
    with suppress(DriverError), driver.on(device):
        driver.delete_stream(stream)
