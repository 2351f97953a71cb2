"""Any array as a `TensorArgument`: where its elements are, in which order, of which type. NumPy,
CuPy and torch are read directly because a warm call counts microseconds; anything else through
`__cuda_array_interface__` or DLPack, read with ctypes so that bfloat16 and fp8 arrive as they are.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from functools import lru_cache
from importlib import import_module
from typing import Any, NamedTuple

import numpy as np


class TensorArgument(NamedTuple):
    """An array; a tuple, because a warm call makes one per tensor.

    `pointer` is the address of element 0, `strides` count elements, `dtype` is NumPy's name,
    `device` the CUDA device or None for host memory. `owner` keeps the memory alive; for host
    memory `array` is the NumPy array over it.
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    owner: Any
    array: np.ndarray | None = None
    writeable: bool = True


def tensor_argument(value: Any) -> TensorArgument | None:
    """`value` as an array, or None when it is none. Raises ValueError for an array that lives
    neither in host memory nor on a CUDA device, or whose strides are no multiple of its element.
    """
    if isinstance(value, np.ndarray):
        return _numpy(value, value)
    library = type(value).__module__.partition(".")[0]
    if library == "torch" and hasattr(value, "data_ptr"):
        return _torch(value)
    if library == "cupy" and hasattr(value, "data"):
        return TensorArgument(
            value.data.ptr,
            value.shape,
            _in_elements(value.strides, value.dtype.itemsize),
            _dtype_name(value.dtype),
            value.data.device_id,
            value,
        )
    argument = getattr(value, "argument", None)
    if isinstance(argument, TensorArgument):
        return argument
    if hasattr(value, "__dlpack__") and hasattr(value, "__dlpack_device__"):
        return _dlpack(value)
    if hasattr(value, "__cuda_array_interface__"):
        return _cuda_array_interface(value)
    return None


def call_key(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Everything about device arrays and numbers (or None) that a launch depends on, or None when
    one of `values` is of another kind. It costs a fraction of looking at each array properly, and
    equal keys mean the same launch, so a repeated call needs nothing else.
    """
    parts = []
    for value in values:
        cls = type(value)
        reader = _READERS.get(cls)
        if reader is None:
            reader = _READERS[cls] = _reader(cls)
        part = reader(value)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


def _reader(cls: type) -> Callable[[Any], Any]:
    library = cls.__module__.partition(".")[0]
    if library == "torch" and hasattr(cls, "data_ptr"):
        return _torch_key
    if library == "cupy" and hasattr(cls, "data"):
        return _cupy_key
    if cls is list or cls is tuple:
        return call_key
    if cls is type(None):
        return lambda value: cls
    if cls is float or issubclass(cls, np.floating):
        # 0.0 and -0.0 are equal, and different arguments.
        return lambda value: (cls, value or repr(value))
    if cls is int or issubclass(cls, np.integer):
        return lambda value: (cls, value)
    return lambda value: None


def _cupy_key(array: Any) -> Any:
    data = array.data
    return data.ptr, array.shape, array.strides, array.dtype, data.device_id


def _torch_key(tensor: Any) -> Any:
    if not tensor.is_cuda:
        return None
    return (
        tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device(),
    )  # fmt: skip


_READERS: dict[type, Callable[[Any], Any]] = {}


def _numpy(array: np.ndarray, owner: Any) -> TensorArgument:
    return TensorArgument(
        array.ctypes.data,
        array.shape,
        _in_elements(array.strides, array.itemsize),
        _dtype_name(array.dtype),
        None,
        owner,
        array,
        array.flags.writeable,
    )


def _torch(tensor: Any) -> TensorArgument:
    dtype = str(tensor.dtype).removeprefix("torch.")
    device = tensor.device
    if device.type == "cuda":
        return TensorArgument(
            tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), dtype, device.index, tensor
        )
    if device.type != "cpu":
        raise ValueError(f"expected a tensor on a CUDA device or in host memory, got {device}")
    return _host_view(
        tensor.data_ptr(), tuple(tensor.shape), tensor.stride(), dtype, tensor, writeable=True
    )


def _host_view(
    pointer: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    dtype: str,
    owner: Any,
    *,
    writeable: bool,
) -> TensorArgument:
    """Foreign host memory as a NumPy array that keeps `owner` alive."""
    element = numpy_dtype(dtype)
    in_bytes = tuple(stride * element.itemsize for stride in strides)
    interface = {
        "data": (pointer, not writeable),
        "shape": shape,
        "strides": in_bytes,
        "typestr": f"|V{element.itemsize}",
        "version": 3,
    }
    array = np.asarray(_Interface(interface, owner)).view(element)
    return TensorArgument(pointer, shape, strides, dtype, None, owner, array, writeable)


@lru_cache
def _dtype_name(dtype: np.dtype) -> str:
    return dtype.name


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype of this name, those of ml_dtypes included."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        return np.dtype(getattr(ml_dtypes, name))


class _Interface:
    """Host memory in the form that `numpy.asarray` reads."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def _cuda_array_interface(value: Any) -> TensorArgument:
    interface = value.__cuda_array_interface__
    pointer, read_only = interface["data"]
    dtype = np.dtype(interface["typestr"])
    shape = tuple(interface["shape"])
    strides = interface.get("strides")
    return TensorArgument(
        pointer,
        shape,
        _compact(shape) if strides is None else _in_elements(tuple(strides), dtype.itemsize),
        dtype.name,
        _device_of(pointer),
        value,
        None,
        not read_only,
    )


def _device_of(pointer: int) -> int:
    """The device that owns an address; the interface does not say."""
    runtime: Any = import_module("cupy.cuda").runtime
    return runtime.pointerGetAttributes(pointer).device if pointer else runtime.getDevice()


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


_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED = 1, 2, 3, 13
_CODES = {0: "int", 1: "uint", 2: "float", 4: "bfloat", 5: "complex"}
_SMALL_FLOATS = {
    8: "float8_e4m3", 10: "float8_e4m3fn", 11: "float8_e4m3fnuz", 12: "float8_e5m2",
    13: "float8_e5m2fnuz", 14: "float8_e8m0fnu",
}  # fmt: skip


def _dlpack(value: Any) -> TensorArgument:
    kind, device = value.__dlpack_device__()
    if kind not in (_CPU, _CUDA, _CUDA_HOST, _CUDA_MANAGED):
        raise ValueError(
            f"expected an array on a CUDA device or in host memory, got DLPack device type {kind}"
        )
    capsule = value.__dlpack__()
    get_pointer = ctypes.pythonapi.PyCapsule_GetPointer
    get_pointer.restype = ctypes.c_void_p
    get_pointer.argtypes = (ctypes.py_object, ctypes.c_char_p)
    # The capsule is not consumed: its destructor frees the export when the argument dies.
    tensor = _DLTensor.from_address(get_pointer(capsule, b"dltensor"))
    shape = tuple(tensor.shape[i] for i in range(tensor.ndim))
    strides = (
        tuple(tensor.strides[i] for i in range(tensor.ndim)) if tensor.strides else _compact(shape)
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
    if kind == _CPU:
        return _host_view(pointer, shape, strides, dtype, (value, capsule), writeable=True)
    return TensorArgument(pointer, shape, strides, dtype, device, (value, capsule))


def _compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def _in_elements(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    if itemsize == 1:
        return strides
    for stride in strides:
        if stride % itemsize:
            raise ValueError(
                f"expected strides that are multiples of the element's {itemsize} bytes, got "
                f"{strides}"
            )
    return tuple([stride // itemsize for stride in strides])
