"""Arguments for a program that has none: arrays of drawn elements, for the types that it takes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
from xdsl.ir import Attribute

from cutedialect.dialects import cute
from cutedialect.layout import Dyn, flatten

from .elements import dtype_of, is_float, to_float

Kind = Literal["integers", "floats"]
# Run-time extents: the last two modes are those of tiles, the ones in front count batches.
_EXTENT, _BATCH = 64, 2
_MEMBERS = 2


def draw(
    arguments: Sequence[Any],
    seed: int,
    kind: Kind = "integers",
    shapes: Mapping[str, Sequence[int]] | None = None,
) -> list[Any]:
    """A value for each block argument, the same for the same seed: whole numbers in -2..2, of which
    sums are exact, or normally distributed floats. Integer tensors and scalars are 0 and 1, which
    are indices wherever there are two of something. `shapes` gives those of arguments by name hint;
    other run-time extents are 64, and 2 in front of the last two modes.
    """
    rng = np.random.default_rng(seed)
    shapes = shapes or {}
    return [_drawn(each.type, rng, kind, shapes.get(each.name_hint or "")) for each in arguments]


def _drawn(
    type_: Attribute, rng: np.random.Generator, kind: Kind, shape: Sequence[int] | None
) -> Any:
    if isinstance(type_, cute.GroupType):
        return [_drawn(type_.member, rng, kind, shape) for _ in range(_MEMBERS)]
    if isinstance(type_, cute.MemRefType):
        return _tensor(type_, rng, kind, shape)
    dtype = dtype_of(type_)
    if is_float(type_):
        return to_float(rng.integers(1, 3) if kind == "integers" else rng.uniform(0.5, 1), dtype)[
            ()
        ]
    return dtype.type(rng.integers(0, 2))


def _tensor(
    type_: cute.MemRefType, rng: np.random.Generator, kind: Kind, shape: Sequence[int] | None
) -> np.ndarray:
    """A tensor with the strides that its type fixes: the mode of stride 1 is contiguous."""
    leaves, strides = flatten(type_.layout.shape), flatten(type_.layout.stride)
    if shape is None:
        ranks = range(len(leaves), 0, -1)
        defaults = [_BATCH if rank > 2 else _EXTENT for rank in ranks]
        pairs = zip(leaves, defaults, strict=True)
        shape = [extent if isinstance(leaf, Dyn) else leaf for leaf, extent in pairs]
    if len(shape) != len(leaves):
        raise ValueError(f"expected {len(leaves)} extents for {type_.layout}, got {tuple(shape)}")
    values: Any
    if not is_float(type_.element):
        values = rng.integers(0, 2, shape).astype(dtype_of(type_.element))
    else:
        drawn = rng.integers(-2, 3, shape) if kind == "integers" else rng.standard_normal(shape)
        values = to_float(drawn, dtype_of(type_.element))
    # The fastest mode last in memory, then the modes as they come.
    order = sorted(range(len(shape)), key=lambda mode: strides[mode] == 1)
    result = np.empty([shape[mode] for mode in order], values.dtype)
    result = result.transpose(np.argsort(order))
    result[...] = values
    return result
