"""`wgmma`: one op for all instructions of a `cute.gemm` of warpgroups, k outermost; and
accumulators that start from zero: the first trip of a loop of wgmma ignores what they hold, so that
nothing has to be written to them; only a loop without a trip leaves the zeros to be written.

    fill acc, 0; for k { gemm a, b, acc }; use acc
    =>
    for k { gemm a, b, acc (scale-d: k > first) }; if no trip { fill acc, 0 }; use acc

Without a loop the multiply ignores them anyway.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from cutedialect.atoms.matrix_descriptor import matrix_descriptor, operand_addends
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects import ptx
from cutedialect.dialects.cute import FillOp, GemmOp, memref_of
from cutedialect.dialects.cute_nvgpu import Sm90MmaType
from cutedialect.layout import Layout, coalesce, product
from cutedialect.passes.bind.smem_layouts import in_order
from cutedialect.passes.rewriting import block_of

from .addresses import tile_address
from .context import Context, fail
from .elementwise import Fragment, as_operand
from .ones import beside_ones, steps_beside_ones
from .scalar_builder import Scalar
from .views import View

_ADDRESS_BITS = 0x3FFF
# Lanes that hold a row of A together.
_QUAD = 4


def lower_wgmma(
    context: Context, op: GemmOp, a: View | Fragment, b: View, acc: Fragment, keeps: Scalar = True
) -> None:
    """acc += a b^T, started; `wgmma_wait` ends it. B is in shared memory, A there or in registers.
    Where `keeps` is false, acc = a b^T.

    The role's warpgroups lie along M first, each with `rows` blocks of 64 rows next to each other.
    """
    type_ = op.atom
    assert isinstance(type_, Sm90MmaType)
    atom = type_.entry(context.arch)
    assert isinstance(atom, WgmmaAtom)
    am, an, ak = atom.shape_mnk
    rows, columns = _rests(op, "the accumulator", acc, atom.values[2])
    m, n = acc.type.shape
    across, along = m // (rows * am), n // (columns * an)
    builder = context.builder
    group = builder.assume_nonnegative(builder.pure("shr.u32", context.warp_index(), 2))
    group_m: Scalar = builder.pure("rem.u32", group, across) if along > 1 else group
    group_n: Scalar = builder.pure("div.u32", group, across) if along > 1 else 0
    if across == 1:
        group_m = 0
    order = depth_order(atom, a) if isinstance(a, Fragment) else None
    ones = op.columns_of_sums
    rhs, b_major, b_table = _operand(
        context, op.b, b, an - ones, ak, columns, along, group_n, order, has_ones=ones > 0
    )
    steps = len(b_table[0])
    if isinstance(a, Fragment):
        if _rests(op, "A", a, atom.values[0]) != (rows, steps):
            raise fail(
                op,
                f"expected A with repetitions {(rows, steps)} of the atom for each thread, got "
                f"{_rests(op, 'A', a, atom.values[0])}",
            )
        lhs, a_major = as_operand(context, a), "K"
        if lhs is not a.array:
            # Registers of another class have been written since the fence.
            builder.emit(ptx.WgmmaFenceOp())
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
    if type_.scale_d == 0:
        keeps = False
    # Of each accumulator the first step alone may start anew.
    starts = [] if keeps is True else [builder.value(keeps, "pred")]
    scale = [0 if k == 0 else -1 for k, _, _ in order] if starts else None
    builder.emit(
        ptx.WgmmaOp(
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
    )


def _rests(op: GemmOp, name: str, fragment: Fragment, values: int) -> tuple[int, int]:
    """How often the atom repeats along the two modes of a fragment, for one warpgroup."""
    modes = fragment.tv.shape[1]  # type: ignore[index]
    if not isinstance(modes, tuple) or len(modes) != 3 or product(modes[0]) != values:
        raise fail(
            op, f"expected values (atom, rest, rest) of {name}, {values} in the atom, got {modes}"
        )
    return product(modes[1]), product(modes[2])  # type: ignore[return-value]


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
    address, immediate = tile_address(builder, view)
    chunk = builder.pure("shr.u32", builder.pure("add.s32", address, immediate), 4)
    if group != 0:
        step = addends[blocks][0] - addends[0][0]
        for start in range(0, groups * blocks, blocks):
            for block in range(blocks):
                if addends[start + block][0] - addends[block][0] != start // blocks * step:
                    raise ValueError(
                        f"expected the parts of the warpgroups equally far apart, got {type_}"
                    )
        chunk = builder.pure("add.s32", chunk, builder.pure("mul.lo.s32", group, step))
    low = builder.pure("and.b32", chunk, _ADDRESS_BITS)
    if has_ones:
        descriptor = beside_ones(context, type_.element, low, described)
        table = [steps_beside_ones(row) for row in addends]
        return builder.value(descriptor, "b64"), described.major, table
    wide = builder.pure("cvt.u64.u32", low)
    descriptor = builder.pure("or.b64", wide, described.constant)
    return builder.value(descriptor, "b64"), described.major, addends


@dataclass(frozen=True)
class FreshAccumulator:
    """The loop (None for a multiply next to the fill), the multiply in it that comes first, and the
    first op after the loop that may read.
    """

    fill: FillOp
    loop: scf.ForOp | None
    first: GemmOp
    reader: Operation | None


def fresh_accumulator(fill: FillOp) -> FreshAccumulator | None:
    """What takes the place of a fill with zero, or None where the fill has to stay: a wgmma of the
    same block, or one loop of it, directly in which wgmma alone uses the accumulator, comes before
    all other uses.
    """
    block = block_of(fill)
    accumulator = fill.fragment
    users = {use.operation for use in accumulator.uses if use.operation is not fill}
    inside: dict[Operation, list[Operation]] = {}
    for user in users:
        place = block.find_ancestor_op_in_block(user)
        if place is None:
            return None
        inside.setdefault(place, []).append(user)
    start = block.get_operation_index(fill)
    order = sorted(
        (each for each in inside if block.get_operation_index(each) > start),
        key=block.get_operation_index,
    )
    if order and _multiplies_into(order[0], accumulator):
        assert isinstance(order[0], GemmOp)
        return FreshAccumulator(fill, None, order[0], None)
    if not order or not isinstance(order[0], scf.ForOp):
        return None
    loop = order[0]
    multiplies: list[GemmOp] = []
    for user in inside[loop]:
        if not _multiplies_into(user, accumulator) or user.parent is not loop.body.block:
            return None
        assert isinstance(user, GemmOp)
        multiplies.append(user)
    first = min(multiplies, key=loop.body.block.get_operation_index)
    return FreshAccumulator(fill, loop, first, order[1] if len(order) > 1 else None)


def _multiplies_into(op: Operation, accumulator: SSAValue) -> bool:
    return isinstance(op, GemmOp) and isinstance(op.atom, Sm90MmaType) and op.acc is accumulator
