"""Tiles combined into memory atomically: rows of `ATOMICS`, one function each."""

from __future__ import annotations

from typing import Protocol, cast

from cutedialect.dialects.cute import ATOMICS, SCOPES, AtomicOp

from .functions import check_element
from .tile import Tile, View, as_matrix
from .trace import current, error


class Atomic(Protocol):
    """A function that combines a tile into memory."""

    __name__: str

    def __call__(self, tile: Tile, view: View, *, scope: str = "gpu") -> None: ...


def _atomic(kind: str, sentence: str) -> Atomic:
    def function(tile: Tile, view: View, *, scope: str = "gpu") -> None:
        if not isinstance(tile, Tile) or not isinstance(view, View):
            raise error(f"expected cute.{function.__name__}(tile, view)")
        into = as_matrix(view)
        if tile.shape != into.shape:
            raise error(f"expected a tile of shape {into.shape}, got {tile.shape}", code="CD-P2")
        if scope not in SCOPES:
            raise error(
                f"expected scope to be one of {', '.join(SCOPES)}, got {scope!r}", code="CD-P4"
            )
        if str(tile.dtype.ir) not in ATOMICS[kind]:
            _refuse(function.__name__, kind, tile)
        check_element(tile, into)
        current().insert(AtomicOp(kind, tile.use(), into.use(), scope))

    function.__name__ = function.__qualname__ = f"atomic_{kind}"
    floats = "floats of 16 bits or more, and " if kind == "add" else ""
    function.__doc__ = (
        f"{sentence}, atomically and element by element, of {floats}integers of 32 or 64 bits. "
        "Elements outside of the tensor are left out. `scope` says among whose accesses each is "
        'one: those of the "cta", "cluster" (sm_90), "gpu" or "sys". In no order with other '
        "accesses (PTX ISA 9.7.13.6, `red.relaxed`)."
    )
    return cast(Atomic, function)


def _refuse(name: str, kind: str, tile: Tile) -> None:
    dtype = tile.dtype
    floats = "floats of 16 bits or more, or of " if kind == "add" else ""
    advice = f"in another array, with .to(cute.{'f32' if dtype.kind == 'f' else 'i32'})"
    if kind != "add" and dtype.kind == "f":
        advice = "in an array of integers, with .to(cute.i32)"
    raise error(
        f"expected a tile of {floats}integers of 32 or 64 for cute.{name}, got {dtype.name}; "
        f"{'add up' if kind == 'add' else 'combine'} {advice}",
        code="CD-P3",
    )


atomic_add: Atomic = _atomic("add", "Add a tile into memory")
atomic_max: Atomic = _atomic("max", "Leave the larger of a tile and of memory there")
atomic_min: Atomic = _atomic("min", "Leave the smaller of a tile and of memory there")
atomic_and: Atomic = _atomic("and", "Combine a tile with memory by `&`")
atomic_or: Atomic = _atomic("or", "Combine a tile with memory by `|`")
atomic_xor: Atomic = _atomic("xor", "Combine a tile with memory by `^`")
