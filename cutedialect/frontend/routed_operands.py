"""`cute.routed_gemm`, declared: types and extents of operands, and what has to hold for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from . import signature as kinds
from .dtypes import DType, f32, i32, ue4m3, ue8m0
from .gemm_operands import (
    EIGHT_BIT_FLOATS,
    WEIGHTS,
    is_widened,
    packed_operand,
    result_dtype,
)
from .gemm_scales import BLOCK, GROUPS, number_of, scale_of
from .packed import Packed
from .rules import (
    KNOWN_ACTIVATION,
    Array,
    Fact,
    Fits,
    Operand,
    Rule,
    Shaped,
    as_operand,
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


def matrix_of(gated: Packed, text: str | None) -> Any:
    """The integers of packed matrices beside b, which hold elements as those of b do."""
    if gated.text != text:
        raise ValueError(f"gated: expected elements packed as those of b, {text}, got {gated.text}")
    return gated.array


def _matrices(name: str) -> Callable[[Any], Operand]:
    def found(call: Any) -> Operand:
        value, text = getattr(call.given, name), call.given.packed_b
        if text is None:
            return as_operand(value, name)
        return packed_operand(value, name, text, call.a.shape[-1])

    return found


def _beside(name: str, of: str) -> Callable[[Any], tuple[int, int]]:
    """How many elements (along K, along N) share an entry of an array beside the matrices `of` a
    name, 0 for all: whole columns, groups of K, or blocks.

    Raises TypeError or ValueError naming the argument where it is no such array.
    """

    def spans(call: Any) -> tuple[int, int]:
        operand: Operand | None = getattr(call, name)
        if operand is None:
            return 0, 0
        matrices: Operand | None = getattr(call, of)
        if matrices is None:
            raise ValueError(f"{name}: expected None without {of}, got an array")
        is_zero = name.startswith("zero")
        _check_type(call, operand, matrices, is_zero)
        groups, _, columns = matrices.shape
        if len(operand.shape) == len(matrices.shape) - 1:
            if any(map(differ, operand.shape, (groups, columns))):
                raise _unfit(name, operand, matrices)
            return 0, 1
        if len(operand.shape) != len(matrices.shape) or differ(operand.shape[0], groups):
            raise _unfit(name, operand, matrices)
        is_weight = is_widened(call.a.dtype, matrices.dtype)
        try:
            found = scale_of(
                operand.value, name, matrices, (groups,), 0, (operand.dtype,),
                GROUPS if is_weight else (BLOCK,),
            )  # fmt: skip
        except ValueError:
            raise _unfit(name, operand, matrices) from None
        pairs = zip(found.spans, operand.shape[1:], matrices.shape[1:], strict=True)
        if any(span == 0 and not _is_one_block(*pair) for span, *pair in pairs):
            raise _unfit(name, operand, matrices)
        along, across = found.spans
        return along or BLOCK, across or BLOCK

    return spans


def _is_one_block(count: int | None, extent: int | None) -> bool:
    """Whether one entry is that of a block which holds a whole mode."""
    return count == 1 and extent is not None and extent <= BLOCK


def _check_type(call: Any, operand: Operand, matrices: Operand, is_zero: bool) -> None:
    """Refuse elements of another type than zeros or scales of matrices have."""
    name = operand.name
    if operand.dtype in (ue8m0, ue4m3) or operand.dtype.name == "e4m3":
        raise TypeError(
            f"{name}: expected f32, got {operand.dtype.name}; scales in panels are those of "
            "cute.grouped_gemm, cute.quantize(x, 'fp8_square') gives f32"
        )
    is_weight = is_widened(call.a.dtype, matrices.dtype)
    if is_zero and not is_weight:
        raise TypeError(
            f"{name}: expected None but for weights of 8 or 4 bits beside f16 or bf16, got an "
            f"array beside {matrices.dtype.name}; subtract it before"
        )
    types: tuple[DType, ...] = (f32, call.a.dtype) if is_weight else (f32,)
    types = (*WEIGHTS, i32, *types) if is_zero else types
    if operand.dtype not in types:
        names = ", ".join(dict.fromkeys(each.name for each in types))
        raise TypeError(f"{name}: expected {names}, got {operand.dtype.name}")


def _unfit(name: str, operand: Operand, matrices: Operand) -> ValueError:
    groups, k, columns = matrices.shape
    sizes = [shown((groups, None if k is None else -(-k // g), columns)) for g in GROUPS]
    blocks = (None if each is None else -(-each // BLOCK) for each in (k, columns))
    return ValueError(
        f"{name}: expected {shown((groups, columns))} for each column, {', '.join(sizes)} for "
        f"groups of {', '.join(map(str, GROUPS))} rows, or {shown((groups, *blocks))} for blocks "
        f"of {BLOCK}, got shape {shown(operand.shape)}"
    )


def _lacks_blocks(call: Any) -> bool:
    """Whether one operand of fp8 alone has scales of blocks."""
    return (call.scale_a is not None) != (
        call.a.dtype in EIGHT_BIT_FLOATS and call.scale_b is not None
        and len(call.scale_b.shape) == len(call.b.shape)
    )  # fmt: skip


def _of_rows(call: Any) -> None:
    """The extents of what scales rows."""
    k = call.extents["K"]
    call.extents["G"] = None if k is None else -(-k // BLOCK)


FITS = {
    "b.K": "(E, {want}, N) ({of} is {of_shape}), got {got} rows in shape {shape}",
    "E": "{want} groups as in {of}, got {got}",
    "N": "{want} columns as in {of}, got {got}",
}
RULES = (
    Array("a"),
    Array("b", of=_matrices("b")),
    *map(Array, ("offsets", "lengths", "rows")),
    *map(Fits, ("a", "b")),
    Rule("b", lambda x: x.b.dtype != x.a.dtype and not is_widened(x.a.dtype, x.b.dtype),
         lambda x: f"{x.a.dtype.name} as in a, or integers of 8 or 4 bits beside f16 and bf16, got "
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
    Array("gated", of=_matrices("gated"), matters=lambda x: x.given.gated is not None),
    Fits("gated"),
    Array("bias"),
    Fits("bias"),
    Rule("gated", lambda x: x.gated is not None and x.gated.dtype != x.b.dtype,
         lambda x: f"{x.b.dtype.name} as in b, got {x.gated.dtype.name}", TypeError),
    Fact("depth", _of_rows),
    Array("scale_a"),
    Fits("scale_a"),
    *map(Array, ("scale_b", "scale_gated")),
    *(Array(name, matters=lambda x, name=name: number_of(getattr(x.given, name)) is None)
      for name in ("zero_b", "zero_gated")),
    Rule("zero_b", lambda x: number_of(x.given.zero_b) and not is_widened(x.a.dtype, x.b.dtype),
         lambda x: f"None but for weights of 8 or 4 bits beside f16 or bf16, got a number beside "
         f"b of {x.b.dtype.name}; subtract it before", TypeError),
    Rule("zero_gated", lambda x: x.gated is None and number_of(x.given.zero_gated) is not None,
         lambda x: "None without gated, got a number"),
    *(Fact(f"{name}_spans", _beside(name, name.partition("_")[2]))
      for name in ("scale_b", "zero_b", "scale_gated", "zero_gated")),
    Rule("scale_gated", lambda x: x.gated is not None
         and (x.scale_b is None) != (x.scale_gated is None),
         lambda x: "scales of b and of gated, or of neither, got one of them"),
    Rule("scale_a", _lacks_blocks,
         lambda x: "blocks of rows of a beside blocks of b (E, ceil(K / 128), ceil(N / 128)) where "
         f"both are fp8, or neither, got a of {x.a.dtype.name} and scale_b of "
         f"{'None' if x.scale_b is None else shown(x.scale_b.shape)}"),
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
    Parameter("scale_a", kinds.OPTIONAL, None,
              "of e4m3 and e5m2 what multiplies blocks of a's rows (T, ceil(K / 128))",
              rank="2 dimensions (rows, blocks)", modes="T G", dtypes=("f32",), is_late=True),
    Parameter("scale_b", kinds.OPTIONAL, None,
              "what multiplies b: its columns (E, N), or groups or blocks of these (E, K / g, N)"),
    Parameter("zero_b", kinds.SCALE, None,
              "of weights b the number that stands for 0, one, or one for each column or group",
              key="zero", is_late=True),
    Parameter("scale_gated", kinds.OPTIONAL, None, "what multiplies gated, as scale_b",
              is_late=True),
    Parameter("zero_gated", kinds.SCALE, None, "what stands for 0 in gated, as zero_b",
              key="zero_of_gated", is_late=True),
    Parameter("packed_b", kinds.PACKING, None,
              "how integers hold the elements of b and gated: type, axis and order, as in 'u4 -2'",
              is_late=True),
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

    Elements are f16, bf16, f32 (as tf32), e4m3 or e5m2; beside f16 and bf16 of a, b and gated may
    have integers of 8 or 4 bits, `cute.packed` or `cute.pack`, as in `cute.gemm`: what is
    multiplied is (b - zero_b) scale_b. `zero_b` is a number, (E, N), or (E, ceil(K / g), N) of
    groups of g = 32, 64 or 128 rows of K, and `scale_b`, of f32 or a's type, is one of these
    arrays, or (E, ceil(K / 128), ceil(N / 128)). Of e4m3 and e5m2 such blocks of b are multiplied
    by blocks of the rows of a, `scale_a` (T, ceil(K / 128)), outside of the tensor cores;
    `cute.quantize` gives them as "fp8_square" and "fp8_block". `scale_gated` and `zero_gated` are
    those of gated. Formats whose scales lie in panels (mxfp8, nvfp4) are multiplied by
    `cute.grouped_gemm`.

    Default `out_dtype` is a's type, bf16 for fp8, and f32 for a scatter (R,), which also takes f16
    and bf16, added in that type. Products that are added in order are rounded to a's type first, of
    fp8 to the result's, in memory of the call.

    Offsets that fall, and numbers of rows that are not there, are refused where the arrays lie in
    memory of the host. Elsewhere they compute something else, without an access outside of the
    arrays: such a row is that of -1, and groups end with the rows that there are. Wrong arguments
    raise TypeError or ValueError naming the argument, and nothing is written. Returns `out`, or a
    new array where `a` lives.
    """,
    _OF_ROUTED,
    prepared="a, b, offsets, lengths, rows, scatter, weights, gated, bias, scale_a, scale_b, "
    "array_z, scale_gated, array_g, out",
    unwraps="""
if type(b) is Packed: b, packed_b = b.array, b.text
if type(gated) is Packed: gated = matrix_of(gated, packed_b)
""",
    before="""
zero, zero_of_gated = number_of(zero_b), number_of(zero_gated)
array_z = zero_b if zero is None else None
array_g = zero_gated if zero_of_gated is None else None
""",
    outputs=(Output("out", "S N"),),
    sizes=sizes,
    added="scatter",
    rules=RULES,
    fits=FITS,
    libraries=("torch",),
)
