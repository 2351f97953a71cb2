"""Bulk copies of contiguous tiles: one instruction each (`cp.async.bulk`, PTX ISA 9.7.9.25.4)."""

from __future__ import annotations

from dataclasses import replace

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import ptx
from cutedialect.dialects.cute_nvgpu import BulkLoadType, BulkStoreType
from cutedialect.layout import product

from .addresses import Address, Offset, global_addresses
from .context import Context, fail
from .tensor_copies import l2_policy, tile_address
from .views import View

_GRANULE = 16


def bulk_load(
    context: Context,
    op: Operation,
    source: View,
    target: View,
    atom: BulkLoadType,
    barrier: tuple[SSAValue, int],
) -> None:
    """Start the load of a tile that lies in its tensor; `barrier` counts its bytes."""
    builder = context.builder
    address, immediate = tile_address(builder, target)
    start = _global_start(context, op, source)
    builder.emit(
        ptx.BulkLoadOp(
            builder.value(address, "b32"),
            builder.value(start.base, "b64"),
            _bytes(target),
            barrier[0],
            dst_offset=immediate,
            src_offset=start.immediate,
            barrier_offset=barrier[1],
            policy=l2_policy(builder, atom.cache),
        )
    )


def bulk_store(
    context: Context, op: Operation, source: View, target: View, atom: BulkStoreType
) -> None:
    """Start the store of a tile that lies in its tensor, as part of a bulk group."""
    builder = context.builder
    address, immediate = tile_address(builder, source)
    start = _global_start(context, op, target)
    builder.emit(
        ptx.BulkStoreOp(
            builder.value(start.base, "b64"),
            builder.value(address, "b32"),
            _bytes(source),
            dst_offset=start.immediate,
            src_offset=immediate,
            reduce=atom.operation,
            policy=l2_policy(builder, atom.cache),
        )
    )


def _bytes(view: View) -> int:
    size = product(view.shape)
    assert isinstance(size, int)
    return size * view.element_bytes


def _global_start(context: Context, op: Operation, view: View) -> Address:
    """The address of a tile in global memory; nothing of it may be outside of the tensor."""
    for extent, bound in zip(view.shape, view.bounds, strict=True):
        is_inside = view.guard is True and (bound is None or bound.floor is None)
        if not is_inside or (bound is not None and bound.divisor % extent):
            raise fail(
                op,
                f"expected a tile that lies in its tensor (bulk copies do not clip; extents that "
                f"are multiples of {extent} are written ?{{div={extent}}}), got one that may hang "
                "over an edge",
            )
    for term in view.terms:
        if term.divisor * view.element_bytes % _GRANULE:
            raise fail(
                op,
                f"expected a tile that starts at a multiple of {_GRANULE} bytes, got one at "
                f"multiples of {term.divisor * view.element_bytes}",
            )
    first = replace(view, modes=(), bounds=())
    return global_addresses(context.builder, first, (), [Offset((), 0)], 1)[0]
