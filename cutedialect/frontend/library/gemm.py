"""The matrix multiply as a tile program: D = activation(alpha A B + beta C + bias), batched.

Tensors are (batch..., rows, columns); a batch stride of 0 broadcasts. With `swapped` the tensors
are the transposed ones of B^T A^T, and the bias runs along the rows. Groups in the place of the
tensors are multiplied problem by problem.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

from cutedialect.frontend.block_formats import PANEL, PANEL_WORDS
from cutedialect.frontend.dtypes import DType, bf16, f32, i8, i32, u4, u8
from cutedialect.frontend.kernel import KernelFunction, kernel

if TYPE_CHECKING:
    from cutedialect.frontend.scalar import Scalar
    from cutedialect.frontend.tile import Tensor, Tile

Activation = Callable[["Tile"], "Tile"]
Spans = tuple[int, int]
# Weights are multiplied by so much on their way to bf16, and sums by its inverse: bytes become such
# bf16 by one product, others by two. Powers of two round nothing.
_SHRINK = 1 / 64
# The span of entries for each row or column, and what TMA moves at least.
_EACH, _LINE_BYTES = 1, 16


@lru_cache(maxsize=64)
def program_for(activation: str | Activation | None) -> KernelFunction:
    """The program with an activation: a name, a function of a tile, or none."""

    @kernel(in_bounds=True, spills="refuse")
    def gemm(
        A: Any,
        B: Any,
        C: Any,
        bias: Any,
        D: Any,
        alpha: Scalar | None,
        beta: Scalar | None,
        scale_a: Any,
        scale_b: Any,
        zeros: Any,
        aux: Any,
        *,
        tile: tuple[int, int, int] = (128, 128, 32),
        acc_dtype: DType = f32,
        epilogue_dtype: DType = f32,
        swapped: bool = False,
        promotes: bool = False,
        loads_ahead: bool = False,
        rings: bool = False,
        bands: int = 1,
        spans: tuple[Spans, Spans, Spans] = ((0, 0), (0, 0), (0, 0)),
        zero: float = 0.0,
        packed: tuple[Any, ...] | None = None,
        scaling: str | None = None,
        held: str | None = None,
    ) -> None:
        # Imported at tracing, since they need xDSL and a kernel found in the cache does not.
        from cutedialect.frontend import functions as cute
        from cutedialect.frontend.group import Group
        from cutedialect.frontend.local_tiles import local_tile
        from cutedialect.frontend.loops import range_

        bm, bn, bk = tile
        *batch, m, n = cute.tile_index(D, (1,) * (D.rank - 2) + (bm, bn), work=(A, -1))
        if isinstance(D, Group):
            problem, *batch = batch
            A, B, D, C, bias, scale_a, scale_b, zeros, aux = (
                each[problem] if isinstance(each, Group) else each
                for each in (A, B, D, C, bias, scale_a, scale_b, zeros, aux)
            )
        if packed is not None:
            A, B = unpacked(A, B, packed, swapped)
        # Bytes with scales of blocks hold two elements, or three four of 6 bits.
        bits = 6 if held is not None else 4 if scaling is not None and A.dtype == u8 else 8
        step = bk * bits // 8
        bands = bands if promotes else 1
        rows = bm // bands
        places = [m] if bands == 1 else [m * bands + band for band in range(bands)]
        a_tiles = [local_tile(A, (rows, step), (*batch, place, None)) for place in places]
        b_tiles = local_tile(B, (step, bn), (*batch, None, n))

        def factors(
            k: Scalar | int | None, place: Scalar | None = None, in_ring: bool | None = None
        ) -> list[Tile]:
            """The scale of step k, or what is the same for all steps: of rows at a place, or of
            columns; with `in_ring`, if its lines come in a ring, or if they do not.
            """
            scale, of, modes, axis = (
                (scale_b, spans[1], ((k, bk), (n, bn)), 0)
                if place is None
                else (scale_a, spans[0], ((place, rows), (k, bk)), 1)
            )
            if scale is None or (of[axis] != 0) != (k is not None):
                return []
            if in_ring is not None and in_ring != (rings and has_lines(scale, of)):
                return []
            return [scale_tile(scale, of, modes, batch).to(f32)]

        def zero_of(k: Scalar | None) -> Tile | float:
            """What stands for 0 in the weights of step k."""
            if zeros is None:
                return zero
            modes = ((m, bm), (k, bk)) if swapped else ((k, bk), (n, bn))
            return scale_tile(zeros, spans[2], modes, batch)

        is_exact = acc_dtype == f32 and zeros is None
        shrink = shrink_of(A.dtype, B.dtype, zero) if is_exact else 1.0
        sums = [cute.zeros((rows, bn), epilogue_dtype if promotes else acc_dtype) for _ in places]
        if promotes:
            bands_of = [*zip(places, a_tiles, sums, strict=True)]
            add_steps(bands_of, b_tiles, factors, zero_of, acc_dtype, loads_ahead, shrink)
        else:
            (acc,), (a_steps,) = sums, a_tiles
            panels = (
                []
                if scaling is None
                else panel_tiles(scale_a, scale_b, scaling, tile, (*batch, m, n))
            )
            for k in range_(a_steps.tiles):
                if scaling is not None or held is not None:
                    # Tensor cores multiply blocks by their scales, and what bytes hold.
                    scales = [panel[k] for panel in panels]
                    of_blocks = {"factors": scales, "scaling": scaling, "held": held}
                    cute.tile_gemm(a_steps[k], b_tiles[k], acc, **of_blocks)
                else:
                    cute.tile_gemm(*multiplied(a_steps[k], b_tiles[k], zero_of(k), shrink), acc)
        for place, acc in zip(places, sums, strict=True):
            same = [] if scaling is not None else [*factors(None, place), *factors(None)]
            out = scaled(acc.to(epilogue_dtype), same, 1 / shrink)
            finish(out, C, bias, D, alpha, beta, aux, (*batch, place, n), activation, swapped)

    return gemm


def unpacked(A: Any, B: Any, packed: Sequence[Any], swapped: bool) -> tuple[Any, Any]:
    """Both operands, the weights among them as the elements that integers hold."""
    return (elements(A, packed), B) if swapped else (A, elements(B, packed))


def elements(of: Any, packed: Sequence[Any]) -> Any:
    """An operand as the elements that integers hold."""
    from cutedialect.frontend.packed import packed as packed_tensor

    return packed_tensor(of, *packed)


def add_steps(
    bands: Sequence[tuple[Scalar, Any, Tile]],
    b_tiles: Any,
    factors: Callable[..., list[Tile]],
    zero_of: Callable[[Any], Tile | float],
    dtype: DType,
    loads_ahead: bool,
    shrink: float,
) -> None:
    """Add up the products of steps of the depth outside of the tensor cores, which sum a step in
    `dtype`. Bands of rows follow each other, so that threads hold the products of one beside the
    sums of all: their places, tiles of A and sums. `factors` gives the scales of a step, of rows at
    a place or of columns; with `loads_ahead` they come a step before the one that takes them, but
    for those whose lines come in a ring.
    """
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.loops import range_
    from cutedialect.frontend.scalar import Scalar, as_i32

    def scales(k: Scalar, in_ring: bool | None = None) -> list[list[Tile]]:
        """The scales of the rows of each band, and of the columns."""
        rows = (factors(k, place, in_ring) for place, _, _ in bands)
        return [*rows, factors(k, None, in_ring)]

    first = Scalar(as_i32(0, "a step"))
    kept = [mutable(each) for each in scales(first, False)] if loads_ahead else []
    for k in range_(first, b_tiles.tiles):
        # The scales are on their way while the tensor cores work.
        now = [] if loads_ahead else scales(k)
        following: list[list[Tile]] = []
        b = b_tiles[k]
        for band, (_, a_tiles, acc) in enumerate(bands):
            part = cute.zeros(acc.shape, dtype)
            cute.tile_gemm(*multiplied(a_tiles[k], b, zero_of(k), shrink), part)
            if loads_ahead and not now:
                following, in_rings = scales(k + 1, False), scales(k, True)
                now = [[*both] for both in map(chain, kept, in_rings)]
            acc += scaled(part.to(acc.dtype), [*now[band], *now[-1]])
        for those, coming in zip(kept, following, strict=True):
            for factor, each in zip(those, coming, strict=True):
                factor.assign(each)


def mutable(tiles: Sequence[Tile]) -> list[Tile]:
    """Tiles that a loop may change, with the elements of others."""
    from cutedialect.frontend import functions as cute

    kept = [cute.zeros(tile.shape, tile.dtype) for tile in tiles]
    for tile, first in zip(kept, tiles, strict=True):
        tile.assign(first)
    return kept


def panel_tiles(
    scale_a: Tensor,
    scale_b: Tensor,
    scaling: str,
    tile: tuple[int, int, int],
    place: Sequence[Scalar],
) -> list[Any]:
    """The scales of blocks of the rows of both operands at a place (batch..., row, column), by
    steps of the depth: words (panels of 128 rows, 64 or 128 for each panel of four columns).
    """
    from cutedialect.frontend.local_tiles import local_tile

    rows, columns = PANEL
    across = tile[2] // (columns * int(scaling.partition("x")[2]))
    *batch, m, n = place
    # Where threads read scales, words have those of a row.
    words = across * (rows if scale_a.dtype == i32 else PANEL_WORDS)
    return [
        local_tile(scale, (extent // rows, words), (*batch[: scale.rank - 2], at, None))
        for scale, extent, at in zip((scale_a, scale_b), tile, (m, n), strict=False)
    ]


def shrink_of(a: DType, b: DType, zero: float) -> float:
    """What weights are multiplied by on their way, where a number stands for 0 in them."""
    floats, integers = (a, b) if a.kind == "f" else (b, a)
    is_whole = floats == bf16 and integers in (i8, u8, u4) and zero % 1 == 0
    return _SHRINK if is_whole else 1.0


def multiplied(a: Any, b: Any, zero: Tile | float = 0.0, shrink: float = 1.0) -> tuple[Any, Any]:
    """Tiles as they are multiplied: integers beside floats become such on their way, less what
    stands for 0 in them, times `shrink`.
    """
    are_floats = [each.dtype.kind == "f" for each in (a, b)]
    if are_floats[0] == are_floats[1]:
        return a, b
    if are_floats[0]:
        return a, times(weights(b, zero, a.dtype), shrink)
    return times(weights(a, zero, b.dtype), shrink), b


def times(tile: Tile, by: float) -> Tile:
    """A tile times a number, which may be 1."""
    return tile if by == 1.0 else tile * by


def weights(tile: Any, zero: Tile | float, dtype: DType) -> Tile:
    """The weights that integers stand for. Differences of integers are exact in 16 bits; others
    are rounded to these.
    """
    integers = tile.load()
    if isinstance(zero, float):
        if zero % 1:
            return (integers.to(f32) - zero).to(dtype)
        return integers.to(dtype) - int(zero) if zero else integers.to(dtype)
    if zero.dtype.kind == "f":
        return (integers.to(f32) - zero.to(f32)).to(dtype)
    return integers.to(dtype) - zero.to(dtype)


def finish(
    out: Tile,
    C: Any,
    bias: Any,
    D: Any,
    alpha: Scalar | None,
    beta: Scalar | None,
    aux: Any,
    place: Sequence[Scalar],
    activation: str | Activation | None,
    swapped: bool,
) -> None:
    """What follows the product of a tile at a place (batch..., row, column), up to its store."""
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.local_tiles import local_tile

    (bm, bn), (*_, m, n) = out.shape, place
    if alpha is not None:
        out = out * alpha
    if C is not None:
        out = out + local_tile(C, (bm, bn), place).to(out.dtype) * beta
    if bias is not None:
        vector = cute.column_vector(bias, m, bm) if swapped else cute.row_vector(bias, n, bn)
        out = out + vector.to(out.dtype)
    if aux is not None:
        cute.copy(out.to(aux.dtype), local_tile(aux, (bm, bn), place))
    cute.copy(activated(activation, out).to(D.dtype), local_tile(D, (bm, bn), place))


def activated(activation: str | Activation | None, tile: Tile) -> Tile:
    """The tile that an activation makes of another, of the same shape: a name, a function of the
    tile, or none.
    """
    from cutedialect.frontend import functions as cute
    from cutedialect.frontend.tile import Tile

    if activation is None:
        return tile
    if activation == "tanh":
        # The instruction is off by up to 2^-11, which results of f32 would show.
        from cutedialect.frontend.exact import tanh as activation
    apply: Activation = getattr(cute, activation) if isinstance(activation, str) else activation
    try:
        made = apply(tile)
    except TypeError as error:
        error.add_note(
            "activation: expected a function of a tile, written with its operators and functions "
            "of cutedialect such as cute.exp and cute.maximum"
        )
        raise
    if not isinstance(made, Tile) or made.shape != tile.shape:
        got = f"one of shape {made.shape}" if isinstance(made, Tile) else type(made).__name__
        raise TypeError(
            f"activation: expected a function that gives a tile of shape {tile.shape}, got {got}"
        )
    return made


def scale_tile(
    scale: Tensor,
    spans: Spans,
    modes: Sequence[tuple[Scalar | int | None, int]],
    batch: Sequence[Scalar],
    turned: bool = False,
) -> Tile:
    """The entries of a scale for one tile, of a shape that broadcasts to the tile's, or to that of
    its transpose where it is `turned`.

    spans: elements of each of the two modes that share an entry, 0 for all. modes: for each, the
    tile's number and its extent, which divides a span of more than 1.
    """
    from cutedialect.frontend.functions import column_vector, row_vector
    from cutedialect.frontend.local_tiles import local_tile

    shape: list[int] = []
    coords: list[int | Scalar] = []
    for span, (number, extent) in zip(spans, modes, strict=True):
        shape.append(extent if span == 1 else 1)
        if span == 0 or number is None:
            coords.append(0)
        else:
            coords.append(number if span <= extent else number // (span // extent))
    if scale.rank == 1:
        along = 0 if shape[0] > 1 else 1
        vector = column_vector if along == 0 else row_vector
        return vector(scale, coords[along], shape[along])
    leading = (
        list(batch)[: scale.rank - 2] if len(batch) == scale.rank - 2 else [0] * (scale.rank - 2)
    )
    view = local_tile(scale, shape, (*leading, *coords))
    return (view.T if turned else view).load()


def has_lines(scale: Tensor, spans: Spans) -> bool:
    """Whether TMA may bring the entries of a tile's rows or columns: one behind the other, and 16
    bytes and more apart from those of other steps.
    """
    if _EACH not in spans:
        return False
    type_, line = scale.memref, scale.rank - 2 + spans.index(_EACH)
    return type_.alignment % _LINE_BYTES == 0 and type_.stride[line] == 1


def scaled(tile: Tile, factors: Sequence[Tile], by: float = 1.0) -> Tile:
    """`tile` times factors that broadcast to it, and a number; these are multiplied with each other
    first.
    """
    if not factors:
        return times(tile, by)
    product = times(factors[0], by)
    for each in factors[1:]:
        product = product * each
    return tile * product.to(tile.dtype)
