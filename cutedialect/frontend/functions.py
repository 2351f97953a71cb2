"""What a kernel can call: making tiles, matrix multiply, copies, reductions, scalar functions."""

from __future__ import annotations

import inspect
import itertools
import math
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from typing import Any, TypeVar, cast, overload

from xdsl.dialects import arith
from xdsl.dialects.builtin import StringAttr, i32
from xdsl.dialects.builtin import f32 as f32_type
from xdsl.dialects.utils import FastMathFlag
from xdsl.ir import Block, SSAValue

from cutedialect.atoms.tiled_mma import TiledMma, multiply_text
from cutedialect.dialects.cute import (
    AllocFragmentOp,
    ClusterBoundOp,
    CoordOp,
    CopyOp,
    FillOp,
    FragmentType,
    GemmOp,
    SearchOp,
    TileIndexOp,
    TransposeOp,
    YieldOp,
)
from cutedialect.dialects.cute.tile_ops import SUM_COLUMNS
from cutedialect.dialects.cute_nvgpu import NEGATIONS

from .arithmetic import Number, convert_value, is_number, joined, literal, promote
from .dtypes import DType, as_dtype, f32
from .dtypes import i32 as i32_dtype
from .elementwise import (
    abs_,
    exp,
    exp2,
    floats,
    loaded,
    log,
    log2,
    mapped,
    maximum,
    minimum,
    tanh,
)
from .gemm_declaration import GEMM
from .group import Group
from .local_tiles import as_extent, local_tile
from .modes import (
    MOST_MODES,
    TileOfModes,
    as_stored,
    coordinate_of_modes,
    folded,
    joined_rows,
    matrices,
    matrix_of_modes,
    mode_within,
    of_modes,
)
from .reductions import any_, column_max, column_sum, row_max, row_sum
from .scalar import Scalar, as_i32
from .tile import (
    Tensor,
    Tile,
    View,
    Views,
    as_matrix,
    as_matrix_extents,
    as_value,
    broadcast_shape,
    elementwise,
    values_in,
)
from .trace import current, error, user_frame
from .traced_state import is_stored

# Names that a program takes from here, made elsewhere.
__all__ = (
    "abs_", "any_", "column_max", "column_sum", "exp", "exp2", "log", "log2", "maximum", "minimum",
    "row_max", "row_sum", "tanh",
)  # fmt: skip

inf: float = math.inf
_BYTE, _LOW_BITS = 8, 15
# A tile or a scalar, and the same again.
Elements = TypeVar("Elements", Tile, Scalar)


@overload
def tile_index(
    tensor: Tensor, tile: tuple[int | None], work: tuple[Tensor | Group, int] | None = None
) -> Scalar: ...


@overload
def tile_index(
    tensor: Tensor | Group,
    tile: Sequence[int | None],
    work: tuple[Tensor | Group, int] | None = None,
) -> tuple[Scalar, ...]: ...


def tile_index(
    tensor: Tensor | Group,
    tile: Sequence[int | None],
    work: tuple[Tensor | Group, int] | None = None,
) -> Scalar | tuple[Scalar, ...]:
    """Coordinates, in tiles, of the work item of this CTA: one for each extent of `tile`.

    `tile` speaks of the first modes of the tensor; later modes are whole. None is a whole mode too,
    whose coordinate is 0. A single coordinate comes as a scalar. For a group of tensors the
    number of the tensor comes first; `work=(other, mode)` then says that a tile takes time in
    proportion to that extent of its problem's tensor in the group `other`, such as K, so that all
    CTAs can be kept busy to the end. Tiles of one tensor have equal work.
    """
    if not isinstance(tensor, Tensor | Group):
        raise error(f"expected a tensor, got {type(tensor).__name__}")
    if not 0 < len(tile) <= tensor.rank:
        raise error(
            f"expected a tile of 1 to {tensor.rank} modes for {tensor.name}, got {len(tile)}",
            code="CD-P2",
        )
    extents = [-1 if extent is None else as_extent(extent) for extent in tile]
    extents += [-1] * (tensor.rank - len(tile))
    weight = None
    if work is not None and isinstance(tensor, Group):
        other, mode = work
        if not isinstance(other, Group) or not -other.rank <= mode < other.rank:
            raise error("expected work as (a group, one of its modes)")
        weight = other.value, mode % other.rank
    op = current().insert(TileIndexOp(tensor.value, extents, weight))
    given = len(tile) + isinstance(tensor, Group)
    coords = tuple(Scalar(result) for result in op.results[:given])
    return coords[0] if len(coords) == 1 else coords


