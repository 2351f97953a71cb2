"""Operands on their way drawn by lot, for `random_operands.py`: a call or a tile program, its
arrays, and the exact result. Elements are small integers and scales powers of two, so that a result
is right bit by bit or wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np

import cutedialect as cute
from cutedialect.layout.text import parse_layout

BF16, E4M3 = ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn
_PER = {"u1": 2, "u4": 8}
# Orders of packed elements, by bytes of the integers that hold them; a block of 64 takes no groups
# of 32.
_ORDERS: dict[str, tuple[str | None, ...]] = {
    "u1": (None, None, "(2,4,2,(2,2)):(2,16,4,(1,8))", "(2,4,2,2):(2,8,4,1)", "(32,2):(2,1)"),
    "u4": (None, "(2,4):(4,1)"),
}
_BLOCK = 128


@dataclass(frozen=True)
class Draw:
    """A call of a function with its arrays and options, what it has to give, and a line of text.
    `outputs` are the arrays that a tile program writes, in the place of a result.
    """

    text: str
    function: Any
    args: tuple[Any, ...]
    options: dict[str, Any]
    want: Any
    outputs: tuple[Any, ...] = ()


@dataclass
class Lot:
    """What is drawn with one number of a seed."""

    rng: np.random.Generator
    target: str
    said: list[str] = field(default_factory=list)

    def one(self, choices: Sequence[Any]) -> Any:
        """One of several."""
        return choices[int(self.rng.integers(len(choices)))]

    def chance(self, share: float) -> bool:
        """Whether something happens that has a share."""
        return bool(self.rng.random() < share)

    def extent(self, high: int, step: int = 1) -> int:
        """An extent, often at an edge of tiles."""
        edge = self.one((64, 128)) + self.one((-1, 0, 1))
        drawn = edge if self.chance(0.2) else int(self.rng.integers(1, high))
        return max(step, drawn // step * step)

    def integers(self, shape: Sequence[int], dtype: Any, low: int = -2, high: int = 3) -> Any:
        """Small integers of a type."""
        return self.rng.integers(low, high, shape).astype(dtype)

    def powers(self, shape: Sequence[int], dtype: Any = np.float32) -> Any:
        """Powers of two."""
        return np.exp2(self.rng.integers(-1, 2, shape)).astype(dtype)


def held(q: Any, axis: int, holder: str, order: str | None) -> Any:
    """Elements of 4 bits as integers that hold them along an axis, the last block filled up."""
    per = _PER[holder]
    layout = parse_layout(order or f"{per}:1")
    last = np.moveaxis(q, axis, -1)
    filled = [(0, 0)] * (last.ndim - 1) + [(0, -last.shape[-1] % layout.size())]
    last = np.pad(last, filled, constant_values=5)
    blocks = last.reshape(*last.shape[:-1], -1, layout.size())
    placed = np.empty_like(blocks)
    placed[..., layout.offsets()] = blocks
    parts = placed.reshape(*last.shape[:-1], -1, per).astype(np.uint32) & 15
    words = (parts << (4 * np.arange(per, dtype=np.uint32))).sum(-1, dtype=np.uint32)
    return np.moveaxis(words.astype(holder), -1, axis)


@dataclass(frozen=True)
class _Weights:
    """Weights (..., K, N), what is beside them, and the numbers they stand for."""

    b: Any
    scale: Any
    zero: Any
    wide: Any


def _beside(lot: Lot, lead: tuple[int, ...], k: int, n: int, group: int, kind: str) -> Any:
    """Scales ("f4") or zeros ("u1") of columns, or of groups of K where there are some."""
    shape = (*lead, -(-k // group), n) if group else (*lead, n)
    return lot.powers(shape) if kind == "f4" else lot.integers(shape, kind, 0, 16)


def _spread(of: Any, k: int, group: int) -> Any:
    of = np.asarray(of, np.float64)
    if of.ndim == 0:
        return of
    return np.repeat(of, group, -2)[..., :k, :] if group else of[..., None, :]


def weights(lot: Lot, lead: tuple[int, ...], k: int, n: int, dtype: Any) -> _Weights:
    """Weights of 8 or 4 bits, plain or packed."""
    group = lot.one((0, 0, 32, 64, 128))
    four = lot.chance(0.7)
    q = lot.integers((*lead, k, n), np.uint8, 0, 16)
    if not four:
        b, name = q.astype(lot.one((np.int8, np.uint8))), "8 bits"
        b = np.ascontiguousarray(b.swapaxes(-1, -2)).swapaxes(-1, -2) if lot.chance(0.7) else b
    else:
        holder, axis = lot.one(("u1", "u1", "u4")), -2 if lot.chance(0.8) else -1
        orders = [x for x in _ORDERS[holder] if group != 32 or "2,2)" not in (x or "")]
        order = lot.one([x for x in orders if group != 32 or x != "(32,2):(2,1)"])
        per = parse_layout(order or f"{_PER[holder]}:1").size()
        if axis == -1:
            n = max(per, n // per * per)
            q = lot.integers((*lead, k, n), np.uint8, 0, 16)
        if axis == -2 and holder == "u1" and order is not None and "(1,8)" in order:
            b, name = cute.pack(q), "4 bits by cute.pack"
        else:
            array = held(q, axis, holder, order)
            if axis == -2 and lot.chance(0.7):
                array = np.ascontiguousarray(array.swapaxes(-1, -2)).swapaxes(-1, -2)
            b, name = cute.packed(array, "u4", array.ndim + axis, order), f"4 bits {axis} {order}"
    scale = _beside(lot, lead, k, n, group, "f4") if group or lot.chance(0.5) else None
    kind = lot.one(("none", "number", "beside"))
    zero = {"none": None, "number": 8}.get(kind)
    if kind == "beside":
        zero = _beside(lot, lead, k, n, group, "u1")
    if scale is not None and lot.chance(0.3):
        scale = scale.astype(dtype)
    wide = q - _spread(0 if zero is None else zero, k, group)
    wide = wide * _spread(1 if scale is None else scale, k, group)
    lot.said += [name, f"groups of {group}" if group else "columns", f"zero {kind}"]
    return _Weights(b, scale, zero, wide)


def product(lot: Lot) -> Draw:
    """`cute.gemm` of 16 bits by weights."""
    m, n, k = lot.extent(300), lot.extent(300, 8), lot.extent(500)
    dtype = lot.one((np.float16, BF16))
    x, w = lot.integers((m, k), dtype), weights(lot, (), k, n, dtype)
    n = w.wide.shape[-1]
    options: dict[str, Any] = {"scale_b": w.scale, "zero_b": w.zero, "out_dtype": "f32"}
    want = x.astype(np.float64) @ w.wide
    if lot.chance(0.3):
        bias = lot.integers((n,), np.float32)
        options["bias"], want = bias, want + bias
    if lot.chance(0.2):
        options["activation"], want = "relu", np.maximum(want, 0)
    text = f"gemm {m}x{n}x{k} {np.dtype(dtype).name}, {', '.join(lot.said)}"
    return Draw(text, cute.gemm, (x, w.b), options, want)


def _routed(lot: Lot) -> tuple[Any, Any, Any, int, int]:
    """Offsets of groups, some of them empty, the group of each row, and rows and tokens."""
    groups, tokens = lot.one((1, 3, 8, 40)), int(lot.rng.integers(1, 120))
    counts = lot.rng.integers(0, 1 + 300 // groups, groups) * (lot.rng.random(groups) < 0.8)
    offsets = np.concatenate([[0], counts.cumsum()]).astype(lot.one((np.int32, np.int64)))
    total = int(offsets[-1])
    of_rows = np.searchsorted(offsets, np.arange(total), "right") - 1
    return offsets, of_rows, counts, total, tokens


def experts(lot: Lot) -> Draw:
    """`cute.routed_gemm`: gathered or not, gated, added back, by matrices of every kind."""
    offsets, of_rows, _, total, tokens = _routed(lot)
    groups, k, n = len(offsets) - 1, lot.extent(260, 8), lot.extent(200, 8)
    kind = lot.one(("16 bits", "weights", "weights", "blocks"))
    gathers = lot.chance(0.7)
    count = tokens if gathers else total
    dtype = E4M3 if kind == "blocks" else lot.one((np.float16, BF16))
    x = lot.integers((count, k), dtype)
    options: dict[str, Any] = {"out_dtype": "f32"}
    rows = x.astype(np.float64)
    if kind == "blocks":
        k16, k, n = -(-k // 16) * 16, -(-k // 16) * 16, -(-n // 16) * 16
        x = lot.integers((count, k16), dtype)
        scale = lot.powers((count, -(-k // _BLOCK)))
        options["scale_a"] = scale
        rows = x.astype(np.float64) * np.repeat(scale, _BLOCK, 1)[:, :k]

    def matrices(names: tuple[str, str], shared: Any = None) -> tuple[Any, Any]:
        if kind == "16 bits":
            b = lot.integers((groups, n, k), dtype).swapaxes(1, 2)
            return b, b.astype(np.float64)
        if kind == "weights":
            w = weights(lot, (groups,), k, n, dtype)
            options.update({names[0]: w.scale, names[1]: w.zero})
            return w.b, w.wide
        b = lot.integers((groups, n, k), dtype).swapaxes(1, 2)
        scales = lot.powers((groups, -(-k // _BLOCK), -(-n // _BLOCK)))
        options[names[0]] = scales
        spread = np.repeat(np.repeat(scales, _BLOCK, 1)[:, :k], _BLOCK, 2)[:, :, :n]
        return b, b.astype(np.float64) * spread

    b, wide = matrices(("scale_b", "zero_b"))
    n = wide.shape[-1]
    if gathers:
        at = lot.rng.integers(-1, tokens, total).astype(lot.one((np.int32, np.int64)))
        options["rows"] = at
        rows = np.where((at >= 0)[:, None], rows[np.maximum(at, 0)], 0)
    found = np.einsum("rk,rkn->rn", rows, wide[of_rows])
    if kind != "weights" and lot.chance(0.3):
        gate, more = matrices(("scale_gated", "zero_gated"))
        options |= {"gated": gate, "activation": "relu"}
        found = np.maximum(found, 0) * np.einsum("rk,rkn->rn", rows, more[of_rows])
    sums = lot.one(("", "", "atomics"))
    if sums:
        to, size = lot.rng.integers(-1, tokens, total).astype(np.int32), tokens
        shares = lot.powers((total,))
        options |= {"scatter": to, "count": size, "weights": shares}
        added = np.zeros((size, n))
        np.add.at(added, to[to >= 0], (found * shares[:, None])[to >= 0])
        found = added
    text = (
        f"routed_gemm {total} rows of {groups} groups, {n}x{k} {kind} {np.dtype(dtype).name}"
        f"{' gathered' if gathers else ''}{' gated' if 'gated' in options else ''}"
        f"{' added' if sums else ''} {', '.join(lot.said)}"
    )
    return Draw(text, cute.routed_gemm, (x, b, offsets), options, found)


def _places(extent: int, taps: int, stride: int, padding: int, dilation: int) -> int:
    return (extent + 2 * padding - dilation * (taps - 1) - 1) // stride + 1


def image(lot: Lot) -> Draw:
    """A convolution, or one of its gradients, of all channels or of each by itself."""
    while True:
        images, (h, w) = int(lot.rng.integers(1, 4)), lot.rng.integers(3, 14, 2)
        (r, s), dilation = lot.rng.integers(1, 4, 2), int(lot.rng.integers(1, 3))
        stride, padding = int(lot.rng.integers(1, 4)), int(lot.rng.integers(0, 3))
        h, w, r, s = map(int, (h, w, r, s))
        p, q = (_places(*each, stride, padding, dilation) for each in ((h, r), (w, s)))
        if min(p, q) > 0:
            break
    c, f = lot.extent(72, lot.one((1, 2, 8))), lot.extent(80, lot.one((1, 8)))
    by_channels = lot.chance(0.2)
    f, depth = (c, 1) if by_channels else (f, c)
    dtype = lot.one((np.float16, BF16))
    x, taps = lot.integers((images, h, w, c), dtype), lot.integers((f, r, s, depth), dtype)
    steps = {"stride": stride, "padding": padding, "dilation": dilation}
    form = lot.one(("conv2d", "conv2d_dgrad", "conv2d_wgrad"))
    whole = np.zeros((images, h + 2 * padding, w + 2 * padding, c))
    whole[:, padding : padding + h, padding : padding + w] = x
    slopes = lot.integers((images, p, q, f), dtype)
    total, dx, dw = np.zeros((images, p, q, f)), np.zeros(whole.shape), np.zeros(taps.shape)
    wide, wide_slopes = taps.astype(np.float64), slopes.astype(np.float64)
    for i, j in np.ndindex(r, s):
        rows, columns = (
            slice(at * dilation, at * dilation + stride * (places - 1) + 1, stride)
            for at, places in ((i, p), (j, q))
        )
        seen = whole[:, rows, columns]
        if by_channels:
            total += seen * wide[:, i, j, 0]
            dx[:, rows, columns] += wide_slopes * wide[:, i, j, 0]
            dw[:, i, j, 0] = (wide_slopes * seen).sum((0, 1, 2))
        else:
            total += seen @ wide[:, i, j].T
            dx[:, rows, columns] += wide_slopes @ wide[:, i, j]
            dw[:, i, j] = np.einsum("npqf,npqc->fc", wide_slopes, seen)
    dx = dx[:, padding : padding + h, padding : padding + w]
    options: dict[str, Any] = {**steps, "out_dtype": "f32"}
    args, want = {
        "conv2d": ((x, taps), total),
        "conv2d_dgrad": ((slopes, taps, (h, w)), dx),
        "conv2d_wgrad": ((x, slopes, (r, s)), dw),
    }[form]
    if by_channels and form != "conv2d":
        options["groups"] = c
    if form == "conv2d" and lot.chance(0.5):
        bias = lot.integers((f,), np.float32)
        options |= {"bias": bias, "activation": "relu"}
        want = np.maximum(want + bias, 0)
    text = f"{form} {images}x{h}x{w}x{c} by {f}x{r}x{s}x{depth} {np.dtype(dtype).name} {steps}"
    return Draw(text, getattr(cute, form), args, options, want)


_MASK: Callable[[Any, int], Any] = lambda x, n: x & n  # noqa: E731
# What stands between a load and a multiply: of integers, then of floats.
_OF_INTEGERS: dict[str, Callable[[Any, int], Any]] = {
    "&": _MASK,
    "|": lambda x, n: x | n,
    "^": lambda x, n: x ^ n,
    ">>": lambda x, n: x >> (n % 4),
}
_OF_FLOATS: dict[str, Callable[[Any, Any, int], Any]] = {
    "-": lambda np_, x, n: x - n,
    "*": lambda np_, x, n: x * 2,
    "where": lambda np_, x, n: np_.where(x > n, x, 0.0),
    "maximum": lambda np_, x, n: np_.maximum(x, n),
}
_SOURCES = ("u8", "i8", "u4", "e4m3", "f16", "f32")


@cute.kernel
def chain(
    X: Any,
    W: Any,
    rows: Any,
    Y: Any,
    *,
    tile: tuple[int, int, int] = (64, 64, 64),
    packed: bool = False,
    steps: tuple[tuple[str, int], ...] = (),
    later: tuple[tuple[str, int], ...] = (),
    left: bool = True,
    turned: bool = False,
) -> None:
    """Y = f(X) W, or W f(X): rows of X, which may be numbered, as operands that steps compute."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    across, at = (bm, m) if left else (bn, n)
    source = cute.packed(X, cute.u4, axis=1) if packed else X
    place = at if rows is None else cute.local_tile(rows, (across,), (at,))
    if turned:
        x = cute.local_tile(source, (bk, across), (None, at))
    else:
        x = cute.local_tile(source, (across, bk), (place, None))
    other = cute.local_tile(W, (bk, bn) if left else (bm, bk), (None, n) if left else (m, None))
    acc = cute.zeros((bm, bn))
    for k in cute.range(other.tiles):
        value = x[k].load()
        for name, number in steps:
            value = _OF_INTEGERS[name](value, number)
        value = value.to(W.dtype)
        for name, number in later:
            value = _OF_FLOATS[name](cute, value, number)
        is_rows = left != turned
        value = value if is_rows else value.T
        if left:
            cute.gemm(value, other[k], acc)
        else:
            cute.gemm(other[k], value, acc)
    cute.copy(acc, cute.local_tile(Y, (bm, bn), (m, n)))


