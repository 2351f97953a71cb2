"""The CUDA driver through ctypes: devices and their primary contexts, modules, memory, and streams
under capture. Arrays of torch, CuPy and JAX live in primary contexts, as does what is loaded here.

A `Driver` takes the library as an object whose attributes are the functions of cuda.h; tests hand
in one of their own.
"""

from __future__ import annotations

import ctypes
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

# The CUDA driver's library.
DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

MULTIPROCESSOR_COUNT = 16
L2_CACHE_SIZE = 38
_CAPABILITY_MAJOR, _CAPABILITY_MINOR = 75, 76
# CUfunction_attribute: threads of a CTA that the function takes at most; dynamic shared memory that
# it may ask for; clusters of more CTAs than every device with clusters has.
MAX_THREADS_PER_BLOCK = 0
MAX_DYNAMIC_SMEM = 8
NON_PORTABLE_CLUSTER = 14
# CUlaunchAttributeID: a launch may start while the one in front of it ends.
PROGRAMMATIC_LAUNCH = 6
_DEVICE_ORDINAL = 9  # CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL
_NON_BLOCKING = 1  # CU_STREAM_NON_BLOCKING
_RELAXED = 2  # CU_STREAM_CAPTURE_MODE_RELAXED
_CAPTURING = 1  # CU_STREAM_CAPTURE_STATUS_ACTIVE
_SUCCESS, _OUT_OF_MEMORY, _NOT_READY = 0, 2, 600
# Without them a call of the driver says so by one of these.
NOT_INITIALIZED, NO_CONTEXT = 3, 201

# Those that a driver before CUDA 12 lacks are looked up where they are used.
_VERSIONED = {
    "cuDeviceTotalMem": "cuDeviceTotalMem_v2",
    "cuModuleGetGlobal": "cuModuleGetGlobal_v2",
    "cuMemAlloc": "cuMemAlloc_v2",
    "cuMemFree": "cuMemFree_v2",
    "cuMemcpyHtoDAsync": "cuMemcpyHtoDAsync_v2",
    "cuMemcpyDtoHAsync": "cuMemcpyDtoHAsync_v2",
    "cuMemcpyDtoDAsync": "cuMemcpyDtoDAsync_v2",
    "cuCtxPushCurrent": "cuCtxPushCurrent_v2",
    "cuCtxPopCurrent": "cuCtxPopCurrent_v2",
    "cuStreamGetCaptureInfo": "cuStreamGetCaptureInfo_v2",
}


class DriverError(RuntimeError):
    """A call of the driver that did not succeed; `status` is its CUresult."""

    code = "CD-DEVICE"

    def __init__(self, function: str, status: int, name: str) -> None:
        super().__init__(f"expected {function} to succeed, got {name} ({status})")
        self.status = status


