"""What `compile --launcher torch` writes operators of torch from: their schemas, and the options
that a variant was compiled for.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from cutedialect.backend.runtime.launchers import ElementType, TorchOperator
from cutedialect.frontend import signature
from cutedialect.frontend.declarations import CALLS
from cutedialect.frontend.dtypes import as_dtype

from .compiled_variants import Words
from .kernel_arguments import argument, settings

# How a kernel was chosen changes no result.
_CHOOSE = (signature.ARCH, signature.SCHEDULE, signature.BACKEND)


def call_named(kernel: str) -> signature.Call:
    """The call of `cute.gemm` and the like; raises ValueError for another kernel."""
    for call in CALLS:
        if f"cute.{call.name}" == kernel:
            return call
    raise ValueError(
        "--launcher torch: expected cute.gemm or cute.attention, which are operators of torch, got "
        f"{kernel}; --launcher c, cpp and tvm-ffi take any kernel"
    )


def operators_of(call: signature.Call) -> list[TorchOperator]:
    """The operators of a call that return their results."""
    first = call.outputs[0].name
    return [
        TorchOperator(f"{call.name}_{more}", schema, (first, more))
        if more
        else TorchOperator(call.name, schema, (first,))
        for more, schema in call.operators()
    ]


def options_of(call: signature.Call, words: Words) -> dict[str, Any]:
    """The arguments of the operators that a variant was compiled for, by name."""
    given = call.given(*map(argument, words.arguments), **settings(words.settings))
    return {
        name: value
        for row in call.taken("torch")
        if row.kind.schema and row.kind not in _CHOOSE
        for name, value in _values(row, getattr(given, row.name))
    }


def _values(row: signature.Parameter, value: Any) -> Iterator[tuple[str, Any]]:
    """What an argument is to an operator: both arrays of offsets, a scale as array and number."""
    first, *others = signature.operator_names(row)
    if row.kind is signature.OFFSETS:
        yield from zip((first, *others), signature.offsets(row.name, value), strict=True)
    elif others:
        is_number = isinstance(value, int | float)
        yield first, None if is_number else value
        yield others[0], value if is_number else None
    elif row.kind is signature.DTYPE and value is not None:
        yield first, ElementType(as_dtype(value).numpy.name)
    else:
        yield first, value
