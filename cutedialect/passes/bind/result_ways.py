"""Which way results leave that do not go from registers to memory as they are.

TMA stores tiles in boxes, out of shared memory, and does atomic additions of whole tiles
(`cp.reduce.async.bulk.tensor`). `cute-partition` marks these as stores first, so that
`result_stores.py` stages them like results; one that turns out to have no tensor map becomes the
atomic op again.

    atomic "add", x, D   =>   copy x, D {reduce = "add"}   =>   copy x, sD; copy sD, D {tma_store}

Results whose lines begin at any element of memory are bound to stores of aligned words: threads
write some columns to a buffer, meet, and store from there what belongs to aligned 16 bytes at once.
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
    memref_of,
)
from cutedialect.dialects.cute_nvgpu import SHIFTED_BITS
from cutedialect.dialects.element_names import element_name
from cutedialect.dialects.walks import holds, ops_of
from cutedialect.layout import Layout, TiledCopy, flatten
from cutedialect.passes.bind.layout_inference import around_layout, contiguous_mode, vector_bytes
from cutedialect.passes.bind.smem_layouts import columns_at_once
from cutedialect.passes.bind.tensor_maps import has_tensor_map, is_exception, tile_of_tensor
from cutedialect.passes.bind.thread_layouts import GROUP_WARPS, coalesced, copied
from cutedialect.passes.roles.resource_plan import registers_at_start
from cutedialect.passes.synchronize.memory_views import uses_of
from cutedialect.schedule import Schedule

_VECTOR = 16
# Vectors of a line, of which aligned stores leave one to stores of single pieces.
_LEAST_VECTORS = 4
# Bytes of a line that are stored at once, at most, and columns of which they are multiples.
_LINE, _COLUMNS = 256, 16
_LANES, _REGISTERS = 32, 44
# Schedulers with which CTAs share tiles.
_SHARING = ("stream", "tail")
# The registers of tiles that leave some for the places in rings, where other warps load.
_MOST_TAKEN = 112
_REDUCE = "reduce"


def aligned_results(kernel: KernelOp) -> list[MemRefType]:
    """The tiles of global memory to which register tiles of a kernel that multiplies are stored in
    aligned words.
    """
    if not ops_of(kernel, GemmOp):
        return []
    stores = [op for op in ops_of(kernel, CopyOp) if isinstance(op.source.type, FragmentType)]
    return [op.destination.type for op in stores if is_stored_aligned(op)]  # pyright: ignore[reportReturnType]


def is_stored_aligned(op: CopyOp) -> bool:
    """Whether a register tile is stored in aligned words, some of its columns at a time."""
    type_ = op.destination.type
    if not isinstance(type_, MemRefType) or type_.space != "gmem" or type_.rank != 2:
        return False
    if op.mask is not None or reduction_of(op) is not None or is_exception(op):
        return False
    return takes_aligned_stores(type_, (type_.shape[0], columns_of_part(type_)))


def has_registers(schedule: Schedule, threads: int, taken: int) -> bool:
    """Whether so many computing threads, each of which holds tiles in so many registers, have room
    for two vectors, shifted, and for where lines begin.
    """
    teams = schedule.instances or 2 if schedule.roles == "alternate" else 1
    loading = GROUP_WARPS if schedule.roles not in (None, "uniform") else 0
    warps = threads // _LANES * teams + loading
    at_start = registers_at_start(warps * (schedule.ctas or 1))
    most = _MOST_TAKEN if loading else at_start
    splits = (schedule.split_k or 1) > 1 and schedule.reduction != "cluster"
    if splits or schedule.scheduler in _SHARING:
        # The parts of others are loaded beside what a thread has.
        taken *= 2
    return taken <= min(most, at_start - _REGISTERS)


def columns_of_part(type_: MemRefType) -> int:
    """Columns of a tile that are stored at once: of lines along the columns an equal share of the
    fewest that are no longer than 256 bytes; the last share may begin inside of the one before.

    >>> from xdsl.dialects.builtin import bf16
    >>> tiles = [MemRefType.get(bf16, "gmem", 2, Layout((64, n), (131, 1))) for n in (176, 256, 80)]
    >>> [columns_of_part(tile) for tile in tiles]
    [96, 128, 80]
    """
    columns = type_.shape[1]
    if contiguous_mode(type_) != 1 or columns % _COLUMNS:
        return columns_at_once(columns, type_.bits)
    parts = -(-columns * type_.bits // (8 * _LINE))
    return -(-columns // (parts * _COLUMNS)) * _COLUMNS


def bytes_of_buffer(type_: MemRefType) -> int:
    """Shared memory of the part of a tile that is stored at once."""
    rows = type_.shape[0]
    buffer = line_buffer(type_, (rows, columns_of_part(type_)))
    return Layout(buffer.modes, buffer.stride).cosize() * buffer.bits // 8  # pyright: ignore


def takes_aligned_stores(type_: MemRefType, part: tuple[int, ...]) -> bool:
    """Whether parts of a tile in global memory have lines of some vectors that no store of vectors
    takes as they are.
    """
    line = contiguous_mode(type_)
    if type_.rank != 2 or line is None or type_.bits not in SHIFTED_BITS:
        return False
    if type_.stride[line] != 1 or vector_bytes(type_) >= _VECTOR:
        return False
    if part[1 - line] == 1:
        # A single line, such as a number for each row, is not worth that threads meet.
        return False
    vectors, rest = divmod(part[line] * type_.bits // 8, _VECTOR)
    return rest == 0 and vectors >= _LEAST_VECTORS


def line_buffer(type_: MemRefType, part: tuple[int, int]) -> MemRefType:
    """The buffer of a part of a tile in global memory: each line has room for a vector more, so
    that neighboring lines lie in other banks.
    """
    like = MemRefType.get(type_.element, "gmem", type_.alignment, Layout(part, _strides(type_)))
    return MemRefType.get(type_.element, "smem", 128, around_layout(like))


def aligned_copy(type_: MemRefType, part: tuple[int, int], threads: int, groups: int) -> TiledCopy:
    """Which thread stores which vectors of a part of a tile, of which each of `groups` of threads
    has an equal block of rows.

    >>> from xdsl.dialects.builtin import bf16
    >>> type_ = MemRefType.get(bf16, "gmem", 2, Layout((128, 64), (131, 1)))
    >>> print(aligned_copy(type_, (128, 64), 256, 2).tv)
    ((8,16,2),(8,4)):((1024,1,64),(128,16))
    """
    line = contiguous_mode(type_) or 0
    rows, columns = part
    block = (rows // groups, columns)
    tv = copied(coalesced(block, line, 8 * _VECTOR // type_.bits, threads // groups), block)

    def moved(layout: Layout) -> list[tuple[int, int]]:
        pairs = zip(flatten(layout.shape), flatten(layout.stride), strict=True)
        return [
            (extent, stride if stride < block[0] else stride // block[0] * rows)  # pyright: ignore
            for extent, stride in pairs
        ]

    of_threads = moved(tv[0]) + ([(groups, block[0])] if groups > 1 else [])
    whole = Layout(
        (tuple(e for e, _ in of_threads), tuple(e for e, _ in moved(tv[1]))),
        (tuple(s for _, s in of_threads), tuple(s for _, s in moved(tv[1]))),
    )
    return TiledCopy(whole, part)


def _strides(type_: MemRefType) -> tuple[int, int]:
    """Any strides of a tile whose lines run along the same mode."""
    return (1, 1 << 20) if contiguous_mode(type_) == 0 else (1 << 20, 1)


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
                tensor = memref_of(tile.tensor)
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
    whole = memref_of(tile.tensor)
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