def full(shape: Sequence[int], value: float | Scalar, dtype: object = None) -> Tile:
    """A mutable register tile with every element `value`, of one to five modes.

    What is computed from it has the value of then: `m.T`, `m.columns(...)`, `m.to(...)` and `m + 1`
    are not changed by what is assigned to `m` later. A second name for it (`old = m`) is the same
    tile, as with Python's lists; `old = m.to(m.dtype)` keeps its value.

    The default `dtype` is that of a scalar, and f32 for a number.
    """
    if dtype is None:
        dtype = value.dtype if isinstance(value, Scalar) else f32
    element = as_dtype(dtype)
    if not isinstance(shape, Sequence) or isinstance(shape, str):
        raise error(f"expected a shape such as (16, 16), got {shape!r}")
    extents = tuple(as_extent(extent) for extent in shape)
    if not 0 < len(extents) <= MOST_MODES:
        raise error(f"expected a tile of 1 to {MOST_MODES} modes, got {extents}", code="CD-P2")
    if len(extents) != 2:
        made = full(folded(extents), value, element)
        return TileOfModes(made.value, extents, mutable=True)
    trace = current()
    tile = Tile(
        trace.insert(AllocFragmentOp(FragmentType.get(element.ir, extents))).results[0], True
    )
    if isinstance(value, Scalar):
        scalar = convert_value(value.use(), value.dtype, element)
    elif is_number(value):
        scalar = literal(value, element)
    else:
        raise error(f"expected a number or a scalar to fill with, got {type(value).__name__}")
    trace.insert(FillOp(tile.value, scalar))
    return tile


def zeros(shape: Sequence[int], dtype: object = f32) -> Tile:
    """A mutable register tile of zeros."""
    return full(shape, 0, as_dtype(dtype))


def tile_gemm(
    a: object,
    b: object,
    acc: Tile,
    atom: str | TiledMma | None = None,
    negate: str | None = None,
    sums: bool = False,
    tiled: TiledMma | str | None = None,
    of_arrays: Mapping[str, object] | None = None,
    factors: Sequence[View] = (),
    scaling: str | None = None,
    held: str | None = None,
) -> None:
    """acc (M,N) += a (M,K) @ b (K,N), on tiles; by the TiledMMA `tiled`, or the atom of a name, if
    one is given. With `sums` acc is (M,N+8), and each of the last columns adds up the rows of a
    (wgmma does with A in registers and B of 16, 32 or 64 columns of 16 bits; elsewhere threads do).
    `of_arrays` are the arguments that arrays take, refused where they are not the defaults.
    `factors` are the scales of blocks of a and b as `scaling` says, words of panels (`cute.gemm` of
    the dialect has their shapes); `held` names the elements of 6 bits that bytes hold, as there.
    """
    is_tf32 = all(isinstance(tile, Tile | View) and tile.dtype == f32 for tile in (a, b))
    _check_arguments_of_arrays(of_arrays or {}, is_tf32)
    if is_stored(user_frame()):
        raise error(
            "expected cute.gemm(a, b, acc) as a statement, got its result stored; it adds to acc "
            "in place and gives nothing",
            code="CD-P11",
        )
    named = None
    if tiled is not None or atom is not None:
        try:
            named = StringAttr(multiply_text(tiled, atom))
        except ValueError as failure:
            raise error(str(failure), code="CD-P4") from None
    if negate not in (None, *NEGATIONS):
        raise error(f"negate: expected 'a', 'b' or 'ab', got {negate!r}", code="CD-P4")
    if not (isinstance(acc, Tile) and acc.mutable):
        raise error("expected acc to be a tile made by cute.zeros or cute.full")
    left, right = _operand("a", a), _operand("b", b)
    if isinstance(acc, TileOfModes) and len(acc.modes) > 2:
        _gemm_of_modes(left, right, acc, {"atom": atom, "negate": negate, "tiled": tiled})
        return
    operands = left.use(), right.use()
    _check_products((left.shape, right.shape, acc.shape), SUM_COLUMNS if sums else 0)
    if sums and negate is not None:
        raise error(f"negate: expected None with sums, got {negate!r}", code="CD-P4")
    turned = current().insert(TransposeOp(operands[1])).results[0]
    scales = [factor.use() for factor in factors]
    current().insert(
        GemmOp(
            operands[0],
            turned,
            acc.use(),
            named,
            negate,
            sums=sums,
            factors=scales,
            scaling=scaling,
            held=held,
        )
    )


