"""Tiles combined into memory atomically: rows of `ATOMICS`, one function each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, Protocol, TypeVar, cast

from xdsl.ir import SSAValue
from xdsl.rewriter import Rewriter

from cutedialect.dialects.cute import (
    ATOMICS,
    FETCHED,
    ORDERS,
    SCOPES,
    AtomicOp,
    CombineOp,
    FetchOp,
    fragment_of,
)

from .dtypes import DType
from .functions import check_element
from .modes import (
    TileOfModes,
    as_stored,
    joined_rows,
    matrices,
    matrix_of_modes,
    of_modes,
    parts_of,
    reshaped,
)
from .tile import Tile, View, as_matrix
from .trace import Scope, current, error

_FunctionT = TypeVar("_FunctionT", bound=Callable[..., Any])


class Atomic(Protocol):
    """A function that combines a tile into memory."""

    __name__: str

    def __call__(
        self, tile: Tile, view: View, *, scope: str = "gpu", order: str = "relaxed"
    ) -> Tile: ...


class FoundTile(TileOfModes):
    """What an atomic found in memory, which the op is asked for once it is used."""

    def __init__(self, op: AtomicOp, modes: tuple[int, ...]) -> None:
        self._op: AtomicOp = op
        self.modes = modes
        self.mutable = False
        self.scope: Scope = current().scope

    @property
    def value(self) -> SSAValue:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The tile in IR."""
        op = self._op
        if not isinstance(op, FetchOp):
            self._op = _fetching(op)
        return self._op.results[0]


