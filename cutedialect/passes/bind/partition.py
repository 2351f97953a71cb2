"""`cute-partition`: bind every tile to memory, threads and atoms.

Before, ops speak of whole tiles; after, each matrix multiply reads fragments that explicit copies
bring through swizzled shared memory, every fragment has its thread-value layout, and every copy
names its atom. The program is still one straight tile program.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import Float32Type, ModuleOp, StringAttr
from xdsl.ir import Attribute, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from cutedialect.allocation import registers_of_roles
from cutedialect.atoms import MmaAtom, target
from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.atoms.tmem_layouts import LANES
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects.cute import (
    LINE_OPS,
    AtomicOp,
    CopyOp,
    ExtractOp,
    FetchOp,
    FragmentType,
    GemmOp,
    IndexedTileOp,
    KernelOp,
    LastArrivalOp,
    LineOp,
    LoadOp,
    MapOp,
    MemRefType,
    PutOp,
    ReadOp,
    ReduceOp,
    ScanOp,
    SortOp,
    SubviewOp,
    TakeOp,
    TiledCopyAttr,
    TransposeOp,
    UnpackOp,
    element_of,
    fragment_of,
    memref_of,
    named_copy,
    shape_of,
)
from cutedialect.dialects.cute_nvgpu import (
    LdsmType,
    Sm80MmaType,
    Sm90MmaType,
    Sm100MmaType,
    UniversalCopyType,
)
from cutedialect.dialects.effects import written_by
from cutedialect.dialects.pipeline import CompleteOp
from cutedialect.dialects.walks import holds, index_in_block, ops_around, ops_of, walk
from cutedialect.layout import Layout
from cutedialect.passes.analysis.layout_inference import (
    LayoutInference,
    coalesced_for,
    contiguous_mode,
    extracted,
    made_of,
    named_layout,
    packed,
    takes_async_copy,
    tiled_copy_of,
    vector_bytes,
)
from cutedialect.passes.analysis.memory_views import is_work_loop, ordering_atomic, root_of
from cutedialect.passes.analysis.mma_choice import (
    BoundMma,
    MmaChoice,
    goes_through_smem,
)
from cutedialect.passes.analysis.multiply_pairs import pair_multiplies
from cutedialect.passes.analysis.operand_plans import (
    NUMBERS_ROWS,
    SOURCES,
    TILE,
    is_beside_one_on_its_way,
    is_beside_products,
    is_on_its_way,
    multiplied_elements,
    plan_of,
)
from cutedialect.passes.analysis.resource_plan import (
    registers_beside,
    registers_for_tiles,
    registers_where_made,
)
from cutedialect.passes.analysis.results import as_store, reduces_by_tma
from cutedialect.passes.analysis.role_plan import use_of_operands
from cutedialect.passes.analysis.tensor_maps import asks_tiles_around, is_joined
from cutedialect.passes.analysis.thread_layouts import (
    accumulator_order,
    copied,
    project,
    reordered,
)
from cutedialect.passes.bind.accumulator_moves import move_accumulators, sum_in_registers
from cutedialect.passes.bind.early_loads import load_early
from cutedialect.passes.bind.exponential_shares import share_exponentials
from cutedialect.passes.bind.gathered_rows import gather_in_fours
from cutedialect.passes.bind.numbered_rows import number_operands
from cutedialect.passes.bind.result_stores import ResultStores
from cutedialect.passes.bind.slice_depth import slice_depth
from cutedialect.passes.bind.split_sums import split_sums
from cutedialect.passes.bind.staged_operands import StagedOperands
from cutedialect.passes.remarks import remark
from cutedialect.passes.rewriting import erase, insert_before
from cutedialect.passes.tile.streaming import is_common

# Elements that threads may hold without a word about it.
_FEW = 8
# Those of a row that come to shared memory beside an operand: of two blocks of 64 rows.
_FEW_BESIDE = 4
# Those of a line that a thread reads while a step multiplies: of 80 columns each step took 0.8 of
# the time so, of 104 and more 1.2 times as long (an H200).
_SOME_BESIDE = 24
# Bytes from which a buffer starts that TMA fills (PTX ISA 5.5).
_TMA_ALIGNMENT = 128


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """Choose atoms, shared-memory layouts and thread-value layouts for one architecture."""

    name = "cute-partition"

    arch: str = "sm_80"

    def __post_init__(self) -> None:
        target(self.arch)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        tiled = op.attributes.get("cute.arch")
        if isinstance(tiled, StringAttr) and tiled.data != self.arch:
            raise PassFailedException(
                op, f"expected the target that cute-tile was given, {tiled.data}, got {self.arch}"
            )
        for kernel in op.ops:
            if isinstance(kernel, KernelOp) and kernel.body.block.ops:
                _Partition(kernel, self.arch).run()


# The ops that are given atoms, or meet in layouts.
_BOUND: tuple[type[Operation], ...] = (
    GemmOp,
    MapOp,
    ReduceOp,
    TransposeOp,
    ExtractOp,
    UnpackOp,
    LoadOp,
    CopyOp,
    AtomicOp,
    FetchOp,
    *LINE_OPS,
)


class _Partition(StagedOperands):
    """The pass on one kernel."""

    def run(self) -> None:
        self._check_reads()
        self._check_unbound()
        split_sums(self.kernel, self._has_atom)
        has_tensor_memory = target(self.arch).tmem_columns > 0
        if has_tensor_memory:
            sum_in_registers(self)
        gemms = ops_of(self.kernel.body.block, GemmOp)
        if any(self._choice(op).slices > 1 for op in gemms):
            slice_depth(self)
        if self.grid is not None:
            load_early(self.kernel, self.threads, self.dependences)
        has_numbers = bool(gemms) and holds(self.kernel, IndexedTileOp)
        # TMA brings pixels of images.
        by_tma = self.is_specialized and self.schedule.loads != "threads"
        numbered = number_operands(self.kernel, by_tma) if has_numbers else []
        inference = LayoutInference(self.kernel, self.threads, self.grid)
        self._choose_atoms(gemms, inference, has_tensor_memory, numbered)
        for tile in numbered:
            inference.anchor(tile.rows, self.rows_of_copy(tile))
        self._give_layouts(inference)
        stores: list[CopyOp] = []
        for op in ops_of(self.kernel.body.block, *_BOUND):
            self._bind(op, stores)
        ResultStores(self).bind(stores)
        if has_tensor_memory:
            move_accumulators(self)
            self.leave_tensor_memory()
        if self.schedule.polynomials is not None:
            share_exponentials(self.kernel, self.schedule.polynomials)

    def _choose_atoms(
        self,
        gemms: Sequence[GemmOp],
        inference: LayoutInference,
        has_tensor_memory: bool,
        numbered: Sequence[IndexedTileOp],
    ) -> None:
        """The atom of each multiply, how rows that are numbered come, and the registers of roles
        that follow from all of them.
        """
        for op in gemms:
            self._choose_atom(op, inference)
        if has_tensor_memory:
            pair_multiplies(self.atoms, self.schedule)
            self._take_rows(inference)
        if numbered and self.is_specialized:
            gather_in_fours(self, numbered, self.loading_threads())
        if self.is_specialized and self.atoms and self.registers is None:
            atoms = [bound.atom for bound in self.atoms.values()]
            in_tensor_memory = any(isinstance(atom, Tcgen05Atom) for atom in atoms)
            self.registers = registers_of_roles(use_of_operands(self.kernel, in_tensor_memory))

    def _give_layouts(self, inference: LayoutInference) -> None:
        """Write the layouts that follow from the atoms into the types of tiles."""
        for value, layout in inference.run().items():
            assert isinstance(value.type, FragmentType)
            tile = Rewriter.replace_value_with_new_type(value, value.type.with_tv(layout))
            if value in inference.copies:
                self.copies[tile] = inference.copies[value]

    def _bind(self, op: Operation, stores: list[CopyOp]) -> None:
        """Give an op its atom and layouts; results that leave together are added to `stores`."""
        match op:
            case GemmOp():
                self._bind_gemm(op)
            case MapOp():
                self._meet_map(op)
            case ReduceOp() | TransposeOp() if isinstance(op.source.type, FragmentType):
                self._settle(op, op.result, made_of(op, op.source.type.bound))
            case ExtractOp():
                self._meet_columns(op)
            case UnpackOp():
                self._meet_packed(op)
            case ScanOp() | SortOp() | TakeOp() | PutOp() | FetchOp():
                self._meet_alike(op)
            case LoadOp():
                self._bind_load(op)
            case CopyOp() if op.atom is None and _is_store(op):
                stores.append(op)
            case CopyOp() if op.atom is None:
                self._bind_copy(op)
            case AtomicOp() if self._leaves_by_tma(op) and reduces_by_tma(op):
                stores.append(as_store(op))
                self.insert(stores[-1], op)
                erase(op)
            case AtomicOp():
                self.meet_rows(op)
            case _:
                pass

    def _leaves_by_tma(self, op: AtomicOp) -> bool:
        """Whether TMA is to add a tile, as results are stored, or where the trips of a loop that
        others load for add one each: these are no part of what follows the loop.
        """
        loop = op.parent_op()
        in_trips = isinstance(loop, scf.ForOp) and not is_work_loop(loop)
        by_groups = any(isinstance(bound.atom, WgmmaAtom) for bound in self.atoms.values())
        adds = in_trips and by_groups and self.is_specialized
        return self.schedule.epilogue == "tma" or adds

    def _check_reads(self) -> None:
        """Refuse scalars of a tensor that the kernel stores to: they are read once, early."""
        stored = {
            root_of(value)
            for value in written_by(self.kernel)
            if isinstance(value.type, MemRefType)
        }
        ordering = ordering_atomic(self.kernel.body.block)
        for op in ops_of(self.kernel.body.block, ReadOp):
            if ordering is not None and ordering.acquires:
                raise PassFailedException(
                    op,
                    "expected no single elements to be read beside an atomic that acquires, since "
                    "they are read early, got one; load a tile",
                )
            if root_of(op.source) in stored:
                raise PassFailedException(
                    op,
                    "expected single elements to be read of tensors that the kernel does not store "
                    "to, got one of a tensor that it does; load a tile, or store to another tensor",
                )

    def _check_unbound(self) -> None:
        """Refuse thread-value layouts that are there already: this pass chooses them."""
        for op in walk(self.kernel.body.block):
            for value in op.results:
                type_ = value.type
                if isinstance(type_, FragmentType) and type_.tv is not None:
                    raise PassFailedException(
                        op,
                        "expected a register tile without a thread-value layout in front of "
                        f"cute-partition, which chooses it, got {type_.tv}; name the tiled copy "
                        "of a load or store instead (tiled = #cute.tiled_copy<...> on its "
                        "cute.local_tile), or run the passes behind this one alone",
                    )

    # Matrix multiply

    def _has_atom(self, op: GemmOp) -> bool:
        """Whether a multiply has an atom on the grid of warps, or on another one."""
        try:
            return self._choice(op).bind(self.warps, is_fixed=False) is not None
        except ValueError:
            return False

    def _choose_atom(self, op: GemmOp, inference: LayoutInference) -> None:
        acc = op.acc.type
        if not isinstance(acc, FragmentType):
            raise PassFailedException(
                op, f"expected an accumulator in registers (run cute-tile first), got {acc}"
            )
        choice = self._choice(op)
        # The multiplies of one accumulator share the grid of warps.
        shared = [bound.warps for other, bound in self.atoms.items() if other.acc is op.acc]
        asked = op.asked or self.schedule.multiply
        try:
            bound = choice.bind(shared[0] if shared else self.warps, is_fixed=bool(shared))
        except ValueError as error:
            raise PassFailedException(op, str(error)) from error
        wm, wn = self.warps
        if bound is None:
            raise PassFailedException(op, choice.misfit(self.warps))
        self.atoms[op] = bound
        if bound.warps != self.warps and bound.named is None:
            remark(
                PartitionPass.name,
                op,
                f"warps = ({bound.warps[0]},{bound.warps[1]}) for this multiply instead of "
                f"({wm},{wn}), which do not divide its tile into atoms like {bound.atom.name}",
            )
        if asked is None and (why := choice.declined(bound)):
            remark(PartitionPass.name, op, why)
        if isinstance(bound.atom, Tcgen05Atom):
            return  # anchored by `_take_rows`, when all multiplies are known
        inference.anchor(op.acc, bound.accumulator(acc.shape))
        by_groups = isinstance(bound.atom, WgmmaAtom)
        for which, value in (("a", op.a), ("b", op.b)):
            stays = not (by_groups and goes_through_smem(op, value, bound))
            if stays and isinstance(value.type, FragmentType):
                inference.anchor(value, self._operand_layout(op, bound, which, value.type))

    def _take_rows(self, inference: LayoutInference) -> None:
        """Give threads whole rows of what tensor memory holds where the kernel reduces rows of
        accumulators, and each multiply has a product for all 128 lanes.
        """
        multiplies = {
            op: bound for op, bound in self.atoms.items() if isinstance(bound.atom, Tcgen05Atom)
        }
        shapes = {shape_of(op.acc.type) for op in multiplies}
        reduced = any(
            op.mode.value.data == 1 and shape_of(op.source.type) in shapes
            for op in ops_of(self.kernel.body.block, ReduceOp)
        )
        by_rows = reduced and all(
            bound.warps[1] == 1 and bound.atom.shape_mnk[0] // bound.atom.cta_group == LANES
            for bound in multiplies.values()
        )
        for op, bound in multiplies.items():
            self.atoms[op] = bound = replace(bound, by_rows=by_rows)
            inference.anchor(op.acc, bound.accumulator(shape_of(op.acc.type)))

    def _choice(self, op: GemmOp) -> MmaChoice:
        return MmaChoice(op, self.arch, self.schedule.multiply, self.is_specialized)

    def _operand_layout(
        self, op: GemmOp, bound: BoundMma, which: str, type_: FragmentType
    ) -> Layout:
        """The layout of an operand in registers: an accumulator's values stay where they are if B
        can be put in their order.
        """
        tv = bound.operand(which, type_.shape)
        order = self._order(op, bound.atom) if which == "a" else None
        return tv if order is None else reordered(tv, type_.shape[0], order)

    def _order(self, op: GemmOp, atom: MmaAtom) -> Layout | None:
        """The order of the depth of an atom in which A is there; None where it is as it was."""
        reads_registers = plan_of(op, op.a).travels == SOURCES
        is_transposed = plan_of(op, op.b).form == "transpose"
        return accumulator_order(atom) if reads_registers and is_transposed else None

    def _bind_gemm(self, op: GemmOp) -> None:
        bound = self.atoms[op]
        atom = bound.atom
        elements, by_groups = multiplied_elements(op), isinstance(atom, WgmmaAtom)
        order = self._order(op, atom) if by_groups else None
        a, b = self.operand(op, op.a), self.operand(op, op.b, order)
        if isinstance(atom, Tcgen05Atom):
            type_ = Sm100MmaType.get(atom.shape_mnk, *elements, atom.cta_group, op.scales or "")
            factors = self.stage_factors(op)
            self.atoms[self.insert(op.like(a, b, op.acc, type_, factors=factors), op)] = bound
        elif isinstance(atom, WgmmaAtom):
            where = "smem"
            plan = plan_of(op, op.a)
            if plan.travels == TILE and plan.computes == "multiplies":
                # Word by word, wherever a word lies.
                source = memref_of(a)
                tv = bound.operand("a", source.shape)
                type_ = FragmentType.get(source.element, source.shape, tv)
                a = self.loaded(a, type_, UniversalCopyType.get(source.element, source.bits), op)
            if isinstance(a.type, FragmentType):
                where = "rmem"
                a = self.converted(a, self._operand_layout(op, bound, "a", a.type), op)
            negate = None if op.negate is None else op.negate.data
            type_ = Sm90MmaType.get(atom.shape_mnk, *elements, where, negate, kind=atom.kind)
            self.insert(GemmOp(a, b, op.acc, type_, sums=op.sums is not None), op)
        else:
            self._bind_warp_gemm(op, bound, a, b)
        erase(op)

    def _bind_warp_gemm(self, op: GemmOp, bound: BoundMma, a: SSAValue, b: SSAValue) -> None:
        """One multiply for each k block, its operands brought to registers before."""
        atom = bound.atom
        type_ = Sm80MmaType.get(atom.shape_mnk, *multiplied_elements(op), atom.kind, atom.majors)
        depth, step = shape_of(op.a.type)[1], bound.depth
        words = None
        if op.scales is not None:
            from .scale_words import ScaleWords

            words = ScaleWords(self, op, bound)
        operands = [("a", a), ("b", b)]
        for at, (which, value) in enumerate(operands):
            if isinstance(value.type, FragmentType):
                tv = bound.operand(which, value.type.shape)
                operands[at] = which, self.converted(value, tv, op)
        for k in range(0, depth, step):
            a, b = (self._fragment(op, bound, *operand, k, step) for operand in operands)
            if op.negate is not None and len(op.negate.data) == 1:
                # No form of mma.sync changes signs; both of them at once change nothing.
                a = self.insert(MapOp.of(arith.NegfOp, [a], fragment_of(a)), op).result
            factors, first = [], 0
            if words is not None:
                taken = words.atom.factors
                factors, first = words.at(k // step * taken, k + step == depth)
            self.insert(op.like(a, b, op.acc, type_, factors=factors, first_scale=first), op)

    def _fragment(
        self, op: GemmOp, bound: BoundMma, which: str, value: SSAValue, k: int, step: int
    ) -> SSAValue:
        """The registers of one k block of an operand."""
        rows = shape_of(value.type)[0]
        tv = bound.operand(which, (rows, step))
        part = FragmentType.get(element_of(value.type), (rows, step), tv)
        if isinstance(value.type, FragmentType):
            return self.insert(ExtractOp(value, (0, k), part), op).result
        view = self.insert(SubviewOp(value, (0, k), (rows, step)), op).result
        return self.loaded(view, part, _operand_atom(memref_of(value)), op)

    # Conversions where layouts meet

    def _meet_map(self, op: MapOp) -> None:
        result = fragment_of(op.result)
        for position, value in enumerate(op.inputs):
            tv = project(result.bound, result.shape, shape_of(value.type))
            op.operands[position] = self.converted(value, tv, op)

    def _meet_alike(self, op: LineOp | FetchOp) -> None:
        for at, beside in op.settled():
            op.operands[at] = self.converted(op.operands[at], fragment_of(beside).bound, op)

    def _meet_columns(self, op: ExtractOp) -> None:
        whole, natural = extracted(op, fragment_of(op.source).bound, self.threads)
        op.operands[0] = self.converted(op.source, whole, op)
        self._settle(op, op.result, natural)

    def _meet_packed(self, op: UnpackOp) -> None:
        op.operands[0] = self.converted(op.source, packed(op, fragment_of(op.result).bound), op)

    def _settle(self, op: Operation, result: SSAValue, natural: Layout) -> None:
        """Give `result` the layout that the op makes, and its users the one they were promised."""
        promised = fragment_of(result)
        if promised.tv == natural:
            return
        uses = list(result.uses)
        made = Rewriter.replace_value_with_new_type(result, promised.with_tv(natural))
        after = op.next_op
        assert after is not None
        converted = self.converted(made, promised.bound, after)
        for use in uses:
            use.operation.operands[use.index] = converted

    # Loads and copies

    def _bind_load(self, op: LoadOp) -> None:
        if is_joined(op.source):
            # Its parts lie anywhere: a thread finds its elements where they are put together.
            self.stage_load(op, is_multiplied=False)
            return
        source = memref_of(op.source)
        is_stored = self.dependences.reads_stored(op, op.source)
        made = op.source.owner
        is_indexed = isinstance(made, IndexedTileOp)
        if is_indexed and NUMBERS_ROWS in made.attributes and takes_async_copy(source, self.arch):
            self.stage_load(op)
            return
        named = named_layout(op, op.source, self.threads)
        takes_copies = (
            not (is_stored or is_indexed) and named is None and takes_async_copy(source, self.arch)
        )
        if self.is_specialized and not self.atoms and takes_copies and not is_common(op.source):
            # Where no operands want the shared memory, tiles come through it ahead of their use.
            name = f"s{op.source.name_hint or ''}"
            buffer = self.new_buffer(source, contiguous_mode(source), op, name)
            self.copy_to_smem(op.source, buffer, op)
            op.operands[0] = buffer
            op.attributes["atom"] = UniversalCopyType.get(source.element, 128)
            return
        # Who copies rows loads their numbers, and waits for them itself.
        if takes_copies and NUMBERS_ROWS not in op.attributes and self._comes_ahead(op):
            return
        op.attributes["atom"] = UniversalCopyType.get(source.element, vector_bytes(source) * 8)
        type_ = fragment_of(op.result)
        natural = self.in_vectors(type_, source) if named is None else named
        copy = self.copies.get(op.result) if named is None else named_copy(op.source)
        if natural != type_.tv:
            self._settle(op, op.result, natural)
        op.tiled = tiled_copy_of(copy, op.result.type)
        self.meet_rows(op)

    def _comes_ahead(self, op: LoadOp) -> bool:
        """Whether a tile comes through shared memory: what an operand is computed from, few
        elements of a row beside one, or what waits there for its use.
        """
        if is_on_its_way(op):
            self.stage_load(op, is_multiplied=False)
            return True
        values = fragment_of(op.result).values
        # Products of the trip before leave the time in which a thread reads more.
        may_wait = values <= _SOME_BESIDE or self.schedule.overlap == "yes"
        is_beside = may_wait and is_beside_products(op)
        is_beside |= values <= _FEW_BESIDE and is_beside_one_on_its_way(op)
        if self.is_specialized and is_beside and self._stage_row(op):
            return True
        return self._waits_in_smem(op)

    def _waits_in_smem(self, op: LoadOp) -> bool:
        """Whether a tile is brought by TMA and read from shared memory where it is used: one of
        which threads hold the same elements, if they lack the registers to wait for it in, or wait
        in its trip for what another role multiplies.
        """
        held = fragment_of(op.result)
        atoms = [bound.atom for bound in self.atoms.values()]
        shares = held.values >= _FEW and held.values * self.threads > prod(held.shape)
        reader = _first_user(op.result)
        if not self.is_specialized or not shares or reader is None:
            return False
        if any(isinstance(atom, Tcgen05Atom) for atom in atoms):
            return self._comes_with_products(op, reader)
        if not any(isinstance(atom, WgmmaAtom) for atom in atoms):
            return False
        # Teams that take turns cannot tell the role that loads what they decide on.
        if self.schedule.plan.teams > 1 and asks_tiles_around(op, (LastArrivalOp,)):
            return False
        room = registers_for_tiles(self.kernel, self.registers)
        if registers_beside(self.kernel, op.result) <= room:
            return False
        if not self._stage_row(op):
            return False
        op.detach()
        multiplied = {gemm.acc for gemm in self.atoms}
        completed = [tile for tile in reader.operands if tile in multiplied]
        insert_before(reader, op)
        if completed:
            # It comes while the multiplies are at work, where there are registers for it then.
            is_early = registers_where_made(self.kernel, op.result) <= room
            insert_before(reader if is_early else op, CompleteOp(completed))
        return True

    def _comes_with_products(self, op: LoadOp, reader: Operation) -> bool:
        """Let a load read shared memory in front of its reader, where another role multiplies in
        its trip, and TMA brings it.
        """
        if not _is_in_trip_of_multiplies(op) or not self._stage_row(op):
            return False
        op.detach()
        insert_before(reader, op)
        return True

    def _stage_row(self, op: LoadOp) -> bool:
        """Let a load read a row or a column from shared memory, where TMA brings it ahead; False
        where TMA does not.
        """
        source = memref_of(op.source)
        extents, along = shape_of(source), contiguous_mode(source)
        if along is None:
            return False
        # Lanes read the same elements: no two of them two words of a bank, so no swizzle.
        strides = tuple(1 if mode == along else extents[along] for mode in range(len(extents)))
        staging = Layout(extents, strides), None, _TMA_ALIGNMENT
        name = f"s{op.source.name_hint or ''}"
        buffer = self.smem_buffer(source.element, staging, op, name)
        if self.load_by_tma(op.source, buffer, op):
            erase(buffer.op)
            return False
        op.operands[0] = buffer
        op.attributes["atom"] = UniversalCopyType.get(source.element, 128)
        return True

    def _bind_copy(self, op: CopyOp) -> None:
        source, destination = op.source.type, op.destination.type
        if isinstance(source, FragmentType) and isinstance(destination, FragmentType):
            op.operands[0] = self.converted(op.source, destination.bound, op)
            return
        assert isinstance(source, MemRefType)
        op.properties["atom"] = UniversalCopyType.get(source.element, vector_bytes(source) * 8)
        if isinstance(destination, MemRefType):
            named = named_copy(op.source) or named_copy(op.destination)
            copy = named or coalesced_for(source, self.threads, self.grid)
            for side in (op.source, op.destination):
                named_layout(op, side, self.threads)
            fragment = FragmentType.get(source.element, source.shape, copied(copy, source.shape))
            load = self.insert(LoadOp(op.source, fragment, TiledCopyAttr(copy)), op)
            load.attributes["atom"] = op.properties["atom"]
            op.operands[0] = load.result
            if is_joined(load.source):
                load.tiled = None
                self.stage_load(load, is_multiplied=False)


def _is_beside_multiplies(op: Operation) -> bool:
    """Whether an op is in a loop without a multiply: a ring of what it loads would leave fewer
    stages to the loops that multiply.
    """
    loop = next((each for each in ops_around(op) if isinstance(each, scf.ForOp)), None)
    return loop is not None and not holds(loop, GemmOp)


def _is_in_trip_of_multiplies(op: Operation) -> bool:
    """Whether an op and a multiply stand in the trip of one loop."""
    block, loop = op.parent, op.parent_op()
    in_loop = isinstance(loop, scf.ForOp) and not is_work_loop(loop)
    return in_loop and block is not None and any(isinstance(each, GemmOp) for each in block.ops)


def _first_user(value: SSAValue) -> Operation | None:
    """The first op that takes a value, if all are in the block that makes it, unless that is beside
    the loops that multiply.
    """
    block = value.owner.parent  # pyright: ignore[reportAttributeAccessIssue]
    users = [use.operation for use in value.uses]
    if block is None or any(user.parent is not block for user in users):
        return None
    if users and _is_beside_multiplies(users[0]):
        return None
    return min(users, key=index_in_block, default=None)


def _is_store(op: CopyOp) -> bool:
    return isinstance(op.source.type, FragmentType) and isinstance(op.destination.type, MemRefType)


def _operand_atom(type_: MemRefType) -> Attribute:
    """`ldmatrix` where a form exists for the element width and major, else plain loads.

    K-major rows of 16 bytes serve 8-, 16- and 32-bit elements; the transposed form moves 16-bit
    elements only (PTX ISA 9.7.14.5.15).
    """
    k_major = contiguous_mode(type_) == 1
    element = type_.element
    if k_major and type_.bits in (8, 16, 32):
        return LdsmType.get(element, 4, False)
    if not k_major and type_.bits == 16:
        return LdsmType.get(element, 4, True)
    width = type_.bits if not isinstance(element, Float32Type) else 32
    return UniversalCopyType.get(element, width)
