"""`cute.packed`: an array of integers that hold elements of 4 bits along an axis, as a tensor of
these elements. Inside a kernel it is of a tensor, whose tiles come from memory as they are;
outside of one it is of an array, as an argument of `cute.gemm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from cutedialect.layout import Layout, LayoutError, flatten
from cutedialect.layout.orders import check_order
from cutedialect.layout.text import parse_layout

from .dtypes import DType, as_dtype, i4, u4

if TYPE_CHECKING:
    pass

ELEMENTS = (i4, u4)
"""Types of packed elements."""
HOLDERS = ("i8", "u8", "i32", "u32")
"""Types of the integers that hold them."""
ORDERS = {
    "neighbors": None,
    "awq": "(2,4):(4,1)",
}
"""Orders by name: None is one element behind the other, whatever holds them."""


@dataclass(frozen=True)
class Packing:
    """Elements of a type along an axis, so many of which an integer holds, in an order."""

    dtype: DType
    axis: int
    order: Layout
    per: int

    @property
    def block(self) -> int:
        """Elements of a block of the order."""
        return prod(flatten(self.order.shape))  # pyright: ignore[reportArgumentType]

    def key(self) -> tuple[object, ...]:
        """What a kernel depends on."""
        return self.dtype.name, self.axis, str(self.order), self.per

    def transposed(self, rank: int) -> Packing:
        """The same with the last two modes exchanged."""
        turned = {rank - 1: rank - 2, rank - 2: rank - 1}
        return Packing(self.dtype, turned.get(self.axis, self.axis), self.order, self.per)

    def shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The shape of the elements of integers of a shape; None stays."""
        return tuple(
            extent * self.per if at == self.axis and extent is not None else extent
            for at, extent in enumerate(shape)
        )


@dataclass(frozen=True)
class Packed:
    """An array of integers, and how they hold elements."""

    array: Any
    packing: Packing

    @property
    def shape(self) -> tuple[int, ...]:
        """The extents in elements."""
        return self.packing.shape(self.array.shape)

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self.packing.dtype

    @property
    def ndim(self) -> int:
        return len(self.array.shape)

    @property
    def T(self) -> Packed:
        """The transpose, a view."""
        return self.swapaxes(-1, -2)

    mT = T  # noqa: N815

    def swapaxes(self, one: int, other: int) -> Packed:
        """A view with two modes exchanged, the last two of them."""
        rank = self.ndim
        if {one % rank, other % rank} != {rank - 1, rank - 2}:
            raise ValueError(
                f"expected the last two modes to be exchanged of a packed array, got {one}, {other}"
            )
        from .gemm_operands import transposed

        return Packed(transposed(self.array), self.packing.transposed(rank))


def packed(w: Any, dtype: object, axis: int = -1, order: Layout | str | None = None) -> Any:
    """The elements of 4 bits that the integers of `w` hold along an axis, as a tensor.

    w: inside a kernel a tensor, outside of one an array, of int8, uint8, int32 or uint32. An
    integer holds 2 or 8 elements, the first one in its lowest bits; `dtype` is "u4" (0 to 15) or
    "i4" (-8 to 7, two's complement). The shape is that of w with the extent of `axis` times 2 or 8:
    what lies behind an odd extent of a packed mode is there too, and is multiplied by the zeros
    that tiles of the other operand have there.

    order: where the elements of a block along the axis lie, as a layout from the number of an
    element to its place, counted in elements from the lowest bits of the block's first integer on,
    or its text. "neighbors", the default, is 2:1 or 8:1. "awq" is (2,4):(4,1). `8:1` along the
    axis of K is that of GPTQ. (32,2):(2,1) has in a byte elements that are 32 apart.

    Tiles of it are whole blocks along the axis; `view.load()` gives a register tile of the type,
    which operators compute with as i8 or u8 and `.to()` converts:

        w = cute.local_tile(cute.packed(W, "u4"), (bn, bk), (n, None))
        cute.gemm(w[k].load().to(cute.bf16) - 8, x[k].T, acc)

    Raises TypeError for other types, ValueError for another axis or order (in a kernel located
    errors with the same words).
    """
    from .rules import is_traced

    is_tensor = is_traced(w)
    try:
        if is_tensor:
            rank, holder = w.rank, w.dtype
        else:
            from cutedialect.backend.runtime.arrays import tensor_argument

            argument = tensor_argument(w)
            if argument is None:
                raise TypeError(f"w: expected an array of integers, got {type(w).__name__}")
            rank, holder = len(argument.shape), as_dtype(argument.dtype, "w")
        packing = packing_of(holder, rank, dtype, axis, order)
    except (TypeError, ValueError) as failure:
        if is_tensor:
            _refuse(str(failure))
        raise
    if not is_tensor:
        return Packed(w, packing)
    from .packed_tensors import PackedTensor

    return PackedTensor(w, packing)


def packing_of(
    holder: DType, rank: int, dtype: object, axis: int, order: Layout | str | None
) -> Packing:
    """How an array of a type and rank holds elements; raises TypeError or ValueError."""
    element = as_dtype(dtype)
    if element not in ELEMENTS:
        raise TypeError(f"dtype: expected u4 or i4 of packed elements, got {element.name}")
    if holder.name not in HOLDERS:
        raise TypeError(
            f"w: expected int8, uint8, int32 or uint32 that hold packed elements, got {holder.name}"
        )
    if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
        raise ValueError(f"axis: expected a mode in {-rank}..{rank - 1}, got {axis!r}")
    per = holder.bits // element.bits
    return Packing(element, axis % rank, _order(order, per), per)


def _order(order: Layout | str | None, per: int) -> Layout:
    if order is None:
        return Layout(per, 1)
    if isinstance(order, str):
        return _named_order(order, per)
    if not isinstance(order, Layout):
        raise TypeError(f"order: expected a Layout or its text, got {type(order).__name__}")
    return _checked(order, per)


@lru_cache(maxsize=64)
def _named_order(order: str, per: int) -> Layout:
    text = ORDERS.get(order, order)
    if text is None:
        return Layout(per, 1)
    try:
        layout = parse_layout(text)
    except LayoutError as failure:
        names = ", ".join(map(repr, ORDERS))
        raise ValueError(f"order: expected {names} or a layout, got {order!r}: {failure}") from None
    return _checked(layout, per)


def _checked(order: Layout, per: int) -> Layout:
    try:
        check_order(order, per)
    except ValueError as failure:
        raise ValueError(f"order: {failure}") from None
    return order


def _refuse(message: str) -> NoReturn:
    from .trace import error

    raise error(message, code="CD-P4")
