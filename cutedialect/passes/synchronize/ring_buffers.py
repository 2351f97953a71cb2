"""The storage of rings: a buffer with one more mode, the stage, and the stages that a loop uses."""

from __future__ import annotations

from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Attribute, SSAValue

from cutedialect.atoms.tmem_layouts import LANE
from cutedialect.dialects.cute import MemRefType, StageOp
from cutedialect.layout import Layout, cosize
from cutedialect.passes.scalar_ops import ScalarBuilder

AHEAD = "ahead"
"""The attribute of a `cute.stage`: of which trip of the loop around it that is the stage, counted
from the present one."""


def stage_of(build: ScalarBuilder, ring: SSAValue, index: SSAValue, ahead: int) -> StageOp:
    """The stage of the trip so many ahead of the present one."""
    stage = StageOp(ring, index)
    stage.attributes[AHEAD] = IntegerAttr(ahead, i32)
    build.insert(stage)
    return stage


def ring_type(type_: Attribute, stages: int) -> MemRefType:
    """Type of a ring of `stages` buffers of a type."""
    assert isinstance(type_, MemRefType)
    extent = cosize(Layout(type_.modes, type_.stride))
    # A stage starts on the swizzle's repeat, so that the pattern is the same in each.
    repeat = max(1, type_.alignment * 8 // type_.bits)
    if type_.space == "tmem":
        # Stages lie side by side, in all lanes.
        packed = 32 // type_.bits
        extent, repeat = 1 + (extent - 1) % (LANE * packed), packed
    extent = -(-extent // repeat) * repeat
    return type_.with_layout(Layout((*type_.modes, stages), (*type_.stride, extent)))
