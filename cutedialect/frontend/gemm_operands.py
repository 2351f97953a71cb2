"""The operands of `cute.gemm`: arrays or specs with what their shapes are checked on, and views of
them (batched, transposed) as the tile program takes them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, NoReturn, get_args

from cutedialect.atoms import Target, target
from cutedialect.atoms.mma_atoms import first_target
from cutedialect.backend.runtime.arrays import TensorArgument, tensor_argument
from cutedialect.backend.runtime.tracebacks import explained
from cutedialect.choices import Activation

from .dtypes import DType, as_dtype, bf16, e4m3, e5m2, f16, f32, f64, i8, i32, u8
from .instead import ARGUMENTS
from .kernel import TensorSpec

# Types that sums may have, the default first.
ACCUMULATORS = {
    "f16": (f32, f16),
    "bf16": (f32,),
    "f32": (f32,),
    "f64": (f64,),
    "e4m3": (f32,),
    "e5m2": (f32,),
}
INTEGERS = (i8, u8)
EIGHT_BIT_FLOATS = (e4m3, e5m2)
# Types of 16 bits, the ones to take where a target does not multiply another.
_FLOATS = ("f16", "bf16")
# Bytes of a line of the cache, and to which rows are aligned where no less is said of them.
PITCH = 128
_WIDTH = 16


def result_dtype(a: DType, is_scaled: bool) -> DType:
    """The element type of a result for which none is asked, where a has elements of a type."""
    if a in INTEGERS and not is_scaled:
        return i32
    return bf16 if a in INTEGERS or a in EIGHT_BIT_FLOATS else a


@dataclass(frozen=True)
class Operand:
    """An array or spec with the facts that shapes are checked on."""

    value: Any
    name: str
    shape: tuple[int | None, ...]
    dtype: DType
    array: TensorArgument | None


def as_operand(value: Any, name: str) -> Operand:
    """An array or spec as an operand; anything else raises TypeError."""
    if isinstance(value, TensorSpec):
        return Operand(value, name, value.shape, value.dtype, None)
    refuse_traced(value, name)
    try:
        array = tensor_argument(value)
    except (TypeError, ValueError) as error:
        raise type(error)(f"{name}: {error}") from None
    if array is None:
        raise TypeError(f"{name}: expected an array, got {type(value).__name__}")
    if any(stride < 0 for stride in array.strides):
        raise ValueError(
            f"{name}: expected strides of zero or more, got {array.strides}; copy the array into a "
            "contiguous one"
        )
    return Operand(value, name, array.shape, as_dtype(array.dtype, name), array)


def multiplied_names(a: DType, b: DType, acc: DType) -> tuple[str, str, str]:
    """What the registry of atoms calls the types of two operands and of their sums."""
    return mma_type(a), mma_type(b), "s32" if acc.name == "i32" else acc.name


def has_wgmma(a: DType, b: DType, acc: DType, arch: str) -> bool:
    """Whether a target's warpgroups multiply operands of these types."""
    from cutedialect.atoms.wgmma_atoms import find_wgmma

    with suppress(ValueError):
        return bool(find_wgmma(*multiplied_names(a, b, acc), arch))
    return False


def has_tcgen05(a: DType, b: DType, acc: DType, arch: str) -> bool:
    """Whether a target multiplies operands of these types into sums of 32 bits in tensor memory."""
    from cutedialect.atoms.tcgen05_atoms import find_tcgen05

    with suppress(ValueError):
        return acc.bits == 32 and bool(find_tcgen05(*multiplied_names(a, b, acc), arch))
    return False


def refuse_traced(value: Any, name: str) -> None:
    """Refuse what only exists while a kernel is traced: an array call cannot run inside of one."""
    if not is_traced(value):
        return
    from .trace import error

    raise error(
        f"expected {name} to be an array, got a {type(value).__name__} of the kernel that is "
        "traced; inside a kernel tiles are multiplied by cute.gemm(a, b, acc) with an accumulator "
        "like cute.zeros((M, N), cute.f32), and code that kernels share is a plain Python function",
        code="CD-P11",
    )


def is_traced(value: object) -> bool:
    """Whether a value only exists while a kernel is traced."""
    return type(value).__module__.startswith(__package__ or "") and hasattr(value, "value")


def check_types(a: Operand, b: Operand, arch: str) -> None:
    """Refuse operands of types that the tensor cores of a target do not multiply."""
    first = first_target(mma_type(a.dtype), mma_type(b.dtype))
    if first is None or target(arch).number >= first.number:
        return
    kinds = " by ".join(dict.fromkeys((a.dtype.name, b.dtype.name)))
    there = [x for x in _FLOATS if target(arch).number >= _first(x).number]
    raise ValueError(
        f"{a.name}: expected {' or '.join(there) or 'another target'} on {arch} (multiplies of "
        f"{kinds} need {first.name}), got {a.dtype.name}"
    )


def _first(name: str) -> Target:
    """The first target that multiplies elements of a type by themselves."""
    found = first_target(name, name)
    assert found is not None
    return found


def mma_type(dtype: DType) -> str:
    """The name that MMA atoms have for the type of an operand."""
    return {"f32": "tf32", "i8": "s8"}.get(dtype.name, dtype.name)


def as_number(name: str, value: Any) -> float:
    """A number of the host as a float."""
    if type(value) is float:
        return value
    if not isinstance(value, bool | str | bytes) and hasattr(value, "__float__"):
        with suppress(TypeError, ValueError, RuntimeError):  # several elements, a traced one
            return float(value)
    with explained():
        raise TypeError(f"{name}: expected a number, got {type(value).__name__}")


