"""Tables of integers as attributes, and the checks that the ops driven by tables share."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from functools import lru_cache
from typing import cast

from xdsl.dialects.builtin import BytesAttr, DenseArrayBase, IntegerType, i64
from xdsl.ir import Attribute, SSAValue
from xdsl.utils.exceptions import VerifyException

from .registers import check
from .syntax import class_of

# Bits of an integer of `table`.
_WIDTH = 64
# Address space to the register class of its addresses.
SPACES = {"global": "b64", "shared": "b32"}


def table(values: Sequence[int]) -> DenseArrayBase:
    """A table of integers as an attribute."""
    return _table(tuple(values))


@lru_cache(maxsize=1024)
def _table(values: tuple[int, ...]) -> DenseArrayBase:
    return DenseArrayBase(i64, BytesAttr(struct.pack(f"<{len(values)}q", *values)))


def entries(given: Attribute | None) -> tuple[int, ...]:
    """The integers of a table; none if there is no table."""
    if given is None:
        return ()
    if not (isinstance(given, DenseArrayBase) and isinstance(given.elt_type, IntegerType)):
        raise VerifyException(f"expected a table of integers, got {given}")
    if given.elt_type.width.data == _WIDTH:
        return _unpacked(given.data.data)
    return cast(DenseArrayBase[IntegerType], given).get_values()


# The printer, the verifier and the emulator ask for a table's integers many times.
@lru_cache(maxsize=1024)
def _unpacked(data: bytes) -> tuple[int, ...]:
    return struct.unpack(f"<{len(data) * 8 // _WIDTH}q", data)


def space_of(modifiers: str) -> str:
    """`global` or `shared`: what an instruction addresses."""
    for part in modifiers.split("."):
        if part in SPACES:
            return part
    check(False, f"expected .global or .shared in the modifiers, got '{modifiers}'")
    raise AssertionError


def check_index(what: str, values: Sequence[int], limit: int, low: int = 0) -> None:
    """VerifyException unless all of a table is in low..limit-1."""
    if values and not (low <= min(values) and max(values) < limit):
        wrong = next(v for v in values if not low <= v < limit)
        raise VerifyException(f"expected {what} indices in {low}..{limit - 1}, got [{wrong}]")


def check_classes(what: str, values: Sequence[SSAValue], wanted: str) -> None:
    """VerifyException unless all registers are of one class."""
    for value in values:
        check(
            class_of(value) == wanted, f"expected {what} of class {wanted}, got {class_of(value)}"
        )
