"""Reductions of register tiles along one mode."""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import (
    BFloat16Type,
    Float16Type,
    Float32Type,
    IntegerAttr,
    StringAttr,
    UnitAttr,
    f32,
    i64,
)
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    opt_region_def,
    prop_def,
    result_def,
    traits_def,
)
from xdsl.traits import (
    MemoryReadEffect,
)

from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import Effects

from .tile_ops import YieldOp
from .types import FragmentType, threads_along
from .views import element_of, same_element, shape_of

REDUCTIONS = ("add", "max", "min", "mul")
FOLD = "fold"
"""A reduction whose body says how two elements are combined."""


@irdl_op_definition
class ReduceOp(IRDLOperation):
    """Combine the elements of a register tile along one mode, which keeps the extent 1, or, as the
    last one, is left out of the result.

    Every thread that held a part holds the result: its thread-value layout keeps the removed
    thread modes with stride 0. A `local` result is that of a part of the tile which holds the
    thread's own elements, whichever is found cheapest; or it keeps an element along the mode for
    each thread along it, the result of that thread's own elements. A `fold` combines two elements as
    its body says (16-bit floats in f32), in an order that the layout fixes; of a padded tile those
    in front of number `extent` alone, since nothing is known that a function would not notice.

    A sum of 16-bit floats may be of f32. With `packed` a thread may then add up to so many of its
    elements in their own type first, two sums at a time where the target has such an instruction.

    Example:

        cute.kernel @k(%x: f32) {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
          cute.fill %t, %x : !cute.fragment<f32, "(64,32)">
          %m = cute.reduce "max", %t {mode = 1 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
          %l = cute.reduce "add", %t {mode = 1 : i64, local} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
          %p = cute.reduce "add", %t {mode = 1 : i64, local} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,4)">
          %f = cute.reduce "fold", %t {mode = 1 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)"> {
          ^bb0(%a: f32, %b: f32):
            %c = arith.mulf %a, %b : f32
            cute.yield %c : f32
          }
          %g = cute.reduce "fold", %t {mode = 1 : i64, extent = 27 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,1)"> {
          ^bb0(%a: f32, %b: f32):
            cute.yield %a : f32
          }
          %h = cute.alloc_fragment : !cute.fragment<bf16, "(64,32)">
          %s = cute.reduce "add", %h {mode = 1 : i64, packed = 4 : i64} : !cute.fragment<bf16, "(64,32)"> -> !cute.fragment<f32, "(64,1)">
          %d = cute.alloc_fragment : !cute.fragment<f32, "(64,32,2)">
          %w = cute.reduce "add", %d {mode = 2 : i64} : !cute.fragment<f32, "(64,32,2)"> -> !cute.fragment<f32, "(64,32)">
        }
    """

    name = "cute.reduce"
    kind = prop_def(StringAttr)
    source = operand_def(FragmentType)
    mode = prop_def(IntegerAttr)
    local = opt_prop_def(UnitAttr)
    body = opt_region_def("single_block")
    packed = opt_prop_def(IntegerAttr)
    extent = opt_prop_def(IntegerAttr)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$kind `,` $source attr-dict `:` type($source) `->` type($result) ($body^)?"

    def __init__(
        self,
        kind: str,
        source: SSAValue,
        mode: int,
        result: FragmentType | None = None,
        local: bool = False,
        body: Block | None = None,
        packed: int | None = None,
    ) -> None:
        type_ = source.type
        assert isinstance(type_, FragmentType)
        if result is None:
            shape = tuple(1 if d == mode else extent for d, extent in enumerate(type_.shape))
            result = FragmentType.get(type_.element if packed is None else f32, shape)
        super().__init__(
            operands=[source],
            properties={
                "kind": StringAttr(kind),
                "mode": IntegerAttr(mode, i64),
                "local": UnitAttr() if local else None,
                "packed": None if packed is None else IntegerAttr(packed, i64),
            },
            regions=[[] if body is None else [Region(body)]],
            result_types=[result],
        )

    @property
    def length(self) -> int:
        """How many elements give one."""
        return shape_of(self.source.type)[self.mode.value.data]

    @property
    def folded(self) -> int:
        """How many of them are there, where the tile is padded."""
        return self.length if self.extent is None else self.extent.value.data

    def effects(self) -> Effects:
        return Effects(reads=(self.source,), team=self._warps())

    def _warps(self) -> int:
        """The neighboring warps that hold what each result is made of; 0 where threads of one do."""
        type_ = self.source.type
        assert isinstance(type_, FragmentType)
        if self.local is not None or type_.tv is None:
            return 0
        along = threads_along(type_.tv, type_.shape, self.mode.value.data)
        threads = max((divisor * extent for divisor, extent in along), default=1)
        return 0 if threads <= 32 else -(-threads // 32)

    def _verify_body(self) -> None:
        body = self.body
        check(
            (body is not None) == (self.kind.data == FOLD),
            f"expected a body with '{FOLD}' and no other reduction, got '{self.kind.data}'",
        )
        if body is None:
            return
        element = combined_type(element_of(self.source.type))
        types, end = [arg.type for arg in body.block.args], body.block.last_op
        check(types == [element] * 2, f"expected a body with two arguments of {element}")
        check(
            isinstance(end, YieldOp) and end.value.type == element,
            f"expected the body to end with cute.yield of {element}",
        )

    def verify_(self) -> None:
        _verify_word("a reduction", self.kind.data, (*REDUCTIONS, FOLD))
        self._verify_body()
        shape = shape_of(self.source.type)
        mode = self.mode.value.data
        check(0 <= mode < len(shape), f"expected a mode in 0..{len(shape) - 1}, got {mode}")
        check(
            self.extent is None or (self.body is not None and 0 < self.folded <= self.length),
            f"expected an extent in 1..{self.length} with '{FOLD}', got {self.folded}",
        )
        result = shape_of(self.result.type)
        parts = 1
        if self.local is not None and len(result) == len(shape):
            parts = result[mode]
        expected = tuple(parts if d == mode else extent for d, extent in enumerate(shape))
        leaves_out = mode == len(shape) - 1 > 0 and result == shape[:mode]
        check(
            result == expected or leaves_out,
            f"expected a result of shape {expected}, got {result}",
        )
        element = element_of(self.source.type)
        if self.packed is not None:
            most = self.packed.value.data
            check(
                isinstance(element, Float16Type | BFloat16Type) and self.kind.data == "add",
                f"expected packed with sums of f16 or bf16, got {self.kind.data} of {element}",
            )
            check(most >= 1, f"expected packed to be 1 or more, got {most}")
        if not self.is_wide:
            same_element(self.source.type, self.result.type)

    @property
    def is_wide(self) -> bool:
        """Whether the result is a sum of 16-bit floats in f32."""
        of_halves = isinstance(element_of(self.source.type), Float16Type | BFloat16Type)
        is_f32 = isinstance(element_of(self.result.type), Float32Type)
        return self.kind.data == "add" and of_halves and is_f32


def combined_type(element: Attribute) -> Attribute:
    """The type in which elements are combined: f32 for 16-bit floats."""
    return f32 if isinstance(element, Float16Type | BFloat16Type) else element


def _verify_word(what: str, got: str, known: Sequence[str]) -> None:
    check(got in known, f"expected {what} ({', '.join(known)}), got '{got}'")
