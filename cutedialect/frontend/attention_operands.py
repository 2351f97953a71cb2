"""`cute.attention` and `cute.attention_backward`, declared, with what has to hold for arguments."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from . import signature as kinds
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
from .signature import LAUNCH, OF_DTYPE, OF_OUT, REQUIRED, Call, Output, Parameter, Part

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

_RANK = "4 dimensions (batch, heads, sequence, head dimension)"
_OF_ATTENTION = (
    Parameter("q", kinds.TENSOR, REQUIRED, "queries (B, H, Sq, D)", modes="B H S D", rank=_RANK,
              dtypes=ELEMENTS),
    Parameter("k", kinds.TENSOR, REQUIRED, "keys (B, Hk, Sk, D), or pages of them",
              modes="B Hk T D", rank=_RANK, dtypes=OF_KEYS),
    Parameter("v", kinds.TENSOR, REQUIRED, "values (B, Hk, Sk, Dv), or a number of columns",
              modes="B Hk T E", rank=_RANK, dtypes=OF_KEYS),
    Parameter("causal", kinds.FLAG, False, "whether a row sees no key behind its own"),
    Parameter("scale", kinds.SOME_NUMBER, None, "the factor of the scores, 1/sqrt(D) by default"),
    Parameter("window", kinds.WINDOW, None,
              "how many keys (before, behind) its own a row sees, -1 for all"),
    Parameter("softcap", kinds.SOME_NUMBER, None, "c of scores c tanh(score / c)"),
    Parameter("lengths", kinds.OPTIONAL, None, "how many keys a batch entry has (B,)", modes="B",
              rank="one dimension", dtypes=INTEGERS),
    Parameter("cu_seqlens", kinds.OFFSETS, None,
              "where packed sequences begin, (q_offsets, k_offsets)",
              key="cu_seqlens is not None"),
    Parameter("block_table", kinds.OPTIONAL, None, "where the pages of keys are (B, pages)",
              modes="B pages", rank="(batch, pages)", dtypes=INTEGERS),
    Parameter("scale_q", kinds.SCALE, None, "what multiplies q, for all or each head",
              key="*factors"),
    Parameter("scale_k", kinds.SCALE, None, "what multiplies k, or each key"),
    Parameter("scale_v", kinds.SCALE, None, "what multiplies v, or each value"),
    Parameter("return_lse", kinds.RESULT, False, "whether sums are returned, too"),
    Parameter("out", kinds.OUTPUT, None, OF_OUT, modes="B H S E"),
    Parameter("out_dtype", kinds.DTYPE, None, OF_DTYPE),
    *LAUNCH,
)  # fmt: skip


_OFFSETS_AND_SCALES = """
offsets = cu_seqlens if isinstance(cu_seqlens, tuple | list) and len(cu_seqlens) == 2 else ()
arrays, factors = split_scales((scale_q, scale_k, scale_v))
"""


def _is_apart(given: Mapping[str, Any]) -> bool:
    """Whether batch entries and heads have nothing in common."""
    joint = ("q_offsets", "k_offsets", "block_table", "scale_q", "scale_k", "scale_v")
    return all(given.get(name) is None for name in joint)


def _is_unmasked(given: Mapping[str, Any]) -> bool:
    """Whether no mask counts the rows of queries."""
    return _is_apart(given) and not given.get("causal") and given.get("window") is None


_PARTS_OF_ATTENTION = (
    Part(("B",), _is_apart),
    Part(("H", "Hk"), _is_apart),
    Part(("S",), _is_unmasked),
)
ATTENTION = Call(
    "attention",
    """softmax(scale Q K^T) V for each head: q (B, H, Sq, D), k (B, Hk, Sk, D), v (B, Hk, Sk, Dv).

    Elements are f16, bf16, e4m3 or e5m2, those of k and v of q's type, or of 8 bits (i8, too)
    beside 16 of q.
    The last dimension is contiguous, head dimensions are up to 256 (of 16 bits D up to 576 and Dv
    up to 512), and H is a multiple of Hk: neighboring heads of q share a head of k and v. A `v`
    that is a view of the first columns of k, or their number, is loaded once, as part of k. `scale`
    is 1/sqrt(D) by default, `softcap` c makes the scores c tanh(score / c). `scale_q`, `scale_k`
    and `scale_v` multiply the elements of q, k and v: positive numbers, or arrays of f32, one for
    each head (H,), (Hk,), or for each head of each batch entry (B, H), (B, Hk). Beside 16 bits of q
    those of k and v may be one for each key (B, Hk, Sk), in pages (pages, Hk, page size), or with 1
    in the place of the keys one for all of a batch entry or page.

    Row i of q is aligned with key j = i + Sk - Sq. `causal` hides the keys behind j, `window=(left,
    right)` those more than `left` before or `right` behind it; -1 is unbounded. `lengths` (B,), of
    i32 or i64, says how many keys of each batch entry there are; the rest of k and v is padding,
    and Sk above is that number. `cu_seqlens=(q_offsets, k_offsets)` packs sequences: arrays are
    (1, H, total, D), and sequence s has the rows q_offsets[s] to q_offsets[s + 1] - 1 of q and
    those of k_offsets of k and v. Rows outside of all sequences are not written.
    `block_table` (B, pages) of i32 or i64 says where the keys are: k and v are (pages, Hk, page
    size, D), and key j of batch entry b is row j mod the page size, a power of two from 8 on, of
    page block_table[b, j // page size]. Without `lengths` all of its pages are full. Pages behind
    the length are not looked at.

    A row that sees no key gives 0. Padding, other sequences, and what a mask hides from a row may
    hold NaN or Inf; a tile in which some row sees such a value of v takes a slow way. Returns
    `out`, or a new array of `out_dtype` where q lives (q's type by default, bf16 where that has 8
    bits); with `return_lse` also
    the logarithms (natural, f32, (B, H, Sq)) of the sums of exponentials, -inf for a row that sees
    no key. Wrong arguments, such as an `out` that shares memory with another array, raise TypeError
    or ValueError naming the argument, and nothing is written.
    """,
    _OF_ATTENTION,
    prepared="q, k, v, out, None, lengths, block_table, *arrays, *offsets",
    before=_OFFSETS_AND_SCALES,
    tunable="attention_tuning:TunableAttention",
    leads_with_arrays=False,
    outputs=(Output("out", "B H S E"), Output("lse", "B H S", "return_lse", f32)),
    rules=RULES,
    fits=FITS,
    parts=_PARTS_OF_ATTENTION,
)

_NOT_OF_BACKWARD = ("q", "k", "v", "return_lse", "out", "out_dtype")
_GRADIENT = "the array that gets the gradient of {}; it overlaps no other array"
_OF_ATTENTION_BACKWARD = (
    Parameter("do", kinds.TENSOR_OR_NONE, REQUIRED, "slopes of the loss along out (B, H, Sq, Dv)",
              modes="B H S E"),
    *_OF_ATTENTION[:3],
    Parameter("out", kinds.TENSOR, REQUIRED, "what the forward pass gave (B, H, Sq, Dv)",
              modes="B H S E"),
    Parameter("lse", kinds.TENSOR, REQUIRED, "the logarithms that it gave (B, H, Sq)",
              modes="B H S"),
    *(each for each in _OF_ATTENTION if each.name not in _NOT_OF_BACKWARD
      and each not in LAUNCH),
    Parameter("dlse", kinds.OPTIONAL, None, "slopes of the loss along lse (B, H, Sq)",
              modes="B H S"),
    Parameter("wanted", kinds.OPERANDS, "qkv", "the operands whose gradients are computed"),
    Parameter("deterministic", kinds.FLAG, False, "whether equal calls give equal bits"),
    *(Parameter(f"d{each.name}", kinds.OUTPUT, None, _GRADIENT.format(each.name), modes=each.modes)
      for each in _OF_ATTENTION[:3]),
    *LAUNCH,
)  # fmt: skip
ATTENTION_BACKWARD = Call(
    "attention_backward",
    """Gradients (dq, dk, dv) of `attention` of q, k and v, from those of its results.

    `do` (B, H, Sq, Dv) are the slopes of a loss along `out`, of any strides, or None for zeros;
    `dlse` (B, H, Sq) of f32 are those along `lse`. `out` and `lse` are what `cute.attention(q, k,
    v, ..., return_lse=True)` gave, whose arguments the others are. Elements are f16 or bf16 (`do`
    and `out` may also have f32), head dimensions are up to 256, and H is a multiple of Hk: dk and
    dv are sums over the heads that share keys. There is no gradient through a `block_table`, of 8
    bits, or of scales.

    A row that sees no key, and padding behind `lengths`, get 0; rows outside of all packed
    sequences are not written. What a mask hides from a row may hold NaN or Inf. Of `wanted`, some
    of the letters "qkv", the others are None and take no time. dq is added up in f32, by adds in
    memory in the order in which they come; with `deterministic`, or above 128 dimensions, a second
    pass over the keys adds them in one order, and equal calls on one device give equal bits.

    Per head and 64 rows (rounded up) it takes 64 (8 + 4 D) bytes of memory beside, D rounded up to
    16 or 64; without dq by adds 512 bytes; and 2 Dv more for each row of a `do` that has to be
    copied. Returns `dq`, `dk` and `dv`, or new arrays of the types of q, k and v where q lives.
    Wrong arguments, such as a dk that shares memory with another array, raise TypeError or
    ValueError naming the argument, and nothing is written.
    """,
    _OF_ATTENTION_BACKWARD,
    prepared="q, k, v, out, lse, do, dlse, dq, dk, dv, *(None,) * 4, lengths, *arrays, *offsets",
    before=_OFFSETS_AND_SCALES,
    tunable="attention_backward_tuning:TunableAttentionBackward",
    outputs=(Output("dq", "B H S D"), Output("dk", "B Hk T D"), Output("dv", "B Hk T E")),
    leads_with_arrays=False,
    rules=BACKWARD_RULES,
    fits=BACKWARD_FITS,
    parts=_PARTS_OF_ATTENTION,
    libraries=(),
)
