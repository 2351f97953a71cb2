"""Checks arguments against a signature before anything is touched, and packs the flat arguments of
a launch into NumPy scalars of the widths that the kernel declares. A tensor of known shape,
strides, type and alignment is checked once; the warm call is a dictionary look-up.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from cutedialect.backend.runtime.arrays import TensorArgument, numpy_dtype, tensor_argument
from cutedialect.backend.runtime.host import POINTER, TABLE, TENSOR_MAP
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.signature import (
    EqualExtents,
    GroupParameter,
    ScalarParameter,
    Signature,
    TensorParameter,
)
from cutedialect.backend.runtime.tensor_maps import encoded
from cutedialect.remarks import Remark

_EXTENT_LIMIT = 1 << 31
# Bytes that TMA stores at once.
_STORED = 16
_REMEMBERED = 1024
_FLOATS = {"f16": "float16", "bf16": "bfloat16", "f32": "float32", "f64": "float64"}
_INTEGER_RANGES = {
    **{f"{sign}{bits}": (-(1 << bits - 1), (1 << bits - 1) - 1)
       for sign in ("i", "si") for bits in (8, 16, 32, 64)},
    **{f"ui{bits}": (0, (1 << bits) - 1) for bits in (8, 16, 32, 64)},
    "index": (-(1 << 63), (1 << 63) - 1),
}  # fmt: skip

Bound = tuple[Any, ...]
"""A TensorArgument for each tensor, a list of them for each group, a number for each scalar."""


def tensors_of(signature: Signature, bound: Bound) -> Iterator[tuple[TensorParameter, Any]]:
    """Every tensor of a call with what it has to be; those of groups are named as `A[3]`."""
    for parameter, value in zip(signature.parameters, bound, strict=True):
        if isinstance(parameter, TensorParameter):
            yield parameter, value
        elif isinstance(parameter, GroupParameter):
            for number, each in enumerate(value):
                yield replace(parameter.member, name=f"{parameter.name}[{number}]"), each


class ArgumentChecker:
    """Binds the arguments of a call to a signature. `equal_extents` are modes of tensors that are
    multiplied with each other: what lies behind the limit of elements of one does not matter, if
    there is a limit. Others have to be equally long, or, where they have a line of a program,
    `note` is told that they are not.
    """

    def __init__(
        self,
        signature: Signature,
        equal_extents: Sequence[EqualExtents] = (),
        note: Callable[[Remark], None] = lambda remark: None,
    ) -> None:
        self._equal_extents = tuple(equal_extents)
        self._note = note
        self._parameters = signature.parameters
        self._signature = signature
        self._checked: Kept[tuple[object, ...], tuple[int, ...]] = Kept(_REMEMBERED)

    def bind(self, arguments: Sequence[Any]) -> Bound:
        """The arguments as a launch takes them.

        Raises TypeError or ValueError that names the argument, what was expected and what came.
        """
        if len(arguments) != len(self._parameters):
            raise TypeError(
                f"expected {len(self._parameters)} arguments {self._signature}, "
                f"got {len(arguments)}"
            )
        bound = tuple(
            [
                self._tensor(index, parameter, value)
                if isinstance(parameter, TensorParameter)
                else scalar(parameter, value)
                if isinstance(parameter, ScalarParameter)
                else self._group(index, parameter, value)
                for index, (parameter, value) in enumerate(
                    zip(self._parameters, arguments, strict=True)
                )
            ]
        )
        for pair in self._equal_extents:
            self._compare(bound, pair)
        return bound

    def _compare(self, bound: Bound, pair: EqualExtents) -> None:
        """Refuse, or remark, operands that are not equally long where a multiply sums over them."""
        mine, mode, theirs, its_mode, limit, line = pair
        wanted, got = bound[mine].shape[mode], bound[theirs].shape[its_mode]
        if wanted == got or (limit is not None and min(wanted, got) >= limit):
            return
        name, partner = self._parameters[theirs].name, self._parameters[mine].name
        if line is None:
            raise ValueError(
                f"{name}: expected extent {wanted} in dimension {its_mode}, over which it is "
                f"multiplied with dimension {mode} of {partner}, got shape {bound[theirs].shape}; "
                "take the tiles of the longer one from a slice of it"
            )
        self._note(
            Remark(
                "launch",
                f"{name}: expected extent {wanted} in dimension {its_mode}, over which it is "
                f"multiplied with dimension {mode} of {partner}, got shape {bound[theirs].shape}; "
                "outside of either tensor tiles read 0",
                line,
            )
        )

    def _group(self, index: int, group: GroupParameter, values: Any) -> list[TensorArgument]:
        if not isinstance(values, list | tuple):
            raise TypeError(f"{group.name}: expected a list of arrays, got {type(values).__name__}")
        bound: list[TensorArgument] = []
        for number, value in enumerate(values):
            try:
                bound.append(self._tensor(index, group.member, value))
            except (TypeError, ValueError) as error:
                _, _, rest = str(error).partition(":")
                raise type(error)(f"{group.name}[{number}]:{rest}") from None
        return bound

    def _tensor(self, index: int, parameter: TensorParameter, value: Any) -> TensorArgument:
        try:
            tensor = tensor_argument(value)
        except (TypeError, ValueError) as error:
            raise type(error)(f"{parameter.name}: {error}") from None
        if tensor is None:
            raise TypeError(
                f"{parameter.name}: expected an array (NumPy, CuPy, torch, JAX, DLPack or "
                f"__cuda_array_interface__), got {type(value).__name__}"
            )
        known = (
            index,
            tensor.shape,
            tensor.strides,
            tensor.dtype,
            tensor.pointer & parameter.alignment - 1,
            tensor.writeable,
        )
        strides = self._checked.get(known)
        if strides is None:
            strides = check_tensor(parameter, tensor)
            self._checked.keep(known, strides)
        return tensor if strides is tensor.strides else tensor._replace(strides=strides)


def check_tensor(parameter: TensorParameter, tensor: TensorArgument) -> tuple[int, ...]:
    """Compare an array with what the kernel was compiled for; returns the strides to pass: a mode
    with fewer than two elements has no stride of its own and gets one that the kernel may assume.
    """
    name = parameter.name
    if tensor.dtype != parameter.dtype:
        raise TypeError(f"{name}: expected dtype {parameter.dtype}, got {tensor.dtype}")
    if len(tensor.shape) != parameter.rank:
        raise ValueError(
            f"{name}: expected {parameter.rank} dimensions, got {len(tensor.shape)} of shape "
            f"{tensor.shape}"
        )
    empty = 0 in tensor.shape
    _check_extents(parameter, tensor)
    strides = _checked_strides(parameter, tensor)
    if parameter.whole_rows and not empty:
        _check_rows(parameter, tensor)
    if tensor.pointer % parameter.alignment and not empty:
        raise ValueError(
            f"{name}: expected memory aligned to {parameter.alignment} bytes, got address "
            f"{tensor.pointer:#x}"
        )
    if parameter.written and not empty and _is_repeated(tensor):
        raise ValueError(
            f"{name}: expected an array whose elements do not overlap, as the kernel writes "
            f"it, got strides {tensor.strides} of shape {tensor.shape}; write to an array of its "
            "own, and add up what overlaps behind it"
        )
    if parameter.written and not tensor.writeable:
        raise ValueError(f"{name}: expected a writable array, got a read-only one")
    return tensor.strides if strides == tensor.strides else strides


def _check_extents(parameter: TensorParameter, tensor: TensorArgument) -> None:
    name = parameter.name
    leaves = zip(parameter.shape, parameter.shape_divisor, tensor.shape, strict=True)
    for mode, (fixed, divisor, extent) in enumerate(leaves):
        if fixed is not None and extent != fixed:
            raise ValueError(
                f"{name}: expected extent {fixed} in dimension {mode}, got shape {tensor.shape}"
            )
        if extent % divisor:
            raise ValueError(
                f"{name}: expected an extent divisible by {divisor} in dimension {mode}, got shape "
                f"{tensor.shape}"
            )
        if extent >= _EXTENT_LIMIT:
            raise ValueError(
                f"{name}: expected extents below 2**31, got {extent} in dimension {mode}; see it "
                "with one more mode, as x.reshape(-1, 65536) does"
            )


def _checked_strides(parameter: TensorParameter, tensor: TensorArgument) -> tuple[int, ...]:
    """The strides to pass: those of modes with fewer than two elements as the kernel has them."""
    strides, is_empty = list(tensor.strides), 0 in tensor.shape
    # A wrong major shows in several modes; the fixed strides name it best.
    for mode in sorted(range(parameter.rank), key=lambda mode: parameter.stride[mode] is None):
        fixed, divisor = parameter.stride[mode], parameter.stride_divisor[mode]
        if tensor.shape[mode] < 2 or is_empty:
            strides[mode] = 0 if fixed is None else fixed
        else:
            _check_stride(parameter, tensor, mode, fixed, divisor)
    return tuple(strides)


def _check_stride(
    parameter: TensorParameter, tensor: TensorArgument, mode: int, fixed: int | None, divisor: int
) -> None:
    name, stride = parameter.name, tensor.strides[mode]
    if fixed is not None and stride != fixed:
        contiguous = " (contiguous)" if fixed == 1 else ""
        raise ValueError(
            f"{name}: expected stride {fixed}{contiguous} in dimension {mode}, got strides "
            f"{tensor.strides} of shape {tensor.shape}"
        )
    if stride < 0 and parameter.mapped:
        raise ValueError(
            f"{name}: expected strides of zero or more, as the kernel copies its tiles by TMA, got "
            f"{tensor.strides}; compile the kernel for this array, or copy it into a contiguous one"
        )
    if stride % divisor:
        raise ValueError(
            f"{name}: expected a stride divisible by {divisor} elements in dimension {mode}, "
            f"got strides {tensor.strides} of shape {tensor.shape}"
        )


def _is_repeated(tensor: TensorArgument) -> bool:
    """Whether a step along one mode is none or as many of another one, within its extent."""
    modes = zip(tensor.strides, tensor.shape, strict=True)
    steps = sorted((abs(stride), extent) for stride, extent in modes if extent > 1)
    return any(stride == 0 for stride, _ in steps) or any(
        long % short == 0 and long // short < extent
        for (short, extent), (long, _) in itertools.combinations(steps, 2)
    )


def _check_rows(parameter: TensorParameter, tensor: TensorArgument) -> None:
    """Rows that TMA stores are multiples of 16 bytes: what lies behind others would be lost."""
    mode = parameter.stride.index(1)
    size = tensor.shape[mode] * numpy_dtype(tensor.dtype).itemsize
    if size % _STORED:
        raise ValueError(
            f"{parameter.name}: expected rows of a multiple of {_STORED} bytes, as the kernel "
            f"stores to them by TMA, got {size} bytes in shape {tensor.shape}; compile the kernel "
            "for this array"
        )


def scalar(parameter: ScalarParameter, value: Any) -> int | float:
    """A number of the parameter's type, as a Python int or float; floats are not yet rounded."""
    name, type_ = parameter.name, parameter.type
    if type_ in _FLOATS:
        if isinstance(value, bool | str | bytes) or not hasattr(value, "__float__"):
            raise TypeError(f"{name}: expected a number ({type_}), got {type(value).__name__}")
        try:
            return float(value)
        except (TypeError, ValueError):
            raise TypeError(
                f"{name}: expected a number ({type_}), got {type(value).__name__}"
            ) from None
    if type_ == "i1":
        if not isinstance(value, bool | np.bool_):
            raise TypeError(f"{name}: expected a bool, got {type(value).__name__}")
        return int(value)
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise TypeError(f"{name}: expected an int ({type_}), got {type(value).__name__}")
    number = operator.index(value)
    low, high = _INTEGER_RANGES[type_]
    if not low <= number <= high:
        raise ValueError(f"{name}: expected an {type_} in {low}..{high}, got {number}")
    half = 1 << (int(type_[-2:].lstrip("i")) if type_ != "index" else 64) - 1
    # Signless integers are kept as signed numbers, as the host part computes with them.
    return (number + half & 2 * half - 1) - half


Packer = Callable[[Any], Any]


def packers(types: Sequence[str], sizes: Sequence[int]) -> tuple[Packer, ...]:
    """For each flat argument the function from its value to what the driver takes by value: a NumPy
    scalar of the declared size, or the bytes of a tensor map. A table goes by its address.
    """
    return tuple(_packer(type_, size) for type_, size in zip(types, sizes, strict=True))


def _packer(type_: str, size: int) -> Packer:
    if type_ in (POINTER, TABLE):
        return np.uint64
    if type_ == TENSOR_MAP:
        return encoded
    if type_ == "f32" and size == 4:
        return np.float32
    if type_ == "f64":
        return np.float64
    if type_ == "i32" and size == 4:
        return np.int32
    if type_ in ("i64", "index"):
        return np.int64
    unsigned = np.dtype(f"u{size}").type
    if type_ in _FLOATS:
        narrow = numpy_dtype(_FLOATS[type_])
        bits = np.dtype(f"u{narrow.itemsize}")
        return lambda value: unsigned(np.array(value, narrow).view(bits)[()])
    mask = (1 << 8 * size) - 1
    return lambda value: unsigned(value & mask)
