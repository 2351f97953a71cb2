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
from dataclasses import dataclass, replace
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.allocation import MOST_STAGES_OF_ALL, stages_that_fit
from cutedialect.atoms import WARP_SIZE, MmaAtom, target
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.choices import Epilogue
from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import (
    AlignedStoreType,
    StsmType,
    TmaPrefetchOp,
    TmaStoreType,
    UniversalCopyType,
)
from cutedialect.dialects.effects import is_pure, space_of
from cutedialect.dialects.walks import index_in_block, ops_around
from cutedialect.layout import flatten
from cutedialect.passes.analysis.layout_inference import (
    coalesced_for,
    contiguous_mode,
    named_layout,
    tiled_copy_of,
    vector_bytes,
)
from cutedialect.passes.analysis.memory_views import root_of
from cutedialect.passes.analysis.resource_plan import registers_of_readers, use_of_loops
from cutedialect.passes.analysis.results import (
    Pieces,
    aligned_copy,
    aligned_results,
    bits_of_results,
    bytes_of_buffer,
    can_part,
    columns_of_part,
    find_cut,
    has_places,
    has_registers,
    is_stored_aligned,
    line_buffer,
    reduction_of,
    registers_of_pieces,
    results_by_tma,
    rows_of,
    takes_aligned_stores,
    type_of_columns,
)
from cutedialect.passes.analysis.smem_layouts import (
    LEAST_LINE_BITS,
    Staging,
    columns_at_once,
    staging_layout,
)
from cutedialect.passes.analysis.tensor_accumulators import life_of
from cutedialect.passes.analysis.tensor_maps import is_exception, why_no_map
from cutedialect.passes.analysis.thread_layouts import (
    GROUP_WARPS,
    copied,
    divides_mode,
    sector_efficiency,
)
from cutedialect.passes.bind.accumulator_moves import stays_in_tensor_memory
from cutedialect.passes.bind.kernel_binding import KernelBinding, TileColumns
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import erase
from cutedialect.passes.tile.streaming import is_common
from cutedialect.schedule import Schedule

