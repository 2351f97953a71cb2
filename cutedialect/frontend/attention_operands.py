"""What the arrays of `cute.attention` have to be: elements, shapes, and how they fit each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from .dtypes import bf16, e4m3, e5m2, f16, i32, i64
from .gemm_operands import Operand, as_operand, shown
from .kernel import TensorSpec

_ELEMENTS = (f16, bf16, e4m3, e5m2)
# Head dimensions of 8 bits, and of 16 bits, of q and k and of v.
_MOST_DIMS, _WIDEST = 256, {"q": 576, "k": 576, "v": 512}
# Rows that the swizzles of shared memory repeat in: pages are copied one by one.
_LEAST_PAGE = 8


def check_operands(q: Operand, k: Operand, v: Operand, table: Operand | None) -> None:
    """Refuse arrays that do not fit each other; with a table of pages k and v are
    (pages, heads, page size, head dimension).
    """
    for each in (q, k, v):
        if len(each.shape) != 4:
            raise ValueError(
                f"{each.name}: expected 4 dimensions (batch, heads, sequence, head dimension), "
                f"got shape {shown(each.shape)}"
            )
        if each.dtype not in _ELEMENTS:
            raise TypeError(f"{each.name}: expected f16, bf16, e4m3 or e5m2, got {each.dtype.name}")
        first = k if each is v and q.dtype.bits > 8 else q
        is_narrow = each is k and each.dtype.bits < q.dtype.bits
        if each.dtype != first.dtype and not is_narrow:
            raise TypeError(
                f"{each.name}: expected {first.dtype.name} as in {first.name}, got "
                f"{each.dtype.name}"
            )
        depth = each.shape[-1]
        most = _WIDEST[each.name] if min(q.dtype.bits, k.dtype.bits) == 16 else _MOST_DIMS
        if depth is None or not 1 <= depth <= most:
            raise ValueError(f"{each.name}: expected a head dimension of 1 to {most}, got {depth}")
        if last_stride(each) not in (1, None) and depth > 1 and 0 not in each.shape:
            raise ValueError(
                f"{each.name}: expected a contiguous last dimension, got stride {last_stride(each)}"
            )
    _check_shapes(q.shape, k.shape, v.shape, table)


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


def first_columns(k: Operand, count: int) -> Operand:
    """Values that are so many columns of k."""
    depth = k.shape[-1] if k.shape else None
    if depth is not None and not 0 < count <= depth:
        raise ValueError(f"v: expected a number of columns of k from 1 to {depth}, got {count}")
    array = None if k.array is None else k.array._replace(shape=(*k.shape[:-1], count))
    return replace(k, name="v", shape=(*k.shape[:-1], count), array=array)


def _check_shapes(
    q: Sequence[int | None], k: Sequence[int | None], v: Sequence[int | None], table: Operand | None
) -> None:
    if differ(k[-1], q[-1]):
        raise ValueError(f"k: expected head dimension {q[-1]} as in q, got {k[-1]}")
    for each, name in ((k, "k"), (v, "v")):
        if table is None and differ(each[0], q[0]):
            raise ValueError(f"{name}: expected batch {q[0]} as in q, got {each[0]}")
    modes = ((1, "heads"), (2, "keys")) if table is None else ((0, "pages"), (1, "heads"))
    for mode, what in modes:
        if differ(v[mode], k[mode]):
            raise ValueError(f"v: expected {k[mode]} {what} as in k, got {v[mode]}")
    if q[1] is None or k[1] is None:
        raise ValueError("q: expected a known number of heads in q and k, got None")
    if q[1] and (k[1] == 0 or q[1] % k[1]):
        raise ValueError(f"k: expected a number of heads that divides the {q[1]} of q, got {k[1]}")


def page_table(value: Any, q: Operand, k: Operand, v: Operand) -> Operand:
    """The table of the pages of k and v (batch, pages)."""
    table = as_operand(value, "block_table")
    if len(table.shape) != 2:
        raise ValueError(f"block_table: expected (batch, pages), got shape {shown(table.shape)}")
    if table.shape[1] == 0:
        raise ValueError(f"block_table: expected a page or more, got shape {shown(table.shape)}")
    if table.dtype not in (i32, i64):
        raise TypeError(f"block_table: expected i32 or i64, got {table.dtype.name}")
    if differ(table.shape[0], q.shape[0]):
        raise ValueError(f"block_table: expected batch {q.shape[0]} as in q, got {table.shape[0]}")
    for each in (k, v):
        size = each.shape[2] if len(each.shape) == 4 else 0
        if size is None or size < _LEAST_PAGE or size & (size - 1):
            raise ValueError(
                f"{each.name}: expected (pages, heads, page size, head dimension) with a page size "
                f"that is a power of two from {_LEAST_PAGE} on, got shape {shown(each.shape)}"
            )
    if k.shape[2] != v.shape[2]:
        raise ValueError(f"v: expected pages of {k.shape[2]} keys as in k, got {v.shape[2]}")
    return table


def integers(name: str, value: object) -> Operand:
    """A vector of i32 or i64."""
    operand = as_operand(value, name)
    if len(operand.shape) != 1:
        raise ValueError(f"{name}: expected one dimension, got shape {shown(operand.shape)}")
    if operand.dtype not in (i32, i64):
        raise TypeError(f"{name}: expected i32 or i64, got {operand.dtype.name}")
    return operand


def check_extent(name: str, operand: Operand, extent: int | None) -> None:
    """Refuse a vector that is known to have another extent."""
    if differ(operand.shape[0], extent):
        numbers = "1 number" if extent == 1 else f"{extent} numbers"
        raise ValueError(f"{name}: expected {numbers}, got {operand.shape[0]}")


def differ(one: int | None, other: int | None) -> bool:
    """Whether two extents that may be unknown are known to differ."""
    return None not in (one, other) and one != other


def last_stride(operand: Operand) -> int | None:
    """The stride of the last dimension, None where it is not known."""
    if operand.array is not None:
        return operand.array.strides[-1]
    strides: Sequence[int | None] | None = operand.value.strides
    return 1 if strides is None else strides[-1]
