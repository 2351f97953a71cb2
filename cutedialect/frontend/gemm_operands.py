"""The operands of `cute.gemm`: their types and what multiplies these, views of them (expanded,
transposed) as the tile program takes them, and what has to hold for all arguments, the rows of its
declaration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from cutedialect.atoms import Target, target
from cutedialect.atoms.mma_atoms import first_target
from cutedialect.backend.runtime.arrays import tensor_argument
from cutedialect.backend.runtime.tracebacks import explained

from .dtypes import (
    DType,
    as_dtype,
    bf16,
    e2m1,
    e2m3,
    e3m2,
    e4m3,
    e5m2,
    f16,
    f32,
    f64,
    i4,
    i8,
    i32,
    u4,
    u8,
)
from .instead import ARGUMENTS
from .kernel import TensorSpec
from .rules import (
    KNOWN_ACTIVATION,
    Array,
    Fact,
    Fits,
    Operand,
    Rule,
    Shaped,
    as_operand,
    is_traced,
    result_type,
    result_types,
)

# Types that sums may have, the default first.
ACCUMULATORS = {
    "f16": (f32, f16),
    "bf16": (f32,),
    "f32": (f32,),
    "f64": (f64,),
    "e4m3": (f32,),
    "e5m2": (f32,),
    "e3m2": (f32,),
    "e2m3": (f32,),
    "e2m1": (f32,),
}
INTEGERS = (i8, u8)
# Types of weights, which become floats of 16 bits on their way to a multiply.
WEIGHTS = (i8, u8, i4, u4)
EIGHT_BIT_FLOATS = (e4m3, e5m2)
# Those of 6 bits stand in bytes, too. All numbers of theirs are numbers of e4m3.
BYTE_FLOATS = (*EIGHT_BIT_FLOATS, e3m2, e2m3)
# Elements of the largest block of an order in which weights are packed.
MOST_BLOCK = 64
_WIDE = (f16, bf16)
# Modes of an operand without batches, and of one panel of scales.
_ROWS_AND_DEPTH, _INSIDE_PANELS = 2, 3
# Where warps multiply floats of 6 bits, of a byte each.
_SIX_BITS = "sm_120f"
# Types of 16 bits, the ones to take where a target does not multiply another.
_FLOATS = ("f16", "bf16")
# Bytes of a line of the cache, and to which rows are aligned where no less is said of them.
PITCH = 128
_WIDTH = 16


def result_dtype(a: DType, is_scaled: bool) -> DType:
    """The element type of a result for which none is asked, where a has elements of a type."""
    if a in INTEGERS and not is_scaled:
        return i32
    return bf16 if a in INTEGERS or a in (*BYTE_FLOATS, e2m1) else a


def is_widened(a: DType, b: DType) -> bool:
    """Whether elements of b become those of a on their way to the multiply: integers of 8 or 4 bits
    beside floats of 16.
    """
    return a in _WIDE and b in WEIGHTS


def multiplied_names(a: DType, b: DType, acc: DType) -> tuple[str, str, str]:
    """What the registry of atoms calls the types of two operands and of their sums."""
    multiplied = a if is_widened(a, b) else b
    return mma_type(a), mma_type(multiplied), "s32" if acc.name == "i32" else acc.name


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


def unit_of(types: tuple[DType, DType, DType], arch: str) -> str:
    """What multiplies operands and sums of these types on a target: tensor cores that "tensor"
    memory feeds, "groups" of four warps, or "warps".
    """
    if has_tcgen05(*types, arch):
        return "tensor"
    return "groups" if has_wgmma(*types, arch) else "warps"


def check_types(a: Operand, b: Operand, arch: str) -> None:
    """Refuse operands of types that the tensor cores of a target do not multiply."""
    chip = target(arch)
    if is_packed(a):
        if not (chip.tmem_columns and chip.suffix):
            raise ValueError(
                f"a: expected a byte for each element on {arch}, got elements of 6 bits without "
                "gaps, which sm_100a and its family multiply"
            )
        return
    for each in (a, b):
        if each.dtype in (e3m2, e2m3) and chip.has("sm_89+") and not chip.has(_SIX_BITS):
            raise ValueError(
                f"{each.name}: expected e4m3 on {arch}, which has all numbers of {each.dtype.name} "
                f"(float8_e4m3fn of NumPy) in as many bytes, got {each.dtype.name}, which sm_120a "
                "and its family multiply; cute.pack puts four in three bytes for sm_100a"
            )
    first = first_target(*multiplied_names(a.dtype, b.dtype, f32)[:2])
    if first is None or target(arch).number >= first.number:
        return
    if e2m1 in (a.dtype, b.dtype):
        return  # with scales, of which `panel_constants` says where they are multiplied
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
    # Packed elements lie in integers, whose strides an array has.
    bits = operand.dtype.bits if operand.array is None else spec.dtype.bits
    step = shape[along] if operand.array is None else operand.array.strides[-2:][1 - along]
    bytes_ = (step or 0) * bits // 8
    return min(PITCH, bytes_ & -bytes_) or PITCH


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


def _accumulators(call: Any) -> tuple[DType, ...]:
    """The types that sums may have, the default first."""
    is_integer = call.a.dtype in INTEGERS and call.b.dtype in INTEGERS
    return (i32,) if is_integer else ACCUMULATORS.get(call.a.dtype.name, ())


def _differs(call: Any) -> bool:
    """Whether the operands have types that are not multiplied by each other."""
    types = {call.a.dtype, call.b.dtype}
    if is_widened(call.a.dtype, call.b.dtype):
        return False
    return len(types) > 1 and not (types <= {*INTEGERS} or types <= {*BYTE_FLOATS})


def _acc_dtype(call: Any) -> DType:
    asked = call.given.acc_dtype
    return call.sum_types[0] if asked is None else as_dtype(asked, "acc_dtype")


def _scales(call: Any) -> tuple[Any, Any]:
    a, b = call.scale_values
    if a is b is None:
        return None, None
    from .gemm_scales import GROUPS, scale_of

    of_b: dict[str, Any] = {}
    if is_widened(call.a.dtype, call.b.dtype):
        of_b = {"dtypes": (f32, call.a.dtype), "groups": GROUPS}
    return (
        None if a is None else scale_of(a, "scale_a", call.a, call.batch, 1),
        None if b is None else scale_of(b, "scale_b", call.b, call.batch, 0, **of_b),
    )


def _zero(call: Any) -> Any:
    """The array of zeros of weights, as a scale of them; None where there is none."""
    if call.zero_value is None:
        return None
    from .gemm_scales import GROUPS, scale_of

    types = (*WEIGHTS, i32, f32, call.a.dtype)
    return scale_of(call.zero_value, "zero_b", call.b, call.batch, 0, types, GROUPS)


def _weights(call: Any) -> Operand:
    """The operand b: of packed elements these."""
    if call.packing_text is None:
        return _elements(call, "b", 0)
    return packed_operand(call.given.b, "b", call.packing_text, call.a.shape[-1])


def packed_operand(value: Any, name: str, text: str, k: int | None) -> Operand:
    """The elements (..., K, N) that integers hold as a text says, as many along K as a has, where
    the rest lies in the last integers.
    """
    operand = as_operand(value, name)
    from .packed import packing_from

    rank = len(operand.shape)
    packing = packing_from(text, operand.dtype, rank)
    if packing.axis < rank - 2 or packing.block > MOST_BLOCK or MOST_BLOCK % packing.block:
        raise ValueError(
            f"{name}: expected elements packed along K or N in blocks that divide {MOST_BLOCK} of "
            f"them, got mode {packing.axis} of {rank} and blocks of {packing.block} "
            f"({packing.order})"
        )
    shape = list(packing.shape(operand.shape))
    # The last block, or what `cute.pack` fills up, may have more elements than there are.
    ends = [] if k is None else [-(-k // size) * size for size in (packing.block, MOST_BLOCK)]
    if packing.axis == rank - 2 and shape[-2] in ends:
        shape[-2] = k
    return Operand(operand.value, name, tuple(shape), packing.dtype, operand.array)


def _sixes(operand: Operand, text: str, k_mode: int) -> Operand:
    """An operand of elements of 6 bits, along K, that bytes hold."""
    from .packed import packing_from

    rank = len(operand.shape)
    packing = packing_from(text, operand.dtype, rank)
    if packing.axis != rank - 2 + k_mode:
        raise ValueError(
            f"{operand.name}: expected elements of 6 bits packed along K, got mode {packing.axis} "
            f"of {rank}; cute.pack packs K of a (..., K, N)"
        )
    shape = packing.shape(operand.shape)
    return Operand(operand.value, operand.name, shape, packing.dtype, operand.array)


def is_packed(operand: Operand) -> bool:
    """Whether bytes hold the elements of 6 bits of an operand without gaps."""
    held = operand.value.dtype if operand.array is None else as_dtype(operand.array.dtype)
    return operand.dtype in (e2m3, e3m2) and held == u8


def _elements(call: Any, name: str, k_mode: int) -> Operand:
    """An operand: of bytes with scales in panels the pairs of elements of 4 bits that they hold."""
    operand = as_operand(getattr(call.given, name), name)
    text = call.six_texts[k_mode == 0]
    if text is not None:
        return _sixes(operand, text, k_mode)
    scale = call.scale_values[k_mode == 0]
    if operand.dtype == e2m1:
        raise TypeError(
            f"{name}: expected pairs of e2m1 in bytes (u8), as cute.quantize gives with scales "
            "in panels, got e2m1, a byte each"
        )
    if operand.dtype != u8 or len(operand.shape) < _ROWS_AND_DEPTH or scale is None:
        return operand
    if len(as_operand(scale, f"scale_{name}").shape) != len(operand.shape) + _INSIDE_PANELS:
        return operand
    shape, depth = list(operand.shape), k_mode - _ROWS_AND_DEPTH
    held = shape[depth]
    shape[depth] = None if held is None else 2 * held
    return Operand(operand.value, name, tuple(shape), e2m1, operand.array)


def _promotes(call: Any) -> bool:
    """Whether products of parts of K are summed apart."""
    from .gemm_scales import Panels

    if any(isinstance(scale, Panels) for scale in call.scales):
        return False
    if not call.given.fast_accum and call.a.dtype in EIGHT_BIT_FLOATS:
        return True
    pairs = zip(call.scales, (1, 0), strict=True)
    return any(scale is not None and scale.spans[mode] > 1 for scale, mode in pairs)


def _lacks_exponential(call: Any) -> bool:
    """Whether an activation has no instruction in the type in which the epilogue computes."""
    is_free = call.activation in (None, "relu") or callable(call.activation)
    return not is_free and call.epilogue_dtype not in (f16, f32)


def _without_exponential(call: Any) -> str:
    if call.epilogue_dtype == f64:
        what = "sums of f64 (PTX has no exponential of such)"
        instead = f"; take lambda x: cute.{call.activation}(x.to(cute.f32))"
    else:
        what = f"results of {call.epilogue_dtype.name} (an out_dtype of floats takes any)"
        instead = ""
    return f"'relu' or a function with {what}, got {call.activation!r}{instead}"


def _short_of_columns(call: Any) -> tuple[str, int, int] | None:
    """Of weights whose integers hold several columns the array that lacks the last ones of these:
    its name, its columns, and those of b.
    """
    columns = call.b.shape[-1]
    if call.packing_text is None or columns is None:
        return None
    from .packed import packing_from

    held = call.b.value.dtype if call.b.array is None else as_dtype(call.b.array.dtype)
    packing = packing_from(call.packing_text, held, len(call.b.shape))
    if packing.axis != len(call.b.shape) - 1:
        return None
    given = vars(call.given) | {"scale_b": call.scale_values[1], "zero_b": call.zero_value}
    for name in ("out", "c", "bias", "aux", "scale_b", "zero_b"):
        shape = getattr(given.get(name), "shape", None)
        got = shape[-1] if shape else None
        if got is not None and got > 1 and columns - packing.block < got < columns:
            return name, got, columns
    return None


def _refuse_short(call: Any) -> None:
    """Refuse an array of fewer columns than integers hold, with what to do."""
    if (found := _short_of_columns(call)) is not None:
        name, got, columns = found
        raise ValueError(
            f"{name}: expected {columns} columns, which the integers of b hold, got {got}; fill it "
            f"up, and take the first {got} columns of the result"
        )


def _not_as_in_a(call: Any) -> str:
    """What is expected of b beside a of another type."""
    a, b = call.a.dtype, call.b.dtype
    wide = f"; beside {a.name} b may have 8-bit integers, and tiles of {b.name} in a kernel"
    return f"{a.name} as in a, got {b.name}" + (
        wide if a in _WIDE and b in EIGHT_BIT_FLOATS else ""
    )


FITS = {"b.K": "{want} rows ({of} is {of_shape}), got {got} in shape {shape}"}
_KNOWN = ", ".join([*ACCUMULATORS, *(each.name for each in INTEGERS)])
RULES = (
    Array("a", of=lambda call: _elements(call, "a", 1)),
    Array("b", of=_weights),
    Fits("a"),
    Fits("b"),
    Rule("b", lambda x: is_packed(x.a) != is_packed(x.b),
         lambda x: "operands of which both are packed by cute.pack where one has elements of 6 "
         f"bits, got a of {x.a.dtype.name} and b of {x.b.dtype.name}", TypeError),
    Rule("precision", lambda x: x.splits and any(each is not None for each in x.scale_values),
         lambda x: "'tf32' with arrays of scales, got '3xtf32'"),
    Rule("b", _differs, _not_as_in_a, TypeError),
    Fact("columns", _refuse_short),
    Fact("sum_types", _accumulators),
    Rule("a", lambda x: not x.sum_types, lambda x: f"one of {_KNOWN}, got {x.a.dtype.name}",
         TypeError),
    Fact("acc_dtype", _acc_dtype),
    Rule("acc_dtype", lambda x: x.acc_dtype not in x.sum_types,
         lambda x: f"{' or '.join(each.name for each in x.sum_types)} for {x.a.dtype.name}, got "
         f"{x.acc_dtype.name}", TypeError),
    result_type(lambda x: result_dtype(x.a.dtype, x.is_scaled)),
    *(Rule(name, lambda x, name=name: x.is_scaled and x.out_dtype.kind != "f"
           and (x.given.out_dtype is None) == (name == "out"),
           lambda x: f"a float type with scales, got {x.out_dtype.name}", TypeError)
      for name in ("out_dtype", "out")),
    Fact("scales", _scales),
    Rule("zero_b", lambda x: x.has_zero and not is_widened(x.a.dtype, x.b.dtype),
         lambda x: f"None but for weights b of 8 or 4 bits beside f16 or bf16, got b of "
         f"{x.b.dtype.name} beside {x.a.dtype.name}; subtract it before", TypeError),
    Fact("zero", _zero),
    Fact("promotes", _promotes),
    Rule("c", lambda x: x.given.c is None and x.given.beta != 0,
         lambda x: f"an array with beta = {x.given.beta}, got None"),
    Array("c", matters=lambda x: x.given.beta != 0),
    Fits("c"),
    Array("bias"),
    Fits("bias"),
    KNOWN_ACTIVATION,
    Rule("activation", _lacks_exponential, _without_exponential, TypeError),
    Shaped("out", result_types),
    Shaped("aux"),
    *(Rule(name, lambda x, name=name, neutral=neutral: not x.takes_alpha
           and getattr(x.given, name) != neutral,
           lambda x, name=name, neutral=neutral: f"{neutral} with results of {x.out_dtype.name} "
           f"(an out_dtype of floats takes any), got {getattr(x.given, name)}")
      for name, neutral in (("alpha", 1), ("beta", 0))),
)  # fmt: skip
