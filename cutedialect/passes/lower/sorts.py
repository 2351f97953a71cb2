"""Sorts of the lines of register tiles along one mode: a network of comparisons of two elements,
whose places differ in the digits of a mask. The first mask of each round mirrors a run of elements,
so that the lesser one of each pair always goes in front. Elements of a thread are compared in its
registers, those of lanes by shuffles, those of warps through shared memory. Where the first
elements alone are asked for, runs of them are merged, each time with half of the elements.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, ptx
from cutedialect.passes.analysis.lines import bytes_of, exchanges, levels_along

from .addresses import Address, memory_op
from .context import Context, array_class, number_name
from .elementwise import Fragment
from .lanes import from_lane
from .lowering import Handler, KernelLowering
from .scalar_builder import Scalar

Arrays = list[SSAValue]


@dataclass(frozen=True)
class _Bit:
    """A binary digit of the places in a line: of a thread's values or of the threads, and how many
    of these lie between two that differ in it alone.
    """

    stride: int
    of_threads: bool
    of_warps: bool


class _Sort:
    """One sort of one kernel."""

    def __init__(self, context: Context, op: cute.SortOp, tiles: Sequence[Fragment]) -> None:
        self.context, self.count = context, tiles[0].values
        self.names = [number_name(tile.type.element) for tile in tiles]
        self.bits: list[_Bit] = []
        levels = levels_along(tiles[0].layout, op.mode.value.data)
        for level in levels:
            digit = level.digit
            if digit.extent & (digit.extent - 1):
                raise ValueError(f"expected powers of two of threads along a line, got {digit}")
            for bit in range(digit.extent.bit_length() - 1):
                self.bits.append(_Bit(digit.divisor << bit, level.of_threads, level.of_warps))
        self.steps = [*exchanges(levels, op.leading_count)]

    def run(self, arrays: Arrays) -> Arrays:
        """The elements in order; of those that are not asked for any."""
        made = [self.context.registers(array_class(array), self.count) for array in arrays]
        for one, other in zip(arrays, made, strict=True):
            self.context.move(one, range(self.count), other, range(self.count))
        # Where each value of a thread is: those that a step drops are where the lesser ones are.
        where = [*range(self.count)]
        for step in self.steps:
            chosen = [bit for at, bit in enumerate(self.bits) if step.mask >> at & 1]
            top = chosen[-1]
            if step.drops and not top.of_threads:
                where = [at - at // top.stride % 2 * top.stride for at in where]
            live = sorted({*where})
            if any(bit.of_warps for bit in chosen):
                others = self._across_warps(made, chosen, live)
            elif any(bit.of_threads for bit in chosen):
                others = self._across_lanes(made, chosen, live)
            else:
                self._within(made, chosen, live, step.drops)
                continue
            made = self._kept(made, others, None if step.drops else top, live)
        if where == [*range(self.count)]:
            return made
        found = [self.context.registers(array_class(array), self.count) for array in made]
        for one, other in zip(made, found, strict=True):
            self.context.move(one, where, other, range(self.count))
        return found

    def _partner(self, value: int, chosen: Sequence[_Bit]) -> int:
        """The value of a thread with which one is compared, in this thread or in another one."""
        for bit in chosen:
            if not bit.of_threads:
                value += -bit.stride if value // bit.stride % 2 else bit.stride
        return value

    def _within(
        self, arrays: Arrays, chosen: Sequence[_Bit], live: Sequence[int], drops: bool
    ) -> None:
        """Compare registers of a thread, and exchange them or keep the lesser ones."""
        top = chosen[-1].stride
        low = [value for value in live if value // top % 2 == 0]
        high = [self._partner(value, chosen) for value in low]
        places = [(array, low) for array in arrays] + [(array, high) for array in arrays]
        many = len(arrays)

        def body(args: list[SSAValue]) -> list[Scalar]:
            one, other = args[:many], args[many:]
            least = self._chosen(one, other, True)
            return least if drops else [*least, *self._chosen(one, other, False)]

        self.context.foreach(len(low), places, places[:many] if drops else places, body)

    def _across_lanes(self, arrays: Arrays, chosen: Sequence[_Bit], live: Sequence[int]) -> Arrays:
        """The elements of the lanes with which this one compares its `live` values."""
        distance = sum(bit.stride for bit in chosen if bit.of_threads)
        partners = [self._partner(value, chosen) for value in live]
        found = [self.context.registers(array_class(array), self.count) for array in arrays]
        for array, other in zip(arrays, found, strict=True):
            self.context.foreach(
                len(live),
                [(array, partners)],
                [(other, live)],
                lambda args: [from_lane(self.context, args[0], "bfly", distance)],
            )
        return found

    def _across_warps(self, arrays: Arrays, chosen: Sequence[_Bit], live: Sequence[int]) -> Arrays:
        """The elements of the threads with which this one compares: [tile][value][thread]."""
        context, builder = self.context, self.context.builder
        thread = builder.thread_index()
        other: Scalar = thread
        for bit in chosen:
            if bit.of_threads:
                digit = builder.rem(builder.div(thread, bit.stride), 2)
                other = builder.total([other, builder.mul(digit, -2 * bit.stride), bit.stride])
        sizes = [bytes_of(int(name[1:])) for name in self.names]
        root, moved = context.scratch_at(sum(sizes) * self.count * context.threads)
        base = builder.total([builder.smem_base(), moved])
        partners = [self._partner(value, chosen) for value in live]
        found: Arrays = []
        for is_load in (False, True):
            context.synchronize()
            start = root
            for array, size in zip(arrays, sizes, strict=True):
                pitch = size * context.threads
                first = builder.add(base, builder.mul(other if is_load else thread, size))
                order = partners if is_load else sorted(partners)
                places = [Address(first, start + value * pitch) for value in order]
                start += self.count * pitch
                kind = f"shared.b{8 * size}"
                if is_load:
                    found.append(context.registers(array_class(array), self.count))
                    memory_op(context, ptx.LdOp, kind, found[-1], places, live)
                else:
                    memory_op(context, ptx.StOp, kind, array, places, order)
        return found

    def _kept(
        self, arrays: Arrays, others: Arrays, top: _Bit | None, live: Sequence[int]
    ) -> Arrays:
        """Of each element and the one of another thread the lesser, or the greater, by the digit
        that decides which is in front; without one the lesser.
        """
        builder, many = self.context.builder, len(arrays)
        made = [self.context.registers(array_class(array), self.count) for array in arrays]
        if top is None:
            parts = [(True, live)]
        elif top.of_threads:
            digit = builder.rem(builder.div(builder.thread_index(), top.stride), 2)
            parts = [(builder.equal(digit, 0), live)]
        else:
            behind = [value for value in live if value // top.stride % 2]
            ahead = [value for value in live if not value // top.stride % 2]
            parts = [(True, ahead), (False, behind)]
        for is_front, values in parts:
            sources = [(array, values) for array in (*arrays, *others)]

            def body(args: list[SSAValue], is_front: Scalar = is_front) -> list[Scalar]:
                return self._chosen(args[:many], args[many:], is_front)

            targets = [(array, values) for array in made]
            self.context.foreach(len(values), sources, targets, body)
        return made

    def _chosen(
        self, one: Sequence[SSAValue], other: Sequence[SSAValue], is_front: Scalar
    ) -> list[Scalar]:
        """The lesser of two elements where that goes in front, else the greater."""
        builder = self.context.builder
        if len(self.names) == 1:
            (name,) = self.names
            least, most = (
                builder.pure(f"{word}.{name}", one[0], other[0]) for word in ("min", "max")
            )
            if not isinstance(is_front, SSAValue):
                return [least if is_front else most]
            return [builder.pure(f"selp.b{name[1:]}", least, most, is_front)]
        is_less: Scalar = False
        for name, a, b in reversed([*zip(self.names, one, other, strict=True)]):
            here = builder.pure(f"setp.lt.{name}", a, b)
            if is_less is not False:
                same = builder.pure(f"setp.eq.{name}", a, b)
                is_less = builder.pure("or.pred", here, builder.both(same, is_less))
            else:
                is_less = here
        if is_front is True:
            keeps = is_less
        elif is_front is False:
            keeps = builder.pure("not.pred", is_less)
        else:
            keeps = builder.pure("not.pred", builder.pure("xor.pred", is_less, is_front))
        return [
            builder.pure(f"selp.b{name[1:]}", a, b, keeps)
            for name, a, b in zip(self.names, one, other, strict=True)
        ]


def _sort(self: KernelLowering, op: cute.SortOp) -> None:
    tiles = [self.fragment(op, tile) for tile in op.tiles]
    arrays = _Sort(self.context, op, tiles).run([tile.array for tile in tiles])
    for result, tile, array in zip(op.ordered, tiles, arrays, strict=True):
        self.fragments[result] = Fragment(tile.type, array)


HANDLERS: dict[type[Operation], Handler] = {cute.SortOp: _sort}
