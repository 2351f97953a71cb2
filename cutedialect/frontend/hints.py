"""What to write in the place of names and operators of NumPy that tiles, views and tensors do not
have: said where a program asks for one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from .instead import FUNCTIONS, METHODS, UnknownNameError
from .trace import error

_FUNCTIONS = (
    "abs", "acos", "acosh", "asin", "asinh", "atan", "atanh", "cbrt", "ceil", "cos", "cosh", "exp",
    "exp10", "exp2", "expm1", "floor", "isfinite", "isinf", "isnan", "lgamma", "log", "log10",
    "log1p", "log2", "relu", "round", "rsqrt", "sigmoid", "sign", "sin", "sinh", "sqrt", "tan",
    "tanh", "trunc",
)  # fmt: skip


class Hinted:
    """A value of a traced program that says what to write for a name that it does not have."""

    def __getattr__(self, name: str) -> NoReturn:
        kind = type(self).__name__
        instead = f"cute.{name}(x)" if name in _FUNCTIONS else METHODS.get(name)
        if name.startswith("_") or instead is None:
            raise AttributeError(f"'{kind}' object has no attribute '{name}'")
        raise UnknownNameError(f"expected {instead}, got .{name} of a {kind}")


class Computed:
    """A value with NumPy's numbers beside it: their operators are its own, other functions of NumPy
    are refused.
    """

    __slots__ = ()

    def __array_ufunc__(
        self, function: Callable[..., Any], method: str, *inputs: object, **options: object
    ) -> object:
        name = _OPERATORS.get(function.__name__)
        if name is not None and method == "__call__" and len(inputs) == 2 and not options:
            left: Any = inputs[0]
            if getattr(left, "shape", None) == ():  # as NumPy passes its numbers on
                left = left[()]
            result = getattr(self, name)(left)
            if result is not NotImplemented:
                return result
            raise error(
                f"expected tiles, scalars or numbers, got {type(inputs[0]).__name__}", code="CD-P1"
            )
        called = function.__name__
        instead = f"cute.{called}(x)" if called in _FUNCTIONS else _NUMPY.get(called)
        instead = instead or FUNCTIONS.get(called, "the operators of tiles and functions of cute")
        raise error(
            f"expected {instead}, got np.{called} of a {type(self).__name__}", code="CD-P15"
        )


# NumPy's functions of two arguments, to what the second one calls its operator with the first.
_OPERATORS = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__",
    "bitwise_and": "__and__", "bitwise_or": "__or__", "bitwise_xor": "__xor__",
    "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__",
    "equal": "__eq__", "not_equal": "__ne__",
    "left_shift": "__rlshift__", "right_shift": "__rrshift__",
}  # fmt: skip
_NUMPY = {
    "absolute": "cute.abs(x)", "maximum": "cute.maximum(x, y)", "minimum": "cute.minimum(x, y)",
    "logical_and": "x & y", "logical_or": "x | y",
    "logical_not": "~x", "invert": "~x", "negative": "-x", "reciprocal": "1.0 / x",
    "rint": "cute.round(x)", "copysign": "cute.copysign(x, y)", "bitwise_count": "cute.popc(x)",
    "arccos": "cute.acos(x)", "arcsin": "cute.asin(x)", "arctan": "cute.atan(x)",
    "arctan2": "cute.atan2(y, x)", "arcsinh": "cute.asinh(x)", "arccosh": "cute.acosh(x)",
    "arctanh": "cute.atanh(x)", "hypot": "cute.hypot(x, y)",
}  # fmt: skip


def refuse_matmul(left: object, right: object) -> NoReturn:
    """The `@` of tiles."""
    del left, right
    raise error(
        "expected cute.gemm(a, b, acc) with an accumulator such as cute.zeros((M, N), cute.f32), "
        "got a @ b",
        code="CD-P11",
    )


def refuse_elements(tile: object, key: object) -> NoReturn:
    """Elements of a register tile, which its threads hold together."""
    del tile, key
    raise error(
        "expected a Tile as a whole, got [...] on it; take a part with constant "
        "bounds, t[2:6, :], a smaller tile with cute.local_tile, or choose elements with "
        "cute.where and cute.coord",
        code="CD-P1",
    )


def refuse_stores(tensor: object, key: object, value: object) -> NoReturn:
    """Assignment to elements."""
    del key, value
    raise error(
        f"expected cute.copy(tile, cute.local_tile(...)) to store, got an assignment to elements "
        f"of a {type(tensor).__name__}",
        code="CD-P1",
    )