class OutOfMemoryError(DriverError, MemoryError):
    """The device has not as much memory left."""


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute with the extents of a cluster, or a number in the place of the first."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("extents", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    )


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("smem", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


class Driver:
    """The driver, initialized; raises DriverError or OSError where there is none to speak of.
    `held` is the library once more, as one whose functions are called with Python's lock held.
    """

    def __init__(self, library: Any, held: Any = None) -> None:
        self._library, self._held = library, held
        self._functions: dict[str, Any] = {}
        self._contexts: dict[int, int] = {}
        self._lock = threading.Lock()
        self.call("cuInit", ctypes.c_uint(0))

    def function(self, name: str) -> Any:
        """A function of cuda.h; AttributeError where the driver is too old."""
        found = self._functions.get(name)
        if found is None:
            found = self._functions[name] = self._found(self._library, name)
        return found

    def quick(self, name: str) -> Any:
        """The same for a function that never waits: it is called without letting other threads of
        Python run meanwhile.
        """
        return self.function(name) if self._held is None else self._found(self._held, name)

    def _found(self, library: Any, name: str) -> Any:
        return getattr(library, _VERSIONED.get(name, name))

    def call(self, name: str, *arguments: Any) -> None:
        """Call a function of cuda.h with ctypes values; raises DriverError."""
        status = self.function(name)(*arguments)
        if status != _SUCCESS:
            raise self.error(name, status)

    def error(self, name: str, status: int) -> DriverError:
        """The error for a status that a function returned."""
        text = ctypes.c_char_p()
        described = self.function("cuGetErrorName")(ctypes.c_int(status), ctypes.byref(text))
        known = described == _SUCCESS and text.value is not None
        kind = OutOfMemoryError if status == _OUT_OF_MEMORY else DriverError
        return kind(name, status, text.value.decode() if known else "an error")  # type: ignore[union-attr]

    def release(self) -> tuple[int, int]:
        """The release of CUDA that the driver came with, such as (13, 0)."""
        number = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(number))
        return number.value // 1000, number.value % 1000 // 10

    # Devices.

    def device_count(self) -> int:
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value

    def device_attribute(self, attribute: int, device: int) -> int:
        value = ctypes.c_int()
        self.call(
            "cuDeviceGetAttribute",
            ctypes.byref(value),
            ctypes.c_int(attribute),
            ctypes.c_int(device),
        )
        return value.value

    def capability(self, device: int) -> str:
        """The compute capability as "90" or "100"."""
        major = self.device_attribute(_CAPABILITY_MAJOR, device)
        return f"{major}{self.device_attribute(_CAPABILITY_MINOR, device)}"

    def device_name(self, device: int) -> str:
        text = ctypes.create_string_buffer(256)
        self.call("cuDeviceGetName", text, ctypes.c_int(256), ctypes.c_int(device))
        return text.value.decode()

    def device_memory(self, device: int) -> int:
        """Bytes of a device's memory."""
        size = ctypes.c_size_t()
        self.call("cuDeviceTotalMem", ctypes.byref(size), ctypes.c_int(device))
        return size.value

    def device_of(self, pointer: int) -> int:
        """The device that owns an address."""
        value = ctypes.c_int()
        self.call(
            "cuPointerGetAttribute",
            ctypes.byref(value),
            ctypes.c_int(_DEVICE_ORDINAL),
            ctypes.c_uint64(pointer),
        )
        return value.value

    # Contexts.

    def primary_context(self, device: int) -> int:
        """The handle of a device's primary context, retained for the life of the process."""
        found = self._contexts.get(device)
        if found is None:
            with self._lock:
                found = self._contexts.get(device)
                if found is None:
                    context = ctypes.c_void_p()
                    self.call(
                        "cuDevicePrimaryCtxRetain", ctypes.byref(context), ctypes.c_int(device)
                    )
                    found = self._contexts[device] = context.value or 0
        return found

    def current_context(self) -> int:
        """The handle of the calling thread's context, 0 for none."""
        context = ctypes.c_void_p()
        self.call("cuCtxGetCurrent", ctypes.byref(context))
        return context.value or 0

    def current_device(self) -> int:
        """The device of the calling thread's context; the first one without a context."""
        if not self.current_context():
            return 0
        device = ctypes.c_int()
        self.call("cuCtxGetDevice", ctypes.byref(device))
        return device.value

    @contextmanager
    def on(self, device: int) -> Iterator[None]:
        """A device's primary context as the calling thread's. One that has none yet keeps it, as
        threads do that call the CUDA runtime.
        """
        context = ctypes.c_void_p(self.primary_context(device))
        current = self.current_context()
        if current == context.value:
            yield
        elif current == 0:
            self.call("cuCtxSetCurrent", context)
            yield
        else:
            self.call("cuCtxPushCurrent", context)
            try:
                yield
            finally:
                self.call("cuCtxPopCurrent", ctypes.byref(ctypes.c_void_p()))

    # Modules, in the current context.

    def load(self, image: bytes) -> ctypes.c_void_p:
        """A module of a cubin, or of PTX text that ends in a zero byte."""
        module = ctypes.c_void_p()
        self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(image))
        return module

    def module_function(self, module: ctypes.c_void_p, name: str) -> int:
        function = ctypes.c_void_p()
        self.call("cuModuleGetFunction", ctypes.byref(function), module, name.encode())
        return function.value or 0

    def module_variable(self, module: ctypes.c_void_p, name: str) -> int:
        """The address of a variable in global memory."""
        pointer = ctypes.c_uint64()
        self.call("cuModuleGetGlobal", ctypes.byref(pointer), None, module, name.encode())
        return pointer.value

    def set_function_attribute(self, function: int, attribute: int, value: int) -> None:
        self.call(
            "cuFuncSetAttribute",
            ctypes.c_void_p(function),
            ctypes.c_int(attribute),
            ctypes.c_int(value),
        )

    def function_attribute(self, function: int, attribute: int) -> int:
        value = ctypes.c_int()
        self.call(
            "cuFuncGetAttribute",
            ctypes.byref(value),
            ctypes.c_int(attribute),
            ctypes.c_void_p(function),
        )
        return value.value

    # Memory, in the current context.

    def allocate(self, size: int) -> int:
        """New memory of at least one byte, also while a stream is captured; it stays until
        `free`.
        """
        pointer = ctypes.c_uint64()
        with self._relaxed():
            self.call("cuMemAlloc", ctypes.byref(pointer), ctypes.c_size_t(max(1, size)))
        return pointer.value

    def free(self, pointer: int) -> None:
        with self._relaxed():
            self.call("cuMemFree", ctypes.c_uint64(pointer))

    def clear(self, pointer: int, size: int) -> None:
        """Zeros, there when the call returns; no stream under capture notices."""
        with self._relaxed():
            stream = self.new_stream()
            try:
                self.fill(pointer, 0, size, stream)
                self.synchronize(stream)
            finally:
                self.delete_stream(stream)

    def fill(self, pointer: int, value: int, size: int, stream: int) -> None:
        """Queue what makes every byte of memory a value."""
        self.call(
            "cuMemsetD8Async",
            ctypes.c_uint64(pointer),
            ctypes.c_ubyte(value),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )

    def copy_to_device(self, target: int, source: int, size: int, stream: int) -> None:
        self.call(
            "cuMemcpyHtoDAsync",
            ctypes.c_uint64(target),
            ctypes.c_void_p(source),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )

    def copy_to_host(self, target: int, source: int, size: int, stream: int) -> None:
        self.call(
            "cuMemcpyDtoHAsync",
            ctypes.c_void_p(target),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )

    def copy_on_device(self, target: int, source: int, size: int, stream: int) -> None:
        self.call(
            "cuMemcpyDtoDAsync",
            ctypes.c_uint64(target),
            ctypes.c_uint64(source),
            ctypes.c_size_t(size),
            ctypes.c_void_p(stream),
        )

    # Streams and events, in the current context.

    def new_stream(self) -> int:
        """A stream that waits for no other one; it stays until `delete_stream`."""
        stream = ctypes.c_void_p()
        self.call("cuStreamCreate", ctypes.byref(stream), ctypes.c_uint(_NON_BLOCKING))
        return stream.value or 0

    def delete_stream(self, stream: int) -> None:
        self.call("cuStreamDestroy_v2", ctypes.c_void_p(stream))

    def record(self, stream: int) -> int:
        """A new event behind the work on a stream, which tells when it comes to pass; it stays
        until `delete_event`.
        """
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(0))
        self.call("cuEventRecord", event, ctypes.c_void_p(stream))
        return event.value or 0

    def has_passed(self, event: int) -> bool:
        """Whether the work in front of an event is done; raises DriverError where it failed."""
        status = self.function("cuEventQuery")(ctypes.c_void_p(event))
        if status not in (_SUCCESS, _NOT_READY):
            raise self.error("cuEventQuery", status)
        return status == _SUCCESS

    def microseconds(self, start: int, stop: int) -> float:
        """Time between two events that have passed."""
        value = ctypes.c_float()
        self.call(
            "cuEventElapsedTime", ctypes.byref(value), ctypes.c_void_p(start), ctypes.c_void_p(stop)
        )
        return 1e3 * value.value

    def delete_event(self, event: int) -> None:
        self.call("cuEventDestroy_v2", ctypes.c_void_p(event))

    def synchronize(self, stream: int) -> None:
        self.call("cuStreamSynchronize", ctypes.c_void_p(stream))

    def synchronize_context(self) -> None:
        """Wait for all work in the current context."""
        self.call("cuCtxSynchronize")

    # Streams under capture.

    def captured_id(self, stream: int) -> int:
        """The number of the capture that a stream is under, 0 for none."""
        status, number = ctypes.c_int(), ctypes.c_uint64()
        self.call(
            "cuStreamGetCaptureInfo",
            ctypes.c_void_p(stream),
            ctypes.byref(status),
            ctypes.byref(number),
            None,
            None,
            None,
        )
        return number.value if status.value == _CAPTURING else 0

    @contextmanager
    def _relaxed(self) -> Iterator[None]:
        """Lets the calling thread call what a capture in another mode forbids."""
        mode = ctypes.c_int(_RELAXED)
        self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))
        try:
            yield
        finally:
            self.call("cuThreadExchangeStreamCaptureMode", ctypes.byref(mode))


_found: list[Driver | None] = []
_finding = threading.Lock()


def find_driver() -> Driver | None:
    """The driver of this machine if it has a device, else None; looked for once."""
    if not _found:
        with _finding:
            if not _found:
                _found.append(_usable())
    return _found[0]


def driver() -> Driver:
    """The driver; raises RuntimeError without one or without a device."""
    found = find_driver()
    if found is None:
        raise RuntimeError(f"expected a CUDA device and its driver ({DRIVER}), got none")
    return found


def use_library(library: Any) -> None:
    """Take a library in the place of the machine's; None looks for the machine's again."""
    _found[:] = [] if library is None else [Driver(library)]


def gpu_available() -> bool:
    """Whether there is a CUDA device."""
    return find_driver() is not None


def _usable() -> Driver | None:
    try:
        found = Driver(ctypes.CDLL(DRIVER), ctypes.PyDLL(DRIVER))
        return found if found.device_count() else None
    except (OSError, DriverError, AttributeError):  # no driver, or one without a device
        return None
