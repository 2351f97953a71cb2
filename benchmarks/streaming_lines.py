"""Programs on the lines of tiles, as a user writes them at first: scans, sorts, largest elements,
counts and elements by their places, of whole rows. `benchmarks.streaming --others` times them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cutedialect as cute

from .streaming_workloads import Shape, Workload

_LARGEST = 32
_BINS = 256
# Elements of a tile of several rows, of the sorts fewer: each goes through all threads many times.
_TILE, _SORTED_TILE = 4096, 2048
_FLAGGED = 1.5


@cute.kernel
def sums_of_rows(X, Y, *, tile):
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).load()
    cute.copy(cute.cumsum(x), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def segmented_sums(X, Y, *, tile):
    """Of runs that begin at large elements."""
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).load()
    f = (x > _FLAGGED).to(cute.i32)
    y, _ = cute.scan((x, f), 1, lambda a, f, b, g: (cute.where(g != 0, b, a + b), f | g))
    cute.copy(y, cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def sorted_rows(X, Y, *, tile):
    i, _ = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, (i, 0)).load()
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, cute.inf)
    cute.copy(cute.sort(x), cute.local_tile(Y, tile, (i, 0)))


@cute.kernel
def largest_of_rows(X, Y, *, tile):
    i, _ = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, 0)).load()
    x = cute.where(cute.coord(x, 1) < X.shape[1], x, -cute.inf)
    values, _ = cute.top_k(x, _LARGEST)
    cute.copy(values, cute.local_tile(Y, (tile[0], _LARGEST), (i, 0)))


@cute.kernel
def counts_of_rows(X, Y, *, tile):
    i, _ = cute.tile_index(X, tile)
    x = cute.local_tile(X, tile, (i, 0)).load()
    x = cute.where(cute.coord(x, 1) < X.shape[1], x & (_BINS - 1), -1)
    counts = cute.histogram(x, _BINS, mode=1)
    cute.copy(counts.to(cute.f32), cute.local_tile(Y, (tile[0], _BINS), (i, 0)))


@cute.kernel
def gathered_of_rows(X, N, Y, *, tile):
    i, _ = cute.tile_index(Y, tile)
    x, n = (cute.local_tile(v, tile, (i, 0)).load() for v in (X, N))
    cute.copy(cute.take_along(x, n), cute.local_tile(Y, tile, (i, 0)))


def _segmented(torch: Any, x: Any) -> tuple[Any, ...]:
    """Of sums of all elements those in front of the last flag taken away."""
    total = torch.cumsum(x, 1)
    places = torch.arange(x.shape[1], device=x.device).expand_as(x)
    last = torch.where(x > _FLAGGED, places, 0).cummax(1).values
    return (total - torch.gather(total - x, 1, last),)


def _counted(torch: Any, x: Any) -> tuple[Any, ...]:
    ones = torch.ones(x.shape, dtype=torch.float32, device=x.device)
    counts = torch.zeros((x.shape[0], _BINS), dtype=torch.float32, device=x.device)
    return (counts.scatter_add(1, (x & (_BINS - 1)).long(), ones),)


def _rows(program: Any, formula: Callable[..., Any], most: int = _TILE, **more: Any) -> Workload:
    """A program on whole rows of f32, several of them where they are short."""
    arrays: dict[str, Any] = {"inputs": _matrix, "outputs": _matrix, **more}
    return Workload(
        formula=formula,
        ours=lambda: program,
        options=lambda shape: {"tile": (1 << (most // shape[1] or 1).bit_length() - 1, shape[1])},
        **arrays,
    )


def _matrix(shape: Shape) -> list[tuple[Shape, str]]:
    return [(shape, "float32")]


# By name: the workload, and the least and the largest width of rows that are drawn for it.
LINES: dict[str, tuple[Workload, float, float]] = {
    "running sums of rows": (
        _rows(sums_of_rows, lambda torch, x: (torch.cumsum(x, 1),)),
        64,
        16000,
    ),
    "segmented sums": (_rows(segmented_sums, _segmented), 64, 8000),
    "sorted rows": (
        _rows(sorted_rows, lambda torch, x: (torch.sort(x, 1).values,), _SORTED_TILE),
        16,
        2048,
    ),
    "largest of rows": (
        _rows(
            largest_of_rows,
            lambda torch, x: (torch.topk(x, _LARGEST, 1).values,),
            _SORTED_TILE,
            outputs=lambda shape: [((shape[0], _LARGEST), "float32")],
        ),
        64,
        2048,
    ),
    "counts of rows": (
        _rows(
            counts_of_rows,
            _counted,
            inputs=lambda shape: [(shape, "labels")],
            outputs=lambda shape: [((shape[0], _BINS), "float32")],
        ),
        256,
        16000,
    ),
    "gathered of rows": (
        _rows(
            gathered_of_rows,
            lambda torch, x, n: (torch.gather(x, 1, n.long()),),
            inputs=lambda shape: [(shape, "float32"), (shape, "labels")],
        ),
        64,
        8000,
    ),
}
