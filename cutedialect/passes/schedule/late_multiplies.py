"""Part of a step of `cute-schedule-loops` (`multiplies_ahead.py`): the last multiply of a trip that
another one may work beside what the next trip computes.

    for j { s = q k[j]; ...; copy p, stage[j % 2]; x = stage[j % 2] k; o += p q[j] }
    =>
    for j { s = q k[j]; ...; copy p, stage[j % 2]; x = stage[j % 2] k; o += stage[j % 2] q[j] {2} }

in braces the stage (`trips.py`). A register tile that the threads of a loop write to shared memory
for one multiply, in two buffers that take turns, is there for another one, too: in the trip that
follows the buffer of the one before still holds it. So the multiply costs no registers until then,
and the tensor cores work while the next trip's tile is computed. What it reads is loaded for three
trips at a time: with two stages attention's backward pass took 4 to 7 % longer on an H200.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import AllocSmemOp, CopyOp, GemmOp, StageOp, memref_of
from cutedialect.dialects.cute_nvgpu import Sm90MmaType
from cutedialect.dialects.effects import is_in_memory, space_of, used_by, written_by
from cutedialect.passes.analysis.memory_views import root_of
from cutedialect.passes.analysis.mma_choice import is_warpgroup_multiply
from cutedialect.passes.analysis.smem_layouts import OPERAND

STAGES_IN_USE = 3
"""Stages of what a late multiply reads that are used at a time: those of the trip before, of the
present one, and of the next one's first multiply."""
# Elements that descriptors read in either direction.
_BITS = 16


@dataclass(frozen=True)
class LateMultiply:
    """A multiply, and where its A is in shared memory."""

    gemm: GemmOp
    operand: SSAValue

    def take(self) -> None:
        """Let the multiply take A from there."""
        atom = self.gemm.atom
        assert isinstance(atom, Sm90MmaType)
        shape, a, b, c, _, *rest = atom.data
        self.gemm.properties["atom"] = Sm90MmaType.get(shape, a, b, c, "smem", *rest)
        self.gemm.operands[0] = self.operand


def late_multiply(loop: scf.ForOp, ops: Sequence[Operation]) -> LateMultiply | None:
    """The last multiply of a loop's trip, if nothing else touches what it adds to, its A is a
    register tile that stays in shared memory for another trip, and other roles load its B.
    """
    gemms = [op for op in ops if isinstance(op, GemmOp) and is_warpgroup_multiply(op)]
    last = gemms[-1] if gemms else None
    if last is None or not isinstance(last.atom, Sm90MmaType) or last.atom.a_source != "rmem":
        return None
    if last.acc.owner in ops or any(
        last.acc in used_by(op) | written_by(op) for op in ops if op is not last
    ):
        return None
    if not _is_loaded_by_others(last.b, loop, ops):
        return None
    for op in ops:
        if isinstance(op, CopyOp) and op.source is last.a and _alternates(op.destination):
            return LateMultiply(last, op.destination)
    return None


def _is_loaded_by_others(value: SSAValue, loop: scf.ForOp, ops: Sequence[Operation]) -> bool:
    """Whether a loop fills a buffer of shared memory by ops that are not among these."""
    filled, mine = (
        {root_of(target) for target in written if is_in_memory(target)}
        for written in (written_by(loop), written_by(*ops))
    )
    return space_of(value) == "smem" and root_of(value) in filled - mine


def _alternates(view: SSAValue) -> bool:
    """Whether it is one of the buffers in which trips leave operands in turn."""
    made = view.owner
    ring = made.source.owner if isinstance(made, StageOp) else None
    is_operand = isinstance(ring, AllocSmemOp) and OPERAND in ring.attributes
    return is_operand and memref_of(view).bits == _BITS
