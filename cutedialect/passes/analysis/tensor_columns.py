"""Columns of tensor memory: how many stages its rings have, and which operands of multiplies lie
over accumulators that have been read by then.

    for j { gemm q, k[j], s; copy s, x; copy f(x), p; gemm p, v[j], o }

Here nothing reads `s` from where `p` is written on, and `p` is read before the next trip's product
is needed: both have the same columns, where there are too few for each to have its own. Where they
are still too few, an accumulator lies over another one, if what it multiplies is computed from
what has been read of that:

    for j { gemm v, g[j], s; copy s, x; copy f(x), b; gemm a, b, t; copy t, y }
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

from xdsl.ir import Block, Operation, Use

from cutedialect.atoms import WARP_SIZE
from cutedialect.atoms.tmem_layouts import COLUMNS, LANE
from cutedialect.dialects.cute import (
    AllocTmemOp,
    CopyOp,
    FragmentType,
    GemmOp,
    KernelOp,
    MemRefType,
    SubviewOp,
    memref_of,
)
from cutedialect.dialects.walks import common_block, index_in_block, indices_in
from cutedialect.passes.analysis.memory_views import root_of, uses_of
from cutedialect.passes.analysis.role_plan import is_corrected, multiplies_into
from cutedialect.passes.anchors import anchored

# Threads of a warpgroup: each of its warps reaches 32 lanes, and all that it has read of them.
_THREADS = 128


def columns_of_each(kernel: KernelOp) -> int:
    """The columns of tensor memory of a CTA where an SM holds as many as the schedule says; powers
    of two are allocated (PTX ISA 9.7.16.7.1), and who finds too few waits until others have ended.
    """
    return COLUMNS >> ((kernel.choices.ctas or 1) - 1).bit_length()


def stages_of_columns(kernel: KernelOp, columns: int, others: int = 0) -> int:
    """How many stages so many columns of tensor memory have beside others that have one: two where
    they fit, else one.
    """
    return 2 if 2 * columns + others <= columns_of_each(kernel) else 1


@dataclass(frozen=True)
class ColumnPlan:
    """What shares the columns of tensor memory: `operands` of multiplies and `products` that lie
    over accumulators, and the `stages` of the ring of each buffer. What lies over a buffer has
    those of that.
    """

    operands: Mapping[AllocTmemOp, AllocTmemOp] = field(default_factory=dict)
    products: Mapping[AllocTmemOp, AllocTmemOp] = field(default_factory=dict)
    stages: Mapping[AllocTmemOp, int] = field(default_factory=dict)

    @property
    def is_bound(self) -> bool:
        """Whether a product waits until what lies over its columns is no longer needed."""
        return any(self.stages[each] == 1 for each in (*self.operands, *self.products))


@anchored(AllocTmemOp, otherwise=ColumnPlan)
def column_plan(kernel: KernelOp) -> ColumnPlan:
    """The plan of a kernel. All rings have two stages where they fit, else accumulators of the
    trips of a loop beside others that outlive these, as far as there are columns.
    """
    operands = tensor_overlays(kernel)
    products = _product_overlays(kernel, operands)
    own = [each for each in _allocs(kernel) if each not in operands and each not in products]
    columns, others = _columns(own)
    whole = stages_of_columns(kernel, columns, others)
    stages = dict.fromkeys(own, whole)
    left = columns_of_each(kernel) - columns - others
    for alloc in _of_trips(own) if whole == 1 else ():
        if alloc not in products.values() and alloc.columns <= left:
            stages[alloc] = 2
            left -= alloc.columns
    below = {**operands, **products}
    for over, under in below.items():
        while under in below:
            under = below[under]
        stages[over] = stages[under]
    return ColumnPlan(operands, products, stages)


def _of_trips(allocs: Sequence[AllocTmemOp]) -> list[AllocTmemOp]:
    """The accumulators whose products threads read in the trip that multiplies them, where others
    add up over the trips of that loop.
    """
    blocks: dict[AllocTmemOp, Block] = {}
    for alloc in allocs:
        users = [use.operation for use in uses_of(alloc.result)]
        if multiplies_into(alloc) and not is_corrected(alloc) and len(users) > 1:
            blocks[alloc] = common_block(users)
    around = [block for block in blocks.values() if block.parent_op() is not None]
    return [
        alloc
        for alloc, block in blocks.items()
        if any(other is not block and other.is_ancestor(block) for other in around)
    ]


def _product_overlays(
    kernel: KernelOp, operands: Mapping[AllocTmemOp, AllocTmemOp]
) -> dict[AllocTmemOp, AllocTmemOp]:
    """The accumulators that lie over another one beside such operands: none where each can have
    columns of its own.
    """
    own = [each for each in _allocs(kernel) if each not in operands]
    lives = {alloc: life for alloc in own if (life := _life(alloc)) is not None}
    found: dict[AllocTmemOp, AllocTmemOp] = {}
    for alloc, life in lives.items():
        columns, others = _columns([each for each in own if each not in found])
        if columns + others <= columns_of_each(kernel):
            break
        taken = {*operands.values(), *found, *found.values()}
        under = [
            other
            for other, before in lives.items()
            if other not in taken
            and other.columns >= alloc.columns
            and not life.is_operand
            and _follows(life, before)
        ]
        if under:
            found[alloc] = max(under, key=lambda other: lives[other].last)
    return found


@anchored(AllocTmemOp, otherwise=dict)
def tensor_overlays(kernel: KernelOp) -> dict[AllocTmemOp, AllocTmemOp]:
    """The operands in tensor memory that lie over an accumulator: none where each can have columns
    of its own, in two stages.
    """
    allocs = _allocs(kernel)
    columns, others = _columns(allocs)
    if 2 * columns + others <= columns_of_each(kernel):
        return {}
    lives = {alloc: life for alloc in allocs if (life := _life(alloc)) is not None}
    found: dict[AllocTmemOp, AllocTmemOp] = {}
    for alloc, life in lives.items():
        if not life.is_operand:
            continue
        under = [
            other
            for other, before in lives.items()
            if other not in found.values()
            and other.columns >= alloc.columns
            and _is_over(life, before)
        ]
        if under:
            found[alloc] = max(under, key=lambda other: lives[other].last)
    return found


@anchored(AllocTmemOp, otherwise=list)
def columns_too_many(kernel: KernelOp) -> list[AllocTmemOp]:
    """The operands in tensor memory that take columns, or a stage, from accumulators."""
    plan = column_plan(kernel)
    over = {*plan.operands, *plan.products}
    own = [each for each in _allocs(kernel) if each not in over]
    operands = [each for each in own if is_filled_by_threads(each)]
    columns, others = _columns([each for each in own if each not in operands])
    stages = stages_of_columns(kernel, columns, others)
    left = columns_of_each(kernel) - others - stages * columns
    refused: list[AllocTmemOp] = []
    for each in operands:
        taken = stages * each.columns
        if taken > left:
            refused.append(each)
        else:
            left -= taken
    return refused


def is_filled_by_threads(alloc: AllocTmemOp) -> bool:
    """Whether a copy fills the buffer, and no multiply: it is an operand of one."""
    uses = [(use.operation, use.index) for use in alloc.result.uses]
    is_stored = any(isinstance(op, CopyOp) and index == 1 for op, index in uses)
    return is_stored and not multiplies_into(alloc)


@dataclass(frozen=True)
class _Life:
    """When a buffer is in use: the block around its uses, and the places there of the first op that
    writes it, of the last one that does, and of the last one that reads it. `role` is the one that
    copies, where roles are known; `columns_of_groups` are those that each of several warpgroups
    copies, and `operands` the places and roles of what threads write for the multiplies that fill
    it.
    """

    block: Block
    role: object
    is_operand: bool
    start: int
    filled: int
    last: int
    columns_of_groups: Mapping[int, frozenset[int]]
    operands: Sequence[tuple[int, object]]


def _is_over(life: _Life, before: _Life) -> bool:
    """Whether an operand is written when an accumulator of the same block has been read, by threads
    that have read these columns themselves.
    """
    is_read = before.filled < before.last < life.start
    is_like = (before.block, before.role) == (life.block, life.role)
    has_own = life.columns_of_groups.keys() == before.columns_of_groups.keys() and all(
        columns <= before.columns_of_groups[group]
        for group, columns in life.columns_of_groups.items()
    )
    return not before.is_operand and is_like and is_read and has_own


def _follows(life: _Life, before: _Life) -> bool:
    """Whether an accumulator is multiplied into when another one of the same block has been read:
    who reads that one writes what is multiplied, behind it.
    """
    is_read = before.filled < before.last < life.start
    if before.is_operand or before.block is not life.block or not is_read:
        return False
    return any(before.last < at < life.start and role == before.role for at, role in life.operands)


def _life(alloc: AllocTmemOp) -> _Life | None:
    """The life of a buffer that multiplies and copies of registers fill and read."""
    uses = [] if is_corrected(alloc) else [*uses_of(alloc.result)]
    copies = [use.operation for use in uses if not isinstance(use.operation, GemmOp)]
    roles = {op.attributes.get("role") for op in copies}
    if len(roles) != 1 or not all(_is_multiplied_or_copied(use) for use in uses):
        return None
    is_operand = is_filled_by_threads(alloc)
    readers = [use.operation for use in uses if _reads(use, is_operand)]
    writers = [use.operation for use in uses if not _reads(use, is_operand)]
    block = writers[0].parent if writers else None
    if block is None:
        return None
    written, read = (indices_in(block, ops) for ops in (writers, readers))
    if not written or not read:
        return None
    operands = [each for op in writers for each in _operands(op, block)]
    columns = _columns_of_groups(uses)
    start, filled, last = min(written), max(written), max(read)
    return _Life(block, roles.pop(), is_operand, start, filled, last, columns, operands)


def _reads(use: Use, is_operand: bool) -> bool:
    """Whether an op reads a buffer of tensor memory: a multiply its operand, a copy its source."""
    return is_operand if isinstance(use.operation, GemmOp) else use.index != 1


def _is_multiplied_or_copied(use: Use) -> bool:
    """Whether an op is a multiply, or a copy of a buffer to or from registers."""
    op = use.operation
    return isinstance(op, GemmOp) or (isinstance(op, CopyOp) and _held(use) is not None)


def _held(use: Use) -> FragmentType | None:
    """The register tile that a copy of a buffer of tensor memory reads or writes."""
    op = use.operation
    assert isinstance(op, CopyOp)
    held = (op.source if use.index == 1 else op.destination).type
    return held if isinstance(held, FragmentType) else None


def _columns_of_groups(uses: Sequence[Use]) -> dict[int, frozenset[int]]:
    """The columns that each warpgroup copies; of one that copies all of them, none is named."""
    found: dict[int, set[int]] = {}
    for use in uses:
        if not isinstance(use.operation, CopyOp):
            continue
        held, tile = _held(use), use.operation.operands[use.index]
        assert held is not None
        first, part = 0, tile
        while isinstance(view := part.owner, SubviewOp):
            part = view.source
            first += memref_of(part).layout(*map(int, view.origin.get_values()))
        for group in range(held.threads // _THREADS if held.threads > _THREADS else 0):
            columns = _columns_copied(held, memref_of(tile), first, group)
            found.setdefault(group, set()).update(columns)
    return {group: frozenset(columns) for group, columns in found.items()}


@lru_cache(maxsize=256)
def _columns_copied(
    held: FragmentType, type_: MemRefType, first: int, group: int
) -> frozenset[int]:
    """The columns that a warpgroup copies of a part of a buffer that begins so many elements behind
    its start.
    """
    packed, rows = 32 // type_.bits, held.shape[0]
    first_thread = group * _THREADS
    places = (
        held.bound((thread, value))
        for thread in range(first_thread, first_thread + WARP_SIZE)
        for value in range(held.values)
    )
    addresses = (first + type_.layout(place % rows, place // rows) for place in places)
    return frozenset(address % (LANE * packed) // packed for address in addresses)


def _operands(writer: Operation, block: Block) -> Iterator[tuple[int, object]]:
    """Where threads write what a multiply takes, in a block, and their roles."""
    roots = {root_of(writer.a), root_of(writer.b)} if isinstance(writer, GemmOp) else set()
    for op in block.ops:
        is_written = isinstance(op, CopyOp) and isinstance(op.source.type, FragmentType)
        if is_written and root_of(op.destination) in roots:
            yield index_in_block(op), op.attributes.get("role")


def _allocs(kernel: KernelOp) -> list[AllocTmemOp]:
    return [op for op in kernel.body.block.ops if isinstance(op, AllocTmemOp)]


def _columns(allocs: list[AllocTmemOp]) -> tuple[int, int]:
    """Columns of buffers that become rings, and of those that roles correct in place."""
    columns = [0, 0]
    for alloc in allocs:
        columns[is_corrected(alloc)] += alloc.columns
    return columns[0], columns[1]
