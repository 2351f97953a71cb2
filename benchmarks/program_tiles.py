"""Programs with multiplies whose tiles are priced (`choosing/program_price.py`): their problems,
the tiles that each is timed with, and a fit of the constants to these times. A record of timings is
{"case": "chained 1000 256 64 512", "schedule": "(64, 128)", "us": TIME, "run": SEED, "at": SECONDS}

    python -m benchmarks.fit --space program --device h200 --measure --minutes 2 --seed S
    python -m benchmarks.fit --space program --device h200 --write
"""

from __future__ import annotations

import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from types import SimpleNamespace
from typing import Any

import numpy as np

import cutedialect as cute
from cutedialect.atoms import Device
from cutedialect.choosing.price import FOLDER, in_order
from cutedialect.choosing.program_price import Work, estimated
from cutedialect.choosing.program_space import MARGIN
from cutedialect.frontend.autotune import tune
from cutedialect.passes.analysis.program_work import work_of

from .fit_timings import Record

Shapes = list[tuple[int, ...]]
Tile = tuple[int, ...]
# Of each time that is longer than the best of its problem so much counts, as for products.
_NEARNESS, _FARTHEST = 5.0, 0.6
# By how much a constant is changed at once, and how often all are.
_CHANGES, _PASSES = (1.4, 1 / 1.4, 1.1, 1 / 1.1), 3
_LESS = 1e-6
_ROUNDS = 12


@cute.kernel
def chained(A, B, C, D, *, tile=(64, 64), inner=64):
    """D = (A B) C, a block of rows of A B at a time."""
    rows, columns = tile
    i, j = cute.tile_index(D, (rows, columns))
    a, b = cute.local_tile(A, (rows, 64), (i, None)), cute.local_tile(B, (64, inner), (None, 0))
    first = cute.zeros((rows, inner))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], first)
    out = cute.zeros((rows, columns))
    cute.gemm(first.to(cute.f16), cute.local_tile(C, (inner, columns), (0, j)), out)
    cute.copy(out.to(cute.f16), cute.local_tile(D, (rows, columns), (i, j)))


@cute.kernel
def gated(X, W1, W2, Y, *, tile=(64, 64, 64)):
    """Y = silu(X W1) * (X W2)."""
    bm, bn, bk = tile
    m, n = cute.tile_index(Y, (bm, bn))
    x = cute.local_tile(X, (bm, bk), (m, None))
    w1, w2 = (cute.local_tile(W, (bk, bn), (None, n)) for W in (W1, W2))
    gate, up = cute.zeros((bm, bn)), cute.zeros((bm, bn))
    for k in cute.range(x.tiles):
        cute.gemm(x[k], w1[k], gate)
        cute.gemm(x[k], w2[k], up)
    cute.copy((cute.silu(gate) * up).to(Y.dtype), cute.local_tile(Y, (bm, bn), (m, n)))


@cute.kernel
def activated(A, B, C, *, tile=(64, 64, 64)):
    """C = gelu(A B)."""
    bm, bn, bk = tile
    m, n = cute.tile_index(C, (bm, bn))
    a, b = cute.local_tile(A, (bm, bk), (m, None)), cute.local_tile(B, (bk, bn), (None, n))
    acc = cute.zeros((bm, bn))
    for k in cute.range(a.tiles):
        cute.gemm(a[k], b[k], acc)
    cute.copy(cute.gelu(acc).to(C.dtype), cute.local_tile(C, (bm, bn), (m, n)))


@cute.kernel
def attended(Q, K, V, out, *, tile=(64, 64), dim=64):
    """Attention without a mask, as it is written first."""
    rows, keys = tile
    scale = 1.4427 / math.sqrt(dim)
    b, h, i, _ = cute.tile_index(out, (1, 1, rows, dim))
    q = cute.local_tile(Q, (rows, dim), (b, h, i, 0))
    k, v = (cute.local_tile(x, (keys, dim), (b, h, None, 0)) for x in (K, V))
    acc, top, total = cute.zeros((rows, dim)), cute.full((rows, 1), -1e30), cute.zeros((rows, 1))
    for j in cute.range(k.tiles):
        s = cute.zeros((rows, keys))
        cute.gemm(q, k[j].T, s)
        most = cute.maximum(top, cute.row_max(s) * scale)
        p, less = cute.exp2(s * scale - most), cute.exp2(top - most)
        total.assign(total * less + cute.row_sum(p))
        top.assign(most)
        acc.assign(acc * less)
        cute.gemm(p.to(V.dtype), v[j], acc)
    cute.copy((acc / total).to(out.dtype), cute.local_tile(out, (rows, dim), (b, h, i, 0)))


