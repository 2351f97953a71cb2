"""Which memory a tile is a view of, and whether two views are known to be apart or the same. A view
is described by its expression: the tensor, and the tiles, slices and coordinates that lead to it.
From that follows which loads of a kernel may read what the kernel itself stored: such a load stays
where it stands, in the role that stores, as no copy of the tile may run ahead of the store.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from dataclasses import dataclass

from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import DenseArrayBase, FloatAttr, IntegerAttr
from xdsl.ir import Block, Operation, SSAValue, Use

from cutedialect.dialects import cute
from cutedialect.dialects.effects import effects_of, is_in_memory, is_pure, space_of
from cutedialect.dialects.walks import ops_around, ops_of, walk

Expression = Hashable
WORK = "work_items"
"""The attribute of a loop whose trips are work items of a CTA."""
TRIP = "trip"
"""On the two ops that make the number of a loop's trip of its index."""
IN_PLACE = "in_place"
"""The attribute of a kernel with the places of arguments, one read and one written in turn, which
may be one array: each tile of it is read where it is written, and before.
"""


def root_of(view: SSAValue) -> SSAValue:
    """The buffer, tensor or group of tensors that a view lies in."""
    owner = view.owner
    while isinstance(owner, Operation) and owner.operands and is_pure(owner):
        view = owner.operands[0]
        owner = view.owner
    return view


def roots_of(values: Iterable[SSAValue]) -> set[SSAValue]:
    """The buffers and tensors that those of some values lie in which are tiles in memory."""
    return {root_of(value) for value in values if is_in_memory(value)}


def overlaps(one: SSAValue, other: SSAValue) -> bool:
    """Whether two buffers are the same or share storage."""
    if one is other:
        return True
    mine, theirs = _place(one), _place(other)
    if mine is None or theirs is None:
        return False
    return mine.start < theirs.stop and theirs.start < mine.stop


def shares_storage(root: SSAValue) -> bool:
    """Whether a buffer lies in the area of those that share storage."""
    return _place(root) is not None


def _place(root: SSAValue) -> range | None:
    return root.owner.place if isinstance(root.owner, cute.AllocSmemOp) else None


def uses_of(memory: SSAValue) -> Iterator[Use]:
    """The uses of a buffer, tensor or group, and of all views of it, by ops that read or write."""
    pending = [memory]
    while pending:
        for use in pending.pop().uses:
            if is_pure(use.operation):
                pending += _shown_by(use.operation)
            else:
                yield use


def in_place_of(kernel: cute.KernelOp) -> set[tuple[SSAValue, SSAValue]]:
    """The arguments of a kernel that may be one array, the one that is read first."""
    places = kernel.attributes.get(IN_PLACE)
    if not isinstance(places, DenseArrayBase):
        return set()
    numbers, args = [int(place) for place in places.get_values()], kernel.body.block.args
    return {
        (args[one], args[other]) for one, other in zip(numbers[::2], numbers[1::2], strict=True)
    }


def views_of(memory: SSAValue) -> list[Operation]:
    """The ops that show a buffer or a part of it."""
    shown = [use.operation for use in memory.uses if _shown_by(use.operation)]
    return [*shown, *(op for each in shown for value in each.results for op in views_of(value))]


def _shown_by(op: Operation) -> list[SSAValue]:
    """The views that an op makes."""
    return [each for each in op.results if is_pure(op) and isinstance(each.type, cute.MemRefType)]


def expression_of(value: SSAValue) -> Expression:
    """What a view or number is made of: equal for two of them that are equal wherever the values
    from outside of pure code are.
    """
    return _expression(value, {})


def _expression(value: SSAValue, known: dict[SSAValue, Expression]) -> Expression:
    """The expression of a value, where those of some values are known."""
    found = known.get(value)
    if found is not None:
        return found
    owner = value.owner
    if not isinstance(owner, Operation) or owner.regions or not is_pure(owner):
        found = value
    elif isinstance(owner, arith.ConstantOp):
        found = owner.value
    else:
        properties = tuple(sorted(owner.properties.items(), key=lambda item: item[0]))
        operands = tuple(_expression(operand, known) for operand in owner.operands)
        found = (owner.name, properties, operands, owner.results.index(value))
    known[value] = found
    return found


def constant_of(value: SSAValue) -> int | None:
    """The number that a value is; None where it is no integer constant."""
    owner = value.owner
    if isinstance(owner, arith.ConstantOp) and isinstance(owner.value, IntegerAttr):
        return owner.value.value.data
    return None


