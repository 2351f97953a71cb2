"""The functions of arrays: what each of them shares with those of other libraries. Of a call that
names its tile program this is the module of its function, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from . import (
    attention,
    attention_backward,
    conv2d,
    gemm,
    grouped_gemm,
    quantize,
    routed_gemm,
)
from .declarations import CALLS
from .doors import Door
from .signature import Call


def plain_doors(calls: Iterable[Call]) -> dict[str, Door[Any, Any]]:
    """The calls that name a tile program; their functions become this module's."""
    from .plain_calls import plain

    doors: dict[str, Door[Any, Any]] = {}
    for call in calls:
        module, _, name = call.program.partition(":")
        if module:
            program = getattr(import_module(module), name)
            doors[call.name], globals()[call.name] = plain(call, program, __name__)
    return doors


_MODULES = (gemm, grouped_gemm, routed_gemm, attention, attention_backward, quantize, conv2d)
DOORS: dict[str, Door[Any, Any]] = {
    each.call.name: each
    for module in _MODULES
    for each in vars(module).values()
    if isinstance(each, Door)
} | plain_doors(CALLS)
