"""Whether any element of a tile of 16-bit floats is 2 or more, or less than -2, or NaN: the top bit
of an exponent says so, and an or of all registers has it if an element does.

    any(~(abs(x) < 2))  =>  (x[0] | x[1] | ...) & top bits != 0
"""

from __future__ import annotations

from functools import reduce

from xdsl.dialects import arith, math
from xdsl.dialects.builtin import BFloat16Type, Float16Type, FloatAttr
from xdsl.ir import SSAValue

from cutedialect.dialects.cute import MapOp
from cutedialect.passes.analysis.memory_views import constant_of

from .context import Context, array_class
from .elementwise import Fragment
from .scalar_builder import Scalar

_TOP_BITS = 0x40004000
_LEAST = 2.0
# Ordered, less than (arith.cmpf).
_LESS = 4
# Registers are combined in so many parts, which wait for each other less.
_WAYS = 2


def tested(op: MapOp) -> SSAValue | None:
    """The tile of which a map asks for nothing but which elements are not within -2 and 2; None for
    another map.
    """
    end = op.body.block.last_op
    if end is None or len(op.inputs) != 1:
        return None
    element = op.inputs[0].type.element  # pyright: ignore[reportAttributeAccessIssue]
    if not isinstance(element, Float16Type | BFloat16Type):
        return None
    inverted = end.operands[0].owner
    if not isinstance(inverted, arith.XOrIOp) or not constant_of(inverted.rhs):
        return None
    compared = inverted.lhs.owner
    if not isinstance(compared, arith.CmpfOp) or compared.predicate.value.data != _LESS:
        return None
    magnitude, limit = compared.lhs.owner, compared.rhs.owner
    if not isinstance(magnitude, math.AbsFOp) or not isinstance(limit, arith.ConstantOp):
        return None
    given = magnitude.operand
    if isinstance(given.owner, arith.ExtFOp):
        given = given.owner.input
    is_least = isinstance(limit.value, FloatAttr) and limit.value.value.data == _LEAST
    return op.inputs[0] if is_least and given is op.body.block.args[0] else None


def has_large(context: Context, tile: Fragment) -> Scalar | None:
    """Whether a thread has such an element; None where registers hold one element each."""
    if array_class(tile.array) != "b32" or tile.values % 2:
        return None
    builder = context.builder
    words = [builder.get(tile.array, index) for index in range(tile.values // 2)]

    def both(one: Scalar, other: Scalar) -> Scalar:
        return builder.pure("or.b32", one, other)

    parts = [reduce(both, words[way::_WAYS]) for way in range(min(_WAYS, len(words)))]
    top = builder.pure("and.b32", reduce(both, parts), _TOP_BITS)
    return builder.pure("setp.ne.s32", top, 0)
