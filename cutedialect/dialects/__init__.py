"""The index of dialects: one lazy loader per name, so that reading text imports only the dialects
that the text uses. A dialect `d` of ours lives in `cutedialect/dialects/d.py` (or the package of
that name), whose `Dialect` object carries the same name; the rest come from xDSL.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xdsl.ir import Dialect

DialectLoader = Callable[[], "Dialect"]

OURS = ("cute", "cute_nvgpu", "pipeline", "ptx")
# With the custom syntax of MLIR that xDSL's dialect of the name lacks.
REPLACED = ("gpu",)
FROM_XDSL = ("builtin", "arith", "math", "scf", "func", "cf", "llvm", "ub")


def our_dialects() -> dict[str, DialectLoader]:
    """Name to loader of the dialects that this project defines."""
    return {name: _loader(name, f"{__name__}.{name}") for name in OURS}


def all_dialects() -> dict[str, DialectLoader]:
    """Name to loader of every dialect that `cute-opt` reads."""
    known = {name: _loader(name, f"xdsl.dialects.{name}") for name in FROM_XDSL}
    known |= {name: _loader(name, f"{__name__}.{name}") for name in REPLACED}
    return known | our_dialects()


@cache
def _loader(name: str, module: str) -> DialectLoader:
    @cache
    def load() -> Dialect:
        from xdsl.ir import Dialect

        for value in vars(import_module(module)).values():
            if isinstance(value, Dialect) and value.name == name:
                return value
        raise LookupError(f"expected a Dialect object named '{name}' in {module}, got none")

    return load
