"""Stores of results, bound to atoms: some columns at a time, through shared memory by TMA where a
tensor map describes the destination.

    x = map(acc, load C); copy x, D; y = map(x); copy y, E
    =>
    for each line of columns { x' = map(acc', load C'); copy x', sD; y' = map(x'); copy y', sE;
                               copy sD, D'; copy sE, E' }

What only such stores use is computed and loaded as it is stored: few registers hold results at one
time, and the first columns are on their way while the last are computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.atoms import MmaAtom, target
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import (
    AlignedStoreType,
    StsmType,
    TmaPrefetchOp,
    TmaStoreType,
    UniversalCopyType,
)
from cutedialect.dialects.effects import is_pure
from cutedialect.layout import Layout, flatten
from cutedialect.passes.bind.kernel_binding import KernelBinding
from cutedialect.passes.bind.layout_inference import (
    coalesced_for,
    contiguous_mode,
    named_layout,
    tiled_copy_of,
    vector_bytes,
)
from cutedialect.passes.bind.results import (
    Pieces,
    aligned_copy,
    argument_of,
    bits_of_results,
    columns_of_part,
    find_cut,
    fragment_of,
    has_places,
    has_registers,
    is_stored_aligned,
    line_buffer,
    reduction_of,
    registers_of_pieces,
    results_by_tma,
    rows_of,
    space_of_tile,
    takes_aligned_stores,
    type_of_part,
)
from cutedialect.passes.bind.smem_layouts import columns_at_once, staging_layout
from cutedialect.passes.bind.tensor_accumulators import accumulation_of, stays_in_tensor_memory
from cutedialect.passes.bind.tensor_maps import is_exception, why_no_map
from cutedialect.passes.bind.thread_layouts import copied, divides_rows, sector_efficiency
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import erase
from cutedialect.passes.roles.resource_plan import registers_of_readers
from cutedialect.passes.shifted_coordinates import shift_coordinates
from cutedialect.passes.synchronize.memory_views import root_of
from cutedialect.passes.tile.streaming import is_common

# Warps of a warpgroup.
_GROUP = 4
# A store whose first vectors fill less than this share of their sectors goes through smem first.
_MIN_SECTOR_EFFICIENCY = 0.5
# Registers of a thread that do not hold tiles: addresses, predicates, what an element's formula
# needs. Bits of the shortest line that is stored, a sector of memory.
_OTHER_REGISTERS = 60
_LEAST_LINE = 256
_LANES = 32


@dataclass
class _Store:
    """One store of a group: where its columns are staged, and the tensor map; none for a store
    from registers, to which columns may come back in another order.
    """

    op: cute.CopyOp
    staged: SSAValue | None = None
    described: SSAValue | None = None
    atom: Attribute | None = None
    is_reordered: bool = False
    # The copy of aligned words, where lines begin at any element.
    tiled: cute.TiledCopyAttr | None = None

    @property
    def type(self) -> cute.FragmentType:
        assert isinstance(self.op.source.type, cute.FragmentType)
        return self.op.source.type


class ResultStores:
    """The stores of one kernel."""

    def __init__(self, binding: KernelBinding) -> None:
        self.binding = binding
        self.results = results_by_tma(binding.kernel)

    def bind(self, stores: Sequence[cute.CopyOp]) -> None:
        """Bind stores of register tiles, in program order."""
        pending: list[cute.CopyOp] = []
        for op in stores:
            if pending and not _belongs(pending, op):
                self._bind_group(pending)
                pending = []
            pending.append(op)
        if pending:
            self._bind_group(pending)

    def _bind_group(self, ops: Sequence[cute.CopyOp]) -> None:
        schedule = self.binding.schedule
        in_columns = schedule.epilogue == "tma" or (
            schedule.epilogue in ("direct", "smem")
            and (
                self.binding.is_specialized
                or self._follows_reduction(ops)
                or all(map(self._is_aligned, ops))
            )
        )
        is_plain = all(
            op.mask is None
            and not isinstance(op.destination.owner, cute.IndexedTileOp)
            and cute.named_copy(op.destination) is None
            for op in ops
        )
        if in_columns and is_plain and self._store_in_columns(ops):
            return
        if schedule.epilogue == "tma":
            remark(
                "cute-partition",
                ops[0],
                "result not stored in columns through shared memory: expected a tile of rank 2 "
                "that threads hold in whole columns, or that TMA stores",
            )
        for op in ops:
            self._bind_plain(op)

    def _follows_reduction(self, ops: Sequence[cute.CopyOp]) -> bool:
        """Whether a program without a multiply stores what it kept in registers for a reduction."""
        if self.binding.grid is None:
            return False
        block, shape = ops[0].parent, cute.shape_of(ops[0].source.type)
        reductions = [op for op in block.ops if isinstance(op, cute.ReduceOp)]  # pyright: ignore
        return any(
            cute.shape_of(op.source.type) == shape and op.mode.value.data == 1 for op in reductions
        )

    def _bind_plain(self, op: cute.CopyOp) -> None:
        if (kind := reduction_of(op)) is not None:
            self.binding.insert(cute.AtomicOp(kind, op.source, op.destination), op)
            _erase(op)
            return
        source, destination = op.source.type, op.destination.type
        assert isinstance(source, cute.FragmentType)
        assert isinstance(destination, cute.MemRefType)
        copy = cute.named_copy(op.destination) or self.binding.copies.get(op.source)
        op.operands[0] = self._store_layout(op, source, destination)
        op.tiled = tiled_copy_of(copy, op.source.type)
        self.binding.meet_rows(op)
        if op.mask is not None:
            stored = fragment_of(op.source)
            assert stored.tv is not None
            place = list(op.operands).index(op.mask)
            op.operands[place] = self.binding.converted(op.mask, stored.tv, op)
        op.properties["atom"] = UniversalCopyType.get(source.element, vector_bytes(destination) * 8)

    def _store_layout(
        self, op: cute.CopyOp, source: cute.FragmentType, destination: cute.MemRefType
    ) -> SSAValue:
        """Store directly where that fills sectors well enough, else in a coalesced layout."""
        binding = self.binding
        named = named_layout(op, op.destination, binding.threads)
        if named is not None:
            return binding.converted(op.source, named, op, is_stored=True)
        share = _share(source, source.tv, destination)
        direct = binding.schedule.epilogue != "smem" and share >= _MIN_SECTOR_EFFICIENCY
        if destination.space != "gmem" or direct:
            return binding.converted(op.source, binding.in_vectors(source, destination), op)
        copy = coalesced_for(destination, binding.threads, binding.grid)
        wanted = copied(copy, destination.shape)
        have = _share(source, wanted, destination)
        if have <= share and binding.schedule.epilogue != "smem":
            return op.source
        return binding.converted(op.source, wanted, op, is_stored=True)

    # Some columns at a time

    def _store_in_columns(self, ops: Sequence[cute.CopyOp]) -> bool:
        """Bind a group whose every store can go in columns; False where one cannot."""
        shape = cute.shape_of(ops[0].source.type)
        if len(shape) != 2 or any(space_of_tile(op.destination) != "gmem" for op in ops):
            return False
        pieces = self._pieces(ops)
        chunk = pieces.chunk
        stores = [_Store(op) for op in ops]
        groups = min(self._row_groups(store, chunk) for store in stores)
        for store in stores:
            self._stage(store, chunk, groups)
            destination = cute.memref_of(store.op.destination)
            if store.described is None and (
                reduction_of(store.op) is not None
                or (
                    not (store.is_reordered or store.tiled)
                    and _share(store.type, store.type.tv, destination) < _MIN_SECTOR_EFFICIENCY
                )
            ):
                return False
        for op in _in_order(pieces.cut):
            if isinstance(op, cute.LoadOp):
                self._prefetch(op, shape)
        places = pieces.places
        for first, following in zip(places, (*places[1:], None), strict=True):
            self._load_columns(pieces, first)
            if pieces.loads_ahead and following is not None:
                # What the next columns need is on its way while these are computed.
                self._load_columns(pieces, following)
            for store in stores:
                self._fill_stage(store, pieces, first)
            for store in stores:
                self._send(store, pieces, first)
        for op in ops:
            _erase(op)
        for op in reversed(_in_order(pieces.cut)):
            _erase(op)
        return True

    def _pieces(self, ops: Sequence[cute.CopyOp]) -> Pieces:
        """The columns that are stored at once, if every thread holds as much of each such part: one
        line of all results (a small buffer leaves room for more stages of the operands), or less
        where the registers could not hold what is computed for them.
        """
        shape = cute.shape_of(ops[0].source.type)
        columns = shape[1]
        if self.binding.grid is not None:
            return self._vectors(ops, columns)
        bits = [fragment_of(op.source).bits for op in ops]
        bits_at_once = bits_of_results(self.results, shape) or bits
        # Where multiplies overlap, results leave once a tile, and lines would take much memory.
        divides = self.binding.schedule.overlaps_multiplies or not _may_overlap(ops)
        chunk = columns_at_once(columns, *bits_at_once, divides=divides)
        aligned = all(map(self._is_aligned, ops))
        if aligned:
            chunk = min(columns_of_part(op.destination.type) for op in ops)  # pyright: ignore[reportArgumentType]
        elif self.binding.schedule.epilogue == "smem" and chunk % _LANES == 0:
            # Addresses of more columns of what is reordered would take registers, and save none.
            chunk = _LANES
        while 2 * chunk <= columns and any(type_of_part(op.source, chunk) is None for op in ops):
            # Warpgroups that share rows have none of so few.
            chunk *= 2
        room = self._registers() - _OTHER_REGISTERS
        kept = self._kept_elsewhere()
        found = Pieces(columns, columns, ops[-1])
        while all(type_of_part(op.source, chunk) is not None for op in ops):
            found = Pieces(columns, chunk, ops[-1])
            if chunk < columns:
                find_cut(found, ops)
            if not has_places(found, ops):
                chunk //= 2
                continue
            beside = self.binding.schedule.epilogue != "tma"
            # Where there is no map, threads store, each to addresses of its own.
            maps = {op: why_no_map(op.destination.type) for op in ops if self._is_tensor()}  # pyright: ignore[reportArgumentType]
            by_threads = [op for op, why in maps.items() if why]
            taken = registers_of_pieces(found, ops, kept, beside or bool(by_threads))
            taken += sum(2 * rows_of(op.source) for op in by_threads)
            found.loads_ahead = taken <= room
            if aligned and all(self._has_lines(op, chunk) for op in ops):
                # All columns at once are converted before they are stored, beside what is loaded.
                values = max(fragment_of(op.source).values for op in ops)
                taken = max(taken, values * (2 if _adds_tiles(ops, columns) else 1))
                found.loads_ahead = has_registers(
                    self.binding.schedule, self.binding.threads, taken
                )
            if found.loads_ahead or chunk % 2 or chunk // 2 * min(bits) < _LEAST_LINE:
                break
            chunk //= 2
        return found

    def _is_aligned(self, op: cute.CopyOp) -> bool:
        """Whether a tile is stored in aligned words: of accumulators in registers. Beside warps
        that load, those of warpgroups alone, whose operands take no more.
        """
        atoms = [bound.atom for bound in self.binding.atoms.values()]
        kind = WgmmaAtom if self.binding.is_specialized else MmaAtom
        multiplies = bool(atoms) and all(isinstance(atom, kind) for atom in atoms)
        if not multiplies or self._is_tensor():
            return False
        return self.binding.schedule.epilogue in ("smem", "tma") and is_stored_aligned(op)

    def _has_lines(self, op: cute.CopyOp, chunk: int) -> bool:
        """Whether so many columns of a result have lines of some vectors."""
        type_ = cute.memref_of(op.destination)
        return takes_aligned_stores(type_, (type_.shape[0], chunk))  # pyright: ignore[reportArgumentType]

    def _registers(self) -> int:
        """Registers of a thread that stores results."""
        if self._is_tensor():
            return registers_of_readers(self.binding.kernel)
        return (self.binding.schedule.registers or (0, 256))[1]

    def _is_tensor(self) -> bool:
        return any(isinstance(bound.atom, Tcgen05Atom) for bound in self.binding.atoms.values())

    def _kept_elsewhere(self) -> set[SSAValue]:
        """Accumulators that stay in tensor memory while their columns are read."""
        registers = self._registers()
        return {
            op.acc
            for op, bound in self.binding.atoms.items()
            if isinstance(bound.atom, Tcgen05Atom)
            and (life := accumulation_of(op.acc)) is not None
            and stays_in_tensor_memory(life, registers)
        }

    def _vectors(self, ops: Sequence[cute.CopyOp], columns: int) -> Pieces:
        """A vector of each thread at once, where the warps of a streaming program hold rows."""
        chunk = columns
        while chunk % 2 == 0 and all(type_of_part(op.source, chunk // 2) is not None for op in ops):
            chunk //= 2
        found = Pieces(columns, chunk, ops[-1], loads_ahead=True)
        if chunk < columns:
            find_cut(found, ops)
        # Loads that wait for memory went ahead of all that is computed.
        found.cut = {
            op for op in found.cut if not isinstance(op, cute.LoadOp) or is_common(op.source)
        }
        return found

    def _row_groups(self, store: _Store, chunk: int) -> int:
        """How many warpgroups can store their own rows, without waiting for each other."""
        binding, source = self.binding, store.type
        groups = binding.threads // (32 * _GROUP)
        rows = source.shape[0]
        assert source.tv is not None
        if groups < 2 or not divides_rows(source.tv, rows, groups):  # pyright: ignore[reportArgumentType]
            return 1
        contiguous = contiguous_mode(store.op.destination.type)  # pyright: ignore[reportArgumentType]
        if contiguous == 0:
            layout, _, _ = staging_layout((rows, chunk), contiguous, source.bits)  # pyright: ignore[reportArgumentType]
            inner = flatten(layout.shape[contiguous])[0]  # type: ignore[index]
            if rows // groups % inner:
                return 1
        return groups

    def _stage(self, store: _Store, chunk: int, groups: int) -> None:
        """Give a store its buffer and tensor map, if TMA can do it."""
        binding, op, source = self.binding, store.op, store.type
        destination = cute.memref_of(op.destination)
        contiguous = contiguous_mode(destination)
        if self._is_aligned(op) and self._has_lines(op, chunk):
            part, shared = (source.shape[0], chunk), groups if contiguous == 1 else 1
            store.tiled = cute.TiledCopyAttr(
                aligned_copy(destination, part, binding.threads, shared)
            )  # pyright: ignore[reportArgumentType]
            store.atom = AlignedStoreType.get(source.element, shared)
            if binding.schedule.epilogue == "tma" and (why := why_no_map(destination)):
                instead = "threads store aligned words of shared memory"
                remark("cute-partition", op, f"TMA not taken for a store, {instead}: {why}")
            return
        if binding.schedule.epilogue == "smem" and contiguous == 1:
            store.is_reordered = True
        if contiguous is None or binding.schedule.epilogue != "tma" or is_exception(op):
            return
        if root_of(op.destination) in binding.dependences.tensors:
            # Threads load the tile again, and would have to wait until TMA has stored it.
            remark("cute-partition", op, "TMA not taken for a store: the kernel loads it again")
            return
        part = (source.shape[0], chunk)
        if binding.atoms and min(part) == 1:  # pyright: ignore[reportArgumentType]
            return
        written = type_of_part(op.source, chunk)
        assert written is not None
        assert written.tv is not None
        layout, swizzle, alignment = staging_layout(part, contiguous, source.bits, written.tv)  # pyright: ignore[reportArgumentType]
        smem = cute.MemRefType.get(source.element, "smem", max(alignment, 128), layout, swizzle)
        buffer = cute.AllocSmemOp(smem)
        view = cute.SubviewOp(op.destination, (0, 0), part)  # pyright: ignore[reportArgumentType]
        described = binding.tensor_map(view.result, buffer.result, groups if contiguous else 1)
        view.erase()
        if described is None:
            why = binding.unmapped
            remark("cute-partition", op, f"TMA not taken for a store: {why}")
            return
        store.described = described
        store.staged = binding.insert_top(buffer, op).results[0]
        store.staged.name_hint = f"s{op.destination.name_hint or ''}"
        warps = _GROUP if groups > 1 else None
        store.atom = TmaStoreType.get(source.element, reduction_of(op), warps)

    def _store_aligned(self, store: _Store, pieces: Pieces, piece: SSAValue, to: SSAValue) -> None:
        """Write some columns to a buffer, and store them from there in aligned words."""
        assert isinstance(store.atom, AlignedStoreType)
        assert isinstance(to.type, cute.MemRefType)
        warps = _GROUP if store.atom.groups > 1 else None
        buffer = line_buffer(to.type, to.type.shape)  # pyright: ignore[reportArgumentType]
        scratch = self.binding.scratch_of(buffer, warps, pieces.before)
        atom = staging_atom(self.binding, store.type, contiguous_mode(to.type) or 0)
        self._insert(pieces, cute.BarrierOp(warps))
        self._insert(pieces, cute.CopyOp(piece, scratch, atom=atom))
        self._insert(pieces, cute.BarrierOp(warps))
        self._insert(pieces, cute.CopyOp(scratch, to, atom=store.atom, tiled=store.tiled))

    def _fill_stage(self, store: _Store, pieces: Pieces, first: int) -> None:
        """Compute some columns and write them to their buffer, or to where they go."""
        piece = self._columns(pieces, store.op.source, first)
        contiguous = contiguous_mode(store.op.destination.type)  # pyright: ignore[reportArgumentType]
        if store.staged is not None:
            assert contiguous is not None
            atom = staging_atom(self.binding, store.type, contiguous)
            self._insert(pieces, cute.CopyOp(piece, store.staged, atom=atom))
            return
        to = self._destination(store, pieces, first)
        assert isinstance(to.type, cute.MemRefType)
        if store.tiled is not None:
            self._store_aligned(store, pieces, piece, to)
            return
        if store.is_reordered:
            copy = coalesced_for(to.type, self.binding.threads, self.binding.grid)
            wanted = copied(copy, to.type.shape)
            piece = self.binding.converted(piece, wanted, pieces.before, is_stored=True)
        atom = UniversalCopyType.get(store.type.element, vector_bytes(to.type) * 8)
        self._insert(pieces, cute.CopyOp(piece, to, atom=atom))

    def _send(self, store: _Store, pieces: Pieces, first: int) -> None:
        if store.staged is not None:
            to = self._destination(store, pieces, first)
            copy = cute.CopyOp(store.staged, to, atom=store.atom, descriptor=store.described)
            self._insert(pieces, copy)

    def _destination(self, store: _Store, pieces: Pieces, first: int) -> SSAValue:
        if pieces.chunk == pieces.columns:
            return store.op.destination
        rows = store.type.shape[0]
        view = cute.SubviewOp(store.op.destination, (0, first), (rows, pieces.chunk))  # pyright: ignore[reportArgumentType]
        return self._insert(pieces, view).results[0]

    def _insert(self, pieces: Pieces, op: Operation) -> Operation:
        return self.binding.insert(op, pieces.before)

    def _prefetch(self, op: cute.LoadOp, shape: tuple[int, ...]) -> None:
        """Let the role that loads bring a tile to L2 while the last products are summed."""
        type_ = cute.memref_of(op.source)
        contiguous = contiguous_mode(type_)
        if not self.binding.is_specialized or type_.shape != shape or contiguous is None:
            return
        if not _is_known_to_all(op):
            return
        part = (shape[0], columns_at_once(shape[1], type_.bits))
        layout, swizzle, alignment = staging_layout(part, contiguous, type_.bits)
        smem = cute.MemRefType.get(type_.element, "smem", max(alignment, 128), layout, swizzle)
        view, buffer = cute.SubviewOp(op.source, (0, 0), part), cute.AllocSmemOp(smem)
        described = self.binding.tensor_map(view.result, buffer.result, 1)
        if described is not None:
            self.binding.insert(TmaPrefetchOp(op.source, described), op)
        view.erase()

    def _load_columns(self, pieces: Pieces, first: int) -> None:
        for op in _in_order(pieces.cut):
            if isinstance(op, cute.LoadOp):
                self._columns(pieces, op.result, first)

    def _columns(self, pieces: Pieces, value: SSAValue, first: int) -> SSAValue:
        """Some columns of a register tile: computed or loaded alone, or taken out of the whole."""
        type_ = fragment_of(value)
        if pieces.chunk == pieces.columns or len(type_.shape) != 2 or type_.shape[1] == 1:
            return value
        if (value, first) not in pieces.made:
            pieces.made[value, first] = self._piece(pieces, value, first)
        return pieces.made[value, first]

    def _piece(self, pieces: Pieces, value: SSAValue, first: int) -> SSAValue:
        part = type_of_part(value, pieces.chunk)
        assert part is not None
        source = value.owner
        if source not in pieces.cut:
            return self._insert(pieces, cute.ExtractOp(value, (0, first), part)).results[0]
        if isinstance(source, cute.LoadOp):
            view = cute.SubviewOp(source.source, (0, first), part.shape)  # pyright: ignore[reportArgumentType]
            load = cute.LoadOp(self._insert(pieces, view).results[0], part)
            load.attributes.update(source.attributes)
            return self._insert(pieces, load).results[0]
        assert isinstance(source, cute.MapOp)
        inputs = [self._columns(pieces, each, first) for each in source.inputs]
        body = source.body.clone()
        shift_coordinates(body.block, 1, first)
        return self._insert(pieces, cute.MapOp(inputs, part, body)).results[0]


# What can be cut


def _adds_tiles(ops: Sequence[cute.CopyOp], columns: int) -> bool:
    """Whether tiles are loaded for results alone."""
    every = Pieces(columns, columns, ops[-1])
    find_cut(every, ops)
    loads = [op for op in every.cut if isinstance(op, cute.LoadOp)]
    return any(1 not in cute.shape_of(op.result.type) for op in loads)


def staging_atom(binding: KernelBinding, source: cute.FragmentType, contiguous: int) -> Attribute:
    """How threads write a register tile to shared memory: `stmatrix` for accumulators of 16-bit
    elements, else plain stores.
    """
    is_accumulator = any(bound.makes(source) for bound in binding.atoms.values())
    if source.bits == 16 and is_accumulator and target(binding.arch).number >= 90:
        return StsmType.get(source.element, 4, contiguous == 0)
    return UniversalCopyType.get(source.element, 128)


def _belongs(group: Sequence[cute.CopyOp], op: cute.CopyOp) -> bool:
    """Whether the stores of a group can wait for `op`, which follows them: all store tiles of one
    shape, and nothing between them changes registers or memory, or reads what they store.
    """
    last = group[-1]
    if last.mask is not None:
        return False
    if last.parent is not op.parent or cute.shape_of(last.source.type) != cute.shape_of(
        op.source.type
    ):
        return False
    if reduction_of(last) != reduction_of(op) or op.mask is not None:
        return False
    if argument_of(op.destination) in [argument_of(store.destination) for store in group]:
        # Parts of one result: the first of them leaves before the next is computed.
        return False
    between = last.next_op
    while between is not op:
        assert between is not None
        if isinstance(between, cute.LoadOp):
            tensor = argument_of(between.source)
            if tensor is None or tensor in [argument_of(store.destination) for store in group]:
                return False  # It may read what was stored.
        elif not (isinstance(between, cute.MapOp) or is_pure(between)):
            return False
        between = between.next_op
    return True


def _may_overlap(ops: Sequence[cute.CopyOp]) -> bool:
    """Whether columns may be stored twice, and are lines of memory."""
    return all(
        reduction_of(op) is None and contiguous_mode(op.destination.type) == 1  # pyright: ignore[reportArgumentType]
        for op in ops
    )


def _in_order(ops: set[Operation]) -> list[Operation]:
    return sorted(ops, key=lambda op: op.parent.get_operation_index(op))  # pyright: ignore[reportOptionalMemberAccess]


def _erase(op: Operation) -> None:
    erase(op)


def _is_known_to_all(op: Operation) -> bool:
    """Whether every role can tell that an op is reached: no branch around it asks an op with
    effects, which one role alone runs.
    """
    around = op.parent_op()
    while around is not None and not isinstance(around, cute.KernelOp):
        if isinstance(around, scf.IfOp):
            condition = around.cond.owner
            if isinstance(condition, Operation) and not is_pure(condition):
                return False
        around = around.parent_op()
    return True


def _share(source: cute.FragmentType, tv: Layout | None, destination: cute.MemRefType) -> float:
    """Useful share of the sectors of memory that a store from a layout touches."""
    assert tv is not None
    strides = tuple(s if isinstance(s, int) else 1 << 20 for s in destination.stride)
    strides += (0,) * (2 - len(strides))
    return sector_efficiency(tv, strides, source.shape[0], source.bits)  # pyright: ignore[reportArgumentType]
