"""Scans along one mode of register tiles. The digits of a place in a line, from the fastest on, are
scanned one after the other: a thread's own values in order, lanes by shuffles, warps through shared
memory. Each gives the totals that the next one scans; then what stands in front of each total comes
back down the digits.

An element that has nothing in front of it takes part as it is: the body has no neutral element. For
values that is known, for threads it depends on their number.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

from xdsl.ir import Operation, SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects import cute, ptx
from cutedialect.passes.analysis.coordinates import Digit
from cutedialect.passes.analysis.lines import Level, bytes_of, levels_along, others_of

from .addresses import Address, digit_value, memory_op, weighted_sum
from .context import Context, array_class, number_name
from .elementwise import Fragment, from_elements
from .lanes import from_lane, lane_index, shifted
from .lowering import Handler, KernelLowering
from .narrow_floats import from_f32
from .reductions import called, widened
from .scalar_builder import Scalar

Presence = Scalar | None
"""Whether there is something in front: None nowhere, True everywhere, else in some threads."""
Combine = Callable[..., list[Scalar]]
# Values of a thread, and warps, from which on lanes share the work on what warps have: each value
# takes two shuffles then, instead of as many combinations as there are warps.
_SHARED_VALUES = _SHARED_WARPS = 8


@dataclass(frozen=True)
class _Part:
    """Elements of all tiles: for each of the values that they stand for its register, and whether
    it is there.
    """

    arrays: list[SSAValue]
    registers: dict[int, int]
    presence: dict[int, Presence]


@dataclass(frozen=True)
class _Scanned:
    """What a level of digits made: the values of each line that it goes along, in order, and what
    they give with those in front of them; of threads, whether they have a neighbor in front, and
    what that has.
    """

    groups: dict[int, list[int]]
    sums: _Part
    has_before: Scalar = True
    before: list[SSAValue] | None = None


@dataclass(frozen=True)
class _Shared:
    """Where warps leave what they have, [tile][value][warp][others]: for each tile the address that
    a thread counts from, its offset, and the bytes of an element; the offset of all, and how many
    others lie side by side.
    """

    firsts: Sequence[Scalar]
    starts: Sequence[int]
    sizes: Sequence[int]
    root: int
    alike: int


def lower_scan(
    context: Context, op: cute.ScanOp, tiles: Sequence[Fragment], outer: dict[SSAValue, Scalar]
) -> list[Fragment]:
    """Scan along `op.mode`; 16-bit floats are combined in f32 and rounded once."""
    arrays = []
    for tile in tiles:
        name = number_name(tile.type.element)
        half = name in ("f16", "bf16")
        arrays.append(widened(context, tile.array, name) if half else tile.array)
    scan = _Scan(context, op, tiles[0], called(context, op, op.body.block, outer))
    values = {v: v for v in range(tiles[0].values)}
    initial = [outer[value] for value in op.initial]
    made = scan.run(_Part(arrays, values, dict.fromkeys(values, True)), initial)
    results: list[Fragment] = []
    for tile, array in zip(tiles, made, strict=True):
        name = number_name(tile.type.element)
        if name in ("f16", "bf16"):
            narrow = context.mapped(
                array, "b16", lambda x, name=name: from_f32(context.builder, x, name)
            )
            results.append(from_elements(context, narrow, tile.type))
        else:
            results.append(Fragment(tile.type, array))
    return results


class _Scan:
    """One scan of one kernel."""

    def __init__(self, context: Context, op: cute.ScanOp, tile: Fragment, combine: Combine) -> None:
        self.context, self.combine = context, combine
        self.layout, self.mode = tile.layout, op.mode.value.data
        self.reverse = op.reverse is not None
        self.levels = levels_along(self.layout, self.mode)

    def run(self, part: _Part, initial: Sequence[Scalar]) -> list[SSAValue]:
        """The scanned elements, one register for each value of a thread."""
        done: list[_Scanned] = []
        for at, level in enumerate(self.levels):
            is_last = at == len(self.levels) - 1
            if not level.of_threads:
                scanned, part = self._values(part, level.digit)
            elif level.of_warps:
                scanned, part = self._warps(part, level, self.levels[: at + 1])
            else:
                scanned, part = self._lanes(part, level.digit, is_last)
            done.append(scanned)
        if not done:
            return self._alone(part, initial)
        registers = part.registers
        before = _Part([], registers, dict.fromkeys(registers, None))
        first = 0 if initial else 1
        for at in range(len(done) - 1, first - 1, -1):
            before = self._spread(before, done[at], self.levels[at].of_threads)
        count = self.layout.value_count
        if initial:
            return self._or_initial(before, initial, count)
        return self._inclusive(before, done[0], count)

    def _alone(self, part: _Part, initial: Sequence[Scalar]) -> list[SSAValue]:
        """The elements of lines that have one each."""
        if not initial:
            return part.arrays
        nothing = _Part(part.arrays, part.registers, dict.fromkeys(part.registers, None))
        return self._or_initial(nothing, initial, len(part.registers))

    # Up the digits

    def _values(self, part: _Part, digit: Digit) -> tuple[_Scanned, _Part]:
        """Scan along a digit of a thread's own values."""
        groups: dict[int, list[int]] = {}
        for value in part.registers:
            place = value // digit.divisor % digit.extent
            groups.setdefault(value - place * digit.divisor, []).append(value)
        for rest, members in groups.items():
            groups[rest] = sorted(members, reverse=self.reverse)
        values = [value for members in groups.values() for value in members]
        numbers = {value: at for at, value in enumerate(values)}
        sums = _Part(self._arrays(part, len(values)), numbers, dict.fromkeys(values, True))
        firsts = [members[0] for members in groups.values()]
        self._move(part, firsts, sums, firsts)
        for at in range(1, digit.extent):
            mine = [members[at] for members in groups.values()]
            last = [members[at - 1] for members in groups.values()]
            self._apply((sums, last), (part, mine), (sums, mine), True)
        totals = {rest: numbers[members[-1]] for rest, members in groups.items()}
        return _Scanned(groups, sums), _Part(sums.arrays, totals, dict.fromkeys(totals, True))

    def _lanes(self, part: _Part, digit: Digit, is_last: bool) -> tuple[_Scanned, _Part]:
        """Scan along a digit of the lanes of a warp."""
        context, builder = self.context, self.context.builder
        place = digit_value(builder, digit, context.threads)
        sums = self._fresh(part)
        for bit in range(digit.extent.bit_length() - 1):
            steps = 1 << bit
            limit = digit.extent - 1 - steps
            inside = (
                builder.pure("setp.le.s32", place, limit)
                if self.reverse
                else builder.pure("setp.ge.s32", place, steps)
            )
            self._meet(sums, steps * digit.divisor, inside)
        edge = digit.extent - 1 if self.reverse else 0
        has_before = builder.pure("setp.ne.s32", place, edge)
        before = [
            context.mapped(
                array,
                array_class(array),
                lambda value: shifted(context, value, digit.divisor, self.reverse),
            )
            for array in sums.arrays
        ]
        groups = {value: [value] for value in sums.registers}
        scanned = _Scanned(groups, sums, has_before, before)
        if is_last:
            return scanned, sums
        reach = (digit.extent - 1) * digit.divisor
        lane = lane_index(context)
        end = (
            builder.pure("and.b32", lane, ~reach)
            if self.reverse
            else builder.pure("or.b32", lane, reach)
        )
        totals = [
            context.mapped(
                array, array_class(array), lambda value: from_lane(context, value, "idx", end)
            )
            for array in sums.arrays
        ]
        return scanned, _Part(totals, sums.registers, sums.presence)

    def _meet(self, sums: _Part, distance: int, inside: Scalar) -> None:
        """Combine with the lane so far in front, where there is one."""
        context, builder = self.context, self.context.builder

        def body(args: list[SSAValue]) -> list[Scalar]:
            others = [shifted(context, value, distance, self.reverse) for value in args]
            made = self.combine(*others, *args)
            return [
                builder.pure(f"selp.{array_class(array)}", total, mine, inside)
                for array, total, mine in zip(sums.arrays, made, args, strict=True)
            ]

        every = list(sums.registers.values())
        both = [(array, every) for array in sums.arrays]
        context.foreach(len(every), both, both, body)

    def _warps(self, part: _Part, level: Level, levels: list[Level]) -> tuple[_Scanned, _Part]:
        """Scan along a digit of warps, through shared memory."""
        context, builder, digit = self.context, self.context.builder, level.digit
        others = others_of(self.layout, self.mode, levels)
        values, place = list(part.registers), digit_value(builder, digit, context.threads)
        shared = self._left(part, levels, others, place)
        count, warps = len(values), digit.extent
        is_long = count >= _SHARED_VALUES and warps >= _SHARED_WARPS
        if is_long and all(each.divisor >= WARP_SIZE for each in others):
            totals, before = self._by_lanes(part, shared, count, digit, place)
        else:
            found = self._arrays(part, count * warps)
            self._load(found, shared, range(count * warps))
            totals, before = self._in_order(found, count, digit, place)
        numbers = {value: at for at, value in enumerate(values)}
        has_before = builder.pure("setp.ne.s32", place, warps - 1 if self.reverse else 0)
        sums = _Part(self._arrays(part, count), numbers, dict.fromkeys(values, True))
        in_front = _Part(before, numbers, {})
        self._apply((in_front, values), (part, values), (sums, values), has_before)
        groups = {value: [value] for value in values}
        made = _Part(totals, numbers, dict.fromkeys(values, True))
        return _Scanned(groups, sums, has_before, before), made

    def _left(
        self, part: _Part, levels: list[Level], others: Sequence[Digit], place: Scalar
    ) -> _Shared:
        """Let warps leave what they have of each value where all of them find it."""
        context, builder, digit = self.context, self.context.builder, levels[-1].digit
        alike = prod(each.extent for each in others)
        values = list(part.registers)
        # Threads that differ elsewhere have the same: one of them writes.
        known = [each.digit for each in levels[:-1] if each.of_threads]
        known += [each for each in self.layout.threads if each.is_replica and each.extent > 1]
        at_zero = [digit_value(builder, each, context.threads) for each in known]
        lead = builder.both(*(builder.equal(each, 0) for each in at_zero))
        sizes = [bytes_of(_bits(array)) for array in part.arrays]
        starts = [len(values) * digit.extent * alike * sum(sizes[:n]) for n in range(len(sizes))]
        root, moved = context.scratch_at(len(values) * digit.extent * alike * sum(sizes))
        firsts: list[Scalar] = []
        context.synchronize()
        for array, size, start in zip(part.arrays, sizes, starts, strict=True):
            terms, step = [], size
            for each in others:
                terms.append((each.divisor, each.extent, step))
                step *= each.extent
            spread = weighted_sum(builder, terms, context.threads)
            firsts.append(builder.total([builder.smem_base(), moved, spread]))
            mine = builder.total([firsts[-1], builder.mul(place, alike * size)])
            step = digit.extent * alike * size
            places = [Address(mine, root + start + u * step) for u in range(len(values))]
            registers = [part.registers[value] for value in values]
            guards = [lead] * len(values)
            memory_op(context, ptx.StOp, f"shared.b{8 * size}", array, places, registers, guards)
        context.synchronize()
        return _Shared(firsts, starts, sizes, root, alike)

    def _load(
        self,
        arrays: Sequence[SSAValue],
        shared: _Shared,
        registers: Sequence[int],
        moved: Scalar = 0,
    ) -> None:
        """Load what warps have left, so many elements behind each other, from a place on."""
        builder = self.context.builder
        for array, first, start, size in zip(
            arrays, shared.firsts, shared.starts, shared.sizes, strict=True
        ):
            step = shared.alike * size
            base = builder.total([first, builder.mul(moved, step)])
            places = [Address(base, shared.root + start + u * step) for u in range(len(registers))]
            memory_op(self.context, ptx.LdOp, f"shared.b{8 * size}", array, places, registers)

    def _by_lanes(
        self, part: _Part, shared: _Shared, count: int, digit: Digit, place: Scalar
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """All that warps have of each value, and what is in front of this one, where each lane
        combines those of one value, or of a few, and gives them to the others.
        """
        context, builder, warps = self.context, self.context.builder, digit.extent
        rounds = -(-count // WARP_SIZE)
        found, lane = self._arrays(part, rounds * warps), lane_index(context)
        for number in range(rounds):
            # Lanes behind the last value have it again.
            value = builder.add(lane, number * WARP_SIZE)
            if (number + 1) * WARP_SIZE > count:
                value = builder.pure("min.s32", value, count - 1)
            registers = range(number * warps, (number + 1) * warps)
            self._load(found, shared, registers, builder.mul(value, warps))
        made: list[list[SSAValue]] = []
        for arrays in self._in_order(found, rounds, digit, place):
            given = self._arrays(part, count)
            for array, target in zip(arrays, given, strict=True):
                for number in range(rounds):
                    mine = range(number * WARP_SIZE, min(count, (number + 1) * WARP_SIZE))
                    for value in mine:
                        context.foreach(
                            1,
                            [(array, [number])],
                            [(target, [value])],
                            lambda args, value=value: [
                                from_lane(context, args[0], "idx", value % WARP_SIZE)
                            ],
                        )
            made.append(given)
        return made[0], made[1]

    def _in_order(
        self, found: list[SSAValue], count: int, digit: Digit, place: Scalar
    ) -> tuple[list[SSAValue], list[SSAValue]]:
        """Of what all warps have of some values: all of each, and what is in front of this warp."""
        context, builder, extent = self.context, self.context.builder, digit.extent
        order = range(extent - 1, -1, -1) if self.reverse else range(extent)
        values = range(count)
        totals = self._fresh(
            _Part(found, {value: value * extent + order[0] for value in values}, {})
        )
        before = self._arrays(totals, count)
        for array, total in zip(before, totals.arrays, strict=True):
            context.move(total, values, array, values)
        for at in order[1:]:
            is_here = builder.equal(place, at)
            for array, total in zip(before, totals.arrays, strict=True):
                cls = array_class(array)
                every = [(total, values), (array, values)]
                context.foreach(
                    count,
                    every,
                    every[1:],
                    lambda args, cls=cls, is_here=is_here: [
                        builder.pure(f"selp.{cls}", args[0], args[1], is_here)
                    ],
                )
            more = _Part(found, {value: value * extent + at for value in values}, {})
            self._apply((totals, values), (more, values), (totals, values), True)
        return totals.arrays, before

    # Down the digits

    def _spread(self, above: _Part, scanned: _Scanned, of_threads: bool) -> _Part:
        """What stands in front of each value of a level, of what stands in front of its totals."""
        sums = scanned.sums
        values = [value for members in scanned.groups.values() for value in members]
        numbers = {value: at for at, value in enumerate(values)}
        made = _Part(self._arrays(sums, len(values)), numbers, {})
        if of_threads:
            assert scanned.before is not None
            near = _Part(scanned.before, sums.registers, {})
            self._each_thread(above, near, made, scanned.has_before)
            return made
        for rest, members in scanned.groups.items():
            presence = above.presence[rest]
            made.presence.update(dict.fromkeys(members[1:], True))
            made.presence[members[0]] = presence
        for presence, rests in _by_presence(above, scanned.groups):
            firsts = [scanned.groups[rest][0] for rest in rests]
            if presence is not None:
                self._move(above, rests, made, firsts)
            later = [value for rest in rests for value in scanned.groups[rest][1:]]
            last = [value for rest in rests for value in scanned.groups[rest][:-1]]
            tops = [rest for rest in rests for _ in scanned.groups[rest][1:]]
            self._apply((above, tops), (sums, last), (made, later), presence)
        return made

    def _each_thread(self, above: _Part, near: _Part, made: _Part, has_before: Scalar) -> None:
        """What stands in front of the values of a thread: its neighbor's behind what stands in
        front of both.
        """
        context, builder = self.context, self.context.builder
        for presence, values in _by_presence(above, near.registers):
            if presence is None:
                self._move(near, values, made, values)
                made.presence.update(dict.fromkeys(values, has_before))
                continue
            self._apply((above, values), (near, values), (made, values), presence)
            # A thread without a neighbor has what stands in front of all.
            for array, given in zip(made.arrays, above.arrays, strict=True):
                cls = array_class(array)
                context.foreach(
                    len(values),
                    [
                        (array, [made.registers[value] for value in values]),
                        (given, [above.registers[value] for value in values]),
                    ],
                    [(array, [made.registers[value] for value in values])],
                    lambda args, cls=cls: [builder.pure(f"selp.{cls}", *args, has_before)],
                )
            is_there = True if presence is True else builder.pure("or.pred", presence, has_before)
            made.presence.update(dict.fromkeys(values, is_there))

    def _inclusive(self, above: _Part, scanned: _Scanned, count: int) -> list[SSAValue]:
        """The elements with what stands in front of their digit."""
        sums = scanned.sums
        made = _Part(self._arrays(sums, count), {v: v for v in range(count)}, {})
        for presence, rests in _by_presence(above, scanned.groups):
            values = [value for rest in rests for value in scanned.groups[rest]]
            tops = [rest for rest in rests for _ in scanned.groups[rest]]
            self._apply((above, tops), (sums, values), (made, values), presence)
        return made.arrays

    def _or_initial(self, before: _Part, initial: Sequence[Scalar], count: int) -> list[SSAValue]:
        """What stands in front of the elements, an initial value where nothing does."""
        context, builder = self.context, self.context.builder
        made = _Part(self._arrays(before, count), {v: v for v in range(count)}, {})
        for presence, values in _by_presence(before, before.registers):
            if presence is not None:
                self._move(before, values, made, values)
            for array, first in zip(made.arrays, initial, strict=True):
                if presence is True:
                    continue
                cls, places = array_class(array), [(array, values)]
                context.foreach(
                    len(values),
                    places if presence is not None else [],
                    places,
                    lambda args, cls=cls, first=first, presence=presence: [
                        first
                        if presence is None
                        else builder.pure(f"selp.{cls}", args[0], first, presence)
                    ],
                )
        return made.arrays

    # Registers

    def _arrays(self, like: _Part, count: int) -> list[SSAValue]:
        return [self.context.registers(array_class(array), count) for array in like.arrays]

    def _fresh(self, part: _Part) -> _Part:
        """The elements of a part in registers of their own."""
        values = list(part.registers)
        numbers = {value: at for at, value in enumerate(values)}
        made = _Part(self._arrays(part, len(values)), numbers, dict.fromkeys(values, True))
        self._move(part, values, made, values)
        return made

    def _move(
        self, source: _Part, values: Sequence[int], target: _Part, others: Sequence[int]
    ) -> None:
        out = [source.registers[value] for value in values]
        into = [target.registers[value] for value in others]
        for one, other in zip(source.arrays, target.arrays, strict=True):
            self.context.move(one, out, other, into)

    def _apply(
        self,
        earlier: tuple[_Part, Sequence[int]],
        later: tuple[_Part, Sequence[int]],
        target: tuple[_Part, Sequence[int]],
        presence: Presence,
    ) -> None:
        """Combine values with earlier ones, in order; where none are, they stay as they are."""
        if not later[1]:
            return
        if presence is None:
            self._move(*later, *target)
            return
        builder, many = self.context.builder, len(later[0].arrays)

        def body(args: list[SSAValue]) -> list[Scalar]:
            made = self.combine(*args)
            if presence is True:
                return made
            return [
                builder.pure(f"selp.{array_class(array)}", total, mine, presence)
                for array, total, mine in zip(target[0].arrays, made, args[many:], strict=True)
            ]

        earlier_, later_, target_ = (
            [(array, [part.registers[value] for value in values]) for array in part.arrays]
            for part, values in (earlier, later, target)
        )
        self.context.foreach(len(later[1]), [*earlier_, *later_], target_, body)


def _bits(array: SSAValue) -> int:
    return 64 if array_class(array) in ("f64", "b64") else 32


def _by_presence(part: _Part, values: Mapping[int, object]) -> list[tuple[Presence, list[int]]]:
    """Values by what is known of what stands in front of them."""
    found: list[tuple[Presence, list[int]]] = []
    for value in values:
        presence = part.presence[value]
        same = next((each for known, each in found if known is presence), None)
        if same is None:
            found.append((presence, [value]))
        else:
            same.append(value)
    return found


def _scan(self: KernelLowering, op: cute.ScanOp) -> None:
    tiles = [self.fragment(op, tile) for tile in op.tiles]
    results = lower_scan(self.context, op, tiles, self.scalars)
    self.fragments.update(zip(op.scanned, results, strict=True))


HANDLERS: dict[type[Operation], Handler] = {cute.ScanOp: _scan}
