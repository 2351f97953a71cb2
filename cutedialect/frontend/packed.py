"""`cute.packed`: an array of integers that hold elements of 4 or 8 bits along an axis, as a tensor
of these elements. Inside a kernel it is of a tensor, whose tiles come from memory as they are;
outside of one it is of an array, as an argument of `cute.gemm`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import prod
from typing import TYPE_CHECKING, Any, NoReturn

from cutedialect.layout import Layout, LayoutError, flatten
from cutedialect.layout.orders import check_order
from cutedialect.layout.text import parse_layout

from .dtypes import DType, as_dtype, e2m3, e3m2, i4, i8, u4, u8

if TYPE_CHECKING:
    pass

ELEMENTS = (i4, u4, i8, u8)
"""Types of packed elements."""
SIXES = (e2m3, e3m2)
"""Those of 6 bits, of which `cute.pack` puts four in three bytes, low bits first."""
_OF_SIXES = "4:1"
_FOUR_IN_THREE = 4, 3
HOLDERS = ("i8", "u8", "i32", "u32")
"""Types of the integers that hold them."""
ORDERS = {
    "neighbors": None,
    "awq": "(2,4):(4,1)",
}
"""Orders by name: None is one element behind the other, whatever holds them."""


@dataclass(frozen=True)
class Packing:
    """Elements of a type along an axis, `per` of which `of` integers hold, in an order, whose text
    is made once: torch.compile makes none of a layout.
    """

    dtype: DType
    axis: int
    order: Layout
    per: int
    of: int = 1
    spelled: str = field(default="", compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "spelled", str(self.order))

    @property
    def block(self) -> int:
        """Elements of a block of the order."""
        return prod(flatten(self.order.shape))  # pyright: ignore[reportArgumentType]

    def text(self, rank: int) -> str:
        """The type, the axis from the last one on, and the order, as `packed_b` has them."""
        return f"{self.dtype.name} {self.axis - rank} {self.spelled}"

    def transposed(self, rank: int) -> Packing:
        """The same with the last two modes exchanged."""
        turned = {rank - 1: rank - 2, rank - 2: rank - 1}
        return Packing(self.dtype, turned.get(self.axis, self.axis), self.order, self.per)

    def shape(self, shape: Sequence[Any]) -> tuple[Any, ...]:
        """The shape of the elements of integers of a shape; None stays."""
        return tuple(
            extent * self.per // self.of if at == self.axis and extent is not None else extent
            for at, extent in enumerate(shape)
        )


@dataclass(frozen=True)
class Packed:
    """An array of integers, and how they hold elements."""

    array: Any
    packing: Packing

    @property
    def text(self) -> str:
        """How the integers hold elements, as `cute.gemm` takes it: "u4 -2 2:1"."""
        return self.packing.text(self.ndim)

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
    """The elements of 4 or 8 bits that the integers of `w` hold along an axis, as a tensor.

    w: inside a kernel a tensor, outside of one an array, of int8, uint8, int32 or uint32. An
    integer holds 2 or 8 elements, the first one in its lowest bits; `dtype` is "u4" (0 to 15) or
    "i4" (-8 to 7, two's complement), or 1 or 4 of "u8" or "i8", in an order of their own. The shape
    is that of w with the extent of `axis` times as many: what lies behind an odd extent of a packed
    mode is there too, and is multiplied by the zeros that tiles of the other operand have there.

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
    from .rules import as_operand, is_traced

    is_tensor = is_traced(w)
    try:
        if is_tensor:
            rank, holder = w.rank, w.dtype
        else:
            operand = as_operand(w, "w")
            rank, holder = len(operand.shape), operand.dtype
        packing = packing_of(holder, rank, dtype, axis, order)
    except (TypeError, ValueError) as failure:
        if is_tensor:
            _refuse(str(failure))
        raise
    if not is_tensor:
        return Packed(w, packing)
    if packing.dtype in SIXES:
        _refuse(
            f"dtype: expected u4 or i4 inside a kernel, got {packing.dtype.name}; cute.scaled_gemm "
            "takes tiles of the bytes"
        )
    from .packed_tensors import PackedTensor

    return PackedTensor(w, packing)


def packing_of(
    holder: DType, rank: int, dtype: object, axis: int, order: Layout | str | None
) -> Packing:
    """How an array of a type and rank holds elements; raises TypeError or ValueError."""
    element = as_dtype(dtype)
    if element not in (*ELEMENTS, *SIXES):
        raise TypeError(
            "dtype: expected u4, i4, u8 or i8 of packed elements, or e2m3 or e3m2, got "
            f"{element.name}"
        )
    if holder.name not in HOLDERS:
        raise TypeError(
            f"w: expected int8, uint8, int32 or uint32 that hold packed elements, got {holder.name}"
        )
    if not isinstance(axis, int) or isinstance(axis, bool) or not -rank <= axis < rank:
        raise ValueError(f"axis: expected a mode in {-rank}..{rank - 1}, got {axis!r}")
    if element in SIXES:
        if holder != u8 or order not in (None, _OF_SIXES):
            raise ValueError(
                f"order: expected None with elements of 6 bits in uint8, got {order!r} in "
                f"{holder.name}"
            )
        return Packing(element, axis % rank, parse_layout(_OF_SIXES), *_FOUR_IN_THREE)
    per = holder.bits // element.bits
    return Packing(element, axis % rank, _order(order, per), per)


def packing_from(text: str, holder: DType, rank: int) -> Packing:
    """The packing that a text names, of an array of integers of a type and rank."""
    words: list[str] = text.split() if isinstance(text, str) else []
    if len(words) not in (2, 3) or not words[1].lstrip("-").isdigit():
        raise ValueError(
            "packed_b: expected a type, an axis and an order, such as 'u4 -2' or 'u4 -2 (2,4):"
            f"(4,1)', got {text!r}"
        )
    return packing_of(holder, rank, words[0], int(words[1]), words[2] if len(words) > 2 else None)


def unpacked(arrays: Any, text: str | None) -> tuple[Any, str | None]:
    """The arrays of a list of packed ones, and how they all hold elements; others as they are."""
    values = arrays if isinstance(arrays, list | tuple) else ()
    texts = {each.text if isinstance(each, Packed) else None for each in values}
    if texts <= {None}:
        return arrays, text
    if len(texts) > 1:
        raise ValueError(
            "bs: expected arrays that are packed alike, got "
            + " and ".join(sorted(str(each) for each in texts))
        )
    return [each.array for each in values], texts.pop()


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
