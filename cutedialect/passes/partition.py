"""`cute-partition`: bind every tile to memory, threads and atoms.

Before, ops speak of whole tiles; after, each matrix multiply reads fragments that explicit copies
bring through swizzled shared memory, every fragment has its thread-value layout, and every copy
names its atom. The program is still one straight tile program.
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects.builtin import Float32Type, FloatTF32Type, ModuleOp, UnitAttr
from xdsl.ir import Attribute, Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import Rewriter
from xdsl.utils.exceptions import PassFailedException

from cutedialect.atoms import MmaAtom, target
from cutedialect.atoms.wgmma_atoms import WgmmaAtom
from cutedialect.dialects.cute import (
    AllocFragmentOp,
    AllocSmemOp,
    AtomicOp,
    BarrierOp,
    ConvertOp,
    CopyOp,
    ExtractOp,
    FragmentType,
    GemmOp,
    KernelOp,
    LayoutAttr,
    LoadOp,
    MapOp,
    MemRefType,
    ReduceOp,
    SubviewOp,
    TransposeOp,
    transposed_tv,
)
from cutedialect.dialects.cute_nvgpu import (
    LdsmType,
    SimtAsyncCopyType,
    Sm80MmaType,
    Sm90MmaType,
    StsmType,
    TmaLoadType,
    TmaStoreType,
    UniversalCopyType,
)
from cutedialect.layout import Layout, flatten
from cutedialect.passes.layout_inference import (
    LayoutInference,
    coalesced_for,
    contiguous_mode,
    vector_bytes,
)
from cutedialect.passes.mma_choice import choose_mma, shapes_of
from cutedialect.passes.smem_layouts import columns_at_once, staging_layout
from cutedialect.passes.tensor_maps import (
    TensorMaps,
    box_of,
    has_tensor_map,
    sharing,
    tile_of_tensor,
)
from cutedialect.passes.thread_layouts import (
    columns_of,
    divides_rows,
    mma_accumulator,
    mma_operand,
    project,
    same_elements,
    sector_efficiency,
)

# Warps of a warpgroup.
_GROUP = 4
# A store whose first vectors fill less than this share of their sectors goes through smem first.
_MIN_SECTOR_EFFICIENCY = 0.5


@dataclass(frozen=True)
class PartitionPass(ModulePass):
    """Choose atoms, shared-memory layouts and thread-value layouts for one architecture."""

    name = "cute-partition"

    arch: str = "sm_80"

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if isinstance(kernel, KernelOp):
                _Partition(kernel, self.arch).run()


class _Partition:
    """The pass on one kernel."""

    def __init__(self, kernel: KernelOp, arch: str) -> None:
        if kernel.schedule is None or kernel.schedule.data.warps is None or kernel.threads is None:
            raise PassFailedException(
                kernel, "expected a schedule with warps (run cute-tile first), got none"
            )
        self.kernel = kernel
        self.arch = arch
        self.schedule = kernel.schedule.data
        self.warps = kernel.schedule.data.warps
        self.threads = kernel.threads.value.data
        self.atoms: dict[GemmOp, MmaAtom] = {}
        self.staged: dict[SSAValue, SSAValue] = {}
        self.maps = TensorMaps(kernel)
        self.is_specialized = self.schedule.roles in ("specialized", "alternate")
        first = kernel.body.block.first_op
        assert first is not None
        self.top = first

    def run(self) -> None:
        inference = LayoutInference(self.kernel, self.threads)
        for op in list(self.kernel.body.block.walk()):
            if isinstance(op, GemmOp):
                self._choose_atom(op, inference)
        layouts = inference.run()
        for value, layout in layouts.items():
            assert isinstance(value.type, FragmentType)
            Rewriter.replace_value_with_new_type(value, value.type.with_tv(layout))
        for op in list(self.kernel.body.block.walk()):
            match op:
                case GemmOp():
                    self._bind_gemm(op)
                case MapOp():
                    self._meet_map(op)
                case ReduceOp():
                    self._meet_reduce(op)
                case TransposeOp():
                    self._meet_transpose(op)
                case LoadOp():
                    self._bind_load(op)
                case CopyOp() if op.atom is None:
                    self._bind_copy(op)
                case AtomicOp():
                    pass
                case _:
                    pass

    def _insert(self, op: Operation, before: Operation) -> Operation:
        op.location = before.location
        block = before.parent
        assert block is not None
        block.insert_op_before(op, before)
        return op

    def _insert_top(self, op: Operation, like: Operation) -> Operation:
        op.location = like.location
        block = self.kernel.body.block
        block.insert_op_before(op, self.top)
        return op

    # Matrix multiply

    def _choose_atom(self, op: GemmOp, inference: LayoutInference) -> None:
        acc = op.acc.type
        if not isinstance(acc, FragmentType):
            raise PassFailedException(
                op, f"expected an accumulator in registers (run cute-tile first), got {acc}"
            )
        asked = self.schedule.atom
        try:
            atom = choose_mma(op, self.warps, self.arch, asked)
        except ValueError as error:
            raise PassFailedException(op, str(error)) from error
        m, n = acc.shape
        wm, wn = self.warps
        if atom is None:
            raise PassFailedException(
                op,
                f"expected a tile {(m, n, _shape(op.a)[1])} that the {wm}x{wn} warps divide into "
                f"MMA atoms of {shapes_of(op, self.arch)}"
                f"{f' (atom {asked})' if asked else ''}, got no atom that fits",
            )
        self.atoms[op] = atom
        units = self._units(atom)
        inference.anchor(op.acc, mma_accumulator(atom, (m, n), units))
        for which, value in (("a", op.a), ("b", op.b)):
            if isinstance(value.type, FragmentType):
                inference.anchor(value, mma_operand(atom, which, value.type.shape, units))  # pyright: ignore[reportArgumentType]

    def _units(self, atom: MmaAtom) -> tuple[int, int]:
        """The grid of warps, or of warpgroups where the atom takes four warps at once."""
        wm, wn = self.warps
        return (wm // 4, wn) if isinstance(atom, WgmmaAtom) else (wm, wn)

    def _bind_gemm(self, op: GemmOp) -> None:
        atom = self.atoms[op]
        elements = _element(op.a), _element(op.b), _element(op.acc)
        a, b = self._stage(op, op.a), self._stage(op, op.b)
        if isinstance(atom, WgmmaAtom):
            self._insert(GemmOp(a, b, op.acc, Sm90MmaType.get(atom.shape_mnk, *elements)), op)
        else:
            self._bind_warp_gemm(op, atom, a, b)
        op.detach()
        op.erase()

    def _bind_warp_gemm(self, op: GemmOp, atom: MmaAtom, a: SSAValue, b: SSAValue) -> None:
        """One multiply for each k block, its operands brought to registers before."""
        type_ = Sm80MmaType.get(atom.shape_mnk, _element(op.a), _element(op.b), _element(op.acc))
        depth, step = _shape(op.a)[1], atom.shape_mnk[2]
        if isinstance(a.type, FragmentType) or isinstance(b.type, FragmentType):
            step = depth
        for k in range(0, depth, step):
            parts: list[SSAValue] = []
            for which, value in (("a", a), ("b", b)):
                parts.append(self._fragment(op, atom, which, value, k, step))
            self._insert(GemmOp(parts[0], parts[1], op.acc, type_), op)

    def _stage(self, op: GemmOp, value: SSAValue) -> SSAValue:
        """Bring an operand tile from global memory into swizzled shared memory."""
        type_ = value.type
        if not (isinstance(type_, MemRefType) and type_.space == "gmem"):
            return value
        if value in self.staged:
            return self.staged[value]
        buffer = self._smem(type_, contiguous_mode(type_), op)
        buffer.name_hint = f"s{value.name_hint or ''}"
        self._copy_to_smem(value, buffer, op)
        self.staged[value] = buffer
        return buffer

    def _smem(self, type_: MemRefType, contiguous: int | None, like: Operation) -> SSAValue:
        """A new buffer for a tile, swizzled for the mode that is contiguous."""
        layout, swizzle, alignment = staging_layout(type_.shape, contiguous, type_.bits)
        if self.is_specialized:
            # TMA writes whole boxes, from a line of 128 bytes on (PTX ISA 5.5).
            alignment = max(alignment, 128)
        smem = MemRefType.get(type_.element, "smem", alignment, layout, swizzle)
        return self._insert_top(AllocSmemOp(smem), like).results[0]

    def _copy_to_smem(self, source: SSAValue, buffer: SSAValue, before: Operation) -> None:
        type_ = source.type
        assert isinstance(type_, MemRefType)
        if self.is_specialized:
            # Tensor cores would cut f32 operands off where loads can round them.
            rounded = FloatTF32Type() if isinstance(type_.element, Float32Type) else None
            if not self._load_by_tma(source, buffer, before, rounded):
                raise PassFailedException(
                    before,
                    f"expected an operand that TMA can load (aligned to 16 bytes, a multiple of 16 "
                    f"bytes in each row) for the role plan {self.schedule.roles}, got {type_}; the "
                    f"plan uniform takes it",
                )
            return
        tv = coalesced_for(type_, self.threads)
        width = vector_bytes(type_)
        if width >= 4 and contiguous_mode(type_) is not None:
            cache = "global" if width == 16 else "always"
            atom = SimtAsyncCopyType.get(type_.element, cache, width * 8)
            self._insert(CopyOp(source, buffer, atom=atom, tv=LayoutAttr(tv)), before)
            return
        fragment = FragmentType.get(type_.element, type_.shape, tv)
        loaded = self._insert(LoadOp(source, fragment), before).results[0]
        atom = UniversalCopyType.get(type_.element, width * 8)
        self._insert(CopyOp(loaded, buffer, atom=atom), before)

    def _load_by_tma(
        self,
        source: SSAValue,
        buffer: SSAValue,
        before: Operation,
        element: Attribute | None = None,
    ) -> bool:
        """A TMA load into `buffer`, shared by the CTAs of the cluster that want the same tile."""
        group = sharing(source, self.schedule.cluster or (1, 1))
        described = self._tensor_map(source, buffer, group[0] if group is not None else 1, element)
        if described is None and group is not None:
            group = None
            described = self._tensor_map(source, buffer, 1, element)
        if described is None:
            return False
        atom = TmaLoadType.get(_element(source), group)
        self._insert(CopyOp(source, buffer, atom=atom, descriptor=described), before)
        return True

    def _tensor_map(
        self, tile: SSAValue, buffer: SSAValue, share: int, element: Attribute | None = None
    ) -> SSAValue | None:
        """The tensor map for copies between a tile in gmem and its buffer, if there is one."""
        type_, staged = tile.type, buffer.type
        assert isinstance(type_, MemRefType)
        assert isinstance(staged, MemRefType)
        found = tile_of_tensor(tile)
        if found is None or not has_tensor_map(found.tensor.type):  # pyright: ignore[reportArgumentType]
            return None
        contiguous = contiguous_mode(type_)
        if contiguous is None:
            return None
        box = box_of(type_.shape, staged.modes, contiguous, share)
        if box is None or box[contiguous] * type_.bits % 128:
            return None
        return self.maps.descriptor(found, box, staged.swizzle, element)

    def _fragment(
        self, op: GemmOp, atom: MmaAtom, which: str, value: SSAValue, k: int, step: int
    ) -> SSAValue:
        """The registers of one k block of an operand."""
        rows = _shape(value)[0]
        tv = mma_operand(atom, which, (rows, step), self.warps)
        if isinstance(value.type, FragmentType):
            return self._converted(value, tv, op)
        view = self._insert(SubviewOp(value, (0, k), (rows, step)), op).results[0]
        assert isinstance(value.type, MemRefType)
        type_ = FragmentType.get(value.type.element, (rows, step), tv)
        fragment = self._insert(AllocFragmentOp(type_), op).results[0]
        copy = CopyOp(view, fragment, atom=_operand_atom(value.type))
        self._insert(copy, op)
        return fragment

    # Conversions where layouts meet

    def _converted(self, value: SSAValue, tv: Layout, before: Operation) -> SSAValue:
        """`value` in the layout `tv`: as it is, with registers permuted, or through smem."""
        type_ = value.type
        assert isinstance(type_, FragmentType)
        have = type_.tv
        assert have is not None
        if have == tv:
            return value
        wanted = type_.with_tv(tv)
        if same_elements(have, tv):
            return self._insert(ConvertOp(value, wanted), before).results[0]
        layout, swizzle, alignment = staging_layout(type_.shape, 0, type_.bits)
        smem = MemRefType.get(type_.element, "smem", alignment, layout, swizzle)
        alloc = AllocSmemOp(smem)
        alloc.attributes["scratch"] = UnitAttr()
        scratch = self._insert_top(alloc, before).results[0]
        atom = UniversalCopyType.get(type_.element, 128)
        self._insert(BarrierOp(), before)
        self._insert(CopyOp(value, scratch, atom=atom), before)
        self._insert(BarrierOp(), before)
        result = self._insert(AllocFragmentOp(wanted), before).results[0]
        self._insert(CopyOp(scratch, result, atom=atom), before)
        return result

    def _meet_map(self, op: MapOp) -> None:
        result = op.result.type
        assert isinstance(result, FragmentType)
        assert result.tv is not None
        for position, value in enumerate(op.inputs):
            shape = _shape(value)
            tv = result.tv
            if shape != result.shape:
                tv = project(tv, result.shape, shape)
            op.operands[position] = self._converted(value, tv, op)

    def _meet_reduce(self, op: ReduceOp) -> None:
        source, result = op.source.type, op.result.type
        assert isinstance(source, FragmentType)
        assert isinstance(result, FragmentType)
        assert source.tv is not None
        self._settle(op, op.result, project(source.tv, source.shape, result.shape))

    def _meet_transpose(self, op: TransposeOp) -> None:
        source, result = op.source.type, op.result.type
        if not isinstance(source, FragmentType):
            return
        assert isinstance(result, FragmentType)
        assert source.tv is not None
        tv = source.tv if len(source.shape) == 1 else transposed_tv(source.tv, source.shape)
        self._settle(op, op.result, tv)

    def _settle(self, op: Operation, result: SSAValue, natural: Layout) -> None:
        """Give `result` the layout that the op makes, and its users the one they were promised."""
        promised = result.type
        assert isinstance(promised, FragmentType)
        assert promised.tv is not None
        if promised.tv == natural:
            return
        uses = list(result.uses)
        Rewriter.replace_value_with_new_type(result, promised.with_tv(natural))
        after = op.next_op
        assert after is not None
        converted = self._converted(result, promised.tv, after)
        for use in uses:
            use.operation.operands[use.index] = converted

    # Loads and stores

    def _bind_load(self, op: LoadOp) -> None:
        source = op.source.type
        assert isinstance(source, MemRefType)
        if self.is_specialized and not self.atoms and source.rank == 2:
            # Where no operands want the shared memory, tiles come through it ahead of their use.
            buffer = self._smem(source, contiguous_mode(source), op)
            if self._load_by_tma(op.source, buffer, op):
                buffer.name_hint = f"s{op.source.name_hint or ''}"
                op.operands[0] = buffer
                op.attributes["atom"] = UniversalCopyType.get(source.element, 128)
                return
            assert isinstance(buffer.owner, AllocSmemOp)
            buffer.owner.detach()
            buffer.owner.erase()
        op.attributes["atom"] = UniversalCopyType.get(source.element, vector_bytes(source) * 8)

    def _bind_copy(self, op: CopyOp) -> None:
        source, destination = op.source.type, op.destination.type
        if isinstance(source, FragmentType) and isinstance(destination, FragmentType):
            assert destination.tv is not None
            op.operands[0] = self._converted(op.source, destination.tv, op)
            return
        if isinstance(source, FragmentType):
            assert isinstance(destination, MemRefType)
            if self.schedule.epilogue == "tma" and self._store_by_tma(op, source, destination):
                return
            op.operands[0] = self._store_layout(op, source, destination)
            atom = UniversalCopyType.get(source.element, vector_bytes(destination) * 8)
            op.properties["atom"] = atom
            return
        assert isinstance(source, MemRefType)
        op.properties["atom"] = UniversalCopyType.get(source.element, vector_bytes(source) * 8)
        if isinstance(destination, MemRefType):
            tv = coalesced_for(source, self.threads)
            fragment = FragmentType.get(source.element, source.shape, tv)
            loaded = self._insert(LoadOp(op.source, fragment), op)
            loaded.attributes["atom"] = op.properties["atom"]
            op.operands[0] = loaded.results[0]

    def _store_by_tma(self, op: CopyOp, source: FragmentType, destination: MemRefType) -> bool:
        """Through shared memory, in the layout that the registers have, then as whole boxes."""
        contiguous = contiguous_mode(destination)
        if destination.space != "gmem" or contiguous is None or len(source.shape) != 2:
            return False
        rows, columns = source.shape
        chunk, part = self._chunk(source)
        layout, swizzle, alignment = staging_layout((rows, chunk), contiguous, source.bits)
        smem = MemRefType.get(source.element, "smem", max(alignment, 128), layout, swizzle)
        buffer = AllocSmemOp(smem)
        view = SubviewOp(op.destination, (0, 0), (rows, chunk))
        groups = self._row_groups(source, layout, contiguous)
        described = self._tensor_map(view.result, buffer.result, groups if contiguous else 1)
        if described is None:
            return False
        stored = op.source
        staged = self._insert_top(buffer, op).results[0]
        staged.name_hint = f"s{op.destination.name_hint or ''}"
        atom = self._staging_atom(source, contiguous)
        store = TmaStoreType.get(source.element, warps=_GROUP if groups > 1 else None)
        for first in range(0, columns, chunk):
            piece, to = op.source, op.destination
            if chunk != columns:
                piece = self._columns(op.source, first, part, op)
                to = self._insert(SubviewOp(op.destination, (0, first), (rows, chunk)), op)
                to = to.results[0]
            self._insert(CopyOp(piece, staged, atom=atom), op)
            self._insert(CopyOp(staged, to, atom=store, descriptor=described), op)
        op.detach()
        op.erase()
        _erase_unused(stored)
        return True

    def _columns(
        self, value: SSAValue, first: int, part: FragmentType, before: Operation
    ) -> SSAValue:
        """Some columns of a register tile.

        What only a store uses is computed as it is stored: few registers hold results at one time,
        and the first columns are on their way while the last are computed.
        """
        source = value.owner
        types = self._parts_of_inputs(source, part) if _has_one_user(value) else None
        if types is None or source.parent is not before.parent:
            return self._insert(ExtractOp(value, (0, first), part), before).results[0]
        assert isinstance(source, MapOp)
        inputs = [
            each if type_ is None else self._columns(each, first, type_, before)
            for each, type_ in zip(source.inputs, types, strict=True)
        ]
        return self._insert(MapOp(inputs, part, source.body.clone()), before).results[0]

    def _parts_of_inputs(
        self, op: Operation | Block, part: FragmentType
    ) -> list[FragmentType | None] | None:
        """The parts of a map's inputs that make a part of its result; None is a whole input."""
        if not isinstance(op, MapOp):
            return None
        types: list[FragmentType | None] = []
        for each in op.inputs:
            type_ = each.type
            assert isinstance(type_, FragmentType)
            assert type_.tv is not None
            if len(type_.shape) != 2 or type_.shape[1] == 1:
                types.append(None)
                continue
            rows, chunk = type_.shape[0], part.shape[1]
            tv = columns_of(type_.tv, rows, chunk)
            if tv is None:
                return None
            types.append(FragmentType.get(type_.element, (rows, chunk), tv))
        return types

    def _row_groups(self, source: FragmentType, layout: Layout, contiguous: int) -> int:
        """How many warpgroups can store their own rows, without waiting for each other."""
        groups = self.threads // (32 * _GROUP)
        rows = source.shape[0]
        assert source.tv is not None
        if groups < 2 or not divides_rows(source.tv, rows, groups):  # pyright: ignore[reportArgumentType]
            return 1
        inner = flatten(layout.shape[contiguous])[0]  # type: ignore[index]
        if contiguous == 0 and rows // groups % inner:
            return 1
        return groups

    def _chunk(self, source: FragmentType) -> tuple[int, FragmentType]:
        """Columns that go through shared memory at once, and the type of such a part.

        One line where every thread holds as much of each: a small buffer leaves room for more
        stages of the operands.
        """
        rows, columns = source.shape
        assert source.tv is not None
        chunk = columns_at_once(columns, source.bits)
        if chunk < columns:
            tv = columns_of(source.tv, rows, chunk)
            if tv is not None:
                return chunk, FragmentType.get(source.element, (rows, chunk), tv)
        return columns, source

    def _staging_atom(self, source: FragmentType, contiguous: int) -> Attribute:
        """`stmatrix` for accumulators of 16-bit elements, else plain stores."""
        assert source.tv is not None
        is_accumulator = any(
            source.tv == mma_accumulator(atom, source.shape, self._units(atom))  # pyright: ignore[reportArgumentType]
            for atom in self.atoms.values()
        )
        if source.bits == 16 and is_accumulator and target(self.arch).number >= 90:
            return StsmType.get(source.element, 4, contiguous == 0)
        return UniversalCopyType.get(source.element, 128)

    def _store_layout(self, op: CopyOp, source: FragmentType, destination: MemRefType) -> SSAValue:
        """Store directly where that fills sectors well enough, else in a coalesced layout."""
        assert source.tv is not None
        strides = tuple(s if isinstance(s, int) else 1 << 20 for s in destination.stride)
        strides += (0,) * (2 - len(strides))
        share = sector_efficiency(source.tv, strides, source.shape[0], source.bits)  # pyright: ignore[reportArgumentType]
        direct = self.schedule.epilogue != "smem" and share >= _MIN_SECTOR_EFFICIENCY
        if destination.space != "gmem" or direct:
            return op.source
        wanted = coalesced_for(destination, self.threads)
        have = sector_efficiency(wanted, strides, source.shape[0], source.bits)  # pyright: ignore[reportArgumentType]
        if have <= share and self.schedule.epilogue != "smem":
            return op.source
        return self._converted(op.source, wanted, op)


def _has_one_user(value: SSAValue) -> bool:
    return sum(1 for _ in value.uses) == 1


def _erase_unused(value: SSAValue) -> None:
    """Erase the map that makes a value if nothing uses it, and so on with what that one used."""
    op = value.owner
    if isinstance(op, MapOp) and not any(True for _ in value.uses):
        inputs = list(op.inputs)
        op.detach()
        op.erase()
        for each in inputs:
            _erase_unused(each)


def _element(value: SSAValue) -> Attribute:
    type_ = value.type
    assert isinstance(type_, MemRefType | FragmentType)
    return type_.element


def _shape(value: SSAValue) -> tuple[int, ...]:
    type_ = value.type
    assert isinstance(type_, MemRefType | FragmentType)
    return type_.shape


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