# A store whose first vectors fill less than this share of their sectors goes through smem first.
_MIN_SECTOR_EFFICIENCY = 0.5
# Registers of a thread that do not hold tiles: addresses, predicates, what an element's formula
# needs.
_OTHER_REGISTERS = 60
# Sums that a loop beside multiplies adds in memory leave at once up to so many bits: a step of some
# columns would wait within the trip until TMA has read the one before.
_MOST_SUMS_BITS = 32 * 1024 * 8
# CTAs that a processor holds where all warps do the same.
_BESIDE = 2


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
        schedule = self.binding.schedule
        if schedule.epilogue is None and schedule.plan.loads is None and self.binding.atoms:
            self.binding.choose(epilogue="smem" if self._has_room_for_lines() else "direct")
        pending: list[cute.CopyOp] = []
        for op in stores:
            if pending and not _belongs(pending, op):
                self._bind_group(pending)
                pending = []
            pending.append(op)
        if pending:
            self._bind_group(pending)

    def _has_room_for_lines(self) -> bool:
        """Whether results may go through shared memory in aligned words, where all warps do all:
        they cost a second CTA no place on a processor, and loops over work items keep registers.
        """
        binding = self.binding
        lines = sum(map(bytes_of_buffer, set(aligned_results(binding.kernel))))
        use = use_of_loops(binding.kernel)
        if not lines or use is None or binding.schedule.scheduler not in (None, "single"):
            return False
        rings = use.buffer_bytes(stages_that_fit(use, MOST_STAGES_OF_ALL))
        sums = max(prod(cute.shape_of(op.acc.type)) for op in binding.atoms) // binding.threads
        return lines <= target(binding.arch).smem_of(_BESIDE) - rings and has_registers(
            Schedule(roles="uniform"), binding.threads, sums
        )

    def _way(self, op: cute.CopyOp) -> Epilogue | None:
        """How a tile leaves: what TMA adds up by TMA, even where results behind the loop go another
        way.
        """
        return "tma" if reduction_of(op) is not None else self.binding.schedule.epilogue

    def _bind_group(self, ops: Sequence[cute.CopyOp]) -> None:
        way = self._way(ops[0])
        in_columns = way == "tma" or (
            way in ("direct", "smem")
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
        if way == "tma":
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
            self.binding.insert(cute.CombineOp(kind, op.source, op.destination), op)
            erase(op)
            return
        source, destination = op.source.type, op.destination.type
        assert isinstance(source, cute.FragmentType)
        assert isinstance(destination, cute.MemRefType)
        copy = cute.named_copy(op.destination) or self.binding.copies.get(op.source)
        op.operands[0] = self._store_layout(op, source, destination)
        op.tiled = tiled_copy_of(copy, op.source.type)
        self.binding.meet_rows(op)
        if op.mask is not None:
            place = list(op.operands).index(op.mask)
            tv = cute.fragment_of(op.source).bound
            op.operands[place] = self.binding.converted(op.mask, tv, op)
        op.properties["atom"] = UniversalCopyType.get(source.element, vector_bytes(destination) * 8)

    def _store_layout(
        self, op: cute.CopyOp, source: cute.FragmentType, destination: cute.MemRefType
    ) -> SSAValue:
        """Store directly where that fills sectors well enough, else in a coalesced layout."""
        binding = self.binding
        named = named_layout(op, op.destination, binding.threads)
        if named is not None:
            return binding.converted(op.source, named, op, is_stored=True)
        share = sector_efficiency(source, destination)
        direct = binding.schedule.epilogue != "smem" and share >= _MIN_SECTOR_EFFICIENCY
        if destination.space != "gmem" or direct:
            return binding.converted(op.source, binding.in_vectors(source, destination), op)
        copy = coalesced_for(destination, binding.threads, binding.grid)
        wanted = copied(copy, destination.shape)
        have = sector_efficiency(source.with_tv(wanted), destination)
        if have <= share and binding.schedule.epilogue != "smem":
            return op.source
        return binding.converted(op.source, wanted, op, is_stored=True)

    # Some columns at a time

    def _store_in_columns(self, ops: Sequence[cute.CopyOp]) -> bool:
        """Bind a group whose every store can go in columns; False where one cannot."""
        shape = cute.shape_of(ops[0].source.type)
        if len(shape) != 2 or any(space_of(op.destination) != "gmem" for op in ops):
            return False
        pieces = self._pieces(ops)
        stores = [_Store(op) for op in ops]
        groups, along = self._groups(stores, pieces.chunk)
        for store in stores:
            self._stage(store, pieces.chunk, groups, along)
            if not _goes_in_columns(store):
                return False
        cut = sorted(pieces.cut, key=index_in_block)
        loads = [op for op in cut if isinstance(op, cute.LoadOp)]
        for op in loads:
            self._prefetch(op, shape)
        parts = [TileColumns(first, pieces.chunk, ops[-1], pieces.cut) for first in pieces.places]
        for part, following in zip(parts, (*parts[1:], parts[-1]), strict=True):
            # What the next columns need is on its way while these are computed.
            for ahead in (part, following) if pieces.loads_ahead else (part,):
                for op in loads:
                    ahead.of(op.result)
            for store in stores:
                self._fill_stage(store, part)
            for store in stores:
                if store.staged is not None:
                    to = part.view(store.op.destination)
                    atom, map_ = store.atom, store.described
                    part.insert(cute.CopyOp(store.staged, to, atom=atom, descriptor=map_))
        erase(*ops, *reversed(cut))
        return True

    def _pieces(self, ops: Sequence[cute.CopyOp]) -> Pieces:
        """The columns that are stored at once, if every thread holds as much of each such part: one
        line of all results (a small buffer leaves room for more stages of the operands), or less
        where the registers could not hold what is computed for them.
        """
        columns = cute.shape_of(ops[0].source.type)[1]
        if self.binding.grid is not None:
            return self._vectors(ops, columns)
        bits = min(cute.fragment_of(op.source).bits for op in ops)
        aligned = all(map(self._is_aligned, ops))
        chunk = self._most_at_once(ops, aligned)
        kept = self._kept_elsewhere()
        pieces = Pieces(columns, columns, set())
        while all(can_part(op.source, chunk) for op in ops):
            pieces = Pieces(columns, chunk, find_cut(ops, chunk) if chunk < columns else set())
            if has_places(pieces, ops):
                fits = self._have_registers(pieces, ops, kept, aligned)
                pieces = replace(pieces, loads_ahead=fits)
                if fits or chunk % 2 or chunk // 2 * bits < LEAST_LINE_BITS:
                    break
            chunk //= 2
        return pieces

    def _most_at_once(self, ops: Sequence[cute.CopyOp], aligned: bool) -> int:
        """The columns that would be stored at once if registers did not matter."""
        rows, columns = cute.shape_of(ops[0].source.type)
        bits = [cute.fragment_of(op.source).bits for op in ops]
        bits_at_once = bits_of_results(self.results, (rows, columns)) or bits
        # Where multiplies overlap, results leave once a tile, and lines would take much memory.
        divides = self.binding.schedule.overlaps_multiplies or not _may_overlap(ops)
        chunk = columns_at_once(columns, *bits_at_once, divides=divides)
        if _leave_each_trip(ops) and rows * columns * max(bits) <= _MOST_SUMS_BITS:
            chunk = columns
        elif aligned:
            chunk = min(columns_of_part(cute.memref_of(op.destination)) for op in ops)
        elif self.binding.schedule.epilogue == "smem" and chunk % WARP_SIZE == 0:
            # Addresses of more columns of what is reordered would take registers, and save none.
            chunk = WARP_SIZE
        while 2 * chunk <= columns and not all(can_part(op.source, chunk) for op in ops):
            # Warpgroups that share rows have none of so few.
            chunk *= 2
        return chunk

    def _have_registers(
        self, pieces: Pieces, ops: Sequence[cute.CopyOp], kept: set[SSAValue], aligned: bool
    ) -> bool:
        """Whether threads have registers for what is computed for some columns."""
        types = [cute.memref_of(op.destination) for op in ops]
        # Where there is no map, threads store, each to addresses of its own.
        by_threads = [
            op
            for op, type_ in zip(ops, types, strict=True)
            if self._is_tensor() and why_no_map(type_)
        ]
        beside = self._way(ops[0]) != "tma"
        taken = registers_of_pieces(pieces, ops, kept, beside or bool(by_threads))
        taken += sum(2 * rows_of(op.source) for op in by_threads)
        if aligned and all(takes_aligned_stores(type_, pieces.chunk) for type_ in types):
            # All columns at once are converted before they are stored, beside what is loaded.
            values = max(cute.fragment_of(op.source).values for op in ops)
            taken = max(taken, values * (2 if _adds_tiles(ops) else 1))
            return has_registers(self.binding.schedule, self.binding.threads, taken)
        return taken <= self._registers() - _OTHER_REGISTERS

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

    def _registers(self) -> int:
        """Registers of a thread that stores results."""
        if self._is_tensor():
            return registers_of_readers(self.binding.kernel, self.binding.registers)
        return (self.binding.registers or (0, 256))[1]

    def _is_tensor(self) -> bool:
        return any(isinstance(bound.atom, Tcgen05Atom) for bound in self.binding.atoms.values())

    def _kept_elsewhere(self) -> set[SSAValue]:
        """Accumulators that stay in tensor memory while their columns are read."""
        registers = self._registers()
        return {
            op.acc
            for op, bound in self.binding.atoms.items()
            if isinstance(bound.atom, Tcgen05Atom)
            and (life := life_of(op.acc)) is not None
            and not life.updates
            and stays_in_tensor_memory(life, registers)
        }

    def _vectors(self, ops: Sequence[cute.CopyOp], columns: int) -> Pieces:
        """A vector of each thread at once, where the warps of a streaming program hold rows."""
        chunk = columns
        while chunk % 2 == 0 and all(can_part(op.source, chunk // 2) for op in ops):
            chunk //= 2
        cut = find_cut(ops, chunk) if chunk < columns else set()
        # Loads that wait for memory went ahead of all that is computed.
        waits = {op for op in cut if isinstance(op, cute.LoadOp) and not is_common(op.source)}
        return Pieces(columns, chunk, cut - waits)

    def _groups(self, stores: Sequence[_Store], chunk: int) -> tuple[int, int]:
        """How many warpgroups can store their own rows (mode 0) or columns (mode 1), without
        waiting for each other, and which of these.
        """
        groups = self.binding.threads // (WARP_SIZE * GROUP_WARPS)
        for along in (0, 1) if groups > 1 else ():
            if all(_divides(store, chunk, groups, along) for store in stores):
                return groups, along
        return 1, 0

    def _stage(self, store: _Store, chunk: int, groups: int, along: int) -> None:
        """Give a store its buffer and tensor map, if TMA can do it."""
        binding, op, source = self.binding, store.op, store.type
        destination = cute.memref_of(op.destination)
        contiguous = contiguous_mode(destination)
        if self._is_aligned(op) and takes_aligned_stores(destination, chunk):
            self._align(store, chunk, groups if contiguous == 1 and along == 0 else 1)
            return
        if binding.schedule.epilogue == "smem" and contiguous == 1:
            store.is_reordered = True
        if contiguous is None or self._way(op) != "tma" or is_exception(op):
            return
        if root_of(op.destination) in binding.dependences.tensors:
            # Threads load the tile again, and would have to wait until TMA has stored it.
            remark("cute-partition", op, "TMA not taken for a store: the kernel loads it again")
            return
        part = (source.shape[0], chunk)
        if binding.atoms and min(part) == 1:  # pyright: ignore[reportArgumentType]
            return
        written = type_of_columns(cute.fragment_of(op.source), chunk)
        assert written is not None
        staging = staging_layout(part, contiguous, source.bits, written.bound)
        described = self._tensor_map(
            op.destination,
            part,
            staging,
            groups if contiguous and along == 0 else 1,
            is_stored=True,
        )
        if isinstance(described, str):
            remark("cute-partition", op, f"TMA not taken for a store: {described}")
            return
        store.described = described
        name = f"s{op.destination.name_hint or ''}"
        store.staged = binding.smem_buffer(source.element, staging, op, name)
        warps = GROUP_WARPS if groups > 1 else None
        store.atom = TmaStoreType.get(source.element, reduction_of(op), warps, along=along)

    def _align(self, store: _Store, chunk: int, shared: int) -> None:
        """Let threads store aligned words, of rows that so many warpgroups have to themselves."""
        op, source, destination = store.op, store.type, cute.memref_of(store.op.destination)
        part = (source.shape[0], chunk)
        store.tiled = cute.TiledCopyAttr(
            aligned_copy(destination, part, self.binding.threads, shared)
        )
        store.atom = AlignedStoreType.get(source.element, shared)
        if self.binding.schedule.epilogue == "tma" and (why := why_no_map(destination)):
            instead = "threads store aligned words of shared memory"
            remark("cute-partition", op, f"TMA not taken for a store, {instead}: {why}")

    def _store_aligned(
        self, store: _Store, part: TileColumns, piece: SSAValue, to: cute.MemRefType
    ) -> SSAValue:
        """Write some columns to a buffer from which threads store them in aligned words."""
        assert isinstance(store.atom, AlignedStoreType)
        warps = GROUP_WARPS if store.atom.groups > 1 else None
        scratch = self.binding.scratch_of(line_buffer(to, to.shape), warps, part.before)
        atom = staging_atom(self.binding, store.type, contiguous_mode(to) or 0)
        part.insert(cute.BarrierOp(warps))
        part.insert(cute.CopyOp(piece, scratch, atom=atom))
        part.insert(cute.BarrierOp(warps))
        return scratch

    def _fill_stage(self, store: _Store, part: TileColumns) -> None:
        """Compute some columns and write them to their buffer, or to where they go."""
        piece = part.of(store.op.source)
        if store.staged is not None:
            contiguous = contiguous_mode(cute.memref_of(store.op.destination))
            assert contiguous is not None
            atom = staging_atom(self.binding, store.type, contiguous)
            part.insert(cute.CopyOp(piece, store.staged, atom=atom))
            return
        to = part.view(store.op.destination)
        type_ = cute.memref_of(to)
        atom = store.atom or UniversalCopyType.get(store.type.element, vector_bytes(type_) * 8)
        if store.tiled is not None:
            piece = self._store_aligned(store, part, piece, type_)
        elif store.is_reordered:
            copy = coalesced_for(type_, self.binding.threads, self.binding.grid)
            wanted = copied(copy, type_.shape)
            piece = self.binding.converted(piece, wanted, part.before, is_stored=True)
        part.insert(cute.CopyOp(piece, to, atom=atom, tiled=store.tiled))

    def _prefetch(self, op: cute.LoadOp, shape: tuple[int, ...]) -> None:
        """Let the role that loads bring a tile to L2 while the last products are summed."""
        type_ = cute.memref_of(op.source)
        contiguous = contiguous_mode(type_)
        if not self.binding.is_specialized or type_.shape != shape or contiguous is None:
            return
        if not _is_known_to_all(op):
            return
        part = (shape[0], columns_at_once(shape[1], type_.bits))
        staging = staging_layout(part, contiguous, type_.bits)
        described = self._tensor_map(op.source, part, staging, 1)
        if not isinstance(described, str):
            self.binding.insert(TmaPrefetchOp(op.source, described), op)

    def _tensor_map(
        self,
        tile: SSAValue,
        part: tuple[int, ...],
        staging: Staging,
        share: int,
        is_stored: bool = False,
    ) -> SSAValue | str:
        """The tensor map for copies between parts of a tile and a buffer."""
        layout, swizzle, alignment = staging
        element = cute.element_of(tile.type)
        staged = cute.MemRefType.get(element, "smem", max(alignment, 128), layout, swizzle)
        view = cute.SubviewOp(tile, (0, 0), part)
        described = self.binding.tensor_map(view.result, staged, share, is_stored=is_stored)
        view.erase()
        return described


# What can be cut


def _adds_tiles(ops: Sequence[cute.CopyOp]) -> bool:
    """Whether tiles are loaded for results alone."""
    cut = find_cut(ops, cute.shape_of(ops[0].source.type)[1])
    return any(isinstance(op, cute.LoadOp) and 1 not in op.result.type.shape for op in cut)


def staging_atom(binding: KernelBinding, source: cute.FragmentType, contiguous: int) -> Attribute:
    """How threads write a register tile to shared memory: `stmatrix` for accumulators of 16-bit
    elements that lie as `mma.sync` leaves them, else plain stores.
    """
    is_accumulator = any(
        bound.makes(source) and not bound.by_rows for bound in binding.atoms.values()
    )
    if source.bits == 16 and is_accumulator and target(binding.arch).number >= 90:
        return StsmType.get(source.element, 4, contiguous == 0)
    return UniversalCopyType.get(source.element, 128)


def _divides(store: _Store, chunk: int, groups: int, along: int) -> bool:
    """Whether each of some warpgroups holds, of so many columns, its own rows or columns, as whole
    boxes.
    """
    held = type_of_columns(store.type, chunk)
    if held is None or not divides_mode(held.bound, held.shape, along, groups):
        return False
    contiguous = contiguous_mode(cute.memref_of(store.op.destination))
    if contiguous != along:
        # Boxes are as long along the other mode as they have to be.
        return along == 0
    layout, _, _ = staging_layout(held.shape, along, held.bits, held.bound)
    inner: int = flatten(layout[along].shape)[0]
    return held.shape[along] // groups % inner == 0


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
    if root_of(op.destination) in [root_of(store.destination) for store in group]:
        # Parts of one result: the first of them leaves before the next is computed.
        return False
    between = last.next_op
    while between is not op:
        assert between is not None
        if isinstance(between, cute.LoadOp):
            tensor = root_of(between.source)
            if tensor is None or tensor in [root_of(store.destination) for store in group]:
                return False  # It may read what was stored.
        elif not (isinstance(between, cute.MapOp) or is_pure(between)):
            return False
        between = between.next_op
    return True


def _leave_each_trip(ops: Sequence[cute.CopyOp]) -> bool:
    """Whether sums are added in memory in each trip of a loop that multiplies."""
    loops = [each for each in ops_around(ops[0]) if isinstance(each, scf.ForOp)]
    return (
        all(reduction_of(op) is not None for op in ops)
        and bool(loops)
        and any(isinstance(op, cute.GemmOp) for op in loops[0].body.block.ops)
    )


def _goes_in_columns(store: _Store) -> bool:
    """Whether columns are stored by TMA, or by threads that fill sectors and add to nothing."""
    if store.described is not None:
        return True
    fills = store.is_reordered or store.tiled is not None
    fills = fills or (
        sector_efficiency(store.type, cute.memref_of(store.op.destination))
        >= _MIN_SECTOR_EFFICIENCY
    )
    return reduction_of(store.op) is None and fills


def _may_overlap(ops: Sequence[cute.CopyOp]) -> bool:
    """Whether columns may be stored twice, and are lines of memory."""
    return all(
        reduction_of(op) is None and contiguous_mode(op.destination.type) == 1  # pyright: ignore[reportArgumentType]
        for op in ops
    )


def _is_known_to_all(op: Operation) -> bool:
    """Whether every role can tell that an op is reached: no branch around it asks an op with
    effects, which one role alone runs.
    """
    conditions = [each.cond.owner for each in ops_around(op) if isinstance(each, scf.IfOp)]
    return all(is_pure(each) for each in conditions if isinstance(each, Operation))
