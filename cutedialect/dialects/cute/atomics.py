"""Register tiles combined into memory atomically."""

from __future__ import annotations

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import SSAValue
from xdsl.irdl import (
    IRDLOperation,
    ParsePropInAttrDict,
    irdl_op_definition,
    operand_def,
    opt_prop_def,
    prop_def,
    traits_def,
)
from xdsl.traits import MemoryReadEffect, MemoryWriteEffect

from cutedialect.dialects.checks import check
from cutedialect.dialects.effects import Effects

from .types import FragmentType, MemRefType
from .views import same_element, same_tile

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
SCOPES = ("cta", "cluster", "gpu", "sys")


@irdl_op_definition
class AtomicOp(IRDLOperation):
    """Combine a register tile into global memory, atomically and element by element.

    Relaxed, at gpu scope or another one (PTX ISA 9.7.13.6 `red`); an element that several threads
    hold is combined once.

    Example:

        cute.kernel @k(%a: !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">, %x: i32) {
          %t = cute.alloc_fragment : !cute.fragment<i32, "(64,1)">
          cute.fill %t, %x : !cute.fragment<i32, "(64,1)">
          cute.atomic "add", %t, %a : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">
          cute.atomic "or", %t, %a {scope = "sys"} : !cute.fragment<i32, "(64,1)">, !cute.memref<i32, gmem, align<4>, "(64,1):(1,64)">
        }
    """

    name = "cute.atomic"
    kind = prop_def(StringAttr)
    source = operand_def(FragmentType)
    destination = operand_def(MemRefType)
    scope = opt_prop_def(StringAttr)
    traits = traits_def(MemoryReadEffect(), MemoryWriteEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$kind `,` $source `,` $destination attr-dict `:` type($source) `,` type($destination)"
    )

    def __init__(
        self, kind: str, source: SSAValue, destination: SSAValue, scope: str | None = None
    ) -> None:
        properties = {
            "kind": StringAttr(kind),
            "scope": None if scope in (None, "gpu") else StringAttr(scope),
        }
        super().__init__(operands=[source, destination], properties=properties)

    def effects(self) -> Effects:
        return Effects((self.source, self.destination), (self.destination,))

    def verify_(self) -> None:
        kind = self.kind.data
        check(kind in ATOMICS, f"expected an atomic ({', '.join(ATOMICS)}), got '{kind}'")
        scope = "gpu" if self.scope is None else self.scope.data
        check(scope in SCOPES, f"expected a scope ({', '.join(SCOPES)}), got '{scope}'")
        same_tile(self.source.type, self.destination.type)
        same_element(self.source.type, self.destination.type)
