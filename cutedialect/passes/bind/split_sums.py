"""Sums beside a product that no multiply of the target gives: the accumulator becomes two, and the
rows of A are added up by themselves.

    fill acc, 0; gemm a, b, acc {sums}; y = extract acc[0]; s = extract acc[N]
    =>
    fill t, 0; fill u, 0; gemm a, b, t; copy u + reduce a, u; y = extract t[0]; s = extract u[0]

Tiles that are computed from the accumulator element by element become two as well. One that is used
otherwise stays, and the multiply is refused.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from xdsl.dialects import arith
from xdsl.dialects.builtin import AnyFloat, IntegerType, Signedness, f32, i32
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.dialects.cute import (
    AllocFragmentOp,
    CoordOp,
    CopyOp,
    ExtractOp,
    FillOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LoadOp,
    MapOp,
    ReduceOp,
    fragment_of,
    memref_of,
    shape_of,
)
from cutedialect.dialects.walks import ops_of, walk
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import clone_block, erase, insert_before

Halves = tuple[SSAValue, SSAValue]
_WORD_BITS = 32


@anchored(marks=("sums",))
def split_sums(kernel: KernelOp, has_atom: Callable[[GemmOp], bool]) -> None:
    """Take accumulators of multiplies with `sums` apart where one of these has no atom for it."""
    gemms = [op for op in ops_of(kernel, GemmOp) if op.sums is not None]
    for accumulator in dict.fromkeys(op.acc for op in gemms if not has_atom(op)):
        split = _Split(accumulator)
        if split.finds_all():
            split.run(kernel)


class _Split:
    """An accumulator and what is computed from it element by element, which become two each."""

    def __init__(self, accumulator: SSAValue) -> None:
        self.shape = shape_of(accumulator.type)
        self.values = [accumulator]
        self.ops: set[Operation] = set()
        self.halves: dict[SSAValue, Halves] = {}
        self.columns = 0

    def finds_all(self) -> bool:
        """Whether every op that makes or uses one of the tiles is one that can be taken apart."""
        for value in self.values:  # It grows while it is read.
            made = value.owner
            if not isinstance(made, AllocFragmentOp | MapOp):
                return False
            users = [use.operation for use in value.uses]
            if not all(map(self._takes, (made, *users))):
                return False
        return self.columns > 0

    def _takes(self, op: Operation) -> bool:
        """Whether an op can be taken apart; the tiles that go with it are looked at, too."""
        self.ops.add(op)
        match op:
            case AllocFragmentOp() | FillOp():
                return True
            case GemmOp():
                self.columns = self.shape[1] - op.columns_of_sums
                return op.sums is not None and op.acc in self.values and op.keeps is None
            case ExtractOp():
                return True
            case CopyOp():
                return self._goes_with(op.source, op.destination)
            case MapOp():
                if any(isinstance(inner, CoordOp) for inner in walk(op.body)):
                    return False
                along = [value for value in op.inputs if self._is_wide(value)]
                return self._goes_with(op.result, *along)
            case _:
                return False

    def _is_wide(self, value: SSAValue) -> bool:
        """Whether a tile has columns of its own, rather than one for all."""
        shape = shape_of(value.type)
        return len(shape) > 1 and shape[1] != 1

    def _goes_with(self, *values: SSAValue) -> bool:
        """Look at tiles, if they are register tiles of the accumulator's shape."""
        alike = all(
            isinstance(value.type, FragmentType) and shape_of(value.type) == self.shape
            for value in values
        )
        self.values += [value for value in values if alike and value not in self.values]
        return alike

    def run(self, kernel: KernelOp) -> None:
        """Take all of them apart, in the order of the program."""
        ops = [op for op in walk(kernel.body) if op in self.ops]
        if not all(self._is_in_one(op) for op in ops if isinstance(op, ExtractOp)):
            return
        for op in ops:
            self._apart(op)
        erase(*reversed(ops))

    def _is_in_one(self, op: ExtractOp) -> bool:
        """Whether columns are all of the product, or all of the sums."""
        first = op.origin.get_values()[1]
        return first >= self.columns or first + shape_of(op.result.type)[1] <= self.columns

    def _types(self, value: SSAValue) -> tuple[FragmentType, FragmentType]:
        element, rows = fragment_of(value).element, self.shape[0]
        product = FragmentType.get(element, (rows, self.columns))
        return product, FragmentType.get(element, (rows, self.shape[1] - self.columns))

    def _apart(self, op: Operation) -> None:
        """Put what takes the place of an op in front of it."""
        match op:
            case AllocFragmentOp():
                made = [AllocFragmentOp(type_) for type_ in self._types(op.result)]
                insert_before(op, *made)
                self._name(op.result, [each.result for each in made])
            case FillOp():
                insert_before(op, *(FillOp(half, op.value) for half in self.halves[op.fragment]))
            case CopyOp():
                pairs = zip(self.halves[op.source], self.halves[op.destination], strict=True)
                insert_before(op, *(CopyOp(source, to) for source, to in pairs))
            case MapOp():
                made = [
                    MapOp(
                        [self.halves.get(value, (value, value))[half] for value in op.inputs],
                        type_,
                        clone_block(op.body.block, {}),
                    )
                    for half, type_ in enumerate(self._types(op.result))
                ]
                insert_before(op, *made)
                self._name(op.result, [each.result for each in made])
            case ExtractOp():
                row, first = op.origin.get_values()
                half = int(first >= self.columns)
                origin = row, first - half * self.columns
                part = ExtractOp(self.halves[op.source][half], origin, fragment_of(op.result))
                insert_before(op, part)
                op.result.replace_all_uses_with(part.result)
            case GemmOp():
                self._multiply(op)
            case _:
                raise AssertionError(op)

    def _name(self, value: SSAValue, made: Sequence[SSAValue]) -> None:
        product, sums = self.halves[value] = made[0], made[1]
        product.name_hint = sums.name_hint = value.name_hint

    def _multiply(self, op: GemmOp) -> None:
        """The product, and the rows of A added up."""
        product, sums = self.halves[op.acc]
        signs = None if op.negate is None else op.negate.data
        held = op.a
        if not isinstance(held.type, FragmentType):
            source = memref_of(held)
            load = LoadOp(held, FragmentType.get(source.element, shape_of(source)))
            insert_before(op, load)
            held = load.result
        insert_before(op, GemmOp(op.a, op.b, product, op.atom, signs))
        wide = _widened(op, held)
        row = ReduceOp("add", wide, 1)
        insert_before(op, row)
        total = _converted(op, row.result, fragment_of(sums).element)
        is_float = isinstance(fragment_of(sums).element, AnyFloat)
        add = arith.AddfOp if is_float else arith.AddiOp
        added = MapOp.of(add, [sums, total], fragment_of(sums))
        insert_before(op, added, CopyOp(added.result, sums))


def _widened(place: Operation, tile: SSAValue) -> SSAValue:
    """A tile in a type of 32 bits, in which its rows are added up."""
    type_ = fragment_of(tile)
    if type_.bits >= _WORD_BITS:
        return tile
    if isinstance(type_.element, IntegerType):
        is_unsigned = type_.element.signedness.data is Signedness.UNSIGNED
        cast = arith.ExtUIOp if is_unsigned else arith.ExtSIOp
        to = FragmentType.get(i32, type_.shape)
        made = MapOp.of(lambda each: cast(each, i32), [tile], to)
    else:
        to = FragmentType.get(f32, type_.shape)
        made = MapOp.of(lambda each: arith.ExtFOp(each, f32), [tile], to)
    insert_before(place, made)
    return made.result


def _converted(place: Operation, tile: SSAValue, element: Attribute) -> SSAValue:
    """Sums of 32 bits in the type of an accumulator."""
    type_ = fragment_of(tile)
    if type_.element == element:
        return tile
    result = FragmentType.get(element, type_.shape)
    made = MapOp.of(lambda each: arith.TruncFOp(each, element), [tile], result)
    insert_before(place, made)
    return made.result
