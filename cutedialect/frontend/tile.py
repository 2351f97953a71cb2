"""Tensors, tile views and register tiles as Python objects whose operators append IR.

A `Tensor` is a kernel argument, a `View` one tile of it in memory, a `Views` the run of tiles along
one mode, and a `Tile` a register tile.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NoReturn

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerType
from xdsl.ir import Block, SSAValue

from cutedialect.dialects.cute import (
    CopyOp,
    DimOp,
    ExtractOp,
    FragmentType,
    LoadOp,
    LocalTileOp,
    MapOp,
    MemRefType,
    ReadOp,
    SliceOp,
    TiledCopyAttr,
    TransposeOp,
    YieldOp,
)
from cutedialect.layout import Layout, TiledCopy

from .arithmetic import (
    Number,
    binary_value,
    compares,
    computed_in,
    convert_value,
    inverted,
    is_number,
    joined,
    literal,
    negated,
    promote,
    same_bits,
)
from .dtypes import DType, as_dtype, i1, of_ir
from .hints import Hinted, refuse_matmul, refuse_stores
from .scalar import Operators, Scalar, as_i32, instead_of_choice
from .trace import Scope, current, error

if TYPE_CHECKING:
    from .paged import Pages
    from .tensor_layouts import LayoutValue


class Tensor(Hinted):
    """A tensor in global memory: a kernel argument. Elements of less than 8 bits, those of the type
    `held`, are bytes in IR.
    """

    def __init__(self, value: SSAValue, name: str, held: DType | None = None) -> None:
        self.value = value
        self.name = name
        self.held = held
        # What tensors go through this one as a table of pages, by the scope.
        self.pages: list[tuple[Scope, Pages]] = []

    @property
    def memref(self) -> MemRefType:
        assert isinstance(self.value.type, MemRefType)
        return self.value.type

    @property
    def dtype(self) -> DType:
        return self.held or of_ir(self.memref.element)

    @property
    def rank(self) -> int:
        return self.memref.rank

    @property
    def shape(self) -> tuple[int | Scalar, ...]:
        """Extents: ints where static, scalars where they are run-time values."""
        return tuple(self.dim(mode) for mode in range(self.rank))

    @property
    def layout(self) -> Layout | LayoutValue:
        """From coordinates to offsets in elements: a `Layout` where all of it is known."""
        from .tensor_layouts import layout_of

        return layout_of(self)

    @property
    def extent(self) -> int | Scalar:
        """Extent of the mode that rows run along: the last but one, or the only one."""
        return self.dim(max(0, self.rank - 2))

    def dim(self, mode: int) -> int | Scalar:
        """Extent of one mode."""
        static = self.memref.shape[mode]
        if isinstance(static, int):
            return static
        return Scalar(current().insert(DimOp(self.value, mode)).results[0])

    def slice(self, mode: int, first: int | Scalar, end: int | Scalar) -> Tensor:
        """The elements `first` to `end` - 1 along one mode, as a tensor whose tiles know their
        bounds: beyond `end` loads give 0 and stores write nothing.
        """
        if not 0 <= mode < self.rank:
            raise error(
                f"expected a mode in 0..{self.rank - 1} of {self.name}, got {mode}", code="CD-P4"
            )
        bounds = as_i32(first, "the start of a slice"), as_i32(end, "the end of a slice")
        part = current().insert(SliceOp(self.value, mode, *bounds)).results[0]
        return Tensor(part, self.name, self.held)

    def paged(self, mode: int, table: Tensor, page_size: int) -> Tensor:
        """This tensor of pages, its first mode, as one whose rows along `mode` go through a table:
        row r of entry b is row r mod `page_size` of page `table[b, r // page_size]`.

        The first mode of the result is that of `table` (entries, pages), and its tiles along `mode`
        are whole pages or parts of one; `page_size` is the extent of `mode`, a power of two from 8
        on. No more of the table is looked at than the pages in front of the end of a `slice`.
        """
        from .paged import paged

        return paged(self, mode, table, page_size)

    def view(
        self, tile: Sequence[int], coords: Sequence[SSAValue], copy: TiledCopy | None = None
    ) -> View:
        """The tile at tile coordinates; extent 0 indexes and drops a mode, -1 keeps it whole."""
        trace, tile = current(), as_matrix_extents(tile)
        op = LocalTileOp(self.value, list(tile), list(coords))
        if copy is not None:
            op.attributes["tiled"] = TiledCopyAttr(copy)
        made = View(trace.insert(op, self.name).results[0], self, tile_origins(tile, coords))
        made.cut = tile, coords
        return made

    __setitem__ = refuse_stores

    def __getitem__(self, coords: object) -> Scalar:
        """One element as a scalar, the same for the whole CTA: `lengths[b]`, `offsets[0, b + 1]`.

        Nothing may write to it while the kernel runs.
        """
        given = coords if isinstance(coords, tuple) else (coords,)
        if len(given) != self.rank:
            raise error(
                f"expected one coordinate for each of the {self.rank} modes of {self.name}, "
                f"got {len(given)}",
                code="CD-P2",
            )
        values = [as_i32(each, "a coordinate") for each in given]
        return Scalar(current().insert(ReadOp(self.value, values)).results[0]).to(self.dtype)

    def __iter__(self) -> NoReturn:
        raise error(
            f"expected tiles or single elements of {self.name}, got iteration over it",
            code="CD-P10",
        )


class View(Hinted):
    """One tile of a tensor in global memory."""

    is_indexed: ClassVar[bool] = False
    # The tile of numbered rows of which this is the transpose.
    turned_rows: View | None = None
    # Extents and coordinates in the tensor's own modes, where it is a tile at such.
    cut: tuple[Sequence[int], Sequence[SSAValue]] | None = None

    def __init__(self, value: SSAValue, tensor: Tensor, origins: dict[int, Scalar]) -> None:
        self.value = value
        self.tensor = tensor
        self.scope: Scope = current().scope
        # Element coordinate of the tile's origin along each mode of the tile.
        self.origins = origins

    @property
    def memref(self) -> MemRefType:
        assert isinstance(self.value.type, MemRefType)
        return self.value.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.memref.shape

    @property
    def dtype(self) -> DType:
        return self.tensor.held or of_ir(self.memref.element)

    @property
    def T(self) -> View:
        """The tile with its two modes exchanged; a vector becomes a row."""
        if len(self.shape) > 2:
            raise error(
                f"expected a tile of rank 1 or 2 to transpose, got shape {self.shape}", code="CD-P2"
            )
        turned = current().insert(TransposeOp(self.use())).results[0]
        last = max(1, len(self.shape) - 1)
        return View(turned, self.tensor, {last - mode: at for mode, at in self.origins.items()})

    def use(self) -> SSAValue:
        current().check_alive(self.scope, "a tile view")
        return self.value

    def load(self) -> Tile:
        """Read the tile into registers, in its modes; outside of the tensor it is 0."""
        if len(self.shape) > 2:
            from .modes import loaded_parts

            return loaded_parts(self)
        loaded = Tile(current().insert(LoadOp(as_matrix(self).use())).results[0]).to(self.dtype)
        if len(self.shape) == 2:
            return loaded
        from .modes import of_modes

        return of_modes(loaded, self.shape)

    def to(self, dtype: object) -> Tile:
        """Load and convert."""
        return self.load().to(dtype)


class Views:
    """The tiles of a tensor along one mode, indexed by a run-time tile number."""

    def __init__(
        self,
        tensor: Tensor,
        tile: Sequence[int],
        coords: Sequence[SSAValue | None],
        mode: int,
        copy: TiledCopy | None = None,
    ) -> None:
        self.tensor = tensor
        self.tile: tuple[int, ...] = tuple(tile)
        self.coords: tuple[SSAValue | None, ...] = tuple(coords)
        self.mode = mode
        self.copy = copy
        self.scope: Scope = current().scope

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one tile."""
        whole = self.tensor.memref.shape
        return tuple(
            whole[mode] if extent < 0 else extent
            for mode, extent in enumerate(as_matrix_extents(self.tile))
            if extent != 0
        )

    @property
    def tiles(self) -> Scalar:
        """How many tiles there are, the last one perhaps ragged; along a batch mode, of which a
        tile has one element, as many as its extent.
        """
        trace = current()
        value = as_i32(self.tensor.dim(self.mode), "an extent")
        if self.tile[self.mode] == 0:
            return Scalar(value)
        step = trace.constant(self.tile[self.mode], _i32())
        return Scalar(trace.insert(arith.CeilDivSIOp(value, step)).results[0])

    def __getitem__(self, index: object) -> View:
        current().check_alive(self.scope, "a run of tiles")
        at = as_i32(index, "a tile number")
        return self.view([at if coord is None else coord for coord in self.coords])

    def view(self, coords: Sequence[SSAValue]) -> View:
        """The tile at tile coordinates."""
        return self.tensor.view(self.tile, coords, self.copy)

    def __iter__(self) -> NoReturn:
        raise error(
            "expected `for k in cute.range(x.tiles): x[k]`, got iteration over x itself",
            code="CD-P10",
        )


