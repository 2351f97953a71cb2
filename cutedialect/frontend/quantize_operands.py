"""`cute.quantize`, declared: the format, what has to hold for arrays, and views of these."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Sequence
from typing import Any

from cutedialect.backend.runtime.buffers import DeviceTensor
from cutedialect.backend.runtime.exchange import compact

from . import signature as kinds
from .block_formats import FORMATS, BlockFormat, panels
from .dtypes import DType, as_dtype, f32, i32, u32, u64
from .gemm_operands import viewable
from .gemm_scales import number_of
from .kernel import TensorSpec
from .rules import Array, Extents, Fact, Fits, Operand, Rule, as_operand, shapes_differ, shown
from .signature import LAUNCH, REQUIRED, Call, Output, Parameter


def chosen_format(name: object) -> BlockFormat:
    """The format of a name."""
    kind = FORMATS.get(name) if isinstance(name, str) else None
    if kind is None:
        raise ValueError(f"format: expected {_listed(FORMATS)}, got {name!r}")
    return kind


def chosen_rounding(kind: BlockFormat, rounding: object) -> str:
    """How scales are rounded, where None is a format's default."""
    if rounding is None:
        return kind.roundings[0]
    if rounding not in kind.roundings:
        near = ""
        if len(kind.roundings) == 1:
            others = [name for name, each in FORMATS.items() if rounding in each.roundings]
            near = f"; scales of {_listed(others)} take it" if others else ""
        raise ValueError(
            f"rounding: expected {_listed(kind.roundings)} for scales of {kind.name}, got "
            f"{rounding!r}{near}"
        )
    return str(rounding)


def _listed(names: Iterable[object]) -> str:
    *most, last = map(repr, names)
    return f"{', '.join(most)} or {last}" if most else last


def check_global_scale(kind: BlockFormat, value: Any) -> None:
    """Refuse a factor of the whole array where a format has none."""
    if value is None or kind.takes_global_scale:
        return
    takes = _listed(name for name, each in FORMATS.items() if each.takes_global_scale)
    raise ValueError(
        f"global_scale: expected None with {kind.name}, whose scales have the range of f32, got "
        f"{type(value).__name__}; {takes} takes one"
    )


