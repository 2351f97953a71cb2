"""Reads of threads that nobody uses: those for the next trip in a loop's last one, and those for
loops behind, where these have no trips.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from xdsl.dialects import scf
from xdsl.ir import Block, Operation, SSAValue

from cutedialect.dialects.cute import FragmentType

from .events import ROWS, Row, operands_of

_LOOPS = scf.ForOp, scf.WhileOp
# Operands of a loop in front of what it carries: its bounds and its step.
_BOUNDS = 3
# Arithmetic has no row of its own: it gives numbers of numbers.
_OF_NUMBERS = Row("")


def loops_that_use(read: Operation, is_last: bool) -> Sequence[scf.ForOp] | None:
    """The loops behind a read, one of which has a trip if somebody uses what threads read into
    registers; None where other ops do. What makes other registers of it is followed. A read that
    `is_last`, in the last trip of the loop around it, is not for ops in front of it, which would be
    the next trip's.
    """
    return _Uses(read, is_last).run()


class _Uses:
    """The state of one search."""

    def __init__(self, read: Operation, is_last: bool) -> None:
        self.read, self.is_last = read, is_last
        loop = read.parent_op()
        while loop is not None and not isinstance(loop, _LOOPS):
            loop = loop.parent_op()
        self.loop = loop
        self.found: dict[scf.ForOp, None] = {}
        self.pending: list[tuple[SSAValue, Operation]] = []

    def run(self) -> Sequence[scf.ForOp] | None:
        loop, read = self.loop, self.read
        if loop is None and self.is_last:
            return None
        blocks = [block for region in loop.regions for block in region.blocks] if loop else []
        body = next((block for block in blocks if block.is_ancestor(read)), read.parent)
        if body is None:
            return None
        self.pending = [(value, read) for value in _registers_of(read)]
        followed: set[SSAValue] = set()
        while self.pending:
            value, since = self.pending.pop()
            if value in followed:
                continue
            followed.add(value)
            for use in value.uses:
                if not self._follow(value, use.operation, use.index, since, body):
                    return None
        return tuple(self.found)

    def _follow(
        self, value: SSAValue, user: Operation, index: int, since: Operation, body: Block
    ) -> bool:
        """Follow a use; whether it may be that nobody does."""
        loop = self.loop
        if user is since:
            return True
        if loop is not None and _is_in_front(user, since, loop, body):
            return self.is_last
        behind = self._loop_behind(user, since, body)
        if behind is not None:
            self.found[behind] = None
            return True
        if isinstance(user, scf.YieldOp) and user.parent is body:
            # The next trip's, or the result of the loop.
            if isinstance(loop, scf.ForOp):
                self.pending.append((loop.results[index], loop))
            return self.is_last
        made = _made_of(value, user, index)
        if made is not None:
            self.pending += [(register, user) for register in made]
        return made is not None

    def _loop_behind(self, user: Operation, since: Operation, body: Block) -> scf.ForOp | None:
        """The loop that an op is in, behind one in the trip, or behind the loop in its last."""
        at: Operation | None = body.find_ancestor_op_in_block(since)
        place = body.find_ancestor_op_in_block(user)
        if place is None and self.is_last and self.loop is not None:
            outer = self.loop.parent
            at, place = self.loop, None if outer is None else outer.find_ancestor_op_in_block(user)
        if at is None or place is user or not isinstance(place, scf.ForOp) or place is at:
            return None
        return place if at.is_before_in_block(place) else None


def _made_of(value: SSAValue, user: Operation, index: int) -> Sequence[SSAValue] | None:
    """What an op that takes a value makes of it; None where that is more than registers."""
    if isinstance(user, scf.ForOp) and index >= _BOUNDS:
        at = index - _BOUNDS
        return user.body.block.args[at + 1], user.results[at]
    if user.regions and isinstance(user, scf.ForOp | scf.IfOp | scf.WhileOp):
        return None
    row = ROWS.get(type(user), _OF_NUMBERS)
    if value in operands_of(user, row.writes) and value not in operands_of(user, row.reads):
        return ()
    return list(_registers_of(user)) or None


def _registers_of(op: Operation) -> Iterator[SSAValue]:
    """The values and tiles of registers that an op gives or writes; none of one that does not only
    that.
    """
    written = operands_of(op, ROWS.get(type(op), _OF_NUMBERS).writes)
    tiles = [value for value in written if isinstance(value, SSAValue)]
    if all(isinstance(value.type, FragmentType) for value in tiles):
        yield from op.results
        yield from tiles


def _is_in_front(user: Operation, since: Operation, loop: Operation, body: Block) -> bool:
    """Whether a use is in front of an op in a trip, or in front of the loop."""
    at: Operation | None = body.find_ancestor_op_in_block(since)
    place = body.find_ancestor_op_in_block(user) if at is not None else None
    at = at if place is not None else loop
    while place is None:
        assert at is not None
        assert at.parent is not None
        place = at.parent.find_ancestor_op_in_block(user)
        at = at if place is not None else at.parent_op()
    assert at is not None
    return place is not at and place.is_before_in_block(at)
