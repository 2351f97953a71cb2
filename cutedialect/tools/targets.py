"""The index of output formats of `cute-opt -t`: one lazy loader per name. `mlir` is xDSL's printer,
`ptx` our own; a loader returns an xDSL `Target` class.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.utils.target import Target

TargetLoader = Callable[[], "type[Target]"]


def our_targets() -> dict[str, TargetLoader]:
    """Name to loader of the targets that this project defines."""
    return {"ptx": _load_ptx}


def all_targets() -> dict[str, TargetLoader]:
    """Name to loader of every target of `cute-opt`."""
    return {"mlir": _load_mlir} | our_targets()


def _load_mlir() -> type[Target]:
    from xdsl.targets.mlir import MLIRTarget

    return MLIRTarget


def _load_ptx() -> type[Target]:
    from cutedialect.tools.ptx_target import PTXTarget

    return PTXTarget
