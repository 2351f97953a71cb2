"""Rules of ops on the lines of register tiles: scans, sorts, elements by their places."""

from __future__ import annotations

from typing import Any

import numpy as np
from xdsl.ir import SSAValue

from cutedialect.dialects import cute

from .cta import Cta, Fragment, slots
from .elements import dtype_of, rounded
from .rules import Code, Step, function, rule


@rule(cute.ScanOp)
def _scan(op: cute.ScanOp) -> Step:
    sources, results, initial = slots(op.tiles), slots(op.scanned), slots(op.initial)
    mode, block = op.mode.value.data, op.body.block
    shape = cute.shape_of(op.tiles[0].type)
    dtypes = [_dtype(tile) for tile in op.tiles]
    wide = [dtype_of(arg.type) for arg in block.args[: len(dtypes)]]
    args, code = slots(block.args), Code(block)
    assert block.last_op is not None
    values = slots(block.last_op.operands)
    order = range(shape[mode])[:: -1 if op.reverse is not None else 1]
    line = tuple(1 if d == mode else extent for d, extent in enumerate(shape))

    def step(cta: Cta) -> None:
        arrays = [
            cta.values[source].array.astype(w) for source, w in zip(sources, wide, strict=True)
        ]
        made = [np.empty(shape, w) for w in wide]
        total: list[Any] = []
        for number, at in enumerate(order):
            mine = [np.broadcast_to(a, shape).take([at], axis=mode) for a in arrays]
            if initial:
                before = total if number else [cta.values[value] for value in initial]
                _write(made, before, mode, at)
            if number:
                cta.values.update(zip(args, (*total, *mine), strict=True))
                code.finish(cta)
                mine = [np.broadcast_to(np.asarray(cta.values[value]), line) for value in values]
            total = mine
            if not initial:
                _write(made, total, mode, at)
        for result, array, dtype in zip(results, made, dtypes, strict=True):
            cta.values[result] = Fragment(rounded(array, dtype), shape)

    return step


def _write(arrays: list[Any], values: list[Any], mode: int, at: int) -> None:
    """Write an element of each line."""
    for array, value in zip(arrays, values, strict=True):
        region = [slice(None)] * array.ndim
        region[mode] = slice(at, at + 1)
        array[tuple(region)] = value


@rule(cute.SortOp)
def _sort(op: cute.SortOp) -> Step:
    sources, results, mode = slots(op.tiles), slots(op.ordered), op.mode.value.data
    shape = cute.shape_of(op.tiles[0].type)

    def step(cta: Cta) -> None:
        arrays = [np.broadcast_to(cta.values[source].array, shape) for source in sources]
        order = np.lexsort(arrays[::-1], axis=mode)
        for result, array in zip(results, arrays, strict=True):
            cta.values[result] = Fragment(np.take_along_axis(array, order, mode), shape)

    return step


@function(cute.TakeOp)
def _take(op: cute.TakeOp) -> Any:
    whole, shape = cute.shape_of(op.source.type), cute.shape_of(op.result.type)
    mode, extent = None if op.mode is None else op.mode.value.data, op.places

    def made(tile: Fragment, numbers: Fragment) -> Fragment:
        places, is_there = _places(numbers, shape, whole, mode, extent)
        array = np.broadcast_to(tile.array, whole)[places]
        return Fragment(np.where(is_there, array, array.dtype.type(0)), shape)

    return made


@function(cute.PutOp)
def _put(op: cute.PutOp) -> Any:
    whole, shape = cute.shape_of(op.source.type), cute.shape_of(op.indices.type)
    mode, adds = None if op.mode is None else op.mode.value.data, op.kind is not None
    extent = int(np.prod(whole)) if mode is None else whole[mode]

    def made(tile: Fragment, numbers: Fragment, values: Fragment) -> Fragment:
        array = np.broadcast_to(tile.array, whole).copy()
        places, is_there = _places(numbers, shape, whole, mode, extent)
        chosen = tuple(place[is_there] for place in places)
        given = np.broadcast_to(values.array, shape)[is_there]
        if adds:
            np.add.at(array, chosen, given)
        else:
            array[chosen] = given
        return Fragment(array, whole)

    return made


def _places(
    numbers: Fragment,
    shape: tuple[int, ...],
    whole: tuple[int, ...],
    mode: int | None,
    extent: int,
) -> tuple[tuple[Any, ...], Any]:
    """The coordinates in a tile that numbers mean, and which of them are there."""
    found = np.broadcast_to(np.asarray(numbers.array, np.int64), shape)
    is_there = (found >= 0) & (found < extent)
    inside = np.where(is_there, found, 0)
    if mode is None:
        return np.unravel_index(inside, whole), is_there
    coords = list(np.indices(shape))
    coords[mode] = inside
    return tuple(coords), is_there


def _dtype(value: SSAValue) -> np.dtype[Any]:
    return dtype_of(cute.element_of(value.type))
