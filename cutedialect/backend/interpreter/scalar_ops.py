"""Scalar code: what each arith and math op gives, on one NumPy scalar or on all elements of a tile
at once. Integers wrap at their width; floats narrower than f32 are held in f32, and rounded after
each op.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
from xdsl.dialects import arith
from xdsl.dialects import math as mathd
from xdsl.dialects.builtin import FloatAttr, IntegerAttr
from xdsl.ir import Operation

from cutedialect.dialects.cute import BrevOp, InlinePtxOp

from .elements import (
    dtype_of,
    held,
    held_as,
    held_type,
    is_float,
    is_narrow,
    rounded,
    to_float,
    to_integer,
)

Function = Callable[..., Any]


def _division(of_ints: Function) -> Function:
    """A division from that of floor and remainder; anything where the divisor is 0."""

    def apply(a: Any, b: Any) -> Any:
        b = np.where(b == 0, b.dtype.type(1), b) if np.ndim(b) else b or b.dtype.type(1)
        floor = a // b
        return of_ints(floor, a - floor * b, b)

    return apply


def _toward_zero(floor: Any, rest: Any, b: Any) -> Any:
    del b
    return floor + ((floor < 0) & (rest != 0)).astype(floor.dtype)


def _shifted(shift: Function) -> Function:
    """Bits that leave the number are lost, however far they go (PTX ISA 9.7.8.8)."""

    def apply(a: Any, b: Any) -> Any:
        bits = 8 * a.dtype.itemsize
        far = (b < 0) | (b >= bits)
        result = shift(a, np.where(far, b.dtype.type(bits - 1), b))
        gone = result if shift is np.right_shift and a.dtype.kind == "i" else a.dtype.type(0)
        return np.where(far, gone, result)

    return apply


# Splits a float of 53 bits into halves whose products are exact (Dekker 1971).
_SPLITTER = 2.0**27 + 1


def _fused(a: Any, b: Any, c: Any) -> Any:
    """a b + c rounded once: the product of two f32 is exact in f64, that of two f64 in two parts,
    as is the sum (Dekker, Knuth).
    """
    if a.dtype == np.float32:
        return (np.multiply(a, b, dtype=np.float64) + c).astype(np.float32)
    product = a * b
    total = product + c
    (high, low), (top, rest) = (
        (h := (x * _SPLITTER) - ((x * _SPLITTER) - x), x - h) for x in (a, b)
    )
    lost = low * rest - (((product - high * top) - low * top) - high * rest)
    part = total - product
    lost = lost + ((product - (total - part)) + (c - part))
    return np.where(np.isfinite(lost), total + lost, total)


def _bits_of(function: Function) -> Function:
    """A function of the bits of integers without a sign, of which it is told how many there are."""

    def apply(a: Any) -> Any:
        a = np.asarray(a)
        bits = 8 * a.dtype.itemsize
        return function(_as_unsigned(a), bits).astype(a.dtype)[()]

    return apply


def _leading_zeros(a: Any, bits: int) -> Any:
    zeros = np.full(a.shape, bits, a.dtype)
    for place in range(bits):
        zeros = np.where(a >> a.dtype.type(place) != 0, a.dtype.type(bits - 1 - place), zeros)
    return zeros


def _reversed(a: Any, bits: int) -> Any:
    one, result = a.dtype.type(1), np.zeros_like(a)
    for place in range(bits):
        bit = a >> a.dtype.type(place) & one
        result = result | bit << a.dtype.type(bits - 1 - place)
    return result


_FLOAT: dict[type[Operation], Function] = {
    arith.AddfOp: operator.add,
    arith.SubfOp: operator.sub,
    arith.MulfOp: operator.mul,
    arith.DivfOp: np.divide,
    arith.MaximumfOp: np.maximum,
    arith.MinimumfOp: np.minimum,
    arith.MaxnumfOp: np.fmax,
    arith.MinnumfOp: np.fmin,
    arith.NegfOp: np.negative,
    mathd.AbsFOp: np.abs,
    mathd.FmaOp: _fused,
    mathd.ExpOp: np.exp,
    mathd.Exp2Op: np.exp2,
    mathd.LogOp: np.log,
    mathd.Log2Op: np.log2,
    mathd.SqrtOp: np.sqrt,
    mathd.RsqrtOp: lambda a: np.reciprocal(np.sqrt(a)),
    mathd.SinOp: np.sin,
    mathd.CosOp: np.cos,
    mathd.TanhOp: np.tanh,
    mathd.FloorOp: np.floor,
    mathd.CeilOp: np.ceil,
    mathd.TruncOp: np.trunc,
    mathd.RoundEvenOp: np.rint,
    mathd.CopySignOp: np.copysign,
}
_SIGNED: dict[type[Operation], Function] = {
    arith.AddiOp: operator.add,
    arith.SubiOp: operator.sub,
    arith.MuliOp: operator.mul,
    arith.DivSIOp: _division(_toward_zero),
    arith.RemSIOp: _division(
        lambda floor, rest, b: rest - b * (_toward_zero(floor, rest, b) - floor)
    ),
    arith.FloorDivSIOp: _division(lambda floor, rest, b: floor),
    arith.CeilDivSIOp: _division(lambda floor, rest, b: floor + (rest != 0).astype(floor.dtype)),
    arith.AndIOp: operator.and_,
    arith.OrIOp: operator.or_,
    arith.XOrIOp: operator.xor,
    arith.ShLIOp: _shifted(np.left_shift),
    arith.ShRSIOp: _shifted(np.right_shift),
    arith.MaxSIOp: np.maximum,
    arith.MinSIOp: np.minimum,
    mathd.CtPopOp: _bits_of(lambda a, bits: np.bitwise_count(a)),
    mathd.CountLeadingZerosOp: _bits_of(_leading_zeros),
    BrevOp: _bits_of(_reversed),
}
_UNSIGNED: dict[type[Operation], Function] = {
    arith.DivUIOp: _SIGNED[arith.FloorDivSIOp],
    arith.CeilDivUIOp: _SIGNED[arith.CeilDivSIOp],
    arith.RemUIOp: _division(lambda floor, rest, b: rest),
    arith.ShRUIOp: _shifted(np.right_shift),
    arith.MaxUIOp: np.maximum,
    arith.MinUIOp: np.minimum,
}
_BOOLEAN: dict[type[Operation], Function] = {
    arith.AddiOp: np.logical_xor,
    arith.SubiOp: np.logical_xor,
    arith.MuliOp: np.logical_and,
    arith.AndIOp: np.logical_and,
    arith.OrIOp: np.logical_or,
    arith.XOrIOp: np.logical_xor,
}
# arith.cmpi and arith.cmpf number their predicates; floats come ordered (1-6), then unordered.
_COMPARE = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
_COMPARE_INTEGERS = (*_COMPARE, *_COMPARE[2:])
_FIRST_UNSIGNED = 6
_ORDERED = (
    operator.eq, operator.gt, operator.ge, operator.lt, operator.le, operator.ne,
)  # fmt: skip


def _unordered(a: Any, b: Any) -> Any:
    return np.isnan(a) | np.isnan(b)


def _compare_floats(predicate: int) -> Function:
    if predicate in (0, 15):
        return lambda a, b: np.full(np.broadcast(a, b).shape, predicate == 15)
    if predicate in (7, 14):
        return lambda a, b: _unordered(a, b) == (predicate == 14)
    compare = _ORDERED[(predicate - 1) % 7]
    if predicate > 7:
        return lambda a, b: compare(a, b) | _unordered(a, b)
    return lambda a, b: compare(a, b) & ~_unordered(a, b)


def _as_unsigned(values: Any) -> Any:
    kind = values.dtype
    return values.astype(f"u{kind.itemsize}") if kind.kind == "i" else values


def _integers(op: Operation) -> Function | None:
    """The function of an op on integers, or None."""
    kind, dtype = type(op), dtype_of(op.results[0].type)
    if dtype.kind == "b" and kind in _BOOLEAN:
        return _BOOLEAN[kind]
    if kind in _SIGNED:
        return _SIGNED[kind]
    if kind in _UNSIGNED:
        function = _UNSIGNED[kind]
        return lambda a, b: function(_as_unsigned(a), _as_unsigned(b)).astype(dtype)
    return None


def _floats(op: Operation) -> Function:
    """The function of an op on floats."""
    function, dtype = _FLOAT[type(op)], dtype_of(op.results[0].type)
    if held_as(dtype) == dtype:
        return function
    return lambda *args: rounded(function(*args), dtype)


def _constant(op: Operation) -> Function:
    assert isinstance(op, arith.ConstantOp)
    attribute, dtype = op.value, dtype_of(op.results[0].type)
    assert isinstance(attribute, IntegerAttr | FloatAttr)
    value = attribute.value.data
    if isinstance(attribute, FloatAttr):
        made = rounded(np.float64(value), dtype)
    elif dtype.kind == "b":
        made = np.bool_(int(value) & 1)
    else:
        bits = int(value) & (1 << 8 * dtype.itemsize) - 1
        made = np.array(bits, f"u{dtype.itemsize}").astype(dtype)[()]
    return lambda: made


def _compare(op: Operation) -> Function:
    if isinstance(op, arith.CmpfOp):
        return _compare_floats(op.predicate.value.data)
    assert isinstance(op, arith.CmpiOp)
    predicate = op.predicate.value.data
    function = _COMPARE_INTEGERS[predicate]
    if predicate < _FIRST_UNSIGNED:
        return function
    return lambda a, b: function(_as_unsigned(a), _as_unsigned(b))


def _select(condition: Any, yes: Any, no: Any) -> Any:
    if np.ndim(condition):
        return np.where(condition, yes, no)
    return yes if condition else no


def _cast(op: Operation) -> Function:
    """Conversions: an i1 that is extended with its sign is 0 or -1."""
    dtype = dtype_of(op.results[0].type)
    if isinstance(op, arith.FPToSIOp | arith.FPToUIOp):
        unsigned = isinstance(op, arith.FPToUIOp)
        target = np.dtype(f"{'u' if unsigned else 'i'}{dtype.itemsize}")
        return lambda a: to_integer(a, target).astype(dtype)
    if isinstance(op, arith.BitcastOp):
        source = dtype_of(op.operands[0].type)
        return lambda a: held(
            np.asarray(to_float(a, source) if is_narrow(source) else a).view(dtype)
        )
    extends_zeros = isinstance(op, arith.ExtUIOp | arith.UIToFPOp)

    def prepared(a: Any) -> Any:
        if a.dtype.kind == "b":
            a = a.astype(np.int8)
            return a if extends_zeros else -a
        return _as_unsigned(a) if extends_zeros else a

    if isinstance(op, arith.ExtFOp) and dtype == held_type(op.operands[0].type):
        return lambda a: a
    if is_float(op.results[0].type):
        return lambda a: rounded(prepared(a), dtype)
    if dtype.kind == "b":
        return lambda a: (a & a.dtype.type(1)) != 0
    return lambda a: prepared(a).astype(dtype)


def _extended(op: Operation) -> Function:
    """Both halves of a product, the low one first."""
    dtype = dtype_of(op.results[0].type)
    bits = 8 * dtype.itemsize
    wide = np.dtype(np.int64) if bits < 64 else np.dtype(object)
    is_signed = isinstance(op, arith.MulSIExtendedOp)
    if not is_signed and bits < 64:
        wide = np.dtype(np.uint64)
    mask = (1 << bits) - 1

    def halves(a: Any, b: Any) -> tuple[Any, Any]:
        one, other = ((v if is_signed else _as_unsigned(v)).astype(wide) for v in (a, b))
        product = one * other
        parts = product & mask, product >> bits & mask
        low, high = (np.asarray(part).astype(f"u{dtype.itemsize}") for part in parts)
        return low.astype(dtype), high.astype(dtype)

    return halves


def _instructions(op: Operation) -> Function:
    raise ValueError(
        "expected a backend that runs PTX for cute.inline_ptx, got the interpreter; take "
        'backend="emulator"'
    )


_CASTS = (
    arith.ExtFOp, arith.TruncFOp, arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp,
    arith.SIToFPOp, arith.UIToFPOp, arith.FPToSIOp, arith.FPToUIOp, arith.BitcastOp,
)  # fmt: skip
_SPECIAL: dict[type[Operation], Callable[[Operation], Function]] = {
    arith.ConstantOp: _constant,
    arith.CmpiOp: _compare,
    arith.CmpfOp: _compare,
    arith.SelectOp: lambda op: _select,
    InlinePtxOp: _instructions,
    arith.MulUIExtendedOp: _extended,
    arith.MulSIExtendedOp: _extended,
    **dict.fromkeys(_CASTS, _cast),
}


def function_of(op: Operation) -> Function | None:
    """The function from the operands' values to the result's, or to a tuple of several, or None for
    an op that is neither arith nor math, or that no rule knows.
    """
    kind = type(op)
    if kind in _SPECIAL:
        return _SPECIAL[kind](op)
    if kind in _FLOAT:
        return _floats(op)
    if kind in _SIGNED or kind in _UNSIGNED:
        return _integers(op)
    return None
