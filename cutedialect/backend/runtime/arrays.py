"""Any array as a `TensorArgument`: where its elements are, in which order, of which type. NumPy and
CuPy are read here, torch and JAX in files of their own, because a warm call counts microseconds;
anything else through `__cuda_array_interface__` or DLPack (`exchange.py`), so that bfloat16 and fp8
arrive as they are. How the arrays of a class are read is decided at the first of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any, NamedTuple, NoReturn

import numpy as np


class TensorArgument(NamedTuple):
    """An array; a tuple, because a warm call makes one per tensor.

    `pointer` is the address of element 0, `strides` count elements, `dtype` is NumPy's name,
    `device` the CUDA device or None for host memory. `owner` keeps the memory alive; for host
    memory `array` is the NumPy array over it. `stream` is the handle of the stream on which work on
    the array is ordered, where it says so; `exporter` the array that has to be told the stream of
    the launch (DLPack).
    """

    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: str
    device: int | None
    owner: Any
    array: np.ndarray | None = None
    writeable: bool = True
    stream: int | None = None
    exporter: Any = None


class Reader(NamedTuple):
    """How arrays of one class are read. `argument` gives all of it, and refuses by ValueError or
    TypeError what no kernel may touch. `look` gives two things at once: what decides a kernel and
    its checks (type, shape, strides, place and alignment), and the address of an array on a device,
    None in host memory and for an array of which a launch has to tell its library. `key` is
    everything that a launch depends on. Both are None for an array that has to be read by
    `argument` each time. `pointer` is that address alone; there is none for what is no such array.
    `attributes` are the address and all else of a look as Python, of an array `{0}`, where nothing
    has to be asked.
    """

    argument: Callable[[Any], TensorArgument | None]
    look: Callable[[Any], tuple[Any, int | None] | None] = lambda value: None
    key: Callable[[Any], Any] = lambda value: None
    pointer: Callable[[Any], int | None] | None = None
    attributes: tuple[str, str] | None = None


def tensor_argument(value: Any) -> TensorArgument | None:
    """`value` as an array, or None when it is none. Raises ValueError for an array that lives
    neither in host memory nor on a CUDA device, whose strides are no multiple of its element, or
    that its library does not hand out, TypeError for one without memory.
    """
    return (_READERS.get(type(value)) or _reader(type(value))).argument(value)


def array_looks(values: Sequence[Any]) -> tuple[list[Any], list[int | None]] | None:
    """The looks of arrays, of which some may be None, and their addresses, where they live on a
    device; None where one has to be checked each time.
    """
    looks: list[Any] = []
    pointers: list[int | None] = []
    for value in values:
        if value is None:
            looks.append(None)
            pointers.append(None)
            continue
        seen = _LOOKS[type(value)](value)
        if seen is None:
            return None
        looks.append(seen[0])
        pointers.append(seen[1])
    return looks, pointers


def call_key(values: Sequence[Any]) -> tuple[Any, ...] | None:
    """Everything about device arrays and numbers (or None) that a launch depends on, or None when
    one of `values` is of another kind. It costs a fraction of looking at each array properly, and
    equal keys mean the same launch, so a repeated call needs nothing else.
    """
    parts = []
    for value in values:
        key = _KEYS.get(type(value)) or _reader(type(value)).key
        part = key(value)
        if part is None:
            return None
        parts.append(part)
    return tuple(parts)


Look = tuple[tuple[Any, ...], tuple[int, ...], tuple[float, ...]]


def reader_of(cls: type) -> Reader:
    """How arrays of a class are read."""
    return _READERS.get(cls) or _reader(cls)


def pointer_reader(value: Any) -> Callable[[Any], int | None] | None:
    """How the addresses of device arrays like `value` are read; None for what is no such array."""
    kind = type(value)
    return (_READERS.get(kind) or _reader(kind)).pointer


class _Looks(dict[type, Callable[[Any], Any]]):
    """How arrays of each class are looked at; a class is asked for its reader once."""

    def __missing__(self, cls: type) -> Callable[[Any], Any]:
        return _reader(cls).look


_READERS: dict[type, Reader] = {}
# `key` and `look` of each reader: one look-up less in a warm call.
_KEYS: dict[type, Callable[[Any], Any]] = {}
_LOOKS = _Looks()


def _reader(cls: type) -> Reader:
    reader = _READERS[cls] = _made_reader(cls)
    _KEYS[cls], _LOOKS[cls] = reader.key, reader.look
    return reader


def _made_reader(cls: type) -> Reader:
    libraries = {base.__module__.partition(".")[0] for base in cls.__mro__}
    if any(base.__module__.startswith("numpy.ma") for base in cls.__mro__):
        return Reader(_masked)
    if issubclass(cls, np.ndarray):
        return Reader(lambda value: _numpy(value, value), _numpy_look)
    if "torch" in libraries and hasattr(cls, "data_ptr"):
        from cutedialect.backend.runtime.torch_tensors import torch_reader

        return torch_reader(cls)
    if "cupy" in libraries and hasattr(cls, "data"):
        attributes = _CONTIGUOUS if hasattr(cls, "_c_contiguous") else None
        return Reader(_cupy, _cupy_look, _cupy_key, lambda array: array.data.ptr, attributes)
    if libraries & {"jax", "jaxlib"} and hasattr(cls, "at"):
        from cutedialect.backend.runtime.jax_arrays import jax_argument

        return Reader(jax_argument)
    if cls is list or cls is tuple:
        return Reader(_none, key=call_key)
    if cls is type(None):
        return Reader(_none, key=lambda value: cls)
    if cls is float or issubclass(cls, np.floating):
        # 0.0 and -0.0 are equal, and different arguments.
        return Reader(_none, key=lambda value: (cls, value or repr(value)))
    if cls is int or issubclass(cls, np.integer):
        return Reader(_none, key=lambda value: (cls, value))
    from cutedialect.backend.runtime.exchange import exchanged

    return Reader(exchanged, _held_look, _held_key, _held_pointer)


def _masked(value: Any) -> NoReturn:
    """A kernel sees the memory of an array, in which masked elements are numbers like others."""
    raise TypeError(
        "expected an array without a mask, got a masked one (numpy.ma); take .filled(number), or "
        ".data with the mask as an array of its own"
    )


def _none(value: Any) -> None:
    """Numbers and lists are no arrays."""


def _held_look(value: Any) -> Any:
    """The look of an array that is held as an argument."""
    held = getattr(value, "argument", None)
    if not isinstance(held, TensorArgument):
        return None
    address = _held_pointer(value)
    facts = held.shape, held.strides, held.dtype, held.pointer & 15, held.device, address is None
    return (type(value), *facts), address


def _held_key(value: Any) -> Any:
    """The key of a device array that is held as an argument, and that no library orders."""
    held = getattr(value, "argument", None)
    if not isinstance(held, TensorArgument) or held.device is None:
        return None
    if held.stream is not None or held.exporter is not None:
        return None
    return held.pointer, held.shape, held.strides, held.dtype, held.device


def _held_pointer(value: Any) -> int | None:
    """The address in such a key."""
    key = _held_key(value)
    return None if key is None else key[0]


def _cupy(array: Any) -> TensorArgument:
    return TensorArgument(
        array.data.ptr,
        array.shape,
        in_elements(array.strides, array.dtype.itemsize),
        dtype_name(array.dtype),
        array.data.device_id,
        array,
    )


def _cupy_look(array: Any) -> Any:
    data = array.data
    pointer = data.ptr
    return (
        type(array), array.shape, array.strides, array.dtype, pointer & 15, data.device_id,
    ), pointer  # fmt: skip


# Where the elements of a CuPy array follow each other, its shape says the strides, of which CuPy
# makes a tuple each time.
_CONTIGUOUS = (
    "{0}.data.ptr",
    "{0}.shape, None if {0}._c_contiguous else {0}.strides, {0}.dtype, {0}.data.device_id",
)


def _cupy_key(array: Any) -> Any:
    data = array.data
    return data.ptr, array.shape, array.strides, array.dtype, data.device_id


def _numpy_look(array: np.ndarray) -> Any:
    place = array.ctypes.data & 15, array.flags.writeable
    return (type(array), array.shape, array.strides, array.dtype, place), None


def _numpy(array: np.ndarray, owner: Any) -> TensorArgument:
    return TensorArgument(
        array.ctypes.data,
        array.shape,
        in_elements(array.strides, array.itemsize),
        dtype_name(array.dtype),
        None,
        owner,
        array,
        array.flags.writeable,
    )


def host_view(
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
def dtype_name(dtype: np.dtype) -> str:
    """NumPy's name of a type; raises ValueError where its bytes are in the other order."""
    if not dtype.isnative:
        raise ValueError(
            f"expected elements in the machine's byte order, got {dtype.str}; convert the array "
            "with .astype(array.dtype.newbyteorder('='))"
        )
    return dtype.name


def numpy_dtype(name: str) -> np.dtype:
    """NumPy's dtype of this name, those of ml_dtypes included."""
    try:
        return np.dtype(name)
    except TypeError:
        import ml_dtypes

        found = getattr(ml_dtypes, name, None)
        if found is None:
            raise TypeError(
                f"expected elements of a type that NumPy or ml_dtypes has, got {name}"
            ) from None
        return np.dtype(found)


class _Interface:
    """Host memory in the form that `numpy.asarray` reads."""

    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__ = interface
        self.owner = owner


def compact(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for extent in reversed(shape):
        strides.append(step)
        step *= extent
    return tuple(reversed(strides))


def in_elements(strides: tuple[int, ...], itemsize: int) -> tuple[int, ...]:
    if itemsize == 1:
        return strides
    for stride in strides:
        if stride % itemsize:
            raise ValueError(
                f"expected strides that are multiples of the element's {itemsize} bytes, got "
                f"{strides}"
            )
    return tuple([stride // itemsize for stride in strides])
