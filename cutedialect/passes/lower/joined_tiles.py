"""Tiles that are put together from several (`cute.concat`): a copy to shared memory is one of each
part.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute

from .lowering import Handler, KernelLowering
from .views import View, subview, transpose


@dataclass(frozen=True)
class JoinedTile:
    """Tiles of one shape, one after the other along a mode."""

    parts: tuple[View, ...]
    mode: int

    def transposed(self) -> JoinedTile:
        """The tile with its two modes exchanged."""
        return JoinedTile(tuple(transpose(part) for part in self.parts), 1 - self.mode)


def pieces(
    self: KernelLowering, op: Operation, source: SSAValue, target: SSAValue
) -> Iterator[tuple[View, View]]:
    """What a copy to shared memory consists of: (tile, place) of each part of the source."""
    whole = self.view(op, target)
    joined = self.joined.get(source)
    if joined is None:
        yield self.view(op, source), whole
        return
    for number, part in enumerate(joined.parts):
        origin = [0] * len(part.shape)
        origin[joined.mode] = number * part.shape[joined.mode]
        yield part, subview(self.builder, whole, tuple(origin), part.shape)


def _concat(self: KernelLowering, op: cute.ConcatOp) -> None:
    parts = tuple(self.view(op, part) for part in op.parts)
    self.joined[op.result] = JoinedTile(parts, op.mode.value.data)


HANDLERS: dict[type[Operation], Handler] = {cute.ConcatOp: _concat}
