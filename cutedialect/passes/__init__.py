"""The index of passes: one lazy loader per name, in the order in which a kernel meets them. The
folders are the stages in the same order: `tile`, `bind`, `roles`, `schedule`, `synchronize`,
`lower`; a stage imports itself and earlier ones, and what several ask is in `analysis`.
The pass `cute-foo-bar` is `FooBarPass` in `<stage>/foo_bar.py`; a name without the prefix
maps to its file unchanged. Cleanups come from xDSL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.passes import ModulePass

PassLoader = Callable[[], "type[ModulePass]"]

# Pass name to the module of this package that defines it.
OURS = {
    "cute-structure-exits": "tile.structure_exits",
    "cute-fuse": "tile.fuse",
    "cute-tile": "tile.tile",
    "cute-partition": "bind.partition",
    "cute-defer-sums": "bind.defer_sums",
    "cute-assign-warp-roles": "roles.assign_warp_roles",
    "cute-schedule-loops": "schedule.schedule_loops",
    "cute-synchronize": "synchronize.synchronize",
    "cute-split-loops": "schedule.split_loops",
    "cute-unroll-loops": "schedule.unroll_loops",
    "cute-expand-rings": "synchronize.expand_rings",
    "cute-expand-roles": "synchronize.expand_roles",
    "cute-check-protocol": "protocol.check_protocol",
    "convert-to-ptx": "lower.convert_to_ptx",
    "cute-to-ptx": "cute_to_ptx",
    "cute-fold-static": "algebra.fold_static",
    "cute-expand-ops": "algebra.expand_ops",
    "cute-to-base": "algebra.to_base",
    "cute-fold-structs": "algebra.fold_structs",
    "verify-dominance": "verify_dominance",
}

FROM_XDSL = {
    "canonicalize": "xdsl.transforms.canonicalize",
    "cse": "xdsl.transforms.common_subexpression_elimination",
    "dce": "xdsl.transforms.dead_code_elimination",
    "licm": "xdsl.transforms.loop_invariant_code_motion",
    "reconcile-unrealized-casts": "xdsl.transforms.reconcile_unrealized_casts",
}


def our_passes() -> dict[str, PassLoader]:
    """Name to loader of the passes that this project defines."""
    return {name: _loader(name, f"{__name__}.{file}") for name, file in OURS.items()}


def all_passes() -> dict[str, PassLoader]:
    """Name to loader of every pass that `cute-opt` runs."""
    return our_passes() | {name: _loader(name, module) for name, module in FROM_XDSL.items()}


@cache
def _loader(name: str, module: str) -> PassLoader:
    @cache
    def load() -> type[ModulePass]:
        from xdsl.passes import ModulePass

        for value in vars(import_module(module)).values():
            if (
                isinstance(value, type)
                and issubclass(value, ModulePass)
                and getattr(value, "name", None) == name
            ):
                return value
        raise LookupError(f"expected a ModulePass named '{name}' in {module}, got none")

    return load
