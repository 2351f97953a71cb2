"""What a tile program means, in NumPy: an object with the names of `cutedialect` that a random
program uses, whose tiles are arrays. It runs the program's own source, one work item after the
other, and shares nothing with the compiler. Floats are kept exact: a value that its type does not
hold raises `InexactError`, so that every right compilation gives the same bits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from .numpy_control import NumpyControl

_TYPES: dict[str, Any] = {
    "f16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "f32": np.float32,
    "f64": np.float64,
    "e4m3": ml_dtypes.float8_e4m3fn,
    "e5m2": ml_dtypes.float8_e5m2,
    "i8": np.int8,
    "u8": np.uint8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "i1": np.bool_,
}
_F32 = np.dtype(np.float32)
NAMES = {np.dtype(made): name for name, made in _TYPES.items()}
# Integers up to which sums and products of each type of float are exact.
_EXACT = {"f16": 2**11, "bf16": 2**8, "f32": 2**24, "f64": 2**53, "e4m3": 2**4, "e5m2": 2**3}
_EXACT_TF32 = 2**11


# Instructions that programs spell themselves, and what they compute of integers of 32 bits.
INSTRUCTIONS: dict[str, Callable[[Any], Any]] = {
    "lop3.b32 $0, $1, 6, 3, 0x96": lambda x: x ^ 5,
    "min.s32 t, $1, 9; max.s32 $0, t, -9": lambda x: np.clip(x, -9, 9),
    "shl.b32 %t, $1, 2; sub.s32 $0, %t, $1": lambda x: x * 3,
    "setp.lt.s32 p, $1, 2; selp.b32 $0, 1, $1, p": lambda x: np.where(x < 2, 1, x),
}


class InexactError(ArithmeticError):
    """A value that its type rounds: the program's result would depend on how it is computed."""


class _WorkItemsSignal(Exception):  # noqa: N818
    """How many work items there are: raised by the first `tile_index`."""


