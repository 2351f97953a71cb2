"""Tensor memory: its plan, one warp that takes all columns before the roles part and one that gives
them back, `tcgen05.mma`, loads and stores.
"""

from __future__ import annotations

from collections.abc import Sequence

from xdsl.ir import Attribute, Operation, SSAValue

from cutedialect.atoms import WARP_SIZE
from cutedialect.atoms.matrix_descriptor import MatrixDescriptor
from cutedialect.atoms.tcgen05_atoms import K_BYTES, Tcgen05Atom
from cutedialect.atoms.tmem_copy_atoms import unit_places
from cutedialect.atoms.tmem_layouts import COLUMNS, LANE, WARP_LANES
from cutedialect.dialects import cute, ptx
from cutedialect.dialects.cute_nvgpu import (
    Sm100MmaType,
    TmemAddressOp,
    TmemAllocOp,
    TmemDeallocOp,
    TmemLoadType,
    TmemStoreType,
)
from cutedialect.layout import flatten

from .addresses import tile_address
from .elementwise import Fragment
from .loaded_extremes import awaited_extreme, expect
from .lowering import Handler, KernelLowering
from .scalar_builder import Scalar
from .wgmma import first_steps, operand_descriptor

_GROUP = 4
# The most registers at once.
_MOST = 64
# A panel of scales: 32 rows of 16 bytes in shared memory, four columns of tensor memory.
_PANEL = MatrixDescriptor("K", 16, 128, "none", "tcgen05")
_PANEL_BYTES = cute.PANEL_ROWS * cute.PANEL_COLUMNS
_ADDRESS_BITS = 0x3FFF


def _alloc(self: KernelLowering, op: cute.AllocTmemOp) -> None:
    plan = self.tensor
    if op.over is not None:
        plan.offsets[op.result] = plan.offsets[op.over]
        return
    plan.offsets[op.result] = plan.used
    plan.used += op.columns
    if plan.used > COLUMNS:
        raise ValueError(f"expected at most {COLUMNS} columns of tensor memory, got {plan.used}")


def _take(self: KernelLowering, op: TmemAllocOp) -> None:
    """The first warp takes the columns."""
    plan, builder = self.tensor, self.builder
    columns, group = op.columns.value.data, _ctas(op)
    if columns < plan.used:
        raise ValueError(f"expected at least the {plan.used} columns of all buffers, got {columns}")
    plan.slot = self.context.smem.take(4, 4)

    def take() -> None:
        base = builder.smem_base()
        builder.emit(ptx.TmemAllocOp(base, columns, group, plan.slot))
        builder.emit(ptx.TmemRelinquishOp(group))

    self.context.when(builder.equal(builder.warp_index(), 0), take)


def _ctas(op: TmemAllocOp | TmemDeallocOp) -> int:
    """How many CTAs take or give back columns together."""
    return 1 if op.pair is None else 2


def _find(self: KernelLowering, _op: TmemAddressOp) -> None:
    """Every thread reads where the columns are."""
    plan, builder = self.tensor, self.builder
    load = ptx.LdScalarOp("shared.b32", builder.smem_base(), plan.slot, "b32")
    plan.base = builder.uniform(builder.result(load))
    for value, offset in plan.offsets.items():
        plan.tiles[value] = builder.add(plan.base, offset)


def _word(type_: cute.MemRefType, offset: int) -> int:
    """The address, in words of 32 bits, of so many elements behind the start of a tile."""
    packed = 32 // type_.bits
    lane, column = divmod(offset, LANE * packed)
    return lane * LANE + column // packed


def _give_back(self: KernelLowering, op: TmemDeallocOp) -> None:
    """The first warp of the role gives the columns back."""
    builder = self.builder
    base = builder.value(self.tensor.base, "b32")
    give_back = ptx.TmemDeallocOp(base, op.columns.value.data, _ctas(op))
    is_first = builder.equal(self.context.warp_index(), 0)
    self.context.when(is_first, lambda: builder.emit(give_back))