def _check_products(shapes: Sequence[tuple[int, ...]], more: int) -> None:
    """Refuse shapes that do not multiply; `more` columns of the last one are sums of rows."""
    is_known = all(len(shape) == 2 for shape in shapes)
    if is_known:
        (m, k), (depth, n), whole = shapes
        if k == depth and whole == (m, n + more):
            return
    wide = f"N+{more}" if more else "N"
    instead = "; load a tile of one mode and write v[:, None] or v[None, :]"
    raise error(
        f"expected a (M,K), b (K,N) and acc (M,{wide}), got {', '.join(map(str, shapes))}"
        f"{instead if 1 in map(len, shapes) else ''}",
        code="CD-P2",
    )


def _gemm_of_modes(
    left: Tile | View, right: Tile | View, acc: TileOfModes, how: dict[str, Any]
) -> None:
    """A product for each place of the modes in front of the last two."""
    batch = acc.shape[:-2]
    if left.shape[:-2] != batch or right.shape[:-2] != batch:
        raise error(
            f"expected a {(*batch, 'M', 'K')} and b {(*batch, 'K', 'N')} for acc {acc.shape}, got "
            f"{left.shape} and {right.shape}",
            code="CD-P2",
        )
    sums: list[Tile] = []
    for a, b in zip(matrices(left, "a"), matrices(right, "b"), strict=True):
        one = zeros(acc.shape[-2:], acc.dtype)
        tile_gemm(a, b, one, **how)
        sums.append(one)
    acc.assign(acc + of_modes(joined_rows(sums), acc.shape))


def _check_arguments_of_arrays(given: Mapping[str, object], is_tf32: bool) -> None:
    """Refuse arguments of `cute.gemm` that arrays alone take, unless they are the defaults."""
    for name, value in given.items():
        default, instead = GEMM.by_name[name].default, GEMM.by_name[name].inside
        is_default = value is default or (type(value) is type(default) and value == default)
        if not (is_default or (name == "precision" and value == "tf32" and is_tf32)):
            raise error(
                f"{name}: expected {instead}, got it as an argument of cute.gemm(a, b, acc), which "
                "takes tiled, atom, negate and sums beside tiles",
                code="CD-P11",
            )


def _operand(name: str, value: object) -> Tile | View:
    """A tile that can be multiplied."""
    if not isinstance(value, Tile | View):
        raise error(f"expected {name} to be a tile, got {type(value).__name__}")
    if value.dtype.bits == 1:
        raise error(
            f"expected {name} to be a tile of numbers, got one of conditions (i1); convert it "
            "with .to(cute.i8), whose products are summed in i32",
            code="CD-P3",
        )
    return value


