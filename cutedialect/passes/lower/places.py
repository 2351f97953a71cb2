"""Elements of register tiles by their places: threads put the tile into shared memory, row by row,
and load from it, or store to it first, at the places that their numbers say.
"""

from __future__ import annotations

from math import prod

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute, ptx
from cutedialect.passes.analysis.lines import bytes_of

from .addresses import Address, digit_value, memory_op, weighted_sum
from .context import Context, number_name, register_class
from .elementwise import Fragment
from .lowering import Handler, KernelLowering
from .scalar_builder import Scalar


class _Places:
    """A tile in shared memory of one exchange."""

    def __init__(self, context: Context, tile: Fragment) -> None:
        self.context, self.tile = context, tile
        shape = tile.type.shape
        self.size = bytes_of(tile.type.bits)
        self.weights = [prod(shape[mode + 1 :]) * self.size for mode in range(len(shape))]
        self.root, moved = context.scratch_at(prod(shape) * self.size)
        self.base = context.builder.total([context.builder.smem_base(), moved])
        self.kind = f"shared.b{8 * self.size}"

    def put(self) -> None:
        """Put the tile there; of threads with the same elements one does."""
        self.context.synchronize()
        lead = _lead(self.context, self.tile)
        places = self._own(self.tile)
        every = range(self.tile.values)
        guards = [lead] * len(every)
        memory_op(self.context, ptx.StOp, self.kind, self.tile.array, places, every, guards)

    def get(self, type_: cute.FragmentType) -> Fragment:
        """The tile as it is there now."""
        self.context.synchronize()
        array = self.context.registers(register_class(type_.element), type_.values)
        made = Fragment(type_, array)
        memory_op(self.context, ptx.LdOp, self.kind, array, self._own(made), range(type_.values))
        return made

    def take(
        self, numbers: Fragment, type_: cute.FragmentType, mode: int | None, extent: int
    ) -> Fragment:
        """What is at the places of numbers, 0 where that is none."""
        context = self.context
        context.synchronize()
        made = Fragment(type_, context.registers(register_class(type_.element), type_.values))
        context.fill(made.array, 0)
        places, guards = self._named(numbers, mode, extent)
        every = range(type_.values)
        memory_op(context, ptx.LdOp, self.kind, made.array, places, every, guards)
        return made

    def change(self, numbers: Fragment, values: Fragment, mode: int | None, adds: bool) -> None:
        """Store values at the places of numbers, or add them there."""
        self.context.synchronize()
        lead = _lead(self.context, values)
        shape = self.tile.type.shape
        extent = prod(shape) if mode is None else shape[mode]
        places, guards = self._named(numbers, mode, extent)
        guards = [self.context.builder.both(lead, guard) for guard in guards]
        name = number_name(values.type.element)
        name = {"s32": "u32"}.get(name, name)
        kind = f"relaxed.cta.shared.add.{name}" if adds else self.kind
        op = ptx.RedOp if adds else ptx.StOp
        memory_op(self.context, op, kind, values.array, places, range(values.values), guards)

    def _own(self, tile: Fragment) -> list[Address]:
        """Where the elements of a thread are."""
        base = self._of_thread(tile, None)
        return [
            Address(base, self.root + sum(map(int.__mul__, coord, self.weights)))
            for coord in tile.layout.value_coords()
        ]

    def _named(
        self, numbers: Fragment, mode: int | None, extent: int
    ) -> tuple[list[Address], list[Scalar]]:
        """Where numbers point, and whether that is one of so many places."""
        builder = self.context.builder
        step = self.size if mode is None else self.weights[mode]
        base = self.base if mode is None else self._of_thread(numbers, mode)
        places: list[Address] = []
        guards: list[Scalar] = []
        for value, coord in enumerate(numbers.layout.value_coords()):
            number = builder.get(numbers.array, value)
            at = builder.total([base, builder.mul(number, step)])
            rest = 0
            if mode is not None:
                others = zip(coord, self.weights, strict=True)
                rest = sum(c * w for m, (c, w) in enumerate(others) if m != mode)
            places.append(Address(at, self.root + rest))
            guards.append(builder.pure("setp.lt.u32", number, extent))
        return places, guards

    def _of_thread(self, tile: Fragment, without: int | None) -> Scalar:
        """The part of a place that depends on the thread, perhaps without that along a mode."""
        weights = [0 if mode == without else w for mode, w in enumerate(self.weights)]
        terms = [
            (digit.divisor, digit.extent, sum(map(int.__mul__, digit.steps, weights)))
            for digit in tile.layout.threads
        ]
        builder = self.context.builder
        return builder.total([self.base, weighted_sum(builder, terms, self.context.threads)])


def shared_by_copies(context: Context, tile: Fragment) -> Fragment:
    """A tile that one of the threads with the same elements knows, in all of them."""
    if not any(each.is_replica and each.extent > 1 for each in tile.layout.threads):
        return tile
    places = _Places(context, tile)
    places.put()
    return places.get(tile.type)


def _lead(context: Context, tile: Fragment) -> Scalar:
    """Whether a thread is the first one of those that hold the same elements."""
    builder = context.builder
    alike = [each for each in tile.layout.threads if each.is_replica and each.extent > 1]
    return builder.both(
        *(builder.equal(digit_value(builder, each, context.threads), 0) for each in alike)
    )


def _mode(op: cute.TakeOp | cute.PutOp) -> int | None:
    return None if op.mode is None else op.mode.value.data


def _typed(value: SSAValue) -> cute.FragmentType:
    return cute.fragment_of(value)


def _take(self: KernelLowering, op: cute.TakeOp) -> None:
    places = _Places(self.context, self.fragment(op, op.source))
    places.put()
    numbers = self.fragment(op, op.indices)
    self.fragments[op.result] = places.take(numbers, _typed(op.result), _mode(op), op.places)


def _put(self: KernelLowering, op: cute.PutOp) -> None:
    places = _Places(self.context, self.fragment(op, op.source))
    places.put()
    numbers, values = (self.fragment(op, each) for each in (op.indices, op.values))
    places.change(numbers, values, _mode(op), op.kind is not None)
    self.fragments[op.result] = places.get(_typed(op.result))


HANDLERS: dict[type[Operation], Handler] = {cute.TakeOp: _take, cute.PutOp: _put}