def _i32() -> IntegerType:
    return IntegerType(32)


def as_matrix_extents(tile: Sequence[int]) -> list[int]:
    """Extents of a tile of more than two modes with those of 1 dropped (0), outermost first, until
    two modes are left.
    """
    extents, left = list(tile), sum(extent != 0 for extent in tile)
    for mode, extent in enumerate(tile):
        if left > 2 and extent == 1:
            extents[mode], left = 0, left - 1
    return extents


def tile_origins(tile: Sequence[int], coords: Sequence[SSAValue]) -> dict[int, Scalar]:
    """The element coordinates at which a tile starts, by the modes that it keeps."""
    trace = current()
    origins: dict[int, Scalar] = {}
    kept = [(coord, extent) for coord, extent in zip(coords, tile, strict=True) if extent != 0]
    for mode, (coord, extent) in enumerate(kept):
        if extent < 0:
            continue
        step = trace.constant(extent, _i32())
        origins[mode] = Scalar(trace.insert(arith.MuliOp(coord, step)).results[0])
    return origins


class Tile(Hinted, Operators["Tile"]):
    """A register tile; operators are elementwise, of tiles of as many modes, in which an extent of
    1 stretches.

    `/` of f32 is off by at most 2 ulp (`div.full.f32`), `cute.exact.divide` rounds to nearest.
    """

    __matmul__ = refuse_matmul
    __setitem__ = refuse_stores
    # The type of elements whose IR has another one: those of 4 bits.
    held: DType | None = None

    def __init__(self, value: SSAValue, mutable: bool = False, scope: Scope | None = None) -> None:
        self.value = value
        self.mutable = mutable
        self.scope: Scope = scope or current().scope

    @property
    def fragment(self) -> FragmentType:
        assert isinstance(self.value.type, FragmentType)
        return self.value.type

    @property
    def shape(self) -> tuple[int, ...]:
        return self.fragment.shape

    @property
    def dtype(self) -> DType:
        return self.held or of_ir(self.fragment.element)

    @property
    def T(self) -> Tile:
        """The tile as it is now with its two modes exchanged; a vector becomes a row."""
        return Tile(current().insert(TransposeOp(self.use())).results[0])

    mT = T  # noqa: N815

    def __getitem__(self, key: object) -> Tile:
        """A part with constant bounds, `t[2:6, :]`; with None a mode of extent 1, `v[None, :]`, and
        with a number one place of a mode, without it, `t[:, 0]`.
        """
        from .parts import part_of

        return part_of(self, key)

    def columns(self, first: int, count: int) -> Tile:
        """A tile (rows, count) of some columns as they are now, from number `first` on. They stay
        with their threads where each has as many of them; else threads exchange the tile.
        """
        if len(self.shape) != 2 or not 0 <= first < first + count <= self.shape[1]:
            raise error(
                f"expected columns of a tile {self.shape}, got {count} from {first} on",
                code="CD-P2",
            )
        part = FragmentType.get(self.fragment.element, (self.shape[0], count))
        return Tile(current().insert(ExtractOp(self.use(), (0, first), part)).results[0])

    def use(self) -> SSAValue:
        """The value, checked to be alive."""
        current().check_alive(self.scope, "a tile")
        return self.value

    def assign(self, value: object) -> None:
        """Overwrite this tile (made by `cute.zeros` or `cute.full`) in place."""
        if not self.mutable:
            raise error(
                "expected a tile made by cute.zeros or cute.full to assign to, got a computed value"
            )
        self._check_held(value)
        source = as_tile(value, self.shape, self.dtype).to(self.dtype)
        if source.shape != self.shape:
            if broadcast_shape(self.shape, source.shape) != self.shape:
                raise error(
                    f"expected a value that broadcasts to {self.shape}, got one of {source.shape}",
                    code="CD-P2",
                )
            source = elementwise(lambda x: x, (source,), self.shape, self.dtype)
        current().insert(CopyOp(source.use(), self.use()))

    def _check_held(self, value: object) -> None:
        """Refuse what would be narrowed without a word; a scalar of floats is rounded to floats."""
        if not isinstance(value, Tile | View | Scalar):
            return
        mine, theirs = self.dtype, value.dtype
        is_rounded = isinstance(value, Scalar) and mine.kind == theirs.kind == "f"
        if promote(mine, theirs) != mine and not is_rounded:
            raise error(
                f"expected a value that a tile of {mine.name} holds, got one of {theirs.name}; "
                f"convert it with .to(cute.{mine.name})",
                code="CD-P3",
            )

    def to(self, dtype: object) -> Tile:
        """Convert the elements.

        Floats round to nearest even, and to 8 bits they saturate: what is larger than the type
        holds, infinity too, becomes its largest number (448 of e4m3, 57,344 of e5m2, 28 of e3m2,
        7.5 of e2m3, 6 of e2m1), and NaN stays (PTX ISA, `cvt.rn.satfinite`, which has no other
        form), or is the largest number of 6 and 4 bits, which have none. To ue8m0 the sign is
        dropped and the number becomes the least power of two that is no smaller
        (`cvt.rp.satfinite`); to ue4m3, which is e4m3 of scales, negative numbers become 0. To
        integers floats go toward zero and are clamped, where NaN gives 0 (the lowest number from
        f64 and to i64). Integers wrap. To i1, what is not 0 is true. The result is a value: later
        changes of a tile made by `cute.zeros` or `cute.full` leave it alone.
        """
        target = as_dtype(dtype)
        if target == self.dtype and not self.mutable:
            return self
        source = self.dtype

        def convert(value: SSAValue) -> SSAValue:
            return convert_value(value, source, target)

        made = elementwise(convert, (self,), self.shape, target)
        made.held = None if target == target.computed else target
        return made

    def bitcast(self, dtype: object) -> Tile:
        """The bits of each element as a type of the same width: f32 as i32 or u32, and back."""
        source, target = self.dtype, as_dtype(dtype)
        return elementwise(
            lambda value: same_bits(value, source, target), (self,), self.shape, target
        )

    def _binary(self, kind: str, other: object, swap: bool = False) -> Tile:
        if not isinstance(other, Tile | View | Scalar) and not is_number(other):
            return NotImplemented
        left, right = (other, self) if swap else (self, other)
        return binary(kind, left, right)

    def __pow__(self, other: object) -> Tile:
        return self._power(self, other, other)

    def __rpow__(self, other: object) -> Tile:
        return self._power(other, self, other)

    @staticmethod
    def _power(base: object, exponent: object, other: object) -> Tile:
        from .power import power

        if not isinstance(other, Tile | View | Scalar) and not is_number(other):
            return NotImplemented
        return power(base, exponent)

    def __neg__(self) -> Tile:
        source, dtype = self.dtype, computed_in("sub", self.dtype)

        def body(value: SSAValue) -> SSAValue:
            return negated(convert_value(value, source, dtype), dtype)

        return elementwise(body, (self,), self.shape, dtype)

    def __invert__(self) -> Tile:
        dtype = self.dtype
        return elementwise(lambda value: inverted(value, dtype), (self,), self.shape, dtype)

    def _update(self, kind: str, other: object) -> Tile:
        """An augmented assignment: in place for a tile made by `cute.zeros` or `cute.full`, a new
        value for the name otherwise, as with Python's numbers.
        """
        result = self._binary(kind, other)
        if result is NotImplemented or not self.mutable:
            return result
        self.assign(result)
        return self

    def __iadd__(self, other: object) -> Tile:
        return self._update("add", other)

    def __isub__(self, other: object) -> Tile:
        return self._update("sub", other)

    def __imul__(self, other: object) -> Tile:
        return self._update("mul", other)

    def __itruediv__(self, other: object) -> Tile:
        return self._update("truediv", other)

    def __ifloordiv__(self, other: object) -> Tile:
        return self._update("floordiv", other)

    def __imod__(self, other: object) -> Tile:
        return self._update("mod", other)

    def __iand__(self, other: object) -> Tile:
        return self._update("and", other)

    def __ior__(self, other: object) -> Tile:
        return self._update("or", other)

    def __ixor__(self, other: object) -> Tile:
        return self._update("xor", other)

    def __ilshift__(self, other: object) -> Tile:
        return self._update("lshift", other)

    def __irshift__(self, other: object) -> Tile:
        return self._update("rshift", other)

    def __bool__(self) -> bool:
        raise error(
            "expected a Python bool, got a tile; use & and | for and and or, ~ for not, "
            "cute.where(condition, a, b) for elementwise choices, cute.maximum and cute.minimum "
            f"for max and min; {instead_of_choice('cute.any(condition)')}",
            code="CD-P9",
        )

    def __float__(self) -> NoReturn:
        raise error(
            "expected a Python number, got a tile; use cute.exp and the like in the place "
            "of Python's math",
            code="CD-P9",
        )

    def __format__(self, spec: str) -> str:
        raise error(
            "expected a value that is known while the kernel is traced, got a tile", code="CD-P9"
        )

    def __abs__(self) -> Tile:
        from .elementwise import abs_

        return abs_(self)

    def __iter__(self) -> NoReturn:
        raise error(
            "expected operations on whole tiles, cute.row_sum and cute.row_max for sum and max, "
            "got iteration over a tile",
            code="CD-P10",
        )

    def __len__(self) -> NoReturn:
        raise error(
            f"expected one of the extents tile.shape = {self.shape}, got len of a tile",
            code="CD-P10",
        )

    def __repr__(self) -> str:
        return f"Tile({self.shape}, {self.dtype.name})"


