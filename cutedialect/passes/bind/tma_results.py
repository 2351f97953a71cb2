"""Results that TMA stores: which tiles of a kernel go from registers to a tensor in boxes, and
which atomic additions of whole tiles it can do (`cp.reduce.async.bulk.tensor`).

    atomic "add", x, D   =>   copy x, D {reduce = "add"}   =>   copy x, sD; copy sD, D {tma_store}

`cute-partition` marks them as stores first, so that `result_stores.py` stages them like results;
one that turns out to have no tensor map becomes the atomic op again.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms.tensor_map import check_reduction
from cutedialect.dialects.cute import (
    AtomicOp,
    CopyOp,
    FragmentType,
    GemmOp,
    KernelOp,
    MemberOp,
    MemRefType,
)
from cutedialect.dialects.element_names import element_name
from cutedialect.dialects.walks import holds, ops_of
from cutedialect.passes.bind.tensor_maps import has_tensor_map, is_exception, tile_of_tensor
from cutedialect.passes.synchronize.memory_views import uses_of

_REDUCE = "reduce"


def results_by_tma(kernel: KernelOp) -> list[MemRefType]:
    """The tiles of global memory to which TMA can store the kernel's register tiles. Vectors go
    there from registers at once where products want the shared memory.
    """
    found: list[MemRefType] = []
    multiplies = holds(kernel, GemmOp)
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


def reduces_by_tma(op: AtomicOp) -> bool:
    """Whether TMA can add a tile to its tensor: as asynchronous as that is, nothing else in the
    kernel may read or write the tensor.
    """
    type_, tile = op.destination.type, tile_of_tensor(op.destination)
    if op.kind.data != "add" or tile is None:
        return False
    assert isinstance(type_, MemRefType)
    whole = tile.tensor.type
    assert isinstance(whole, MemRefType)
    try:
        check_reduction("add", element_name(type_.element))
    except (ValueError, VerifyException):
        return False
    made = tile.tensor.owner
    root = made.group if isinstance(made, MemberOp) else tile.tensor
    is_alone = [use.operation for use in uses_of(root)] == [op]
    return type_.rank == 2 and has_tensor_map(whole) and is_alone


def as_store(op: AtomicOp) -> CopyOp:
    """The op as a store that adds."""
    store = CopyOp(op.source, op.destination)
    store.attributes[_REDUCE] = op.kind
    return store


def reduction_of(op: CopyOp) -> str | None:
    """How a store combines with what is there, or None."""
    kind = op.attributes.get(_REDUCE)
    return kind.data if isinstance(kind, StringAttr) else None
