"""Maps over register tiles: one unrolled region for the whole tile, whose trip handles as many
elements as the most densely packed operand has in one register. Also register-only conversions
between thread-value layouts.

Where the target adds and multiplies two f32 at once (`fma.rn.f32x2`; PTX ISA 9.7.3), a trip handles
neighbors in pairs: each half is rounded as the instruction on one number rounds it, so that a map
has the same results.

    %c = math.fma %a, %b, %k : f32     of elements e and e + 1
    =>
    fma.rn.f32x2 %rd2, %rd0, %rd1, %rdk

What has no such instruction is computed for either element. A pair is packed and taken apart where
something asks for it: registers side by side are one, which `ptxas` sees to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from operator import add

from xdsl.dialects import arith
from xdsl.dialects import math as mathd
from xdsl.dialects.builtin import Float32Type, IntegerType, f32, i32
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import CoordOp, FragmentType, MapOp, YieldOp
from cutedialect.layout import Layout, product
from cutedialect.passes.analysis.coordinates import ThreadValue, thread_value
from cutedialect.passes.bind.exponential_shares import (
    POLYNOMIALS,
    is_polynomial,
    period,
    polynomials_of,
)

from .addresses import thread_coord
from .context import (
    Context,
    array_class,
    fail,
    pack_factor,
    register_class,
    register_count,
)
from .packed_bytes import ELEMENTS, Nibbles, PackedBytes, left_of
from .polynomials import polynomial, polynomial_of_pair
from .scalar_builder import Scalar, ScalarBuilder
from .scalars import Values, does_not_wrap, lower_scalar

Places = tuple[tuple[int, int], ...]
# Values of a trip that computes on registers of bytes, four of them.
_MOST_OF_TRIP = 16
_TO_FLOAT = {arith.SIToFPOp, arith.UIToFPOp}
# Signed comparisons, with their sides exchanged.
_MIRRORED = {"slt": "gt", "sle": "ge", "sgt": "lt", "sge": "le", "eq": "eq", "ne": "ne"}
_OF_PAIRS = {
    arith.AddfOp: "add.rn.f32x2",
    arith.SubfOp: "sub.rn.f32x2",
    arith.MulfOp: "mul.rn.f32x2",
    mathd.FmaOp: "fma.rn.f32x2",
}


@dataclass(frozen=True)
class Held:
    """Where elements of 4 bits lie that a tile has as bytes: an array of integers, and for each
    register of the tile one of these, and whether its bytes are the upper ones there.
    """

    array: SSAValue
    registers: tuple[tuple[int, bool], ...]


@dataclass(frozen=True)
class Fragment:
    """A register tile and the array that holds this thread's part of it; `held` if bytes of it are
    elements of 4 bits, each register in one of integers.
    """

    type: FragmentType
    array: SSAValue
    held: Held | None = None

    @property
    def layout(self) -> ThreadValue:
        return thread_value(self.tv, self.type.shape)

    @property
    def tv(self) -> Layout:
        return self.type.bound

    @property
    def pack(self) -> int:
        return pack_factor(self.type.element)

    @property
    def values(self) -> int:
        return self.type.values

    def repetitions(self, values: int) -> tuple[int, int]:
        """How often an atom of so many values repeats for a thread along the modes of the tile."""
        modes = self.tv.shape[1]  # type: ignore[index]
        if not isinstance(modes, tuple) or len(modes) != 3 or product(modes[0]) != values:
            raise ValueError(
                f"expected values (atom, rest, rest) with {values} in the atom, got {modes} of "
                f"{self.type}"
            )
        return product(modes[1]), product(modes[2])  # type: ignore[return-value]


def lower_map(
    context: Context,
    op: MapOp,
    inputs: Sequence[Fragment],
    outer: Values,
    target: Fragment | None = None,
) -> Fragment:
    """Compute a map into a new array, or into `target` (whose layout is the result's)."""
    return _Map(context, op, inputs, outer, target).run()


class _Map:
    """A map on its way: where its operands have each value of the result, and the trips of its
    code, each of which computes a group of values.
    """

    def __init__(
        self,
        context: Context,
        op: MapOp,
        inputs: Sequence[Fragment],
        outer: Values,
        target: Fragment | None,
    ) -> None:
        type_ = op.result.type
        assert isinstance(type_, FragmentType)
        self.context, self.op, self.inputs, self.outer = context, op, inputs, outer
        self.layout = thread_value(type_.bound, type_.shape)
        self.coords = self.layout.value_coords()
        self.tables = [_places(each.type, type_) for each in inputs]
        self.count = register_count(type_)
        self.result = Fragment(type_, self._array(type_, target))
        self.in_pairs = _gains_in_pairs(context, op)
        self.group, in_fours, self.fours = _in_fours(op, inputs, self.tables, self._group())
        self.packed = PackedBytes(op, in_fours, _are_apart(self.fours)) if in_fours else None
        firsts = range(0, self.result.values, self.group)
        values = self._values()
        self.trips = [[values(first + e) for e in range(self.group)] for first in firsts]

    def _array(self, type_: FragmentType, target: Fragment | None) -> SSAValue:
        """The registers of the result: those of the target, unless the map reads other values of
        them behind those that it has written.
        """
        if target is None or any(
            each.array is target.array and table != tuple(range(len(table)))
            for each, table in zip(self.inputs, self.tables, strict=True)
        ):
            return self.context.registers(register_class(type_.element), self.count)
        return target.array

    def _group(self) -> int:
        """Values of a trip: those of a register of any operand, and of a period of what differs."""
        # Which exponentials are polynomials is one of the things that differ within a group.
        body = self.op.body.block.ops
        shares = [polynomials_of(each)[0] for each in body if POLYNOMIALS in each.attributes]
        periods = [period(each) for each in shares] + [2] * self.in_pairs
        return max([each.pack for each in (*self.inputs, self.result)] + periods)

    def _values(self) -> Callable[[int], int]:
        """The value for a place: behind the end, those of the last register again, which is then
        written twice.
        """
        pack, last_register, last = self.result.pack, self.count - 1, self.result.values - 1

        def value(place: int) -> int:
            register, part = divmod(place, pack)
            return min(min(register, last_register) * pack + part, last)

        return value

    def run(self) -> Fragment:
        """Compute all trips."""
        at = [[self.coords[v] for v in trip] for trip in self.trips]
        for known, chosen in _known_comparisons(self.context, self.op, self.layout, at):
            _Trips(self, chosen, known).run()
        return self.result


class _Trips:
    """Some trips of a map, in which comparisons of coordinates have a `known` result: the registers
    that they read, one of each source, and the numbers that differ between them.
    """

    def __init__(self, map_: _Map, chosen: Sequence[int], known: Mapping[Operation, bool]) -> None:
        self.map, self.chosen, self.known = map_, chosen, known
        self.sources: dict[tuple[SSAValue, tuple[int, ...]], int] = {}
        self.constants: dict[tuple[int, ...], int] = {}
        trips, group = [map_.trips[i] for i in chosen], range(map_.group)
        self.reads = [
            [self._read(each, [table[trip[e]] for trip in trips]) for e in group]
            for each, table in zip(map_.inputs, map_.tables, strict=True)
        ]
        body = map_.op.body.block.ops
        self.modes = [each.mode.value.data for each in body if isinstance(each, CoordOp)]
        self.places = {
            (mode, e): self._constant(tuple([map_.coords[trip[e]][mode] for trip in trips]))
            for mode in self.modes
            for e in group
        }
        self.nibbles = self._nibbles(trips)

    def _nibbles(
        self, trips: Sequence[Sequence[int]]
    ) -> list[tuple[int, int | tuple[int], int | tuple[int]]]:
        """For each register of bytes of the group, where the map computes with the only ones as
        they lie in integers: a source, and the constants for a mask and a factor.
        """
        map_ = self.map
        asked = map_.packed.nibbles if map_.packed is not None else None
        held = map_.inputs[0].held if len(map_.inputs) == 1 else None
        if asked is None or held is None:
            return []
        found: list[tuple[int, int | tuple[int], int | tuple[int]]] = []
        for word in range(map_.group // ELEMENTS):
            e = map_.fours.index((word, 0))
            at = [held.registers[map_.tables[0][trip[e]] // ELEMENTS] for trip in trips]
            registers = held.array, tuple([register for register, _ in at])
            source = self.sources.setdefault(registers, len(self.sources))
            mask, factor = (tuple([asked[upper][i] for _, upper in at]) for i in (0, 1))
            found.append((source, self._constant(mask), self._constant(factor)))
        return found

    def _constant(self, values: tuple[int, ...]) -> int | tuple[int]:
        """Index of a table, or a single number in a tuple."""
        if len(set(values)) == 1:
            return (values[0],)
        return self.constants.setdefault(values, len(self.constants))

    def _read(self, each: Fragment, at: list[int]) -> tuple[int, int | tuple[int] | None]:
        """How an operand is read: source, and the constant that says which part of it."""
        pack = each.pack
        registers = each.array, tuple([v // pack for v in at])
        source = self.sources.setdefault(registers, len(self.sources))
        part = self._constant(tuple([v % pack for v in at])) if pack > 1 else None
        return source, part

    def run(self) -> None:
        """Compute them."""
        map_, count = self.map, self.map.count
        per_trip = max(1, map_.group // map_.result.pack)
        targets = [
            (map_.result.array, [min(i * per_trip + r, count - 1) for i in self.chosen])
            for r in range(per_trip)
        ]
        map_.context.foreach(
            len(self.chosen), [*self.sources], targets, self._body, [*self.constants]
        )

    def _body(self, args: list[SSAValue]) -> list[Scalar]:
        """The registers that a trip writes."""
        map_ = self.map
        fours = self._fours(args)
        body = map_.op.body.block
        ops, wanted = [*body.ops], set[SSAValue](body.args)
        if fours:
            ops, wanted = left_of(map_.op, fours[0])

        def element(e: int) -> _Element:
            values = dict(map_.outer)
            if fours:
                word, byte = map_.fours[e]
                values.update({value: parts[byte] for value, parts in fours[word].items()})
            values.update(self._operands(args, e, wanted))
            at = {mode: self._number(args, self.places[mode, e]) for mode in self.modes}
            return _Element(map_.context, map_.op, map_.layout, values, e, at, self.known, ops)

        if map_.in_pairs:
            starts = range(0, map_.group, 2)
            pairs = [_results_of_pair(element(e), element(e + 1)) for e in starts]
            return _registers(map_.context, map_.result, [each for pair in pairs for each in pair])
        results = [element(e).result() for e in range(map_.group)]
        return _registers(map_.context, map_.result, results)

    def _fours(self, args: Sequence[SSAValue]) -> list[dict[SSAValue, list[Scalar]]]:
        """What is computed of four bytes at once, for each register of bytes of the group."""
        map_ = self.map
        if map_.packed is None:
            return []
        nibbles = [
            Nibbles(args[source], self._number(args, mask), self._number(args, factor))
            for source, mask, factor in self.nibbles
        ]
        return [
            map_.packed.elements(
                map_.context.builder,
                [args[mine[map_.fours.index((word, 0))][0]] for mine in self.reads],
                nibbles[word] if nibbles else None,
            )
            for word in range(map_.group // ELEMENTS)
        ]

    def _operands(
        self, args: Sequence[SSAValue], e: int, wanted: set[SSAValue]
    ) -> Iterator[tuple[SSAValue, Scalar]]:
        """The inputs of an element that are `wanted`."""
        map_ = self.map
        for arg, each, mine in zip(map_.op.body.block.args, map_.inputs, self.reads, strict=True):
            if arg in wanted:
                place, part = mine[e]
                number = None if part is None else self._number(args, part)
                yield arg, _element(map_.context, each, args[place], number)

    def _number(self, args: Sequence[SSAValue], place: int | tuple[int]) -> Scalar:
        return place[0] if isinstance(place, tuple) else args[len(self.sources) + place]


def _gains_in_pairs(context: Context, op: MapOp) -> bool:
    """Whether the target has fewer instructions for two elements of a map than for one and one."""
    return context.builder.pairs_f32 and any(
        _has_pairs(each) or POLYNOMIALS in each.attributes for each in op.body.block.ops
    )


def _has_pairs(op: Operation) -> bool:
    return type(op) in _OF_PAIRS and op.results[0].type == f32


class _Element:
    """One element of a map, whose coordinates are given but for the part of the thread; of some
    comparisons the result is known, and `ops` of the body are not computed yet.
    """

    def __init__(
        self,
        context: Context,
        op: MapOp,
        layout: ThreadValue,
        values: Values,
        number: int,
        coords: Mapping[int, Scalar],
        known: Mapping[Operation, bool],
        ops: Sequence[Operation],
    ) -> None:
        self.context, self.op, self.layout, self.ops = context, op, layout, ops
        self.values, self.number, self.coords, self.known = values, number, coords, known
        # Coordinates by the part that depends on the thread and that of the element, a constant.
        self.parts: dict[SSAValue, tuple[Scalar, Scalar]] = {}

    def result(self) -> Scalar:
        """What the body gives."""
        builder = self.context.builder
        for inner in self.ops:
            if type(inner) is YieldOp:
                return self.values[inner.operands[0]]
            builder.at(inner)
            self.lower(inner)
        raise fail(self.op, "expected the body to end with cute.yield")

    def lower(self, inner: Operation) -> None:
        """Compute one op of the body."""
        builder, values, parts = self.context.builder, self.values, self.parts
        kind = type(inner)  # `isinstance` is slow of xDSL's abstract classes
        if isinstance(inner, CoordOp):
            mode = inner.mode.value.data
            thread = thread_coord(builder, self.layout.threads, mode, self.context.threads)
            at = builder.add(thread, self.coords[mode])
            values[inner.results[0]] = builder.assume_nonnegative(at)
            parts[inner.results[0]] = thread, self.coords[mode]
        elif inner in self.known:
            values[inner.results[0]] = self.known[inner]
        elif kind is arith.CmpiOp and (sides := _constant_side(inner, parts)):  # pyright: ignore[reportArgumentType]
            name, at, limit, subtracted = sides
            rest = values[limit]
            for each in subtracted:
                if isinstance(each, SSAValue):
                    each = values.get(each, each)
                rest = rest if each == 0 else builder.pure("sub.sat.s32", rest, each)
            values[inner.results[0]] = builder.pure(f"setp.{name}.s32", rest, at)
        elif kind in _TO_FLOAT and inner.input in parts and inner.result.type == f32:
            values[inner.result] = _sum_of_floats(builder, *parts[inner.input])
        elif (degree := self.degree(inner)) is not None:
            x = values[inner.operands[0]]
            values[inner.results[0]] = polynomial(builder, inner, x, degree)
        elif not lower_scalar(self.context, inner, values):
            raise fail(inner, "expected arith and math ops in the body of cute.map")

    def degree(self, op: Operation) -> int | None:
        """The degree of the polynomial that an exponential of this element is, if it is one."""
        if POLYNOMIALS not in op.attributes:
            return None
        share, degree = polynomials_of(op)
        return degree if is_polynomial(share, self.number) else None


def _results_of_pair(low: _Element, high: _Element) -> tuple[Scalar, Scalar]:
    """What the body gives for two neighbors."""
    builder, op = low.context.builder, low.op
    # Pairs that are in one register; those that something has asked for one by one are values too.
    wholes: dict[SSAValue, SSAValue] = {}

    def take_apart(value: SSAValue) -> None:
        if value in wholes and value not in low.values:
            low.values[value], high.values[value] = builder.halves(wholes[value])

    def whole(value: SSAValue) -> SSAValue:
        if value not in wholes:
            wholes[value] = builder.paired(low.values[value], high.values[value])
        return wholes[value]

    def differs(value: SSAValue) -> bool:
        return value not in low.values or not _is_same(low.values[value], high.values[value])

    for inner in low.ops:
        if type(inner) is YieldOp:
            take_apart(inner.operands[0])
            return low.values[inner.operands[0]], high.values[inner.operands[0]]
        builder.at(inner)
        degree = low.degree(inner)
        if _has_pairs(inner) and any(map(differs, inner.operands)):
            operands = [whole(each) for each in inner.operands]
            wholes[inner.results[0]] = builder.register(_OF_PAIRS[type(inner)], *operands)  # pyright: ignore[reportArgumentType]
            continue
        for each in inner.operands:
            take_apart(each)
        if degree is not None and degree == high.degree(inner):
            x = inner.operands[0]
            found = polynomial_of_pair(builder, inner, (low.values[x], high.values[x]), degree)
            low.values[inner.results[0]], high.values[inner.results[0]] = found
            continue
        for element in (low, high):
            element.lower(inner)
    raise fail(op, "expected the body to end with cute.yield")


def _is_same(low: Scalar, high: Scalar) -> bool:
    """Whether two scalars are one value: 0 and -0 are not."""
    if isinstance(low, SSAValue) or isinstance(high, SSAValue):
        return low is high
    return repr(low) == repr(high)


def _constant_side(
    op: arith.CmpiOp, parts: dict[SSAValue, tuple[Scalar, Scalar]]
) -> tuple[str, Scalar, SSAValue, tuple[Scalar, ...]] | None:
    """A signed comparison of a coordinate, or of one with a number added that does not wrap, with
    something else, as one of what is left of that with a constant: the predicate, the constant, the
    other side, and what is to be subtracted from it.

    What is left is the same for all elements of a row or column. A difference out of range compares
    with a coordinate as the nearest number in range does.
    """
    name = arith.CMPI_COMPARISON_OPERATIONS[op.predicate.value.data]
    if name not in _MIRRORED or op.lhs.type != i32:
        return None
    for one, other, mirrored in ((op.lhs, op.rhs, True), (op.rhs, op.lhs, False)):
        added: tuple[Scalar, ...] = ()
        total = one.owner
        if isinstance(total, arith.AddiOp) and does_not_wrap(total):
            one, *more = total.operands if total.lhs in parts else reversed(total.operands)
            added = tuple(more)
        if one in parts and other not in parts:
            thread, at = parts[one]
            return _MIRRORED[name] if mirrored else name.lstrip("s"), at, other, (*added, thread)
    return None


def _sum_of_floats(builder: ScalarBuilder, thread: Scalar, element: Scalar) -> Scalar:
    """A coordinate as f32, whose part of the thread is converted once for all elements. Neither
    part is negative, and no tile is so large (2^24) that f32 would round one or their sum.
    """
    one, other = (
        float(each) if isinstance(each, int) else builder.pure("cvt.rn.f32.s32", each)
        for each in (thread, element)
    )
    if 0 in (one, other):
        return other if one == 0 else one
    return builder.pure("add.rn.f32", one, other)


def _in_fours(
    op: MapOp, inputs: Sequence[Fragment], tables: Sequence[Sequence[int]], group: int
) -> tuple[int, list[SSAValue], Places]:
    """The inputs of bytes of which a trip takes whole registers, of one trip with as many values as
    they ask for; and where in these each of its values lies: a register and a byte of it.
    """
    asked = group
    while group <= _MOST_OF_TRIP:
        found: dict[SSAValue, Places] = {}
        for arg, each, table in zip(op.body.block.args, inputs, tables, strict=True):
            if isinstance(each.type.element, IntegerType) and each.pack == ELEMENTS:
                found[arg] = _bytes_of(table, group)
        places = next(filter(None, found.values()), ())
        if places:
            return group, [arg for arg, mine in found.items() if mine == places], places
        group *= 2
    return asked, [], ()


def _bytes_of(table: Sequence[int], group: int) -> Places:
    """Where each of a group of values lies in the registers of bytes that all of these fill, the
    same for all groups; empty where some groups differ, or read a part of a register.
    """
    found: set[Places] = set()
    for first in range(0, len(table), group):
        at = [divmod(value, ELEMENTS) for value in table[first : first + group]]
        registers = [*dict.fromkeys(register for register, _ in at)]
        found.add(tuple([(registers.index(register), byte) for register, byte in at]))
    places = found.pop() if len(found) == 1 else ()
    words, every = group // ELEMENTS, range(ELEMENTS)
    is_whole = sorted(places) == [(word, byte) for word in range(words) for byte in every]
    return places if is_whole else ()


def _are_apart(places: Places) -> bool:
    """Whether elements beside each other are bytes of a register that are 16 bits apart."""
    pairs = zip(places[::2], places[1::2], strict=True)
    return all(one == other and high == low + 2 for (one, low), (other, high) in pairs)


def _known_comparisons(
    context: Context, op: MapOp, layout: ThreadValue, coords: Sequence[Sequence[tuple[int, ...]]]
) -> list[tuple[dict[Operation, bool], list[int]]]:
    """Trips, of which the first thread's coordinates are given, by what comparisons of coordinates
    with constants give in them, the same for all threads. Only the last vectors of a tile that was
    padded need its mask; what else a kernel does that waits for memory must not wait for
    instructions.
    """
    compared: list[tuple[Operation, bool, int, int]] = []
    for each in op.body.block.ops if context.is_streaming else ():
        if isinstance(each, arith.CmpiOp) and isinstance(each.lhs.owner, CoordOp):
            bound, mode = each.rhs.owner, each.lhs.owner.mode.value.data
            name = arith.CMPI_COMPARISON_OPERATIONS[each.predicate.value.data]
            if name in ("slt", "sge") and isinstance(bound, arith.ConstantOp):
                limit = int(bound.value.value.data)  # pyright: ignore[reportAttributeAccessIssue]
                compared.append((each, name == "slt", mode, limit))
    reach = [
        sum((digit.extent - 1) * digit.steps[mode] for digit in layout.threads)
        for mode in range(len(layout.shape))
    ]
    found: dict[tuple[tuple[Operation, bool], ...], list[int]] = {}
    for trip, places in enumerate(coords):
        known: list[tuple[Operation, bool]] = []
        for each, if_below, mode, limit in compared:
            at = [place[mode] for place in places]
            if max(at) + reach[mode] < limit:
                known.append((each, if_below))
            elif min(at) >= limit:
                known.append((each, not if_below))
        found.setdefault(tuple(known), []).append(trip)
    return [(dict(known), chosen) for known, chosen in found.items()]


def _element(
    context: Context, fragment: Fragment, register: SSAValue, part: Scalar | None
) -> Scalar:
    """One element out of a register (16-bit class for 8 and 16 bits)."""
    builder = context.builder
    if part is None:
        return register
    bits = fragment.type.bits
    if isinstance(part, int):
        low, high = builder.unpack(register)
        half = high if part * bits >= 16 else low
        return builder.pure("shr.u16", half, 8) if part * bits % 16 else half
    moved = builder.pure("shr.u32", register, builder.mul(part, bits))
    return builder.pure("cvt.u16.u32", moved)


def _registers(context: Context, result: Fragment, elements: Sequence[Scalar]) -> list[Scalar]:
    """Elements packed as the result's registers."""
    pack, joined = result.pack, context.builder.joined
    if pack == 1:
        return list(elements)
    return [joined(elements[i : i + pack], 32) for i in range(0, len(elements), pack)]


@lru_cache(maxsize=1024)
def _places(
    source: FragmentType, result: FragmentType, origin: tuple[int, ...] | None = None
) -> tuple[int, ...]:
    """For each value of a result, the value of the source that lies there, or so far behind an
    origin. Every thread must hold what it reads: the source's thread part is the result's, with
    the modes dropped along which it is broadcast.
    """
    if source.tv == result.tv and source.shape == result.shape:
        return tuple(range(source.values))
    mine, layout = (thread_value(each.bound, each.shape) for each in (source, result))
    keeps = [extent != 1 for extent in mine.shape]

    def project(coord: tuple[int, ...]) -> tuple[int, ...]:
        return tuple([at if keep else 0 for at, keep in zip(coord, keeps, strict=False)])

    if [project(each) for each in layout.thread_coords()] != mine.thread_coords():
        raise ValueError(
            f"expected each thread to hold what it reads; the threads of operand {source} "
            f"do not lie as those of the result {result}"
        )
    places: dict[tuple[int, ...], int] = {}
    for v, coord in enumerate(mine.value_coords()):
        places.setdefault(coord, v)
    start = origin or (0,) * len(keeps)
    wanted = [tuple(map(add, project(each), start)) for each in layout.value_coords()]
    missing = next((coord for coord in wanted if coord not in places), None)
    if missing is not None:
        raise ValueError(
            f"expected each thread to hold what it reads; operand {source} has no value at "
            f"{missing} relative to its thread, which the result {result} reads"
        )
    return tuple([places[coord] for coord in wanted])


def convert(
    context: Context,
    source: Fragment,
    type_: FragmentType,
    origin: tuple[int, ...] | None = None,
) -> Fragment:
    """The same tile, or its part at a static coordinate, with its registers in the order of another
    thread-value layout.
    """
    table = [*_places(source.type, type_, origin)]
    array = context.registers(array_class(source.array), register_count(type_))
    result = Fragment(type_, array)
    pack, builder = result.pack, context.builder
    if all(
        table[v] % pack == 0 and table[v : v + pack] == list(range(table[v], table[v] + pack))
        for v in range(0, len(table), pack)
    ):
        order = [table[v] // pack for v in range(0, len(table), pack)]
        context.move(source.array, order, array, range(len(order)))
        return result
    table = table + [table[-1]] * (-len(table) % pack)
    firsts = range(0, len(table), pack)
    sources = [(source.array, [table[v + e] // pack for v in firsts]) for e in range(pack)]
    # Pairs of 16 bits are picked out of two registers by one permutation of bytes.
    width = 4 // pack
    places = [(half, byte) for half in range(2) for byte in range(width)]
    picked = [
        [
            sum(
                (4 * half + table[v + e + half] % pack * width + byte) << 4 * (width * half + byte)
                for half, byte in places
            )
            for v in firsts
        ]
        for e in range(0, pack, 2)
    ]

    def body(args: list[SSAValue]) -> list[Scalar]:
        pairs = [
            builder.pure("prmt.b32", args[e], args[e + 1], args[pack + e // 2])
            for e in range(0, pack, 2)
        ]
        return pairs if pack == 2 else [builder.pure("prmt.b32", *pairs, 0x5410)]

    context.foreach(len(firsts), sources, [(array, range(len(firsts)))], body, picked)
    return result


def from_elements(context: Context, elements: SSAValue, type_: FragmentType) -> Fragment:
    """A fragment of what an array has in one register for each element (and the padding)."""
    count = register_count(type_)
    result = Fragment(type_, context.registers(register_class(type_.element), count))
    pack, every = result.pack, range(count)
    sources = [
        (elements, [min(r * pack + e, type_.values - 1) for r in every]) for e in range(pack)
    ]
    targets = [(result.array, every)]
    context.foreach(count, sources, targets, lambda args: _registers(context, result, args))
    return result


def as_bits(context: Context, source: Fragment) -> SSAValue:
    """The registers of a tile, those of f32 as plain bits."""
    if array_class(source.array) != "f32":
        return source.array
    return context.mapped(source.array, "b32", lambda x: context.builder.pure("mov.b32", x))


def as_operand(context: Context, source: Fragment) -> SSAValue:
    """The registers of an operand of a matrix multiply.

    f32 is rounded to tf32: tensor cores would cut the low 13 bits off (PTX ISA 9.7.14.5).
    """
    if not isinstance(source.type.element, Float32Type):
        return source.array
    round_ = "cvt.rna.tf32.f32"
    return context.mapped(source.array, "b32", lambda x: context.builder.pure(round_, x))
