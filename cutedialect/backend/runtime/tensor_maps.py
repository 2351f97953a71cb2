"""Tensor maps of a launch: what the host part asks for, checked against every rule of
`atoms/tensor_map.py` first, then encoded by the CUDA driver, or handed to the emulator as plain
data. The driver is called through ctypes, once for each (pointer, shape, strides, box, swizzle,
type): the 128 bytes it returns depend on nothing else, and go to the kernel by value.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutedialect.backend.runtime.driver import DRIVER, driver
from cutedialect.backend.runtime.kept import Kept

if TYPE_CHECKING:
    from cutedialect.atoms.tensor_map import TensorMap

BYTES = 128
# A kernel argument that CuPy passes by value.
OPAQUE = np.dtype([("opaque", "<u8", (BYTES // 8,))])
_ALIGNMENT = 128
_REMEMBERED = 4096
# A map needs an address even if its tensor has no elements; nothing is ever read there.
_NOWHERE = 1 << 12
_SUCCESS = 0
_FIELDS = (
    "dtype", "dims", "strides", "box", "element_strides", "swizzle", "interleave", "oob_fill",
)  # fmt: skip
# Those of a map by which copies walk over pixels, beside them.
_CORNERS = ("lower", "upper")

# Element type as MLIR spells it, to PTX's name. Those of 8 bits that PTX does not name are bytes.
_DTYPES = {
    "f16": "f16", "bf16": "bf16", "f32": "f32", "tf32": "tf32", "f64": "f64", "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2", "f8E8M0FNU": "u8", "f8E4M3FNUZ": "u8", "f8E5M2FNUZ": "u8", "f8E4M3": "u8",
    "f6E2M3FN": "u8", "f6E3M2FN": "u8", "f4E2M1FN": "u8",
    "packed f6E2M3FN": "b6x16_p32", "packed f6E3M2FN": "b6x16_p32", "packed f4E2M1FN": "b4x16_p64",
    "i1": "u8", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64",
    "si8": "s8", "si16": "s16", "si32": "s32", "si64": "s64",
    "ui8": "u8", "ui16": "u16", "ui32": "u32", "ui64": "u64",
}  # fmt: skip


class TensorMapArgument(NamedTuple):
    """A tensor map that a launch passes: equal ones are one map.

    `box`, `shape` and `strides` (elements) go by mode, the contiguous one last, so `strides` ends
    in 1; `swizzle` is (bits, base, shift) on byte addresses or None; `element` is MLIR's name.
    `pointer` is an address, or in the emulator the NumPy array. `name` is the tensor's, for errors.
    `sliced` is the mode along which copies are of slices; `window` has (lower corners, upper
    corners, steps) of the modes between the first and the last one where copies walk over pixels.
    """

    name: str
    element: str
    box: tuple[int, ...]
    swizzle: tuple[int, int, int] | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: Any
    sliced: int | None = None
    window: tuple[tuple[int, ...], ...] | None = None


def checked_map(argument: TensorMapArgument, address: int) -> TensorMap:
    """The map as data; raises ValueError that names the tensor for a rule that it breaks."""
    from cutedialect.atoms.tensor_map import Window, slice_map_of, tensor_map_of
    from cutedialect.layout import Swizzle

    name, element, box, bits, shape, strides, _, sliced, walk = argument
    try:
        if element not in _DTYPES:
            raise ValueError(f"expected an element type of a tensor map, got {element}")
        dtype, swizzle = _DTYPES[element], None if bits is None else Swizzle(*bits)
        if sliced is None:
            window = None if walk is None else Window(*walk)
            found = tensor_map_of(dtype, shape, strides, box, swizzle, window=window)
        else:
            found = slice_map_of(dtype, shape, strides, box, swizzle, sliced=sliced)
        found.check(address)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
    return found


def emulated(argument: TensorMapArgument) -> dict[str, Any]:
    """The map as the emulator takes it, over the NumPy array that `pointer` is."""
    array: np.ndarray = argument.pointer
    found = checked_map(argument, 0)
    if not array.size:
        array = np.zeros((1,) * array.ndim, array.dtype)
        found = replace(found, dims=(1,) * found.rank)
    fields = (*_FIELDS, *_CORNERS) if found.lower else _FIELDS
    return {"array": array} | {field: getattr(found, field) for field in fields}


_encoded: Kept[TensorMapArgument, np.ndarray] = Kept(_REMEMBERED)


def encoded(argument: TensorMapArgument) -> np.ndarray:
    """The map as the 128 bytes that a kernel takes by value: an array of one element of `OPAQUE`.

    Raises ValueError for a rule that the map breaks, RuntimeError when the driver is missing, too
    old, or refuses.
    """
    found = _encoded.get(argument)
    if found is None:
        address = argument.pointer if 0 not in argument.shape else _NOWHERE
        found = encode(checked_map(argument, address), address)
        _encoded.keep(argument, found)
    return found


def encode(map_: TensorMap, address: int) -> np.ndarray:
    """Call `cuTensorMapEncodeTiled` for the tensor at `address`, or `cuTensorMapEncodeIm2col` where
    copies walk over pixels; raises RuntimeError as above."""
    rank = map_.rank
    dtype, interleave, swizzle, promotion, fill = map_.codes
    memory = np.zeros(BYTES + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    if map_.lower:
        function, corners = _encoder("cuTensorMapEncodeIm2col"), ctypes.c_int * (rank - 2)
        box: tuple[Any, ...] = corners(*map_.lower), corners(*map_.upper)
        box += tuple(ctypes.c_uint32(extent) for extent in map_.box[:2])
    else:
        function = _encoder("cuTensorMapEncodeTiled")
        box = ((ctypes.c_uint32 * rank)(*map_.box),)
    status = function(
        ctypes.c_void_p(memory.ctypes.data + start),
        ctypes.c_uint32(dtype),
        ctypes.c_uint32(rank),
        ctypes.c_void_p(address),
        (ctypes.c_uint64 * rank)(*map_.dims),
        (ctypes.c_uint64 * max(1, rank - 1))(*map_.strides),
        *box,
        (ctypes.c_uint32 * rank)(*map_.element_strides),
        ctypes.c_uint32(interleave),
        ctypes.c_uint32(swizzle),
        ctypes.c_uint32(promotion),
        ctypes.c_uint32(fill),
    )
    if status != _SUCCESS:
        raise RuntimeError(
            f"expected the CUDA driver to encode {map_} at {address:#x}, got "
            f"{_ERRORS.get(status, 'error')} ({status})"
        )
    return memory[start : start + BYTES].view(OPAQUE)


_ERRORS = {
    1: "CUDA_ERROR_INVALID_VALUE",
    3: "CUDA_ERROR_NOT_INITIALIZED",
    4: "CUDA_ERROR_DEINITIALIZED",
    201: "CUDA_ERROR_INVALID_CONTEXT",
    801: "CUDA_ERROR_NOT_SUPPORTED",
}


def _encoder(name: str) -> Any:
    """A function of the CUDA driver that encodes tensor maps."""
    return _found(lambda: driver().function(name))


def replacer() -> Any:
    """`cuTensorMapReplaceAddress` of the CUDA driver: (map, address), both `c_void_p`."""
    return _found(lambda: driver().quick("cuTensorMapReplaceAddress"))


def _found(look_up: Callable[[], Any]) -> Any:
    try:
        return look_up()
    except AttributeError:
        raise RuntimeError(
            "expected a CUDA driver of version 12.0 or later, which can encode tensor maps, got an "
            f"older {DRIVER}"
        ) from None