def is_zero(value: SSAValue) -> bool:
    """Whether a value is the constant 0, of integers or of floats."""
    number = value.owner.value if isinstance(value.owner, arith.ConstantOp) else None
    return isinstance(number, FloatAttr | IntegerAttr) and number.value.data == 0


def _are_equal(one: SSAValue, other: SSAValue) -> bool:
    """Whether two values have equal expressions, without making those of what they share."""
    return one is other or expression_of(one) == expression_of(other)


def place_in(tile: SSAValue, whole: SSAValue) -> tuple[int, ...] | None:
    """Where a tile of a tensor begins in another tile of it that is known to hold it; None where
    that is not known. Tiles that are put together have the same place in each part.
    """
    mine, other = tile.owner, whole.owner
    if isinstance(mine, cute.ConcatOp) and isinstance(other, cute.ConcatOp):
        if mine.mode != other.mode or len(mine.parts) != len(other.parts):
            return None
        places = {place_in(a, b) for a, b in zip(mine.parts, other.parts, strict=True)}
        place = places.pop() if len(places) == 1 else None
        return place if place is not None and place[mine.mode.value.data] == 0 else None
    if not (isinstance(mine, cute.LocalTileOp) and isinstance(other, cute.LocalTileOp)):
        return None
    if mine.of is not None or other.of is not None or mine.attributes != other.attributes:
        return None
    if expression_of(mine.memref) != expression_of(other.memref):
        return None
    starts: list[int] = []
    extents = zip(mine.tile.get_values(), other.tile.get_values(), strict=True)
    for (small, large), at, begins in zip(extents, mine.coords, other.coords, strict=True):
        start = _starts_at((at, small), (begins, large))
        if start is None:
            return None
        if small != 0:  # a mode that is dropped
            starts.append(start)
    return tuple(starts)


def _starts_at(part: tuple[SSAValue, int], whole: tuple[SSAValue, int]) -> int | None:
    """Where a coordinate and extent begin in others that are known to hold them."""
    (at, small), (begins, large) = part, whole
    if small == large and _are_equal(at, begins):
        return 0
    one, other = constant_of(at), constant_of(begins)
    if one is None or other is None or min(small, large) <= 0:
        return None
    start = one * small - other * large
    return start if start >= 0 and start + small <= large else None


def are_apart(one: SSAValue, other: SSAValue, carried: Operation | None) -> bool:
    """Whether two views of one tensor are known to share no element.

    `carried` is a loop of which the two are used in different trips; None where the values of all
    loops around them are the same for both.
    """
    chains = _chain(one), _chain(other)
    for mine, theirs in zip(*chains, strict=False):
        if _tell_apart(mine, theirs, carried):
            return True
        if not _are_equal(mine.results[0], theirs.results[0]):
            return False
        if carried is not None and varies(mine.results[0], carried):
            return False
    return False


def _tell_apart(one: Operation, other: Operation, carried: Operation | None) -> bool:
    """Whether two ops are known to give parts of one view that share no element."""
    match one, other:
        case cute.SubviewOp(), cute.SubviewOp():
            return _are_beside(one, other)
        case cute.LocalTileOp(), cute.LocalTileOp() if one.tile == other.tile:
            pairs = zip(one.coords, other.coords, one.tile.get_values(), strict=True)
            return any(extent >= 0 and _differ(a, b, carried) for a, b, extent in pairs)
        case _:
            return False


def _chain(view: SSAValue) -> list[Operation]:
    """The ops that lead from a tensor to a view of it."""
    found: list[Operation] = []
    owner = view.owner
    while isinstance(owner, Operation) and owner.operands and is_pure(owner):
        found.append(owner)
        owner = owner.operands[0].owner
    return found[::-1]


def _are_beside(one: cute.SubviewOp, other: cute.SubviewOp) -> bool:
    """Whether two parts of a tile, at static places, share no element."""
    mine, theirs = one.result.type, other.result.type
    starts = zip(one.origin.get_values(), other.origin.get_values(), strict=True)
    return any(
        a + int(m) <= b or b + int(t) <= a
        for (a, b), m, t in zip(starts, mine.shape, theirs.shape, strict=True)
    )


def _differ(one: SSAValue, other: SSAValue, carried: Operation | None) -> bool:
    """Whether two tile coordinates are known to be different numbers."""
    mine, theirs = constant_of(one), constant_of(other)
    if mine is not None and theirs is not None:
        return mine != theirs
    # Expressions of coordinates are long: what needs none is asked first.
    if carried is None:
        (base, more), (same, less) = _sum(one), _sum(other)
        return more != less and _are_equal(base, same)
    return isinstance(carried, scf.ForOp) and _counts(one, carried) and _are_equal(one, other)


