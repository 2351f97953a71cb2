"""Arrays of any library by the two protocols of exchange: `__cuda_array_interface__` and DLPack,
whose capsules are read with ctypes. Both say on which stream the contents are ready, and a launch
on another one waits for it.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from cutedialect.backend.runtime.arrays import (
    TensorArgument,
    compact,
    dtype_name,
    host_view,
    in_elements,
)
from cutedialect.backend.runtime.driver import driver

# The largest version of DLPack that is asked for; within a major version the layout is fixed.
_VERSION = (1, 0)
_READ_ONLY = 1
# "Do not synchronize": contents are not looked at before the launch, which asks again.
_NO_STREAM = -1
_LEGACY_DEFAULT_STREAM = 1


def exchanged(value: Any) -> TensorArgument | None:
    """An array that holds its argument, or that one of the protocols hands out; else None."""
    argument = getattr(value, "argument", None)
    if isinstance(argument, TensorArgument):
        return argument
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return dlpack_argument(value, _NO_STREAM)
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda_array_interface(value)
    return None


def _cuda_array_interface(value: Any) -> TensorArgument:
    interface = value.__cuda_array_interface__
    pointer, read_only = interface["data"]
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    return TensorArgument(
        pointer,
        shape,
        compact(shape) if strides is None else in_elements(tuple(strides), dtype.itemsize),
        dtype_name(dtype),
        _device_of(pointer),
        value,
        None,
        not read_only,
        _stream_of(interface),
    )


def _stream_of(interface: dict[str, Any]) -> int | None:
    """The stream that orders work on an array; None for an array that is ready."""
    stream = interface.get("stream")
    if stream is None:
        return None
    if isinstance(stream, bool) or not isinstance(stream, int) or stream < 1:
        raise ValueError(
            "expected the stream of __cuda_array_interface__ to be None, 1 (the default stream), 2 "
            f"(that of the thread) or a handle, got {stream!r}"
        )
    return stream


def _device_of(pointer: int) -> int:
    """The device that owns an address; the interface does not say."""
    return driver().device_of(pointer) if pointer else driver().current_device()


class _DLTensor(ctypes.Structure):
    """DLTensor of dlpack.h, stable in versions 0 and 1."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class _Versioned(ctypes.Structure):
    """DLManagedTensorVersioned of dlpack.h, stable in version 1."""

    _fields_ = (
        ("major", ctypes.c_uint32),
        ("minor", ctypes.c_uint32),
        ("context", ctypes.c_void_p),
        ("deleter", ctypes.c_void_p),
        ("flags", ctypes.c_uint64),
        ("tensor", _DLTensor),
    )


_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_SMALL_FLOATS = {
    8: "float8_e4m3", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz", 12: "float8_e5m2",
    13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
}  # fmt: skip


def dlpack_argument(value: Any, stream: int | None, *, writeable: bool = True) -> TensorArgument:
    """An array by DLPack; `stream` is what a producer on a device is told of the consumer's."""
    kind, device = value.__dlpack_device__()
    if kind not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise ValueError(
            f"expected an array on a CUDA device or in host memory, got DLPack device type {kind}"
        )
    capsule = _export(value, None if kind == _CPU else stream)
    # The capsule is not consumed: its destructor frees the export when the argument dies.
    tensor, read_only = _opened(capsule)
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = (
        tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else compact(shape)
    )
    pointer = (tensor.data or 0) + tensor.byte_offset
    if tensor.code == 6:
        dtype = "bool"
    elif tensor.code in _SMALL_FLOATS:
        dtype = _SMALL_FLOATS[tensor.code]
    else:
        dtype = f"{_CODES.get(tensor.code, 'opaque')}{tensor.bits}"
    if tensor.lanes != 1:
        raise ValueError(f"expected one lane per element, got {tensor.lanes} of {dtype}")
    writeable = writeable and not read_only
    if kind == _CPU:
        return host_view(pointer, shape, strides, dtype, (value, capsule), writeable=writeable)
    return TensorArgument(
        pointer, shape, strides, dtype, device, (value, capsule), None, writeable, exporter=value
    )


def order_behind(exporter: Any, handle: int) -> None:
    """Make a stream wait for the work that an array's library has still to do on it."""
    _export(exporter, handle or _LEGACY_DEFAULT_STREAM)


def _export(value: Any, stream: int | None) -> Any:
    """The capsule of an array, of the newest version that its library knows."""
    options = {} if stream is None else {"stream": stream}
    try:
        return value.__dlpack__(**options, max_version=_VERSION)
    except TypeError:  # older than DLPack 1.0
        return value.__dlpack__(**options)
    except BufferError as error:
        raise ValueError(f"expected an array that its library hands out, got: {error}") from None


def _opened(capsule: Any) -> tuple[_DLTensor, bool]:
    """The tensor in a capsule, and whether it is read-only."""
    api = ctypes.pythonapi
    api.PyCapsule_IsValid.argtypes = (ctypes.py_object, ctypes.c_char_p)
    api.PyCapsule_GetPointer.restype = ctypes.c_void_p
    api.PyCapsule_GetPointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    if not api.PyCapsule_IsValid(capsule, b"dltensor_versioned"):
        return _DLTensor.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor")), False
    managed = _Versioned.from_address(api.PyCapsule_GetPointer(capsule, b"dltensor_versioned"))
    if managed.major > _VERSION[0]:
        raise ValueError(f"expected DLPack {_VERSION[0]}, got {managed.major}.{managed.minor}")
    return managed.tensor, bool(managed.flags & _READ_ONLY)
