"""The arrays that calls return: made where an argument lives, by the library that it comes from."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np

from cutedialect.backend.runtime.arrays import tensor_argument
from cutedialect.backend.runtime.devices import empty, on_device
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.torch_tensors import is_torch, maker_like, new_tensor


def new_array(like: Any, shape: Sequence[int | None], dtype: np.dtype, stream: Any = None) -> Any:
    """A new array for a launch on `stream` to write: torch's or CuPy's where those made `like`,
    CuPy's for another array on a device, else NumPy's. An extent of None is 0.
    """
    extents = tuple(0 if extent is None else extent for extent in shape)
    if is_torch(like):
        return new_tensor(like, extents, dtype.name, stream)
    array = tensor_argument(like)
    if array is not None and array.device is not None:
        return empty(extents, dtype, array.device, stream)
    return np.empty(extents, dtype)


def maker(like: Any, shape: Sequence[int | None], dtype: np.dtype) -> Callable[[Any, Any], Any]:
    """What makes arrays as `new_array` does, of (an array that looks like this one, stream)."""
    extents = tuple(0 if extent is None else extent for extent in shape)
    if is_torch(like):
        return maker_like(like, extents, dtype.name)
    return lambda like, stream: new_array(like, extents, dtype, stream)


def on_device_of(arrays: Sequence[Any]) -> AbstractContextManager[Any]:
    """Make the device of the first array on one current, for what is compiled for it; nothing for
    host arrays.
    """
    for value in arrays:
        try:
            array = tensor_argument(value)
        except (TypeError, ValueError):  # to be refused by its name
            continue
        if array is not None and array.device is not None and gpu_available():
            return on_device(array.device)
    return nullcontext()
