"""Scalars of a kernel: run-time values that are the same for the whole CTA; and the operators that
they and tiles have alike.
"""

from __future__ import annotations

import operator
from abc import abstractmethod
from typing import Generic, NoReturn, TypeVar

import numpy as np
from xdsl.dialects import math
from xdsl.dialects.builtin import i1, i32
from xdsl.ir import Attribute, SSAValue

from .arithmetic import (
    Number,
    binary_value,
    computed_in,
    convert_value,
    inverted,
    is_number,
    literal,
    negated,
    promote,
    same_bits,
)
from .dtypes import DType, as_dtype, of_ir
from .dtypes import i32 as i32_dtype
from .escapes import choice_of
from .hints import Computed
from .trace import Scope, current, error, user_frame

_Result = TypeVar("_Result")


class Operators(Computed, Generic[_Result]):
    """A value of a traced program whose operators give others of its kind."""

    __slots__ = ()

    @abstractmethod
    def _binary(self, kind: str, other: object, swap: bool = False) -> _Result:
        """An operator with another value, on its left with `swap`; NotImplemented for others."""

    def __add__(self, other: object) -> _Result:
        return self._binary("add", other)

    def __radd__(self, other: object) -> _Result:
        return self._binary("add", other, True)

    def __sub__(self, other: object) -> _Result:
        return self._binary("sub", other)

    def __rsub__(self, other: object) -> _Result:
        return self._binary("sub", other, True)

    def __mul__(self, other: object) -> _Result:
        return self._binary("mul", other)

    def __rmul__(self, other: object) -> _Result:
        return self._binary("mul", other, True)

    def __truediv__(self, other: object) -> _Result:
        return self._binary("truediv", other)

    def __rtruediv__(self, other: object) -> _Result:
        return self._binary("truediv", other, True)

    def __floordiv__(self, other: object) -> _Result:
        return self._binary("floordiv", other)

    def __rfloordiv__(self, other: object) -> _Result:
        return self._binary("floordiv", other, True)

    def __mod__(self, other: object) -> _Result:
        return self._binary("mod", other)

    def __rmod__(self, other: object) -> _Result:
        return self._binary("mod", other, True)

    def __and__(self, other: object) -> _Result:
        return self._binary("and", other)

    def __rand__(self, other: object) -> _Result:
        return self._binary("and", other, True)

    def __or__(self, other: object) -> _Result:
        return self._binary("or", other)

    def __ror__(self, other: object) -> _Result:
        return self._binary("or", other, True)

    def __xor__(self, other: object) -> _Result:
        return self._binary("xor", other)

    def __rxor__(self, other: object) -> _Result:
        return self._binary("xor", other, True)

    def __lshift__(self, other: object) -> _Result:
        return self._binary("lshift", other)

    def __rlshift__(self, other: object) -> _Result:
        return self._binary("lshift", other, True)

    def __rshift__(self, other: object) -> _Result:
        return self._binary("rshift", other)

    def __rrshift__(self, other: object) -> _Result:
        return self._binary("rshift", other, True)

    def __eq__(self, other: object) -> _Result:  # type: ignore[override]
        return self._binary("eq", other)

    def __ne__(self, other: object) -> _Result:  # type: ignore[override]
        return self._binary("ne", other)

    def __lt__(self, other: object) -> _Result:
        return self._binary("lt", other)

    def __le__(self, other: object) -> _Result:
        return self._binary("le", other)

    def __gt__(self, other: object) -> _Result:
        return self._binary("gt", other)

    def __ge__(self, other: object) -> _Result:
        return self._binary("ge", other)

    def __hash__(self) -> int:
        return id(self)