@cute.kernel
def scanned(Q, K, V, out, *, tile=(64, 64), dim=64):
    """Linear attention, chunk by chunk."""
    rows, columns = tile
    b, h, _, c = cute.tile_index(out, (1, 1, None, columns))
    q, k = (cute.local_tile(X, (rows, dim), (b, h, None, 0)) for X in (Q, K))
    v, o = (cute.local_tile(X, (rows, columns), (b, h, None, c)) for X in (V, out))
    state = cute.zeros((dim, columns))
    for j in cute.range(q.tiles):
        y, s = cute.zeros((rows, columns)), cute.zeros((rows, rows))
        cute.gemm(q[j], state.to(V.dtype), y)
        cute.gemm(q[j], k[j].T, s)
        s = cute.where(cute.coord(s, 0) >= cute.coord(s, 1), s, 0.0)
        cute.gemm(s.to(V.dtype), v[j], y)
        cute.gemm(k[j].T, v[j], state)
        cute.copy(y.to(out.dtype), o[j])


_ROWS_COLUMNS_DEPTH = (
    (64, 64, 64), (128, 64, 64), (64, 128, 64), (128, 128, 64), (64, 256, 64), (256, 64, 64),
)  # fmt: skip
# Each program with the tiles that it is timed with, the one that is declared first in front.
PROGRAMS: Mapping[str, tuple[Any, tuple[Tile, ...]]] = {
    "chained": (
        chained,
        ((64, 64), (128, 64), (64, 128), (128, 128), (64, 256), (256, 64), (128, 256)),
    ),
    "gated": (gated, (*_ROWS_COLUMNS_DEPTH, (128, 96, 64), (128, 128, 32))),
    "activated": (
        activated,
        (*_ROWS_COLUMNS_DEPTH, (128, 256, 64), (256, 128, 64), (64, 32, 128), (128, 192, 64)),
    ),
    "attended": (
        attended,
        ((64, 32), (64, 64), (128, 64), (64, 128), (128, 128), (192, 64), (192, 96), (128, 96)),
    ),
    "scanned": (
        scanned,
        ((64, 64), (64, 32), (64, 128), (128, 64), (128, 32), (128, 128), (32, 64)),
    ),
}


