"""The walk over one kernel in program order. It keeps, for every value of the source, what it has
become: a scalar, a view of memory, an array of registers, a ring, a state, a barrier.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from xdsl.dialects.builtin import DenseArrayBase, Float32Type
from xdsl.ir import Block, Operation, SSAValue
from xdsl.traits import Pure
from xdsl.utils.exceptions import VerifyException

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    RoundToTf32Op,
    TmaDescriptorType,
    TmemAddressOp,
    TmemAllocOp,
    WgmmaWaitOp,
    WriteOnesOp,
)
from cutedialect.dialects.pipeline import (
    CreateOp,
    ExchangeOp,
    RoleOp,
    StartArriveOp,
    StartOp,
    StepsOp,
)

from .context import Context, fail, register_class, register_count, scalar_class
from .elementwise import Fragment
from .scalar_builder import Scalar
from .scalars import lower_scalar
from .views import IndexedTile, Tile, View, memref_view

if TYPE_CHECKING:
    from .cluster_reductions import Exchange
    from .rings import Ring, State
    from .tile_views import JoinedTile
    from .wgmma import FreshAccumulator

_SETS_UP = (
    cute.AllocSmemOp, cute.AllocTmemOp, CreateOp, RoleOp, ExchangeOp, StartOp, StartArriveOp,
    TmemAllocOp, TmemAddressOp, WriteOnesOp, ProxyFenceOp,
)  # fmt: skip
Handler = Callable[["KernelLowering", Any], object]
"""Lowers one op; what it has become is kept in the lowering."""


@dataclass
class TensorPlan:
    """Columns of tensor memory that buffers take, the first one of each, the place in shared memory
    where the address of the kernel's first one is, that address, and the addresses of tiles in it.
    """

    used: int = 0
    offsets: dict[SSAValue, int] = field(default_factory=dict)
    slot: int = 0
    base: Scalar = 0
    tiles: dict[SSAValue, Scalar] = field(default_factory=dict)


@dataclass(frozen=True)
class Group:
    """A group's table in global memory: its address (b64) and how many entries it has (b32)."""

    table: SSAValue
    size: SSAValue


