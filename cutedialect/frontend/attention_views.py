"""Views of the arrays of `cute.attention` as its tile program takes them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutedialect.backend.runtime.arrays import tensor_argument

from .gemm_operands import expanded, viewable
from .kernel import TensorSpec


def split_heads(value: Any, heads: int) -> Any:
    """(B, H, ...) as (B, heads, H / heads, ...): a view."""
    value = viewable(value)
    shape = tuple(value.shape)
    group = None if shape[1] is None else shape[1] // heads
    split = (shape[0], heads, group, *shape[2:])
    if isinstance(value, TensorSpec):
        strides, align = _strides(value), value.align
        if strides[1] == 1:
            bytes_ = (group or 1) * value.dtype.bits // 8
            align = min(align, bytes_ & -bytes_) or align
        return TensorSpec(split, value.dtype, (strides[0], None, strides[1], *strides[2:]), align)
    return value.reshape(split)


def heads_as_rows(value: Any, heads: int) -> Any:
    """(B, H, S, ...) as (B, heads, H / heads * S, ...): a view in which the rows of heads that
    share keys are those of one, head by head.
    """
    value = viewable(value)
    shape = tuple(value.shape)
    count = None if None in shape[1:3] else shape[1] // heads * shape[2]
    rows = (shape[0], heads, count, *shape[3:])
    if isinstance(value, TensorSpec):
        strides = _strides(value)
        step = strides[1] if shape[2] == 1 else strides[2]
        return TensorSpec(rows, value.dtype, (strides[0], None, step, *strides[3:]), value.align)
    return value.reshape(rows)


def follow_each_other(value: Any, heads: int) -> bool:
    """Whether an array (B, H, S, ...) can be seen as `heads_as_rows`: the rows of a head follow
    those of the head before, or there is one row or one head.
    """
    value = viewable(value)
    shape = tuple(value.shape)
    if shape[1] == heads or shape[2] == 1:
        return True
    if isinstance(value, TensorSpec):
        strides = value.strides
        return strides is None or (
            None not in strides[1:3] and strides[1] == shape[2] * (strides[2] or 0)
        )
    array = tensor_argument(value)
    return array is not None and array.strides[1] == shape[2] * array.strides[2]


def share_heads(value: Any, group: int) -> Any:
    """(B, Hk, ...) as (B, Hk, group, ...) with stride 0 along the group: a view."""
    value = viewable(value)
    shape = tuple(value.shape)
    wide = (*shape[:2], group, *shape[2:])
    if isinstance(value, TensorSpec):
        strides = _strides(value)
        return TensorSpec(wide, value.dtype, (*strides[:2], None, *strides[2:]), value.align)
    return expanded(value.reshape(*shape[:2], 1, *shape[2:]), wide)


def work_items(value: Any, shape: Sequence[int | None]) -> Any:
    """A view of any shape on the first element of an array: only its extents are looked at."""
    if isinstance(value, TensorSpec):
        return TensorSpec(shape, value.dtype, (None,) * len(shape), 4)
    return expanded(viewable(value)[:1].reshape((1,) * len(shape)), shape)


def _strides(spec: TensorSpec) -> tuple[int | None, ...]:
    return spec.strides or (None,) * (len(spec.shape) - 1) + (1,)
