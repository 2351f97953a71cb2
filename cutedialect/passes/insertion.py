"""Inserting ops beside another one, whose location they take, and erasing them."""

from __future__ import annotations

from xdsl.dialects.builtin import UnknownLoc
from xdsl.ir import Operation


def insert_before(place: Operation, *ops: Operation) -> None:
    """Insert ops in front of another one, in their order."""
    block = place.parent
    assert block is not None
    for op in ops:
        _locate(op, place)
        block.insert_op_before(op, place)


def insert_after(place: Operation, *ops: Operation) -> None:
    """Insert ops behind another one, in their order."""
    block = place.parent
    assert block is not None
    last = place
    for op in ops:
        _locate(op, place)
        block.insert_op_after(op, last)
        last = op


def erase(*ops: Operation) -> None:
    """Take ops out of their blocks, for good: nothing uses what they give."""
    for op in ops:
        op.detach()
        op.erase()


def _locate(op: Operation, place: Operation) -> None:
    if isinstance(op.location, UnknownLoc):
        op.location = place.location
