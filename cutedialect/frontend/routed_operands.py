"""The operands of `cute.routed_gemm`: their types and extents, and what has to hold for all of
them, the rows of its declaration.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
