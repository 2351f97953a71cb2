"""`wgmma`: one op for all instructions of a `cute.gemm` of warpgroups, k outermost; and
accumulators that start from zero: the first trip of a loop of wgmma ignores what they hold, so that
nothing has to be written to them; only a loop without a trip leaves the zeros to be written.

    fill acc, 0; for k { gemm a, b, acc }; use acc
    =>
    for k { gemm a, b, acc (scale-d: k > first) }; if no trip { fill acc, 0 }; use acc

Without a loop the multiply ignores them anyway. A multiply that adds up the rows of A, too, reads a
tile of ones beside B: the columns behind those of B are in the next span of its swizzle, to which
the descriptor's leading offset leads from each step of the depth.

    start of step k of B + leading offset(k) = the tile of ones

Threads write it before the roles begin (`cute_nvgpu.write_ones`), and nobody does later.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from typing import TYPE_CHECKING

from xdsl.dialects import scf
from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.atoms.matrix_descriptor import (
    MatrixDescriptor,
    matrix_descriptor,
    operand_addends,
)
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects import ptx
from cutedialect.dialects.cute import FillOp, GemmOp, memref_of
from cutedialect.dialects.cute_nvgpu import Sm90MmaType, WgmmaFenceOp, WriteOnesOp
from cutedialect.dialects.walks import index_in_block, ops_ahead
from cutedialect.layout import Layout, coalesce
from cutedialect.passes.analysis.smem_layouts import in_order
from cutedialect.passes.rewriting import block_of

from .addresses import Address, memory_op, tile_address
from .context import Context, array_class
from .elementwise import Fragment
from .scalar_builder import Scalar
from .views import View

if TYPE_CHECKING:
    from .lowering import KernelLowering

_ADDRESS_BITS = 0x3FFF
# Lanes that hold a row of A together.
_QUAD = 4
# Two ones in a register.
_PAIRS = {BFloat16Type: 0x3F803F80, Float16Type: 0x3C003C00}
_VECTOR, _WORDS = 16, 4
# Where the leading offset stands in a descriptor, and its bits.
_LEADING, _BITS = 16, 0x3FFF


def lower_wgmma(
    context: Context, op: GemmOp, a: View | Fragment, b: View, acc: Fragment, keeps: Scalar = True
) -> ptx.WgmmaOp:
    """acc += a b^T, started; `wgmma_wait` ends it. B is in shared memory, A there or in registers.
    Where `keeps` is false, acc = a b^T. What was emitted last is returned.

    The role's warpgroups lie along M first, each with `rows` blocks of 64 rows next to each other.
    """
    type_ = op.atom
    assert isinstance(type_, Sm90MmaType)
    atom = type_.entry(context.arch)
    assert isinstance(atom, WgmmaAtom)
    am, an, ak = atom.shape_mnk
    rows, columns = acc.repetitions(atom.values[2])
    m, n = acc.type.shape
    across, along = m // (rows * am), n // (columns * an)
    builder = context.builder
    group = builder.pure("shr.u32", context.warp_index(), 2)
    group_m: Scalar = builder.rem(group, across) if along > 1 else group
    group_n: Scalar = builder.div(group, across) if along > 1 else 0
    if across == 1:
        group_m = 0
    depth = depth_order(atom, a) if isinstance(a, Fragment) else None
    ones = op.columns_of_sums
    rhs, b_major, b_table = _operand(
        context, op.b, b, an - ones, ak, columns, along, group_n, depth, has_ones=ones > 0
    )
    steps = len(b_table[0])
    if isinstance(a, Fragment):
        if a.repetitions(atom.values[0]) != (rows, steps):
            raise ValueError(
                f"expected A with repetitions {(rows, steps)} of the atom for each thread, got "
                f"{a.repetitions(atom.values[0])}"
            )
        lhs, a_major = a.array, "K"
        if array_class(lhs) != "b32":
            raise ValueError(
                "expected A in registers rounded by cute_nvgpu.round_to_tf32, in front of the "
                f"fence (cute-expand-roles), got {a.type}"
            )
        width = atom.registers_a
        a_table: Sequence[Sequence[int]] = [
            [(row + rows * k) * width for k in range(steps)] for row in range(rows)
        ]
    else:
        lhs, a_major, a_table = _operand(context, op.a, a, am, ak, rows, across, group_m)
        width = 0
    order = [
        (k, row, column) for k in range(steps) for row in range(rows) for column in range(columns)
    ]
    starts, scale = first_steps(context, False if type_.scale_d == 0 else keeps, order)
    multiply = ptx.WgmmaOp(
        atom.ptx.removeprefix("wgmma.mma_async."),
        acc.array,
        lhs,
        rhs,
        (atom.registers_c, width),
        [(row + rows * column) * atom.registers_c for _, row, column in order],
        [a_table[row][k] for k, row, _ in order],
        [b_table[column][k] for k, _, column in order],
        scale_d=starts,
        scale=scale,
        immediates=type_.immediates(a_major, b_major),
    )
    builder.emit(multiply)
    return multiply


def first_steps(
    context: Context, keeps: Scalar, order: Sequence[tuple[int, int, int]]
) -> tuple[list[SSAValue], list[int] | None]:
    """Predicates and their table for steps (k, row, column): where `keeps` is false, the first step
    of each accumulator starts anew.
    """
    if keeps is True:
        return [], None
    return [context.builder.value(keeps, "pred")], [-1 if k else 0 for k, _, _ in order]


def depth_order(atom: WgmmaAtom, fragment: Fragment) -> Layout | None:
    """Which k of a tile stands where in the depth of the atom, for A in registers; None where all
    are in their place.
    """
    rows, depth = fragment.type.shape[0], atom.shape_mnk[2]
    have, atom_rows = fragment.tv, atom.shape_mnk[0]
    found = list(range(depth))
    for lane in range(_QUAD):
        for value in range(atom.values[0]):
            place = atom.a_layout((lane, value)) // atom_rows
            found[place] = have((lane, value)) // rows
    if found == list(range(depth)):
        return None
    bits = [1 << i for i in range(depth.bit_length() - 1)]
    return coalesce(Layout((2,) * len(bits), tuple(found[bit] for bit in bits)))


def operand_descriptor(
    context: Context, value: SSAValue, view: View, rows: int, depth: int
) -> tuple[SSAValue, str, Sequence[Sequence[int]]]:
    """A whole operand of tcgen05: descriptor, major, addends of (block of rows, k step)."""
    return _operand(context, value, view, rows, depth, 1, 1, 0, unit="tcgen05")


def _operand(
    context: Context,
    value: SSAValue,
    view: View,
    rows: int,
    depth: int,
    blocks: int,
    groups: int,
    group: Scalar,
    order: Layout | None = None,
    unit: str = "wgmma",
    has_ones: bool = False,
) -> tuple[SSAValue, str, Sequence[Sequence[int]]]:
    """This warpgroup's part of an operand: descriptor, major, addends of (block, k step). `order`
    is that of the depth of A, in which this operand's has to be contiguous; `has_ones`: with the
    columns that add up the rows of A.
    """
    builder = context.builder
    type_ = memref_of(value)
    layout = type_.layout if order is None else in_order(type_.layout, order)
    described = matrix_descriptor(layout, type_.swizzle, type_.bits, rows, unit)
    addends = operand_addends(layout, type_.swizzle, type_.bits, rows, depth, unit)
    step = 0
    if group != 0:
        step = addends[blocks][0] - addends[0][0]
        if any(
            addends[at][0] - addends[at % blocks][0] != at // blocks * step
            for at in range(groups * blocks)
        ):
            raise ValueError(f"expected the parts of the warpgroups equally far apart, got {type_}")
    # Few instructions of numbers that all threads have.
    with builder.near():
        address, immediate = tile_address(builder, view)
        chunk = builder.pure("shr.u32", builder.add(address, immediate), 4)
        if group != 0:
            chunk = builder.add(chunk, builder.mul(group, step))
        low = builder.pure("and.b32", chunk, _ADDRESS_BITS)
        found = None if has_ones else builder.matrix(low, described)
    if has_ones:
        # The leading offset falls as the start rises.
        table = [tuple(step - (step << _LEADING) for step in row) for row in addends]
        return _beside_ones(context, type_.element, low, described), described.major, table
    assert found is not None
    return found, described.major, addends


def write_ones(self: KernelLowering, op: WriteOnesOp) -> None:
    """Write the ones of multiplies of a type of elements."""
    context, builder, type_ = self.context, self.builder, memref_of(op.tile)
    place = self.view(op, op.tile).root
    assert isinstance(place, int)
    context.ones[type_.element] = place
    thread = builder.special("tid.x")
    ones = context.registers("b32", _WORDS)
    context.fill(ones, _PAIRS[type(type_.element)])
    at = Address(builder.smem(builder.mul(thread, _VECTOR)), place)

    def write() -> None:
        memory_op(context, ptx.StOp, "shared.v4.b32", ones, [at], range(_WORDS))

    size = type_.layout.size() * type_.bits // 8
    context.when(builder.pure("setp.lt.u32", thread, size // _VECTOR), write)


def _beside_ones(
    context: Context, element: Attribute, chunk: Scalar, described: MatrixDescriptor
) -> SSAValue:
    """The descriptor of B with ones behind its columns, for a start in units of 16 bytes."""
    builder, place = context.builder, context.ones.get(element)
    if place is None:
        raise ValueError(
            f"expected cute_nvgpu.write_ones of elements of {element} in front of a multiply with "
            "sums, got none"
        )
    base = builder.total([builder.smem_base(), place])
    ones = builder.pure("shr.u32", base, _VECTOR.bit_length() - 1)
    leading = builder.pure("and.b32", builder.sub(ones, chunk), _BITS)
    low = builder.pure("or.b32", builder.pure("shl.b32", leading, _LEADING), chunk)
    return builder.matrix(low, replace(described, lbo=None))


@dataclass(frozen=True)
class FreshAccumulator:
    """The loop (None for a multiply next to the fill), the multiply in it that comes first, and the
    first op after the loop that may read; where that is a multiply, the fence in front of it, which
    has to come behind all that writes its accumulator.
    """

    fill: FillOp
    loop: scf.ForOp | None
    first: Operation
    reader: Operation | None


def fresh_accumulator(fill: FillOp) -> FreshAccumulator | None:
    """What takes the place of a fill with zero, or None where the fill has to stay: a wgmma of the
    same block, or one loop of it, directly in which wgmma alone uses the accumulator, comes before
    all other uses.
    """
    block, accumulator = block_of(fill), fill.fragment
    inside: dict[Operation | None, list[Operation]] = {}
    for use in accumulator.uses:
        place = block.find_ancestor_op_in_block(use.operation)
        inside.setdefault(place, []).append(use.operation)
    following: list[Operation] = []
    op = fill.next_op
    while op is not None:
        if op in inside:
            following.append(op)
        op = op.next_op
    if None in inside or not following:
        return None
    loop = following[0]
    if _multiplies_into(loop, accumulator):
        return FreshAccumulator(fill, None, loop, None)
    if not isinstance(loop, scf.ForOp) or not all(
        _multiplies_into(user, accumulator) and user.parent is loop.body.block
        for user in inside[loop]
    ):
        return None
    first = min(inside[loop], key=index_in_block)
    reader = following[1] if len(following) > 1 else None
    if reader is not None and _multiplies_into(reader, accumulator):
        between = takewhile(lambda op: op is not loop, ops_ahead(reader))
        reader = next((op for op in between if isinstance(op, WgmmaFenceOp)), reader)
    return FreshAccumulator(fill, loop, first, reader)


def _multiplies_into(op: Operation, accumulator: SSAValue) -> bool:
    return isinstance(op, GemmOp) and isinstance(op.atom, Sm90MmaType) and op.acc is accumulator
