"""The stream of a launch: what users pass as `stream=` (a handle as an int, a CuPy or torch stream,
or any object with `__cuda_stream__`), or the current one of the library that the arrays come from.
"""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from functools import partial
from importlib import import_module
from typing import Any

from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.driver import Driver

_DISABLE_TIMING = 2


def stream_handle(stream: Any) -> int:
    """The handle of a stream given by the user; raises TypeError for anything else."""
    if isinstance(stream, int) and not isinstance(stream, bool):
        if stream < 0:
            raise ValueError(f"stream: expected a handle of zero or more, got {stream}")
        return stream
    for attribute in ("ptr", "cuda_stream"):
        handle = getattr(stream, attribute, None)
        if isinstance(handle, int):
            return handle
    protocol = getattr(stream, "__cuda_stream__", None)
    if protocol is not None:
        value = protocol() if callable(protocol) else protocol
        if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], int):
            return value[1]
    raise TypeError(
        "stream: expected an int, a CuPy or torch stream, or an object with __cuda_stream__, got "
        f"{type(stream).__name__}"
    )


class _External:
    """A stream by its handle, as other libraries take it."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def __cuda_stream__(self) -> tuple[int, int]:
        return 0, self._handle


def cupy_stream(stream: Any) -> Any:
    """A stream given by the user as one of CuPy's, which makes it current in a `with`."""
    return import_module("cupy.cuda").Stream.from_external(_External(stream_handle(stream)))


def current_stream(tensor: TensorArgument | None, device: int) -> Callable[[], int]:
    """What gives the stream on which work on an array is ordered: the one that the array names,
    else the current one of its library, else CuPy's where that is in use, else the default one.
    """
    if tensor is not None and tensor.stream is not None:
        stream = tensor.stream
        return lambda: stream
    if from_torch(tensor):
        # What torch's own generated code calls; it makes no object.
        raw = getattr(sys.modules["torch"]._C, "_cuda_getCurrentRawStream", torch_handle)
        return partial(raw, device)
    cuda: Any = sys.modules.get("cupy.cuda")
    if cuda is None:
        return _cupy_handle
    get_current = cuda.get_current_stream
    return lambda: get_current().ptr


def _cupy_handle() -> int:
    """CuPy's current stream where it has been imported meanwhile, else the default one."""
    cuda: Any = sys.modules.get("cupy.cuda")
    return 0 if cuda is None else cuda.get_current_stream().ptr


def from_torch(tensor: TensorArgument | None) -> bool:
    """Whether torch's current stream orders work on `tensor`."""
    return tensor is not None and any(
        base.__module__.partition(".")[0] == "torch" for base in type(tensor.owner).__mro__
    )


def torch_handle(device: int) -> int:
    """torch's current stream on a device."""
    return sys.modules["torch"].cuda.current_stream(device).cuda_stream


def wait_for(driver: Driver, before: int, after: int) -> None:
    """Make later work on the stream `after` wait for all work so far on the stream `before`."""
    if before == after:
        return
    event = ctypes.c_void_p()
    driver.call("cuEventCreate", ctypes.byref(event), ctypes.c_uint(_DISABLE_TIMING))
    driver.call("cuEventRecord", event, ctypes.c_void_p(before))
    driver.call("cuStreamWaitEvent", ctypes.c_void_p(after), event, ctypes.c_uint(0))
    driver.call("cuEventDestroy_v2", event)  # when it has come to pass
