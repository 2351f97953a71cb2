"""Launch arguments to kernel parameters. Arrays become global allocations over the memory that they
span (views of one base keep their distances); scalars and structs become parameter bytes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

import numpy as np

from . import tensor_map
from .errors import EmulatorError
from .lanes import Array
from .memory import GLOBAL_BASE, RED_ZONE, Allocation, LinearMemory
from .module import Function, Variable
from .types import STORAGE


def _fail(message: str) -> EmulatorError:
    return EmulatorError(message, code="CD-ARG")


def is_array(value: Any) -> bool:
    return isinstance(value, np.ndarray)


def _root(array: Array) -> Array:
    root = array
    while is_array(root.base):
        root = root.base
    return root


def _span(array: Array) -> tuple[int, int]:
    """Host addresses ``[low, high)`` of the bytes that an array touches or steps over."""
    low = high = array.__array_interface__["data"][0]
    for extent, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (extent - 1) * stride
        else:
            high += (extent - 1) * stride
    return low, high + array.itemsize


def _bytes_of(array: Array) -> Array:
    """The span of an array as a flat byte array that shares its memory."""
    low, high = _span(array)
    corner = array[tuple(slice(None, None, -1) if s < 0 else slice(None) for s in array.strides)]
    # Views of 8-bit floats have a type string that NumPy itself does not read.
    plain = corner.view(np.dtype((np.void, array.itemsize)))
    one = np.lib.stride_tricks.as_strided(plain, (1,), (array.itemsize,))
    flat = one.view(np.uint8)
    return np.lib.stride_tricks.as_strided(flat, (high - low,), (1,))


class GlobalBuffers:
    """Places arrays in the global address range."""

    def __init__(self, memory: LinearMemory) -> None:
        self._memory = memory
        self._next = GLOBAL_BASE + RED_ZONE

    def reserve(self, size: int, align: int = 256) -> int:
        base = -(-self._next // align) * align
        self._next = base + size + RED_ZONE
        return base

    def place(self, arrays: list[tuple[str, Array]]) -> list[int]:
        """Virtual addresses of the first elements. Arrays that share a base array keep their
        relative addresses, and the base starts at a multiple of 256 bytes, as ``cudaMalloc``
        gives.
        """
        roots: dict[int, int] = {}
        spans: dict[int, list[tuple[int, int, str, Array]]] = {}
        addresses: list[int] = []
        for name, array in arrays:
            if array.size == 0:
                addresses.append(self.reserve(0))
                continue
            root = _root(array)
            root_low, root_high = _span(root)
            low, high = _span(array)
            root_low, root_high = min(root_low, low), max(root_high, high)
            key = id(root)
            if key not in roots:
                roots[key] = self.reserve(root_high - root_low) - root_low
            spans.setdefault(key, []).append((low, high, name, array))
            addresses.append(roots[key] + array.__array_interface__["data"][0])
        for key, members in spans.items():
            for low, high, name, array in _distinct(members):
                self._memory.add(
                    Allocation(name, roots[key] + low, _bytes_of(array), array.flags.writeable)
                )
                del high
        return addresses


def _distinct(members: list[tuple[int, int, str, Array]]) -> list[tuple[int, int, str, Array]]:
    """Drop spans that lie within another one."""
    kept: list[tuple[int, int, str, Array]] = []
    for member in sorted(members, key=lambda m: (m[0], -m[1])):
        if not kept or member[1] > kept[-1][1]:
            kept.append(member)
    return kept


def bind(
    function: Function, args: Any, offsets: dict[int, int], size: int, buffers: GlobalBuffers
) -> Array:
    """The parameter bytes of a launch; ``offsets`` are relative to their start. ``EmulatorError``
    CD-ARG for a wrong number or kind of argument."""
    params = function.params
    args = list(args)
    if len(args) != len(params):
        raise _fail(f"'{function.name}' takes {len(params)} arguments, got {len(args)}")
    out = np.zeros(max(size, 1), np.uint8)
    arrays: list[tuple[str, Array]] = []
    # What to put where once the arrays have addresses: by position in ``arrays``.
    slots: list[Callable[[int], None]] = []
    for i, (param, given) in enumerate(zip(params, args, strict=True)):
        assert isinstance(param, Variable)
        arg: Any = given
        what = f"argument {i} ('{param.name}')"
        at = offsets[param.uid]
        if param.size == tensor_map.SIZE and tensor_map.is_map(arg):
            if param.align < tensor_map.ALIGN:
                raise EmulatorError(
                    f"{what}: expected a parameter of .align {tensor_map.ALIGN} for a tensor map, "
                    f"got .align {param.align}",
                    code="CD-E2",
                )
            arrays.append((what, _mapped(what, arg)))
            slots.append(_put_map(out[at : at + tensor_map.SIZE], what, arg))
            continue
        if param.size == 8 and _is_table(arg):
            table = np.array(arg["bytes"], np.uint8)
            arrays.append((what, table))
            slots.append(_put_pointer(out, at))
            for number, (start, array) in enumerate(arg["pointers"]):
                arrays.append((f"{what}[{number}]", array))
                slots.append(_put_pointer(table, start))
            continue
        if param.size == 8 and _is_map_list(arg):
            arg = list(arg)
            table = np.zeros(tensor_map.SIZE * len(arg), np.uint8)
            arrays.append((what, table))
            slots.append(_put_pointer(out, at))
            for number, item in enumerate(arg):
                inner = f"{what}[{number}]"
                arrays.append((inner, _mapped(inner, item)))
                start = tensor_map.SIZE * number
                slots.append(_put_map(table[start : start + tensor_map.SIZE], inner, item))
            continue
        scalar = is_array(arg) and arg.ndim == 0 and arg.dtype.names is None
        if scalar and param.size != 8:
            arg = arg[()]
        if is_array(arg):
            if param.size != 8:
                raise _fail(f"{what}: expected {param.size} bytes by value, got an array")
            arrays.append((f"{what}", arg))
            slots.append(_put_pointer(out, at))
            continue
        raw = _scalar(what, param, arg)
        out[at : at + len(raw)] = np.frombuffer(raw, np.uint8)
    for put, address in zip(slots, buffers.place(arrays), strict=True):
        put(address)
    return out


def _put_pointer(out: Array, at: int) -> Callable[[int], None]:
    def put(address: int) -> None:
        out[at : at + 8] = np.array([address], np.uint64).view(np.uint8)

    return put


def _put_map(target: Array, what: str, described: Any) -> Callable[[int], None]:
    """Write the opaque form of a tensor map once its array has an address."""
    low, high = _span(tensor_map.field(described, "array"))

    def put(address: int) -> None:
        found = tensor_map.from_argument(what, described, address, high - low)
        target[:] = np.frombuffer(found.encode(), np.uint8)

    return put


def _mapped(what: str, described: Any) -> Array:
    array = tensor_map.field(described, "array")
    if not is_array(array) or array.size == 0:
        raise _fail(f"{what}: expected a NumPy array with elements as the tensor map's array")
    return array


def _is_table(value: Any) -> bool:
    """Bytes in global memory that hold the addresses of arrays at some of their offsets."""
    return isinstance(value, Mapping) and "bytes" in value and "pointers" in value


def _is_map_list(value: Any) -> bool:
    if is_array(value) and value.dtype != object:
        return False
    if not isinstance(value, list | tuple | np.ndarray):
        return False
    items = list(cast("list[Any]", value))
    return bool(items) and all(map(tensor_map.is_map, items))


def _is_number(value: Any) -> bool:
    return isinstance(value, np.generic)


def _python_number(value: Any) -> Any:
    plain: Any = value.item()
    return plain if type(plain) in (int, float, bool) else float(plain)


def _scalar(what: str, param: Variable, arg: Any) -> bytes:
    if isinstance(arg, (np.void, bytes)):
        raw = arg.tobytes() if isinstance(arg, np.void) else arg
        if len(raw) != param.size:
            raise _fail(f"{what}: expected {param.size} bytes, got {len(raw)}")
        return raw
    if param.size != param.type.bytes:
        raise _fail(f"{what}: expected a struct of {param.size} bytes (np.void), got {arg!r}")
    kind, bits = param.type.kind, param.type.bits
    if arg is None and bits == 64:
        return bytes(8)
    if _is_number(arg):
        number: Any = arg
        same = number.dtype.itemsize == param.size
        if same and (kind == "b" or (number.dtype.kind in "iu") == (kind in "us")):
            return number.tobytes()
        arg = _python_number(number)
    if kind == "f":
        if not isinstance(arg, (int, float)):
            raise _fail(f"{what}: expected a number for .{param.type.name}, got {arg!r}")
        return np.array([float(arg)]).astype(param.type.dtype).tobytes()
    if isinstance(arg, float):
        if kind != "b" or bits not in (32, 64):
            raise _fail(f"{what}: expected an integer for .{param.type.name}, got {arg!r}")
        return np.array([arg], np.float32 if bits == 32 else np.float64).tobytes()
    if not isinstance(arg, int):
        raise _fail(f"{what}: expected a number or an array, got {type(arg).__name__}")
    value = int(arg)
    if not -(1 << (bits - 1)) <= value < 1 << bits:
        raise _fail(f"{what}: {value} does not fit .{param.type.name}")
    return np.array([value & (1 << bits) - 1], STORAGE[bits]).tobytes()