def _sum(number: SSAValue) -> tuple[SSAValue, int]:
    """A number as another one and how much is added to that."""
    owner = number.owner
    added = constant_of(owner.rhs) if isinstance(owner, arith.AddiOp) else None
    if added is None:
        return number, 0
    base, more = _sum(owner.operands[0])
    return base, more + added


def _counts(number: SSAValue, loop: scf.ForOp) -> bool:
    """Whether a number is another one in each trip of a loop: its index, and what stays."""
    index = loop.body.block.args[0]
    if number is index:
        return True
    owner = number.owner
    if isinstance(owner, arith.AddiOp | arith.SubiOp):
        sides = (owner.lhs, owner.rhs)
        moving = [side for side in sides if varies(side, loop)]
        return len(moving) == 1 and _counts(moving[0], loop)
    return False


def varies(value: SSAValue, loop: Operation) -> bool:
    """Whether a value may be another one in each trip of a loop."""
    owner = value.owner
    if not loop.is_ancestor(owner):
        return False
    if isinstance(owner, Block) or not is_pure(owner) or owner.regions:
        return True
    return any(varies(operand, loop) for operand in owner.operands)


def depends_on(value: SSAValue, other: SSAValue) -> bool:
    """Whether a number or a view is computed from another one."""
    if value is other:
        return True
    return isinstance(value.owner, Operation) and any(
        depends_on(operand, other) for operand in value.owner.operands
    )


@dataclass(frozen=True)
class Access:
    """An op that reads or writes a tile of a tensor, and its place in program order."""

    op: Operation
    tile: SSAValue
    place: int


def ordering_atomic(around: Operation | Block) -> cute.AtomicOp | None:
    """The first atomic of a kernel that is in an order with its other accesses."""
    found = (op for op in ops_of(around, cute.AtomicOp) if op.order is not None)
    return next(found, None)


@dataclass(frozen=True)
class TensorDependences:
    """The ops that read tiles which the kernel may have stored before, and their tensors. What
    others may have stored before an atomic acquired it counts, too.
    """

    readers: frozenset[Operation]
    tensors: frozenset[SSAValue]

    def reads_stored(self, op: Operation, tile: SSAValue) -> bool:
        """Whether an op reads a tile that may have been stored before it."""
        return op in self.readers and root_of(tile) in self.tensors


def tensor_dependences(kernel: cute.KernelOp) -> TensorDependences:
    """The dependences of a kernel's loads on its own stores."""
    reads: list[Access] = []
    writes: dict[SSAValue, list[Access]] = {}
    acquires: list[Access] = []
    for place, op in enumerate(walk(kernel.body.block)):
        effects = effects_of(op)
        if isinstance(op, cute.AtomicOp) and op.acquires:
            acquires.append(Access(op, op.destination, place))
        for tile in effects.writes:
            if space_of(tile) == "gmem":
                writes.setdefault(root_of(tile), []).append(Access(op, tile, place))
        reads += [Access(op, tile, place) for tile in effects.reads if space_of(tile) == "gmem"]
    readers: set[Operation] = set()
    tensors: set[SSAValue] = set()
    for read in reads:
        root = root_of(read.tile)
        before = [write for write in writes.get(root, ()) if write.op is not read.op]
        is_behind = any(_comes_behind(read, each) for each in acquires if each.op is not read.op)
        if is_behind or any(may_see(read, write) for write in before):
            readers.add(read.op)
            tensors.add(root)
    return TensorDependences(frozenset(readers), frozenset(tensors))


def may_see(read: Access, write: Access) -> bool:
    """Whether a read may see what a write has left."""
    if write.place < read.place and not are_apart(write.tile, read.tile, None):
        return True
    return any(
        loop.is_ancestor(write.op) and not are_apart(write.tile, read.tile, loop)
        for loop in _loops_around(read.op)
    )


def _comes_behind(access: Access, acquire: Access) -> bool:
    """Whether an access may come behind an acquire of its work item."""
    is_in_loop = any(loop.is_ancestor(acquire.op) for loop in _loops_around(access.op))
    return acquire.place < access.place or is_in_loop


def _loops_around(op: Operation) -> list[Operation]:
    """The loops around an op of which a trip may see what an earlier one has left."""
    return [
        each
        for each in ops_around(op)
        if isinstance(each, scf.ForOp | scf.WhileOp) and not is_work_loop(each)
    ]


def is_work_loop(op: Operation) -> bool:
    """Whether the trips of a loop are work items, which share no tile that they store."""
    return WORK in op.attributes