def program(lot: Lot) -> Draw:
    """A tile program of a chain of steps, of rows in order or gathered."""
    m, n, k = lot.extent(200), lot.extent(200), lot.extent(260)
    left, source = lot.chance(0.5), lot.one(_SOURCES)
    turned = source != "u4" and lot.chance(0.3)
    gathers = not turned and source != "u4" and lot.chance(0.4)
    step = {"u4": 2, "f32": lot.one((1, 4))}.get(source, lot.one((1, 2, 8, 16)))
    k = max(step, k // step * step)
    across = m if left else n
    count = int(lot.rng.integers(1, 150)) if gathers else across
    types = {"u8": np.uint8, "i8": np.int8, "e4m3": E4M3, "f16": np.float16, "f32": np.float32}
    dtype = lot.one((np.float16, BF16))
    whole = source in ("u8", "i8")
    low, high = {"u8": (0, 128), "i8": (-64, 64), "u4": (0, 16)}.get(source, (-2, 3))
    values = lot.integers((count, k), np.int16, low, high)
    steps = tuple(
        (lot.one(tuple(_OF_INTEGERS)), int(lot.rng.integers(1, 16)))
        for _ in range(int(lot.rng.integers(0, 3)) if whole else 0)
    )
    later = tuple(
        (lot.one(tuple(_OF_FLOATS)), int(lot.rng.integers(0, 8)))
        for _ in range(int(lot.rng.integers(0, 3)))
    )
    if source == "u4":
        x: Any = held(values.astype(np.uint8), 1, "u1", None)
    else:
        x = values.astype(types[source])
        x = np.ascontiguousarray(x.T) if turned else x
    at = lot.rng.integers(-2, count + 2, across).astype(np.int32) if gathers else None
    seen = values.astype(types.get(source, np.uint8))
    if at is not None:
        there = (at >= 0) & (at < count)
        seen = np.where(there[:, None], seen[at.clip(0, count - 1)], seen.dtype.type(0))
    for name, number in steps:
        seen = _OF_INTEGERS[name](seen, seen.dtype.type(number))
    wide = seen.astype(np.float64)
    for name, number in later:
        wide = _OF_FLOATS[name](np, wide, number)
    w = lot.integers((k, n) if left else (m, k), dtype)
    want = wide @ w.astype(np.float64) if left else w.astype(np.float64) @ wide.T
    y = np.zeros((m, n), np.float32)
    tile = (lot.one((64, 128)), lot.one((32, 64, 128)), lot.one((32, 64)))
    options = {
        "tile": tile, "packed": source == "u4", "steps": steps, "later": later, "left": left,
        "turned": turned,
    }  # fmt: skip
    text = (
        f"chain {m}x{n}x{k} of {source} {steps + later} {'left' if left else 'right'}"
        f"{' turned' if turned else ''}{' gathered' if gathers else ''} {np.dtype(dtype).name} "
        f"tile {tile}"
    )
    return Draw(text, chain, (x, w, at, y), options, want, (y,))


FORMS: dict[str, Callable[[Lot], Draw]] = {
    "weights": product,
    "experts": experts,
    "images": image,
    "chains": program,
}
