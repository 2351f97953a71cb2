"""What binding a kernel's tiles needs everywhere: its schedule, the atoms chosen so far, tensor
maps, where to put new ops, and the conversion between two thread-value layouts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

from xdsl.dialects.builtin import UnitAttr, i1
from xdsl.ir import Attribute, Operation, OpResult, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import UniversalCopyType
from cutedialect.dialects.walks import holds
from cutedialect.layout import Layout, TiledCopy
from cutedialect.passes.bind.layout_inference import contiguous_mode
from cutedialect.passes.bind.mma_choice import BoundMma
from cutedialect.passes.bind.multiply_pairs import half_type
from cutedialect.passes.bind.smem_layouts import Staging, exchange_layout, staging_layout
from cutedialect.passes.bind.tensor_maps import (
    TensorMaps,
    boxes_of,
    part_of,
)
from cutedialect.passes.bind.thread_layouts import (
    GROUP_WARPS,
    Parts,
    group_parts,
    in_vectors,
    project,
    same_elements,
)
from cutedialect.passes.rewriting import as_bytes, as_conditions, block_of, erase
from cutedialect.passes.synchronize.memory_views import Expression, tensor_dependences

_OpT = TypeVar("_OpT", bound=Operation)


@dataclass(frozen=True)
class Staged:
    """A tile of global memory, its buffer in shared memory, whether that holds its transpose, and
    the op that copies it.
    """

    value: SSAValue
    buffer: SSAValue
    is_turned: bool
    copy: Operation


class KernelBinding:
    """One kernel while its tiles are bound."""

    def __init__(self, kernel: cute.KernelOp, arch: str) -> None:
        if kernel.schedule is None or kernel.schedule.data.warps is None or kernel.threads is None:
            raise PassFailedException(
                kernel, "expected a schedule with warps (run cute-tile first), got none"
            )
        self.kernel = kernel
        self.arch = arch
        self.schedule = kernel.schedule.data
        self.warps = kernel.schedule.data.warps
        self.threads = kernel.threads.value.data
        self.atoms: dict[cute.GemmOp, BoundMma] = {}
        # The tiled copies that register tiles have their layouts from.
        self.copies: dict[SSAValue, TiledCopy] = {}
        # Operands in shared memory, by the expression of their tile in memory.
        self.staged: dict[Expression, Staged] = {}
        # Operands in tensor memory: the rows that one warp of a multiply holds together.
        self.units_of_tensors: dict[cute.AllocTmemOp, int] = {}
        # Tiles as they are multiplied: by their element type, and the order of their depth.
        self.prepared: dict[tuple[SSAValue, Attribute, Layout | None], SSAValue] = {}
        # Conversions of tiles of one type take turns: each starts when all have left the last one.
        self.scratch: dict[tuple[cute.MemRefType, Parts | int | None], SSAValue] = {}
        self.maps = TensorMaps(kernel)
        self.unmapped = ""
        self.dependences = tensor_dependences(kernel)
        # Of a program without a multiply whose warps all do the same: the warps over its tiles.
        self.grid = (
            self.warps
            if self.schedule.roles == "uniform" and not holds(kernel, cute.GemmOp)
            else None
        )
        self.is_specialized = self.schedule.has_load_role
        # What was inserted in front of the program, in order.
        self.tops: list[Operation] = []

    def insert(self, op: _OpT, before: Operation) -> _OpT:
        op.location = before.location
        block_of(before).insert_op_before(op, before)
        return op

    def insert_top(self, op: _OpT, like: Operation) -> _OpT:
        """Insert an op in front of the program, behind those that were inserted so before."""
        op.location = like.location
        block = self.kernel.body.block
        last = next((each for each in reversed(self.tops) if each.parent is block), None)
        if last is not None:
            block.insert_op_after(op, last)
        elif block.first_op is not None:
            block.insert_op_before(op, block.first_op)
        self.tops.append(op)
        return op

    def smem_buffer(
        self,
        element: Attribute,
        staging: Staging,
        like: Operation,
        name: str | None = None,
        alignment: int = 128,
        mark: str | None = None,
    ) -> OpResult:
        """A new buffer in shared memory: of this layout, swizzle and alignment, or one of more
        bytes; with an attribute `mark`.
        """
        layout, swizzle, least = staging
        type_ = cute.MemRefType.get(element, "smem", max(least, alignment), layout, swizzle)
        alloc = self.insert_top(cute.AllocSmemOp(type_), like)
        alloc.result.name_hint = name
        if mark is not None:
            alloc.attributes[mark] = UnitAttr()
        return alloc.result

    def tensor_map(
        self,
        tile: SSAValue,
        staged: cute.MemRefType,
        share: int,
        element: Attribute | None = None,
        is_half: bool = False,
    ) -> SSAValue | None:
        """The tensor map for copies between a tile in gmem and its buffer, or the half of it that a
        CTA of a pair keeps; where there is none, `unmapped` says why.
        """
        staged = half_type(staged) if is_half else staged
        shape = staged.shape if is_half else part_of(tile).shape
        found = boxes_of(tile, shape, staged.layout, share)
        if isinstance(found, str):
            self.unmapped = found
            return None
        return self.maps.descriptor(*found, staged.swizzle, element)

    def converted(
        self, value: SSAValue, tv: Layout, before: Operation, is_stored: bool = False
    ) -> SSAValue:
        """`value` in the layout `tv`: as it is, with registers permuted, or through smem. What
        `is_stored` goes through a layout of its own choice, in vectors where either side has some.
        """
        type_ = cute.fragment_of(value)
        have = type_.bound
        if have == tv:
            return value
        wanted = type_.with_tv(tv)
        if same_elements(have, tv):
            return self.insert(cute.ConvertOp(value, wanted), before).results[0]
        if type_.element == i1:
            # Conditions have no place in memory: they go as bytes.
            bytes_ = self.insert(as_bytes(value), before).result
            there = self.converted(bytes_, tv, before)
            return self.insert(as_conditions(there), before).result
        if (self.grid is not None or is_stored) and len(type_.shape) == 2:
            layout, swizzle, alignment = exchange_layout(have, tv, type_.shape, type_.bits)
        else:
            layout, swizzle, alignment = staging_layout(type_.shape, 0, type_.bits, have, tv)
        smem = cute.MemRefType.get(type_.element, "smem", alignment, layout, swizzle)
        # Warpgroups that exchange values among themselves meet alone, in a buffer that only such
        # as divide the tile in the same way use.
        parts = group_parts(have, tv)
        scratch = self.scratch_of(smem, parts, before)
        atom = UniversalCopyType.get(type_.element, 128)
        warps = None if parts is None else GROUP_WARPS
        self.insert(cute.BarrierOp(warps), before)
        self.insert(cute.CopyOp(value, scratch, atom=atom), before)
        self.insert(cute.BarrierOp(warps), before)
        return self.loaded(scratch, wanted, atom, before)

    def loaded(
        self, memory: SSAValue, type_: cute.FragmentType, atom: Attribute, before: Operation
    ) -> SSAValue:
        """A new register tile of what lies in shared or tensor memory."""
        fragment = self.insert(cute.AllocFragmentOp(type_), before).result
        self.insert(cute.CopyOp(memory, fragment, atom=atom), before)
        return fragment

    def scratch_of(
        self, type_: cute.MemRefType, users: Parts | int | None, before: Operation
    ) -> SSAValue:
        """The buffer of a type through which the same threads exchange tiles in turn."""
        scratch = self.scratch.get((type_, users))
        if scratch is None:
            alloc = cute.AllocSmemOp(type_)
            alloc.attributes["scratch"] = UnitAttr()
            scratch = self.scratch[type_, users] = self.insert_top(alloc, before).results[0]
        return scratch

    def in_vectors(self, tile: cute.FragmentType, memory: cute.MemRefType) -> Layout:
        """The layout in which a streaming program moves a register tile between itself and memory:
        elements that share a register lie together in memory, where a thread has such.
        """
        mode = contiguous_mode(memory)
        if self.grid is None or mode is None or not 8 <= tile.bits < 32:
            return tile.bound
        return in_vectors(tile.bound, tile.shape, mode)

    def meet_rows(self, user: Operation) -> None:
        """Let an op that loads or stores numbered rows find their numbers in the threads that have
        the rows.
        """
        for index, memory in enumerate(user.operands):
            made = memory.owner
            if not isinstance(made, cute.IndexedTileOp):
                continue
            tile = user.results[0] if isinstance(user, cute.LoadOp) else user.operands[0]
            type_ = cute.fragment_of(tile)
            wanted = project(type_.bound, type_.shape, cute.shape_of(made.rows.type))
            rows = self.converted(made.rows, wanted, made)
            places = made.places and self.converted(made.places, wanted, made)
            of = None if made.of is None else made.counted
            extents = made.tile.get_values()
            again = cute.IndexedTileOp(made.memref, extents, made.coords, rows, of, places)  # pyright: ignore
            again.attributes |= made.attributes
            user.operands[index] = self.insert(again, made).results[0]
            if not made.result.uses:
                erase(made)
