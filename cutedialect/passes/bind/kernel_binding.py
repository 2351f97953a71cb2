"""What binding a kernel's tiles needs everywhere: its schedule, the atoms chosen so far, tensor
maps, where to put new ops, the conversion between two thread-value layouts, and ops for columns of
tiles.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TypeVar, Unpack

from xdsl.dialects import scf
from xdsl.dialects.builtin import UnitAttr, i1
from xdsl.ir import Attribute, Block, Operation, OpResult, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import (
    FenceTensorMapsOp,
    MakeTmaDescriptorOp,
    TmaDescriptorType,
    UniversalCopyType,
)
from cutedialect.dialects.walks import holds
from cutedialect.layout import Layout, Swizzle, TiledCopy
from cutedialect.passes.analysis.layout_inference import (
    contiguous_mode,
)
from cutedialect.passes.analysis.memory_views import (
    Expression,
    tensor_dependences,
)
from cutedialect.passes.analysis.mma_choice import BoundMma
from cutedialect.passes.analysis.multiply_pairs import half_type
from cutedialect.passes.analysis.results import type_of_columns
from cutedialect.passes.analysis.smem_layouts import (
    Staging,
    exchange_layout,
    is_held,
    staging_layout,
)
from cutedialect.passes.analysis.tensor_maps import (
    TensorTile,
    boxes_into,
)
from cutedialect.passes.analysis.thread_layouts import (
    GROUP_WARPS,
    Parts,
    group_parts,
    in_vectors,
    project,
    same_elements,
)
from cutedialect.passes.launch_arguments import add_argument, on_host
from cutedialect.passes.rewriting import as_bytes, as_conditions, block_of, erase, insert_before
from cutedialect.passes.tile.split_rows import shift_coordinates
from cutedialect.schedule import Choices, replace_set

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
        # Those of threads that load and that compute: of the schedule, or as many as roles will
        # get, once atoms say how operands come.
        self.registers = self.schedule.registers
        self.threads = kernel.threads.value.data
        self.atoms: dict[cute.GemmOp, BoundMma] = {}
        # The tiled copies that register tiles have their layouts from.
        self.copies: dict[SSAValue, TiledCopy] = {}
        # Operands in shared memory, by the expression of their tile in memory.
        self.staged: dict[Expression, Staged] = {}
        # Tiles in shared memory that threads read, for operands computed on their way.
        self.read: dict[Expression, Staged] = {}
        # Register tiles in shared memory, by the copies that have brought them there.
        self.written: dict[SSAValue, cute.CopyOp] = {}
        # Operands in tensor memory: the rows that one warp of a multiply holds together.
        self.units_of_tensors: dict[cute.AllocTmemOp, int] = {}
        # Tiles as they are multiplied: by their element type, and the order of their depth.
        self.prepared: dict[tuple[SSAValue, Attribute, Layout | None], SSAValue] = {}
        # Conversions of tiles of one type take turns: each starts when all have left the last one.
        self.scratch: dict[tuple[cute.MemRefType, Parts | int | None], SSAValue] = {}
        self.maps = TensorMaps(kernel)
        self.dependences = tensor_dependences(kernel)
        # Of a program without a multiply whose warps all do the same: the warps over its tiles.
        self.grid = (
            self.warps
            if self.schedule.plan.loads is None and not holds(kernel, cute.GemmOp)
            else None
        )
        self.is_specialized = self.schedule.plan.loads is not None
        # What was inserted in front of the program, in order.
        self.tops: list[Operation] = []

    def choose(self, **choices: Unpack[Choices]) -> None:
        """Fill in what the schedule has left open."""
        self.schedule = replace_set(self.schedule, {**choices})
        self.kernel.properties["schedule"] = cute.ScheduleAttr(self.schedule)

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
        is_stored: bool = False,
    ) -> SSAValue | str:
        """The tensor map for copies between a tile in gmem, which `is_stored` or loaded, and its
        buffer, or the half of it that a CTA of a pair keeps; or why there is none.
        """
        staged = half_type(staged) if is_half else staged
        found = boxes_into(tile, staged, share, is_half, is_stored)
        if isinstance(found, str):
            return found
        packed = is_held(cute.element_of(tile.type), staged.element)
        element = staged.element if packed else element
        return self.maps.descriptor(*found, staged.swizzle, element, packed)

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


class TensorMaps:
    """The tensor maps of one kernel, one for each (tensor, box, swizzle)."""

    def __init__(self, kernel: cute.KernelOp) -> None:
        self.kernel = kernel
        self.known: dict[tuple[SSAValue, TmaDescriptorType], SSAValue] = {}

    def descriptor(
        self,
        tile: TensorTile,
        box: tuple[int, ...],
        swizzle: Swizzle | None,
        element: Attribute | None = None,
        packed: bool = False,
    ) -> SSAValue:
        """The map for boxes of `box` (by the tile's modes): a kernel argument, or for a member of
        a group a member of an argument. `element` is the map's where it is not the tensor's,
        whose bytes hold it where it is `packed`.
        """
        tensor = tile.tensor
        type_ = cute.memref_of(tensor)
        extents = [1] * type_.rank
        for mode, extent in zip(tile.modes, box, strict=True):
            if mode >= 0:
                extents[mode] = extent
        described = TmaDescriptorType.get(
            *(element or type_.element, tuple(extents), swizzle, tile.sliced, tile.window),
            packed=packed,
        )
        found = self.known.get((tensor, described))
        if found is None:
            found = self.known[tensor, described] = self._add(tensor, described)
        return found

    def _add(self, tensor: SSAValue, described: TmaDescriptorType) -> SSAValue:
        member = tensor.owner if isinstance(tensor.owner, cute.MemberOp) else None
        root = tensor if member is None else member.group
        type_ = described if member is None else cute.GroupType(described)

        def make(launch: cute.LaunchOp) -> MakeTmaDescriptorOp:
            return MakeTmaDescriptorOp(on_host(self.kernel, launch, root), type_)

        name = f"t{root.name_hint or ''}"
        added = add_argument(self.kernel, type_, name, make)
        if member is None:
            return added
        return self._member_map(member, added)

    def _member_map(self, member: cute.MemberOp, maps: SSAValue) -> SSAValue:
        """The map of a group's member, from a table that the host wrote to global memory."""
        block = self.kernel.body.block
        first = block.first_op
        assert first is not None
        fence = FenceTensorMapsOp(maps)
        fence.location = member.location
        block.insert_op_before(fence, first)
        taken = cute.MemberOp(maps, member.index)
        taken.location = member.location
        taken.result.name_hint = maps.name_hint
        block_of(member).insert_op_after(taken, member)
        return taken.result


class TileColumns:
    """Ops for the columns of tiles from a first one on, in front of a place. Loads and maps of
    `cut` are done for these columns alone; of other register tiles the columns are taken out.
    """

    def __init__(
        self, first: int, columns: int, before: Operation, cut: Collection[Operation] = ()
    ) -> None:
        self.first, self.columns, self.before, self.cut = first, columns, before, cut
        # What is used in the place of whole tiles, and of views of memory in copies of loops.
        self.made: dict[SSAValue, SSAValue] = {}

    def insert(self, op: Operation) -> Operation:
        insert_before(self.before, op)
        return op

    def view(self, memory: SSAValue) -> SSAValue:
        """These columns of a tile in memory."""
        memory = self.made.get(memory, memory)
        rows, columns = cute.shape_of(memory.type)
        if columns == self.columns:
            return memory
        return self.insert(cute.SubviewOp(memory, (0, self.first), (rows, self.columns))).results[0]

    def held(self, tile: cute.FragmentType) -> SSAValue:
        """A new register tile for these columns of one."""
        return self.insert(cute.AllocFragmentOp(self.type_of(tile))).results[0]

    def of(self, value: SSAValue) -> SSAValue:
        """These columns of a tile; a value that has not as many columns itself."""
        if isinstance(value.type, cute.MemRefType):
            return self.view(value)
        shape = value.type.shape if isinstance(value.type, cute.FragmentType) else ()
        if len(shape) != 2 or shape[1] in (1, self.columns):
            return self.made.get(value, value)
        if value not in self.made:
            self.made[value] = self._made(value)
        return self.made[value]

    def _made(self, value: SSAValue) -> SSAValue:
        op = value.owner
        if isinstance(op, cute.LoadOp | cute.MapOp) and op in self.cut:
            return self.done(op)
        type_ = self.type_of(cute.fragment_of(value))
        return self.insert(cute.ExtractOp(value, (0, self.first), type_)).results[0]

    def done(self, op: cute.LoadOp | cute.MapOp) -> SSAValue:
        """These columns of what an op loads or computes."""
        type_ = self.type_of(op.result.type)
        if isinstance(op, cute.LoadOp):
            made = cute.LoadOp(self.of(op.source), type_)
            made.attributes.update(op.attributes)
        else:
            inputs = [self.of(each) for each in op.inputs]
            body = op.body.clone()
            shift_coordinates(body.block, 1, self.first)
            made = cute.MapOp(inputs, type_, body)
        return self.insert(made).results[0]

    def copy(self, ops: Iterable[Operation]) -> None:
        """Do ops for these columns, in their order, with the scalar code between them."""
        for op in ops:
            tiles = [each for each in op.operands if isinstance(each.type, cute.FragmentType)]
            if isinstance(op, scf.ForOp):
                self._copy_loop(op)
            elif isinstance(op, cute.LoadOp | cute.MapOp):
                self.made[op.result] = self.done(op)
            elif tiles:
                self.insert(op.clone({value: self.of(value) for value in op.operands}))
            else:
                copied = self.insert(op.clone(self.made))
                self.made.update(zip(op.results, copied.results, strict=True))

    def _copy_loop(self, loop: scf.ForOp) -> None:
        low, high, step = (self.made.get(each, each) for each in (loop.lb, loop.ub, loop.step))
        body = Block([scf.YieldOp()], arg_types=loop.body.block.arg_types)
        copied = self.insert(scf.ForOp(low, high, step, [], body))
        copied.attributes.update(loop.attributes)
        self.made[loop.body.block.args[0]] = body.args[0]
        assert body.last_op is not None
        outer, self.before = self.before, body.last_op
        self.before.location = loop.location
        self.copy([op for op in loop.body.block.ops if not isinstance(op, scf.YieldOp)])
        self.before = outer

    def type_of(self, tile: cute.FragmentType) -> cute.FragmentType:
        """The type of these columns."""
        type_ = type_of_columns(tile, self.columns)
        assert type_ is not None, "columns of which every thread holds as much as of others"
        return type_
