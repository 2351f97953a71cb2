"""Scales of blocks for multiplies of `mma.sync`: panels come to shared memory beside the operands,
and each thread reads words of them, of four scales of a row, in front of the multiplies that take
them.

A lane of a warp has the word of row 8 (lane % 4) + lane / 4 of each 32 rows that the warp
multiplies, so that one register of the warp serves two instructions' rows of A, or four
instructions' columns of B.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.dialects.builtin import i32
from xdsl.ir import SSAValue

from cutedialect.atoms.block_scaled_atoms import QUAD, BlockScaledAtom
from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import UniversalCopyType
from cutedialect.layout import Layout
from cutedialect.passes.analysis.mma_choice import BoundMma
from cutedialect.passes.analysis.thread_layouts import tv_layout
from cutedialect.passes.bind.staged_operands import StagedOperands, brought_once

# Bytes of a vector of words, and bits of the widest load.
_VECTOR, _WIDEST = 16, 128
_EIGHT = 8


def words_layout(rows: int, warps: Sequence[int], along: int) -> Layout:
    """Which thread has what of the words (panels, 128) of so many rows, which mode `along` of a
    grid of warps shares.

    >>> print(words_layout(128, (2, 2), 0))
    ((4,8,2,2),2):((32,4,2,0),1)
    >>> print(words_layout(128, (8, 1), 0))
    ((2,2,8,2,4),1):((32,0,4,64,1),0)
    """
    panels, mine = rows // cute.PANEL_ROWS, rows // warps[along]
    lanes, groups = cute.PANEL_LANES, cute.PANEL_GROUPS
    group, row = panels, groups * panels
    quads = mine // _EIGHT
    if quads >= QUAD:
        quad = [(QUAD, _EIGHT * row)]
    else:
        quad = [(quads, _EIGHT * row), (QUAD // quads, 0)]
    if mine >= cute.PANEL_ROWS:
        steps = [(warps[along], mine // cute.PANEL_ROWS)]
        values = [(groups, group), (mine // cute.PANEL_ROWS, 1)]
    elif mine >= lanes:
        held = mine // lanes
        steps, values = [(groups // held, held * group), (panels, 1)], [(held, group)]
    else:
        steps = [(lanes // mine, mine * row), (groups, group), (panels, 1)]
        values = [(1, 0)]
    others = [(warps[1 - along], 0)]
    grid = [*steps, *others] if along == 0 else [*others, *steps]
    return tv_layout((*quad, (_EIGHT, row), *grid), values)


class ScaleWords:
    """The words of one multiply, staged once, and loaded for its parts of the depth."""

    def __init__(self, binding: StagedOperands, op: cute.GemmOp, bound: BoundMma) -> None:
        assert isinstance(bound.atom, BlockScaledAtom)
        self.binding, self.op, self.bound, self.atom = binding, op, bound, bound.atom
        self.buffers = [
            self._staged(name, value) for name, value in zip("ab", op.factors, strict=True)
        ]
        self.loaded: dict[int, list[SSAValue]] = {}

    def _staged(self, name: str, value: SSAValue) -> SSAValue:
        """The panels of an operand in shared memory as they lie in global memory."""
        type_ = cute.memref_of(value)
        panels, words = cute.shape_of(type_)
        layout = Layout((panels, words), (words, 1)), None, _VECTOR
        buffer = self.binding.smem_buffer(i32, layout, self.op, f"scales_{name}")
        self.binding.copy_to_smem(value, buffer, brought_once(value, self.op))
        return buffer

    def at(self, first: int, is_last: bool) -> tuple[list[SSAValue], int]:
        """The words of both operands that have the scale `first` of the depth, and which one of a
        word it is. The last part of a trip has words of its own: those of the first part of the
        next one are loaded in front of it.
        """
        column, at = divmod(first, cute.PANEL_COLUMNS)
        if is_last or column not in self.loaded:
            self.loaded[column] = [
                self._loaded(buffer, along, column) for along, buffer in enumerate(self.buffers)
            ]
        return self.loaded[column], at

    def _loaded(self, buffer: SSAValue, along: int, column: int) -> SSAValue:
        panels, _ = cute.shape_of(buffer.type)
        shape = panels, cute.PANEL_ROWS
        part = cute.SubviewOp(buffer, (0, column * cute.PANEL_ROWS), shape)
        view = self.binding.insert(part, self.op).result
        tv = words_layout(panels * cute.PANEL_ROWS, self.bound.warps, along)
        type_ = cute.FragmentType.get(i32, shape, tv)
        return self.binding.loaded(view, type_, UniversalCopyType.get(i32, _WIDEST), self.op)
