"""Rules of tiles: views of memory, register tiles, copies, multiplies, maps and reductions. Every
op works on whole tiles at once; thread-value layouts say who does it, not what.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import prod
from operator import methodcaller
from typing import Any

import ml_dtypes
import numpy as np
from xdsl.dialects import arith
from xdsl.ir import Block

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import BulkStoreType, RoundToTf32Op, TmaStoreType

from .cta import Cta, Fragment, slot, slots
from .elements import dtype_of, held_as, rounded, to_float, undefined
from .indexed_rows import IndexedRows, PixelRows
from .memory import Combine, Joined, View, view_of_buffer
from .rules import Code, Step, function, rule

_COMBINE: dict[str, Combine] = {
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}

# The low bits of f32 that tf32 has not, and half of its last unit.
_CUT_BY_TF32, _HALF_TF32 = np.uint32(0x1FFF), np.uint32(0x1000)
# Types of the scales of blocks.
_SCALES = {"ue8m0": ml_dtypes.float8_e8m0fnu, "ue4m3": ml_dtypes.float8_e4m3fn}
# Multiplications that BLAS does in one thread.
_ONE_THREAD = 1 << 18


def combine_of(kind: str) -> Any:
    """The function of a reduction of two elements; raises ValueError where no rule has it."""
    if kind not in _COMBINE:
        raise ValueError(f"expected a reduction ({', '.join(_COMBINE)}), got {kind}")
    return _COMBINE[kind]


@rule(cute.LocalTileOp)
def _local_tile(op: cute.LocalTileOp) -> Step:
    tile, of = tuple(op.tile.get_values()), op.counted
    (memref, *coords), result = slots(op.operands), slot(op.result)

    def step(cta: Cta) -> None:
        values = cta.values
        at = tuple([int(values[coord]) for coord in coords])
        values[result] = values[memref].local_tile(tile, at, of)

    return step


@function(cute.IndexedTileOp)
def _indexed_tile(op: cute.IndexedTileOp) -> Any:
    tile, of, mode = tuple(op.tile.get_values()), op.counted, op.mode

    count, last, is_moved = len(tile), op.last, op.places is not None

    def made(view: View, *rest: Any) -> IndexedRows:
        coords, numbers = tuple(map(int, rest[:count])), rest[count]
        places = (last, rest[count + 1]) if is_moved else None
        return IndexedRows(view, tile, coords, mode, numbers, of, places)

    return made


@function(cute.PixelTileOp)
def _pixel_tile(op: cute.PixelTileOp) -> Any:
    tile, walk, rank = tuple(op.tile.get_values()), op.walked, len(op.coords)

    def made(images: View, *rest: Any) -> PixelRows:
        numbers = tuple(map(int, rest))
        return PixelRows(images, tile, numbers[:rank], numbers[rank:], walk)  # pyright: ignore

    return made


@function(cute.TransposeOp)
def _transpose(op: cute.TransposeOp) -> Any:
    del op
    return methodcaller("transpose")


@function(cute.SubviewOp)
def _subview(op: cute.SubviewOp) -> Any:
    origin, shape = op.origin.get_values(), cute.shape_of(op.result.type)
    return lambda view: view.subview(origin, shape)


@function(cute.StageOp)
def _stage(op: cute.StageOp) -> Any:
    del op
    return lambda view, index: view.stage(int(index))


@function(cute.ConcatOp)
def _concat(op: cute.ConcatOp) -> Any:
    mode = op.mode.value.data
    return lambda *parts: Joined(parts, mode)


@function(cute.AllocFragmentOp)
def _alloc_fragment(op: cute.AllocFragmentOp) -> Any:
    shape = cute.shape_of(op.result.type)
    fresh = undefined(shape, held_as(_dtype(op.result)))
    return lambda: Fragment(fresh, shape)


@function(cute.AllocSmemOp)
def _alloc_smem(op: cute.AllocSmemOp) -> Any:
    type_, dtype = op.result.type, _dtype(op.result)
    assert isinstance(type_, cute.MemRefType)
    swizzle, size = type_.swizzle, type_.layout.cosize() * dtype.itemsize
    if swizzle is not None:
        # It permutes blocks of its repeat, of which the last may be filled in part.
        size += -size % (1 << swizzle.bits + swizzle.base + abs(swizzle.shift))
    fresh, layout = undefined(size // dtype.itemsize, dtype), type_.layout
    return lambda: view_of_buffer(fresh.copy(), layout, swizzle)


@function(cute.AllocTmemOp)
def _alloc_tmem(op: cute.AllocTmemOp) -> Any:
    layout = op.dense_layout
    fresh = undefined(layout.cosize(), _dtype(op.result))
    return lambda: view_of_buffer(fresh.copy(), layout, None)


@function(cute.ConvertOp)
def _convert(op: cute.ConvertOp) -> Any:
    del op
    return lambda tile: Fragment(tile.array, tile.shape)


@function(RoundToTf32Op)
def _round_to_tf32(op: RoundToTf32Op) -> Any:
    """To the nearest of 10 bits of mantissa, ties away from zero; NaN and infinities stay."""
    del op

    def rounded_to_tf32(tile: Fragment) -> Fragment:
        bits = tile.array.astype(np.float32).view(np.uint32)
        nearest = ((bits + _HALF_TF32) & ~_CUT_BY_TF32).view(np.float32)
        return Fragment(np.where(np.isfinite(tile.array), nearest, tile.array), tile.shape)

    return rounded_to_tf32


@function(cute.ExtractOp)
def _extract(op: cute.ExtractOp) -> Any:
    shape, whole = cute.shape_of(op.result.type), cute.shape_of(op.source.type)
    corners = zip(op.origin.get_values(), shape, whole, strict=True)
    # A mode of extent 1 may hold the values of several threads.
    region = tuple(slice(None) if w == 1 else slice(at, at + e) for at, e, w in corners)
    return lambda tile: Fragment(tile.array[region], shape)


@function(cute.UnpackOp)
def _unpack(op: cute.UnpackOp) -> Any:
    mode, per, order = op.mode.value.data, op.per, np.array(op.order.data.offsets())
    bits = op.bits
    shape, dtype = cute.shape_of(op.result.type), held_as(_dtype(op.result))
    at = np.arange(shape[mode])
    place = at // len(order) * len(order) + order[at % len(order)]
    shift = (place % per * bits).reshape([-1 if each == mode else 1 for each in range(len(shape))])

    def unpacked(tile: Fragment) -> Fragment:
        integers = np.take(tile.array, place // per, mode).astype(np.int64)
        return Fragment((integers >> shift & (1 << bits) - 1).astype(dtype), shape)

    return unpacked


@rule(cute.FillOp)
def _fill(op: cute.FillOp) -> Step:
    fragment, value = slots((op.fragment, op.value))
    shape, dtype = cute.shape_of(op.fragment.type), held_as(_dtype(op.fragment))

    def step(cta: Cta) -> None:
        cta.store(cta.values[fragment], np.full(shape, cta.values[value], dtype))

    return step


@function(cute.LoadOp)
def _load(op: cute.LoadOp) -> Any:
    shape = cute.shape_of(op.result.type)
    return lambda view: Fragment(view.read(), shape)


@rule(cute.CopyOp)
def _copy(op: cute.CopyOp) -> Step:
    source, destination, atom = slot(op.source), slot(op.destination), op.atom
    pred = None if op.pred is None else slot(op.pred)
    mask = None if op.mask is None else slot(op.mask)
    reduce = atom.reduce if isinstance(atom, TmaStoreType | BulkStoreType) else None
    combine = None if reduce is None else combine_of(reduce)
    is_plain = mask is None and combine is None
    spread = _dtype(op.destination) if op.spreads else None

    def step(cta: Cta) -> None:
        if pred is not None and not cta.values[pred]:
            return
        tile, to = cta.values[source], cta.values[destination]
        keeps = isinstance(tile, Fragment) and isinstance(to, Fragment)
        if is_plain and isinstance(tile, Fragment) and isinstance(to, View):
            cta.store(to, tile.stored(to.memory))
            return
        array = tile.array if keeps else tile.read()
        if spread is not None:
            array = six_bits(array, spread)
        if mask is not None:
            array = np.where(cta.values[mask].read(), array, to.read())
        cta.store(to, array, combine)

    return step


@rule(cute.CombineOp)
def _atomic(op: cute.CombineOp) -> Step:
    source, destination, combine = slot(op.source), slot(op.destination), combine_of(op.kind.data)

    def step(cta: Cta) -> None:
        cta.store(cta.values[destination], cta.values[source].read(), combine)

    return step


@rule(cute.FetchOp)
def _fetch(op: cute.FetchOp) -> Step:
    source, destination, result = slots((op.source, op.destination, op.result))
    kind, shape = op.kind.data, cute.shape_of(op.result.type)
    expected = None if op.expected is None else slot(op.expected)
    combine = None if kind in ("exchange", "compare") else combine_of(kind)

    def step(cta: Cta) -> None:
        old, new = cta.values[destination].read().copy(), cta.values[source].read()
        if expected is not None:
            new = np.where(old == cta.values[expected].read(), new, old)
        cta.store(cta.values[destination], new, combine)
        cta.values[result] = Fragment(old.reshape(shape), shape)

    return step


def _operands(op: cute.GemmOp, wide: np.dtype) -> Callable[[Any], tuple[np.ndarray, np.ndarray]]:
    """Reads both operands as numbers of a wide type: elements of 6 bits from the bytes that hold
    them, and those with scales of blocks times these.
    """
    tiles = slots((op.a, op.b))
    factors = [] if op.scales is None else slots(op.factors[:2])
    scaled = partial(_scaled, wide, op.scales or "", op.has_pairs, op.first_factor)
    elements = map(op.held_element, (op.a, op.b))
    kinds = [None if element is None else dtype_of(element) for element in elements]

    def read(values: Any) -> tuple[np.ndarray, np.ndarray]:
        left, right = (
            values[tile].read() if kind is None else six_bits(values[tile].read(), kind)
            for tile, kind in zip(tiles, kinds, strict=True)
        )
        if factors:
            left, right = map(scaled, (left, right), [values[each].read() for each in factors])
        elif left.dtype is not wide and left.dtype != wide:
            left, right = left.astype(wide), right.astype(wide)
        return left, right

    return read


@rule(cute.GemmOp)
def _gemm(op: cute.GemmOp) -> Step:
    (a, b, acc), dtype, is_whole = slots((op.a, op.b, op.acc)), _dtype(op.acc), op.is_whole_problem
    keeps = None if op.keeps is None else slot(op.keeps)
    is_integer = dtype.kind in "iu"
    # Sums of 8-bit products are exact in f64, and its matrix multiply is the fast one.
    wide = np.dtype(np.float64) if is_integer else held_as(dtype)
    is_negated, saturates = len(op.negated) == 1, op.kind == "satfinite"
    limits = np.iinfo(dtype) if saturates else None
    rows = None if is_whole else _rows_at_a_time(cute.shape_of(op.a.type), cute.shape_of(op.b.type))
    sums, slices = op.columns_of_sums, op.slices
    operands = _operands(op, wide)

    def plain(cta: Cta) -> None:
        values = cta.values
        product = _product(values[a].read(), values[b].read(), rows)
        to = values[acc]
        cta.store(to, np.add(to.read(), product, out=product))

    is_wide = wide == dtype and all(held_as(_dtype(each)) == wide for each in (op.a, op.b))
    is_plain = rows is not None and keeps is None and not (is_negated or sums or op.scales)
    is_plain = is_plain and slices == 1 and op.held is None
    if is_plain and is_wide:
        return plain

    def step(cta: Cta) -> None:
        values = cta.values
        left, right = operands(values)
        if sums:
            right = np.concatenate([right, np.ones((sums, right.shape[1]), right.dtype)])
        product = _sliced(left, right, rows, slices)
        if is_negated:
            product = -product
        to = values[acc]
        is_first = is_whole or (keeps is not None and not values[keeps])
        if limits is not None:
            before = 0 if is_first else to.read().astype(np.int64)
            total = np.clip(product.astype(np.int64) + before, limits.min, limits.max)
            cta.store(to, total.astype(dtype))
            return
        if is_integer:
            product = product.astype(np.int64).astype(dtype)
        total = product if is_first else np.add(to.read(), product, out=product)
        cta.store(to, total if wide == dtype or is_integer else rounded(total, dtype))

    return step


def _scaled(
    dtype: np.dtype,
    scaling: str,
    has_pairs: bool,
    first: int,
    tile: np.ndarray,
    words: np.ndarray,
) -> np.ndarray:
    """A tile of elements, or of bytes of two of them, times its scales in panels, from the `first`
    one of each row on.
    """
    elements = _halves(tile, dtype) if has_pairs else tile.astype(dtype)
    start = first * cute.SCALINGS[scaling]
    scales = _spread(words, scaling)[:, start : start + elements.shape[1]]
    return elements * scales.astype(dtype)


def six_bits(held: np.ndarray, kind: np.dtype) -> np.ndarray:
    """Four elements of 6 bits from each three bytes, low bits first: as many rows."""
    low, middle, high = (held[:, at::3].astype(np.uint32) for at in range(3))
    words = low | middle << 8 | high << 16
    codes = np.stack([words >> 6 * at & 63 for at in range(4)], axis=-1).astype(np.uint8)
    return codes.reshape(len(held), -1).view(kind)


def _halves(pairs: np.ndarray, dtype: np.dtype) -> np.ndarray:
    """Two elements of e2m1 from each byte, the one in the low half first."""
    codes = np.stack([pairs & 15, pairs >> 4], axis=-1).astype(np.uint8)
    return codes.view(ml_dtypes.float4_e2m1fn).astype(dtype).reshape(len(pairs), -1)


def _spread(words: np.ndarray, scaling: str) -> np.ndarray:
    """Scales in panels (panels of rows, 64 words for each panel of columns, or 128 of 32 bits), as
    one number for each element: (rows, depth).
    """
    kind, _, block = scaling.partition("x")
    panels = len(words), words[0].nbytes // (cute.PANEL_ROWS * cute.PANEL_COLUMNS)
    shape = *panels, cute.PANEL_LANES, cute.PANEL_GROUPS, cute.PANEL_COLUMNS
    codes = np.ascontiguousarray(words).view(np.uint8).reshape(shape)
    # Row r is in lane r % 32 and word r / 32 of its panel.
    rows = codes.transpose(0, 3, 2, 1, 4).reshape(panels[0] * cute.PANEL_ROWS, -1)
    scales = rows.view(_SCALES[kind]).astype(np.float64)
    return np.repeat(scales, int(block), axis=1)


def _rows_at_a_time(a: tuple[int, ...], b: tuple[int, ...]) -> int:
    """The rows of a tile (M,K) that are multiplied by one of (N,K) at once: BLAS starts threads for
    more, and waiting for them takes longer than tiles do.
    """
    rows = max(1, min(a[0], _ONE_THREAD // max(1, prod(b))))
    while a[0] % rows:
        rows -= 1
    return rows


def _product(a: np.ndarray, b: np.ndarray, rows: int | None) -> np.ndarray:
    """a (M,K) times b (N,K), some rows at a time."""
    rows = _rows_at_a_time(a.shape, b.shape) if rows is None else rows
    blocks = a.reshape(-1, rows, a.shape[1])
    columns = b.T if b.strides[0] == b.itemsize else np.ascontiguousarray(b.T)
    return np.matmul(blocks, columns).reshape(len(a), len(b))


def _sliced(a: np.ndarray, b: np.ndarray, rows: int | None, slices: int) -> np.ndarray:
    """The same, (M,N), or, where K is cut into slices, the products of each: (M,N,S)."""
    if slices == 1:
        return _product(a, b, rows)
    pairs = zip(np.split(a, slices, axis=1), np.split(b, slices, axis=1), strict=True)
    return np.stack([_product(left, right, rows) for left, right in pairs], axis=-1)


@rule(cute.MapOp)
def _map(op: cute.MapOp) -> Step:
    block, inputs = op.body.block, slots(op.inputs)
    args, result, shape = slots(block.args), slot(op.result), cute.shape_of(op.result.type)
    last = block.last_op
    assert isinstance(last, cute.YieldOp)
    narrowing = _narrowing(last)
    narrow = None if narrowing is None else dtype_of(last.value.type)
    value = slot(last.value if narrowing is None else narrowing.operands[0])
    code, rank = Code(block, narrowing), len(shape)

    def step(cta: Cta) -> None:
        tiles = [cta.values[each] for each in inputs]
        for arg, tile in zip(args, tiles, strict=True):
            array = tile.array
            if tile.is_replicated:
                array = _fitted(array, tile.shape, shape)
            cta.values[arg] = array.reshape(array.shape + (1,) * (rank - array.ndim))
        code.finish(cta)
        array = np.asarray(cta.values[value])
        if narrow is not None:
            array = to_float(array, narrow)
        if array.shape != shape:
            array = np.broadcast_to(array, np.broadcast_shapes(array.shape, shape))
        is_held = narrow is None
        cta.values[result] = Fragment(array, shape) if is_held else Fragment(None, shape, array)

    return step


def _narrowing(last: cute.YieldOp) -> arith.TruncFOp | None:
    """The op that rounds what a body yields to floats narrower than they are held, and gives it to
    nobody else.
    """
    op = last.value.owner
    if not isinstance(op, arith.TruncFOp) or op.parent is not last.parent:
        return None
    dtype = dtype_of(last.value.type)
    return op if held_as(dtype) != dtype and last.value.has_one_use() else None


def _fitted(array: np.ndarray, own: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
    """Values of threads that disagree, beside a tile with other elements along that mode: each of
    these is of some thread.
    """
    for mode, (extent, beside) in enumerate(zip(own, shape, strict=False)):
        held = array.shape[mode]
        if held != extent and beside not in (1, held):
            array = np.take(array, np.arange(beside) * held // beside, mode)
    return array


@function(cute.CoordOp)
def _coord(op: cute.CoordOp) -> Any:
    mode, around = op.mode.value.data, op.parent_op()
    assert isinstance(around, cute.MapOp)
    shape = cute.shape_of(around.result.type)
    line = np.arange(shape[mode], dtype=np.int32)
    line = line.reshape((1,) * mode + (-1,) + (1,) * (len(shape) - mode - 1))
    return lambda: line


def _fold(op: cute.ReduceOp, block: Block) -> Step:
    source, result, mode = slot(op.source), slot(op.result), op.mode.value.data
    shape, dtype = cute.shape_of(op.result.type), _dtype(op.source)
    args, last, code = slots(block.args), block.last_op, Code(block)
    assert isinstance(last, cute.YieldOp)
    value, wide = slot(last.value), dtype_of(block.args[0].type)

    def step(cta: Cta) -> None:
        array = cta.values[source].array.astype(wide)
        total = array.take([0], axis=mode)
        for at in range(1, op.folded):
            cta.values[args[0]], cta.values[args[1]] = total, array.take([at], axis=mode)
            code.finish(cta)
            total = np.broadcast_to(np.asarray(cta.values[value]), shape)
        cta.values[result] = Fragment(rounded(total, dtype), shape)

    return step


@rule(cute.ReduceOp)
def _reduce(op: cute.ReduceOp) -> Step:
    if op.body is not None:
        return _fold(op, op.body.block)
    source, result, mode = slot(op.source), slot(op.result), op.mode.value.data
    whole, shape = cute.shape_of(op.source.type), cute.shape_of(op.result.type)
    dtype, combine, is_local = _dtype(op.source), combine_of(op.kind.data), op.local is not None
    wide, given = held_as(dtype), _dtype(op.result)
    leaves_out = len(shape) < len(whole)
    parts = 1 if leaves_out else shape[mode]

    def step(cta: Cta) -> None:
        tile = cta.values[source]
        array, own = tile.array, cta.choices.local == "own"
        if whole[mode] == 1 or (is_local and parts == 1 and own):
            # Nothing along the mode to combine, or each thread has one element and keeps it.
            cta.values[result] = Fragment(array.reshape(shape) if leaves_out else array, shape)
            return
        if parts > 1:
            sizes = (-1, parts) if own else (parts, -1)
            array = array.reshape(*array.shape[:mode], *sizes, *array.shape[mode + 1 :])
            array = combine.reduce(array, axis=mode + (0 if own else 1), dtype=wide)
        else:
            array = combine.reduce(array, axis=mode, dtype=wide, keepdims=not leaves_out)
        cta.values[result] = Fragment(array if wide == given else rounded(array, given), shape)

    return step


@rule(cute.AnyOp)
def _any(op: cute.AnyOp) -> Step:
    source, result, is_local = slot(op.source), slot(op.result), op.local is not None

    def step(cta: Cta) -> None:
        array = cta.values[source].array
        if is_local and cta.choices.local == "own":
            rows = array.reshape(len(array), -1).any(axis=1, keepdims=True)
            mixed = rows.any() and not rows.all()
            cta.values[result] = rows if mixed else rows[0, 0]
        else:
            cta.values[result] = array.any()

    return step


@rule(cute.ShareOp)
def _share(op: cute.ShareOp) -> Step:
    assert op.value is not None
    source, result = slot(op.value), slot(op.result)

    def step(cta: Cta) -> None:
        cta.values[result] = cta.values[source]

    return step


def _dtype(value: Any) -> np.dtype[Any]:
    return dtype_of(cute.element_of(value.type))
