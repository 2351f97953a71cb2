"""`Expression`: a leaf whose value is computed at run time from other leaves.

The algebra takes it wherever it takes `Dyn`, so one function gives the type of a result, its static
value, and, where leaves are dynamic, the arithmetic that computes them. What is known of
divisibility is kept where a leaf states it, and never made up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import gcd
from typing import Any, cast

from .composed_layout import ComposedLayout
from .errors import LayoutError
from .int_tuple import Dyn, ScaledBasis
from .layout import Layout

_INT32 = range(-(1 << 31), 1 << 31)


def _quotient(one: int, other: int) -> int:
    return abs(one) // abs(other) * (1 if (one < 0) == (other < 0) else -1)


def _quotient_up(one: int, other: int) -> int:
    return -(-one // other)


def _rest(one: int, other: int) -> int:
    return one - _quotient(one, other) * other


def _sign(value: int) -> int:
    return (value > 0) - (value < 0)


def _less(one: int, other: int) -> int:
    return int(one < other)


def _equal(one: int, other: int) -> int:
    return int(one == other)


def _not_equal(one: int, other: int) -> int:
    return int(one != other)


def _greater(one: int, other: int) -> int:
    return int(one > other)


def _select(condition: int, one: int, other: int) -> int:
    return one if condition else other


EVALUATE: Mapping[str, Callable[..., int]] = {
    "add": int.__add__,
    "sub": int.__sub__,
    "mul": int.__mul__,
    "div": _quotient,
    "ceil_div": _quotient_up,
    "mod": _rest,
    "min": min,
    "max": max,
    "abs": int.__abs__,
    "sign": _sign,
    "less": _less,
    "equal": _equal,
    "not_equal": _not_equal,
    "greater": _greater,
    "select": _select,
    "and": int.__and__,
    "xor": int.__xor__,
    "shift_right": int.__rshift__,
    "shift_left": int.__lshift__,
}
"""What each operation does to numbers; quotients are cut towards 0, as those of PTX are."""


@dataclass(frozen=True, eq=False, repr=False)
class Expression(Dyn):
    """`op` of `args`, which are expressions and ints; a "leaf" has its name as only argument.

    >>> rows = leaf("rows")
    >>> tiles = (rows + 3) // 4
    >>> evaluate(tiles, {"rows": 9}), tiles
    (3, ?)
    """

    op: str = "leaf"
    args: tuple[Any, ...] = ()

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        if not isinstance(other, Expression) or hash(self) != hash(other):
            return False
        return (self.op, self.args, self.bits, self.div) == (
            other.op,
            other.args,
            other.bits,
            other.div,
        )

    def __hash__(self) -> int:
        known = self.__dict__.get("_hash")
        if known is None:
            known = hash((self.op, self.args, self.bits, self.div))
            object.__setattr__(self, "_hash", known)
        return known

    @property
    def plain(self) -> Dyn:
        """What a type says of the leaf: its width and divisibility."""
        return Dyn(self.div, self.bits)

    def __mul__(self, other: Any) -> Any:
        if isinstance(other, ScaledBasis):
            return NotImplemented
        if isinstance(other, int):
            if other in (0, 1):
                return self if other else 0
            return _of("mul", self, other, div=self.div * abs(other) if self.div > 1 else 1)
        return _of("mul", self, other, div=self.div * _div(other))

    def __rmul__(self, other: Any) -> Any:
        return self * other

    def __add__(self, other: Any) -> Any:
        if not isinstance(other, int | Dyn):
            return NotImplemented
        return self if other == 0 else _of("add", self, other, div=gcd(self.div, _div(other)))

    def __radd__(self, other: Any) -> Any:
        return self if other == 0 else _of("add", other, self, div=gcd(self.div, _div(other)))

    def __sub__(self, other: Any) -> Any:
        return self if other == 0 else _of("sub", self, other, div=gcd(self.div, _div(other)))

    def __rsub__(self, other: Any) -> Any:
        return _of("sub", other, self, div=gcd(self.div, _div(other)))

    def __neg__(self) -> Any:
        return _of("sub", 0, self, div=self.div)

    def __abs__(self) -> Any:
        return _of("abs", self, div=self.div)

    def __floordiv__(self, other: Any) -> Any:
        return self._divided("div", other)

    def __rfloordiv__(self, other: Any) -> Any:
        return _of("div", other, self) if other else 0

    def ceil_div(self, other: Any) -> Any:
        """The quotient rounded up."""
        return self._divided("ceil_div", other)

    def ceil_divides(self, other: int) -> Any:
        """The quotient of a number by this value, rounded up."""
        return _of("ceil_div", other, self) if other else 0

    def _divided(self, op: str, other: Any) -> Any:
        if not isinstance(other, int):
            return _of(op, self, other)
        if other == 0:
            raise LayoutError("expected a divisor other than 0 of a run-time value")
        if other == 1:
            return self
        return _of(op, self, other, div=1 if self.div % other else self.div // abs(other))

    def __mod__(self, other: Any) -> Any:
        if isinstance(other, int):
            if other == 0:
                raise LayoutError("expected a divisor other than 0 of a run-time value")
            if self.div % other == 0:
                return 0
        return _of("mod", self, other)

    def __rmod__(self, other: Any) -> Any:
        return _of("mod", other, self) if other else 0


def leaf(name: Any, bits: int = 32, div: int = 1) -> Expression:
    """A value known by name; `name` is anything hashable."""
    return Expression(div, bits, "leaf", (name,))


def _div(value: Any) -> int:
    return value.div if isinstance(value, Dyn) else abs(value)


def _of(op: str, *args: Any, div: int = 1) -> Expression:
    widths = [arg.bits if isinstance(arg, Dyn) else 32 if arg in _INT32 else 64 for arg in args]
    return Expression(max(div, 1), max(widths), op, args)


def compute(op: str, *args: Any) -> Any:
    """An operation of `EVALUATE`, at once if all arguments are ints.

    >>> compute("min", 3, 4), compute("less", leaf("i"), 4).args
    (3, (?, 4))
    """
    if all(isinstance(arg, int) for arg in args):
        return EVALUATE[op](*args)
    if not any(isinstance(arg, Expression) for arg in args):
        return Dyn(1, max(arg.bits for arg in args if isinstance(arg, Dyn)))
    return _of(op, *args)


def choose(condition: Any, one: Any, other: Any) -> Any:
    """`one` if the condition (a 0 or 1, or an expression of one) holds, else `other`."""
    if isinstance(condition, int):
        return one if condition else other
    return compute("select", condition, one, other)


def evaluate(value: Any, leaves: Mapping[Any, int]) -> Any:
    """A value of the algebra with its expressions computed from the leaves' numbers."""
    known: dict[Expression, int] = {}

    def number(one: Any) -> Any:
        if not isinstance(one, Expression):
            return one
        if one not in known:
            if one.op == "leaf":
                known[one] = leaves[one.args[0]]
            else:
                known[one] = EVALUATE[one.op](*map(number, one.args))
        return known[one]

    return map_dynamic(value, number)