def copy(source: object, destination: object, mask: Tile | None = None) -> None:
    """Store a tile (or copy a view) into a view of a tensor; what lies outside is not written.

    With `mask`, a tile of conditions that broadcasts to the view's shape, only the elements for
    which it holds are written.
    """
    if not isinstance(destination, View):
        raise error(f"expected a view to copy into, got {type(destination).__name__}")
    if not isinstance(source, Tile | View):
        raise error(f"expected a tile or a view to copy, got {type(source).__name__}")
    if isinstance(source, Tile) and len(source.shape) != len(destination.shape):
        source = as_stored(source, destination.shape)
    chosen = None if mask is None else _mask(mask, destination.shape)
    if len(destination.shape) > 2 and source.shape == destination.shape:
        masks = [None] if chosen is None else matrices(chosen, "a mask")
        pairs = zip(matrices(source, "a source"), matrices(destination, "a view"), strict=True)
        for (one, part), mask_of in zip(pairs, itertools.cycle(masks), strict=False):
            copy(one, part, mask_of)  # pyright: ignore[reportArgumentType]
        return
    shape, got = destination.shape, source.shape
    source, destination = as_matrix(source), as_matrix(destination)
    if source.shape != destination.shape:
        raise error(f"expected a source of shape {shape}, got {got}", code="CD-P2")
    check_element(source, destination)
    if destination.turned_rows is not None:
        turned = source.T, destination.turned_rows, None if chosen is None else chosen.T
        source, destination, chosen = turned
    is_indexed = isinstance(source, View) and (source.is_indexed or destination.is_indexed)
    if isinstance(source, View) and (is_indexed or mask is not None):
        source = source.load()
    if isinstance(source, Tile):
        source = _as_in_memory(source)
    held = None if chosen is None else chosen.use()
    current().insert(CopyOp(source.use(), destination.use(), mask=held))


def _as_in_memory(tile: Tile) -> Tile:
    """A tile of elements below a byte with one in each, others as they are."""
    if tile.dtype.bits >= _BYTE:
        return tile
    held = tile.dtype.in_memory
    # NumPy's integers of 4 bits have zeros above.
    return tile.to(held) & _LOW_BITS if held.kind == "i" else tile.to(held)


def _mask(mask: object, shape: tuple[int, ...]) -> Tile:
    """A tile of conditions, broadcast to the shape of what it masks."""
    if not isinstance(mask, Tile) or mask.dtype.bits != 1:
        got = mask.dtype.name if isinstance(mask, Tile) else type(mask).__name__
        raise error(f"expected a mask to be a tile of conditions, got {got}", code="CD-P3")
    if len(mask.shape) != len(shape):
        mask = as_stored(mask, shape)
    if broadcast_shape(mask.shape, shape) != shape:
        raise error(
            f"expected a mask that broadcasts to {shape}, got one of shape {mask.shape}",
            code="CD-P2",
        )
    if mask.shape == shape:
        return mask
    return elementwise(lambda held: held, (mask,), shape, mask.dtype)


def check_element(source: Tile | View, destination: Tile | View) -> None:
    wanted, got = destination.dtype.name, source.dtype.name
    if wanted != got:
        raise error(
            f"expected a source of {wanted}, got {got}; convert it with .to(cute.{wanted})",
            code="CD-P3",
        )


def load(view: View, mask: Tile | None = None, other: float | Scalar | Tile = 0) -> Tile:
    """Read a view into registers; outside of the tensor it is 0. With `mask`, a tile of conditions
    that broadcasts to the view's shape, elements for which it does not hold are `other`.
    """
    if not isinstance(view, View):
        raise error(f"expected a view, got {type(view).__name__}")
    loaded = view.load()
    if mask is None:
        if not (is_number(other) and other == 0):
            raise error(
                "expected a mask beside other, which stands where the mask does not hold, got "
                "other alone; outside of the tensor a view reads 0: choose with "
                "cute.where(cute.coord(tile, mode, view) < extent, tile, other)",
                code="CD-P4",
            )
        return loaded
    return where(_mask(mask, loaded.shape), loaded, other).to(loaded.dtype)


