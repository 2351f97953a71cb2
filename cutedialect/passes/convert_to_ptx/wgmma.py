"""`wgmma`: one op for all instructions of a `cute.gemm` of warpgroups, k outermost."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import SSAValue

from cutedialect.atoms.matrix_descriptor import matrix_descriptor, operand_addends
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects import ptx
from cutedialect.dialects.cute import GemmOp, MemRefType
from cutedialect.dialects.cute_nvgpu import Sm90MmaType
from cutedialect.layout import product

from .context import Context, fail
from .elementwise import Fragment
from .scalar_builder import Scalar
from .tensor_copies import tile_address
from .views import View

_ADDRESS_BITS = 0x3FFF


def lower_wgmma(context: Context, op: GemmOp, a: View, b: View, acc: Fragment) -> None:
    """acc += a b^T for operands in shared memory, started; `wgmma_wait` ends it."""
    type_ = op.atom
    assert isinstance(type_, Sm90MmaType)
    atom = type_.entry(context.arch)
    assert isinstance(atom, WgmmaAtom)
    am, an, ak = atom.shape_mnk
    tv = acc.type.tv
    assert tv is not None
    values = tv.shape[1]  # type: ignore[index]
    if not isinstance(values, tuple) or len(values) != 3:
        raise fail(op, f"expected values (atom, rest, rest) of the accumulator, got {values}")
    rows, columns = product(values[1]), product(values[2])
    m, n = acc.type.shape
    across, along = m // (rows * am), n // (columns * an)  # type: ignore[operator]
    group = context.builder.pure("shr.u32", context.warp, 2)
    context.builder.assume_nonnegative(group)
    group_m: Scalar = context.builder.pure("rem.u32", group, across) if along > 1 else group
    group_n: Scalar = context.builder.pure("div.u32", group, across) if along > 1 else 0
    if across == 1:
        group_m = 0
    lhs, a_major, a_table = _operand(context, op.a, a, am, ak, rows, group_m)
    rhs, b_major, b_table = _operand(context, op.b, b, an, ak, columns, group_n)
    steps = len(a_table[0])
    c_table, a_index, b_index = [], [], []
    for k in range(steps):
        for row in range(rows):
            for column in range(columns):
                c_table.append((row + rows * column) * atom.registers_c)
                a_index.append(a_table[row][k])
                b_index.append(b_table[column][k])
    context.builder.emit(
        ptx.WgmmaOp(
            atom.ptx.removeprefix("wgmma.mma_async."),
            acc.array,
            lhs,
            rhs,
            (atom.registers_c, 0),
            c_table,
            a_index,
            b_index,
            immediates=atom.immediates(a_major=a_major, b_major=b_major),
        )
    )


def _operand(
    context: Context,
    value: SSAValue,
    view: View,
    rows: int,
    depth: int,
    blocks: int,
    group: Scalar,
) -> tuple[SSAValue, str, Sequence[Sequence[int]]]:
    """This warpgroup's part of an operand: descriptor, major, addends of (block, k step)."""
    builder = context.builder
    type_ = value.type
    assert isinstance(type_, MemRefType)
    described = matrix_descriptor(type_.layout, type_.swizzle, type_.bits, rows)
    addends = operand_addends(type_.layout, type_.swizzle, type_.bits, rows, depth)
    address, immediate = tile_address(builder, view)
    chunk = builder.pure("shr.u32", builder.pure("add.s32", address, immediate), 4)
    if group != 0:
        step = addends[blocks][0] - addends[0][0]
        chunk = builder.pure("add.s32", chunk, builder.pure("mul.lo.s32", group, step))
    low = builder.pure("and.b32", chunk, _ADDRESS_BITS)
    wide = builder.pure("cvt.u64.u32", low)
    descriptor = builder.pure("or.b64", wide, described.constant)
    return builder.value(descriptor, "b64"), described.major, addends
