"""What to write in the place of names and operators of NumPy that tiles, views and tensors do not
have: said where a program asks for one.
"""

from __future__ import annotations

from typing import NoReturn

from .instead import METHODS
from .trace import error

_FUNCTIONS = ("abs", "exp", "exp2", "log", "log2", "relu", "rsqrt", "sqrt", "tanh")


class Hinted:
    """A value of a traced program that says what to write for a name that it does not have."""

    def __getattr__(self, name: str) -> NoReturn:
        kind = type(self).__name__
        instead = f"cute.{name}(x)" if name in _FUNCTIONS else METHODS.get(name)
        if name.startswith("_") or instead is None:
            raise AttributeError(f"'{kind}' object has no attribute '{name}'")
        # An AttributeError, so that `hasattr` and `getattr` with a default go on working.
        raise AttributeError(f"expected {instead}, got .{name} of a {kind}")


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
    del key
    raise error(
        f"expected a {type(tile).__name__} as a whole, got [...] on it; take a smaller tile with "
        "cute.local_tile, or choose elements with cute.where and cute.coord",
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
