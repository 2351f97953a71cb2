"""Accumulators that change between multiplies and stay in tensor memory, where a role of the plan
corrects them in place.

    fill o, 0; for j { copy o * r[j], o; gemm p, v[j], o }; y = o * f
    =>
    fill z, 0; copy z, t
    for j { copy t, x; copy x * r[j], t; gemm p, v[j], t }
    copy t, o; y = o * f

A thread holds some columns at a time. Multiplies and corrections take turns: `cute-synchronize`
hands the buffer from one role to the other and back (`in_place_rings.py`).
"""

from __future__ import annotations

from xdsl.dialects import arith
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AllocTmemOp,
    CopyOp,
    ExtractOp,
    FillOp,
    FragmentType,
    GemmOp,
    MapOp,
    MemRefType,
    ReduceOp,
    SubviewOp,
    fragment_of,
)
from cutedialect.dialects.cute_nvgpu import TmemLoadType, TmemStoreType
from cutedialect.passes.bind.corrections import Correction
from cutedialect.passes.bind.tensor_accumulators import Insert, tensor_layout
from cutedialect.passes.bind.thread_layouts import tensor_accumulator
from cutedialect.passes.rewriting import block_of, erase

# Reductions of floats that are those of their parts combined element by element.
_COMBINES = {"add": arith.AddfOp, "max": arith.MaximumfOp, "min": arith.MinimumfOp}
# Columns of a tile that a thread corrects at a time, widest first.
_CHUNKS = (32, 16, 8)


def move_correction(
    life: Correction, atom: Tcgen05Atom, warps: tuple[int, int], insert: Insert, insert_top: Insert
) -> None:
    """Let an accumulator live in tensor memory, and change there."""
    accumulator = life.fill.fragment
    type_ = fragment_of(accumulator)
    rows, columns = type_.shape
    layout = tensor_layout((rows, columns), atom)
    memory = MemRefType.get(type_.element, "tmem", 4, layout)
    tensor = insert_top(AllocTmemOp(memory), life.fill).results[0]
    tensor.name_hint = accumulator.name_hint
    wide = next((w for w in _CHUNKS if columns % w == 0 and w % (8 * warps[1]) == 0), columns)
    part = FragmentType.get(type_.element, (rows, wide), tensor_accumulator((rows, wide), warps))
    load, store = TmemLoadType.get(type_.element), TmemStoreType.get(type_.element)

    def view(first: int, before: Operation) -> SSAValue:
        return insert(SubviewOp(tensor, (0, first), (rows, wide)), before).results[0]

    zero = insert(AllocFragmentOp(part), life.fill).results[0]
    insert(FillOp(zero, life.fill.value), life.fill)
    for first in range(0, columns, wide):
        insert(CopyOp(zero, view(first, life.fill), atom=store), life.fill)
    for update, kept in life.updates:
        for first in range(0, columns, wide):
            place = view(first, update)
            held = insert(AllocFragmentOp(part), update).results[0]
            insert(CopyOp(place, held, atom=load), update)
            inputs = [held if value is accumulator else value for value in update.inputs]
            changed = insert(MapOp(inputs, part, update.body.clone()), update).results[0]
            insert(CopyOp(changed, place, atom=store), update)
        erase(kept)
        erase(update)
    for gemm in life.multiplies:
        insert(GemmOp(gemm.a, gemm.b, tensor, gemm.atom), gemm)
        erase(gemm)
    _read(life, accumulator, tensor, part, insert)
    erase(life.fill)
    owner = accumulator.owner
    assert isinstance(owner, Operation)
    erase(owner)


def _read(
    life: Correction, accumulator: SSAValue, tensor: SSAValue, part: FragmentType, insert: Insert
) -> None:
    """Let each reader have what tensor memory holds: some columns of it, those of a part after each
    other where they are combined, or once for all others.
    """
    block = block_of(life.loop)
    whole: SSAValue | None = None
    for reader in sorted(life.readers, key=lambda op: _index(block, op)):
        if isinstance(reader, ExtractOp):
            origin = tuple(int(each) for each in reader.origin.get_values())
            wanted = fragment_of(reader.result)
            reader.result.replace_all_uses_with(_columns(tensor, origin[1], wanted, reader, insert))
            erase(reader)
            continue
        if isinstance(reader, ReduceOp) and _is_combined(reader):
            _combine(tensor, accumulator, part, reader, insert)
            continue
        if whole is None:
            place = block.find_ancestor_op_in_block(reader)
            assert place is not None
            type_ = fragment_of(accumulator)
            whole = insert(AllocFragmentOp(type_), place).results[0]
            insert(CopyOp(tensor, whole, atom=TmemLoadType.get(type_.element)), place)
        for index, operand in enumerate(reader.operands):
            if operand is accumulator:
                reader.operands[index] = whole


def _columns(
    tensor: SSAValue, first: int, wanted: FragmentType, before: Operation, insert: Insert
) -> SSAValue:
    """The columns of a buffer from a first one on, in registers."""
    view = insert(SubviewOp(tensor, (0, first), wanted.shape), before).results[0]
    fragment = insert(AllocFragmentOp(wanted), before).results[0]
    insert(CopyOp(view, fragment, atom=TmemLoadType.get(wanted.element)), before)
    return fragment


def _is_combined(op: ReduceOp) -> bool:
    """Whether a reduction along the rows is one of its parts, combined element by element."""
    has_one = op.result.type.shape[1:] == (1,)  # pyright: ignore[reportAttributeAccessIssue]
    return op.kind.data in _COMBINES and op.mode.value.data == 1 and has_one and op.packed is None


def _combine(
    tensor: SSAValue, accumulator: SSAValue, part: FragmentType, op: ReduceOp, insert: Insert
) -> None:
    """Combine some columns at a time, element by element, and reduce what they give."""
    columns = accumulator.type.shape[1]  # pyright: ignore[reportAttributeAccessIssue]
    total: SSAValue | None = None
    for first in range(0, columns, part.shape[1]):
        held = _columns(tensor, first, part, op, insert)
        if total is not None:
            both = MapOp.of(_COMBINES[op.kind.data], [total, held], part)
            held = insert(both, op).results[0]
        total = held
    assert total is not None
    op.operands[0] = total


def _index(block: Block, op: Operation) -> int:
    place = block.find_ancestor_op_in_block(op)
    assert place is not None
    return block.get_operation_index(place)
