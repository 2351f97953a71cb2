"""What the front end asks of the GPU side: its architecture, new arrays, broadcast views."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cutedialect.backend.runtime.target_fit import default_arch

if TYPE_CHECKING:
    import numpy as np


def current_arch() -> str:
    """The target to compile for on CuPy's current device."""
    return default_arch(import_module("cupy").cuda.Device().compute_capability)


def device_name() -> str:
    """The name of CuPy's current device."""
    runtime = import_module("cupy").cuda.runtime
    name = runtime.getDeviceProperties(runtime.getDevice())["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def processors() -> int:
    """How many multiprocessors CuPy's current device has."""
    return import_module("cupy").cuda.Device().attributes["MultiProcessorCount"]


def on_device(device: int) -> AbstractContextManager[Any]:
    """A context in which a device is the current one."""
    cuda = import_module("cupy.cuda")
    return nullcontext() if cuda.runtime.getDevice() == device else cuda.Device(device)


def empty(shape: Sequence[int], dtype: np.dtype, device: int) -> Any:
    """A new CuPy array on a device."""
    cupy = import_module("cupy")
    with cupy.cuda.Device(device):
        return cupy.empty(tuple(shape), dtype)


def broadcast_to(array: Any, shape: Sequence[int]) -> Any:
    """A view of a device array with stride 0 where it broadcasts."""
    cupy = import_module("cupy")
    return cupy.broadcast_to(cupy.asarray(array), tuple(shape))
