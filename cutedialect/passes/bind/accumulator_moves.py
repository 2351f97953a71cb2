"""Accumulators move to tensor memory, where `tcgen05.mma` adds to them.

    fill acc, 0; for k { gemm a, b, acc }; y = extract acc, ...
    =>
    for k { gemm a, b, t keeps k != first }; if any trip { copy t', y } else { fill y, 0 }

Of several loops that follow each other, one keeps what t holds where one before it had a trip.
Everything that reads the tile after the loop gets the part that it reads copied to registers. Where
a role of the plan corrects accumulators that change between multiplies, they change in place, some
columns at a time; `cute-synchronize` hands the buffer from one role to the other and back:

    fill o, 0; for j { copy o * r[j], o; gemm p, v[j], o }
    =>
    fill z, 0; copy z, t; for j { copy t, x; copy x * r[j], t; gemm p, v[j], t }

In other plans the products alone are there, and registers add them up:

    gemm a, b, acc   =>   fill t, 0; gemm a, b, t; copy acc + t, acc

Sums that CTAs share, which threads write anew before they read them, come back from memory to where
the products were, so that a tile may have more columns than its threads have registers for:

    gemm a, b, t; copy t, P; if last { fill t, 0; for j { copy t + load P[j], t } }; y = f(t)
    =>
    gemm a, b, t
    for each line of columns { copy t', x; copy x, P' }
    if last { for each line { fill x, 0; for j { copy x + load P'[j], x }; copy x, t' } }
    for each line { copy t', x; y' = f(x) }
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import AnyFloat, IntegerAttr, UnitAttr, i1
from xdsl.ir import Block, Operation, Region, SSAValue

from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom
from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import Sm100MmaType, TmemLoadType, TmemStoreType
from cutedialect.dialects.effects import effects_of, is_pure, written
from cutedialect.dialects.walks import index_in_block, ops_of, walk
from cutedialect.passes.analysis.mma_choice import MmaChoice
from cutedialect.passes.analysis.resource_plan import registers_of_readers
from cutedialect.passes.analysis.results import type_of_columns
from cutedialect.passes.analysis.role_plan import ADDS_PRODUCTS
from cutedialect.passes.analysis.tensor_accumulators import (
    Life,
    life_of,
    loops_around,
    tensor_layout,
)
from cutedialect.passes.analysis.thread_layouts import ROWS_SHAPE, tensor_shape
from cutedialect.passes.bind.kernel_binding import KernelBinding, TileColumns
from cutedialect.passes.rewriting import block_of, erase
from cutedialect.passes.tile.resized_tiles import combined, neutral

# Registers of a thread beside those for elements: as many of the sums as of what is added to them.
_OTHERS = 72
# Registers of a thread that adds to memory beside those for elements.
_BESIDE_ADDED = 40
# Columns of a tile that is written anew, and of one that is corrected, at a time, most first.
_COLUMNS, _CORRECTED_COLUMNS = (64, 32, 16, 8), (32, 16, 8)
# Reductions that are those of their parts combined element by element.
_COMBINED = ("add", "max", "min")


def sum_in_registers(binding: KernelBinding) -> None:
    """Give each multiply into tensor memory whose own accumulator cannot be there another one."""
    schedule = binding.schedule
    if schedule.plan.loads is None:
        return
    for op in ops_of(binding.kernel.body.block, cute.GemmOp):
        if not isinstance(op.acc.type, cute.FragmentType) or life_of(op.acc) is not None:
            continue
        if MmaChoice(op, binding.arch, schedule.multiply).takes(Tcgen05Atom, binding.warps):
            _sum(op, binding)
            binding.kernel.attributes[ADDS_PRODUCTS] = UnitAttr()


def _sum(op: cute.GemmOp, binding: KernelBinding) -> None:
    """Multiply into a new accumulator, and add the product to the old one."""
    type_ = cute.fragment_of(op.acc)
    element = type_.element
    is_float = isinstance(element, AnyFloat)
    add, subtract = (arith.AddfOp, arith.SubfOp) if is_float else (arith.AddiOp, arith.SubiOp)
    total = subtract if op.negate is not None and len(op.negate.data) == 1 else add
    product = binding.insert(cute.AllocFragmentOp(type_), op).result
    zero = arith.ConstantOp(neutral("add", element))  # pyright: ignore[reportArgumentType]
    none = binding.insert(zero, op).result
    binding.insert(cute.FillOp(product, none), op)
    binding.insert(op.like(op.a, op.b, product, op.atom), op)
    added = binding.insert(cute.MapOp.of(total, [op.acc, product], type_), op).result
    binding.insert(cute.CopyOp(added, op.acc), op)
    erase(op)


def move_accumulators(binding: KernelBinding) -> None:
    """Let tensor memory hold what tcgen05 accumulates."""
    gemms = ops_of(binding.kernel.body.block, cute.GemmOp)
    atoms = {
        op.acc: op.atom.entry(binding.arch) for op in gemms if isinstance(op.atom, Sm100MmaType)
    }
    for accumulator, atom in atoms.items():
        life = life_of(accumulator)
        assert life is not None, "an accumulator that mma_choice has let live in tensor memory"
        _Move(binding, life, atom).run()


def stays_in_tensor_memory(life: Life, registers: int) -> bool:
    """Whether an accumulator is there until threads of so many registers have read it for the last
    time.
    """
    return not life.is_rewritten or _rewrites_of(life, registers) is not None


class _Move:
    """One accumulator on its way to tensor memory."""

    def __init__(self, binding: KernelBinding, life: Life, atom: Tcgen05Atom) -> None:
        self.binding, self.life, self.insert = binding, life, binding.insert
        self.block = block_of(life.fill)
        self.accumulator = life.fill.fragment
        self.type = cute.fragment_of(self.accumulator)
        layout = tensor_layout(self.type.shape, atom)
        memory = cute.MemRefType.get(self.type.element, "tmem", 4, layout)
        self.tensor = binding.insert_top(cute.AllocTmemOp(memory), life.fill).result
        self.tensor.name_hint = self.accumulator.name_hint
        # Whether the loop has run; None where it surely has, or what it adds to was there before.
        self.ran: SSAValue | None = None

    def run(self) -> None:
        life = self.life
        if life.updates:
            self._correct()
        for at, (loop, multiplies) in enumerate(life.multiplies):
            kept = None if life.updates else self._keeps(loop, multiplies[0], at == 0)
            for gemm in multiplies:
                keeps = kept if gemm is multiplies[0] else None
                self.insert(gemm.like(gemm.a, gemm.b, self.tensor, gemm.atom, keeps), gemm)
                erase(gemm)
        if not life.is_rewritten or self._rewrite():
            self._read()
            owner = self.accumulator.owner
            assert isinstance(owner, Operation)
            erase(life.fill, owner)

    def _keeps(self, loop: scf.ForOp | None, first: cute.GemmOp, begins: bool) -> SSAValue | None:
        """Whether a first multiply, of a loop or beside loops, adds to what tensor memory holds:
        the first one of all that run does not. None where it surely does.
        """
        before = self.ran
        if before is None and not begins:
            return None
        if loop is None:
            self.ran = None
            return before or self.insert(arith.ConstantOp(IntegerAttr(0, i1)), first).result
        loops = loops_around(block_of(first), self.block)
        assert loops, "an accumulator of a loop"
        behind = loops[-1].next_op
        assert behind is not None
        later = [
            self.insert(arith.CmpiOp(each.body.block.args[0], each.lb, "ne"), first).result
            for each in loops
        ]
        keeps = later[0]
        for other in later[1:]:
            keeps = self.insert(arith.OrIOp(keeps, other), first).result
        trips: list[SSAValue] = []
        for each in loops:
            low, high = (self._known_behind(end, loops[-1], behind) for end in (each.lb, each.ub))
            trips.append(self.insert(arith.CmpiOp(low, high, "slt"), behind).result)
        self.ran = trips[0]
        for other in trips[1:]:
            self.ran = self.insert(arith.AndIOp(self.ran, other), behind).result
        if before is not None:
            keeps = self.insert(arith.OrIOp(keeps, before), first).result
            self.ran = self.insert(arith.OrIOp(before, self.ran), behind).result
        return keeps

    def _known_behind(self, bound: SSAValue, loop: scf.ForOp, behind: Operation) -> SSAValue:
        """A bound behind a loop: of a constant in the loop another one."""
        owner = bound.owner
        if not isinstance(owner, arith.ConstantOp) or not loop.is_ancestor(owner):
            return bound
        return self.insert(owner.clone(), behind).result

    def _place(self, op: Operation) -> Operation:
        """The op of the accumulator's block that holds an op."""
        found = self.block.find_ancestor_op_in_block(op)
        assert found is not None
        return found

    def _parts(self, columns: int, before: Operation) -> list[TileColumns]:
        wide = self.type.shape[1]
        return [TileColumns(first, columns, before) for first in range(0, wide, columns)]

    def _store(self, held: SSAValue, part: TileColumns) -> None:
        """Write registers to some columns of tensor memory."""
        atom = TmemStoreType.get(self.type.element, tensor_shape(self.type))
        part.insert(cute.CopyOp(held, part.view(self.tensor), atom=atom))

    def _load(self, view: SSAValue, fragment: SSAValue, before: Operation) -> None:
        """Write to a register tile what tensor memory holds, or 0 where nothing was multiplied."""
        copy = cute.CopyOp(
            view, fragment, atom=TmemLoadType.get(self.type.element, tensor_shape(self.type))
        )
        if self.ran is None:
            self.insert(copy, before)
            return
        fill = cute.FillOp(fragment, self.life.fill.value)
        self._if_ran([copy], [fill], before)

    def _if_ran(
        self, then: list[Operation], otherwise: list[Operation], before: Operation
    ) -> scf.IfOp:
        assert self.ran is not None
        sides = [Block([*ops, scf.YieldOp()]) for ops in (then, otherwise)]
        branch = scf.IfOp(self.ran, [], Region(sides[0]), Region(sides[1]))
        for op in walk(branch):
            op.location = before.location
        return self.insert(branch, before)

    def _loaded(
        self, type_: cute.FragmentType, before: Operation, origin: tuple[int, ...] | None = None
    ) -> SSAValue:
        """The tile, or the part of it that begins at `origin`, in registers."""
        view = self.tensor
        if origin is not None:
            view = self.insert(cute.SubviewOp(view, origin, type_.shape), before).result
        fragment = self.insert(cute.AllocFragmentOp(type_), before).result
        self._load(view, fragment, before)
        return fragment

    def _read(self) -> None:
        """Let each reader have what tensor memory holds: the part that it takes, columns of a part
        after each other where they are combined, or the whole, once for all where none writes it.
        """
        whole: SSAValue | None = None
        for reader in self.life.readers:
            if isinstance(reader, cute.ExtractOp):
                origin = tuple(int(each) for each in reader.origin.get_values())
                part = self._loaded(reader.result.type, reader, origin)
                reader.result.replace_all_uses_with(part)
                erase(reader)
                continue
            if self.life.updates and isinstance(reader, cute.ReduceOp) and _is_combined(reader):
                self._combine(reader)
                continue
            added = self._added_columns(reader)
            if added is not None and self._read_in_columns(reader, added):
                continue
            if whole is None or self.life.is_rewritten:
                place = reader if self.life.is_rewritten else self._place(reader)
                whole = self._loaded(self.type, place)
            for index, operand in enumerate(reader.operands):
                if operand is self.accumulator:
                    reader.operands[index] = whole

    def _added_columns(self, reader: Operation) -> int | None:
        """Columns that a role of its own adds to memory at a time: those before are still on their
        way. None where there is no such role, or where it has as many registers as others.
        """
        row = self.binding.schedule.plan.taking("adds")
        if row is None or row.registers is None or not isinstance(reader, cute.AtomicOp):
            return None
        return _columns_at_a_time(self.type, (row.registers - _BESIDE_ADDED) // 2)

    # Corrections

    def _corrected_columns(self) -> int:
        """Columns that are corrected at a time."""
        wide = self.type.shape[1]
        fit = (
            columns
            for columns in _CORRECTED_COLUMNS
            if wide % columns == 0 and type_of_columns(self.type, columns) is not None
        )
        return next(fit, wide)

    def _correct(self) -> None:
        """Let an accumulator begin, and change, in tensor memory."""
        columns = self._corrected_columns()
        self._fill(columns, self.life.fill)
        for update, kept in self.life.updates:
            for part in self._parts(columns, update):
                part.made[self.accumulator] = self._columns(part)
                self._store(part.done(update), part)
            erase(kept, update)

    def _fill(self, columns: int, before: Operation) -> None:
        """Write what an accumulator starts from to all of tensor memory."""
        parts = self._parts(columns, before)
        held = parts[0].held(self.type)
        parts[0].insert(cute.FillOp(held, self.life.fill.value))
        for part in parts:
            self._store(held, part)

    def _columns(self, part: TileColumns) -> SSAValue:
        """Some columns of tensor memory in registers."""
        atom = TmemLoadType.get(self.type.element, tensor_shape(self.type))
        type_ = part.type_of(self.type)
        return self.binding.loaded(part.view(self.tensor), type_, atom, part.before)

    def _combine(self, op: cute.ReduceOp) -> None:
        """Combine some columns at a time, element by element, and reduce what they give; or what
        threads that have whole rows reduce each part to.
        """
        has_rows = tensor_shape(self.type) == ROWS_SHAPE
        total: SSAValue | None = None
        for part in self._parts(self._corrected_columns(), op):
            held = self._columns(part)
            if has_rows:
                held = self.insert(op.clone({op.source: held}), op).result
            if total is not None:
                held = self.insert(combined(op.kind.data, total, held), op).result
            total = held
        assert total is not None
        if has_rows:
            op.result.replace_all_uses_with(total)
            erase(op)
        else:
            op.operands[0] = total

    # Sums that are written anew

    def _rewrite(self) -> bool:
        """Keep an accumulator that threads write anew where it is; `life` has the readers that
        stay. False where it is a register tile like any other from here on.
        """
        life = self.life
        registers = registers_of_readers(self.binding.kernel, self.binding.registers)
        rewrites = _rewrites_of(life, registers)
        place = self._place(life.readers[0])
        if rewrites is None:
            self._load(self.tensor, self.accumulator, place)
            erase(life.fill)
            return False
        if self.ran is not None:
            nothing = self._if_ran([], [], place).false_region.block.last_op
            assert nothing is not None
            self._fill(rewrites.columns, nothing)
        for run in rewrites.runs:
            after = run[-1].next_op
            assert after is not None
            for part in self._parts(rewrites.columns, after):
                is_anew = _begins_anew(run, self.accumulator)
                held = part.held(self.type) if is_anew else self._columns(part)
                part.made[self.accumulator] = held
                part.copy(run)
                self._store(held, part)
            erase(*reversed(run))
        self.ran = None
        readers = [use.operation for use in self.accumulator.uses if use.operation is not life.fill]
        life.readers = [op for op in readers if not self._read_in_columns(op, rewrites.columns)]
        return True

    def _read_in_columns(self, reader: Operation, columns: int) -> bool:
        """Let a store or an atomic op take some columns at a time; False for others, which need
        the accumulator as a whole.
        """
        is_store = isinstance(reader, cute.CopyOp | cute.AtomicOp)
        if not is_store or self.accumulator in written(reader) or not _is_cut(reader, self.type):
            return False
        for part in self._parts(columns, reader):
            part.made[self.accumulator] = self._columns(part)
            part.copy([reader])
        erase(reader)
        return True


def _is_combined(op: cute.ReduceOp) -> bool:
    """Whether a reduction along the rows is one of its parts, combined element by element."""
    has_one = cute.shape_of(op.result.type)[1:] == (1,)
    return op.kind.data in _COMBINED and op.mode.value.data == 1 and has_one and op.packed is None


@dataclass(frozen=True)
class _Rewrites:
    """The runs of ops that write an accumulator anew, each in one block and in order; and how many
    columns of them are done at a time.
    """

    runs: list[list[Operation]]
    columns: int


def _rewrites_of(life: Life, registers: int) -> _Rewrites | None:
    """How an accumulator that its readers write anew can stay in tensor memory; None where threads
    of so many registers hold it as well, or where something else than loads, stores and elementwise
    ops makes it.
    """
    accumulator, block = life.fill.fragment, block_of(life.fill)
    type_ = cute.fragment_of(accumulator)
    most = (registers - _OTHERS) // 2
    if type_.tv is None or type_.values <= most:
        return None
    columns = _columns_at_a_time(type_, most)
    if columns is None:
        return None
    writers = {_in_loops(op, block) for op in life.readers if accumulator in written(op)}
    runs: list[list[Operation]] = []
    for inner in dict.fromkeys(block_of(op) for op in writers):
        closed = _closed({op for op in writers if op.parent is inner}, inner)
        run = sorted(closed, key=index_in_block)
        first = run[0]
        begins = isinstance(first, cute.LoadOp) or (
            isinstance(first, cute.FillOp) and first.fragment is accumulator
        )
        if not begins or not all(_is_cut(op, type_) for op in run):
            return None
        runs.append(run)
    return _Rewrites(runs, columns)


def _columns_at_a_time(type_: cute.FragmentType, most: int) -> int | None:
    """The first number of columns of a tile that a thread holds in at most so many registers, else
    the last one that it can be cut into; None where it cannot.
    """
    divisors = [columns for columns in _COLUMNS if type_.shape[1] % columns == 0]
    parts = [part for each in divisors if (part := type_of_columns(type_, each)) is not None]
    narrow = [part for part in parts if part.values <= most] or parts[-1:]
    return narrow[0].shape[1] if narrow else None


def _begins_anew(run: Sequence[Operation], accumulator: SSAValue) -> bool:
    """Whether what a tile holds is lost in a run of ops that write it."""
    effects = [effects_of(inner) for op in run for inner in walk(op)]
    first = next(each for each in effects if accumulator in (*each.reads, *each.writes))
    return accumulator not in first.reads


def _in_loops(op: Operation, block: Block) -> Operation:
    """The outermost loop around an op inside of a block with nothing but loops between, or it."""
    while op.parent is not block and isinstance(around := op.parent_op(), scf.ForOp):
        op = around
    return op


def _closed(ops: Iterable[Operation], block: Block) -> set[Operation]:
    """Ops of a block with those that compute register tiles for them or use ones that they do."""
    found = set(ops)
    pending = list(found)
    while pending:
        op = pending.pop()
        near = [each.owner for inner in walk(op) for each in inner.operands if _is_tile(each)]
        near += [use.operation for each in op.results if _is_tile(each) for use in each.uses]
        for each in near:
            place = block.find_ancestor_op_in_block(each) if isinstance(each, Operation) else None
            if place is None or place in found or isinstance(place, cute.AllocFragmentOp):
                continue
            found.add(place)
            pending.append(place)
    return found


def _is_tile(value: SSAValue) -> bool:
    return isinstance(value.type, cute.FragmentType)


def _is_cut(op: Operation, like: cute.FragmentType) -> bool:
    """Whether some columns of what an op does are what it does with some columns."""
    if isinstance(op, scf.ForOp):
        return not op.results and all(
            _is_cut(each, like) or is_pure(each) or isinstance(each, scf.YieldOp)
            for each in op.body.block.ops
        )
    if isinstance(op, cute.CopyOp | cute.AtomicOp | cute.LoadOp):
        memory = [each.type for each in op.operands if isinstance(each.type, cute.MemRefType)]
        if any(each.space != "gmem" or each.rank != 2 for each in memory):
            return False
        if isinstance(op, cute.CopyOp) and (op.mask is not None or op.descriptor is not None):
            return False
    elif not isinstance(op, cute.FillOp | cute.MapOp):
        return False
    tiles = [cute.fragment_of(each) for each in (*op.operands, *op.results) if _is_tile(each)]
    return all(each.shape == like.shape and each.tv == like.tv for each in tiles)