class FoundParts(TileOfModes):
    """What atomics found in the parts of a tile of more than two modes, one below the other; asked
    for, and put together, where it is used.
    """

    def __init__(self, parts: Sequence[Tile], modes: tuple[int, ...], dtype: DType) -> None:
        self._parts = parts
        self._dtype = dtype
        self.modes = modes
        self.mutable = False
        self.scope: Scope = current().scope

    @property
    def dtype(self) -> DType:
        """That of the parts, for which they are not asked."""
        return self._dtype

    @property
    def value(self) -> SSAValue:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The matrix of the parts as IR, made anew at each place where it is used."""
        return joined_rows([Tile(part.value) for part in self._parts]).value


def _of_parts(function: _FunctionT) -> _FunctionT:
    """Let an atomic of a matrix and a view, its last arguments by place, take views of more modes:
    it is one of each matrix in them.
    """

    @wraps(function)
    def run(*args: Any, **options: Any) -> Tile:
        *tiles, view = args
        is_known = isinstance(view, View) and all(isinstance(tile, Tile) for tile in tiles)
        if not is_known or len(view.shape) <= 2 or any(tile.shape != view.shape for tile in tiles):
            return function(*args, **options)
        rows = [matrices(tile, "a tile") for tile in tiles]
        parts = [function(*both, **options) for both in zip(*rows, parts_of(view), strict=True)]
        return FoundParts(parts, view.shape, tiles[0].dtype)

    return run  # pyright: ignore[reportReturnType]


def _fetching(op: AtomicOp) -> FetchOp:
    """The op in the place of another one that does not give what was there."""
    kind, element = op.kind.data, fragment_of(op.source).element
    if str(element) not in FETCHED[kind]:
        raise _too_narrow("what was in memory is asked for", element)
    scope, order = op.scope and op.scope.data, op.order and op.order.data
    made = FetchOp(kind, op.source, op.destination, scope, order=order)
    made.location = op.location
    Rewriter.replace_op(op, made, [])
    return made


def _too_narrow(why: str, element: object) -> Exception:
    return error(f"expected elements of 32 or 64 bits where {why}, got {element}", code="CD-P3")


def _atomic(kind: str, sentence: str) -> Atomic:
    @_of_parts
    def function(tile: Tile, view: View, *, scope: str = "gpu", order: str = "relaxed") -> Tile:
        source, into = _checked(function.__name__, tile, view, scope, order)
        if str(tile.dtype.ir) not in ATOMICS[kind]:
            _refuse(function.__name__, kind, tile)
        check_element(tile, into)
        values = source.use(), into.use()
        if order not in ("acquire", "acq_rel"):
            op = CombineOp(kind, *values, scope, order)
            current().insert(op)
            return FoundTile(op, tile.shape)
        # `red` has no acquire.
        if str(tile.dtype.ir) not in FETCHED[kind]:
            raise _too_narrow(f"an atomic has the order {order}", tile.dtype.name)
        fetch = FetchOp(kind, *values, scope, order=order)
        current().insert(fetch)
        return FoundTile(fetch, tile.shape)

    function.__name__ = function.__qualname__ = f"atomic_{kind}"
    floats = "floats of 16 bits or more, and " if kind == "add" else ""
    function.__doc__ = (
        f"{sentence}, atomically and element by element, of {floats}integers of 32 or 64 bits. "
        "Elements outside of the tensor are left out. `scope` says among whose accesses each is "
        'one: those of the "cta", "cluster" (sm_90), "gpu" or "sys". With the order "relaxed" it '
        "is in none with accesses to other elements (PTX ISA 9.7.13.6). What the work item stored "
        'in front of a "release" is seen by loads behind the "acquire" of who finds what it left, '
        'and "acq_rel" is both; such programs have the role plan uniform. It gives the tile that '
        "was there, 0 outside of the tensor, of elements of 32 or 64 bits, by an `atom` where that "
        'is used, or the order is "acquire" or "acq_rel".'
    )
    return cast(Atomic, function)


def _checked(name: str, tile: object, view: object, scope: str, order: str) -> tuple[Tile, View]:
    """A tile and that in memory, as matrices."""
    if not isinstance(tile, Tile) or not isinstance(view, View):
        raise error(f"expected cute.{name}(tile, view)")
    is_alike = len(tile.shape) == len(view.shape)
    source = tile if is_alike else as_stored(tile, view.shape)
    if source.shape != view.shape:
        raise error(f"expected a tile of shape {view.shape}, got {tile.shape}", code="CD-P2")
    into = as_matrix(view)
    assert isinstance(into, View)
    if into.turned_rows is not None:
        raise error(
            "expected a tile of rows that a tile numbers, got its transpose; transpose the other "
            f"tile: cute.{name}(tile.T, view)",
            code="CD-P14",
        )
    if scope not in SCOPES:
        raise error(f"expected scope to be one of {', '.join(SCOPES)}, got {scope!r}", code="CD-P4")
    if order != "relaxed" and order not in ORDERS:
        shown = ", ".join(("relaxed", *ORDERS))
        raise error(f"expected order to be one of {shown}, got {order!r}", code="CD-P4")
    return matrix_of_modes(source), into


@_of_parts
def atomic_exchange(tile: Tile, view: View, *, scope: str = "gpu", order: str = "relaxed") -> Tile:
    """Leave a tile in memory and give what was there, atomically and element by element, of
    integers of 32 or 64 bits. Elements outside of the tensor give 0; `scope` and `order`
    are those of `cute.atomic_add`.
    """
    return _fetched("exchange", tile, None, view, scope, order)


@_of_parts
def atomic_compare_and_swap(
    expected: Tile, tile: Tile, view: View, *, scope: str = "gpu", order: str = "relaxed"
) -> Tile:
    """Leave the elements of a tile in memory where those of `expected` are there, and give what was
    there: where it is the expected one, this call wrote. Of integers of 32 or 64 bits, atomically
    and element by element, with the scopes of `cute.atomic_add`. Elements outside of the tensor
    give 0.
    """
    if not isinstance(expected, Tile) or not isinstance(tile, Tile):
        raise error("expected cute.atomic_compare_and_swap(expected, tile, view)")
    if expected.shape != tile.shape or expected.dtype != tile.dtype:
        raise error(
            f"expected a tile of {tile.dtype.name} and shape {tile.shape} to compare with, got one "
            f"of {expected.dtype.name} and {expected.shape}",
            code="CD-P2",
        )
    return _fetched("compare", tile, expected, view, scope, order)


def _fetched(
    kind: str, tile: Tile, expected: Tile | None, view: View, scope: str, order: str
) -> Tile:
    name = "atomic_exchange" if expected is None else "atomic_compare_and_swap"
    source, into = _checked(name, tile, view, scope, order)
    if str(tile.dtype.ir) not in FETCHED[kind]:
        raise error(
            f"expected a tile of integers of 32 or 64 bits for cute.{name}, got {tile.dtype.name}",
            code="CD-P3",
        )
    check_element(tile, into)
    other = None
    if expected is not None:
        other = matrix_of_modes(reshaped(expected, view.shape)).use()
    op = FetchOp(kind, source.use(), into.use(), scope, other, order)
    return reshaped(of_modes(Tile(current().insert(op).results[0]), view.shape), tile.shape)


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
