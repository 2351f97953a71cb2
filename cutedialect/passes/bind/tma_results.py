"""Results that TMA stores: which tiles of a kernel go from registers to a tensor in boxes."""

from __future__ import annotations

from collections.abc import Sequence

from cutedialect.dialects.cute import (
    AtomicOp,
    CopyOp,
    FragmentType,
    GemmOp,
    KernelOp,
    MemRefType,
)
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.bind.tensor_maps import has_tensor_map, is_exception, tile_of_tensor
from cutedialect.passes.bind.tensor_reductions import reduces_by_tma


def results_by_tma(kernel: KernelOp) -> list[MemRefType]:
    """The tiles of global memory to which TMA can store the kernel's register tiles. Vectors go
    there from registers at once where products want the shared memory.
    """
    found: list[MemRefType] = []
    multiplies = bool(ops_of(kernel, GemmOp))
    for op in ops_of(kernel, AtomicOp, CopyOp):
        adds = isinstance(op, AtomicOp) and reduces_by_tma(op)
        if adds or (isinstance(op, CopyOp) and isinstance(op.source.type, FragmentType)):
            type_, tile = op.destination.type, tile_of_tensor(op.destination)
            if isinstance(type_, MemRefType) and type_.rank == 2 and tile is not None:
                if (multiplies and 1 in type_.shape) or is_exception(op):
                    continue
                tensor = tile.tensor.type
                assert isinstance(tensor, MemRefType)
                if has_tensor_map(tensor):
                    found.append(type_)
    return found


def bits_of_results(results: Sequence[MemRefType], shape: tuple[object, ...]) -> list[int]:
    """Bits of an element of those results that have this shape: they share lines."""
    return [type_.bits for type_ in results if type_.shape == shape]
