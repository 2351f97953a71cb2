"""Products of groups of rows as a tile program: group e, the rows offsets[e] to offsets[e + 1] - 1,
times matrix e of B (E, K, N), where the offsets are numbers on the device.

Row r of the groups is row rows[r] of A, or row r. What follows the product goes to row r of D, or
times weights[r] is added to row targets[r] of it: by atomics, or by a kernel of its own that adds
the products of each row in one order. Matrices of narrow numbers have zeros, and scales of columns,
or of groups of K, whose sums are multiplied by them apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from cutedialect.frontend.dtypes import f32, i32
from cutedialect.frontend.gemm_scales import BLOCK
from cutedialect.frontend.host import host
from cutedialect.frontend.kernel import KernelFunction, kernel
from cutedialect.schedule import Schedule

from .gemm import Activation, activated, elements, multiplied, scale_tile, scaled

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor, Tile

# Rows and columns of a tile of the kernels that clear a result, or add products up.
_ROWS, _COLUMNS = 8, 256
# Modes of scales that hold for columns of a matrix, (E, N).
_OF_COLUMNS = 2
Spans = tuple[int, int]
_WHOLE: tuple[Spans, Spans] = ((0, 0), (0, 0))
# Bits of a byte.
_BYTE = 8


@dataclass
class Matrices:
    """The matrices of all groups, of which a work item multiplies columns of one: what its tiles
    are multiplied by at a place (group, column), and what they add up to. Sums of a `turned`
    product have its columns as rows, so that threads of warpgroups have weights in registers.
    """

    of: Tensor
    scale: Any
    zeros: Any
    zero: float
    spans: tuple[Spans, Spans]
    tile: tuple[int, int, int]
    place: tuple[Scalar, Scalar]
    turned: bool

    def __post_init__(self) -> None:
        from cutedialect.frontend import functions as cute
        from cutedialect.frontend.local_tiles import local_tile

        (bm, bn, bk), (e, n) = self.tile, self.place
        self.tiles = local_tile(self.of, (bk, bn), (e, None, n))
        self.shape = (bn, bm) if self.turned else (bm, bn)
        self.sums = cute.zeros(self.shape)

    @property
    def has_groups(self) -> bool:
        """Whether rows of K share scales, whose products are summed apart."""
        return self.scale is not None and self.scale.rank > _OF_COLUMNS

    def add(self, a: Any, k: Scalar, of_rows: Sequence[Tile] = ()) -> None:
        """Add the product of step k by a tile of rows, which may have scales of this step."""
        from cutedialect.frontend import functions as cute

        apart = self.has_groups or bool(of_rows)
        sums = cute.zeros(self.shape) if apart else self.sums
        if self.turned:
            weights, rows = multiplied(self.tiles[k].T, a.T, self._zero(k))
            cute.tile_gemm(weights, rows, sums)
        else:
            cute.tile_gemm(*multiplied(a, self.tiles[k], self._zero(k)), sums)
        if apart:
            factors = [self._part(self.scale, self.spans[0], k)] if self.has_groups else []
            self.sums += scaled(sums, [*of_rows, *(each.to(f32) for each in factors)])

    def scaled(self) -> Tile:
        """The sums, times scales of columns."""
        sums = self.sums.T if self.turned else self.sums
        if self.scale is None or self.has_groups:
            return sums.to(f32)
        return sums.to(f32) * self._columns(self.scale).load().to(f32)

    def _columns(self, of: Tensor) -> Any:
        from cutedialect.frontend.local_tiles import local_tile

        e, n = self.place
        return local_tile(of, (1, self.tile[1]), (e, n))

    def _zero(self, k: Scalar) -> Any:
        if self.zeros is None:
            return self.zero
        if self.zeros.rank > _OF_COLUMNS:
            return self._part(self.zeros, self.spans[1], k)
        view = self._columns(self.zeros)
        return (view.T if self.turned else view).load()

    def _part(self, of: Tensor, spans: Spans, k: Scalar) -> Tile:
        """The entries of step k."""
        e, n = self.place
        modes = ((k, self.tile[2]), (n, self.tile[1]))
        return scale_tile(of, spans, modes, (e,), self.turned)


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
        scale_a: Any,
        scale_b: Any,
        zero_b: Any,
        scale_gated: Any,
        zero_gated: Any,
        D: Tensor,
        *,
        tile: tuple[int, int, int] = (128, 128, 64),
        turned: bool = False,
        zeros: tuple[float, float] = (0.0, 0.0),
        spans: tuple[tuple[Spans, Spans], tuple[Spans, Spans]] = (_WHOLE, _WHOLE),
        packed: tuple[Any, ...] | None = None,
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
        found = ((B, scale_b, zero_b), (gated, scale_gated, zero_gated))
        matrices = [
            Matrices(
                of if packed is None else elements(of, packed),
                scale,
                zero,
                number,
                spans_of,
                (bm, bn, bk),
                (e, n),
                turned,
            )
            for (of, scale, zero), number, spans_of in zip(found, zeros, spans, strict=True)
            if of is not None
        ]
        is_there = (i >= 0) & (i * bm < high - low)
        for k in range_(a_tiles.tiles * is_there.to(i32)):
            a, factors = a_tiles[k], []
            if scale_a is not None:
                scales, block = part(scale_a) if rows is None else scale_a, k // (BLOCK // bk)
                factors = [local_tile(scales, (bm, 1), (at, block)).load()]
            for each in matrices:
                each.add(a, k, factors)
        out, *more = (each.scaled() for each in matrices)
        if bias is not None:
            out = out + local_tile(bias, (1, bn), (e, n)).load().to(f32)
        out = activated(activation, out)
        for each in more:
            out = out * each
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
        scale_a: Any,
        scale_b: Any,
        zero_b: Any,
        scale_gated: Any,
        zero_gated: Any,
        D: Tensor,
        *,
        tile: tuple[int, int, int] = (128, 128, 64),
        turned: bool = False,
        zeros: tuple[float, float] = (0.0, 0.0),
        spans: tuple[tuple[Spans, Spans], tuple[Spans, Spans]] = (_WHOLE, _WHOLE),
        packed: tuple[Any, ...] | None = None,
    ) -> None:
        from cutedialect.frontend.host import launch, workspace

        plan = Schedule(roles="uniform", scheduler="single", epilogue="direct")
        given = (gated, bias, scale_a, scale_b, zero_b, scale_gated, zero_gated)
        how: dict[str, Any] = {
            "tile": tile, "turned": turned, "zeros": zeros, "spans": spans, "packed": packed
        }  # fmt: skip
        if sums == "atomics":
            launch(clear, D, schedule=plan)
            launch(product, A, B, offsets, lengths, rows, scatter, weights, *given, D, **how)
            return
        count = A.dim(0) if rows is None else rows.dim(0)
        products = workspace((count, D.dim(1)), A.dtype if A.dtype.bits > _BYTE else D.dtype)
        launch(product, A, B, offsets, lengths, rows, None, None, *given, products, **how)
        launch(combine, products, scatter, weights, D, schedule=plan)

    return scattered
