"""Copies from memory to memory, which `tv` divides among threads: by `cp.async`, exact at ragged
edges by its source size, which zero-fills the rest of a vector, or through registers where that
takes not the alignment. What is outside of the source's tensor becomes 0. A large tile is a loop
over equal parts, so that a thread holds few addresses and values at a time; of a part all values
are read before the first one is written, so that many loads are on their way together.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from itertools import product

from xdsl.ir import Block

from cutedialect.dialects import ptx
from cutedialect.dialects.cute import FragmentType, transposed_tv
from cutedialect.dialects.cute_nvgpu import SimtAsyncCopyType
from cutedialect.layout import Layout
from cutedialect.passes.analysis.thread_layouts import columns_of

from .addresses import Address, start_copies
from .context import Context, pack_factor, register_class, register_count
from .copies import Transfer, load_tile, store_tile
from .scalar_builder import Scalar
from .tile_access import TileAccess, parts_of
from .views import Tile, View, local_tile

# A mode, and how many elements along it no part of a copy cuts.
Whole = tuple[int, int]
# Asynchronous copies of a thread whose addresses it computes together.
_STARTED = 16
# Values of a thread that are read before they are written: as many as leave registers for their
# addresses, and of bytes, each a register too, half of that.
_AT_ONCE = 32
_BYTE = 8


def copy_async(
    context: Context,
    source: Tile,
    target: View,
    tv: Layout,
    atom: SimtAsyncCopyType,
    predicate: Scalar,
) -> None:
    """Start the copies of a tile; none where `predicate` (the same for all threads) is false. Of a
    numbered row that the tensor does not have nothing is read, and its place becomes 0.
    """
    size = atom.bits // 8
    count = atom.bits // source.bits
    cache = "cg" if atom.cache == "global" else "ca"
    copies: Iterable[tuple[Tile, View, Layout]] = [(source, target, tv)]
    if isinstance(source, View):
        copies = in_parts(context, source, target, tv, _STARTED * count)
    for read, written, part in copies:
        writes = TileAccess(context, written, part, count, size)
        from_, to, sizes = list[Address](), list[Address](), list[Scalar]()
        parts = parts_of(context, read, part, count, size)
        for reads, held in parts:
            for name, access in (("source", reads), ("destination", writes)):
                if access.unit != count:
                    raise ValueError(
                        f"expected {count} values in a row of the {name} to lie together and be "
                        f"aligned to {size} bytes for cp.async of {size} bytes, got {access.unit} "
                        f"with {part}; choose a narrower atom or another thread-value layout",
                    )
            firsts = range(0, len(held), count)
            from_ += reads.addresses([reads.offsets[v] for v in firsts])
            to += writes.addresses([writes.offsets[held[v]] for v in firsts])
            sizes += [valid_bytes(reads, v, count, size) for v in firsts]
        guard = context.builder.both(predicate, parts[0][0].owner())
        start_copies(context, cache, size, to, from_, sizes, [guard] * len(sizes))


def valid_bytes(access: TileAccess, first: int, count: int, size: int) -> Scalar:
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


def copy_tile(
    context: Context,
    source: Tile,
    target: View,
    tv: Layout,
    limit_bytes: int = 16,
    is_tf32: bool = False,
) -> None:
    """Copy a tile through registers; what is outside of the target's tensor is not written. With
    `is_tf32`, f32 is rounded as TMA rounds it: to the nearest, ties to even.
    """
    if not isinstance(source, View):
        type_ = FragmentType.get(source.element, target.shape, tv)
        array = context.registers(register_class(type_.element), register_count(type_))
        load_tile(context, source, array, tv)
        store_tile(context, target, array, tv)
        return
    most = _AT_ONCE if source.bits > 8 else _AT_ONCE // 2

    def run(is_inside: bool) -> None:
        for read, written, part in in_parts(context, source, target, tv, most):
            copy_part(context, read, written, part, limit_bytes, is_inside, is_tf32)

    is_inside = context.builder.both(
        *(TileAccess(context, each, tv, 1, limit_bytes).inside() for each in (source, target))
    )
    context.when(is_inside, partial(run, True), partial(run, False))


def copy_part(
    context: Context,
    source: View,
    target: View,
    tv: Layout,
    limit_bytes: int,
    is_inside: bool,
    is_tf32: bool = False,
) -> None:
    """Read all values of a tile, then write them; of the tile it is known whether both sides lie in
    their tensors whole. Short elements that lie together on both sides share registers, so that one
    instruction moves 16 bytes.
    """
    reads, writes = _accesses(context, (source, target), tv, limit_bytes)
    cls = "f32" if is_tf32 else "b16" if source.bits <= 16 else f"b{source.bits}"
    pack = reads.pack
    array = context.registers("b32" if pack > 1 else cls, tv[1].size() // pack)
    Transfer(reads, array, ptx.LdOp).run(is_inside)
    if is_tf32:
        rounded = partial(context.builder.pure, "cvt.rn.tf32.f32")
        array = context.mapped(array, "b32", rounded)
    Transfer(writes, array, ptx.StOp).run(is_inside)


def _accesses(
    context: Context, sides: tuple[View, View], tv: Layout, limit_bytes: int
) -> list[TileAccess]:
    """The accesses of both sides of a copy: of whole registers where elements fill some on both."""
    pack = pack_factor(sides[0].element) if sides[0].bits >= _BYTE else 1
    whole = [TileAccess(context, each, tv, pack, limit_bytes) for each in sides]
    if all(each.unit == pack for each in whole):
        return whole
    return [TileAccess(context, each, tv, 1, limit_bytes) for each in sides]


def in_parts(
    context: Context, source: View, target: View, tv: Layout, most: int, whole: Whole = (0, 1)
) -> Iterator[tuple[View, View, Layout]]:
    """The parts of a copy (source, target, layout), of which every thread has at most `most`
    values, as the body of a run-time loop; the whole of a tile that does not fall into such parts.
    `whole` is a mode and how many elements along it stay together.
    """
    cut = _cut(source, target, tv, most, whole)
    if cut is None:
        yield source, target, tv
        return
    mode, extent, part = cut
    builder = context.builder
    block = Block(arg_types=[ptx.reg("b32")])
    builder.push(block, repeats=True)
    builder.assume_nonnegative(block.args[0])
    shape: list[int] = list(source.shape)
    shape[mode] = extent
    at: list[Scalar] = [0] * len(shape)
    at[mode] = block.args[0]
    read, written = (
        local_tile(builder, view, tuple(shape), tuple(at)) for view in (source, target)
    )
    yield read, written, part
    builder.pop()
    low, high = (builder.value(each, "b32") for each in (0, source.shape[mode] // extent))
    builder.emit(ptx.ForOp(low, high, 1, block))


def _cut(
    source: View, target: View, tv: Layout, most: int, whole: Whole
) -> tuple[int, int, Layout] | None:
    """(mode, extent, layout) of equal parts of a tile that every thread has few values of; None
    for a tile that is small, or that does not fall into such parts.
    """
    least = -(-tv[1].size() // most)
    shape = source.shape
    if least == 1 or len(shape) != 2:
        return None
    # Three parts of a tile with 64 columns there are none, but four.
    for parts, mode in product(range(least, 2 * least), (0, 1)):
        extent, rest = divmod(shape[mode], parts)
        if rest or any(len(view.modes[mode]) != 1 for view in (source, target)):
            continue
        if not _is_aligned(target, mode, extent) or (mode == whole[0] and extent % whole[1]):
            continue
        rows, columns = shape
        if mode == 1:
            part = columns_of(tv, rows, extent)
        else:
            part = columns_of(transposed_tv(tv, shape), columns, extent)
            part = None if part is None else transposed_tv(part, (columns, extent))
        if part is not None:
            return mode, extent, part
    return None


def _is_aligned(view: View, mode: int, extent: int) -> bool:
    """Whether parts of a tile start where the pattern of its swizzle does."""
    step = view.modes[mode][0][1]
    return view.swizzle is None or (
        isinstance(step, int) and extent * step * view.element_bytes % view.swizzle.repeat == 0
    )
