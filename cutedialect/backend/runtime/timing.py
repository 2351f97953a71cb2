"""GPU time of one launch, by CUDA events through CuPy: L2 is flushed before each launch, a round's
launches are queued before any is waited for, and the flush keeps the device busy while the host
queues what is timed. Waiting polls, so that Ctrl-C works while a kernel runs.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Protocol

from cutedialect.backend.runtime import buffers
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.cuda import PreparedCall
from cutedialect.backend.runtime.devices import current_arch, device_name
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.errors import PtxasNotFoundError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.outcomes import Outcomes
from cutedialect.backend.runtime.program import assembled
from cutedialect.backend.runtime.target_fit import device_arch, misfit

_L2_BYTES = 38  # cudaDevAttrL2CacheSize
# A flush of this size takes longer than the host needs to queue a launch and its two events.
_LEAST_FLUSH = 1 << 26
_PATIENCE = 20.0
_POLL = 1e-4


class NoDeviceError(RuntimeError):
    """There is no CUDA device, or no CuPy, to time kernels with."""

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
    """Times on CuPy's current device, with `check` comparing what kernels compute; raises
    NoDeviceError without a device.
    """

    def __init__(self, check: bool = True) -> None:
        try:
            cuda: Any = import_module("cupy.cuda") if gpu_available() else None
        except ImportError:
            cuda = None
        if cuda is None:
            raise NoDeviceError(
                "expected a CUDA device and CuPy to time schedules with, got none; emulated time "
                "says nothing of a device. 'python -m cutedialect schedules --problem MxNxK' "
                "shows the estimate that cute.gemm chooses by"
            )
        self._cuda = cuda
        self._index: int = cuda.runtime.getDevice()
        self._stream = cuda.Stream(non_blocking=True)
        size = 2 * cuda.runtime.deviceGetAttribute(_L2_BYTES, self._index)
        self._flushed = max(size, _LEAST_FLUSH)
        self._flush = cuda.alloc(self._flushed)
        self._outcomes = Outcomes() if check else None
        self._capability: str = cuda.Device(self._index).compute_capability
        self.device = device_name()
        self.arch = current_arch()

    def random(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, align: int
    ) -> buffers.DeviceTensor:
        return buffers.random(shape, strides, dtype, align, self._index)

    def copied(self, tensor: TensorArgument) -> buffers.DeviceTensor:
        return buffers.copied(tensor, self._index)

    def assemble(self, kernel: Kernel) -> object:
        arch = device_arch(self._capability, kernel.arch)
        if arch is None:
            raise RuntimeError(misfit(kernel.name, kernel.arch, self.device, self._capability))
        try:
            return assembled(kernel.ptx, arch, spills=kernel.program.spills)
        except PtxasNotFoundError:
            return None  # the driver assembles it when it is loaded

    def prepare(self, kernel: Kernel, arguments: Sequence[Any]) -> PreparedCall:
        try:
            if self._outcomes is not None:
                self._outcomes.restore(kernel.signature, arguments, self._stream.ptr)
            prepared = kernel.prepare(*arguments, stream=self._stream)
            self._finish()
            if self._outcomes is not None:
                self._outcomes.check(kernel.signature, arguments, self._stream.ptr, self._finish)
        except DeviceLostError:
            raise
        except Exception as error:
            self._check_alive(error)
            raise
        assert prepared is not None
        return prepared

    def time(self, prepared: Sequence[PreparedCall]) -> list[float]:
        stream, runtime = self._stream, self._cuda.runtime
        marks: list[tuple[Any, Any]] = []
        try:
            for call in prepared:
                runtime.memsetAsync(self._flush.ptr, 0, self._flushed, stream.ptr)
                start = self._mark()
                call.repeat(stream)
                marks.append((start, self._mark()))
            if marks:
                self._wait(marks[-1][1])
        except DeviceLostError:
            raise
        except Exception as error:
            self._check_alive(error)
            raise
        elapsed = self._cuda.get_elapsed_time
        return [1e3 * elapsed(start, stop) for start, stop in marks]

    def close(self) -> None:
        self._finish()

    def _finish(self) -> None:
        self._wait(self._mark())

    def _mark(self) -> Any:
        event = self._cuda.Event()
        event.record(self._stream)
        return event

    def _wait(self, event: Any) -> None:
        limit = time.monotonic() + _PATIENCE
        while not event.done:
            if time.monotonic() > limit:
                raise DeviceLostError(f"expected launches to end within {_PATIENCE:g} s, got none")
            time.sleep(_POLL)

    def _check_alive(self, error: Exception) -> None:
        """An illegal access ends every later use of the device by this process."""
        try:
            self._cuda.runtime.deviceSynchronize()
        except Exception:
            raise DeviceLostError(f"{type(error).__name__}: {error}") from error
