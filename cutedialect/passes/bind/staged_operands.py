"""Operands of multiplies in shared memory: which buffer a tile gets there, shared by the multiplies
that read it, and the copy that brings it, by TMA, `cp.async` or through registers. A register tile
may be A in tensor memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects.builtin import Float32Type, FloatTF32Type, i32
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.allocation import registers_at_start
from cutedialect.atoms import target
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.atoms.tmem_layouts import LANE, LANES
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects import cute
from cutedialect.dialects.cute.storage import PAIR, is_paired
from cutedialect.dialects.cute_nvgpu import (
    OperandCopyType,
    SimtAsyncCopyType,
    TmaLoadType,
    TmemStoreType,
    UniversalCopyType,
)
from cutedialect.layout import Layout, TiledCopy
from cutedialect.passes.analysis.gathered_rows import IN_FOURS, numbers_in_fours
from cutedialect.passes.analysis.layout_inference import (
    around_layout,
    coalesced_for,
    contiguous_mode,
    named_layout,
    operand_major,
    shifted_copy,
    takes_async_copy,
    vector_bytes,
)
from cutedialect.passes.analysis.memory_views import expression_of, place_in
from cutedialect.passes.analysis.mma_choice import (
    goes_through_smem,
    parts_of_rows,
    untransposed,
)
from cutedialect.passes.analysis.multiply_pairs import paired_type
from cutedialect.passes.analysis.operand_plans import (
    AHEAD,
    ASYNC,
    BOXES,
    LINES,
    ROWS,
    SHIFTS,
    SOURCES,
    TILE,
    WARPS,
    Load,
    OperandPlan,
    asks_boxes,
    carrier_of,
    declined_plan,
    multiplied_element,
    plan_of,
    why_no_boxes,
)
from cutedialect.passes.analysis.role_plan import PREPARING_WARPS
from cutedialect.passes.analysis.smem_layouts import (
    OPERAND,
    held_type,
    in_half_lines,
    operand_layout,
    staging_layout,
    with_fewest_turns,
    with_order,
)
from cutedialect.passes.analysis.tensor_accumulators import factor_columns, operand_tensor_layout
from cutedialect.passes.analysis.tensor_columns import columns_too_many
from cutedialect.passes.analysis.tensor_maps import part_of, sharing
from cutedialect.passes.analysis.thread_layouts import copied, project, tensor_shape
from cutedialect.passes.bind.gathered_rows import copy_in_fours
from cutedialect.passes.bind.kernel_binding import KernelBinding, Staged
from cutedialect.passes.bind.result_stores import staging_atom
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import block_of, erase

# Warps of a warpgroup; bytes of a register and of the widest copy.
_GROUP = 4
_WORD, _VECTOR = 4, 16
_DOUBLE_BITS = 64
# Bytes of a panel of scales, which one instruction copies to tensor memory.
_PANEL_BYTES = cute.PANEL_ROWS * cute.PANEL_COLUMNS
# The share of a thread's registers, and how many less, for accumulators and what is loaded.
_HELD, _OTHERS = 0.75, 30


class StagedOperands(KernelBinding):
    """A kernel whose operands are staged while its tiles are bound."""

    def _put_in_tmem(self, op: cute.GemmOp, value: SSAValue) -> SSAValue | None:
        """A register tile in tensor memory, as A of `tcgen05.mma`; None where it cannot be there:
        `tcgen05.st` writes elements of 16 bits as a thread holds those of an accumulator. Whether
        the columns suffice is known when accumulators are there (`leave_tensor_memory`).
        """
        bound, type_ = self.atoms[op], value.type
        atom = bound.atom
        assert isinstance(atom, Tcgen05Atom)
        if self._is_written_anyway(value):
            return None
        if not isinstance(type_, cute.FragmentType) or value is not op.a or type_.bits != 16:
            return None
        if "tmem" not in atom.a_spaces or not bound.makes(type_):
            return None
        layout = operand_tensor_layout(type_.shape, atom, type_.bits, bound.warps[1])
        alloc = cute.AllocTmemOp(cute.MemRefType.get(type_.element, "tmem", 4, layout))
        self.units_of_tensors[alloc] = bound.units[0]
        buffer = self.insert_top(alloc, op).result
        copy = cute.CopyOp(
            value, buffer, atom=TmemStoreType.get(type_.element, tensor_shape(type_))
        )
        self.insert(copy, self._once_made(value, op))
        return buffer

    def leave_tensor_memory(self) -> None:
        """Put in shared memory the operands for which tensor memory has no columns."""
        for alloc in columns_too_many(self.kernel):
            for copy in [use.operation for use in alloc.result.uses]:
                if not isinstance(copy, cute.CopyOp):
                    continue
                tile = copy.source
                gemm = next(use.operation for use in alloc.result.uses if use.operation is not copy)
                assert isinstance(gemm, cute.GemmOp)
                buffer, atom = self._smem_operand(tile, gemm, self.units_of_tensors[alloc], False)
                self.insert(cute.CopyOp(tile, buffer, atom=atom), copy)
                erase(copy)
                alloc.result.replace_all_uses_with(buffer)
            erase(alloc)

    def _is_written_anyway(self, value: SSAValue) -> bool:
        """Whether another multiply reads a register tile from shared memory: as B, or turned."""
        tile, _ = untransposed(value)
        if tile in self.written:
            return True
        turned = [
            use.operation.results[0]
            for use in tile.uses
            if isinstance(use.operation, cute.TransposeOp)
        ]
        gemms = [(use.operation, use.index, each) for each in (tile, *turned) for use in each.uses]
        return any(
            isinstance(gemm, cute.GemmOp) and (index == 1 or each in turned)
            for gemm, index, each in gemms
        )

    def _once_made(self, tile: SSAValue, op: cute.GemmOp) -> Operation:
        """In front of which op a register tile is written where a multiply reads it: as soon as it
        is there, since a multiply that takes it from registers may be next.
        """
        made = tile.owner
        follows = (
            isinstance(made, cute.MapOp) and made.parent is op.parent and made.next_op is not None
        )
        return made.next_op if follows else op  # pyright: ignore[reportReturnType]

    def _put_in_smem(self, op: cute.GemmOp, value: SSAValue) -> SSAValue:
        """A register tile in shared memory, where descriptors find it."""
        tile, is_turned = untransposed(value)
        unit = self.atoms[op].units[value is op.b]
        known = self.written.get(tile)
        if known is not None and block_of(known).find_ancestor_op_in_block(op) is not None:
            return self._turned(known.destination, is_turned, op)
        buffer, atom = self._smem_operand(tile, op, unit, is_turned)
        copy = cute.CopyOp(tile, buffer, atom=atom)
        self.insert(copy, self._once_made(tile, op))
        if isinstance(self.atoms[op].atom, Tcgen05Atom) and not isinstance(
            tile.owner, cute.AllocFragmentOp
        ):
            self.written[tile] = copy
        return self._turned(buffer, is_turned, op)

    def stage_factors(self, op: cute.GemmOp) -> list[SSAValue]:
        """The scales of blocks of a multiply in shared memory, panel after panel as they are in
        global memory, and columns of tensor memory for them; none without scales.
        """
        if op.scales is None:
            return []
        atom, staged = self.atoms[op].atom, list[SSAValue]()
        assert isinstance(atom, Tcgen05Atom)
        in_pairs = atom.cta_group == 2
        for name, value in zip("ab", op.factors, strict=True):
            type_ = cute.memref_of(value)
            panels, words = cute.shape_of(type_)
            rows = Layout((panels, words), (words, 1)), None, _PANEL_BYTES
            buffer = self.smem_buffer(type_.element, rows, op, f"scales_{name}")
            self._reads_stored(op, value)
            # Each CTA of a pair brings its own rows' scales of A, and all of B.
            if why := self.load_by_tma(value, buffer, brought_once(value, op), not in_pairs):
                raise PassFailedException(
                    op,
                    f"expected scales of blocks that TMA brings, got {why}; leave loads out of the "
                    "schedule, align scales to 16 bytes, and take words of 64 bits for deep tiles",
                )
            staged.append(buffer)
        layout = Layout((LANES, factor_columns(op)), (LANE, 1))
        memory = cute.MemRefType.get(i32, "tmem", 4, layout)
        columns = self.insert_top(cute.AllocTmemOp(memory), op).result
        columns.name_hint = "scales"
        return [*staged, columns]

    def _smem_operand(
        self, tile: SSAValue, op: cute.GemmOp, unit: int, is_turned: bool
    ) -> tuple[SSAValue, Attribute]:
        """A buffer for a register tile that descriptors describe, and how threads write it."""
        type_ = cute.fragment_of(tile)
        parts = parts_of_rows(type_.shape, unit, is_turned)
        layout = staging_layout(type_.shape, 1, type_.bits, type_.bound, *parts)
        buffer = self.smem_buffer(type_.element, layout, op, mark=OPERAND)
        return buffer, staging_atom(self, type_, 1)

    def stage(self, op: cute.GemmOp, value: SSAValue) -> SSAValue:
        """Bring an operand tile from global memory into swizzled shared memory."""
        type_ = value.type
        if not (isinstance(type_, cute.MemRefType) and type_.space == "gmem"):
            return value
        tile, is_turned = untransposed(value)
        is_stored = self._reads_stored(op, value)
        if not is_stored:
            found = self.staged.get(expression_of(tile))
            if found is not None and (found.value is value or self._serves(found, op, is_turned)):
                return self._turned(found.buffer, found.is_turned != is_turned, op)
            part = self._inside(op, tile, is_turned)
            if part is not None:
                return part
        atom, name = self.atoms[op].atom, f"s{value.name_hint or ''}"
        if is_turned and isinstance(tile.owner, cute.IndexedTileOp):
            return self._turned(self.stage(op, tile), True, op)
        if value is op.b and isinstance(atom, Tcgen05Atom) and atom.cta_group == 2:
            smem = paired_type(op, value)
            layout = smem.layout, smem.swizzle, smem.alignment
            buffer = self.smem_buffer(smem.element, layout, op, name, mark=PAIR)
        else:
            tvs = self._readers(tile, is_turned)
            buffer = self.new_buffer(held_type(op, value), self._major(type_), op, name, tvs=tvs)
        # What the kernel has stored is brought where it is read.
        place = op if is_stored else brought_once(value, op)
        self.copy_to_smem(value, buffer, place)
        if not is_stored:
            assert place.prev_op is not None
            self.staged[expression_of(tile)] = Staged(value, buffer, is_turned, place.prev_op)
        return buffer

    def stage_load(self, op: cute.LoadOp, is_multiplied: bool = True) -> None:
        """Let the load of an operand that is computed on its way to a multiply read shared memory,
        where its tile comes as it is, ahead of the trip that computes; or that of another tile,
        which `is_multiplied` by nothing.
        """
        tile, type_ = op.source, cute.memref_of(op.source)
        # What is multiplied may have been rounded on its way.
        is_exact = is_multiplied or not isinstance(type_.element, Float32Type)
        found, key = None, expression_of(tile)
        if not self._reads_stored(op, tile) and is_exact:
            staged = self.staged.get(key) if self._multiply_themselves() else None
            found = staged or self.read.get(key)
        if found is None or block_of(found.copy).find_ancestor_op_in_block(op) is None:
            tvs = [cute.fragment_of(op.result).bound]
            name = f"s{tile.name_hint or ''}"
            buffer = self.new_buffer(type_, contiguous_mode(type_), op, name, tvs=tvs)
            self.copy_to_smem(tile, buffer, op, is_multiplied)
            assert op.prev_op is not None
            found = self.read[key] = Staged(tile, buffer, False, op.prev_op)
        op.operands[0] = self._turned(found.buffer, found.is_turned, op)
        op.attributes["atom"] = UniversalCopyType.get(type_.element, 128)

    def _reads_stored(self, op: Operation, value: SSAValue) -> bool:
        """Whether an op reads from memory what the kernel stores there itself."""
        is_stored = self.dependences.reads_stored(op, value)
        if is_stored and self.is_specialized:
            raise PassFailedException(
                op,
                "expected operands that the kernel does not store itself in the role plan "
                f"'{self.schedule.roles}', whose loading warps run ahead of the stores; take "
                "roles = uniform",
            )
        return is_stored

    def _multiply_themselves(self) -> bool:
        """Whether threads that compute read what is staged for multiplies: of what another role
        multiplies or prepares they have a buffer of their own.
        """
        return not any(
            isinstance(bound.atom, Tcgen05Atom)
            or plan_of(op, value, bound.unit).computes == "prepares"
            for op, bound in self.atoms.items()
            for value in (op.a, op.b)
        )

    def _major(self, type_: cute.MemRefType) -> int | None:
        """The mode along which the lines of an operand run in shared memory."""
        return operand_major(type_) if self.is_specialized else contiguous_mode(type_)

    def _turned(self, buffer: SSAValue, is_turned: bool, op: Operation) -> SSAValue:
        """A buffer, or its transpose."""
        return self.insert(cute.TransposeOp(buffer), op).result if is_turned else buffer

    def _inside(self, op: cute.GemmOp, tile: SSAValue, is_turned: bool) -> SSAValue | None:
        """The part of a buffer in which a tile is there already, since a wider one of the same
        tensor was staged for another multiply: values that are the first columns of keys.
        """
        if len(cute.shape_of(tile.type)) != 2:
            return None
        for found in self.staged.values():
            whole, turned = untransposed(found.value)
            origin = place_in(tile, whole)
            alloc = found.buffer.owner
            is_paired_buffer = isinstance(alloc, cute.AllocSmemOp) and is_paired(alloc)
            if origin is None or is_paired_buffer or not self._serves(found, op, is_turned):
                continue
            # A buffer has the modes of what was staged, which may be the transpose of its tile.
            shape = cute.shape_of(tile.type)[:: -1 if turned else 1]
            origin = origin[:: -1 if turned else 1]
            if not cute.has_part(found.buffer.type, origin, shape):  # pyright: ignore[reportArgumentType]
                continue
            part = self.insert(cute.SubviewOp(found.buffer, origin, shape), op).result
            return self._turned(part, turned != is_turned, op)
        return None

    def _readers(self, tile: SSAValue, is_turned: bool) -> list[Layout]:
        """How the warps of all multiplies of a tile, or of its transpose, bring it to registers,
        and where warpgroups start to read it.
        """
        found: list[Layout] = []
        staged = expression_of(tile)
        for op, bound in self.atoms.items():
            for which, value, units in zip("ab", (op.a, op.b), bound.units, strict=True):
                other, turns = untransposed(value)
                if expression_of(other) != staged:
                    continue
                shape = cute.shape_of(value.type)
                if isinstance(bound.atom, WgmmaAtom):
                    found += parts_of_rows(
                        shape[::-1] if turns != is_turned else shape, units, turns != is_turned
                    )
                elif not isinstance(bound.atom, Tcgen05Atom):
                    tv = bound.operand(which, shape)
                    found.append(tv if turns == is_turned else cute.transposed_tv(tv, shape))
        return found

    def _serves(self, found: Staged, op: cute.GemmOp, is_turned: bool) -> bool:
        """Whether a tile that was staged for one multiply is there for another one too; elements of
        16 bits are read in either direction.
        """
        if block_of(found.copy).find_ancestor_op_in_block(op) is None:
            return False
        return found.is_turned == is_turned or cute.memref_of(found.buffer).bits == 16

    def operand(self, op: cute.GemmOp, value: SSAValue, order: Layout | None = None) -> SSAValue:
        """An operand where its multiply reads it, as its plan says: a register tile, or one in
        shared memory, in the form in which it is multiplied, with its depth in an order.
        """
        bound = self.atoms[op]
        plan = plan_of(op, value, bound.unit)
        if why := declined_plan(op, value, bound.unit, self.schedule.plan):
            remark("cute-partition", op, f"operand not computed by a role that prepares: {why}")
        if plan.travels == SOURCES:
            if isinstance(bound.atom, Tcgen05Atom):
                return self._put_in_tmem(op, value) or self._put_in_smem(op, value)
            is_staged = isinstance(bound.atom, WgmmaAtom) and goes_through_smem(op, value, bound)
            return self._put_in_smem(op, value) if is_staged else value
        if plan.form is None:
            return self.stage(op, value)
        tile, is_turned = untransposed(value) if plan.travels == LINES else (value, False)
        key = tile, multiplied_element(op, value), order
        if self._reads_stored(op, value):
            return self._formed(op, plan, *key, op)
        if key not in self.prepared:
            self.prepared[key] = self._formed(op, plan, *key, brought_once(value, op))
        return self._turned(self.prepared[key], is_turned, op)

    def _formed(
        self,
        op: cute.GemmOp,
        plan: OperandPlan,
        tile: SSAValue,
        element: Attribute,
        order: Layout | None,
        place: Operation,
    ) -> SSAValue:
        """A tile in the form in which it is multiplied, by copies in front of a place: of what
        comes of it to shared memory, or on its way there.
        """
        type_, came, origin = cute.memref_of(tile), tile, None
        if plan.travels == TILE:
            came = self.stage(op, tile)
        elif plan.travels == LINES:
            came, origin = self._with_words_around(op, tile, place), tile
        tvs = self._readers(*untransposed(tile)) if self.atoms[op].unit == WARPS else ()
        major = 1 if plan.form == "transpose" else self._major(type_)
        name = f"p{tile.name_hint or ''}"
        buffer = self.new_buffer(type_, major, op, name, order, element, tvs)
        tiled = None
        if plan.form == "shift":
            # Tensor cores would cut f32 operands off where shifts can round them.
            element = FloatTF32Type() if isinstance(element, Float32Type) else element
            tiled = shifted_copy(type_, self._preparing_threads())
        elif plan.form == "convert":
            by_loading = plan.computes == "loads"
            threads = self.threads if by_loading else self._preparing_threads()
            tiled = self._tiled_copy(came, op, threads)
        atom = OperandCopyType.get(plan.form or "", element)
        shared = tiled and cute.TiledCopyAttr(tiled)
        self.insert(cute.CopyOp(came, buffer, atom=atom, tiled=shared, origin=origin), place)
        return buffer

    def _with_words_around(self, op: cute.GemmOp, tile: SSAValue, place: Operation) -> SSAValue:
        """A tile that is copied asynchronously with the aligned words around its lines."""
        type_, name = cute.memref_of(tile), f"w{tile.name_hint or ''}"
        staging = around_layout(type_), None, 128
        buffer = self.smem_buffer(type_.element, staging, op, name)
        atom = SimtAsyncCopyType.get(type_.element, "global", 128, around=True)
        tiled = cute.TiledCopyAttr(shifted_copy(type_, self.loading_threads()))
        self.insert(cute.CopyOp(tile, buffer, atom=atom, tiled=tiled), place)
        return buffer

    def new_buffer(
        self,
        type_: cute.MemRefType,
        contiguous: int | None,
        like: Operation,
        name: str,
        order: Layout | None = None,
        element: Attribute | None = None,
        tvs: Sequence[Layout] = (),
    ) -> SSAValue:
        """A new buffer for a tile, swizzled for the mode that is contiguous; `order` is that of
        the depth in it, `element` its own element type, `tvs` say how threads read it.
        """
        element = element or type_.element
        bits = cute.element_bits(element)
        bound = self.atoms.get(like) if isinstance(like, cute.GemmOp) else None
        unit = "tcgen05" if bound and isinstance(bound.atom, Tcgen05Atom) else "wgmma"
        layout, swizzle, alignment = operand_layout(type_.shape, contiguous, bits, unit, *tvs)
        if order is not None:
            layout = with_order(layout, order)
        staged = layout, swizzle, alignment
        if bits == _DOUBLE_BITS and tvs and not self.is_specialized and len(type_.shape) == 2:
            staged = with_fewest_turns(staged, type_.shape, bits, tvs)  # pyright: ignore[reportArgumentType]
        if isinstance(like, cute.LoadOp) and tvs and contiguous == 1 and len(type_.shape) == 2:
            staged = in_half_lines(staged, type_.shape, bits, tvs[0])  # pyright: ignore[reportArgumentType]
        # TMA writes whole boxes, from a line of 128 bytes on (PTX ISA 5.5).
        return self.smem_buffer(element, staged, like, name, 128 if self.is_specialized else 1)

    def copy_to_smem(
        self, source: SSAValue, buffer: SSAValue, before: Operation, is_multiplied: bool = True
    ) -> None:
        """Bring a tile to shared memory by the carrier that its plan says."""
        load = self._load_of(source, buffer, is_multiplied and bool(self.atoms))
        named_layout(before, source, load.threads)
        try:
            carrier, declined = carrier_of(load)
        except ValueError as error:
            raise PassFailedException(before, str(error)) from error
        for name, why in declined.items():
            remark("cute-partition", before, f"{name} not taken for a load: {why}")
        type_ = load.part
        rounded = FloatTF32Type() if load.is_rounded else None
        if carrier == BOXES:
            self._copy_boxes(source, buffer, before, rounded)
            return
        if carrier == ROWS:
            copy_in_fours(self, source, buffer, before)
            return
        element = rounded or type_.element
        tiled = cute.TiledCopyAttr(load.copy)
        atom: Attribute = UniversalCopyType.get(element, load.width * 8)
        if carrier == ASYNC:
            cache = "global" if load.width == _VECTOR else "always"
            atom = SimtAsyncCopyType.get(element, cache, load.width * 8)
        elif carrier == SHIFTS:
            tiled = cute.TiledCopyAttr(shifted_copy(type_, load.threads))
            atom = OperandCopyType.get("shift", element)
        elif carrier == AHEAD:
            tile = cute.FragmentType.get(element, type_.shape, copied(load.copy, type_.shape))
            source, tiled = self.insert(cute.LoadOp(source, tile, tiled), before).result, None
        self.insert(cute.CopyOp(source, buffer, atom=atom, tiled=tiled), before)

    def _load_of(self, source: SSAValue, buffer: SSAValue, is_multiplied: bool = False) -> Load:
        """The facts by which the planner says who brings a tile."""
        return Load(
            source,
            cute.memref_of(buffer),
            self.arch,
            by_role=self.is_specialized,
            by_threads=self.schedule.loads == "threads",
            threads=self.loading_threads() if self.is_specialized else self.threads,
            is_multiplied=is_multiplied,
            may_wait=self._holds_what_is_loaded,
        )

    def rows_of_copy(self, tile: cute.IndexedTileOp) -> Layout:
        """The layout of the numbers of rows, for the threads that copy these."""
        shape = cute.shape_of(tile.result.type)
        if IN_FOURS in tile.attributes:
            return numbers_in_fours(shape[0], self.loading_threads())
        threads = self.loading_threads() if self.is_specialized else self.threads
        layout = copied(coalesced_for(cute.memref_of(tile.result), threads), shape)
        return project(layout, shape, cute.shape_of(tile.rows.type))

    def _tiled_copy(self, source: SSAValue, op: Operation, threads: int) -> TiledCopy:
        """The copy of an operand, or each part of it, by so many threads: the one that the program
        names, or a coalesced one.
        """
        named_layout(op, source, threads)
        return cute.named_copy(source) or coalesced_for(part_of(source), threads)

    def _holds_what_is_loaded(self) -> bool:
        """Whether threads that compute have registers for the operands of a trip, too, which they
        load while they compute on another one's; each load with its address. Those that have not
        bring some of it at a time.
        """
        tiles = {
            expression_of(tile): part_of(tile)
            for op in self.atoms
            for tile in (untransposed(op.a)[0], untransposed(op.b)[0])
            if isinstance(tile.type, cute.MemRefType) and tile.type.space == "gmem"
        }
        bits = sum(
            prod(type_.shape) * type_.bits * _WORD // min(_WORD, vector_bytes(type_))  # pyright: ignore[reportArgumentType]
            for type_ in tiles.values()
            if not takes_async_copy(type_, self.arch)
        )
        held = {op.acc: op.acc.type for op in self.atoms}.values()
        summed = sum(
            prod(cute.shape_of(type_)) * cute.element_bits(cute.element_of(type_)) for type_ in held
        )  # pyright: ignore[reportArgumentType]
        registers = registers_at_start(self.threads // 32 * (self.schedule.ctas or 1))
        room = (_HELD * registers - _OTHERS) * self.threads
        return summed + 2 * bits <= 8 * _WORD * room

    def loading_threads(self) -> int:
        """Those of the role that loads; where a plan lets it grow, those of a warpgroup, some of
        whose warps may have to transpose or convert operands.
        """
        row = self.schedule.plan.loads
        assert row is not None
        if not row.may_grow:
            return self.threads if row.warps is None else 32 * row.warps
        shares = any(
            plan_of(op, tile, bound.unit).computes == "prepares"
            for op, bound in self.atoms.items()
            for tile in (op.a, op.b)
        )
        return 32 * (_GROUP - PREPARING_WARPS if shares else _GROUP)

    def _preparing_threads(self) -> int:
        """Those of the role that transposes, converts or shifts operands in shared memory."""
        row = self.schedule.plan.taking("prepares")
        return self.threads if row is None else 32 * (row.warps or PREPARING_WARPS)

    def load_by_tma(
        self, source: SSAValue, buffer: SSAValue, before: Operation, is_shared: bool = True
    ) -> str:
        """A TMA load into `buffer`, which may be shared by the CTAs of the cluster that want the
        same tile; or why there is none.
        """
        load = self._load_of(source, buffer)
        if not asks_boxes(load):
            return f"loads = {self.schedule.loads}"
        if why := why_no_boxes(load):
            remark("cute-partition", before, f"{BOXES} not taken for a load: {why}")
            return why
        self._copy_boxes(source, buffer, before, is_shared=is_shared)
        return ""

    def _copy_boxes(
        self,
        source: SSAValue,
        buffer: SSAValue,
        before: Operation,
        element: Attribute | None = None,
        is_shared: bool = True,
    ) -> None:
        """A TMA load of boxes, each CTA of those that share a tile its part, where they divide it;
        of a pair its half.
        """
        is_shared = is_shared and target(self.arch).multicasts
        group = sharing(source, self.schedule.cluster or (1, 1), before) if is_shared else None
        alloc, smem = buffer.owner, cute.memref_of(buffer)
        is_half = isinstance(alloc, cute.AllocSmemOp) and is_paired(alloc)
        count = 1 if group is None else group[0] // (2 if is_half else 1)
        described = self.tensor_map(source, smem, count, element, is_half=is_half)
        if is_half:
            group = (count, 2) if count > 1 else None
        elif isinstance(described, str):
            group, described = None, self.tensor_map(source, smem, 1, element)
        if isinstance(described, str):
            raise PassFailedException(before, f"expected boxes of TMA, got none: {described}")
        atom = TmaLoadType.get(cute.element_of(source.type), group, pair=is_half)
        self.insert(cute.CopyOp(source, buffer, atom=atom, descriptor=described), before)


def brought_once(tile: SSAValue, reader: Operation) -> Operation:
    """The op around `reader` before which a tile is copied once for all trips of the loops between:
    the reader itself, or what holds it in the block that makes the tile.
    """
    block = tile.owner if isinstance(tile.owner, Block) else tile.owner.parent
    outer = None if block is None else block.find_ancestor_op_in_block(reader)
    return reader if outer is None else outer
