"""Walks over ops and all that they hold, in program order. Passes take no others: xDSL's `walk` is a
generator for each level, so that an op deep inside of a kernel passes through all of them, and to
ask each op for its class with `isinstance` costs more than the step to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from typing import Any, TypeVar

from xdsl.ir import Block, Operation, Region

_OpT = TypeVar("_OpT", bound=Operation)


def walk(root: Operation | Region | Block) -> Iterator[Operation]:
    """An op, or nothing for a region or block, and each op inside in front of those that it holds.

    An op may be erased or moved once it was given, as with xDSL's `walk`.
    """
    place: Any = root  # of xDSL's abstract classes, which `isinstance` is slow to tell apart
    if type(place) is Block:
        waiting: list[Any] = [place]
    elif type(place) is Region:
        waiting = [*reversed(place.blocks)]
    else:
        yield place
        waiting = _blocks(place)
    while waiting:
        place = waiting.pop()
        op = place._first_op if type(place) is Block else place
        while op is not None:
            # The property of this name takes as long as the rest of the step.
            behind = op._next_op
            yield op
            if op.regions:
                if behind is not None:
                    waiting.append(behind)
                waiting += _blocks(op)
                break
            op = behind


def ops_of(root: Operation | Region | Block, *kinds: type[_OpT]) -> list[_OpT]:
    """The ops of some classes in an op (itself included), a region or a block, in the order of `walk`."""
    return _ops_of(root, kinds, is_first=False)


def _ops_of(root: Operation | Region | Block, kinds: Any, *, is_first: bool) -> list[Any]:
    """The ops of some classes, or the first one alone."""
    wanted = _membership(kinds)
    # The steps of `walk`, without a generator that gives all that is not wanted.
    found: list[Any] = []
    place: Any = root
    if type(place) is Block:
        waiting: list[Any] = [place]
    elif type(place) is Region:
        waiting = [*reversed(place.blocks)]
    else:
        if wanted[type(place)]:
            found.append(place)
        waiting = _blocks(place)
    while waiting:
        place = waiting.pop()
        op = place._first_op if type(place) is Block else place
        while op is not None:
            if wanted[type(op)]:
                found.append(op)
                if is_first:
                    return found
            behind = op._next_op
            if op.regions:
                if behind is not None:
                    waiting.append(behind)
                waiting += _blocks(op)
                break
            op = behind
    return found


def ops_around(inner: Operation | Block) -> Iterator[Operation]:
    """The ops that hold an op or a block, the innermost one first."""
    around = inner.parent_op()
    while around is not None:
        yield around
        around = around.parent_op()


def ops_behind(op: Operation) -> Iterator[Operation]:
    """The ops of its block behind one, in order."""
    behind = op.next_op
    while behind is not None:
        yield behind
        behind = behind.next_op


def ops_ahead(op: Operation) -> Iterator[Operation]:
    """The ops of its block in front of one, the nearest one first."""
    ahead = op.prev_op
    while ahead is not None:
        yield ahead
        ahead = ahead.prev_op


def ops_in(block: Block) -> list[Operation]:
    """The ops of a block, without those that they hold. Any of them may be erased or moved."""
    found: list[Operation] = []
    op = block._first_op
    while op is not None:
        found.append(op)
        op = op._next_op
    return found


def index_in_block(op: Operation) -> int:
    """How many ops stand in front of one in its block: xDSL's `get_operation_index` goes through
    them by an iterator of its own, at five times the cost.
    """
    index, ahead = 0, op._prev_op
    while ahead is not None:
        index += 1
        ahead = ahead._prev_op
    return index


def indices_in(block: Block, ops: Iterable[Operation]) -> list[int]:
    """The places in a block of what is or holds each of some ops; none where one stands
    elsewhere.
    """
    places = [block.find_ancestor_op_in_block(op) for op in ops]
    return [] if None in places else [index_in_block(op) for op in places if op is not None]


def common_block(ops: Sequence[Operation]) -> Block:
    """The innermost block that holds all of some ops, which one block does."""
    blocks = (op.parent for op in (ops[0], *ops_around(ops[0])) if op.parent is not None)
    return next(
        block
        for block in blocks
        if all(block.find_ancestor_op_in_block(op) is not None for op in ops)
    )


def holds(root: Operation | Region | Block, *kinds: type[Operation]) -> bool:
    """Whether an op of some classes is in an op (itself included), a region or a block."""
    return bool(_ops_of(root, kinds, is_first=True))


def _blocks(op: Operation) -> list[Block]:
    """The blocks that an op holds, last first."""
    regions = op.regions
    if not regions:
        return []
    found: list[Block] = []
    for region in reversed(regions):
        first = region._first_block
        if first is None:
            continue
        if first._next_block is None:  # as nearly always
            found.append(first)
        else:
            found += reversed(region.blocks)
    return found


class _Membership(dict[type[Operation], bool]):
    """Whether ops of a class are of one of some kinds."""

    def __init__(self, kinds: tuple[type[Operation], ...]) -> None:
        super().__init__()
        self.kinds = frozenset(kinds)

    def __missing__(self, kind: type[Operation]) -> bool:
        # xDSL's classes are abstract ones, which `issubclass` asks for all of their subclasses.
        self[kind] = not self.kinds.isdisjoint(kind.__mro__)
        return self[kind]


@cache
def _membership(kinds: tuple[type[Operation], ...]) -> _Membership:
    return _Membership(kinds)