def as_matrix(value: View | Tile) -> View | Tile:
    """A vector (n,) as the column (n,1) that its elements lie in; a matrix as it is."""
    rank = len(value.shape)
    if rank not in (1, 2):
        raise error(
            f"expected a tile of rank 1 or 2, got shape {value.shape}; give its other modes an "
            "extent of 1 and take the tiles along them one by one",
            code="CD-P2",
        )
    if rank == 2:
        return value
    if isinstance(value, View):
        return value.T.T
    from .modes import matrix_of_modes

    return matrix_of_modes(value)


def as_tile(value: object, shape: tuple[int, ...], dtype: DType) -> Tile:
    """A tile, view, scalar or number as a tile; numbers take `shape` and `dtype`."""
    if isinstance(value, Tile):
        return value
    if isinstance(value, View):
        return value.load()
    if isinstance(value, Scalar) or is_number(value):
        return elementwise(lambda: as_value(value, dtype), (), shape, dtype)
    raise error(f"expected a tile, a scalar or a number, got {type(value).__name__}")


def as_value(value: Scalar | Number, dtype: DType) -> SSAValue:
    """A scalar or a number as a value of a type."""
    if isinstance(value, Scalar):
        return convert_value(value.use(), value.dtype, dtype)
    return literal(value, dtype)


