"""`cute.routed_gemm`, declared: types and extents of operands, and what has to hold for them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from . import signature as kinds
from .dtypes import f32
from .gemm_operands import is_widened, result_dtype
from .rules import (
    KNOWN_ACTIVATION,
    Array,
    Fact,
    Fits,
    Rule,
    Shaped,
    differ,
    result_type,
    result_types,
    shapes_differ,
    shown,
)
from .signature import OF_ARRAYS, OF_DTYPE, OF_OUT, REQUIRED, Call, Output, Parameter

ELEMENTS = ("f16", "bf16", "f32", "e4m3", "e5m2")
INTEGERS = ("i32", "i64")
NUMBERS = ("offsets", "lengths", "rows", "scatter")
"""The arrays that number rows."""


def sizes(given: Mapping[str, Any]) -> dict[str, Any]:
    """How many rows the result has."""
    a, rows, scatter, out = (given.get(name) for name in ("a", "rows", "scatter", "out"))
    if scatter is not None and len(scatter.shape) == 1:
        return {"S": given.get("count") if out is None else out.shape[0]}
    found = next(each for each in (scatter, rows, a) if each is not None)
    return {"S": found.shape[0]}


def _rows(call: Any) -> int | None:
    """How many rows the groups have."""
    return (call.a if call.rows is None else call.rows).shape[0]


def _sizes(call: Any) -> None:
    found = {name: getattr(call, name) for name in ("a", "rows", "scatter")}
    call.extents |= sizes(vars(call.given) | found)


def _weights_of(call: Any) -> Any:
    """The array whose shape weights have, or how many rows there are."""
    return (_rows(call),) if call.scatter is None else call.scatter.shape


FITS = {
    "b.K": "(E, {want}, N) ({of} is {of_shape}), got {got} rows in shape {shape}",
    "E": "{want} groups as in {of}, got {got}",
    "N": "{want} columns as in {of}, got {got}",
}
RULES = (
    *map(Array, ("a", "b", "offsets", "lengths", "rows")),
    *map(Fits, ("a", "b")),
    Rule("b", lambda x: x.b.dtype != x.a.dtype and not is_widened(x.a.dtype, x.b.dtype),
         lambda x: f"{x.a.dtype.name} as in a, or 8-bit integers beside 16 bits, got "
         f"{x.b.dtype.name}", TypeError),
    Rule("offsets", lambda x: differ(x.offsets.shape[0], x.b.shape[0] and x.b.shape[0] + 1),
         lambda x: f"{x.b.shape[0] + 1} numbers, where each of the {x.b.shape[0]} groups of b "
         f"begins, and the end of the last one, got {x.offsets.shape[0]}"),
    Fits("lengths"),
    Array("scatter"),
    Rule("scatter", lambda x: x.scatter is not None and len(x.scatter.shape) not in (1, 2),
         lambda x: "the row to which each product is added (rows,), or the products of which each "
         f"row is the sum (rows of the result, k), got shape {shown(x.scatter.shape)}"),
    Rule("scatter", lambda x: x.scatter is not None and len(x.scatter.shape) == 1
         and differ(x.scatter.shape[0], _rows(x)),
         lambda x: f"{_rows(x)} numbers, one for each row of the groups, got {x.scatter.shape[0]}"),
    Rule("count", lambda x: x.given.count is not None
         and (x.scatter is None or len(x.scatter.shape) == 2),
         lambda x: "None without a scatter (rows,), since the result has the rows of the groups, "
         f"or of scatter, got {x.given.count}"),
    Rule("count", lambda x: x.scatter is not None and len(x.scatter.shape) == 1
         and x.given.count is None and x.given.out is None,
         lambda x: "how many rows the result of a scatter (rows,) has, or out=, got None"),
    Fact("sized", _sizes),
    Array("weights"),
    Rule("weights", lambda x: x.weights is not None
         and shapes_differ(x.weights.shape, _weights_of(x)),
         lambda x: f"shape {shown(_weights_of(x))}, got {shown(x.weights.shape)}"),
    *(rule for name in ("gated", "bias", "scale_b") for rule in (Array(name), Fits(name))),
    Rule("gated", lambda x: x.gated is not None and x.gated.dtype != x.b.dtype,
         lambda x: f"{x.b.dtype.name} as in b, got {x.gated.dtype.name}", TypeError),
    Rule("gated", lambda x: x.gated is not None and x.scale_b is not None,
         lambda x: "None with scale_b, got an array; multiply twice"),
    KNOWN_ACTIVATION,
    result_type(lambda x: f32 if x.scatter is not None and len(x.scatter.shape) == 1
                else result_dtype(x.a.dtype, False)),
    Rule("out_dtype", lambda x: x.scatter is not None and len(x.scatter.shape) == 1
         and x.out_dtype.name not in ("f32", "f16", "bf16"),
         lambda x: f"f32, f16 or bf16 of what is added up, got {x.out_dtype.name}", TypeError),
    Shaped("out", result_types),
)  # fmt: skip

_OF_ROUTED = (
    Parameter("a", kinds.TENSOR, REQUIRED, "the rows (T, K)", modes="T K",
              rank="2 dimensions (rows, K)", dtypes=ELEMENTS),
    Parameter("b", kinds.TENSOR, REQUIRED, "the matrix of each group (E, K, N)", modes="E K N",
              rank="3 dimensions (groups, K, N)"),
    Parameter("offsets", kinds.TENSOR, REQUIRED,
              "where each group begins, and the end of the last one (E + 1,)", modes="F",
              rank="1 dimension", dtypes=INTEGERS),
    Parameter("lengths", kinds.OPTIONAL, None,
              "how many rows each group has, the rest being padding (E,)", modes="E",
              rank="1 dimension", dtypes=INTEGERS),
    Parameter("rows", kinds.OPTIONAL, None, "which row of a each row of the groups is (R,)",
              modes="R", rank="1 dimension", dtypes=INTEGERS),
    Parameter("scatter", kinds.OPTIONAL, None,
              "the row that each product is added to (R,), or the products of each row (S, k)",
              dtypes=INTEGERS),
    Parameter("weights", kinds.OPTIONAL, None,
              "what multiplies the products: (R,), or as scatter"),
    Parameter("gated", kinds.OPTIONAL, None,
              "matrices like b, whose products multiply the activation (E, K, N)", modes="E K N"),
    Parameter("bias", kinds.OPTIONAL, None, "what is added to each row of a group (E, N)",
              modes="E N"),
    Parameter("scale_b", kinds.OPTIONAL, None, "what multiplies the columns of b (E, N)",
              modes="E N", dtypes=("f32",)),
    Parameter("activation", kinds.ACTIVATION, None,
              "what the result goes through, a name or a function of the tile"),
    Parameter("count", kinds.COUNT, None, "how many rows a scatter (R,) adds to, without out"),
    Parameter("out", kinds.OUTPUT, None, OF_OUT, modes="S N"),
    Parameter("out_dtype", kinds.DTYPE, None, OF_DTYPE),
    *OF_ARRAYS,
)  # fmt: skip
ROUTED_GEMM = Call(
    "routed_gemm",
    """The products of groups of rows and a matrix for each group, as layers of experts have them.

    Group e is the rows offsets[e] to offsets[e + 1] - 1, of which it has the first `lengths[e]`, if
    given; any may be empty. Row r of the groups is row rows[r] of a, or row r of a without `rows`;
    its product is activation(a b_e + bias_e), times a gated_e with `gated`, times weights[r]. The
    numbers of `offsets`, `lengths`, `rows` and `scatter` are looked at by the device alone: a call
    needs no synchronization, and is captured in a CUDA graph after an earlier one like it.

    Without `scatter` the result is (R, N), and rows that are in no group are not written. With
    `scatter` (R,) the product of row r is added to row scatter[r] of the result, which has `count`
    rows or is `out`, and is 0 before: by atomics, in any order. With `scatter` (S, k) row t of the
    result is the sum of weights[t, j] times the product of row scatter[t, j] over j, in this order:
    equal calls give equal bits. -1 is the number of no row, which is 0, and to which nothing is
    added.

    Elements are f16, bf16, f32 (as tf32), e4m3 or e5m2; beside f16 and bf16 of a, b may have 8-bit
    integers, whose columns `scale_b` multiplies. Default `out_dtype` is a's type, bf16 for fp8, and
    f32 for a scatter (R,), which also takes f16 and bf16, added in that type. Products that are
    added in order are rounded to a's type first, in memory of the call.

    Offsets that fall, and numbers of rows that are not there, are refused where the arrays lie in
    memory of the host. Elsewhere they compute something else, without an access outside of the
    arrays: such a row is that of -1, and groups end with the rows that there are. Wrong arguments
    raise TypeError or ValueError naming the argument, and nothing is written. Returns `out`, or a
    new array where `a` lives.
    """,
    _OF_ROUTED,
    outputs=(Output("out", "S N"),),
    sizes=sizes,
    added="scatter",
    rules=RULES,
    fits=FITS,
    libraries=("torch",),
)
