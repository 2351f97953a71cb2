"""Tensors of packed elements inside a kernel: their tiles, and what loads take out of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NoReturn

from xdsl.ir import SSAValue

from cutedialect.dialects.cute import FragmentType, UnpackOp
from cutedialect.layout import TiledCopy

from .arithmetic import binary_value, literal
from .dtypes import DType, i4, i8, u8
from .scalar import Scalar
from .tile import Tensor, Tile, View, as_matrix_extents, elementwise
from .trace import current, error

if TYPE_CHECKING:
    from .packed import Packing

_SIGN = 8


class PackedTensor(Tensor):
    """The elements that the integers of a tensor hold."""

    def __init__(self, integers: Tensor, packing: Packing) -> None:
        super().__init__(integers.value, integers.name)
        self.integers = integers
        self.packing = packing

    @property
    def dtype(self) -> DType:
        return self.packing.dtype

    def dim(self, mode: int) -> int | Scalar:
        """Extent of one mode, in elements."""
        extent = self.integers.dim(mode)
        return extent * self.packing.per if mode == self.packing.axis else extent

    def slice(self, mode: int, first: int | Scalar, end: int | Scalar) -> Tensor:
        """The elements `first` to `end` - 1 along a mode that is not packed."""
        if mode == self.packing.axis:
            raise error(
                f"expected a slice along another mode than {mode}, along which {self.name} is "
                "packed; slice the integers before cute.packed",
                code="CD-P14",
            )
        return PackedTensor(self.integers.slice(mode, first, end), self.packing)

    def paged(self, mode: int, table: Tensor, page_size: int) -> Tensor:
        """Refused: pages have whole elements."""
        raise error(f"expected pages of whole elements, got the packed {self.name}", code="CD-P14")

    def __getitem__(self, coords: object) -> Scalar:
        raise error(
            f"expected tiles of the packed {self.name}, got single elements of it", code="CD-P14"
        )

    def view(
        self, tile: Sequence[int], coords: Sequence[SSAValue], copy: TiledCopy | None = None
    ) -> View:
        """The tile at tile coordinates, whole blocks along the packed mode."""
        packing, axis = self.packing, self.packing.axis
        extent, block = tile[axis], packing.block
        if copy is not None:
            raise error(
                f"expected no tiled copy for a tile of the packed {self.name}, got one; name that "
                "of the integers",
                code="CD-P14",
            )
        if extent <= 0 or extent % block:
            nearest = max(block, -(-extent // block) * block)
            raise error(
                f"expected a tile of {self.name} with whole blocks of {block} elements along mode "
                f"{axis}, along which it is packed ({packing.order}), got "
                f"{extent if extent > 0 else None}; the nearest extent is {nearest}",
                code="CD-P4",
            )
        kept = [mode for mode, each in enumerate(as_matrix_extents(tile)) if each != 0]
        if len(kept) != 2 or axis not in kept:
            raise error(
                f"expected a tile of two modes of the packed {self.name}, mode {axis} among them, "
                f"got {tuple(tile)}",
                code="CD-P2",
            )
        integers = [each // packing.per if at == axis else each for at, each in enumerate(tile)]
        return PackedView(self.integers.view(integers, coords), self, kept.index(axis))


class PackedView(View):
    """One tile of packed elements in global memory; registers have them one by one."""

    def __init__(self, integers: View, tensor: PackedTensor, mode: int) -> None:
        per = tensor.packing.per
        origins = {
            at: origin * per if at == mode else origin for at, origin in integers.origins.items()
        }
        super().__init__(integers.value, tensor, origins)
        self.integers, self.packing, self.mode = integers, tensor.packing, mode
        self.of = tensor

    @property
    def shape(self) -> tuple[int, ...]:
        per = self.packing.per
        return tuple(
            extent * per if at == self.mode else extent
            for at, extent in enumerate(self.integers.shape)
        )

    @property
    def dtype(self) -> DType:
        return self.packing.dtype

    @property
    def T(self) -> View:
        """The tile with its two modes exchanged."""
        return PackedView(self.integers.T, self.of, 1 - self.mode)

    def use(self) -> NoReturn:
        """Refused: a tile in memory has integers."""
        raise error(
            f"expected a register tile of the elements of {self.tensor.name}, got a tile of it in "
            "memory, where integers hold them; take view.load(), and .to(cute.bf16) for a multiply",
            code="CD-P14",
        )

    def load(self) -> Tile:
        """Read the tile into registers, an element each."""
        loaded = self.integers.load()
        holder = i8 if self.packing.dtype in (i4, i8) else u8
        type_ = FragmentType.get(holder.ir, self.shape)
        op = UnpackOp(loaded.use(), self.mode, self.packing.order, type_)
        tile = Tile(current().insert(op).results[0])
        if self.packing.dtype == i4:
            tile = elementwise(_signed, (tile,), tile.shape, i8)
        if self.packing.dtype != holder:
            tile.held = self.packing.dtype
        return tile


def _signed(value: SSAValue) -> SSAValue:
    """The number of which 4 bits are two's complement."""
    sign = literal(_SIGN, i8)
    return binary_value("sub", binary_value("xor", value, sign), sign)
