"""A tile of ones in shared memory beside B, with which a multiply of warpgroups adds up the rows of
A, too: the columns behind those of B are in the next span of its swizzle, to which the descriptor's
leading offset leads from each step of the depth.

    start of step k of B + leading offset(k) = the tile of ones

Threads write it before the roles begin, and nobody does later.
"""

from __future__ import annotations

from xdsl.dialects.builtin import BFloat16Type, Float16Type
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.atoms.matrix_descriptor import MatrixDescriptor
from cutedialect.dialects import cute, ptx
from cutedialect.dialects.walks import ops_of
from cutedialect.passes.anchors import anchored
from cutedialect.passes.roles.resource_plan import ONES_BYTES

from .context import Context
from .scalar_builder import Scalar

# Two ones in a register.
_PAIRS = {BFloat16Type: 0x3F803F80, Float16Type: 0x3C003C00}
_VECTOR, _WORDS = 16, 4
# Any lines do: a swizzle exchanges vectors of a line.
_LINE = 128
# Where the leading offset stands in a descriptor, and its bits.
_LEADING, _BITS = 16, 0x3FFF


@anchored(marks=("sums",))
def write_ones(kernel: Operation, context: Context) -> None:
    """Take memory behind all buffers for the ones of a kernel's multiplies, and write them."""
    gemms = [op for op in ops_of(kernel, cute.GemmOp) if op.sums is not None]
    builder = context.builder
    for element in dict.fromkeys(cute.element_of(op.a.type) for op in gemms):
        place = context.smem.take(ONES_BYTES, _LINE)
        context.ones[element] = place
        thread = builder.assume_nonnegative(builder.special("tid.x"))
        ones = context.registers("b32", _WORDS)
        context.fill(ones, _PAIRS[type(element)])
        moved = builder.pure("mul.lo.s32", thread, _VECTOR)
        address = builder.smem(moved)

        def write(ones: SSAValue = ones, address: SSAValue = address, place: int = place) -> None:
            context.store("shared.v4.b32", ones, address, [place])
            builder.emit(ptx.FenceOp("proxy.async.shared::cta"))

        context.when(builder.pure("setp.lt.u32", thread, ONES_BYTES // _VECTOR), write)


def beside_ones(
    context: Context, element: Attribute, chunk: Scalar, described: MatrixDescriptor
) -> Scalar:
    """The descriptor of B with ones behind its columns, for a start in units of 16 bytes."""
    builder = context.builder
    base = builder.total([builder.smem_base(), context.ones[element]])
    ones = builder.pure("shr.u32", base, _VECTOR.bit_length() - 1)
    leading = builder.pure("and.b32", builder.pure("sub.s32", ones, chunk), _BITS)
    low = builder.pure("or.b32", builder.pure("shl.b32", leading, _LEADING), chunk)
    constant = described.constant & ~(_BITS << _LEADING)
    return builder.pure("or.b64", builder.pure("cvt.u64.u32", low), constant)


def steps_beside_ones(addends: tuple[int, ...]) -> tuple[int, ...]:
    """What to add to the descriptor for each step of the depth: the leading offset falls as the
    start rises.
    """
    return tuple(step - (step << _LEADING) for step in addends)