def refuse_array(name: str, value: Any, instead: str) -> None:
    """Refuse an array where a kernel has a tile."""
    with explained():
        if tensor_argument(value) is not None:
            raise TypeError(
                f"{name}: expected None outside of a kernel, got {type(value).__name__}; {instead}"
            )


def refuse_unknown(function: str, given: Iterable[str], operands: Sequence[Any] = ()) -> NoReturn:
    """Refuse arguments that a function of the library does not have; in a kernel at the line."""
    name = next(iter(given))
    instead = ARGUMENTS[function].get(name)
    if instead is None:
        message = f"{function}() got an unexpected keyword argument '{name}'"
    else:
        message = f"{name}: expected {instead}, got an argument of another library"
    if any(map(is_traced, operands)):
        from .trace import error

        raise error(message, code="CD-P15")
    with explained():
        raise TypeError(message)


def check_precision(precision: object, a: Any) -> bool:
    """Whether operands are split; refuses a precision that there is not, with the reason."""
    with explained():
        if precision not in ("tf32", "3xtf32"):
            is_full = precision in ("ieee", "highest")
            reason = "; tensor cores multiply no f32, and there is no product of scalar f32 yet"
            raise ValueError(
                f"precision: expected None, 'tf32' or '3xtf32', got {precision!r}"
                f"{reason if is_full else ''}"
            )
        dtype = as_operand(a, "a").dtype
        if dtype != f32:
            raise ValueError(
                f"precision: expected None with operands of {dtype.name}, got {precision!r}"
            )
    return precision == "3xtf32"


def pitch_of(operand: Operand, spec: TensorSpec) -> int:
    """The power of two, up to `PITCH`, of which the rows of an operand begin at multiples of so
    many bytes; the largest where that is not known.
    """
    shape = operand.shape[-2:]
    along = 1 if spec.contiguous == len(spec.shape) - 1 else 0
    if shape[1 - along] == 1:
        return PITCH
    if operand.array is None and spec.align < _WIDTH:
        return spec.align
    step = shape[along] if operand.array is None else operand.array.strides[-2:][1 - along]
    bytes_ = (step or 0) * operand.dtype.bits // 8
    return min(PITCH, bytes_ & -bytes_) or PITCH


def batched(operand: Operand, batch: Sequence[int | None]) -> Any:
    """A view with all batch dimensions; those that broadcast get stride 0."""
    value = operand.value
    shape = (*batch, *operand.shape[-2:])
    if operand.shape == shape:
        return value
    return expanded(value, shape)


def transposed(value: Any) -> Any:
    """A view with the last two dimensions exchanged."""
    if isinstance(value, TensorSpec):
        rank = len(value.shape)
        strides = value.strides or (None,) * (rank - 1) + (1,)
        return TensorSpec(
            (*value.shape[:-2], *value.shape[:-3:-1]),
            value.dtype,
            (*strides[:-2], *strides[:-3:-1]),
            value.align,
            value.has_tail,
        )
    return viewable(value).swapaxes(-1, -2)


def viewable(value: Any) -> Any:
    """An array that has views of itself: `value`, or for an object that one of the protocols of
    exchange is all there is of, what that hands out.
    """
    if hasattr(value, "swapaxes"):
        return value
    array = tensor_argument(value)
    if array is None:
        return value
    if array.array is not None:
        return array.array
    from cutedialect.backend.runtime.buffers import DeviceTensor

    return DeviceTensor(array)


def expanded(value: Any, shape: Sequence[int | None]) -> Any:
    """A broadcast view of an array."""
    if isinstance(value, TensorSpec):
        given = value.strides or (None,) * (len(value.shape) - 1) + (1,)
        missing = len(shape) - len(given)
        strides = (None,) * missing + tuple(given)
        return TensorSpec(shape, value.dtype, strides, value.align, value.has_tail)
    value = viewable(value)
    if hasattr(value, "expand"):
        return value.expand(shape)
    array = tensor_argument(value)
    if array is not None and array.device is not None:
        from cutedialect.backend.runtime.devices import broadcast_to

        return broadcast_to(value, tuple(extent or 0 for extent in shape))
    import numpy as np

    return np.broadcast_to(value, tuple(extent or 0 for extent in shape))


def check_activation(activation: object, dtype: DType) -> None:
    """Refuse what is no activation of an epilogue that computes in a type."""
    if activation is None or callable(activation):
        return
    if activation not in get_args(Activation):
        raise ValueError(
            f"activation: expected {', '.join(map(repr, get_args(Activation)))} or a function, "
            f"got {activation!r}"
        )
    if activation == "relu" or dtype in (f16, f32):
        return
    if dtype == f64:
        what = "sums of f64 (PTX has no exponential of such)"
        instead = f"; take lambda x: cute.{activation}(x.to(cute.f32))"
    else:
        what, instead = f"results of {dtype.name} (an out_dtype of floats takes any)", ""
    raise TypeError(
        f"activation: expected 'relu' or a function with {what}, got {activation!r}{instead}"
    )


def broadcast(one: Sequence[int | None], other: Sequence[int | None]) -> tuple[int | None, ...]:
    rank = max(len(one), len(other))
    padded = [(1,) * (rank - len(shape)) + tuple(shape) for shape in (one, other)]
    result: list[int | None] = []
    for x, y in zip(*padded, strict=True):
        if x != y and 1 not in (x, y) and None not in (x, y):
            raise ValueError(
                f"b: expected batch dimensions that broadcast with {shown(tuple(one))} of a, "
                f"got {shown(tuple(other))}"
            )
        result.append(y if x == 1 else x)
    return tuple(result)


def shown(shape: Sequence[int | None]) -> str:
    """A shape as Python writes a tuple, `?` for a run-time extent."""
    inside = ", ".join("?" if extent is None else str(extent) for extent in shape)
    return f"({inside},)" if len(shape) == 1 else f"({inside})"
