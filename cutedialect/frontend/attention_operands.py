"""What has to hold for the arguments of `cute.attention`: rows of its declaration."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from .attention_scales import head_scales
from .dtypes import DType, bf16, f16, f32
from .gemm_operands import as_number
from .kernel import TensorSpec
from .rules import (
    Array,
    Fact,
    Fits,
    Operand,
    Rule,
    Shaped,
    Typed,
    as_operand,
    check_array,
    counted,
    differ,
    result_type,
    result_types,
    shown,
)

# Head dimensions of 8 bits, and of 16 bits, of q and k and of v.
_MOST_DIMS, _WIDEST = 256, {"q": 576, "k": 576, "v": 512}
# Rows that the swizzles of shared memory repeat in: pages are copied one by one.
_LEAST_PAGE = 8
# No sequence is longer; sums of a few such numbers stay within 32 bits.
_UNBOUNDED = 1 << 29

Window = tuple[int | None, int | None]


@dataclass(frozen=True)
class Packing:
    """Where packed sequences begin, in rows of q and of k."""

    q_offsets: Operand
    k_offsets: Operand


def columns_of(k: Any, v: Any) -> tuple[Any, int | None]:
    """An array of values, or None and how many columns of k they are: where it is a number, or a
    view of the first columns of fewer than all.
    """
    if isinstance(v, int) and not isinstance(v, bool):
        return None, v
    try:
        mine, theirs = getattr(v, "shape", None), getattr(k, "shape", None)
        if not mine or not theirs or mine[-1] == theirs[-1] or isinstance(v, TensorSpec):
            return v, None
        one, other = as_operand(k, "k").array, as_operand(v, "v").array
    except (RuntimeError, TypeError, ValueError):
        return v, None  # which the checks of the call then say
    if one is None or other is None:
        return v, None
    is_first = (one.pointer, one.strides, one.dtype) == (other.pointer, other.strides, other.dtype)
    if is_first and one.shape[:-1] == other.shape[:-1] and 0 < other.shape[-1] < one.shape[-1]:
        return None, other.shape[-1]
    return v, None


def _values(call: Any) -> Operand:
    """The values: so many columns of k, or an array of their own."""
    k, columns = call.k, call.columns
    if columns is None:
        return as_operand(call.given.v, "v")
    depth = k.shape[-1] if k.shape else None
    if depth is not None and not 0 < columns <= depth:
        raise ValueError(f"v: expected a number of columns of k from 1 to {depth}, got {columns}")
    shape = (*k.shape[:-1], columns)
    array = None if k.array is None else k.array._replace(shape=shape)
    return replace(k, name="v", shape=shape, array=array)


def _operand_rules(name: str) -> Iterator[Rule]:
    """What holds for q, k and v alike."""

    def mine(call: Any) -> Operand:
        return getattr(call, name)

    def like(call: Any) -> Operand:
        """The array whose type this one has."""
        return call.k if name == "v" and call.q.dtype.bits > 8 else call.q

    def differs(call: Any) -> bool:
        dtype = mine(call).dtype
        is_narrow = name == "k" and dtype.bits < call.q.dtype.bits
        return dtype != like(call).dtype and not is_narrow

    def most(call: Any) -> int:
        has_16_bits = min(call.q.dtype.bits, call.k.dtype.bits) == 16
        return _WIDEST[name] if has_16_bits else _MOST_DIMS

    def is_strided(call: Any) -> bool:
        shape = mine(call).shape
        is_one = shape[-1] in (0, 1, None)
        return last_stride(mine(call)) not in (1, None) and not is_one and 0 not in shape

    yield from (
        Rule(name, differs, lambda x: f"{like(x).dtype.name} as in {like(x).name}, got "
             f"{mine(x).dtype.name}", TypeError),
        Rule(name, lambda x: not 1 <= (mine(x).shape[-1] or 0) <= most(x),
             lambda x: f"a head dimension of 1 to {most(x)}, got {mine(x).shape[-1]}"),
        Rule(name, is_strided,
             lambda x: f"a contiguous last dimension, got stride {last_stride(mine(x))}"),
    )  # fmt: skip


def last_stride(operand: Operand) -> int | None:
    """The stride of the last dimension, None where it is not known."""
    if operand.array is not None:
        return operand.array.strides[-1]
    strides: Sequence[int | None] | None = operand.value.strides
    return 1 if strides is None else strides[-1]


def _has_no_pages(call: Any, name: str) -> bool:
    size = getattr(call, name).shape[2]
    return call.block_table and (size is None or size < _LEAST_PAGE or size & (size - 1))


def _paged(call: Any, name: str) -> str:
    return (
        "(pages, heads, page size, head dimension) with a page size that is a power of two from "
        f"{_LEAST_PAGE} on, got shape {shown(getattr(call, name).shape)}"
    )


def _keys(call: Any) -> str:
    """The modes of keys."""
    return "pool Hk page D" if call.block_table else "B Hk T D"


def _window(call: Any) -> Window:
    """(keys before, keys behind) that a row sees, None for all."""
    window = call.given.window
    left: int | None = None
    right: int | None = None
    if window is not None:
        ok = isinstance(window, tuple | list) and len(window) == 2
        if not ok or not all(
            hasattr(each, "__index__") and not isinstance(each, bool) for each in window
        ):
            raise TypeError(f"window: expected (left, right), two ints, got {window!r}")
        if min(window) < -1:
            raise ValueError(f"window: expected numbers of keys or -1, got {tuple(window)}")
        left, right = (None if each == -1 else min(int(each), _UNBOUNDED) for each in window)
    return left, 0 if call.given.causal else right


def _number(name: str, value: object) -> float:
    found = as_number(name, value)
    if not math.isfinite(found):
        raise ValueError(f"{name}: expected a finite number, got {found}")
    return found


def _scale(call: Any) -> float:
    depth, scale = call.extents["D"], call.given.scale
    return 1 / math.sqrt(depth or 1) if scale is None else _number("scale", scale)


def _packing(call: Any) -> Packing | None:
    """The offsets of packed sequences, two vectors of integers."""
    if call.given.cu_seqlens is None:
        return None
    operands: list[Operand] = []
    for place, value in enumerate(call.given.cu_seqlens):
        operands.append(operand := as_operand(value, f"{_OFFSETS}[{place}]"))
        check_array(operand, "one dimension", 1, INTEGERS)
    first, second = (each.shape[0] for each in operands)
    if differ(first, second):
        raise ValueError(f"{_OFFSETS}[1]: expected {counted(first)}, got {second}")
    return Packing(*operands)


ELEMENTS = ("f16", "bf16", "e4m3", "e5m2")
OF_KEYS = (*ELEMENTS, "i8")
INTEGERS = ("i32", "i64")
FITS = {
    "B": "batch {want} as in {of}, got {got}",
    "D": "head dimension {want} as in {of}, got {got}",
    "Hk": "{want} heads as in {of}, got {got}",
    "T": "{want} keys as in {of}, got {got}",
    "pool": "{want} pages as in {of}, got {got}",
    "page": "pages of {want} keys as in {of}, got {got}",
    "lengths.B": "{count}, got {got}",
}

_TABLE, _OFFSETS = "block_table", "cu_seqlens"
_OF_BOTH = (
    Array("q"),
    Array("k"),
    Rule("v", lambda x: isinstance(x.given.v, bool),
         lambda x: "an array, or how many columns of k it is, got bool", TypeError),
    Fact("columns", lambda x: columns_of(x.given.k, x.given.v)[1]),
    Array("v", _values),
    Array(_TABLE),
    Rule(_TABLE, lambda x: x.block_table and x.block_table.shape[1] == 0,
         lambda x: f"a page or more, got shape {shown(x.block_table.shape)}"),
    *(Rule(name, partial(_has_no_pages, name=name), partial(_paged, name=name)) for name in "kv"),
    *(rule for name in "qkv" for rule in _operand_rules(name)),
    Fits("q"),
    Fits(_TABLE),
    Fits("k", _keys),
    Fits("v", lambda x: f"{_keys(x)[:-1]}E"),
    Rule("q", lambda x: None in (x.extents["H"], x.heads),
         lambda x: "a known number of heads in q and k, got None"),
    Rule("k", lambda x: x.extents["H"] and (x.heads == 0 or x.extents["H"] % x.heads),
         lambda x: f"a number of heads that divides the {x.extents['H']} of q, got {x.heads}"),
    Rule("causal", lambda x: x.given.causal not in (True, False),
         lambda x: f"True or False, got {x.given.causal!r}", TypeError),
    Fact("window", _window),
    Fact("scale", _scale),
    Fact("scales", lambda x: head_scales(
        x.given_scales, x.extents["B"], (x.extents["H"], x.heads, x.heads), x.scaled_keys)),
    Fact("softcap", lambda x: _number("softcap", x.given.softcap) if x.given.softcap else None),
    Rule("softcap", lambda x: (x.softcap or 0) < 0,
         lambda x: f"a positive number, got {x.given.softcap}"),
    Array("lengths"),
    Fits("lengths"),
    *(Rule(_OFFSETS, lambda x, name=name: x.given.cu_seqlens is not None and getattr(x, name),
           lambda x, name=name: f"None with {name}, got both") for name in ("lengths", _TABLE)),
    Rule(_OFFSETS, lambda x: x.given.cu_seqlens is not None
         and not (isinstance(x.given.cu_seqlens, tuple | list) and len(x.given.cu_seqlens) == 2),
         lambda x: f"(q_offsets, k_offsets), got {type(x.given.cu_seqlens).__name__}", TypeError),
    Rule("q", lambda x: x.given.cu_seqlens is not None and differ(x.extents["B"], 1),
         lambda x: "batch 1 with cu_seqlens (1, heads, total, head dimension), got shape "
         f"{shown(x.q.shape)}"),
    Fact("packing", _packing),
    Rule(f"{_OFFSETS}[0]", lambda x: x.packing and (x.packing.q_offsets.shape[0] or 2) < 2,
         lambda x: "the offsets of one or more sequences and their end, got "
         f"{x.packing.q_offsets.shape[0]} numbers"),
)  # fmt: skip
RULES = (
    *_OF_BOTH,
    result_type(lambda x: x.q.dtype if x.q.dtype.bits > 8 else bf16),
    Shaped("out", result_types),
)


def _differentiable(call: Any, name: str) -> tuple[DType, ...]:
    """The types that an operand may have where its gradient is taken."""
    return (f16, bf16) if name == "q" else (call.q.dtype,)


def _is_wide(call: Any, name: str) -> bool:
    return (getattr(call, name).shape[-1] or 0) > _MOST_DIMS


def _is_unknown(call: Any) -> bool:
    wanted = call.given.wanted
    return not isinstance(wanted, str) or not wanted or bool(set(wanted) - set(OPERANDS))


OPERANDS = "qkv"
_GRADIENTS = f16, bf16, f32
BACKWARD_RULES = (
    Rule(_TABLE, lambda x: x.given.block_table is not None,
         lambda x: "None, got a table: pages of keys that sequences share have no gradients of "
         "their own; gather them and give k and v as they are"),
    Rule("v", lambda x: isinstance(x.given.v, int),
         lambda x: "an array, got a number of columns of k", TypeError),
    *_OF_BOTH,
    Fact("v", lambda x: as_operand(x.given.v, "v")),
    *(rule for name in OPERANDS for rule in (
        Typed(name, partial(_differentiable, name=name)),
        Rule(name, partial(_is_wide, name=name), lambda x, name=name: "a head dimension of 1 to "
             f"{_MOST_DIMS}, got {getattr(x, name).shape[-1]}"),
    )),
    Shaped("out", lambda x: _GRADIENTS),
    Shaped("lse", lambda x: (f32,)),
    Shaped("do", lambda x: _GRADIENTS),
    Shaped("dlse", lambda x: (f32,)),
    Rule("deterministic", lambda x: not isinstance(x.given.deterministic, bool),
         lambda x: f"True or False, got {x.given.deterministic!r}", TypeError),
    Rule("wanted", _is_unknown, lambda x: f"some of the letters 'qkv', got {x.given.wanted!r}"),
    *(rule for name in OPERANDS for rule in (
        Rule(f"d{name}", lambda x, name=name: name not in x.given.wanted
             and getattr(x.given, f"d{name}") is not None,
             lambda x, name=name: f"None without '{name}' in wanted, got an array"),
        Shaped(f"d{name}", lambda x: _GRADIENTS),
    )),
    Fact("out_dtype", lambda x: x.q.dtype),
)  # fmt: skip
BACKWARD_FITS = FITS | {f"{name}.B": "" for name in ("do", "out", "lse", "dlse")}