def drawn(seed: int, count: int) -> list[str]:
    """The names of problems, program by program."""
    rng = random.Random(f"programs {seed}")
    names: list[str] = []
    for number in range(count):
        kind = list(PROGRAMS)[number % len(PROGRAMS)]
        m, n, k = (
            rng.choice(each)
            for each in (
                (256, 1000, 1024, 2048, 4096, 8192),
                (256, 512, 1000, 1024, 2048, 4096),
                (128, 256, 512, 1024, 2048, 4096),
            )
        )
        sizes: tuple[int, ...] = m, k, n
        if kind == "chained":
            sizes = m, k, rng.choice((64, 128)), n
        elif kind == "attended":
            rows = rng.choice((200, 512, 1024, 2048))
            batch = rng.choice((1, 8192 // rows))
            sizes = batch, rng.choice((4, 16)), rows, rng.choice((64, 128))
        elif kind == "scanned":
            rows, columns = rng.choice((512, 1024, 4096)), rng.choice((64, 128, 256))
            sizes = rng.choice((1, 4, 16)), rng.choice((8, 16)), rows, columns
        names.append(" ".join((kind, *map(str, sizes))))
    return names


def call_of(name: str) -> tuple[Any, Shapes, dict[str, int]]:
    """The program of a problem, the shapes of its arguments, and its other parameters."""
    kind, *words = name.split()
    sizes = tuple(map(int, words))
    program = PROGRAMS[kind][0]
    if kind == "chained":
        m, k, inner, n = sizes
        return program, [(m, k), (k, inner), (inner, n), (m, n)], {"inner": inner}
    if kind == "attended":
        return program, [sizes] * 4, {"dim": sizes[-1]}
    if kind == "scanned":
        batch, heads, rows, columns = sizes
        keys, values = (batch, heads, rows, 64), (batch, heads, rows, columns)
        return program, [keys, keys, values, values], {"dim": 64}
    m, k, n = sizes
    weights = [(k, n)] * (2 if kind == "gated" else 1)
    return program, [(m, k), *weights, (m, n)], {}


def measured(
    seed: int, minutes: float, say: Callable[[str], None], count: int = 500
) -> Iterator[list[Record]]:
    """The timings of one drawn problem after the other on the device at hand, of tiles whose
    registers do not spill.
    """
    began = time.monotonic()
    for name in drawn(seed, count):
        if time.monotonic() - began > 60 * minutes:
            return
        program, shapes, more = call_of(name)
        specs = [cute.TensorSpec(shape, "f16") for shape in shapes]
        tiles = [tile for tile in PROGRAMS[name.split()[0]][1] if _fits(program, specs, tile, more)]
        found = tune(
            program, specs, more, configs=[{"tile": tile} for tile in tiles], rounds=_ROUNDS,
            again=True, check=False,
        )  # fmt: skip
        for failure in found.failures:
            say(f"{name}: {failure.schedule}: {failure.failure}")
        seconds = round(time.monotonic() - began)
        yield [
            {"case": name, "schedule": str(tile), "us": each.median, "run": seed, "at": seconds}
            for tile, each in zip(tiles, found.timings, strict=True)
            if each.median is not None
        ]


def _fits(program: Any, specs: Sequence[Any], tile: Tile, more: Mapping[str, Any]) -> bool:
    return cute.compile(program, *specs, tile=tile, **more).fits


@cache
def work(name: str, tile: str) -> tuple[Work, ...]:
    """What a problem is with a tile."""
    program, shapes, more = call_of(name)
    specs = [cute.TensorSpec(shape, "f16") for shape in shapes]
    found = work_of(program.trace(specs, {**more, "tile": json.loads(f"[{tile[1:-1]}]")}), shapes)
    assert found is not None
    return found


class Tiles:
    """What was timed, by problem, and what constants choose of it."""

    def __init__(self, records: Sequence[Record], device: Device) -> None:
        self._device = device
        times: dict[tuple[int, str], dict[str, float]] = {}
        for each in records:
            times.setdefault((each["run"], each["case"]), {})[each["schedule"]] = each["us"]
        self._problems = [
            (list(us.values()), [work(name, tile) for tile in us])
            for (_, name), us in times.items()
        ]

    @property
    def count(self) -> int:
        return len(self._problems)

    def judged(
        self, constants: Mapping[str, Any], only: slice = slice(None)
    ) -> tuple[float, float]:
        """The mean logarithm of what is chosen over the best, and what of the logarithms of times
        is left, squared, those near the best counting most.
        """
        price = SimpleNamespace(**constants)
        longer: list[float] = []
        left: list[float] = []
        for us, works in self._problems[only]:
            cycles = [estimated(each, self._device, price) for each in works]
            chosen = next(in_order(zip(cycles, us, strict=True), MARGIN))
            longer.append(math.log(chosen / min(us)))
            times = np.log(us)
            weights = np.exp(-_NEARNESS * np.minimum(times - times.min(), _FARTHEST))
            apart = times - np.log(cycles)
            apart -= (weights * apart).sum() / weights.sum()
            left.append(float((weights * apart**2).sum() / weights.sum()))
        return float(np.mean(longer)), float(np.mean(left))


def fitted_file(
    device: Device, records: Sequence[Record], say: Callable[[str], None], minutes: float
) -> str:
    """The text of the price file of programs: constants are changed one at a time, as long as what
    is chosen, or else what is left of the times, becomes less.
    """
    tiles = Tiles(records, device)
    path = FOLDER / f"program-{device.file}.json"
    known = path if path.exists() else FOLDER / "program-h200.json"
    constants = json.loads(known.read_text("utf-8"))["start"]
    start = json.loads(json.dumps(constants))
    least = sum(tiles.judged(constants))
    for _ in range(_PASSES):
        for values, key in list(_places(constants)):
            for change in _CHANGES:
                before = values[key]
                values[key] = float(f"{before * change:.3g}")
                now = sum(tiles.judged(constants))
                if now < least - _LESS:
                    least = now
                else:
                    values[key] = before
    longer = round(math.exp(tiles.judged(constants)[0]), 4)
    say(f"{len(records)} timings of {tiles.count} problems: {longer} of the best, what is chosen")
    timings = {
        "of": "a device", "kept": True, "count": len(records), "problems": tiles.count,
        "minutes": round(minutes, 1), "longer_than_best": longer,
    }  # fmt: skip
    data = {"space": "program", "device": device.file, "timings": timings, "start": start}
    return json.dumps(data | {"constants": constants}, indent=1) + "\n"


def _places(constants: dict[str, Any]) -> Iterator[tuple[Any, Any]]:
    """Where the numbers are."""
    for name, value in constants.items():
        if isinstance(value, list):
            yield from ((value, place) for place in range(len(value)))
        else:
            yield constants, name