def row_vector(tensor: Tensor, index: int | Scalar, extent: int) -> Tile:
    """Elements `index * extent ...` of a vector as a tile (1, extent), one for each column."""
    return local_tile(tensor, (extent,), (index,)).T.load()


def column_vector(tensor: Tensor, index: int | Scalar, extent: int) -> Tile:
    """Elements `index * extent ...` of a vector as a tile (extent, 1), one for each row."""
    return local_tile(tensor, (extent,), (index,)).load()[:, None]


@overload
def where(condition: Scalar, yes: Scalar | Number, no: Scalar | Number) -> Scalar: ...


@overload
def where(condition: Tile, yes: object, no: object) -> Tile: ...


@overload
def where(condition: Tile | Scalar, yes: Tile | View, no: object) -> Tile: ...


@overload
def where(condition: Tile | Scalar, yes: object, no: Tile | View) -> Tile: ...


def where(condition: Tile | Scalar, yes: object, no: object) -> Tile | Scalar:
    """Elementwise choice, or that between scalars; two numbers give i32 where both are integers,
    else f32.
    """
    if not isinstance(condition, Tile | Scalar) or condition.dtype.bits != 1:
        got = condition.dtype.name if isinstance(condition, Tile | Scalar) else repr(condition)
        raise error(f"expected a tile of conditions or a scalar one, got {got}", code="CD-P3")
    sides = [_side(v) for v in (yes, no)]
    dtype = _type_of_choice(sides)
    if isinstance(condition, Scalar) and not any(isinstance(v, Tile) for v in sides):
        values = [as_value(v, dtype) for v in sides if not isinstance(v, Tile)]
        return Scalar(current().insert(arith.SelectOp(condition.use(), *values)).results[0])
    inputs = [v for v in (condition, *sides) if isinstance(v, Tile)]
    shape = broadcast_shape(*(v.shape for v in inputs))

    def body(*args: SSAValue) -> SSAValue:
        given = iter(args)
        chosen = next(given) if isinstance(condition, Tile) else condition.use()
        values = values_in(dtype, sides, given)
        return current().insert(arith.SelectOp(chosen, *values)).results[0]

    return elementwise(body, inputs, shape, dtype)


def _type_of_choice(sides: Sequence[Tile | Scalar | Number]) -> DType:
    """Scalars and numbers take the type of a tile beside them."""
    tiles = [v.dtype for v in sides if isinstance(v, Tile)]
    scalars = [v.dtype for v in sides if isinstance(v, Scalar)]
    if not (tiles or scalars):
        return i32_dtype if all(hasattr(v, "__index__") for v in sides) else f32
    return reduce(joined, scalars, reduce(promote, tiles)) if tiles else reduce(promote, scalars)


def _side(value: object) -> Tile | Scalar | Number:
    """What `where` chooses; a view is loaded."""
    if isinstance(value, View):
        return value.load()
    if isinstance(value, Tile | Scalar) or is_number(value):
        return value
    raise error(f"expected tiles, scalars or numbers, got {type(value).__name__}")


def coord(tile: Tile, mode: int, origin: object = 0) -> Tile:
    """Coordinate of each element along `mode`, as i32, counted from `origin`.

    `origin` is an element offset, a view (its own origin along the mode that was tiled), or a run
    of tiles inside a loop over it. Along that mode the view has as many elements as the tile.
    """
    if len(tile.shape) == 1:
        mode_within(mode, 1)
        return of_modes(coord(matrix_of_modes(tile), 0, origin), tile.shape)
    if len(tile.shape) > 2:
        at = coordinate_of_modes(tile, mode)
        offset = _origin(origin, mode_within(mode, len(tile.shape)))
        return at if offset is None else at + Scalar(offset)
    _check_origin(tile, mode, origin)
    offset = _origin(origin, mode)

    def body() -> SSAValue:
        trace = current()
        at = trace.insert(CoordOp(mode)).results[0]
        if offset is None:
            return at
        # A coordinate is a place in a tensor, whose extents are below 2^31.
        flags = arith.IntegerOverflowAttr([arith.IntegerOverflowFlag.NSW])
        return trace.insert(arith.AddiOp(at, offset, overflow=flags)).results[0]

    return elementwise(body, (), tile.shape, i32_dtype)


