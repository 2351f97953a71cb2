"""Numbers of a role's control flow, computed on integers. What is no integer (an element of a
tensor, a sum of floats) is a term: a tuple that names the op and its operands, equal where two
roles compute the same. A term becomes an integer where control asks for one, as the case says.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, IntegerType
from xdsl.ir import Attribute, BlockArgument, Operation, OpResult, SSAValue

from cutedialect.dialects import cute, pipeline
from cutedialect.dialects.cute import FragmentType
from cutedialect.dialects.walks import walk
from cutedialect.layout import Dyn, flatten

from .events import operands_of
from .findings import place_of

WORK_ITEMS = "work_items"
"""On loops over the work items of a CTA."""
Value = Any
Numbers = Callable[[Value], int]
"""Makes an integer of a value."""
Step = Callable[[Sequence[Value], Numbers], Value]
Ops = dict[type[Operation], list[Any]]
"""The ops of a kernel by their classes, in order."""


def _floor(one: int, other: int) -> int:
    return one // other if other else 0


def _ceil(one: int, other: int) -> int:
    return -(-one // other) if other else 0


def _truncated(one: int, other: int) -> int:
    if not other:
        return 0
    quotient = abs(one) // abs(other)
    return quotient if (one < 0) == (other < 0) else -quotient


def _rest(one: int, other: int) -> int:
    return one - other * _truncated(one, other)


_BINARY: dict[type[Operation], Callable[[int, int], int]] = {
    arith.AddiOp: lambda one, other: one + other,
    arith.SubiOp: lambda one, other: one - other,
    arith.MuliOp: lambda one, other: one * other,
    arith.DivSIOp: _truncated,
    arith.DivUIOp: _floor,
    arith.CeilDivSIOp: _ceil,
    arith.CeilDivUIOp: _ceil,
    arith.FloorDivSIOp: _floor,
    arith.RemSIOp: _rest,
    arith.RemUIOp: lambda one, other: one % other if other else 0,
    arith.MinSIOp: min,
    arith.MinUIOp: min,
    arith.MaxSIOp: max,
    arith.MaxUIOp: max,
    arith.AndIOp: lambda one, other: one & other,
    arith.OrIOp: lambda one, other: one | other,
    arith.XOrIOp: lambda one, other: one ^ other,
    arith.ShLIOp: lambda one, other: one << other if 0 <= other < 64 else 0,
    arith.ShRSIOp: lambda one, other: one >> min(other & (1 << 64) - 1, 63),
    arith.ShRUIOp: lambda one, other: one >> min(other & (1 << 64) - 1, 63),
}
_SAME = (arith.ExtSIOp, arith.ExtUIOp, arith.TruncIOp, arith.IndexCastOp)
# By the predicate's number: eq, ne, slt, sle, sgt, sge, ult, ule, ugt, uge.
_COMPARES: tuple[Callable[[int, int], int], ...] = (
    lambda one, other: int(one == other),
    lambda one, other: int(one != other),
    lambda one, other: int(one < other),
    lambda one, other: int(one <= other),
    lambda one, other: int(one > other),
    lambda one, other: int(one >= other),
    lambda one, other: int(one < other),
    lambda one, other: int(one <= other),
    lambda one, other: int(one > other),
    lambda one, other: int(one >= other),
)


def constant_of(op: Operation) -> int | None:
    """The integer that an op is."""
    if type(op) is arith.ConstantOp:
        constant = op.value
        if isinstance(constant, IntegerAttr):
            return constant.value.data
    return None


def function_of(op: Operation) -> Callable[[int, int], int] | None:
    """What an op makes of two integers, where it takes these."""
    if type(op) is arith.CmpiOp:
        return _COMPARES[op.predicate.value.data]
    return _BINARY.get(type(op))


def step_of(op: Operation) -> Step:
    """How the result of another op that gives a number, or a view of global memory, is computed."""
    if type(op) in _SAME:
        return lambda values, _: values[0]
    if type(op) is arith.SelectOp:
        return lambda values, number: values[1] if number(values[0]) else values[2]
    if type(op) is cute.DimOp:
        return _extent(op)
    return _term(op)


def _extent(op: cute.DimOp) -> Step:
    whole, mode = _tensor_of(op)
    type_ = whole.type
    extent = type_.shape[mode] if isinstance(type_, cute.MemRefType) else None
    if isinstance(extent, int):
        return lambda values, _: extent
    sources = sources_of(op)
    if len(sources) > 1:
        return lambda values, number: number(values[0]) - number(values[1])
    if sources[0] is not whole:
        return lambda values, _: values[0]
    return lambda values, _: ("dim", mode, values[0])


def sources_of(op: Operation) -> Sequence[SSAValue]:
    """What a number is computed from. An extent is that of its tensor, or, where that is a view,
    the number that the view was made with, or the end of a slice and its first element.
    """
    if type(op) is not cute.DimOp:
        return op.operands
    whole, mode = _tensor_of(op)
    view = whole.owner
    if isinstance(view, cute.SliceOp):
        return view.end, view.first
    if isinstance(view, cute.MakeViewOp) and view.value is None:
        *before, extent = view.result.type.modes[: mode + 1]
        if isinstance(extent, Dyn):
            return (view.layout[sum(isinstance(leaf, Dyn) for leaf in flatten(tuple(before)))],)
    return (whole,)


def _tensor_of(op: cute.DimOp) -> tuple[SSAValue, int]:
    """The tensor, or the view of one, that says what an extent is, and the mode there: a slice is
    the tensor but for the mode that it slices.
    """
    whole, mode = op.memref, op.mode.value.data
    while isinstance(whole.owner, cute.SliceOp) and whole.owner.mode.value.data != mode:
        whole = whole.owner.source
    return whole, mode


# Printing takes long.
@lru_cache(maxsize=4096)
def _text(value: Attribute) -> str:
    return str(value)


def _term(op: Operation) -> Step:
    """A term of what the op is and what it takes; conditions are marked, to have two values."""
    is_condition = bool(op.results) and op.results[0].type == IntegerType(1)
    head = (
        "condition" if is_condition else "number",
        op.name,
        tuple([_text(value) for value in op.properties.values()]),
    )
    if type(op) is cute.AnyOp:
        # What registers hold is no number: the line, and how it comes about, tell one question from
        # another.
        head += (place_of(op), _question(op.source, _STEPS_OF_A_QUESTION))
    return lambda values, _: (*head, *values)


# Ops between a question and what it asks of, as far as they tell it from others.
_STEPS_OF_A_QUESTION = 3


def _question(value: SSAValue, steps: int) -> tuple[Any, ...]:
    """How a value comes about: its op, those inside of it, and the same of its operands."""
    op = value.owner
    if not isinstance(op, Operation) or not steps:
        return ()
    inside = tuple((inner.name, *map(str, inner.properties.values())) for inner in walk(op))
    return (inside, *(_question(operand, steps - 1) for operand in op.operands))


# Ops between an extent and its division into tiles: bounds, offsets, what is left.
_STEPS_TO_DIVISION = 4
_DIVISIONS = (arith.CeilDivSIOp, arith.DivSIOp, arith.FloorDivSIOp)


def units_of(ops: Ops) -> dict[tuple[int, int], int]:
    """The elements of a tile along a mode of an argument, or of the members of one that is a group:
    by (argument, mode), where something divides the extent.
    """
    units: dict[tuple[int, int], int] = {}
    for op in ops.get(cute.DimOp, ()):
        unit = _divisor(op.result, _STEPS_TO_DIVISION)
        source = op
        while unit is not None and len(sources := sources_of(source)) == 1:
            if not isinstance(sources[0].owner, cute.DimOp):
                break
            source = sources[0].owner
        whole = _whole(source)
        if isinstance(whole, BlockArgument) and unit is not None:
            units[whole.index, source.mode.value.data] = unit
    return units


def _divisor(value: SSAValue, steps: int) -> int | None:
    """By what a number, or what is computed from it, is divided into tiles."""
    for use in value.uses:
        user = use.operation
        if type(user) in _DIVISIONS and use.index == 0:
            divisor = user.operands[1].owner
            constant = divisor.value if isinstance(divisor, arith.ConstantOp) else None
            if isinstance(constant, IntegerAttr) and constant.value.data > 1:
                return constant.value.data
        elif steps and type(user).dialect_name() == arith.Arith.name and user.results:
            found = _divisor(user.results[0], steps - 1)
            if found is not None:
                return found
    return None


def rests_of(ops: Ops) -> set[int]:
    """The numbers by which rests are taken: what depends on them alone comes round so often."""
    rests: set[int] = set()
    for kind in (arith.RemSIOp, arith.RemUIOp, arith.AndIOp):
        for op in ops.get(kind, ()):
            divisor = op.operands[1].owner
            number = constant_of(divisor) if isinstance(divisor, Operation) else None
            if number is not None:
                rests.add(number + (kind is arith.AndIOp))
    return {rest for rest in rests if rest > 0}


# The operands that control and places of accesses depend on, by class of op.
_CONTROLS: dict[type[Operation], tuple[str, ...]] = {
    scf.ForOp: ("lb", "ub", "step"),
    scf.IfOp: ("cond",),
    scf.ConditionOp: ("condition",),
}
_NUMBERS: dict[type[Operation], tuple[str, ...]] = {
    **_CONTROLS,
    cute.StageOp: ("index",),
    cute.MakeViewOp: ("offset",),
    pipeline.ReceiveOp: ("index",),
    pipeline.RequestOp: ("index",),
    pipeline.ResponseOp: ("index", "otherwise"),
    pipeline.SendOp: ("index", "value"),
    pipeline.AdvanceOp: ("count",),
    pipeline.StepsOp: ("condition",),
    cute.CopyOp: ("pred",),
    pipeline.ConsumerReleaseOp: ("pred", "multiplied"),
    pipeline.ProducerCommitOp: ("multiplied",),
    pipeline.TurnWaitOp: ("pred",),
    pipeline.TurnPassOp: ("pred",),
    cute.GemmOp: ("keeps",),
    cute.ClaimOp: ("total",),
    cute.CancelLaunchOp: ("total",),
    cute.LastArrivalOp: ("total",),
}


NUMBER_AND_RESULT: dict[type[Operation], tuple[str, str]] = {
    pipeline.AdvanceOp: ("count", ""),
    pipeline.SendOp: ("value", ""),
    pipeline.ReceiveOp: ("", "result"),
    pipeline.ResponseOp: ("otherwise", "result"),
    cute.ClaimOp: ("total", "result"),
    cute.CancelLaunchOp: ("total", "result"),
    cute.LastArrivalOp: ("total", "result"),
    cute.ClusterSumOp: ("", "result"),
    cute.GemmOp: ("keeps", ""),
    pipeline.ProducerCommitOp: ("multiplied", ""),
    pipeline.ConsumerReleaseOp: ("multiplied", ""),
}
"""The number that an op takes, and the one that it gives, by class of op."""


def needed_in(ops: Ops) -> set[SSAValue]:
    """The values that control and places of accesses of some ops depend on."""
    waiting: list[Any] = []
    for kind, names in _NUMBERS.items():
        for op in ops.get(kind, ()):
            waiting += operands_of(op, names)
    return _behind(waiting)


def varied_in(ops: Ops) -> set[tuple[int, int]]:
    """The extents, (argument, mode), that conditions and loops depend on, but for those over work
    items: others change nothing but how many work items there are.
    """
    waiting: list[Any] = []
    for kind, names in _CONTROLS.items():
        for op in ops.get(kind, ()):
            around = op.parent_op() if kind is scf.ConditionOp else op
            if around is not None and WORK_ITEMS not in around.attributes:
                waiting += operands_of(op, names)
    dims = (value.owner for value in _behind(waiting))
    return {
        (whole.index, op.mode.value.data)
        for op in dims
        if type(op) is cute.DimOp and isinstance(whole := _whole(op), BlockArgument)
    }


def _whole(op: cute.DimOp) -> SSAValue:
    """Of what an extent is: for a member, that of its group."""
    whole, _ = _tensor_of(op)
    if isinstance(whole, OpResult) and type(whole.op) is cute.MemberOp:
        return whole.op.group
    return whole


def _behind(waiting: list[SSAValue]) -> set[SSAValue]:
    """Some values, and all that they are computed from."""
    needed: set[SSAValue] = set()
    while waiting:
        value = waiting.pop()
        if value not in needed:
            needed.add(value)
            waiting += _sources(value)
    return needed


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """The values that a value is computed from, through loops and branches."""
    if type(value) is OpResult:
        sources = _OF_RESULTS.get(type(value.op))
        if sources is not None:
            return sources(value.op, value.index)
        return [operand for operand in sources_of(value.op) if not _is_state(operand)]
    assert isinstance(value, BlockArgument)
    parent = value.block.parent_op()
    sources = _OF_ARGUMENTS.get(type(parent))
    return () if sources is None else sources(parent, value)


def _of_loop(op: scf.ForOp, at: int) -> Sequence[SSAValue]:
    last = op.body.block.last_op
    assert last is not None
    return op.iter_args[at], last.operands[at], op.body.block.args[at + 1]


def _of_branch(op: scf.IfOp, at: int) -> Sequence[SSAValue]:
    return [region.block.last_op.operands[at] for region in op.regions]  # type: ignore[union-attr]


def _of_while(op: scf.WhileOp, at: int) -> Sequence[SSAValue]:
    last = op.before_region.block.last_op
    assert isinstance(last, scf.ConditionOp)
    return (last.args[at],)


def _carried(op: scf.ForOp, argument: BlockArgument) -> Sequence[SSAValue]:
    at, last = argument.index - 1, op.body.block.last_op
    assert last is not None
    return (op.iter_args[at], last.operands[at]) if at >= 0 else (op.lb, op.ub, op.step)


def _passed(op: scf.WhileOp, argument: BlockArgument) -> Sequence[SSAValue]:
    at = argument.index
    if argument.block is op.after_region.block:
        return _of_while(op, at)
    last = op.after_region.block.last_op
    assert last is not None
    return op.arguments[at], last.operands[at]


def _of_nothing(op: Operation, at: int) -> Sequence[SSAValue]:
    return ()


_OF_RESULTS: dict[type[Operation], Callable[[Any, int], Sequence[SSAValue]]] = {
    scf.ForOp: _of_loop,
    scf.IfOp: _of_branch,
    scf.WhileOp: _of_while,
    cute.MapOp: _of_nothing,
    cute.AnyOp: _of_nothing,
    pipeline.IndexOp: _of_nothing,
}
_OF_ARGUMENTS: dict[Any, Callable[[Any, BlockArgument], Sequence[SSAValue]]] = {
    scf.ForOp: _carried,
    scf.WhileOp: _passed,
}


_STATES = (pipeline.StateType, pipeline.RingType, FragmentType)


def _is_state(value: SSAValue) -> bool:
    return type(value.type) in _STATES
