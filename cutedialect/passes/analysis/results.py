"""Results: which way they leave where they do not go from registers to memory as they are, and the
columns that leave at one time, with what is computed and loaded for these alone and how many
registers that takes.

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
from dataclasses import dataclass
from math import gcd, prod

from xdsl.dialects import scf
from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from cutedialect.allocation import registers_at_start
from cutedialect.atoms.tensor_map import check_reduction
from cutedialect.dialects import cute
from cutedialect.dialects.cute.storage import smem_bytes
from cutedialect.dialects.cute_nvgpu import SHIFTED_BITS
from cutedialect.dialects.effects import is_pure, space_of, written
from cutedialect.dialects.element_names import element_name
from cutedialect.dialects.walks import holds, ops_of, walk
from cutedialect.layout import Layout, TiledCopy
from cutedialect.passes.analysis.layout_inference import (
    around_layout,
    contiguous_mode,
    vector_bytes,
)
from cutedialect.passes.analysis.memory_views import root_of, uses_of
from cutedialect.passes.analysis.smem_layouts import columns_at_once
from cutedialect.passes.analysis.tensor_maps import has_tensor_map, is_exception, tile_of_tensor
from cutedialect.passes.analysis.thread_layouts import (
    GROUP_WARPS,
    coalesced,
    columns_of,
    copied,
    modes_of,
    tv_layout,
)
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
# Operations of a formula that needs no registers beside its operand and its result.
_SHORT_FORMULA = 4


def aligned_results(kernel: cute.KernelOp) -> list[cute.MemRefType]:
    """The tiles of global memory to which register tiles of a kernel that multiplies are stored in
    aligned words.
    """
    if not ops_of(kernel, cute.GemmOp):
        return []
    return [
        cute.memref_of(op.destination)
        for op in ops_of(kernel, cute.CopyOp)
        if isinstance(op.source.type, cute.FragmentType) and is_stored_aligned(op)
    ]


def is_stored_aligned(op: cute.CopyOp) -> bool:
    """Whether a register tile is stored in aligned words, some of its columns at a time."""
    type_ = op.destination.type
    if not isinstance(type_, cute.MemRefType) or type_.space != "gmem" or type_.rank != 2:
        return False
    if op.mask is not None or reduction_of(op) is not None or is_exception(op):
        return False
    return takes_aligned_stores(type_, columns_of_part(type_))


def has_registers(schedule: Schedule, threads: int, taken: int) -> bool:
    """Whether so many computing threads, each of which holds tiles in so many registers, have room
    for two vectors, shifted, and for where lines begin.
    """
    plan = schedule.plan
    loading = GROUP_WARPS if plan.loads else 0
    warps = threads // _LANES * plan.teams + loading
    at_start = registers_at_start(warps * (schedule.ctas or 1))
    most = _MOST_TAKEN if loading else at_start
    splits = (schedule.split_k or 1) > 1 and schedule.reduction != "cluster"
    if splits or schedule.scheduler in _SHARING:
        # The parts of others are loaded beside what a thread has.
        taken *= 2
    return taken <= min(most, at_start - _REGISTERS)


def columns_of_part(type_: cute.MemRefType) -> int:
    """Columns of a tile that are stored at once: of lines along the columns an equal share of the
    fewest that are no longer than 256 bytes; the last share may begin inside of the one before.

    >>> from xdsl.dialects.builtin import bf16
    >>> layouts = [Layout((64, columns), (131, 1)) for columns in (176, 256, 80)]
    >>> [columns_of_part(cute.MemRefType.get(bf16, "gmem", 2, layout)) for layout in layouts]
    [96, 128, 80]
    """
    columns = type_.shape[1]
    if contiguous_mode(type_) != 1 or columns % _COLUMNS:
        return columns_at_once(columns, type_.bits)
    parts = -(-columns * type_.bits // (8 * _LINE))
    return -(-columns // (parts * _COLUMNS)) * _COLUMNS


def bytes_of_buffer(type_: cute.MemRefType) -> int:
    """Shared memory of the part of a tile that is stored at once."""
    return smem_bytes(line_buffer(type_, (type_.shape[0], columns_of_part(type_))))


def takes_aligned_stores(type_: cute.MemRefType, columns: int) -> bool:
    """Whether so many columns of a tile in global memory have lines of some vectors that no store
    of vectors takes as they are.
    """
    line = contiguous_mode(type_)
    if type_.rank != 2 or line is None or type_.bits not in SHIFTED_BITS:
        return False
    if type_.stride[line] != 1 or vector_bytes(type_) >= _VECTOR:
        return False
    part = type_.shape[0], columns
    if part[1 - line] == 1:
        # A single line, such as a number for each row, is not worth that threads meet.
        return False
    vectors, rest = divmod(part[line] * type_.bits // 8, _VECTOR)
    return rest == 0 and vectors >= _LEAST_VECTORS


def line_buffer(type_: cute.MemRefType, part: tuple[int, int]) -> cute.MemRefType:
    """The buffer of a part of a tile in global memory: each line has room for a vector more, so
    that neighboring lines lie in other banks.
    """
    return cute.MemRefType.get(type_.element, "smem", 128, around_layout(type_, part))


def aligned_copy(
    type_: cute.MemRefType, part: tuple[int, int], threads: int, groups: int
) -> TiledCopy:
    """Which thread stores which vectors of a part of a tile, of which each of `groups` of threads
    has an equal block of rows.

    >>> from xdsl.dialects.builtin import bf16
    >>> type_ = cute.MemRefType.get(bf16, "gmem", 2, Layout((128, 64), (131, 1)))
    >>> print(aligned_copy(type_, (128, 64), 256, 2).tv)
    ((8,16,2),(8,4)):((1024,1,64),(128,16))
    """
    line = contiguous_mode(type_) or 0
    rows, columns = part
    block = (rows // groups, columns)
    tv = copied(coalesced(block, line, 8 * _VECTOR // type_.bits, threads // groups), block)

    def moved(layout: Layout) -> list[tuple[int, int]]:
        return [
            (extent, stride if stride < block[0] else stride // block[0] * rows)
            for extent, stride in modes_of(layout)
        ]

    return TiledCopy(tv_layout([*moved(tv[0]), (groups, block[0])], moved(tv[1])), part)


def results_by_tma(kernel: cute.KernelOp) -> list[cute.MemRefType]:
    """The tiles of global memory to which TMA can store the kernel's register tiles. Vectors go
    there from registers at once where products want the shared memory.
    """
    found: list[cute.MemRefType] = []
    multiplies = holds(kernel, cute.GemmOp)
    for op in ops_of(kernel, cute.AtomicOp, cute.CopyOp):
        adds = isinstance(op, cute.AtomicOp) and reduces_by_tma(op)
        if adds or (isinstance(op, cute.CopyOp) and isinstance(op.source.type, cute.FragmentType)):
            type_, tile = op.destination.type, tile_of_tensor(op.destination)
            if isinstance(type_, cute.MemRefType) and type_.rank == 2 and tile is not None:
                if (multiplies and 1 in type_.shape) or is_exception(op):
                    continue
                tensor = cute.memref_of(tile.tensor)
                if has_tensor_map(tensor):
                    found.append(type_)
    return found


def bits_of_results(results: Sequence[cute.MemRefType], shape: tuple[object, ...]) -> list[int]:
    """Bits of an element of those results that have this shape: they share lines."""
    return [type_.bits for type_ in results if type_.shape == shape]


def reduces_by_tma(op: cute.AtomicOp) -> bool:
    """Whether TMA can add a tile to its tensor: as asynchronous as that is, nothing else in the
    kernel may read or write the tensor.
    """
    type_, tile = op.destination.type, tile_of_tensor(op.destination)
    is_plain = not op.results and op.scope is None and op.order is None
    if not is_plain or op.kind.data != "add" or tile is None:
        return False
    assert isinstance(type_, cute.MemRefType)
    whole = cute.memref_of(tile.tensor)
    try:
        check_reduction("add", element_name(type_.element))
    except (ValueError, VerifyException):
        return False
    made = tile.tensor.owner
    root = made.group if isinstance(made, cute.MemberOp) else tile.tensor
    is_alone = [use.operation for use in uses_of(root)] == [op]
    return type_.rank == 2 and has_tensor_map(whole) and is_alone


def as_store(op: cute.AtomicOp) -> cute.CopyOp:
    """The op as a store that adds."""
    store = cute.CopyOp(op.source, op.destination)
    store.attributes[_REDUCE] = op.kind
    return store


def reduction_of(op: cute.CopyOp) -> str | None:
    """How a store combines with what is there, or None."""
    kind = op.attributes.get(_REDUCE)
    return kind.data if isinstance(kind, StringAttr) else None


@dataclass(frozen=True)
class Pieces:
    """The columns of results that leave at one time, the maps and loads that are done for these
    alone, and whether what the next ones need is loaded before these are computed.
    """

    columns: int
    chunk: int
    cut: set[Operation]
    loads_ahead: bool = True

    @property
    def places(self) -> list[int]:
        """The first column of each part. Where parts do not divide the columns, the last one begins
        inside of the one before, so that all are lines of one width.
        """
        last = self.columns - self.chunk
        return [min(first, last) for first in range(0, self.columns, self.chunk)]


def find_cut(ops: Sequence[cute.CopyOp], chunk: int) -> set[Operation]:
    """The maps and loads that nothing but stores needs, and that may wait for them, of which every
    thread has as much of each `chunk` columns.
    """
    columns = cute.shape_of(ops[0].source.type)[1]
    users: set[Operation] = set(ops)
    changed: set[SSAValue] = set()
    memory_changes = False
    op: Operation | None = ops[-1]
    while op is not None:
        if isinstance(op, cute.MapOp | cute.LoadOp):
            readers = {use.operation for use in op.results[0].uses}
            stays = isinstance(op, cute.MapOp) or (
                not memory_changes
                and space_of(op.source) == "gmem"
                and all(_is_apart(op.source, store.destination) for store in ops)
            )
            inputs = op.inputs if isinstance(op, cute.MapOp) else (op.result,)
            if (
                readers
                and readers <= users
                and stays
                and not changed & set(op.operands)
                and cute.shape_of(op.results[0].type)[1:] == (columns,)
                and all(can_part(each, chunk) for each in inputs)
            ):
                users.add(op)
        elif op not in users:
            for inner in walk(op):
                changed.update(written(inner))
                memory_changes |= _may_write_memory(inner)
        op = op.prev_op
    return users.difference(ops)


def has_places(pieces: Pieces, ops: Sequence[cute.CopyOp]) -> bool:
    """Whether there are such parts. Those that do not divide the columns are computed twice in
    part: none of it from a tile that is loaded, which may be the one that is stored, and every
    thread has to hold as much of a part wherever it begins.
    """
    step = gcd(pieces.chunk, pieces.columns)
    if step == pieces.chunk:
        return True
    values = [op.source for op in ops] + [op.results[0] for op in pieces.cut]
    return all(can_part(value, step) for value in values) and not any(
        isinstance(op, cute.LoadOp) and cute.shape_of(op.result.type)[0] != 1 for op in pieces.cut
    )


def registers_of_pieces(
    pieces: Pieces, ops: Sequence[cute.CopyOp], elsewhere: set[SSAValue], beside: bool
) -> int:
    """Registers of a thread that hold tiles while columns are stored: what they are taken from,
    what is loaded for two parts (and the addresses of its rows), and what is computed for one. Of
    values that are kept `elsewhere` it is one part, too. What is scaled or converted takes the
    place of what it is made from, unless it waits `beside` that for addresses.
    """
    whole = {op.source for op in ops if op.source.owner not in pieces.cut}
    parts = 0
    if beside or elsewhere or not all(map(is_short, pieces.cut)):
        parts = max(_registers_of(op.source, pieces.chunk) for op in ops)
    for op in pieces.cut:
        if isinstance(op, cute.LoadOp):
            parts += 2 * _registers_of(op.result, pieces.chunk) + 2 * rows_of(op.result)
            continue
        whole.update(each for each in op.operands if each.owner not in pieces.cut)
        if len({use.operation for use in op.results[0].uses}) > 1:
            parts += _registers_of(op.results[0], pieces.chunk)
    return parts + sum(
        _registers_of(each, pieces.chunk if each in elsewhere else pieces.columns) for each in whole
    )


def is_short(op: Operation) -> bool:
    """Whether an op makes of each element of a tile another one, by few operations."""
    if not isinstance(op, cute.MapOp) or len(op.body.block.ops) > _SHORT_FORMULA:
        return False
    return sum(isinstance(each.type, cute.FragmentType) for each in op.inputs) == 1


def rows_of(value: SSAValue) -> int:
    """How many rows of a tile a thread holds."""
    type_ = cute.fragment_of(value)
    modes = modes_of(type_.bound[1])
    return prod(extent for extent, stride in modes if stride < type_.shape[0])


def _registers_of(value: SSAValue, columns: int) -> int:
    """Registers of so many columns of a tile."""
    type_ = cute.fragment_of(value)
    values = type_.values
    if len(type_.shape) == 2 and type_.shape[1] != 1:
        values = values * columns // type_.shape[1]
    return -(-values * type_.bits // 32)


def _may_write_memory(op: Operation) -> bool:
    """Whether an op may change global memory, or tell that others have."""
    if isinstance(op, cute.CopyOp):
        return space_of(op.destination) == "gmem"
    in_registers = cute.MapOp | cute.LoadOp | cute.ExtractOp | cute.FillOp | cute.GemmOp
    return not (is_pure(op) or isinstance(op, in_registers | scf.ForOp | scf.IfOp | scf.YieldOp))


def _is_apart(read: SSAValue, stored: SSAValue) -> bool:
    """Whether storing some columns of one tile leaves the others of another as they are: they
    belong to two tensors, or are one tile.
    """
    if root_of(read) is not root_of(stored):
        return True
    first, second = read.owner, stored.owner
    return (
        isinstance(first, cute.LocalTileOp)
        and isinstance(second, cute.LocalTileOp)
        and list(first.operands) == list(second.operands)
        and first.tile == second.tile
    )


def can_part(value: SSAValue, chunk: int) -> bool:
    """Whether every thread holds as much of each `chunk` columns of a tile, if it has columns."""
    shape = cute.shape_of(value.type)
    is_narrow = len(shape) != 2 or shape[1] == 1
    return is_narrow or type_of_columns(cute.fragment_of(value), chunk) is not None


def type_of_columns(tile: cute.FragmentType, columns: int) -> cute.FragmentType | None:
    """The type of so many columns of a bound tile, if every thread holds as much of each such part;
    else None.
    """
    rows = tile.shape[0]
    tv = columns_of(tile.bound, rows, columns)
    return None if tv is None else cute.FragmentType.get(tile.element, (rows, columns), tv)
