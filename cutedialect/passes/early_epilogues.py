"""Epilogues in parts: what computes and writes shared memory, which can be done beside the next
tile's exponentials, and what warps decide when they have met for that.

    part = f(total); meet until stores have been read; write o * part; fence;
    y = any x(o); if y { ... } else { store what was written }

A step of `cute-overlap-tiles`, behind `passes/shared_meetings.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import math
from xdsl.ir import Operation, SSAValue
from xdsl.traits import is_side_effect_free

from cutedialect.dialects.cute import AnyOp, BarrierOp, FragmentType, MapOp
from cutedialect.dialects.cute_nvgpu import ProxyFenceOp, TmaStoreWaitOp
from cutedialect.passes.overlap import behind
from cutedialect.passes.written_values import used_by, written_by

_REGISTER_BITS = 32
# What does not move to the other side of writes to shared memory.
_IN_ORDER = (BarrierOp, ProxyFenceOp, TmaStoreWaitOp)
# Values of a thread that are worth more than a wait.
_MANY = 8


@dataclass(frozen=True)
class EarlyEpilogue:
    """The parts of an epilogue: `ahead` does not need the accumulator, `written` does, and
    `closing` makes known what that wrote. `late` begins with what it computes again, and reads
    register tiles of the others, `kept`.
    """

    ahead: tuple[Operation, ...]
    written: tuple[Operation, ...]
    closing: tuple[Operation, ...]
    kept: tuple[SSAValue, ...]
    late: tuple[Operation, ...]


def early_epilogue(epilogue: Sequence[Operation], acc: SSAValue) -> EarlyEpilogue | None:
    """The parts around the first decision; None where there is none, or where what follows it
    touches the accumulator or what the early part cannot leave behind.
    """
    at = next((at for at, op in enumerate(epilogue) if isinstance(op, AnyOp)), None)
    if at is None:
        return None
    early, late = list(epilogue[:at]), list(epilogue[at:])
    made: dict[SSAValue, Operation] = {value: op for op in early for value in op.results}
    changed = written_by(*early)
    kept: set[SSAValue] = set()
    again: set[Operation] = set()
    pending = [*used_by(*late)]
    while pending:
        value = pending.pop()
        if value == acc:
            return None
        op = made.get(value)
        if op is None or value in kept or op in again:
            continue
        if isinstance(value.type, FragmentType) and value.type.bits == _REGISTER_BITS:
            kept.add(value)
        elif is_side_effect_free(op) or isinstance(op, MapOp):
            if changed & used_by(op):
                return None
            again.add(op)
            pending += used_by(op)
        else:
            return None
    repeated = [op for op in early if op in again]
    needing = behind(early, None, acc, _IN_ORDER)
    ahead = tuple(op for op in early if op not in needing)
    fences = [at for at, op in enumerate(needing) if isinstance(op, ProxyFenceOp)]
    end = fences[0] if fences else len(needing)
    parts = tuple(needing[:end]), tuple(needing[end:])
    left = tuple(value for value in made if value in kept)
    return EarlyEpilogue(ahead, *parts, left, (*repeated, *late))


def exponentials(ops: Sequence[Operation]) -> int | None:
    """The place of the first op that computes many exponentials."""
    for at, op in enumerate(ops):
        if isinstance(op, MapOp) and any(isinstance(inner, math.Exp2Op) for inner in op.walk()):
            assert isinstance(op.result.type, FragmentType)
            if op.result.type.values > _MANY:
                return at
    return None
