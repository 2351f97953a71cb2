"""What the front end asks of the GPU side: its architecture, new arrays, broadcast views."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from importlib import import_module
from typing import TYPE_CHECKING, Any

from cutedialect.backend.runtime.driver import MULTIPROCESSOR_COUNT, driver
from cutedialect.backend.runtime.streams import cupy_stream
from cutedialect.backend.runtime.target_fit import default_arch

if TYPE_CHECKING:
    import numpy as np


def current_arch() -> str:
    """The target to compile for on the current device."""
    found = driver()
    return default_arch(found.capability(found.current_device()))


def device_name() -> str:
    """The name of the current device."""
    found = driver()
    return found.device_name(found.current_device())


def processors() -> int:
    """How many multiprocessors the current device has."""
    found = driver()
    return found.device_attribute(MULTIPROCESSOR_COUNT, found.current_device())


def on_device(device: int) -> AbstractContextManager[Any]:
    """A context in which a device is the current one."""
    return driver().on(device)


def import_cupy(what: str) -> Any:
    """CuPy; raises ImportError that names what wants it."""
    try:
        return import_module("cupy")
    except ImportError as error:
        raise ImportError(
            f"{what}: expected CuPy, got none ({error}): pip install 'cutedialect[cuda12]' or "
            "'cutedialect[cuda13]'"
        ) from None


def empty(shape: Sequence[int], dtype: np.dtype, device: int, stream: Any = None) -> Any:
    """A new CuPy array on a device; with a stream, in memory that is free on that one."""
    cupy = import_cupy("a new array on a device")
    with cupy.cuda.Device(device):
        if stream is None:
            return cupy.empty(tuple(shape), dtype)
        with cupy_stream(stream):
            return cupy.empty(tuple(shape), dtype)


def broadcast_to(array: Any, shape: Sequence[int]) -> Any:
    """A view of a device array with stride 0 where it broadcasts."""
    cupy = import_cupy("a broadcast view on a device")
    return cupy.broadcast_to(cupy.asarray(array), tuple(shape))
