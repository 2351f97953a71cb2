"""Atomics that give what was in memory (PTX ISA 9.7.13.5): an instruction for each element, in the
first of the threads that hold it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from xdsl.ir import SSAValue

from cutedialect.dialects import cute, ptx

from .addresses import Address
from .context import Context, array_class, number_name
from .copies import Transfer
from .elementwise import Fragment
from .scalar_builder import Scalar, array_type
from .tile_access import TileAccess, Vector
from .views import View

# By kind: the operation, and the type that is the same for both signs, if it is one of plain bits.
_NAMES = {"exchange": "exch", "compare": "cas"}
_PLAIN = ("and", "or", "xor", "exchange", "compare")


@dataclass
class _Fetch(Transfer):
    """The atomics of one tile: `found` gets what was there; `expected` is compared with it."""

    found: SSAValue | None = None
    expected: SSAValue | None = None
    modifiers: str = ""

    def _emit(
        self,
        access: TileAccess,
        units: SSAValue,
        vectors: Sequence[Vector],
        guards: Sequence[Scalar],
    ) -> None:
        context = self.context
        size = access.view.element_bytes
        addresses = access.addresses([vector.offset for vector in vectors])
        for vector, address, guard in zip(vectors, addresses, guards, strict=True):
            for step, value in enumerate(vector.values):
                place = Address(address.base, address.immediate + step * size)
                context.when(guard, partial(self._fetch, units, value, place))

    def _fetch(self, units: SSAValue, value: int, place: Address) -> None:
        """One element."""
        builder = self.context.builder
        given = [builder.get(units, value)]
        if self.expected is not None:
            given.insert(0, builder.get(self.expected, value))
        base = builder.value(place.base, "b64")
        old = builder.result(ptx.AtomOp(self.modifiers, base, place.immediate, given))
        assert self.found is not None
        builder.set(self.found, value, old)


def fetch_tile(
    context: Context, op: cute.FetchOp, view: View, source: Fragment, expected: Fragment | None
) -> SSAValue:
    """What was at the elements of a tile in memory, in the threads that asked; 0 elsewhere."""
    kind, element = op.kind.data, source.type.element
    name = f"b{source.type.bits}" if kind in _PLAIN else number_name(element)
    if kind == "add":
        name = {"s64": "u64", "s32": "u32"}.get(name, name)
    found = context.registers(array_class(source.array), array_type(source.array).count)
    context.fill(found, 0)
    access = TileAccess(context, view, source.tv, source.pack, most_units=1)
    _Fetch(
        access,
        source.array,
        ptx.RedOp,
        found=found,
        expected=None if expected is None else expected.array,
        modifiers=f"{op.modifiers}.global.{_NAMES.get(kind, kind)}.{name}",
    ).run()
    return found
