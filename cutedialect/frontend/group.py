"""A group of tensors in a tile program: a kernel argument that is a list of arrays.

`problem, m, n = cute.tile_index(Cs, tile)` walks over the tiles of all of them, and `Cs[problem]`
is the tensor with this number.
"""

from __future__ import annotations

from typing import NoReturn

from xdsl.ir import SSAValue

from cutedialect.dialects.cute import GroupSizeOp, GroupType, MemberOp, MemRefType

from .dtypes import DType
from .scalar import Scalar, as_i32
from .tile import Tensor
from .trace import current, error


class Group:
    """Any number of tensors of one type, rank and major."""

    def __init__(self, value: SSAValue, name: str, held: DType | None = None) -> None:
        self.value = value
        self.name = name
        self.held = held

    @property
    def rank(self) -> int:
        """Modes of each tensor."""
        assert isinstance(self.value.type, GroupType)
        assert isinstance(self.value.type.member, MemRefType)
        return self.value.type.member.rank

    @property
    def size(self) -> Scalar:
        """How many tensors there are."""
        return Scalar(current().insert(GroupSizeOp(self.value)).results[0])

    def __getitem__(self, index: int | Scalar) -> Tensor:
        """The tensor with a number, which has to be in range."""
        at = as_i32(index, "the number of a tensor")
        member = current().insert(MemberOp(self.value, at), self.name).results[0]
        return Tensor(member, self.name, self.held)

    def __iter__(self) -> NoReturn:
        raise error(
            f"expected `{self.name}[i]` for a number i, got iteration over {self.name}",
            code="CD-P10",
        )