def _check_origin(tile: Tile, mode: int, origin: object) -> None:
    """Refuse an origin in a mode that is not the one that the tile's coordinates are of."""
    if isinstance(origin, Views):
        shape = origin.shape
        extent = as_matrix_extents(origin.tile)[origin.mode]
        if extent == 0:
            raise error(
                f"expected a run of tiles along one of their modes, got one of tiles {shape} along "
                f"mode {origin.mode} of {origin.tensor.name}, which is none of theirs",
                code="CD-P4",
            )
    elif isinstance(origin, View) and len(origin.shape) == 2 and mode in origin.origins:
        shape = origin.shape
        extent = shape[mode]
    else:
        return
    wanted = tile.shape[mode] if mode < len(tile.shape) else extent
    if extent != wanted and 1 not in (extent, wanted):
        raise error(
            f"expected an origin with {wanted} elements along mode {mode}, as the tile of shape "
            f"{tile.shape} has, got {extent} of a view of shape {shape}; a view that is used "
            "transposed (x.T) has its origin there, too",
            code="CD-P4",
        )


def _origin(origin: object, mode: int) -> SSAValue | None:
    if isinstance(origin, int) and not isinstance(origin, bool):
        return current().constant(origin, i32) if origin else None
    if isinstance(origin, View):
        at = origin.origins.get(mode)
        if at is None and len(origin.origins) == 1 and not origin.is_indexed:
            at = next(iter(origin.origins.values()))
        if at is None:
            raise error(f"expected a view tiled along mode {mode}", code="CD-P4")
        return at.use()
    if isinstance(origin, Views):
        trace = current()
        if not trace.loops:
            raise error(
                "expected cute.coord with a run of tiles inside a loop over it", code="CD-P8"
            )
        index = trace.loops[-1]
        assert isinstance(index, Scalar)
        step = trace.constant(origin.tile[origin.mode], i32)
        return trace.insert(arith.MuliOp(index.use(), step)).results[0]
    return as_i32(origin, "an origin")


@overload
def reciprocal(value: Tile | View) -> Tile: ...


@overload
def reciprocal(value: Scalar) -> Scalar: ...


def reciprocal(value: object) -> Tile | Scalar:
    """1 / x of each element or of a scalar in f32, off by at most one unit in the last place: an
    instruction, where a division takes a dozen. What is below 2^-126 counts as 0 (PTX ISA
    9.7.3.13, `rcp.approx.ftz`).
    """
    return _inverse_by(value, FastMathFlag.APPROX_FUNC)


def _inverse_by(value: object, *flags: FastMathFlag) -> Tile | Scalar:
    """1 / x in f32, as flags allow."""
    source = floats(value, 32)

    def body(element: SSAValue) -> SSAValue:
        wide = convert_value(element, source.dtype, f32)
        one = current().constant(1.0, f32_type)
        return current().insert(arith.DivfOp(one, wide, arith.FastMathFlagsAttr(flags))).results[0]

    return mapped(source, f32, body)


def clamp(value: Elements, low: Any, high: Any) -> Elements:
    """Each element, or a scalar, within `low` and `high`; NaN stays, or comes of one of these."""
    raised: Any = maximum(cast(Any, value), low)
    return minimum(raised, high)