class Scalar(Operators["Scalar"]):
    """A run-time scalar; operators append IR."""

    __slots__ = ("scope", "value")

    def __init__(self, value: SSAValue, scope: Scope | None = None) -> None:
        self.value: SSAValue = value
        self.scope: Scope = scope or current().scope

    @property
    def type(self) -> Attribute:
        return self.value.type

    def use(self) -> SSAValue:
        """The value, checked to be alive."""
        current().check_alive(self.scope, "a scalar")
        return self.value

    @property
    def dtype(self) -> DType:
        return of_ir(self.type)

    def to(self, dtype: object) -> Scalar:
        """Convert; floats round to nearest even, to integers toward zero."""
        return Scalar(convert_value(self.use(), self.dtype, as_dtype(dtype)))

    def bitcast(self, dtype: object) -> Scalar:
        """The bits as a type of the same width: f32 as i32 or u32, and back."""
        return Scalar(same_bits(self.use(), self.dtype, as_dtype(dtype)))

    def _binary(self, kind: str, other: object, swap: bool = False) -> Scalar:
        if not isinstance(other, Scalar) and not is_number(other):
            return NotImplemented
        return self.binary(kind, other, swap)

    def binary(self, kind: str, other: Scalar | Number, swap: bool = False) -> Scalar:
        """An operator with another scalar or a number, in the type that holds both."""
        mine = self.dtype
        theirs = other.dtype if isinstance(other, Scalar) else mine
        dtype = computed_in(kind, promote(mine, theirs))
        left = convert_value(self.use(), mine, dtype)
        if isinstance(other, Scalar):
            right = convert_value(other.use(), theirs, dtype)
        else:
            right = literal(other, dtype)
        if swap:
            left, right = right, left
        return Scalar(binary_value(kind, left, right))

    def __pow__(self, other: object) -> Scalar:
        from .power import power

        if not isinstance(other, Scalar) and not is_number(other):
            return NotImplemented
        return power(self, other)

    def __rpow__(self, other: object) -> Scalar:
        from .power import power

        return power(other, self) if is_number(other) else NotImplemented

    def __neg__(self) -> Scalar:
        dtype = computed_in("sub", self.dtype)
        return Scalar(negated(convert_value(self.use(), self.dtype, dtype), dtype))

    def __invert__(self) -> Scalar:
        return Scalar(inverted(self.use(), self.dtype))

    def __bool__(self) -> bool:
        raise error(
            f"expected a Python bool, got a run-time condition; {instead_of_choice()}, "
            "cute.where(cond, a, b), & and | for and and or, cute.minimum and cute.maximum",
            code="CD-P9",
        )

    def __iter__(self) -> NoReturn:
        raise error(
            "expected a run-time scalar to be one number, got iteration over it; the index of one "
            "mode is the number itself: i = cute.tile_index(Y, (64,))",
            code="CD-P10",
        )

    def __float__(self) -> float:
        raise error(
            "expected a Python number, got a run-time scalar; convert it with .to(cute.f32), and "
            "use cute.exp and the like in the place of Python's math",
            code="CD-P9",
        )

    def __format__(self, spec: str) -> str:
        raise error(
            "expected a value that is known while the kernel is traced, got a run-time scalar; "
            'print it with cute.printf("%d", value)',
            code="CD-P9",
        )

    def __abs__(self) -> Scalar:
        dtype = self.dtype
        if dtype.kind == "f":
            return Scalar(current().insert(math.AbsFOp(self.use())).results[0])
        return self.binary("maximum", -self) if dtype.kind == "i" else self

    def __index__(self) -> int:
        raise error(
            "expected a Python int, got a run-time scalar; use cute.range for run-time trips",
            code="CD-P9",
        )


def instead_of_choice(condition: str = "cond") -> str:
    """What to write in the place of Python's statement that asks for a run-time condition."""
    return _INSTEAD[choice_of(user_frame())].replace("cond)", f"{condition})")


# By what the statement at the line does; where that is not known, all.
_INSTEAD = {
    "while": "use `for trip in cute.while_(lambda: cond):` for while",
    "break": "use cute.break_if(cond) for `if cond: break`",
    "return": "use cute.return_if(cond) for `if cond: return`",
    "if": "use `with cute.when(cond):` for if",
    "": (
        "use `with cute.when(cond):` for if, cute.while_ for while, cute.break_if(cond) and "
        "cute.return_if(cond) to leave"
    ),
}


def as_i32(value: object, what: str) -> SSAValue:
    """A coordinate or trip count as an i32 value."""
    if isinstance(value, Scalar):
        if value.dtype.kind == "f" or value.dtype.bits > 32:
            raise error(
                f"expected {what} of type i32, got {value.dtype.name}; convert it with "
                ".to(cute.i32): extents are below 2**31",
                code="CD-P3",
            )
        return value.to(i32_dtype).use()
    if isinstance(value, bool | np.bool_) or not hasattr(value, "__index__"):
        raise error(f"expected {what} to be an int or a scalar, got {type(value).__name__}")
    number = operator.index(value)  # pyright: ignore[reportArgumentType]
    if not -(1 << 31) <= number < 1 << 31:
        raise error(f"expected {what} that i32 holds, got {number}", code="CD-P4")
    return current().constant(number, i32)


def as_condition(value: object, what: str) -> SSAValue:
    """A condition as an i1 value."""
    if isinstance(value, Scalar) and value.type == i1:
        return value.use()
    if isinstance(value, bool | np.bool_):
        raise error(
            f"expected {what} to be a run-time condition, got {value}, known while the kernel is "
            "traced; use Python's if",
            code="CD-P9",
        )
    if getattr(value, "fragment", None) is not None:
        raise error(
            f"expected {what} to be one condition of the CTA, got a tile; take "
            "cute.any(condition), or choose elements with cute.where(condition, a, b)",
            code="CD-P3",
        )
    got = value.dtype.name if isinstance(value, Scalar) else type(value).__name__
    raise error(f"expected {what} to be a run-time condition, got {got}", code="CD-P3")
