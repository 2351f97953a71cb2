"""Multiplies that begin when the first part of an operand is in its registers: what computes the
rest works beside them.

    foreach 32 (w) -> a; fence; multiply a[0..16] b; commit
    =>
    foreach 8 (w) -> a; fence; multiply a[0..4] b; foreach 8 (w) -> a; fence; multiply a[4..8] b;
    ... commit

The operand is computed from what the trip loads. Only what has neither an effect nor another user
is moved: scalars, and arrays of registers that are local to the block. The fence of the multiply is
one of each part: threads have written the registers of a part between the parts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from xdsl.ir import Attribute, Block, Operation, SSAValue

from cutedialect.dialects import ptx
from cutedialect.dialects.cute import GemmOp, LoadOp, shape_of
from cutedialect.dialects.ptx.arrays import entries
from cutedialect.passes.analysis.operand_plans import multiplies_fed
from cutedialect.passes.rewriting import erase, insert_before

# Instructions that begin together, at least, and the parts of a multiply, at most.
_LEAST_TOGETHER, _MOST_PARTS = 2, 8
# Columns from which on a multiply takes longer than what computes its operand: 256 rows by weights
# of 4 bits with scales of groups took up to 1.18 times as long where it began early, 1.01 to 1.05
# times in tiles of 88 columns, an H200.
_LONG = 72
_SCALARS = (ptx.ScalarOp, ptx.GetOp, ptx.PackOp, ptx.UnpackOp)


def begin_early(op: GemmOp, multiply: ptx.WgmmaOp) -> None:
    """Split a multiply, the last op of its block, behind its fence, where its first operand is
    computed from tiles that the trip loads, and a part of that behind the start of another.
    """
    fence, block = _fence_of(multiply), multiply.parent
    if fence is None or block is None or not _is_fed_by_loads(op) or _waits_long(op):
        return
    parts = _Parts(block, fence, multiply)
    parts.place()
    if parts.last > 0:
        parts.apply()


def _is_fed_by_loads(op: GemmOp) -> bool:
    """Whether an operand is computed from tiles that the block loads."""
    assert op.parent is not None
    return any(op in multiplies_fed(each) for each in op.parent.ops if isinstance(each, LoadOp))


def _waits_long(op: GemmOp) -> bool:
    """Whether a trip computes on the product of a multiply that takes longer than its operand:
    warpgroups that compute while others multiply hide both, and would compute and wait at the same
    times.
    """
    acc = op.acc.owner
    is_of_trip = isinstance(acc, Operation) and acc.parent is op.parent
    return is_of_trip and shape_of(op.acc.type)[1] >= _LONG


def _fence_of(multiply: ptx.WgmmaOp) -> ptx.WgmmaFenceOp | None:
    """The fence in front of a multiply, where nothing but descriptors is between both."""
    op = multiply.prev_op
    while isinstance(op, (*_SCALARS, ptx.SmemDescOp)):
        op = op.prev_op
    return op if isinstance(op, ptx.WgmmaFenceOp) else None


@dataclass
class _Parts:
    """The parts of a multiply, and of what is computed for it: `placed` has the part of an op,
    `trips` the parts of the trips of a loop over registers.
    """

    block: Block
    fence: Operation
    multiply: ptx.WgmmaOp
    placed: dict[Operation, int] = field(default_factory=dict)
    trips: dict[ptx.ForeachOp, list[int]] = field(default_factory=dict)
    _known: dict[SSAValue, Mapping[int, int] | None] = field(default_factory=dict)

    def __post_init__(self) -> None:
        count = self.multiply.count
        together = max(_LEAST_TOGETHER, -(-count // _MOST_PARTS))
        self.part_of = [at // together for at in range(count)]
        self.index: dict[Operation, int] = {}
        for at, op in enumerate(self.block.ops):
            self.index[op] = at

    @property
    def last(self) -> int:
        """The last part that something is computed for behind the start of another."""
        return max((*self.placed.values(), *(max(each) for each in self.trips.values())), default=0)

    def place(self) -> None:
        """Find the parts of all that computes the operand, last op first."""
        op = self.fence.prev_op
        while op is not None:
            if isinstance(op, ptx.ForeachOp):
                self._place_loop(op)
            elif isinstance(op, ptx.SetOp):
                part = (self._parts_of(op.data) or {}).get(op.index.value.data)
                if part is not None:
                    self.placed[op] = part
            elif isinstance(op, _SCALARS):
                self._place_scalar(op)
            op = op.prev_op

    def _place_loop(self, op: ptx.ForeachOp) -> None:
        if not all(self._is_settled(each, op) for each in op.sources):
            return
        first = [self.part_of[-1]] * op.count.value.data
        for array, indices in zip(op.targets, op.target_index, strict=True):
            parts = self._parts_of(array)
            if parts is None:
                return
            for trip, register in enumerate(entries(indices)):
                first[trip] = min(first[trip], parts.get(register, first[trip]))
        self.trips[op] = first

    def _place_scalar(self, op: Operation) -> None:
        uses = [use.operation for result in op.results for use in result.uses]
        if not uses or any(use not in self.placed for use in uses):
            return
        if isinstance(op, ptx.GetOp) and not self._is_settled(op.data, op):
            return
        self.placed[op] = min(self.placed[use] for use in uses)

    def _is_settled(self, array: SSAValue, reader: Operation) -> bool:
        """Whether nothing between an op and the multiply writes an array, but for what is placed
        in front of it.
        """
        for use in array.uses:
            op: Operation | None = use.operation
            if isinstance(op, ptx.GetOp) or self._reads(use.operation, array):
                continue
            while op is not None and op.parent is not self.block:
                op = op.parent_op()
            if op is not None and self.index[op] >= self.index[reader]:
                return False
        return True

    def _reads(self, op: Operation, array: SSAValue) -> bool:
        """Whether an op only reads an array."""
        if isinstance(op, ptx.ForeachOp):
            return all(each is not array for each in op.targets)
        return op is self.multiply and array is self.multiply.lhs

    def _parts_of(self, array: SSAValue) -> Mapping[int, int] | None:
        """The part that needs each register of an array first; None where what is not moved reads
        it, or where a register is written more than once.
        """
        if array not in self._known:
            self._known[array] = self._found(array)
        return self._known[array]

    def _found(self, array: SSAValue) -> Mapping[int, int] | None:
        owner = array.owner
        if not isinstance(owner, ptx.RegArrayOp) or owner.parent is not self.block:
            return None
        found: dict[int, int] = {}
        written: list[int] = []

        def reads(registers: Iterable[tuple[int, int]]) -> None:
            for register, part in registers:
                found[register] = min(part, found.get(register, part))

        for use in array.uses:
            op = use.operation
            if isinstance(op, ptx.SetOp) and op.parent is self.block:
                written.append(op.index.value.data)
            elif op is self.multiply and array is self.multiply.lhs:
                width = entries(self.multiply.counts)[1]
                first = zip(entries(self.multiply.a), self.part_of, strict=True)
                reads((at + i, part) for at, part in first for i in range(width))
            elif isinstance(op, ptx.ForeachOp) and op.parent is self.block:
                if use.index < len(op.sources):
                    if op not in self.trips:
                        return None
                    indices = entries(op.source_index.data[use.index])
                    reads(zip(indices, self.trips[op], strict=True))
                else:
                    written += entries(op.target_index.data[use.index - len(op.sources)])
            elif isinstance(op, ptx.GetOp) and op in self.placed:
                reads([(op.index.value.data, self.placed[op])])
            else:
                return None
        return found if len(set(written)) == len(written) else None

    def apply(self) -> None:
        """Move what is computed, and split the loops and the multiply."""
        count = self.part_of[-1] + 1
        moved: list[list[Operation]] = [[] for _ in range(count)]
        for op in self.block.ops:
            if op in self.placed:
                moved[self.placed[op]].append(op)
            elif isinstance(op, ptx.ForeachOp) and op in self.trips:
                for part in range(count):
                    moved[part] += _some_trips(
                        op, [at for at, its in enumerate(self.trips[op]) if its == part]
                    )
        self.fence.detach()
        for part, ops in enumerate(moved):
            for op in ops:
                if op.parent is not None:
                    op.detach()
            begun = self._part(part)
            begun.location = self.multiply.location
            begun.attributes |= self.multiply.attributes
            insert_before(
                self.multiply, *ops, self.fence if part == 0 else self.fence.clone(), begun
            )
        for op in self.trips:
            erase(op)
        erase(self.multiply)

    def _part(self, part: int) -> ptx.WgmmaOp:
        """The instructions of a part."""
        whole = self.multiply
        mine = [at for at, its in enumerate(self.part_of) if its == part]
        c, a, b = ([entries(each)[at] for at in mine] for each in (whole.c, whole.a, whole.b))
        scale = None if whole.scale is None else [entries(whole.scale)[at] for at in mine]
        starts = scale is not None and max(scale) >= 0
        return ptx.WgmmaOp(
            whole.modifiers.data,
            whole.acc,
            whole.lhs,
            whole.rhs,
            entries(whole.counts),
            c,
            a,
            b,
            scale_d=whole.scale_d if starts else (),
            scale=scale if starts else None,
            immediates=entries(whole.immediates),
        )


def _some_trips(op: ptx.ForeachOp, trips: list[int]) -> list[Operation]:
    """A loop over registers with some of its trips; none without."""
    if not trips:
        return []

    def some(tables: Iterable[Attribute]) -> list[list[int]]:
        return [[entries(table)[at] for at in trips] for table in tables]

    made = ptx.ForeachOp(
        len(trips),
        list(zip(op.sources, some(op.source_index), strict=True)),
        some(op.constants),
        list(zip(op.targets, some(op.target_index), strict=True)),
        op.body.clone().detach_block(0),
    )
    made.location = op.location
    made.attributes |= op.attributes
    return [made]