class NumpyTiles(NumpyControl):
    """The names of the language, bound to one work item at a time."""

    inf = np.inf

    def __init__(self) -> None:
        super().__init__()
        self.item: tuple[int, ...] | None = None
        for name, made in _TYPES.items():
            setattr(self, name, np.dtype(made))

    def run(self, program: Callable[..., None], arguments: Sequence[object]) -> None:
        """Run a program whose arguments are arrays, changed in place, and numbers."""
        given = [Tensor(a, self) if isinstance(a, np.ndarray) else a for a in arguments]
        try:
            self.item = None
            program(*given)
        except _WorkItemsSignal as grid:
            for self.item in np.ndindex(*grid.args[0]):
                self.active, self.loops = [True], []
                program(*given)

    def kernel(self, function: Callable[..., None]) -> Callable[..., None]:
        return function

    def tile_index(self, tensor: Tensor, tile: Sequence[int | None]) -> Any:
        shape = tensor.array.shape[: len(tile)]
        if self.item is None:
            counts = (-(-n // (t or n)) for n, t in zip(shape, tile, strict=True))
            raise _WorkItemsSignal(tuple(counts))
        return self.item if len(tile) > 1 else self.item[0]

    def local_tile(self, tensor: Tensor, tile: Sequence[int | None], coord: Sequence[Any]) -> Any:
        batch = len(tensor.array.shape) - len(tile)
        extents = [1] * batch + [n or tensor.array.shape[batch + m] for m, n in enumerate(tile)]
        given = iter(coord)
        coords: list[Any] = [
            0 if mode >= batch and tile[mode - batch] is None else next(given)
            for mode in range(len(extents))
        ]
        if None in coords:
            return Views(tensor, extents, coords, batch)
        starts = [int(at) * n for at, n in zip(coords, extents, strict=True)]
        return View(tensor, starts, extents, batch)

    def full(self, shape: Sequence[int], value: Any, dtype: Any = _F32) -> Tile:
        return Tile(np.full(tuple(shape), value).astype(dtype), self, mutable=True)

    def zeros(self, shape: Sequence[int], dtype: Any = _F32) -> Tile:
        return self.full(shape, 0, dtype)

    def gemm(
        self,
        a: Tile | View,
        b: Tile | View,
        acc: Tile,
        *,
        negate: str = "",
        sums: bool = False,
        **ignored: object,
    ) -> None:
        """`ignored` changes no exact result, or is for the compiler to refuse."""
        wide = np.float64 if is_float(acc.dtype) else np.int64
        left, right = (_multiplied(_values(each)).astype(wide) for each in (a, b))
        if sums:  # eight more columns of ones
            right = np.concatenate([right, np.ones((right.shape[0], 8), wide)], axis=1)
        product = left @ right * (-1) ** len(negate)
        acc.assign(Tile(held_values(acc.values.astype(wide) + product, acc.dtype), self))

    def load(self, view: View, mask: Tile | None = None, other: Any = 0) -> Tile:
        values = view.read()
        if mask is not None:
            spread = np.broadcast_to(_beside(mask.values, values), values.shape)
            values = np.where(spread, values, np.array(other).astype(values.dtype))
        return Tile(values, self)

    def copy(self, source: Tile | View, view: View, mask: Tile | None = None) -> None:
        if self.active[-1]:
            values = _values(source)
            view.write(values, None if mask is None else _beside(mask.values, values))

    def atomic_add(self, tile: Tile, view: View) -> Tile:
        return self._atomic(np.add, tile, view)

    def atomic_exchange(self, tile: Tile, view: View) -> Tile:
        return self._atomic(lambda old, new: new, tile, view)

    def atomic_compare_and_swap(self, expected: Tile, tile: Tile, view: View) -> Tile:
        kept = wide_values(expected.values)
        return self._atomic(lambda old, new: np.where(old == kept, new, old), tile, view)

    def atomic_max(self, tile: Tile, view: View) -> Tile:
        return self._atomic(np.maximum, tile, view)

    def atomic_min(self, tile: Tile, view: View) -> Tile:
        return self._atomic(np.minimum, tile, view)

    def atomic_and(self, tile: Tile, view: View) -> Tile:
        return self._atomic(np.bitwise_and, tile, view)

    def atomic_or(self, tile: Tile, view: View) -> Tile:
        return self._atomic(np.bitwise_or, tile, view)

    def atomic_xor(self, tile: Tile, view: View) -> Tile:
        return self._atomic(np.bitwise_xor, tile, view)

    def _atomic(self, by: Any, tile: Tile, view: View) -> Tile:
        old = _beside(view.read(), tile.values)
        if self.active[-1]:
            made = by(wide_values(old), wide_values(tile.values))
            view.write(held_values(made, tile.dtype))
        return Tile(old, self)

    def row_vector(self, tensor: Tensor, index: int, extent: int) -> Tile:
        return self.local_tile(tensor, (extent,), (index,)).T.load()

    def column_vector(self, tensor: Tensor, index: int, extent: int) -> Tile:
        return self.local_tile(tensor, (extent,), (index,)).load()[:, None]

    def row_sum(self, tile: Tile) -> Tile:
        return self._reduced(tile, np.add, 1)

    def column_sum(self, tile: Tile) -> Tile:
        return self._reduced(tile, np.add, 0)

    def row_max(self, tile: Tile) -> Tile:
        return self._reduced(tile, np.maximum, 1)

    def column_max(self, tile: Tile) -> Tile:
        return self._reduced(tile, np.maximum, 0)

    def reduce(self, tile: Tile, mode: int, combine: str) -> Tile:
        return self._reduced(tile, {"min": np.minimum, "max": np.maximum}[combine], mode)

    def sum(self, tile: Tile, mode: int | None = None) -> Tile:
        return self._reduced(tile, np.add, mode)

    def prod(self, tile: Tile, mode: int | None = None) -> Tile:
        return self._reduced(tile, np.multiply, mode)

    def max(self, tile: Tile, mode: int | None = None) -> Tile:
        return self._reduced(tile, np.maximum, mode)

    def min(self, tile: Tile, mode: int | None = None) -> Tile:
        return self._reduced(tile, np.minimum, mode)

    def all(self, condition: Tile, mode: int) -> Tile:
        return Tile(np.asarray(condition.values.all(mode, keepdims=True)), self)

    def argmin(self, tile: Tile, mode: int = 1) -> Tile:
        found = wide_values(tile.values).argmin(mode, keepdims=True)
        return Tile(found.astype(np.int32), self)

    def argmax(self, tile: Tile, mode: int = 1) -> Tile:
        found = wide_values(tile.values).argmax(mode, keepdims=True)
        return Tile(found.astype(np.int32), self)

    def top_k(self, tile: Tile, k: int, mode: int = 1) -> tuple[Tile, Tile]:
        # The first of equal ones comes first.
        places = np.argsort(-wide_values(tile.values), axis=mode, kind="stable")
        places = places.take(np.arange(k), mode)
        values = np.take_along_axis(tile.values, places, axis=mode)
        return Tile(values, self), Tile(places.astype(np.int32), self)

    def _reduced(self, tile: Tile, by: Any, mode: int | None) -> Tile:
        narrow = not is_float(tile.dtype) and tile.dtype.itemsize < 4
        adds = by in (np.add, np.multiply)
        dtype = np.dtype(np.int32) if narrow and adds else tile.dtype
        if is_float(tile.dtype) and tile.dtype.itemsize == 1 and adds:
            dtype = _F32
        reduced = by.reduce(wide_values(tile.values), axis=mode, keepdims=True)
        return Tile(held_values(reduced, dtype), self)

    def any(self, condition: Tile, mode: int | None = None) -> Any:
        if mode is not None:
            return Tile(np.asarray(condition.values.any(mode, keepdims=True)), self)
        return np.bool_(condition.values.any())

    def where(self, condition: Tile, yes: Any, no: Any) -> Tile:
        sides = [v for v in (yes, no) if isinstance(v, Tile)]
        dtype = sides[0].dtype
        for each in sides[1:]:
            dtype = _promoted(dtype, each.dtype)
        left, right = (
            wide_values(v.values) if isinstance(v, Tile) else np.array(v) for v in (yes, no)
        )
        return Tile(held_values(np.where(condition.values, left, right), dtype), self)

    def maximum(self, left: Any, right: Any) -> Any:
        return _binary(np.maximum, left, right)

    def minimum(self, left: Any, right: Any) -> Any:
        return _binary(np.minimum, left, right)

    def abs(self, tile: Tile) -> Tile:
        # 16-bit floats are computed and given in f32.
        short = is_float(tile.dtype) and tile.dtype.itemsize <= 2
        dtype = np.dtype(np.float32) if short else tile.dtype
        return Tile(held_values(np.abs(wide_values(tile.values)), dtype), self)

    def relu(self, tile: Tile) -> Tile:
        return self.maximum(tile, 0)

    def floor(self, tile: Tile) -> Tile:
        return self._whole(tile, np.floor)

    def ceil(self, tile: Tile) -> Tile:
        return self._whole(tile, np.ceil)

    def trunc(self, tile: Tile) -> Tile:
        return self._whole(tile, np.trunc)

    def round(self, tile: Tile) -> Tile:
        return self._whole(tile, np.rint)

    def _whole(self, tile: Tile, by: Any) -> Tile:
        dtype = np.dtype(np.float32) if tile.dtype.itemsize <= 2 else tile.dtype
        return Tile(held_values(by(wide_values(tile.values)), dtype), self)

    def inline_ptx(self, text: str, tile: Tile, dtype: np.dtype) -> Tile:
        return Tile(held_values(INSTRUCTIONS[text](wide_values(tile.values)), dtype), self)

    def sign(self, tile: Tile) -> Tile:
        return Tile(held_values(np.sign(wide_values(tile.values)), tile.dtype), self)

    def copysign(self, size: Tile, sign: Tile) -> Tile:
        return _binary(np.copysign, size, sign)

    def clamp(self, tile: Tile, low: int, high: int) -> Tile:
        return self.minimum(self.maximum(tile, low), high)

    def fma(self, a: Tile, b: int, c: Tile) -> Tile:
        return a * b + c

    def isnan(self, tile: Tile) -> Tile:
        return Tile(np.asarray(np.isnan(wide_values(tile.values))), self)

    def isinf(self, tile: Tile) -> Tile:
        return Tile(np.isinf(wide_values(tile.values)), self)

    def isfinite(self, tile: Tile) -> Tile:
        return Tile(np.isfinite(wide_values(tile.values)), self)

    def popc(self, tile: Tile) -> Tile:
        return Tile(_bits(tile.values).sum(-1).astype(np.int32), self)

    def clz(self, tile: Tile) -> Tile:
        seen = np.maximum.accumulate(_bits(tile.values), axis=-1)
        return Tile((1 - seen).sum(-1).astype(np.int32), self)

    def brev(self, tile: Tile) -> Tile:
        bits = _bits(tile.values)
        weights = np.uint64(1) << np.arange(bits.shape[-1], dtype=np.uint64)
        turned = (bits.astype(np.uint64) * weights).sum(-1, dtype=np.uint64)
        return Tile(turned.astype(f"u{tile.dtype.itemsize}").view(tile.dtype), self)

    def coord(self, tile: Tile, mode: int, origin: Any = 0) -> Tile:
        first = origin.starts[mode] if isinstance(origin, View) else origin
        at = np.indices(tile.values.shape)[mode] + first
        return Tile(at.astype(np.int32), self)


class Tensor:
    """An array, or a slice of one: what lies outside of its bounds reads 0 and is not written."""

    def __init__(
        self,
        array: np.ndarray,
        names: NumpyTiles,
        bounds: dict[int, tuple[int, int, int]] | None = None,
    ) -> None:
        self.array, self.names = array, names
        # By mode: where coordinate 0 of the slice lies, its first element that exists, its end.
        self.bounds = bounds or {}

    @property
    def dtype(self) -> np.dtype:
        return self.array.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return tuple(self.dim(mode) for mode in range(self.array.ndim))

    def dim(self, mode: int) -> int:
        origin, _, end = self.limits(mode)
        return max(0, end - origin)

    def limits(self, mode: int) -> tuple[int, int, int]:
        return self.bounds.get(mode, (0, 0, self.array.shape[mode]))

    def slice(self, mode: int, first: int, end: int) -> Tensor:
        origin, floor, last = self.limits(mode)
        begin = origin + int(first)
        made = begin, max(floor, begin), min(last, origin + int(end))
        return Tensor(self.array, self.names, {**self.bounds, mode: made})

    def paged(self, mode: int, table: Tensor, page_size: int) -> Tensor:
        """The rows of the pages that a table names, one after the other; read only."""
        rows = np.moveaxis(self.array[table.array], 1 + mode, 2)
        entries, pages, size = rows.shape[:3]
        assert size == page_size
        flat = rows.reshape(entries, pages * size, *rows.shape[3:])
        return Tensor(np.moveaxis(flat, 1, mode), self.names)

    def __getitem__(self, coords: Any) -> Element:
        return Element(self.array[coords].item())


class Element(float):
    """An element of a tensor as a number; as a coordinate it is an integer."""

    def to(self, dtype: np.dtype) -> int | float:
        return float(self) if is_float(dtype) else int(self)

    def __index__(self) -> int:
        return int(self)


class View:
    """A tile of a tensor: `all_starts` and `extents` by its modes, the first of them batches."""

    def __init__(
        self,
        tensor: Tensor,
        starts: list[int],
        extents: list[int],
        batch: int,
        turned: bool = False,
    ) -> None:
        self.tensor, self.batch, self.turned = tensor, batch, turned
        self.extents = extents
        self.all_starts = starts

    def _kept(self) -> list[int]:
        """The modes of the tile: of more than two, those of one element go, outermost first."""
        kept = list(range(self.batch, len(self.extents)))
        for mode in tuple(kept):
            if len(kept) > 2 and self.extents[mode] == 1:
                kept.remove(mode)
        return kept

    @property
    def starts(self) -> list[int]:
        kept = [self.all_starts[mode] for mode in self._kept()]
        return kept[::-1] if self.turned else kept

    @property
    def dtype(self) -> np.dtype:
        return self.tensor.dtype

    @property
    def T(self) -> View:
        return View(self.tensor, self.all_starts, self.extents, self.batch, not self.turned)

    def _indices(self) -> tuple[tuple[np.ndarray, ...], np.ndarray]:
        """Where each element lies, clamped, and which of them the tensor has."""
        at: list[np.ndarray] = []
        inside = np.ones((1,) * len(self.extents), bool)
        for mode, (start, extent) in enumerate(zip(self.all_starts, self.extents, strict=True)):
            origin, floor, end = self.tensor.limits(mode)
            shape = [1] * len(self.extents)
            shape[mode] = extent
            place = (origin + start + np.arange(extent)).reshape(shape)
            inside = inside & (place >= floor) & (place < end)
            at.append(np.clip(place, 0, max(0, self.tensor.array.shape[mode] - 1)))
        return tuple(np.broadcast_arrays(*at)), np.broadcast_to(inside, self.extents)

    def _matrix(self, values: np.ndarray) -> np.ndarray:
        kept = values.reshape([self.extents[mode] for mode in self._kept()])
        if self.turned and kept.ndim == 1:
            return kept[None, :]
        return kept.T if self.turned else kept

    def read(self) -> np.ndarray:
        at, inside = self._indices()
        zero = np.zeros((), self.dtype)
        return self._matrix(np.where(inside, self.tensor.array[at], zero)).astype(self.dtype)

    def write(self, values: np.ndarray, mask: np.ndarray | None = None) -> None:
        at, inside = self._indices()
        chosen = inside
        if mask is not None:
            spread = np.broadcast_to(mask, values.shape)
            chosen = inside & (spread.T if self.turned else spread).reshape(self.extents)
        turned = (values.T if self.turned else values).reshape(self.extents)
        self.tensor.array[tuple(each[chosen] for each in at)] = turned[chosen]

    def load(self) -> Tile:
        return Tile(self.read(), self.tensor.names)

    def to(self, dtype: np.dtype) -> Tile:
        return self.load().to(dtype)


class Views:
    """The tiles along one mode."""

    def __init__(self, tensor: Tensor, extents: list[int], coords: list[Any], batch: int) -> None:
        self.tensor, self.extents, self.coords, self.batch = tensor, extents, coords, batch

    @property
    def tiles(self) -> int:
        mode = self.coords.index(None)
        return -(-self.tensor.dim(mode) // self.extents[mode])

    def __getitem__(self, index: int) -> View:
        at = [index if coord is None else coord for coord in self.coords]
        starts = [int(c) * n for c, n in zip(at, self.extents, strict=True)]
        return View(self.tensor, starts, self.extents, self.batch)


def _binary_method(by: Any, swap: bool = False) -> Any:
    def method(self: Tile, other: Any) -> Tile:
        return _binary(by, other, self) if swap else _binary(by, self, other)

    return method


class Tile:
    """A register tile."""

    __array_ufunc__ = None

    def __init__(self, values: np.ndarray, names: NumpyTiles, mutable: bool = False) -> None:
        self.values, self.names, self.mutable = values, names, mutable

    @property
    def dtype(self) -> np.dtype:
        return self.values.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        return self.values.shape

    @property
    def T(self) -> Tile:
        return Tile(np.atleast_2d(self.values.T), self.names)

    @property
    def mT(self) -> Tile:
        return Tile(self.values.swapaxes(-1, -2), self.names)

    def to(self, dtype: Any) -> Tile:
        if np.dtype(dtype) == np.bool_:
            return Tile(wide_values(self.values) != 0, self.names)
        return Tile(held_values(wide_values(self.values), np.dtype(dtype)), self.names)

    def __getitem__(self, key: Any) -> Tile:
        return Tile(self.values[key], self.names)

    def bitcast(self, dtype: Any) -> Tile:
        return Tile(np.ascontiguousarray(self.values).view(dtype), self.names)

    def columns(self, first: int, count: int) -> Tile:
        return Tile(self.values[:, first : first + count], self.names)

    def assign(self, value: Any) -> None:
        new = value.values if isinstance(value, Tile) else np.array(value)
        held = held_values(np.broadcast_to(wide_values(new), self.values.shape), self.dtype)
        if self.names.active[-1]:
            self.values = held.copy()

    def __iadd__(self, other: Any) -> Tile:
        self.assign(self + other)
        return self

    def __neg__(self) -> Tile:
        return _binary(np.subtract, 0, self)

    __add__ = _binary_method(np.add)
    __radd__ = _binary_method(np.add, True)
    __sub__ = _binary_method(np.subtract)
    __rsub__ = _binary_method(np.subtract, True)
    __mul__ = _binary_method(np.multiply)
    __rmul__ = _binary_method(np.multiply, True)
    __floordiv__ = _binary_method(np.floor_divide)
    __mod__ = _binary_method(np.mod)
    __lshift__ = _binary_method(np.left_shift)
    __rlshift__ = _binary_method(np.left_shift, True)
    __rshift__ = _binary_method(np.right_shift)
    __and__ = _binary_method(np.bitwise_and)
    __or__ = _binary_method(np.bitwise_or)
    __xor__ = _binary_method(np.bitwise_xor)
    __lt__ = _binary_method(np.less)
    __le__ = _binary_method(np.less_equal)
    __gt__ = _binary_method(np.greater)
    __ge__ = _binary_method(np.greater_equal)
    __eq__ = _binary_method(np.equal)
    __ne__ = _binary_method(np.not_equal)
    __hash__ = None  # type: ignore[assignment]

    def __invert__(self) -> Tile:
        return Tile(~self.values, self.names)


_COMPARISONS = (
    np.less, np.less_equal, np.greater, np.greater_equal, np.equal, np.not_equal,
)  # fmt: skip
_LOGIC = (np.bitwise_and, np.bitwise_or, np.bitwise_xor)


def _binary(by: Any, left: Any, right: Any) -> Any:
    tiles = [each for each in (left, right) if isinstance(each, Tile)]
    if not tiles:
        return by(left, right)
    dtype = tiles[0].dtype
    for each in tiles[1:]:
        assert each.values.ndim == tiles[0].values.ndim
        dtype = _promoted(dtype, each.dtype)
    if dtype == np.bool_ and by not in _LOGIC:
        dtype = np.dtype(np.int32)
    one, other = (
        wide_values(each.values) if isinstance(each, Tile) else np.array(each)
        for each in (left, right)
    )
    if by in _COMPARISONS:
        return Tile(by(one, other), tiles[0].names)
    return Tile(held_values(by(one, other), dtype), tiles[0].names)


def _promoted(one: np.dtype, other: np.dtype) -> np.dtype:
    """The wider float; f32 for two of one width, i32 for i8 with u8."""
    if one == other:
        return one
    if is_float(one) != is_float(other):
        return one if is_float(one) else other
    bits = [1 if each == np.bool_ else 8 * each.itemsize for each in (one, other)]
    if bits[0] == bits[1]:
        return np.dtype(np.float32 if is_float(one) else np.int32)
    return one if bits[0] > bits[1] else other


def is_float(dtype: np.dtype) -> bool:
    return NAMES[dtype] in _EXACT


def _beside(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Values in the modes of others: a vector may stand for a column, and a column for a vector."""
    return values if values.ndim == others.ndim else values.reshape(others.shape)


def _values(source: Tile | View) -> np.ndarray:
    return source.read() if isinstance(source, View) else source.values


def _multiplied(values: np.ndarray) -> np.ndarray:
    """Operands of a multiply; those of f32 have to be integers that tf32 holds."""
    if values.dtype == np.float32 and (np.abs(values) > _EXACT_TF32).any():
        raise InexactError("an operand beyond the integers of tf32")
    return values


def wide_values(values: np.ndarray) -> np.ndarray:
    """As f64 or i64, where nothing overflows; conditions as they are."""
    if values.dtype == np.bool_:
        return values
    return values.astype(np.float64 if is_float(values.dtype) else np.int64)


def _bits(values: np.ndarray) -> np.ndarray:
    """The bits of integers along a mode behind the others, the highest first."""
    count = 8 * values.dtype.itemsize
    wide = values.astype(np.int64)[..., None]
    return (wide >> np.arange(count - 1, -1, -1)) & 1


def held_values(values: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Values in a type: integers wrap, floats have to be small integers."""
    if not is_float(dtype):
        if values.dtype.kind == "f":
            if (np.abs(values) > 100).any():
                raise InexactError(f"a float beyond {dtype}")
            values = np.trunc(values).astype(np.int64)
        return values.astype(dtype)
    beyond = np.abs(values) > _EXACT[NAMES[dtype]]
    if (beyond & np.isfinite(values)).any():
        raise InexactError(f"a value beyond the integers of {dtype}")
    return values.astype(dtype)