def dynamic_leaves(value: Any) -> Iterator[Dyn]:
    """The run-time leaves of a value of the algebra: shapes before strides, and of a composed
    layout what is inside, then the offset, then what is outside.
    """
    match value:
        case Dyn():
            yield value
        case ScaledBasis():
            yield from dynamic_leaves(value.value)
        case tuple():
            for part in cast("tuple[Any, ...]", value):
                yield from dynamic_leaves(part)
        case Layout():
            yield from dynamic_leaves(value.shape)
            yield from dynamic_leaves(value.stride)
        case ComposedLayout():
            for part in (value.inner, value.offset, value.outer):
                yield from dynamic_leaves(part)
        case _:
            return


def map_dynamic(value: Any, change: Callable[[Dyn], Any]) -> Any:
    """The value with another leaf in the place of each run-time leaf, in the same order.

    >>> print(map_dynamic(Layout((4, Dyn()), (Dyn(div=8), 1)), lambda dyn: dyn.div))
    (4,1):(8,1)
    """
    match value:
        case Dyn():
            return change(value)
        case ScaledBasis():
            return ScaledBasis(map_dynamic(value.value, change), value.path)
        case tuple():
            parts = cast("tuple[Any, ...]", value)
            return tuple(map_dynamic(part, change) for part in parts)
        case Layout():
            shape = map_dynamic(value.shape, change)
            return Layout(shape, map_dynamic(value.stride, change))
        case ComposedLayout():
            inner = map_dynamic(value.inner, change)
            offset = map_dynamic(value.offset, change)
            return ComposedLayout(map_dynamic(value.outer, change), offset, inner)
        case _:
            return value


def is_static_value(value: Any) -> bool:
    """Whether a value of the algebra has no run-time leaf.

    >>> is_static_value((4, None)), is_static_value(Layout(4, Dyn()))
    (True, False)
    """
    return next(dynamic_leaves(value), None) is None
