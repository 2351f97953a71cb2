"""Tensor maps of a launch: what the host part asks for, checked against every rule of
`atoms/tensor_map.py` first, then encoded by the CUDA driver, or handed to the emulator as plain
data. The driver is called through ctypes, once for each (pointer, shape, strides, box, swizzle,
type): the 128 bytes it returns depend on nothing else, and go to the kernel by value.
"""

from __future__ import annotations

import ctypes
import sys
from dataclasses import replace
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from cutedialect.backend.runtime.kept import Kept

if TYPE_CHECKING:
    from cutedialect.atoms.tensor_map import TensorMap

BYTES = 128
# A kernel argument that CuPy passes by value.
OPAQUE = np.dtype([("opaque", "<u8", (BYTES // 8,))])
_ALIGNMENT = 128
_REMEMBERED = 4096
# The CUDA driver's library.
DRIVER = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
# A map needs an address even if its tensor has no elements; nothing is ever read there.
_NOWHERE = 1 << 12
_SUCCESS, _NOT_INITIALIZED, _NO_CONTEXT = 0, 3, 201
_FIELDS = (
    "dtype", "dims", "strides", "box", "element_strides", "swizzle", "interleave", "oob_fill",
)  # fmt: skip

# Element type as MLIR spells it, to PTX's name. Those of 8 bits that PTX does not name are bytes.
_DTYPES = {
    "f16": "f16", "bf16": "bf16", "f32": "f32", "tf32": "tf32", "f64": "f64", "f8E4M3FN": "e4m3",
    "f8E5M2": "e5m2", "f8E8M0FNU": "u8", "f8E4M3FNUZ": "u8", "f8E5M2FNUZ": "u8", "f8E4M3": "u8",
    "i1": "u8", "i8": "s8", "i16": "s16", "i32": "s32", "i64": "s64",
    "si8": "s8", "si16": "s16", "si32": "s32", "si64": "s64",
    "ui8": "u8", "ui16": "u16", "ui32": "u32", "ui64": "u64",
}  # fmt: skip


class TensorMapArgument(NamedTuple):
    """A tensor map that a launch passes: equal ones are one map.

    `box`, `shape` and `strides` (elements) go by mode, the contiguous one last, so `strides` ends
    in 1; `swizzle` is (bits, base, shift) on byte addresses or None; `element` is MLIR's name.
    `pointer` is an address, or in the emulator the NumPy array. `name` is the tensor's, for errors.
    `sliced` is the mode along which copies are of slices.
    """

    name: str
    element: str
    box: tuple[int, ...]
    swizzle: tuple[int, int, int] | None
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    pointer: Any
    sliced: int | None = None


def checked_map(argument: TensorMapArgument, address: int) -> TensorMap:
    """The map as data; raises ValueError that names the tensor for a rule that it breaks."""
    from cutedialect.atoms.tensor_map import slice_map_of, tensor_map_of
    from cutedialect.layout import Swizzle

    name, element, box, bits, shape, strides, _, sliced = argument
    try:
        if element not in _DTYPES:
            raise ValueError(f"expected an element type of a tensor map, got {element}")
        dtype, swizzle = _DTYPES[element], None if bits is None else Swizzle(*bits)
        if sliced is None:
            found = tensor_map_of(dtype, shape, strides, box, swizzle)
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
    return {"array": array} | {field: getattr(found, field) for field in _FIELDS}


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
    """Call `cuTensorMapEncodeTiled` for the tensor at `address`; raises RuntimeError as above."""
    function = _encoder()
    rank = map_.rank
    dtype, interleave, swizzle, promotion, fill = map_.codes
    memory = np.zeros(BYTES + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    arguments = (
        memory.ctypes.data + start,
        dtype,
        rank,
        address,
        (ctypes.c_uint64 * rank)(*map_.dims),
        (ctypes.c_uint64 * max(1, rank - 1))(*map_.strides),
        (ctypes.c_uint32 * rank)(*map_.box),
        (ctypes.c_uint32 * rank)(*map_.element_strides),
        interleave,
        swizzle,
        promotion,
        fill,
    )
    status = function(*arguments)
    if status in (_NOT_INITIALIZED, _NO_CONTEXT):
        # A thread that has not called CUDA yet: choosing its device makes the context current.
        runtime: Any = import_module("cupy.cuda").runtime
        runtime.setDevice(runtime.getDevice())
        status = function(*arguments)
    if status != _SUCCESS:
        raise RuntimeError(
            f"expected the CUDA driver to encode {map_} at {address:#x}, got "
            f"{_ERRORS.get(status, 'error')} ({status})"
        )
    return memory[start : start + BYTES].view(OPAQUE)


_ERRORS = {
    1: "CUDA_ERROR_INVALID_VALUE",
    _NOT_INITIALIZED: "CUDA_ERROR_NOT_INITIALIZED",
    4: "CUDA_ERROR_DEINITIALIZED",
    _NO_CONTEXT: "CUDA_ERROR_INVALID_CONTEXT",
    801: "CUDA_ERROR_NOT_SUPPORTED",
}


@cache
def _encoder() -> Any:
    """`cuTensorMapEncodeTiled` of the CUDA driver, typed as in cuda.h."""
    try:
        function = ctypes.CDLL(DRIVER).cuTensorMapEncodeTiled
    except OSError:
        raise RuntimeError(
            f"expected the CUDA driver ({DRIVER}) for a tensor map, got none"
        ) from None
    except AttributeError:
        raise RuntimeError(
            "expected a CUDA driver of version 12.0 or later, which can encode tensor maps, got an "
            f"older {DRIVER}"
        ) from None
    u32, address = ctypes.c_uint32, ctypes.c_void_p
    function.argtypes = (
        address, u32, u32, address, address, address, address, address, u32, u32, u32, u32,
    )  # fmt: skip
    function.restype = ctypes.c_int
    return function
