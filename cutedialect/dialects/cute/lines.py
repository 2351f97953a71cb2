"""Ops on the lines of register tiles along one mode, whose elements see each other: scans, sorts, and
elements that numbers in another register tile name.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from math import prod

from xdsl.dialects.builtin import IntegerAttr, IntegerType, StringAttr, UnitAttr
from xdsl.dialects.builtin import i32 as i32_type
from xdsl.dialects.builtin import i64 as i64_type
from xdsl.ir import Attribute, Block, Region, SSAValue
from xdsl.irdl import (
    AttrSizedOperandSegments,
    ParsePropInAttrDict,
    operand_def,
    opt_prop_def,
    prop_def,
    region_def,
    result_def,
    traits_def,
    var_operand_def,
    var_result_def,
)
from xdsl.traits import MemoryReadEffect

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects.checks import check
from cutedialect.dialects.definition import IRDLOperation, irdl_op_definition
from cutedialect.dialects.effects import ALL, Effects

from .reductions import combined_type
from .tile_ops import YieldOp
from .types import FragmentType, element_bits, fragment_of, threads_along
from .views import element_of, shape_of

# The bits of elements that a thread exchanges with others.
_WORDS = (32, 64)
Alike = tuple[tuple[SSAValue, ...], ...]
"""Groups of the register tiles of an op that lie alike in threads."""
Settled = tuple[tuple[int, SSAValue], ...]
"""Operands by their number, and the tile as which each has to lie."""


class _WholeLinesOp(IRDLOperation):
    """Register tiles whose lines along a mode are walked whole; the results lie as the tiles do."""

    tiles = var_operand_def(FragmentType)
    mode = prop_def(IntegerAttr)
    traits = traits_def(MemoryReadEffect())

    @property
    def source(self) -> SSAValue:
        """The first of the tiles; the others lie as it does."""
        return self.tiles[0]

    @property
    def length(self) -> int:
        """How many elements a line has."""
        return fragment_of(self.source).shape[self.mode.value.data]

    def alike(self) -> Alike:
        return ((*self.tiles, *self.results),)

    def settled(self) -> Settled:
        return tuple((at, self.results[0]) for at in range(len(self.tiles)))

    def effects(self) -> Effects:
        return Effects(reads=tuple(self.tiles), team=_team(self.source, self.mode.value.data))


@irdl_op_definition
class ScanOp(_WholeLinesOp):
    """Combine each element of a line with those in front of it, along one mode of register tiles.

    Element i of the results is what the body gives for the one before and element i; with `reverse`
    lines are walked from their ends. The body takes two elements of each tile, the earlier ones
    first, and yields one of each (16-bit floats in f32); it is associative, and called in an order
    that the layout fixes. With initial values (`from`) a scan is exclusive: element i is what the
    elements in front of it give, and the first one an initial value.

    Example:

        cute.kernel @k(%x: f32, %n: i32) {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(64,32)">
          cute.fill %t, %x : !cute.fragment<f32, "(64,32)">
          %s = cute.scan %t {mode = 1 : i64} : !cute.fragment<f32, "(64,32)"> -> !cute.fragment<f32, "(64,32)"> {
          ^bb0(%a: f32, %b: f32):
            %c = arith.addf %a, %b : f32
            cute.yield %c : f32
          }
          %f = cute.alloc_fragment : !cute.fragment<i32, "(64,32)">
          cute.fill %f, %n : !cute.fragment<i32, "(64,32)">
          %p, %q = cute.scan %t, %f from %x, %n : f32, i32 {mode = 0 : i64, reverse} : !cute.fragment<f32, "(64,32)">, !cute.fragment<i32, "(64,32)"> -> !cute.fragment<f32, "(64,32)">, !cute.fragment<i32, "(64,32)"> {
          ^bb0(%a: f32, %i: i32, %b: f32, %j: i32):
            %c = arith.addf %a, %b : f32
            %k = arith.addi %i, %j : i32
            cute.yield %c, %k : f32, i32
          }
        }
    """

    name = "cute.scan"
    # Said again: what a class adds has its place in front of what it inherits.
    tiles = var_operand_def(FragmentType)
    initial = var_operand_def()
    reverse = opt_prop_def(UnitAttr)
    scanned = var_result_def(FragmentType)
    body = region_def("single_block")
    irdl_options = (AttrSizedOperandSegments(as_property=True), ParsePropInAttrDict())
    assembly_format = (
        "$tiles (`from` $initial^ `:` type($initial))? attr-dict `:` type($tiles) `->` "
        "type($scanned) $body"
    )

    def __init__(
        self,
        tiles: Sequence[SSAValue],
        mode: int,
        body: Block,
        initial: Sequence[SSAValue] = (),
        reverse: bool = False,
    ) -> None:
        super().__init__(
            operands=[list(tiles), list(initial)],
            properties={
                "mode": IntegerAttr(mode, i64_type),
                "reverse": UnitAttr() if reverse else None,
            },
            regions=[Region(body)],
            result_types=[[_fresh(tile) for tile in tiles]],
        )

    def takes_padding(self, extents: Container[int]) -> bool:
        """Whether modes of some extents may get longer: all, where what comes behind a line is hidden
        from a scan in reverse.
        """
        return True

    def verify_(self) -> None:
        check(len(self.tiles) > 0, "expected a register tile to scan, got none")
        _check_alike(self.tiles, self.scanned)
        _check_mode(self.mode, self.source)
        elements = [combined_type(element_of(tile.type)) for tile in self.tiles]
        for element in elements:
            check(
                element_bits(element) in _WORDS,
                f"expected elements of 32 or 64 bits, f16 or bf16 to scan, got {element}",
            )
        types, end = [arg.type for arg in self.body.block.args], self.body.block.last_op
        check(
            types == elements * 2,
            f"expected a body with arguments of {_listed(elements * 2)}, got {_listed(types)}",
        )
        given = [value.type for value in end.operands] if isinstance(end, YieldOp) else []
        check(
            given == elements,
            f"expected the body to end with cute.yield of {_listed(elements)}, got {_listed(given)}",
        )
        initial = [value.type for value in self.initial]
        check(
            initial in ([], elements),
            f"expected initial values of {_listed(elements)}, or none, got {_listed(initial)}",
        )


@irdl_op_definition
class SortOp(_WholeLinesOp):
    """Sort the lines of register tiles of integers along one mode, the least first.

    Of several tiles elements at one place move together: the first that differ decide. The mode's
    extent is a power of two, since each pair that is compared differs in one digit of its places.
    With `leading` the first so many elements of a line are those of the line in order; behind them
    stand any of its elements.

    Example:

        cute.kernel @k(%n: i32) {
          %t = cute.alloc_fragment : !cute.fragment<i32, "(4,64)">
          cute.fill %t, %n : !cute.fragment<i32, "(4,64)">
          %s = cute.sort %t {mode = 1 : i64} : !cute.fragment<i32, "(4,64)"> -> !cute.fragment<i32, "(4,64)">
          %p, %q = cute.sort %s, %t {mode = 0 : i64} : !cute.fragment<i32, "(4,64)">, !cute.fragment<i32, "(4,64)"> -> !cute.fragment<i32, "(4,64)">, !cute.fragment<i32, "(4,64)">
          %l = cute.sort %t {mode = 1 : i64, leading = 8 : i64} : !cute.fragment<i32, "(4,64)"> -> !cute.fragment<i32, "(4,64)">
        }
    """

    name = "cute.sort"
    leading = opt_prop_def(IntegerAttr)
    ordered = var_result_def(FragmentType)
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = "$tiles attr-dict `:` type($tiles) `->` type($ordered)"

    def __init__(self, tiles: Sequence[SSAValue], mode: int, leading: int | None = None) -> None:
        super().__init__(
            operands=[list(tiles)],
            properties={
                "mode": IntegerAttr(mode, i64_type),
                "leading": None if leading is None else IntegerAttr(leading, i64_type),
            },
            result_types=[[_fresh(tile) for tile in tiles]],
        )

    @property
    def leading_count(self) -> int | None:
        """How many elements of a line are asked for; None for all."""
        return None if self.leading is None else self.leading.value.data

    def takes_padding(self, extents: Container[int]) -> bool:
        """Whether modes of some extents may get longer: all others than that of the lines."""
        return self.length not in extents

    def verify_(self) -> None:
        check(len(self.tiles) > 0, "expected a register tile to sort, got none")
        _check_alike(self.tiles, self.ordered)
        _check_mode(self.mode, self.source)
        for tile in self.tiles:
            element = element_of(tile.type)
            check(
                isinstance(element, IntegerType) and element.width.data in _WORDS,
                f"expected integers of 32 or 64 bits to sort, got {element}",
            )
        check(
            self.length & (self.length - 1) == 0,
            f"expected a power of two of elements to sort, got {self.length}; take "
            f"{1 << self.length.bit_length()}, the last of which come behind all others",
        )
        count = self.leading_count
        check(
            count is None or 0 < count <= self.length,
            f"expected 1..{self.length} leading elements of a line, got {count}",
        )


@irdl_op_definition
class TakeOp(IRDLOperation):
    """Elements of a register tile at the places that numbers say, in the shape of these.

    Along a mode the numbers count along lines: element (i,j) of the result is element
    (i, `indices[i,j]`) of the tile along mode 1, whose other extents are those of the numbers.
    Without a mode they count all elements, row by row. Where a number is none of a place, the
    element is 0; of a padded tile those from `extent` on are none.

    Example:

        cute.kernel @k(%x: f32, %n: i32) {
          %t = cute.alloc_fragment : !cute.fragment<f32, "(4,64)">
          cute.fill %t, %x : !cute.fragment<f32, "(4,64)">
          %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
          cute.fill %i, %n : !cute.fragment<i32, "(4,8)">
          %r = cute.take %t, %i {mode = 1 : i64} : !cute.fragment<f32, "(4,64)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
          %s = cute.take %t, %i : !cute.fragment<f32, "(4,64)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<f32, "(4,8)">
        }
    """

    name = "cute.take"
    source = operand_def(FragmentType)
    indices = operand_def(FragmentType)
    mode = opt_prop_def(IntegerAttr)
    extent = opt_prop_def(IntegerAttr)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$source `,` $indices attr-dict `:` type($source) `,` type($indices) `->` type($result)"
    )

    def __init__(self, source: SSAValue, indices: SSAValue, mode: int | None = None) -> None:
        type_ = FragmentType.get(fragment_of(source).element, fragment_of(indices).shape)
        super().__init__(
            operands=[source, indices],
            properties={"mode": None if mode is None else IntegerAttr(mode, i64_type)},
            result_types=[type_],
        )

    @property
    def places(self) -> int:
        """How many places numbers may mean."""
        if self.extent is not None:
            return self.extent.value.data
        shape = fragment_of(self.source).shape
        return prod(shape) if self.mode is None else shape[self.mode.value.data]

    def alike(self) -> Alike:
        return ((self.indices, self.result),)

    def settled(self) -> Settled:
        return ((1, self.result),)

    def takes_padding(self, extents: Container[int]) -> bool:
        """Whether modes of some extents may get longer: those of lines, whose `extent` is told."""
        return self.mode is not None or not any(
            e in extents for e in fragment_of(self.source).shape
        )

    def effects(self) -> Effects:
        return Effects(reads=(self.source, self.indices), team=ALL)

    def verify_(self) -> None:
        _check_alike([self.indices], [self.result], elements=False)
        _check_numbers(self.source, self.indices, self.mode)
        check(
            self.extent is None or (self.mode is not None and self.extent.value.data > 0),
            "expected an extent of a line along a mode, or none",
        )
        check(
            self.result.type.element == fragment_of(self.source).element,  # pyright: ignore
            f"expected a result of {fragment_of(self.source).element}, got {self.result.type}",
        )


@irdl_op_definition
class PutOp(IRDLOperation):
    """A register tile with other elements at the places that numbers say, as `cute.take` counts them.

    What a number puts at no place is left out. Two elements of `values` may not have one place,
    unless they are added there (`add`, of integers of 32 bits and f32), in any order.

    Example:

        cute.kernel @k(%n: i32) {
          %t = cute.alloc_fragment : !cute.fragment<i32, "(4,64)">
          cute.fill %t, %n : !cute.fragment<i32, "(4,64)">
          %i = cute.alloc_fragment : !cute.fragment<i32, "(4,8)">
          cute.fill %i, %n : !cute.fragment<i32, "(4,8)">
          %r = cute.put %t, %i, %i {mode = 1 : i64} : !cute.fragment<i32, "(4,64)">, !cute.fragment<i32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,64)">
          %h = cute.put %t, %i, %i {mode = 1 : i64, kind = "add"} : !cute.fragment<i32, "(4,64)">, !cute.fragment<i32, "(4,8)">, !cute.fragment<i32, "(4,8)"> -> !cute.fragment<i32, "(4,64)">
        }
    """

    name = "cute.put"
    source = operand_def(FragmentType)
    indices = operand_def(FragmentType)
    values = operand_def(FragmentType)
    mode = opt_prop_def(IntegerAttr)
    kind = opt_prop_def(StringAttr)
    result = result_def(FragmentType)
    traits = traits_def(MemoryReadEffect())
    irdl_options = (ParsePropInAttrDict(),)
    assembly_format = (
        "$source `,` $indices `,` $values attr-dict `:` type($source) `,` type($indices) `,` "
        "type($values) `->` type($result)"
    )

    def __init__(
        self,
        source: SSAValue,
        indices: SSAValue,
        values: SSAValue,
        mode: int | None = None,
        kind: str | None = None,
    ) -> None:
        super().__init__(
            operands=[source, indices, values],
            properties={
                "mode": None if mode is None else IntegerAttr(mode, i64_type),
                "kind": None if kind is None else StringAttr(kind),
            },
            result_types=[_fresh(source)],
        )

    def alike(self) -> Alike:
        return (self.indices, self.values), (self.source, self.result)

    def settled(self) -> Settled:
        return (1, self.values), (0, self.result)

    def takes_padding(self, extents: Container[int]) -> bool:
        """Whether modes of some extents may get longer, if numbers behind their end put nothing."""
        return self.mode is not None or not any(
            e in extents for e in fragment_of(self.source).shape
        )

    def effects(self) -> Effects:
        return Effects(reads=(self.source, self.indices, self.values), team=ALL)

    def verify_(self) -> None:
        _check_alike([self.source], [self.result])
        _check_alike([self.values], [self.indices], elements=False)
        _check_numbers(self.source, self.indices, self.mode)
        element = fragment_of(self.source).element
        check(
            fragment_of(self.values).element == element,
            f"expected values of {element}, got {self.values.type}",
        )
        if self.kind is not None:
            check(
                self.kind.data == "add" and str(element) in ("i32", "ui32", "f32"),
                f'expected no kind, or "add" of i32, ui32 or f32, got {self.kind.data} of {element}',
            )


LineOp = ScanOp | SortOp | TakeOp | PutOp
LINE_OPS = (ScanOp, SortOp, TakeOp, PutOp)
"""The ops whose elements of a line see each other."""


def _fresh(tile: SSAValue) -> FragmentType:
    """The type of a register tile as it is before it lies in threads."""
    type_ = fragment_of(tile)
    return FragmentType.get(type_.element, type_.shape)


def _team(tile: SSAValue, mode: int) -> int:
    """Whether warps hold parts of one line: all of them meet then."""
    type_ = fragment_of(tile)
    if type_.tv is None:
        return 0
    along = threads_along(type_.tv, type_.shape, mode)
    threads = max((divisor * extent for divisor, extent in along), default=1)
    return ALL if threads > WARP_SIZE else 0


def _listed(types: Sequence[Attribute]) -> str:
    return ", ".join(map(str, types)) or "none"


def _check_mode(mode: IntegerAttr, tile: SSAValue) -> None:
    rank = len(shape_of(tile.type))
    check(0 <= mode.value.data < rank, f"expected a mode in 0..{rank - 1}, got {mode.value.data}")


def _check_alike(
    tiles: Sequence[SSAValue], results: Sequence[SSAValue], elements: bool = True
) -> None:
    """Whether tiles have one shape, and results those and the types of tiles."""
    shape = fragment_of(tiles[0]).shape
    for tile in (*tiles, *results):
        found = fragment_of(tile).shape
        check(found == shape, f"expected register tiles of one shape, {shape}, got {found}")
    given, made = ([fragment_of(value).element for value in side] for side in (tiles, results))
    check(
        not elements or given == made,
        f"expected results of {_listed(given)}, got {_listed(made)}",
    )


def _check_numbers(source: SSAValue, indices: SSAValue, mode: IntegerAttr | None) -> None:
    type_, numbers = fragment_of(source), fragment_of(indices)
    check(numbers.element == i32_type, f"expected i32 numbers of places, got {numbers.element}")
    check(type_.bits in _WORDS, f"expected elements of 32 or 64 bits, got {type_.element}")
    if mode is None:
        return
    _check_mode(mode, source)
    at = mode.value.data
    rest, others = (shape[:at] + shape[at + 1 :] for shape in (type_.shape, numbers.shape))
    check(
        len(type_.shape) == len(numbers.shape) and rest == others,
        f"expected numbers as many as lines of {type_.shape} along mode {at}, got {numbers.shape}",
    )
