"""What a kernel says while it runs: scalars that it prints, and conditions that it states."""

from __future__ import annotations

import numpy as np
from xdsl.ir import SSAValue

from cutedialect.dialects.cute import AssertOp, PrintfOp
from cutedialect.dialects.cute.kernel_ops import format_problem, with_strings

from .arithmetic import Number, is_number, literal
from .dtypes import f32, i32
from .reductions import any_
from .scalar import Scalar
from .tile import Tile
from .trace import current, error


def printf(format: str, *args: Scalar | Number | str) -> None:
    """Print scalars once for each CTA, with C's conversions; i64 takes `%ld`, a string `%s`."""
    if not isinstance(format, str):
        raise error(f"expected a format of str, got {type(format).__name__}", code="CD-P13")
    try:
        format = with_strings(format, args)
    except ValueError as problem:
        raise error(str(problem), code="CD-P13") from None
    values: list[SSAValue] = []
    for arg in args:
        if isinstance(arg, str):
            continue
        if is_number(arg):
            dtype = i32 if hasattr(arg, "__index__") else f32
            values.append(literal(arg, dtype))
        elif isinstance(arg, Scalar):
            # C's promotions: a thread passes 32 bits or more.
            narrow = arg.dtype.bits < 32
            values.append(
                arg.to(f32 if arg.dtype.kind == "f" else i32).use() if narrow else arg.use()
            )
        else:
            raise error(f"expected scalars to print, got {type(arg).__name__}", code="CD-P13")
    problem = format_problem(format, [value.type for value in values])
    if problem is not None:
        raise error(problem, code="CD-P13")
    current().insert(PrintfOp(format, values))


def assert_(condition: Scalar | Tile | bool, message: str) -> None:
    """Say that a condition holds: a scalar one, or one of every element of a tile, those that lie
    outside of a tensor included. What Python knows already is checked at once.

    A kernel in which it does not hold runs on to its end. `KernelAssertionError`, with the message,
    the place and the CTA, is raised where the host next waits for it: by the call itself on NumPy
    arrays and in the emulator, else by `cute.synchronize`.
    """
    if not isinstance(message, str):
        raise error(f"expected a message of str, got {type(message).__name__}", code="CD-P13")
    if isinstance(condition, bool | np.bool_):
        if not condition:
            raise error(
                f"expected an assertion that holds while the kernel is traced: {message}",
                code="CD-P13",
            )
        return
    if not isinstance(condition, Scalar | Tile) or condition.dtype.bits != 1:
        got = condition.dtype.name if isinstance(condition, Scalar | Tile) else repr(condition)
        raise error(f"expected a condition, got {got}", code="CD-P3")
    holds = ~any_(~condition) if isinstance(condition, Tile) else condition
    current().insert(AssertOp(holds.use(), message))
