"""Accumulators in tensor memory: which register tiles of a program can be there while they are
accumulated, and the move.

    fill acc, 0; for k { gemm a, b, acc }; y = extract acc, ...
    =>
    for k { gemm a, b, t keeps k != first }; if any trip { copy t', y } else { fill y, 0 }

Everything that reads the tile after the loop gets the part that it reads copied to registers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.atoms.tmem_layouts import LANES, operand_layout
from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import TmemLoadType
from cutedialect.dialects.effects import written
from cutedialect.dialects.walks import ops_of
from cutedialect.layout import Layout
from cutedialect.passes.bind.corrections import correction_of, corrects
from cutedialect.passes.bind.rewritten_sums import (
    Rewrites,
    fill_in_columns,
    read_in_columns,
    rewrite_in_columns,
    rewrites_of,
)
from cutedialect.passes.rewriting import block_of, erase
from cutedialect.passes.synchronize.memory_views import is_zero

Insert = Callable[[Operation, Operation], Operation]


@dataclass
class Accumulation:
    """One accumulator: the fill with 0 that begins it, the loop in whose body it is multiplied into
    (None without one), the multiplies in order, the ops that use it afterwards, and whether one of
    those writes it.
    """

    fill: cute.FillOp
    loop: scf.ForOp | None
    multiplies: list[cute.GemmOp]
    readers: list[Operation]
    is_rewritten: bool


def accumulation_of(accumulator: SSAValue) -> Accumulation | None:
    """The life of a register tile that is filled with 0 and then only multiplied into, in one loop
    or without one, until it is read or written otherwise; None for any other, for one that nothing
    reads, and for one from which a multiply subtracts.
    """
    owner = accumulator.owner
    if not isinstance(owner, cute.AllocFragmentOp):
        return None
    block = block_of(owner)
    fill = _first_use(accumulator, block)
    if not isinstance(fill, cute.FillOp) or fill.parent is not block or not is_zero(fill.value):
        return None
    multiplies: list[cute.GemmOp] = []
    readers: list[Operation] = []
    is_rewritten = False
    for use in accumulator.uses:
        op = use.operation
        if op is fill:
            continue
        place = block.find_ancestor_op_in_block(op)
        if place is None:
            return None
        if isinstance(op, cute.GemmOp) and use.index == 2:
            if op.negate is not None:
                return None
            multiplies.append(op)
        else:
            is_rewritten = is_rewritten or accumulator in written(op)
            readers.append(op)
    blocks = {op.parent for op in multiplies}
    if len(blocks) != 1 or not readers:
        return None
    (inner,) = blocks
    assert inner is not None
    loop = None
    if inner is not block:
        loop = inner.parent_op()
        if not isinstance(loop, scf.ForOp) or loop.parent is not block or loop.results:
            return None
    multiplies.sort(key=inner.get_operation_index)
    last = block.get_operation_index(loop or multiplies[-1])
    for op in readers:
        place = block.find_ancestor_op_in_block(op)
        assert place is not None
        if block.get_operation_index(place) <= last:
            return None
    readers.sort(key=lambda op: block.get_operation_index(_in(block, op)))
    return Accumulation(fill, loop, multiplies, readers, is_rewritten)


def _first_use(value: SSAValue, block: Block) -> Operation | None:
    """The first op of a block that uses a value, itself or in a region."""
    places = [block.find_ancestor_op_in_block(use.operation) for use in value.uses]
    found = [place for place in places if place is not None]
    return min(found, key=block.get_operation_index) if len(found) == len(places) > 0 else None


def _in(block: Block, op: Operation) -> Operation:
    found = block.find_ancestor_op_in_block(op)
    assert found is not None
    return found


def columns_needed(shape: tuple[int, int]) -> int:
    """Columns of tensor memory of a tile: blocks of 128 rows lie side by side."""
    rows, columns = shape
    return -(-rows // LANES) * columns


def tensor_layout(shape: tuple[int, int], atom: Tcgen05Atom) -> Layout:
    """(row, column) of a tile of whole products to its address.

    >>> from cutedialect.atoms.tcgen05_atoms import tcgen05_atom
    >>> print(tensor_layout((256, 64), tcgen05_atom("tcgen05_f16_cg1_m128n64k16_f32_f16_f16")))
    ((128,2),64):((65536,64),1)
    """
    rows, columns = shape
    inner = atom.c_tmem_layout[0]
    blocks = rows // (atom.shape_mnk[0] // atom.cta_group)
    return _side_by_side(inner, blocks, columns)


def operand_tensor_layout(shape: tuple[int, int], atom: Tcgen05Atom, bits: int) -> Layout:
    """(row, depth) of A of whole products, in tensor memory, to its place in elements of so many
    bits.

    >>> from cutedialect.atoms.tcgen05_atoms import tcgen05_atom
    >>> atom = tcgen05_atom("tcgen05_f16_cg1_m128n64k16_f32_f16_f16")
    >>> print(operand_tensor_layout((256, 64), atom, 16))
    ((128,2),64):((131072,64),1)
    """
    rows, depth = shape
    inner = operand_layout(atom.shape_mnk[0], atom.shape_mnk[2], bits)[0]
    return _side_by_side(inner, rows // atom.shape_mnk[0], depth)


def _side_by_side(rows: Layout, blocks: int, columns: int) -> Layout:
    """Blocks of so many columns, next to each other."""
    if blocks == 1:
        return Layout((rows.shape, columns), (rows.stride, 1))
    return Layout(((rows.shape, blocks), columns), ((rows.stride, columns), 1))


def move_accumulator(
    life: Accumulation, atom: Tcgen05Atom, insert: Insert, insert_top: Insert, registers: int
) -> None:
    """Let an accumulator live in tensor memory until it is read by threads of so many registers."""
    accumulator = life.fill.fragment
    type_ = cute.fragment_of(accumulator)
    rows, columns = type_.shape
    memory = cute.MemRefType.get(type_.element, "tmem", 4, tensor_layout((rows, columns), atom))
    alloc = insert_top(cute.AllocTmemOp(memory), life.fill)
    tensor = alloc.results[0]
    tensor.name_hint = accumulator.name_hint
    _start_from_zero(life, tensor, insert)
    ran = _any_trip(life, insert)
    if life.is_rewritten:
        rewrites = rewrites_of(accumulator, _block(life), life.readers, registers)
        if rewrites is None:
            # From here on it is a register tile like any other.
            _load(tensor, accumulator, ran, life, _in(_block(life), life.readers[0]), insert)
            _remove(life.fill)
            return
        _rewrite(life, tensor, ran, rewrites, insert)
        ran = None
    whole: SSAValue | None = None
    for reader in life.readers:
        if isinstance(reader, cute.ExtractOp):
            origin = tuple(int(each) for each in reader.origin.get_values())
            part = cute.fragment_of(reader.result)
            view = insert(cute.SubviewOp(tensor, origin, part.shape), reader).results[0]
            fragment = insert(cute.AllocFragmentOp(part), reader).results[0]
            _load(view, fragment, ran, life, reader, insert)
            reader.result.replace_all_uses_with(fragment)
            _remove(reader)
            continue
        if whole is None or life.is_rewritten:
            place = reader if life.is_rewritten else _in(_block(life), reader)
            whole = insert(cute.AllocFragmentOp(type_), place).results[0]
            _load(tensor, whole, ran, life, place, insert)
        for index, operand in enumerate(reader.operands):
            if operand is accumulator:
                reader.operands[index] = whole
    owner = accumulator.owner
    assert isinstance(owner, Operation)
    _remove(life.fill)
    _remove(owner)


def stays_in_tensor_memory(life: Accumulation, registers: int) -> bool:
    """Whether an accumulator is in tensor memory until it has been read for the last time."""
    accumulator = life.fill.fragment
    return (
        not life.is_rewritten
        or rewrites_of(accumulator, _block(life), life.readers, registers) is not None
    )


def _rewrite(
    life: Accumulation, tensor: SSAValue, ran: SSAValue | None, rewrites: Rewrites, insert: Insert
) -> None:
    """Keep an accumulator that threads write anew where it is; `life` has the readers that stay."""
    accumulator = life.fill.fragment
    if ran is not None:
        place = _in(_block(life), life.readers[0])
        zeros = Block([ending := scf.YieldOp()])
        nothing = Block([scf.YieldOp()])
        for op in (ending, nothing.last_op):
            assert op is not None
            op.location = place.location
        insert(scf.IfOp(ran, [], Region(nothing), Region(zeros)), place)
        fill_in_columns(accumulator, tensor, life.fill.value, rewrites.columns, insert, ending)
    rewrite_in_columns(accumulator, tensor, rewrites, insert)
    life.readers = [use.operation for use in accumulator.uses if use.operation is not life.fill]
    for reader in list(life.readers):
        if read_in_columns(reader, accumulator, tensor, rewrites.columns, insert):
            life.readers.remove(reader)


def _block(life: Accumulation) -> Block:
    block = block_of(life.fill)
    return block


def _remove(op: Operation) -> None:
    erase(op)


def _start_from_zero(life: Accumulation, tensor: SSAValue, insert: Insert) -> None:
    """The first multiply of the first trip ignores what tensor memory holds."""
    first = life.multiplies[0]
    for gemm in life.multiplies:
        keeps: SSAValue | None = None
        if gemm is first:
            later: Operation
            if life.loop is None:
                later = arith.ConstantOp(IntegerAttr(0, i1))
            else:
                later = arith.CmpiOp(life.loop.body.block.args[0], life.loop.lb, "ne")
            keeps = insert(later, gemm).results[0]
        moved = cute.GemmOp(gemm.a, gemm.b, tensor, gemm.atom, keeps=keeps)
        insert(moved, gemm)
        _remove(gemm)


def _any_trip(life: Accumulation, insert: Insert) -> SSAValue | None:
    """Whether the loop runs at all; None where it surely does."""
    if life.loop is None:
        return None
    after = life.loop.next_op
    assert after is not None
    return insert(arith.CmpiOp(life.loop.lb, life.loop.ub, "slt"), after).results[0]


def _load(
    view: SSAValue, fragment: SSAValue, ran: SSAValue | None, life: Accumulation,
    before: Operation, insert: Insert,
) -> None:  # fmt: skip
    """Write to a register tile what tensor memory holds, or 0 where nothing was multiplied."""
    type_ = cute.fragment_of(fragment)
    copy = cute.CopyOp(view, fragment, atom=TmemLoadType.get(type_.element))
    if ran is None:
        insert(copy, before)
        return
    fill = cute.FillOp(fragment, life.fill.value)
    for op in (copy, fill):
        op.location = before.location
    sides = [Block([op, scf.YieldOp()]) for op in (copy, fill)]
    insert(scf.IfOp(ran, [], Region(sides[0]), Region(sides[1])), before)


@dataclass(frozen=True)
class TensorPlan:
    """What the accumulators of a kernel's multiplies take if all of them are in tensor memory: its
    columns, one accumulator for each multiply whose own is added to in registers, the elements of
    the latter, and the columns of accumulators that a role corrects there.
    """

    columns: int
    summed: int
    corrected: int = 0


def tensor_plan(op: cute.GemmOp) -> TensorPlan:
    """The plan of the kernel around a multiply."""
    kernel = op.parent_op()
    while kernel is not None and not isinstance(kernel, cute.KernelOp):
        kernel = kernel.parent_op()
    gemms = [op] if kernel is None else ops_of(kernel, cute.GemmOp)
    columns = 0
    seen: set[SSAValue] = set()
    summed: dict[SSAValue, int] = {}
    corrected: dict[SSAValue, int] = {}
    may_correct = kernel is not None and corrects(kernel)
    for each in gemms:
        type_ = each.acc.type
        if not isinstance(type_, cute.FragmentType):
            continue
        if accumulation_of(each.acc) is not None:
            if each.acc in seen:
                continue
            seen.add(each.acc)
        elif may_correct and correction_of(each.acc) is not None:
            corrected[each.acc] = columns_needed(type_.shape)  # pyright: ignore[reportArgumentType]
            continue
        else:
            summed[each.acc] = prod(type_.shape)
        rows, wide = type_.shape
        columns += columns_needed((rows, wide))
    return TensorPlan(columns, sum(summed.values()), sum(corrected.values()))
