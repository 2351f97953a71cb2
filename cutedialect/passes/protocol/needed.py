"""The numbers that control and the places of accesses depend on: all that a run computes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from xdsl.dialects import scf
from xdsl.ir import BlockArgument, Operation, OpResult, SSAValue

from cutedialect.dialects import cute, pipeline
from cutedialect.dialects.cute import FragmentType

from .events import operands_of

# The operands that control and places of accesses depend on, by class of op.
_NUMBERS: dict[type[Operation], tuple[str, ...]] = {
    scf.ForOp: ("lb", "ub", "step"),
    scf.IfOp: ("cond",),
    scf.ConditionOp: ("condition",),
    cute.StageOp: ("index",),
    pipeline.ReceiveOp: ("index",),
    pipeline.RequestOp: ("index",),
    pipeline.ResponseOp: ("index", "otherwise"),
    pipeline.SendOp: ("index", "value"),
    pipeline.AdvanceOp: ("count",),
    cute.CopyOp: ("pred",),
    pipeline.ConsumerReleaseOp: ("pred",),
    pipeline.TurnWaitOp: ("pred",),
    pipeline.TurnPassOp: ("pred",),
    cute.GemmOp: ("keeps",),
    cute.ClaimOp: ("total",),
    cute.CancelLaunchOp: ("total",),
}


def needed_in(ops: Iterable[Operation]) -> set[SSAValue]:
    """The values that control and places of accesses of some ops depend on."""
    waiting: list[Any] = []
    for op in ops:
        names = _NUMBERS.get(type(op))
        if names is not None:
            waiting += operands_of(op, names)
    needed: set[SSAValue] = set()
    while waiting:
        value = waiting.pop()
        if value not in needed:
            needed.add(value)
            waiting += _sources(value)
    return needed


def _sources(value: SSAValue) -> Sequence[SSAValue]:
    """The values that a value is computed from, through loops and branches."""
    if isinstance(value, OpResult):
        sources = _OF_RESULTS.get(type(value.op))
        if sources is not None:
            return sources(value.op, value.index)
        return [operand for operand in value.op.operands if not _is_state(operand)]
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
    return (op.iter_args[at], last.operands[at]) if at >= 0 else ()


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


def _is_state(value: SSAValue) -> bool:
    return isinstance(value.type, pipeline.StateType | pipeline.RingType | FragmentType)
