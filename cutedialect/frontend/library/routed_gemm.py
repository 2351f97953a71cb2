"""Products of groups of rows as a tile program: group e, the rows offsets[e] to offsets[e + 1] - 1,
times matrix e of B (E, K, N), where the offsets are numbers on the device.

Row r of the groups is row rows[r] of A, or row r. What follows the product goes to row r of D, or
times weights[r] is added to row targets[r] of it: by atomics, or by a kernel of its own that adds
the products of each row in one order.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cutedialect.frontend.dtypes import f32, i32
from cutedialect.frontend.host import host
from cutedialect.frontend.kernel import KernelFunction, kernel
from cutedialect.schedule import Schedule

from .gemm import Activation, activated, multiplied

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor, Tile

# Rows and columns of a tile of the kernels that clear a result, or add products up.
_ROWS, _COLUMNS = 8, 256
Places = tuple[Any, Any, Any]


@lru_cache(maxsize=64)
def product_for(activation: str | Activation | None, adds: bool) -> KernelFunction:
    """The kernel that multiplies, with an activation; it `adds` to rows of the result."""

    @kernel(in_bounds=True, spills="refuse")
    def routed_gemm(
        A: Tensor,
        B: Tensor,
        offsets: Tensor,
        lengths: Any,
        rows: Any,
        targets: Any,
        weights: Any,
        gated: Any,
        bias: Any,
        scale_b: Any,
        D: Tensor,
        *,
        tile: tuple[int, int, int] = (128, 128, 64),
    ) -> None:
        # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
        from cutedialect.frontend import functions as cute
        from cutedialect.frontend.atomics import atomic_add
        from cutedialect.frontend.local_tiles import local_tile
        from cutedialect.frontend.loops import range_

        bm, bn, bk = tile
        total = (A if rows is None else rows).dim(0)
        e, i, n, low, high = _item(offsets, lengths, total, D.dim(1), bm, bn)

        def part(of: Tensor) -> Tensor:
            return of.slice(0, low, high)

        at = i if rows is None else local_tile(part(rows), (bm,), (i,))
        a_tiles = local_tile(part(A) if rows is None else A, (bm, bk), (at, None))
        b_tiles = local_tile(B, (bk, bn), (e, None, n))
        more_tiles = None if gated is None else local_tile(gated, (bk, bn), (e, None, n))
        acc = cute.zeros((bm, bn))
        more = None if gated is None else cute.zeros((bm, bn))
        is_there = (i >= 0) & (i * bm < high - low)
        for k in range_(a_tiles.tiles * is_there.to(i32)):
            a = a_tiles[k]
            cute.tile_gemm(*multiplied(a, b_tiles[k]), acc)
            if more_tiles is not None and more is not None:
                cute.tile_gemm(*multiplied(a, more_tiles[k]), more)
        out: Tile = acc.to(f32)
        if scale_b is not None:
            out = out * local_tile(scale_b, (1, bn), (e, n)).load()
        if bias is not None:
            out = out + local_tile(bias, (1, bn), (e, n)).load().to(f32)
        out = activated(activation, out)
        if more is not None:
            out = out * more
        if weights is not None:
            out = out * cute.column_vector(part(weights), i, bm).to(f32)
        if not adds:
            cute.copy(out.to(D.dtype), local_tile(part(D), (bm, bn), (i, n)))
            return
        place = local_tile(part(targets), (bm,), (i,))
        atomic_add(out.to(D.dtype), local_tile(D, (bm, bn), (place, n)))

    return routed_gemm


def _item(
    offsets: Tensor, lengths: Any, total: int | Scalar, columns: int | Scalar, bm: int, bn: int
) -> tuple[Scalar, Scalar, Scalar, Scalar, Scalar]:
    """The work item of this CTA: its group, its tiles along rows and columns, and the rows of the
    group. Group e has the items from number offsets[e] // bm + e on, of which it may leave one
    over. Whatever the offsets are, the rows lie within `total`.
    """
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.elementwise import maximum, minimum
    from cutedialect.frontend.tensor_layouts import make_layout, make_tensor

    groups = offsets.dim(0) - 1
    items = make_layout((total // bm + groups, columns), (0, 0))
    item, n = cute.tile_index(make_tensor(offsets, items), (1, bn))

    def first_item(e: Scalar) -> Scalar:
        return offsets[e].to(i32) // bm + e

    e = cute.search(first_item, groups, item)
    low = minimum(maximum(offsets[e].to(i32), 0), total)
    high = minimum(offsets[e + 1].to(i32), total)
    if lengths is not None:
        high = minimum(high, low + lengths[e].to(i32))
    return e, item - first_item(e), n, low, maximum(high, low)


@kernel(in_bounds=True, spills="refuse")
def clear(D: Tensor) -> None:
    """Zeros."""
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile

    at = cute.tile_index(D, (_ROWS, _COLUMNS))
    cute.copy(cute.zeros((_ROWS, _COLUMNS), D.dtype), local_tile(D, (_ROWS, _COLUMNS), at))


@kernel(in_bounds=True, spills="refuse")
def combine(P: Tensor, places: Tensor, weights: Any, D: Tensor) -> None:
    """Row t of D is the sum of the rows places[t, 0], places[t, 1], ... of P, in this order."""
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile
    from cutedialect.frontend.loops import range_

    t, n = cute.tile_index(D, (_ROWS, _COLUMNS))
    acc = cute.zeros((_ROWS, _COLUMNS))
    for j in range_(places.dim(1)):
        at = local_tile(places, (_ROWS, 1), (t, j))
        product = local_tile(P, (_ROWS, _COLUMNS), (at, n)).load().to(f32)
        if weights is not None:
            product = product * local_tile(weights, (_ROWS, 1), (t, j)).load().to(f32)
        acc += product
    cute.copy(acc.to(D.dtype), local_tile(D, (_ROWS, _COLUMNS), (t, n)))


@lru_cache(maxsize=64)
def program_for(activation: str | Activation | None, sums: str) -> KernelFunction:
    """The program: `sums` is "" without a scatter, else by "atomics" or in "order"."""
    if not sums:
        return product_for(activation, False)
    product = product_for(activation, sums == "atomics")

    @host
    def scattered(
        A: Tensor,
        B: Tensor,
        offsets: Tensor,
        lengths: Any,
        rows: Any,
        scatter: Tensor,
        weights: Any,
        gated: Any,
        bias: Any,
        scale_b: Any,
        D: Tensor,
        *,
        tile: tuple[int, int, int] = (128, 128, 64),
    ) -> None:
        from cutedialect.frontend.host import launch, workspace

        plan = Schedule(roles="uniform", scheduler="single", epilogue="direct")
        given = (gated, bias, scale_b)
        if sums == "atomics":
            launch(clear, D, schedule=plan)
            launch(product, A, B, offsets, lengths, rows, scatter, weights, *given, D, tile=tile)
            return
        count = A.dim(0) if rows is None else rows.dim(0)
        products = workspace((count, D.dim(1)), A.dtype)
        launch(product, A, B, offsets, lengths, rows, None, None, *given, products, tile=tile)
        launch(combine, products, scatter, weights, D, schedule=plan)

    return scattered
