"""Register tiles combined into memory atomically."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_operand_def,
    opt_prop_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALL, Effects

from .types import FragmentType, MemRefType, fragment_of
from .views import element_of, same_element, same_tile

# By name: the elements that memory combines so (PTX ISA 9.7.13.6).
_WORDS = ("i32", "ui32", "i64", "ui64")
ATOMICS: dict[str, tuple[str, ...]] = {
    "add": ("f16", "bf16", "f32", "f64", *_WORDS),
    "max": _WORDS,
    "min": _WORDS,
    "and": _WORDS,
    "or": _WORDS,
    "xor": _WORDS,
}
# Those that are asked for what was there, of words alone: `exchange` and `compare` of integers.
FETCHED: dict[str, tuple[str, ...]] = {
    kind: tuple(each for each in elements if each not in ("f16", "bf16"))
    for kind, elements in ATOMICS.items()
} | {"exchange": _WORDS, "compare": _WORDS}
SCOPES = ("cta", "cluster", "gpu", "sys")
# What orders other accesses by an atomic (PTX ISA 8.10): `red`, which gives nothing, has no acquire.
ORDERS = ("acquire", "release", "acq_rel")


class AtomicOp(IRDLOperation):
    """What combines a register tile into global memory, atomically and element by element: relaxed,
    at gpu scope or another one. An element that several threads hold is combined once.

    With an `order` it is one with all other accesses of the work item to global memory: those in
    front of a `release` are seen by whoever sees what it left and acquires, those behind an
    `acquire` see what was released.
    """

    kind = prop_def(StringAttr)
    source = operand_def(FragmentType)
    destination = operand_def(MemRefType)
    scope = opt_prop_def(StringAttr)
    order = opt_prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)

    @property
    def acquires(self) -> bool:
        """Whether accesses behind it stay there."""
        return self.order is not None and self.order.data != "release"

    @property
    def modifiers(self) -> str:
        """The order and scope as PTX spells them."""
        order = "relaxed" if self.order is None else self.order.data
        return f"{order}.{'gpu' if self.scope is None else self.scope.data}"

    def _verify_kind(self, kinds: Mapping[str, Sequence[str]], orders: Sequence[str]) -> None:
        kind = self.kind.data
        check(kind in kinds, f"expected an atomic ({', '.join(kinds)}), got '{kind}'")
        scope = "gpu" if self.scope is None else self.scope.data
        check(scope in SCOPES, f"expected a scope ({', '.join(SCOPES)}), got '{scope}'")
        order = orders[0] if self.order is None else self.order.data
        check(order in orders, f"expected an order ({', '.join(orders)}), got '{order}'")
        same_tile(self.source.type, self.destination.type)
        same_element(self.source.type, self.destination.type)


def _properties(kind: str, scope: str | None, order: str | None) -> dict[str, StringAttr | None]:
    where = None if scope in (None, "gpu") else StringAttr(scope)
    when = None if order in (None, "relaxed") else StringAttr(order)
    return {"kind": StringAttr(kind), "scope": where, "order": when}


@irdl_op_definition
class CombineOp(AtomicOp):
    """Combine a register tile into global memory, atomically and element by element.

    Relaxed or a release, at gpu scope or another one (PTX ISA 9.7.13.6 `red`); an element that
    several threads hold is combined once.

    Example:

        cute.kernel @k(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">, %x: i32) {
          %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
          cute.fill %t, %x : !cute.fragment<i32, "(64,1)">
          cute.atomic "add", %t, %a : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">
          cute.atomic "or", %t, %a {order = "release", scope = "sys"} : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">
        }
    """

    name = "cute.atomic"
    assembly_format = (
        "$kind `,` $source `,` $destination attr-dict `:` type($source) `,` type($destination)"
    )

    def __init__(
        self,
        kind: str,
        source: SSAValue,
        destination: SSAValue,
        scope: str | None = None,
        order: str | None = None,
    ) -> None:
        properties = _properties(kind, scope, order)
        super().__init__(operands=[source, destination], properties=properties)

    def effects(self) -> Effects:
        return Effects((self.source, self.destination), (self.destination,))

    def verify_(self) -> None:
        self._verify_kind(ATOMICS, ("release",))


@irdl_op_definition
class FetchOp(AtomicOp):
    """Combine a register tile into global memory as `cute.atomic` does, and give what was there.

    Beside the kinds of that op there are `exchange`, which leaves the element of the tile there,
    and `compare`, which does so where that of another tile was (PTX ISA 9.7.13.5 `atom`). What lies
    outside of the tensor gives 0.

    Example:

        cute.kernel @k(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">, %x: i32) {
          %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
          cute.fill %t, %x : !cute.fragment<i32, "(64,1)">
          %o = cute.fetch "add", %t, %a : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
          %p = cute.fetch "compare", %t, %a if %o : !cute.fragment<i32, "(64,1)"> {order = "acq_rel", scope = "sys"} : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)"> -> !cute.fragment<i32, "(64,1)">
        }
    """

    name = "cute.fetch"
    # Said again: what a class adds has its place in front of what it inherits.
    source = operand_def(FragmentType)
    destination = operand_def(MemRefType)
    expected = opt_operand_def(FragmentType)
    result = result_def(FragmentType)
    assembly_format = (
        "$kind `,` $source `,` $destination (`if` $expected^ `:` type($expected))? attr-dict `:` "
        "type($source) `,` type($destination) `->` type($result)"
    )

    def __init__(
        self,
        kind: str,
        source: SSAValue,
        destination: SSAValue,
        scope: str | None = None,
        expected: SSAValue | None = None,
        order: str | None = None,
    ) -> None:
        type_ = fragment_of(source)
        super().__init__(
            operands=[source, destination, expected],
            properties=_properties(kind, scope, order),
            result_types=[FragmentType.get(type_.element, type_.shape)],
        )

    def alike(self) -> tuple[tuple[SSAValue, ...], ...]:
        """The register tiles that lie alike in threads."""
        more = () if self.expected is None else (self.expected,)
        return ((self.source, *more, self.result),)

    def settled(self) -> tuple[tuple[int, SSAValue], ...]:
        """Operands by their number, and the tile as which each has to lie."""
        return ((0, self.result), *(() if self.expected is None else ((2, self.result),)))

    def effects(self) -> Effects:
        reads = [self.source, self.destination]
        if self.expected is not None:
            reads.append(self.expected)
        return Effects(tuple(reads), (self.destination,), team=ALL)

    def verify_(self) -> None:
        self._verify_kind(FETCHED, ORDERS)
        kind, element = self.kind.data, element_of(self.source.type)
        check(
            str(element) in FETCHED[kind],
            f"expected {kind} of {', '.join(FETCHED[kind])}, got {element}",
        )
        check(
            (self.expected is not None) == (kind == "compare"),
            f"expected another tile with compare alone, got {kind}",
        )
        tiles = [self.result] + ([] if self.expected is None else [self.expected])
        for tile in tiles:
            check(
                fragment_of(tile).shape == fragment_of(self.source).shape
                and fragment_of(tile).element == element,
                f"expected a tile like {self.source.type}, got {tile.type}",
            )
