"""Groups of a launch: tables in global memory in which a kernel looks up tensors, tensor maps and
numbers. Their bytes depend on the arguments alone, so all tables of a call are one upload, which a
repeated call does not do again.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from cutedialect.backend.runtime.tensor_maps import emulated, encoded

# The largest alignment that an entry asks for, that of a tensor map in the driver's buffers.
ALIGNMENT = 128
# What a tile costs besides its steps, in elements of the extent that its steps cover.
_TILE_ENDS = 128


class Table(NamedTuple):
    """A group that a launch passes. `kind` "ptr": tensors, each as (pointer, dynamic strides,
    dynamic extents); "tensor_map": TensorMapArguments; "i32": integers. The bytes of an entry are
    those of `cute.GroupType`.
    """

    kind: str
    entries: tuple[Any, ...]


def tile_offsets(
    tensors: Sequence[Any], tile: tuple[int, ...], cluster: tuple[int, int]
) -> tuple[int, ...]:
    """How many blocks of tiles lie in front of each tensor `(pointer, shape, strides)`, and how
    many there are: `cute.tile_offsets`. Raises ValueError from 2**31 blocks on.
    """
    blocks = ((1,) * len(tile) + cluster)[-len(tile) :] if len(tile) > 1 else (1,)
    offsets = [0]
    for _, shape, _ in tensors:
        count = 1
        for extent, step, ctas in zip(shape, tile, blocks, strict=True):
            tiles = 1 if step < 0 else -(-extent // step)
            count *= -(-tiles // ctas)
        offsets.append(offsets[-1] + count)
    if offsets[-1] >= 1 << 31:
        raise ValueError(f"expected fewer than 2**31 tiles in a group, got {offsets[-1]}")
    return tuple(offsets)


def tile_shares(
    offsets: Sequence[int], tensors: Sequence[Any], mode: int, takers: int
) -> tuple[int, ...]:
    """Which tiles each of `takers` computes: `cute.tile_shares`. Tensor by tensor, a tile goes to
    whoever would begin it first; neighbors in the walk begin at about the same time.
    """
    return _shares(tuple(offsets), tuple(shape[mode] for _, shape, _ in tensors), max(1, takers))


@lru_cache(maxsize=256)
def _shares(offsets: tuple[int, ...], extents: tuple[int, ...], takers: int) -> tuple[int, ...]:
    busy = np.zeros(takers, np.int64)
    owners = np.empty(offsets[-1], np.int64)
    for first, end, extent in zip(offsets[:-1], offsets[1:], extents, strict=True):
        count, cost = end - first, extent + _TILE_ENDS
        if count == 0:
            continue
        # Whoever is free first gets at most this many more than the others.
        rounds = count // takers + int(busy.max() - busy.min()) // cost + 2
        begins = busy[:, None] + cost * np.arange(min(rounds, count))
        taken = np.argsort(begins, axis=None, kind="stable")[:count] // begins.shape[1]
        owners[first:end] = taken
        busy += cost * np.bincount(taken, minlength=takers)
    ends = takers + 1 + np.cumsum(np.bincount(owners, minlength=takers))
    numbers = np.argsort(owners, kind="stable")
    return (takers + 1, *ends.tolist(), *numbers.tolist())


def packed(table: Table) -> bytes:
    """A table as the kernel reads it on a device."""
    if table.kind == "tensor_map":
        return b"".join([encoded(entry).tobytes() for entry in table.entries])
    if table.kind == "i32":
        return np.array(table.entries, np.int32).tobytes()
    layout = _layout(table)
    return b"".join(
        [layout.pack(pointer, *strides, *extents) for pointer, strides, extents in table.entries]
    )


def joined(tables: Sequence[Table]) -> tuple[bytes, tuple[int, ...]]:
    """All tables of a call in one piece, and where in it each begins."""
    parts: list[bytes] = []
    starts: list[int] = []
    size = 0
    for table in tables:
        data = packed(table)
        data += bytes(-len(data) % ALIGNMENT)
        starts.append(size)
        parts.append(data)
        size += len(data)
    return b"".join(parts), tuple(starts)


def emulated_table(table: Table) -> Any:
    """A table as the emulator takes it: it puts the addresses of arrays in itself."""
    if table.kind == "tensor_map":
        return [emulated(entry) for entry in table.entries]
    if table.kind == "i32":
        return np.array(table.entries, np.int32)
    layout = _layout(table)
    data = b"".join([layout.pack(0, *strides, *extents) for _, strides, extents in table.entries])
    pointers = [(layout.size * i, entry[0]) for i, entry in enumerate(table.entries)]
    return {"bytes": np.frombuffer(data, np.uint8), "pointers": pointers}


def _layout(table: Table) -> struct.Struct:
    """An entry of a table of tensors, filled up to a multiple of 8 bytes."""
    _, strides, extents = table.entries[0] if table.entries else (0, (), ())
    return struct.Struct(f"<Q{len(strides)}q{len(extents)}i{len(extents) % 2 * 4}x")
