"""`cp.async` from global to shared memory: exact at ragged edges by the instruction's source size,
which zero-fills the rest of the vector.
"""

from __future__ import annotations

from xdsl.ir import Operation

from cutedialect.dialects import ptx
from cutedialect.dialects.cute_nvgpu import SimtAsyncCopyType
from cutedialect.layout import Layout

from .context import Context, fail
from .scalar_builder import Scalar
from .tile_access import TileAccess
from .tile_parts import in_parts
from .views import View

# Copies of a thread whose addresses it computes together.
_AT_ONCE = 16


def copy_async(
    context: Context,
    op: Operation,
    source: View,
    target: View,
    tv: Layout,
    atom: SimtAsyncCopyType,
    predicate: Scalar,
) -> None:
    """Copy a tile; nothing where `predicate` (the same for all threads) is false."""
    count = atom.bits // source.bits

    def part(source: View, target: View, tv: Layout) -> None:
        _copy_part(context, op, source, target, tv, atom, predicate)

    in_parts(context, source, target, tv, _AT_ONCE * count, part)


def _copy_part(
    context: Context,
    op: Operation,
    source: View,
    target: View,
    tv: Layout,
    atom: SimtAsyncCopyType,
    predicate: Scalar,
) -> None:
    builder = context.builder
    size = atom.bits // 8
    count = atom.bits // source.bits
    reads = TileAccess(context, source, tv, count, size)
    writes = TileAccess(context, target, tv, count, size)
    for side, access in (("source", reads), ("destination", writes)):
        if access.unit != count:
            raise fail(
                op,
                f"expected {count} values in a row of the {side} to lie together and be aligned "
                f"to {size} bytes for cp.async of {size} bytes, got {access.unit} with {tv}; "
                f"choose a narrower atom or another thread-value layout",
            )
    firsts = range(0, len(reads.offsets), count)
    from_ = reads.addresses([reads.offsets[v] for v in firsts])
    to = writes.addresses([writes.offsets[v] for v in firsts])
    sizes = [_valid_bytes(reads, v, count, size) for v in firsts]
    guard = builder.both(predicate, reads.owner())
    source_bases, source_base = context.table_of([each.base for each in from_], "b64")
    target_bases, target_base = context.table_of([each.base for each in to], "b32")
    size_values, size_index = [], None
    if any(each != size for each in sizes):
        size_values, size_index = context.table_of(sizes, "b32")
    guards, guard_index = context.guards([guard] * len(sizes))
    cache = "cg" if atom.cache == "global" else "ca"
    builder.emit(
        ptx.CpAsyncOp(
            f"{cache}.shared.global",
            size,
            target_bases,
            list(zip(target_base, [each.immediate for each in to], strict=True)),
            source_bases,
            list(zip(source_base, [each.immediate for each in from_], strict=True)),
            size_values,
            size_index,
            guards,
            guard_index,
        )
    )


def _valid_bytes(access: TileAccess, first: int, count: int, size: int) -> Scalar:
    """Bytes of the vector that lie inside the tensor."""
    builder = access.context.builder
    result: Scalar = size
    tests: list[Scalar] = [access.view.guard] if access.view.guard is not True else []
    for mode in access.bounded:
        leaf = access.leaf_of(mode)
        coords = [access.coords[first + i][leaf] for i in range(count)]
        low, high = min(coords), max(coords)
        if access.never_straddles(low, high, mode):
            tests.append(access.within(mode, low))
            continue
        left = builder.pure("add.s32", access.remaining(mode), -low)
        left = builder.pure("min.s32", builder.pure("max.s32", left, 0), high - low + 1)
        result = builder.pure("mul.lo.s32", left, size // (high - low + 1))
    for test in sorted(tests, key=builder.level_of):
        result = builder.pure("selp.b32", result, 0, test)
    return result
