"""The functions of arrays: what each of them shares with those of other libraries. Of a call that
names its tile program this is the module of its function, too.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib import import_module
from typing import Any

from .attention import door as attention
from .attention_backward import door as attention_backward
from .conv2d import dgrad_door as conv2d_dgrad
from .conv2d import door as conv2d
from .conv2d import wgrad_door as conv2d_wgrad
from .declarations import CALLS
from .doors import Door
from .gemm import door as gemm
from .grouped_gemm import door as grouped_gemm
from .quantize import door as quantize
from .routed_gemm import door as routed_gemm
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


DOORS: dict[str, Door[Any, Any]] = {
    each.call.name: each
    for each in (
        gemm,
        grouped_gemm,
        routed_gemm,
        attention,
        attention_backward,
        quantize,
        conv2d,
        conv2d_dgrad,
        conv2d_wgrad,
    )
} | plain_doors(CALLS)
