"""The caller's arrays: which of them lie in the same memory, and copies that do so again."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np


def share_memory(args: Sequence[Any]) -> bool:
    """Whether some of the arrays may lie in the same memory."""
    spans = sorted(_span(array) for array in _arrays(args))
    return any(low < end for (_, end), (low, _) in pairwise(spans))


def copies(args: Sequence[Any]) -> list[Any]:
    """Arguments of their own: arrays keep their order in memory, and those that share memory do so
    in their copies.
    """
    blocks: list[tuple[int, int]] = []
    for low, end in sorted(_span(array) for array in _arrays(args)):
        if blocks and low < blocks[-1][1]:
            blocks[-1] = blocks[-1][0], max(end, blocks[-1][1])
        else:
            blocks.append((low, end))
    starts = [_span(array)[0] for array in _arrays(args)]
    shared: dict[tuple[int, int], np.ndarray] = {}

    def copy(value: Any) -> Any:
        if isinstance(value, list | tuple):
            return [copy(each) for each in value]
        if not isinstance(value, np.ndarray) or value.size == 0:
            return value
        block = next((low, end) for low, end in blocks if low <= _span(value)[0] < end)
        if sum(block[0] <= start < block[1] for start in starts) == 1:
            return _alone(value)
        if block not in shared:
            memory = (ctypes.c_uint8 * (block[1] - block[0])).from_address(block[0])
            shared[block] = np.array(memory, np.uint8)
        first = value.ctypes.data - block[0]
        return np.ndarray(value.shape, value.dtype, shared[block], first, value.strides)

    return [copy(arg) for arg in args]


def _alone(array: np.ndarray) -> np.ndarray:
    """A copy without gaps, its modes in the order of their strides; those of 0 become real ones."""
    order = np.argsort([-abs(stride) for stride in array.strides], kind="stable")
    return array.transpose(order).copy().transpose(np.argsort(order))


def _arrays(args: Sequence[Any]) -> list[np.ndarray]:
    flat = [each for arg in args for each in (arg if isinstance(arg, list | tuple) else [arg])]
    return [each for each in flat if isinstance(each, np.ndarray) and each.size]


def _span(array: np.ndarray) -> tuple[int, int]:
    """The addresses of the first byte and behind the last one."""
    reaches = [(e - 1) * s for e, s in zip(array.shape, array.strides, strict=True)]
    low = array.ctypes.data + sum(reach for reach in reaches if reach < 0)
    end = array.ctypes.data + sum(reach for reach in reaches if reach > 0) + array.itemsize
    return low, end
