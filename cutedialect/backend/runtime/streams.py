"""What users pass as `stream=`: a handle as an int, a CuPy or torch stream, or any object with
`__cuda_stream__`. CuPy's launch needs no more than an object with `.ptr`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from cutedialect.backend.runtime.arrays import TensorArgument

_DISABLE_TIMING = 2


@dataclass(frozen=True, slots=True)
class Stream:
    """A CUDA stream by its handle."""

    ptr: int


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


def current_handle(tensor: TensorArgument | None, device: int) -> int:
    """The stream that the array says orders its work, else the current one of its library, else
    CuPy's.
    """
    if tensor is not None and tensor.stream is not None:
        return tensor.stream
    if from_torch(tensor):
        return torch_handle(device)
    cuda: Any = sys.modules.get("cupy.cuda") or import_module("cupy.cuda")
    return cuda.get_current_stream().ptr


def from_torch(tensor: TensorArgument | None) -> bool:
    """Whether torch's current stream orders work on `tensor`."""
    return tensor is not None and any(
        base.__module__.partition(".")[0] == "torch" for base in type(tensor.owner).__mro__
    )


def torch_handle(device: int) -> int:
    """torch's current stream on a device."""
    return sys.modules["torch"].cuda.current_stream(device).cuda_stream


def wait_for(runtime: Any, before: int, after: int) -> None:
    """Make later work on the stream `after` wait for all work so far on the stream `before`."""
    if before == after:
        return
    event = runtime.eventCreateWithFlags(_DISABLE_TIMING)
    runtime.eventRecord(event, before)
    runtime.streamWaitEvent(after, event)
    runtime.eventDestroy(event)  # when it has come to pass