# Views


def stage(self: KernelLowering, op: cute.StageOp) -> None:
    """One stage of a ring in tensor memory."""
    type_ = cute.memref_of(op.source)
    step = type_.stride[-1]
    assert isinstance(step, int)
    at = self.builder.mul(self.scalars[op.index], _word(type_, step))
    self.tensor.tiles[op.result] = self.builder.add(_address(self, op.source), at)


def subview(self: KernelLowering, op: cute.SubviewOp) -> None:
    """A part of a tile in tensor memory."""
    type_, address = cute.memref_of(op.source), _address(self, op.source)
    offset = _word(type_, type_.layout(*map(int, op.origin.get_values())))
    self.tensor.tiles[op.result] = self.builder.add(address, offset)


def _address(self: KernelLowering, tile: SSAValue) -> Scalar:
    found = self.tensor.tiles.get(tile)
    if found is None:
        raise ValueError(f"expected a tile of tensor memory in a role, got {tile.type}")
    return found


# Multiplies, loads and stores


def multiply(self: KernelLowering, op: cute.GemmOp) -> None:
    """D (+)= A B^T, started by one thread; a commit tells when it is done."""
    context, builder = self.context, self.builder
    type_ = op.atom
    assert isinstance(type_, Sm100MmaType)
    if not context.team.elected:
        raise ValueError("expected one thread to issue tcgen05.mma (a role with elect)")
    atom = type_.entry(context.arch)
    am, an, _ = atom.shape_mnk
    # The depth of an instruction in elements of the operands' type, of which a byte may hold two.
    ak = 8 * K_BYTES // cute.memref_of(op.b).bits
    # What this CTA has of each product of a pair.
    rows, columns = am // atom.cta_group, an // atom.cta_group
    acc = cute.memref_of(op.acc)
    m, n = acc.shape
    assert isinstance(m, int)
    assert isinstance(n, int)
    a, a_major, a_table = _left(self, op, rows, ak)
    b, b_major, b_table = operand_descriptor(context, op.b, self.view(op, op.b), columns, ak)
    order = [
        (k, row, column)
        for k in range(len(a_table[0]))
        for row in range(m // rows)
        for column in range(n // an)
    ]
    keeps: Scalar = True if op.keeps is None else self.scalars[op.keeps]
    starts, scale = first_steps(context, keeps, order)
    to = builder.value(_address(self, op.acc), "b32")
    if op.scales is not None:
        copy_factors(self, op, atom.cta_group)
    # Each instruction with scales has a descriptor and addresses of its own.
    for run in [order] if op.scales is None else [[step] for step in order]:
        number, factors = factors_of(self, op, atom, run[0])
        builder.emit(
            ptx.Tcgen05MmaOp(
                atom.ptx.removeprefix("tcgen05.mma."),
                to,
                a,
                b,
                atom.descriptor(a_major=a_major, b_major=b_major, scale_ids=(number, number)),
                [acc.layout(row * rows, column * an) for _, row, column in run],
                [a_table[row][k] for k, row, _ in run],
                [b_table[column][k] for k, _, column in run],
                enable=starts if run[0][0] == 0 else (),
                scale=None if scale is None else [-1 if k else 0 for k, _, _ in run],
                factors=factors,
            )
        )


def _left(
    self: KernelLowering, op: cute.GemmOp, rows: int, depth: int
) -> tuple[SSAValue, str, Sequence[Sequence[int]]]:
    """A, in shared or tensor memory: where it is, its major, addends of (block of rows, k step)."""
    held = cute.memref_of(op.a)
    if held.space != "tmem":
        return operand_descriptor(self.context, op.a, self.view(op, op.a), rows, depth)
    table = [
        [_word(held, held.layout(row, k)) for k in range(0, held.shape[1], depth)]
        for row in range(0, held.shape[0], rows)
    ]
    return self.builder.value(_address(self, op.a), "b32"), "K", table


def copy_factors(self: KernelLowering, op: cute.GemmOp, ctas: int) -> None:
    """Copy the scales of blocks to tensor memory, in front of the multiplies that read them: the
    tensor core executes copies and multiplies of one thread in the order of their issue (PTX ISA
    9.7.16.6.2.1), so that the scales of the trip before have been read.

    The panels of rows of each panel of columns lie side by side.
    """
    builder, columns = self.builder, _address(self, op.factors[2])
    first = 0
    for value in op.factors[:2]:
        panels, across = cute.panels_of(value)
        with builder.near():
            address, immediate = tile_address(builder, self.view(op, value))
            chunk = builder.pure("shr.u32", builder.add(address, immediate), 4)
        for row in range(panels):
            for column in range(across):
                step = (row * across + column) * (_PANEL_BYTES // 16)
                start = builder.pure("and.b32", builder.add(chunk, step), _ADDRESS_BITS)
                matrix = builder.matrix(start, _PANEL)
                at = builder.add(columns, first + (column * panels + row) * cute.PANEL_COLUMNS)
                to = builder.value(at, "b32")
                builder.emit(ptx.TmemCopyOp(f"cta_group::{ctas}.32x128b.warpx4", to, matrix))
        first += panels * across * cute.PANEL_COLUMNS


def factors_of(
    self: KernelLowering, op: cute.GemmOp, atom: Tcgen05Atom, step: tuple[int, int, int]
) -> tuple[int, list[SSAValue]]:
    """Where the scales of blocks of a step (k, block of rows, block of columns) are: the first byte
    of their words, and the columns of those of A and B; none without scales.
    """
    if op.scales is None:
        return 0, []
    builder, columns = self.builder, _address(self, op.factors[2])
    k, *blocks = step
    column, byte = divmod(k * atom.factors, cute.PANEL_COLUMNS)
    found: list[SSAValue] = []
    first = 0
    extents = atom.shape_mnk[0] // atom.cta_group, atom.shape_mnk[1]
    for value, block, extent in zip(op.factors[:2], blocks, extents, strict=True):
        panels, across = cute.panels_of(value)
        at = first + column * panels * cute.PANEL_COLUMNS + block * extent // WARP_LANES
        found.append(builder.value(builder.add(columns, at), "b32"))
        first += panels * across * cute.PANEL_COLUMNS
    return byte, found


def load(self: KernelLowering, op: cute.CopyOp) -> None:
    """Registers from tensor memory, complete."""
    _transfer(self, op, op.source, op.destination)
    self.builder.emit(ptx.TmemWaitLdOp())


def store(self: KernelLowering, op: cute.CopyOp) -> None:
    """Registers to tensor memory, complete."""
    _transfer(self, op, op.destination, op.source)
    self.builder.emit(ptx.TmemWaitStOp())


def _transfer(self: KernelLowering, op: cute.CopyOp, tile: SSAValue, held: SSAValue) -> None:
    """Move a tile between tensor memory and registers: 16 lanes and as many columns as lie together
    at a time.
    """
    context, builder = self.context, self.builder
    fragment, type_, atom = self.fragment(op, held), cute.memref_of(tile), op.atom
    assert isinstance(atom, TmemLoadType | TmemStoreType)
    rows, layout = fragment.type.shape[0], type_.layout
    warp = context.warp_index()
    quarter = WARP_LANES * LANE
    terms = [builder.mul(builder.rem(warp, _GROUP), quarter)]
    for before, extent, place in _groups(fragment):
        index = builder.rem(builder.div(warp, before), extent)
        offset = _word(type_, layout(place % rows, place // rows))
        terms.append(builder.mul(index, offset))
    # What differs between stages comes last.
    kind, *parts = builder.definition(address := _address(self, tile)) or ("",)
    terms += parts if kind == "add.s32" else [address]
    base = builder.value(builder.total(terms), "b32")
    unit = unit_places(atom.shape, type_.bits)
    registers = len(unit) * type_.bits // 32
    wide = _word(type_, max(column for places in unit for _, column in places) + 1)
    starts = [
        _word(type_, layout(row, column)) - _word(type_, layout(row, 0)) // quarter * quarter
        for row, column in _units(fragment, rows, unit, atom)
    ]
    chunks = list[tuple[int, int]]()
    at = 0
    while at < len(starts):
        count = 1
        while 2 * count * registers <= _MOST and starts[at : at + 2 * count] == [
            starts[at] + wide * i for i in range(2 * count)
        ]:
            count *= 2
        chunks.append((at, count))
        at += count
    parts = _extremes(self, op, [count for _, count in chunks])
    for number, (at, count) in enumerate(chunks):
        tail, first = f"sync.aligned.{atom.shape}.x{count}", [at * registers]
        if isinstance(atom, TmemStoreType):
            builder.emit(ptx.TmemStOp(f"{tail}.b32", base, fragment.array, first, [starts[at]]))
        elif parts is None:
            builder.emit(ptx.TmemLdOp(f"{tail}.b32", fragment.array, base, first, [starts[at]]))
        else:
            kind, arrays = parts
            modifiers = f"red.{tail}.{kind}.NaN.f32"
            found = arrays[number]
            builder.emit(ptx.TmemLdOp(modifiers, fragment.array, base, first, [starts[at]], found))


def _extremes(
    self: KernelLowering, op: cute.CopyOp, counts: Sequence[int]
) -> tuple[str, list[SSAValue]] | None:
    """What the loads find of each row beside it, by `tcgen05.ld.red`, and its registers."""
    atom = op.atom
    if not isinstance(atom, TmemLoadType) or atom.shape != "32x32b" or min(counts) < 2:
        return None
    reduce = awaited_extreme(self, op)
    return None if reduce is None else (reduce.kind.data, expect(self, op, reduce, len(counts)))


def _units(
    fragment: Fragment, rows: int, unit: Sequence[Sequence[tuple[int, int]]], atom: Attribute
) -> list[tuple[int, int]]:
    """(row, column) of what each instruction moves of a tile of so many rows, if it is without
    repeats; those of the first thread.
    """
    tv = fragment.tv
    # Offsets are sums of what thread and value give, so each is looked at beside the other's first.
    lanes = [lane + rows * column for lane, column in unit[0]]
    inside = [places[0][0] + rows * places[0][1] for places in unit]
    firsts = [tv((0, start)) for start in range(0, fragment.values, len(unit))]
    held = [
        tv((0, start + value)) - first
        for start, first in zip(range(0, fragment.values, len(unit)), firsts, strict=True)
        for value in range(len(unit))
    ]
    if (
        fragment.values % len(unit)
        or held != inside * len(firsts)
        or [tv((thread, 0)) for thread in range(WARP_SIZE)] != [firsts[0] + at for at in lanes]
    ):
        raise ValueError(
            f"expected registers in which {atom} has its elements, got {fragment.type}"
        )
    return [(first % rows, first // rows) for first in firsts]


def _groups(fragment: Fragment) -> list[tuple[int, int, int]]:
    """(warps in front, warpgroups, place of the second one) of each mode of warpgroups."""
    found: list[tuple[int, int, int]] = []
    threads = 1
    inner = fragment.tv[0]
    for extent, stride in zip(flatten(inner.shape), flatten(inner.stride), strict=True):
        if threads >= WARP_SIZE * _GROUP and extent > 1:
            found.append((threads // WARP_SIZE, extent, stride))
        threads *= extent
    return found


HANDLERS: dict[type[Operation], Handler] = {
    cute.AllocTmemOp: _alloc,
    TmemAllocOp: _take,
    TmemAddressOp: _find,
    TmemDeallocOp: _give_back,
}
