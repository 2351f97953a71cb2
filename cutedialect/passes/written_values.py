"""What an op writes to beside its results: passes that move ops past each other ask for it."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import CopyOp, FillOp, GemmOp


def written(op: Operation) -> tuple[SSAValue, ...]:
    """The register tiles and views that an op changes; not those of ops inside of it."""
    match op:
        case FillOp():
            return (op.fragment,)
        case CopyOp():
            return (op.destination,)
        case GemmOp():
            return (op.acc,)
        case _:
            return ()