class KernelLowering:
    """The state of the walk."""

    def __init__(
        self, kernel: cute.KernelOp, context: Context, handlers: Mapping[type[Operation], Handler]
    ) -> None:
        self.kernel = kernel
        self.handlers = handlers
        self.context = context
        self.builder = context.builder
        self.scalars: dict[SSAValue, Scalar] = {}
        # The fields of structs of scalars, by their path.
        self.structs: dict[SSAValue, dict[tuple[int, ...], Scalar]] = {}
        self.views: dict[SSAValue, View] = {}
        self.joined: dict[SSAValue, JoinedTile] = {}
        self.indexed: dict[SSAValue, IndexedTile] = {}
        self.fragments: dict[SSAValue, Fragment] = {}
        self.maps: dict[SSAValue, SSAValue] = {}
        self.groups: dict[SSAValue, Group] = {}
        self.rings: dict[SSAValue, Ring] = {}
        self.states: dict[SSAValue, State] = {}
        self.barriers: dict[SSAValue, tuple[SSAValue, int]] = {}
        self.exchanges: dict[SSAValue, Exchange] = {}
        # Those whose barriers no thread has made yet.
        self.unmade: list[Exchange] = []
        # The named barriers at which several roles meet, by their names.
        self.meetings: dict[tuple[str, ...], int] = {}
        # Whether a thread has an element of a tile of conditions that holds, where that is known
        # without the tile.
        self.tests: dict[SSAValue, Scalar] = {}
        # Buffers that have a place in shared memory before they are reached.
        self.places: dict[cute.AllocSmemOp, int] = {}
        self.tensor = TensorPlan()
        self.done: set[Operation] = set()
        # Accumulators that a loop starts from zero: by its first multiply, and by the op before
        # which they have to be zero if the loop had no trip.
        self.fresh: dict[Operation, FreshAccumulator] = {}
        self.unsettled: dict[Operation, list[FreshAccumulator]] = {}
        # What loads have found of rows, by the reduction that wants it, and what is done at the
        # ends of branches that write the rows anew.
        self.extremes: dict[cute.ReduceOp, list[SSAValue]] = {}
        self.ends: dict[Block, list[Callable[[], None]]] = {}

    def bind_parameters(self, parameters: Sequence[SSAValue]) -> None:
        rest = iter(parameters)

        def following(cls: str) -> SSAValue:
            """A dynamic extent (b32) or stride (b64)."""
            value = next(rest)
            if cls == "b32":
                self.builder.nonnegative.add(value)
            return value

        for arg in self.kernel.body.block.args:
            if arg.type.name == "llvm.struct":
                from .structs import bind, leaves_of

                bind(self, arg, [next(rest) for _ in leaves_of(arg.type)])
                continue
            first = next(rest)
            if isinstance(arg.type, cute.MemRefType):
                self.views[arg] = memref_view(arg.type, first, following)
            elif isinstance(arg.type, TmaDescriptorType):
                self.maps[arg] = first
            elif isinstance(arg.type, cute.GroupType):
                self.groups[arg] = Group(first, following("b32"))
            elif scalar_class(arg.type) == "pred":
                self.scalars[arg] = self.builder.pure("setp.ne.s32", first, 0)
            else:
                self.scalars[arg] = first

    def run(self, block: Block) -> None:
        for op in block.ops:
            if op in self.done:
                continue
            for accumulator in self.unsettled.pop(op, ()):
                self._settle(accumulator)
            self.builder.at(op)
            if self.context.is_early and not _is_setup(op):
                self.context.wait_for_launch()
            handler = self.handlers.get(type(op))
            try:
                if handler is not None:
                    handler(self, op)
                elif not lower_scalar(self.context, op, self.scalars):
                    self._lower_other(op)
                if self.context.steps is not None:
                    self._end_steps(op)
            except (ValueError, TypeError, VerifyException) as error:
                raise fail(op, str(error)) from error
        for action in self.ends.pop(block, ()):
            action()

    def _end_steps(self, op: Operation) -> None:
        """The op behind steps has taken all of them."""
        steps = self.context.steps
        if steps is None or isinstance(op, StepsOp):
            return
        if not steps.is_over:
            raise ValueError("expected fewer pipeline.steps in front, of which some are left")
        self.context.steps = None

    def _lower_other(self, op: Operation) -> None:
        """Lower an op of another dialect, of those that few kernels have."""
        from .structs import HANDLERS

        handler = HANDLERS.get(type(op))
        if handler is None:
            raise fail(op, "expected an op of the thread level, which this is not")
        handler(self, op)

    def _settle(self, accumulator: FreshAccumulator) -> None:
        """Write the zeros that no trip of the loop has accounted for."""
        loop, array = accumulator.loop, self.fragments[accumulator.fill.fragment].array
        assert loop is not None
        self.builder.at(accumulator.fill)
        empty = self.builder.pure("setp.ge.s32", self.scalars[loop.lb], self.scalars[loop.ub])
        self.context.when(empty, lambda: self.context.fill(array, 0))

    def fragment(self, op: Operation, value: SSAValue) -> Fragment:
        found = self.fragments.get(value)
        if found is None:
            raise fail(op, f"expected a register tile, got {value.type}")
        return found

    def view(self, op: Operation, value: SSAValue) -> View:
        found = self.views.get(value)
        if found is None:
            raise fail(op, f"expected a tile of memory, got {value.type}")
        return found

    def is_in_memory(self, value: SSAValue) -> bool:
        return value in self.views or value in self.indexed or value in self.joined

    def tile(self, op: Operation, value: SSAValue) -> Tile:
        """A tile of memory, or one of numbered rows."""
        return self.indexed.get(value) or self.view(op, value)

    def is_touched_between(self, first: Operation, last: cute.CopyOp, tile: Fragment) -> bool:
        """Whether an op after `first` and before `last`, which writes a tile, may use the tile's
        registers, or waits for a multiply that does.
        """
        multiplied = any(isinstance(use.operation, cute.GemmOp) for use in last.destination.uses)
        op = first.next_op
        while op is not None and op is not last:
            found = [self.fragments[each] for each in op.operands if each in self.fragments]
            if (
                (op.regions and not isinstance(op, cute.MapOp | StepsOp))
                or isinstance(op, cute.TransposeOp)
                or (multiplied and isinstance(op, WgmmaWaitOp))
                or any(each.array is tile.array for each in found)
            ):
                return True
            op = op.next_op
        return False

    def new_fragment(self, value: SSAValue) -> Fragment:
        type_ = cute.fragment_of(value)
        if type_.threads > self.context.threads:
            raise ValueError(
                f"expected at most the block's {self.context.threads} threads, "
                f"got {type_.threads} in {type_}"
            )
        cls = "b32" if _is_tf32_operand(value) else register_class(type_.element)
        fragment = Fragment(type_, self.context.registers(cls, register_count(type_)))
        self.fragments[value] = fragment
        return fragment


def integers(array: DenseArrayBase) -> tuple[int, ...]:
    return tuple(int(each) for each in array.get_values())  # type: ignore[attr-defined]


def _is_setup(op: Operation) -> bool:
    """Whether an op touches no global memory; roles make their barriers before they wait."""
    kind = type(op)
    if kind in _SETS_UP:
        return True
    return kind.has_trait(Pure) and not any(
        isinstance(each.type, cute.GroupType) for each in op.operands
    )


def _is_tf32_operand(value: SSAValue) -> bool:
    """Whether an f32 tile is only loaded and multiplied: `mma` takes it as plain bits."""
    type_ = cute.fragment_of(value)
    if not isinstance(type_.element, Float32Type):
        return False
    uses = [(use.operation, use.index) for use in value.uses]
    others = [
        (op, i)
        for op, i in uses
        if not ((isinstance(op, cute.GemmOp) and i < 2) or isinstance(op, RoundToTf32Op))
    ]
    return len(others) < len(uses) and all(
        isinstance(op, cute.CopyOp) and i == 1 and op.source.type != type_ for op, i in others
    )
