"""Scalars of a kernel: run-time values that are the same for the whole CTA."""

from __future__ import annotations

from typing import ClassVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, i1, i32
from xdsl.ir import Attribute, SSAValue

from .trace import Scope, current, error

Number = int | float | bool

_INT_COMPARE = {"eq": "eq", "ne": "ne", "lt": "slt", "le": "sle", "gt": "sgt", "ge": "sge"}
_FLOAT_COMPARE = {"eq": "oeq", "ne": "une", "lt": "olt", "le": "ole", "gt": "ogt", "ge": "oge"}


def binary_op(kind: str, lhs: SSAValue, rhs: SSAValue):
    """The arith op of a binary operator on two values of one type."""
    floating = isinstance(lhs.type, AnyFloat)
    ops: dict[str, tuple[type | None, type | None]] = {
        "add": (arith.AddfOp, arith.AddiOp),
        "sub": (arith.SubfOp, arith.SubiOp),
        "mul": (arith.MulfOp, arith.MuliOp),
        "truediv": (arith.DivfOp, None),
        "floordiv": (None, arith.DivSIOp),
        "mod": (None, arith.RemSIOp),
        "and": (None, arith.AndIOp),
        "or": (None, arith.OrIOp),
        "xor": (None, arith.XOrIOp),
        "maximum": (arith.MaximumfOp, arith.MaxSIOp),
        "minimum": (arith.MinimumfOp, arith.MinSIOp),
    }
    made = ops[kind][0 if floating else 1]
    if made is None:
        raise error(f"expected operands that '{kind}' is defined for, got {lhs.type}")
    return made(lhs, rhs)


def compare_op(kind: str, lhs: SSAValue, rhs: SSAValue):
    """The arith comparison of two values of one type; gives i1."""
    if isinstance(lhs.type, AnyFloat):
        return arith.CmpfOp(lhs, rhs, _FLOAT_COMPARE[kind])
    return arith.CmpiOp(lhs, rhs, _INT_COMPARE[kind])


class Scalar:
    """A run-time scalar; operators append IR."""

    __slots__ = ("scope", "value")
    __array_priority__: ClassVar[int] = 1000

    def __init__(self, value: SSAValue, scope: Scope | None = None) -> None:
        self.value = value
        self.scope = scope or current().scope

    @property
    def type(self) -> Attribute:
        return self.value.type

    def use(self) -> SSAValue:
        """The value, checked to be alive."""
        current().check_alive(self.scope, "a scalar")
        return self.value

    def _binary(self, kind: str, other: object, swap: bool = False) -> Scalar:
        if not isinstance(other, Scalar | int | float | bool):
            return NotImplemented
        right = other.use() if isinstance(other, Scalar) else _literal(other, self.type)
        left = self.use()
        if left.type != right.type:
            raise error(f"expected operands of one type, got {left.type} and {right.type}")
        if swap:
            left, right = right, left
        if kind in _INT_COMPARE:
            return Scalar(current().insert(compare_op(kind, left, right)).results[0])
        return Scalar(current().insert(binary_op(kind, left, right)).results[0])

    def __add__(self, other: object) -> Scalar:
        return self._binary("add", other)

    def __radd__(self, other: object) -> Scalar:
        return self._binary("add", other, True)

    def __sub__(self, other: object) -> Scalar:
        return self._binary("sub", other)

    def __rsub__(self, other: object) -> Scalar:
        return self._binary("sub", other, True)

    def __mul__(self, other: object) -> Scalar:
        return self._binary("mul", other)

    def __rmul__(self, other: object) -> Scalar:
        return self._binary("mul", other, True)

    def __truediv__(self, other: object) -> Scalar:
        return self._binary("truediv", other)

    def __rtruediv__(self, other: object) -> Scalar:
        return self._binary("truediv", other, True)

    def __floordiv__(self, other: object) -> Scalar:
        return self._binary("floordiv", other)

    def __mod__(self, other: object) -> Scalar:
        return self._binary("mod", other)

    def __and__(self, other: object) -> Scalar:
        return self._binary("and", other)

    def __or__(self, other: object) -> Scalar:
        return self._binary("or", other)

    def __eq__(self, other: object) -> Scalar:  # type: ignore[override]
        return self._binary("eq", other)

    def __ne__(self, other: object) -> Scalar:  # type: ignore[override]
        return self._binary("ne", other)

    def __lt__(self, other: object) -> Scalar:
        return self._binary("lt", other)

    def __le__(self, other: object) -> Scalar:
        return self._binary("le", other)

    def __gt__(self, other: object) -> Scalar:
        return self._binary("gt", other)

    def __ge__(self, other: object) -> Scalar:
        return self._binary("ge", other)

    __hash__ = object.__hash__

    def __bool__(self) -> bool:
        raise error("expected a Python bool, got a run-time condition; use `with cute.when(cond):`")

    def __index__(self) -> int:
        raise error(
            "expected a Python int, got a run-time scalar; use cute.range for run-time trips"
        )


def _literal(value: Number, type_: Attribute) -> SSAValue:
    if isinstance(type_, IntegerType) and isinstance(value, float):
        raise error(f"expected a literal of type {type_}, got {value!r}")
    return current().constant(value, type_)


def as_i32(value: object, what: str) -> SSAValue:
    """A coordinate or trip count as an i32 value."""
    if isinstance(value, Scalar):
        if value.type != i32:
            raise error(f"expected {what} of type i32, got {value.type}")
        return value.use()
    if isinstance(value, bool) or not isinstance(value, int):
        raise error(f"expected {what} to be an int or a scalar, got {type(value).__name__}")
    return current().constant(value, i32)


def as_condition(value: object, what: str) -> SSAValue:
    """A condition as an i1 value."""
    if isinstance(value, Scalar) and value.type == i1:
        return value.use()
    got = value.type if isinstance(value, Scalar) else type(value).__name__
    raise error(f"expected {what} to be a run-time condition, got {got}")