def values_in(dtype: DType, sides: Iterable[Any], elements: Iterable[SSAValue]) -> list[SSAValue]:
    """Elements of the tiles among the sides, scalars and numbers as values of a type."""
    given = iter(elements)
    return [
        convert_value(next(given), side.dtype, dtype)
        if isinstance(side, Tile)
        else as_value(side, dtype)
        for side in sides
    ]


def elementwise(
    function: Callable[..., SSAValue], inputs: Sequence[Tile], shape: tuple[int, ...], dtype: DType
) -> Tile:
    """One `cute.map`: `function` gets an SSA value for each input and gives the result's."""
    if len(shape) != 2:
        from .modes import on_matrices

        return on_matrices(function, inputs, shape, dtype)
    trace = current()
    values = [tile.use() for tile in inputs]
    block = Block(arg_types=[tile.fragment.element for tile in inputs])
    with trace.region(block, "an elementwise body"):
        result = function(*block.args)
        trace.insert(YieldOp(result))
    fragment = FragmentType.get(dtype.ir, shape)
    return Tile(trace.insert(MapOp(values, fragment, block)).results[0])


def broadcast_shape(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """The shape that all broadcast to, all of one rank: 1 stretches."""
    ranks = {len(shape) for shape in shapes}
    if len(ranks) > 1:
        raise error(
            f"expected tiles of as many modes, got {' and '.join(map(str, shapes))}; "
            + (
                "write v[:, None] for an element in each row of the other, v[None, :] for one in "
                "each column"
                if 1 in ranks
                else "give the other its modes of extent 1, as in t[None, :, :]"
            ),
            code="CD-P2",
        )
    result: list[int] = []
    for extents in zip(*shapes, strict=True):
        wide = {extent for extent in extents if extent != 1}
        if len(wide) > 1:
            shown = " and ".join(map(str, shapes))
            raise error(
                f"expected tiles whose modes agree or have an extent of 1, got {shown}",
                code="CD-P2",
            )
        result.append(wide.pop() if wide else 1)
    return tuple(result)


def binary(kind: str, left: object, right: object) -> Tile:
    """An elementwise binary operator with broadcasting."""
    operands = [v.load() if isinstance(v, View) else v for v in (left, right)]
    tiles = [v for v in operands if isinstance(v, Tile)]
    others: list[Scalar | Number] = []
    for value in operands:
        if isinstance(value, Scalar) or is_number(value):
            others.append(value)
        elif not isinstance(value, Tile):
            raise error(f"expected tiles, scalars or numbers, got {type(value).__name__}")
    if not tiles:
        raise error("expected a tile on at least one side, got numbers")
    dtype = tiles[0].dtype
    for tile in tiles[1:]:
        dtype = promote(dtype, tile.dtype)
    dtype = computed_in(kind, dtype)
    for other in others:
        if isinstance(other, Scalar):
            dtype = joined(dtype, other.dtype)
    shape = broadcast_shape(*(tile.shape for tile in tiles))

    def body(*args: SSAValue) -> SSAValue:
        return binary_value(kind, *values_in(dtype, operands, args))

    return elementwise(body, tiles, shape, i1 if compares(kind) else dtype)
