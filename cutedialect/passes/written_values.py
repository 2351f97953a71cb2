"""What ops read, and write to beside their results: passes that move ops past each other ask."""

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


def written_by(*ops: Operation) -> set[SSAValue]:
    """What ops and those inside of them change."""
    return {value for op in ops for inner in op.walk() for value in written(inner)}


def used_by(*ops: Operation) -> set[SSAValue]:
    """The operands of ops and of those inside of them."""
    return {value for op in ops for inner in op.walk() for value in inner.operands}
