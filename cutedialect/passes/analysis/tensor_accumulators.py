"""Accumulators in tensor memory: which register tiles of a program can be there while they are
accumulated, how they lie there, and how much of it they take.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from math import prod

from xdsl.dialects import arith, scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.atoms.tmem_layouts import COLUMNS, LANES, operand_layout
from cutedialect.dialects import cute
from cutedialect.dialects.effects import written
from cutedialect.dialects.walks import index_in_block, indices_in, ops_around, ops_of
from cutedialect.layout import Layout
from cutedialect.passes.analysis.memory_views import is_zero
from cutedialect.passes.analysis.thread_layouts import columns_in_turn
from cutedialect.passes.rewriting import block_of


@dataclass
class Life:
    """The life of one accumulator: the fill that begins it, the multiplies into it in order, by the
    loops in whose bodies they are (None for those beside loops), the maps that change it there
    before them with the copies that keep what these give, the ops that use it afterwards in order,
    and whether one of those writes it.
    """

    fill: cute.FillOp
    multiplies: list[tuple[scf.ForOp | None, list[cute.GemmOp]]]
    updates: list[tuple[cute.MapOp, cute.CopyOp]]
    readers: list[Operation]
    is_rewritten: bool


def life_of(accumulator: SSAValue) -> Life | None:
    """The life of a register tile that is filled with 0 and then only multiplied into, in loops
    that follow each other and beside them, until it is read or written otherwise; or that each trip
    of one loop changes element by element before it multiplies, and that is only read behind, where
    a role of the plan corrects such accumulators in tensor memory. None for any other, for one that
    nothing reads, and for one from which a multiply subtracts.
    """
    alloc = accumulator.owner
    if not isinstance(alloc, cute.AllocFragmentOp):
        return None
    block = block_of(alloc)
    order = _order_of_uses(accumulator, block)
    fill = min(order, key=order.__getitem__, default=None)
    multiplies = [op for op in order if isinstance(op, cute.GemmOp) and op.acc is accumulator]
    parts = _by_loops(multiplies, block)
    if not isinstance(fill, cute.FillOp) or fill.parent is not block or not parts:
        return None
    last = max(order[op] for op in multiplies)
    readers = sorted((op for op, place in order.items() if place > last), key=order.__getitem__)
    is_rewritten = any(accumulator in written(op) for op in readers)
    changes = [op for op in order if op not in (fill, *multiplies, *readers)]
    updates: list[tuple[cute.MapOp, cute.CopyOp]] | None = []
    if changes:
        updates = None if is_rewritten else _updates(accumulator, changes, parts)
    if updates is None or not readers or not (updates or is_zero(fill.value)):
        return None
    return Life(fill, parts, updates, readers, is_rewritten)


def _order_of_uses(accumulator: SSAValue, block: Block) -> dict[Operation, int]:
    """The places in a block of the ops that use a tile, none where some use is outside of it."""
    order: dict[Operation, int] = {}
    for use in accumulator.uses:
        place = block.find_ancestor_op_in_block(use.operation)
        if place is None:
            return {}
        order[use.operation] = index_in_block(place)
    return order


def _by_loops(
    multiplies: list[cute.GemmOp], block: Block
) -> list[tuple[scf.ForOp | None, list[cute.GemmOp]]] | None:
    """Multiplies in order, by the innermost loops of a block that hold them; None where other ops
    do, where one subtracts, where one reads what it adds to, and where trips of a loop decide how
    many another one inside of it has.
    """
    if any(op.negate is not None or op.acc in (op.a, op.b) for op in multiplies):
        return None
    places: dict[cute.GemmOp, tuple[int, int]] = {}
    loops: dict[cute.GemmOp, scf.ForOp | None] = {}
    for op in multiplies:
        inner = block_of(op)
        around = loops_around(inner, block)
        if around is None:
            return None
        loops[op] = around[0] if around else None
        outermost = around[-1] if around else op
        places[op] = index_in_block(outermost), index_in_block(op)
    ordered = sorted(multiplies, key=places.__getitem__)
    return [(loop, [*part]) for loop, part in groupby(ordered, loops.__getitem__)]


def loops_around(inner: Block, block: Block) -> list[scf.ForOp] | None:
    """The loops around a block inside of another one, the innermost first; None where something
    else is around it, and where the bounds of one are not known in front of all, as constants
    are.
    """
    loops: list[scf.ForOp] = []
    while inner is not block:
        loop = inner.parent_op()
        if not isinstance(loop, scf.ForOp):
            return None
        loops.append(loop)
        inner = block_of(loop)
    bounds = [bound.owner for loop in loops[:-1] for bound in (loop.lb, loop.ub)]
    others = [each for each in bounds if not isinstance(each, arith.ConstantOp)]
    return None if any(loops[-1].is_ancestor(each) for each in others) else loops


def _updates(
    accumulator: SSAValue,
    changes: list[Operation],
    parts: list[tuple[scf.ForOp | None, list[cute.GemmOp]]],
) -> list[tuple[cute.MapOp, cute.CopyOp]] | None:
    """The maps of narrow tiles that change an accumulator before the first multiply of a trip, with
    the copies that keep what they give; None where something else uses it there, where the
    multiplies are not those of one loop, and without a role that corrects.
    """
    (loop, (first, *_)), *others = parts
    if loop is None or others or not corrects(first):
        return None
    block = block_of(first)
    updates: list[tuple[cute.MapOp, cute.CopyOp]] = []
    for op in changes:
        place = block.find_ancestor_op_in_block(op)
        if place is None or index_in_block(place) > index_in_block(first):
            return None
        if isinstance(op, cute.MapOp) and _is_narrow(op):
            users = [use.operation for use in op.result.uses]
            kept = users[0] if len(users) == 1 else None
            if not isinstance(kept, cute.CopyOp) or kept.parent is not op.parent:
                return None
            updates.append((op, kept))
        elif not isinstance(op, cute.CopyOp):
            return None
    copies = {op for op in changes if isinstance(op, cute.CopyOp)}
    keeps = all(op.destination is accumulator for op in copies)
    return updates if keeps and copies == {kept for _, kept in updates} else None


def _is_narrow(op: cute.MapOp) -> bool:
    """Whether all but the accumulator that a map takes is one element for each row."""
    others = [value.type for value in op.inputs if value.type != op.result.type]
    return len({value for value in op.inputs if value.type == op.result.type}) == 1 and all(
        isinstance(type_, cute.FragmentType) and (len(type_.shape) == 1 or type_.shape[1] == 1)
        for type_ in others
    )


def corrects(op: Operation) -> bool:
    """Whether a role of the plan of the kernel around an op corrects accumulators there."""
    kernel = _kernel_of(op)
    return kernel is not None and kernel.choices.plan.corrects is not None


def _kernel_of(op: Operation) -> cute.KernelOp | None:
    return next((each for each in ops_around(op) if isinstance(each, cute.KernelOp)), None)


def columns_needed(shape: tuple[int, ...]) -> int:
    """Columns of tensor memory of a tile: blocks of 128 rows lie side by side."""
    rows, columns = shape
    return -(-rows // LANES) * columns


def tensor_layout(shape: tuple[int, ...], atom: Tcgen05Atom) -> Layout:
    """(row, column) of a tile of whole products to its address.

    >>> from cutedialect.atoms.tcgen05_atoms import tcgen05_atom
    >>> print(tensor_layout((256, 64), tcgen05_atom("tcgen05_f16_cg1_m128n64k16_f32_f16_f16")))
    ((128,2),64):((65536,64),1)
    """
    rows, columns = shape
    blocks = rows // (atom.shape_mnk[0] // atom.cta_group)
    return _side_by_side(atom.c_tmem_layout[0], blocks, columns, columns)


def operand_tensor_layout(
    shape: tuple[int, ...], atom: Tcgen05Atom, bits: int, groups: int = 1
) -> Layout:
    """(row, depth) of what a CTA has of A of whole products, in tensor memory, to its place in
    elements of so many bits. What each of `groups` warpgroups that share the rows has of it begins
    where its columns of an accumulator of the same shape do, and so do the rows of each product, so
    that it may lie over these: no other warpgroup reads them.

    >>> from cutedialect.atoms.tcgen05_atoms import tcgen05_atom
    >>> atom = tcgen05_atom("tcgen05_f16_cg1_m128n64k16_f32_f16_f16")
    >>> print(operand_tensor_layout((256, 64), atom, 16))
    ((128,2),64):((131072,128),1)
    >>> print(operand_tensor_layout((128, 64), atom, 16, groups=2))
    (128,(16,4)):(131072,(1,32))
    """
    rows, depth = shape
    m, _, k = atom.shape_mnk
    inner, blocks = operand_layout(m, k, bits, atom.cta_group)[0], rows // (m // atom.cta_group)
    turn, packed = columns_in_turn(depth, groups), 32 // bits
    if groups == 1 or blocks > 1 or turn % k:
        return _side_by_side(inner, blocks, depth, depth * packed)
    by_depth = (turn, depth // turn), (1, turn * packed)
    return Layout((inner.shape, by_depth[0]), (inner.stride, by_depth[1]))


def _side_by_side(rows: Layout, blocks: int, columns: int, apart: int) -> Layout:
    """Blocks of so many columns, each behind the one before it by so many elements."""
    if blocks == 1:
        return Layout((rows.shape, columns), (rows.stride, 1))
    return Layout(((rows.shape, blocks), columns), ((rows.stride, apart), 1))


@dataclass(frozen=True)
class TensorPlan:
    """What the accumulators of a kernel's multiplies take if all of them are in tensor memory: its
    columns, one accumulator for each multiply whose own is added to in registers, and the elements
    of the latter; columns of scales of blocks count, too.
    """

    columns: int
    summed: int


def _shared_columns(lives: Sequence[Life]) -> int:
    """Columns of accumulators of one trip that may lie over those of others, which threads have
    read for the last time when these are multiplied (`tensor_columns.py`).
    """
    shared, under = 0, set[SSAValue]()
    for life in lives:
        mine = columns_needed(cute.shape_of(life.fill.fragment.type))
        for before in lives:
            acc = before.fill.fragment
            if acc in under or columns_needed(cute.shape_of(acc.type)) < mine:
                continue
            if _follows(life, before):
                under |= {acc, life.fill.fragment}
                shared += mine
                break
    return shared


def _follows(life: Life, before: Life) -> bool:
    """Whether a multiply takes a register tile, and with it the place of an accumulator of the same
    block that has been read before this was made.
    """
    (loop, gemms), *others = life.multiplies
    block = block_of(life.fill)
    if loop is not None or others or block_of(before.fill) is not block:
        return False
    readers = before.readers[:1] if before.is_rewritten else before.readers
    read = indices_in(block, readers)
    if not read:
        return False
    made = [each for each in gemms[0].operands[:2] if isinstance(each.type, cute.FragmentType)]
    return any(
        isinstance(each.owner, Operation)
        and each.owner.parent is block
        and index_in_block(each.owner) > max(read)
        for each in made
    )


def factor_columns(op: cute.GemmOp) -> int:
    """The columns of tensor memory that the scales of blocks of a multiply take, four a panel; 0
    without scales.
    """
    panels = sum(prod(cute.panels_of(each)) for each in op.factors[:2])
    return panels * cute.PANEL_COLUMNS


def tensor_plan(op: cute.GemmOp) -> TensorPlan:
    """The plan of the kernel around a multiply."""
    kernel = _kernel_of(op)
    gemms = [op] if kernel is None else ops_of(kernel, cute.GemmOp)
    accumulators = [each.acc for each in gemms if isinstance(each.acc.type, cute.FragmentType)]
    lives = {acc: life_of(acc) for acc in dict.fromkeys(accumulators)}
    columns = summed = 0
    for acc, life in lives.items():
        shape = cute.shape_of(acc.type)
        columns += columns_needed(shape) * (1 if life is not None else accumulators.count(acc))
        summed += 0 if life is not None else prod(shape)
    if columns > COLUMNS:
        columns -= _shared_columns([life for life in lives.values() if life is not None])
    columns += sum(factor_columns(each) for each in gemms)
    return TensorPlan(columns, summed)
