"""Matrix multiplies drawn at random, which no table names: sizes of language models' layers, sizes
of any kind, other majors, skinny ones, batches of small ones. One seed gives one list.

Each extent is drawn from as many equally likely parts of its range as there are rows, one row from
each part (Latin hypercube): a few dozen rows cover the range.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator

from .gemm_case import Gemm
from .strata import Stratum

# (columns, depth) of the layers of language models: projections of attention, up and down.
LAYERS = (
    (2560, 2560), (6912, 2560), (2560, 6912), (3072, 2048), (8192, 2048), (2048, 8192),
    (4608, 3584), (3584, 3584), (18944, 3584), (3584, 18944), (6144, 4096), (4096, 4096),
    (14336, 4096), (28672, 4096), (4096, 14336), (11008, 4096), (4096, 11008), (7168, 5120),
    (5120, 5120), (13824, 5120), (5120, 13824), (25600, 5120), (5120, 25600), (2112, 7168),
    (1536, 7168), (24576, 1536), (7168, 16384), (4096, 7168), (7168, 2048), (576, 7168),
    (9216, 7168), (7168, 9216), (10240, 8192), (8192, 8192), (28672, 8192), (8192, 28672),
    (1280, 8192), (8192, 1024), (7168, 8192), (8192, 3584), (5760, 2880), (2880, 4096),
)  # fmt: skip
_TOKENS = (8, 8192)
# Weights of layers that few rows are multiplied with.
_SKINNY = (
    (4096, 4096), (14336, 4096), (4096, 14336), (6144, 4096), (7168, 2048), (2112, 7168),
    (8192, 8192), (5120, 13824),
)  # fmt: skip
_EXTENTS = (32, 6200)
_MAJORS = ("NN", "NT", "TT")
# Problems of a batch, their extents, and the most values that all operands and results have.
_BATCH, _BATCHED = (8, 2048), (64, 1024)
_BATCHED_VALUES = 1 << 28


STRATA = (
    Stratum("layers", 60, 1.02, 0.95, 0.85, 1.10),
    Stratum("layers e4m3", 20, 1.02, 0.95, 0.85, 1.10),
    Stratum("eights", 60, 1.02, 0.90, 0.80, 1.10),
    Stratum("any parity", 40, 1.10, 0.90, 0.80, 1.30),
    Stratum("majors", 30, 1.10, 0.90, 0.80, 1.30),
    Stratum("skinny", 24, 1.05, 0.0, 0.0, 1.10, copies=0.90),
    Stratum("batches", 30, 0.0, 0.0, 0.0, 1.05),
)
LARGE = "large"


def drawn(seed: int, scale: float = 1.0) -> tuple[Gemm, ...]:
    """The rows of a seed, `scale` times as many as `STRATA` says (each stratum at least one)."""
    rows: list[Gemm] = []
    for number, stratum in enumerate(STRATA):
        rng = random.Random(f"{seed} {number}")
        count = max(1, round(scale * stratum.count))
        made = _MAKERS[stratum.section](rng, count)
        rows += [_case(stratum, *facts) for facts in made]
    large = [
        Gemm(LARGE, "f16", (edge, edge, edge), values="few integers", gate=0.0)
        for edge in (8192, 6144)
    ]
    # Rows of one name are one row.
    return tuple({case.name: case for case in (*rows, *large)}.values())


Facts = tuple[str, tuple[int, int, int], str, int]


def _case(
    stratum: Stratum, dtype: str, sizes: tuple[int, int, int], majors: str, batch: int
) -> Gemm:
    gate = stratum.most or stratum.mean
    return Gemm(stratum.section, dtype, sizes, majors, batch, gate=gate, goal=stratum.goal)


def _layers(dtype: str) -> Callable[[random.Random, int], Iterator[Facts]]:
    def make(rng: random.Random, count: int) -> Iterator[Facts]:
        layers = [LAYERS[int(place * len(LAYERS))] for place in _spread(rng, count)]
        for (n, k), place in zip(layers, _spread(rng, count), strict=True):
            yield dtype, (_rounded(_between(_TOKENS, place), 8), n, k), "TN", 1

    return make


def _random(step: int) -> Callable[[random.Random, int], Iterator[Facts]]:
    def make(rng: random.Random, count: int) -> Iterator[Facts]:
        for sizes in _sizes(rng, count, step):
            yield "bf16", sizes, "TN", 1

    return make


def _majors(rng: random.Random, count: int) -> Iterator[Facts]:
    for number, sizes in enumerate(_sizes(rng, count, 8)):
        yield "bf16", sizes, _MAJORS[number % len(_MAJORS)], 1


def _skinny(rng: random.Random, count: int) -> Iterator[Facts]:
    for number, place in enumerate(_spread(rng, count)):
        n, k = _SKINNY[number % len(_SKINNY)]
        yield "bf16", (round(_between((1, 128), place)), n, k), "TN", 1


def _batches(rng: random.Random, count: int) -> Iterator[Facts]:
    limits = (_BATCH, _BATCHED, _BATCHED, _BATCHED)
    for places in zip(*(_spread(rng, count) for _ in limits), strict=True):
        batch, *sizes = map(_between, limits, places)
        m, n, k = (_rounded(each, 8) for each in sizes)
        most = _BATCHED_VALUES // (m * n + m * k + n * k)
        yield "bf16", (m, n, k), "TN", max(_BATCH[0], min(most, round(batch)))


_MAKERS: dict[str, Callable[[random.Random, int], Iterator[Facts]]] = {
    "layers": _layers("bf16"),
    "layers e4m3": _layers("e4m3"),
    "eights": _random(8),
    "any parity": _random(1),
    "majors": _majors,
    "skinny": _skinny,
    "batches": _batches,
}


def _sizes(rng: random.Random, count: int, step: int) -> Iterator[tuple[int, int, int]]:
    places = (_spread(rng, count) for _ in range(3))
    for m, n, k in zip(*places, strict=True):
        yield tuple(_rounded(_between(_EXTENTS, place), step) for place in (m, n, k))  # type: ignore[misc]


def _spread(rng: random.Random, count: int) -> list[float]:
    """So many numbers in [0, 1), one from each equal part, in random order."""
    found = [(number + rng.random()) / count for number in range(count)]
    rng.shuffle(found)
    return found


def _between(limits: tuple[int, int], place: float) -> float:
    """A place in a range whose logarithm is spread evenly."""
    low, high = map(math.log, limits)
    return math.exp(low + place * (high - low))


def _rounded(value: float, step: int) -> int:
    return max(step, round(value / step) * step)