def sign(value: Elements) -> Elements:
    """-1, 0 or 1 by the sign of each element, or of a scalar; of floats, 0 and NaN stay as they
    are.
    """
    source = loaded(value)
    rest = where(source < 0, -1, source) if source.dtype.kind != "u" else source
    return cast("Elements", where(source > 0, 1, rest))


def relu(tile: Elements) -> Elements:
    """max(x, 0)."""
    return maximum(tile, 0)


def sigmoid(tile: Elements) -> Elements:
    """1 / (1 + exp(-x)). Relative error up to 2^-21 + |x| 2^-23; `cute.exact.sigmoid`: 2.5 ulp."""
    return _inverse(1.0 + exp(-tile))


def silu(tile: Elements) -> Elements:
    """x * sigmoid(x)."""
    return tile / (1.0 + exp(-tile))


# Abramowitz and Stegun 7.1.26: |error| <= 1.5e-7 over all x.
_ERF_P = 0.3275911
_ERF = (1.061405429, -1.453152027, 1.421413741, -0.284496736, 0.254829592)


def erf(tile: Elements) -> Elements:
    """The error function, to 1.5e-7 absolute."""
    magnitude = abs_(tile)
    t = _inverse(1.0 + _ERF_P * magnitude)
    poly = t * _ERF[0]
    for coefficient in _ERF[1:]:
        poly = (poly + coefficient) * t
    value = 1.0 - poly * exp(-(magnitude * magnitude))
    return where(tile < 0.0, -value, value)


def _inverse(value: Elements) -> Elements:
    """1 / x of a normal number, by one instruction where a kernel waits for memory, not for
    registers.
    """
    flags = FastMathFlag.APPROX_FUNC, FastMathFlag.ALLOW_RECIP
    is_wide = isinstance(value, Tile | Scalar) and value.dtype.bits > 32
    inverse = 1.0 / value if is_number(value) or is_wide else _inverse_by(value, *flags)
    return cast("Elements", inverse)


def gelu(tile: Elements) -> Elements:
    """x * (1 + erf(x / sqrt 2)) / 2."""
    return tile * 0.5 * (1.0 + erf(tile * (1 / math.sqrt(2))))


def search(
    function: Callable[[Scalar], Scalar], count: int | Scalar, value: int | Scalar
) -> Scalar:
    """The last of 0 to `count` - 1 where `function`, which grows, is at most `value`; else 0.

    Which sequence a row of packed ones belongs to: `cute.search(lambda s: offsets[s], n, row)`.
    """
    trace = current()
    operands = as_i32(value, "the value to search for"), as_i32(count, "the count of numbers")
    block = Block(arg_types=[i32])
    with trace.region(block, "the function of cute.search") as scope:
        image = function(Scalar(block.args[0], scope))
        trace.insert(YieldOp(as_i32(image, "what the function of cute.search gives")))
    return Scalar(trace.insert(SearchOp(*operands, block)).results[0])


def cluster_max(value: int | Scalar) -> Scalar:
    """The largest of a number that follows from the coordinates of a work item, among the CTAs of a
    cluster along M that have a tile; itself without a cluster. Loops between such bounds run alike
    in all of them, so that they may share what they load, and multiply in pairs; a trip that is
    another one's has to change nothing.
    """
    return _cluster_bound("max", value)


def cluster_min(value: int | Scalar) -> Scalar:
    """The least one likewise, as `cute.cluster_max` has the largest."""
    return _cluster_bound("min", value)


def _cluster_bound(kind: str, value: int | Scalar) -> Scalar:
    number = as_i32(value, f"the number of cute.cluster_{kind}")
    return Scalar(current().insert(ClusterBoundOp(kind, number)).results[0])


def map_(function: Callable[..., Tile], *tiles: Tile) -> Tile:
    """Apply a function of tiles that are written with elementwise operators."""
    wanted = len(inspect.signature(function).parameters)
    if wanted != len(tiles):
        raise error(
            f"expected {wanted} tiles for {function.__name__}, got {len(tiles)}", code="CD-P1"
        )
    return function(*tiles)