def split_columns(value: Any, width: int) -> Any:
    """A view whose last mode is split into parts of a width."""
    if not isinstance(value, TensorSpec):
        value = viewable(value)
        *leading, columns = value.shape
        return value.reshape(*leading, columns // width, width)
    *leading, columns = value.shape
    count = None if columns is None else columns // width
    strides = value.strides or (None,) * len(leading) + (1,)
    step = strides[-1]
    outer = None if step is None else step * width
    return TensorSpec((*leading, count, width), value.dtype, (*strides[:-1], outer, step),
                      value.align)  # fmt: skip


def swapped(value: Any, mode: int) -> Any:
    """A view with a mode and the next one exchanged."""
    if not isinstance(value, TensorSpec):
        return viewable(value).swapaxes(mode, mode + 1)
    order = list(range(len(value.shape)))
    order[mode : mode + 2] = mode + 1, mode
    strides = value.strides or (None,) * (len(value.shape) - 1) + (1,)
    return TensorSpec([value.shape[at] for at in order], value.dtype,
                      tuple(strides[at] for at in order), value.align)  # fmt: skip


def is_compact(value: Any) -> bool:
    """Whether an array lies without gaps, one row behind the other."""
    operand = as_operand(value, "x")
    if operand.array is not None:
        (rows, columns), strides = operand.shape, operand.array.strides
        return (strides[1] == 1 or columns == 1) and (strides[0] == columns or rows == 1)
    return value.strides is None or tuple(value.strides) == (value.shape[1], 1)


def in_rows(value: Any, width: int | None = None) -> Any:
    """An array without gaps as rows of a width, or as one row."""
    if not isinstance(value, TensorSpec):
        return viewable(value).reshape(*((-1,) if width is None else (-1, width)))
    rows, columns = value.shape
    count = None if rows is None or columns is None else rows * columns // (width or 1)
    if width is None:
        return TensorSpec((count,), value.dtype, align=value.align)
    row = width * value.dtype.bits // 8
    return TensorSpec((count, width), value.dtype, align=min(value.align, row & -row))


def has_words(x: Operand) -> bool:
    """Whether pairs of elements that follow each other are words: of an array without gaps from an
    address that is one of words.
    """
    word = 2 * x.dtype.bits // 8
    if not is_compact(x.value):
        return False
    if x.array is not None:
        return (x.array.pointer or 0) % word == 0
    return x.value.align >= word


def as_words(x: Any, element: DType) -> Any:
    """Pairs of elements (M, K) as unsigned words (M, K / 2)."""
    rows, columns = x.shape
    return as_words_of(x, u32 if element.bits < f32.bits else u64, (rows, _half(columns)))


def _half(extent: int | None) -> int | None:
    return None if extent is None else extent // 2


def as_panels(scales: Any) -> Any:
    """Scales in panels (.., 32, 4, 4) as words of the four columns (.., 32, 4)."""
    return as_words_of(scales, i32, tuple(scales.shape[:-1]))


def as_words_of(value: Any, dtype: DType, shape: Sequence[int | None]) -> Any:
    """An array without gaps as one of another type and shape."""
    if isinstance(value, TensorSpec):
        return TensorSpec(shape, dtype, align=value.align)
    value = viewable(value)
    if isinstance(value, DeviceTensor):
        extents = tuple(extent or 0 for extent in shape)
        moved = value.argument._replace(
            shape=extents, strides=compact(extents), dtype=dtype.numpy.name
        )
        return DeviceTensor(moved)
    library = importlib.import_module(type(value).__module__.partition(".")[0])
    return value.reshape(-1).view(getattr(library, dtype.numpy.name)).reshape(shape)


def single(value: Any) -> Any:
    """An array of one element as a matrix."""
    if isinstance(value, TensorSpec):
        return TensorSpec((1, 1), value.dtype, (None, 1), align=4)
    return viewable(value).reshape(1, 1)


def _shapes(call: Any) -> tuple[Extents, Extents]:
    """The shapes of elements and scales."""
    kind: BlockFormat = call.kind
    rows, columns = call.x.shape
    elements = rows, None if columns is None else columns // kind.packed
    counts = [
        None if extent is None else -(-extent // share)
        for extent, share in zip((rows, columns), kind.block, strict=True)
    ]
    return elements, panels(*counts) if call.given.swizzled else (counts[0], counts[1])


def _factor(call: Any) -> Operand | None:
    """The array of the factor of all elements, where it is one."""
    value = call.given.global_scale
    if value is None or number_of(value) is not None:
        return None
    operand = as_operand(value, "global_scale")
    if operand.dtype != f32:
        raise TypeError(f"global_scale: expected f32, got {operand.dtype.name}")
    if any(extent not in (1, None) for extent in operand.shape):
        raise ValueError(f"global_scale: expected one element, got shape {shown(operand.shape)}")
    return operand


def _written(name: str, place: int) -> Fact:
    """An array of the caller for a result."""

    def check(call: Any) -> Operand | None:
        value = getattr(call.given, name)
        if value is None:
            return None
        operand, shape = as_operand(value, name), call.shapes[place]
        kind: BlockFormat = call.kind
        dtype = as_dtype(kind.stored if place == 0 else kind.scale.name)
        if operand.dtype.numpy != dtype.numpy:
            raise TypeError(f"{name}: expected {dtype.name}, got {operand.dtype.name}")
        if shapes_differ(operand.shape, shape):
            raise ValueError(f"{name}: expected shape {shown(shape)}, got {shown(operand.shape)}")
        if operand.array and not operand.array.writeable:
            raise ValueError(f"{name}: expected a writable array, got a read-only one")
        return operand

    return Fact(name, check)


def _is_cut(call: Any) -> bool:
    columns = call.x.shape[1]
    return columns is not None and columns % call.kind.columns != 0


def _said_of_columns(call: Any) -> str:
    columns, width = call.x.shape[1], call.kind.columns
    return (
        f"a multiple of {width} columns, which share a scale in {call.kind.name}, got {columns}; "
        f"pad it with zeros to {-(-columns // width) * width}"
    )


RULES = (
    Array("x"),
    Fits("x"),
    Fact("kind", lambda call: chosen_format(call.given.format)),
    Fact("rounding", lambda call: chosen_rounding(call.kind, call.given.rounding)),
    Rule("x", _is_cut, _said_of_columns),
    Fact("global_scale", lambda call: check_global_scale(call.kind, call.given.global_scale)),
    Fact("global_scale", _factor),
    Fact("out_dtype", lambda call: as_dtype(call.kind.stored)),
    Rule("swizzled", lambda call: call.given.swizzled and call.kind.scale == f32,
         lambda call: f"False with {call.kind.name}, whose scales are f32 in rows, got True; "
         "scales of 'mxfp8' are swizzled"),
    Fact("shapes", _shapes),
    _written("out", 0),
    _written("scales", 1),
)  # fmt: skip

QUANTIZE = Call(
    "quantize",
    """x (M, K) in a narrow format: elements and scales, of which products are about x.

    | format | elements | scales | block | rounding of scales |
    | --- | --- | --- | --- | --- |
    | mxfp8, mxfp8_e5m2 | e4m3, e5m2 | ue8m0 | 1 x 32 | up, down |
    | mxfp6_e2m3, mxfp6_e3m2 | e2m3, e3m2, a byte each | ue8m0 | 1 x 32 | up, down |
    | mxfp4 | e2m1, two in a byte of u8 | ue8m0 | 1 x 32 | up, down |
    | nvfp4 | e2m1, two in a byte of u8 | e4m3 | 1 x 16 | nearest |
    | fp8_block | e4m3 | f32 | 1 x 128 | nearest, up |
    | fp8_square | e4m3 | f32 | 128 x 128 | nearest, up |

    The first rounding is the default. With "up" a scale is the least power of two by which no
    element of the block is larger than the format's largest number; "down" is the power of two
    below it, or it, by which elements may saturate (OCP's MX). "nearest" is the largest magnitude
    of the block times f32(1 / largest number), rounded to the scale's type; elements are then
    multiplied by the rounded quotient 1 / scale. Elements are rounded to the nearest, ties to even,
    and saturate. All of it is f32 arithmetic with one rounding an operation, so that every target
    gives the bits that NumPy gives. A block with NaN or infinity has the scale NaN, a block of
    zeros the least scale and zeros.

    Of two elements in a byte the first is in the low half. nvfp4 takes `global_scale` g, a number
    or an f32 array of one element: magnitudes are multiplied by 1 / g first, and x is elements
    times scales times g; max |x| / (448 * 6) uses the whole range. K is a multiple of the block's
    columns, M of any size.

    `scales` are (M, K / block), or with `swizzled` panels of 128 rows and 4 columns as tensor cores
    read them, (ceil(M / 128), ceil(K / block / 4), 32, 4, 4): row r and column c are at
    [r // 128, c // 4, r % 32, r % 128 // 32, c % 4], and those that there are not are 0. Inside a
    kernel take `cute.quantized`. Wrong arguments raise TypeError or ValueError naming the argument,
    and nothing is written.
    """,
    (
        Parameter("x", kinds.TENSOR, REQUIRED, "the array (M, K)", modes="M K",
                  rank="2 dimensions (rows, columns)", dtypes=("f32", "f16", "bf16")),
        Parameter("format", kinds.BLOCK_FORMAT, REQUIRED, 'the format, such as "mxfp8"'),
        Parameter("global_scale", kinds.SCALE, None,
                  "of nvfp4 the factor of all elements, a number or an array of one element",
                  key="number is None"),
        Parameter("rounding", kinds.ROUNDING, None,
                  "how scales are rounded; by default the first of the format"),
        Parameter("swizzled", kinds.FLAG, False,
                  "whether scales lie in panels of 128 rows and 4 columns"),
        Parameter("out", kinds.OUTPUT, None, "the array that gets the elements"),
        Parameter("scales", kinds.OUTPUT, None, "the array that gets the scales"),
        *LAUNCH,
    ),
    prepared="x, factor, out, scales",
    before="""
refuse_tile(x)
number = number_of(global_scale)
factor = global_scale if number is None else None
""",
    numbers="() if number is None else (number,)",
    repeated="() if number is None else ready.numbers(number)",
    outputs=(Output("out", "M K"), Output("scales", "M K")),
    leads_with_arrays=False,
    rules=RULES,
    fits={},
    libraries=("torch",),
)  # fmt: skip
