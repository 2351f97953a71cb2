"""A CTA at work: the values that its ops have computed so far, register tiles, and which of them a
branch that rows take on their own may change.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from xdsl.dialects.builtin import FileLineColLoc
from xdsl.ir import Operation, SSAValue

from .elements import held
from .memory import Combine, Joined, Memory, View


class InterpreterError(Exception):
    """What a program does that it must not, or an op without a rule. `op` is the operation,
    `location` its line in the user's program, or None.
    """

    def __init__(self, op: Operation, message: str) -> None:
        super().__init__(message)
        self.op = op
        at = op.location
        self.location = (
            f"{at.filename.data}:{at.line.data}:{at.column.data}"
            if isinstance(at, FileLineColLoc)
            else None
        )


class FailedAssertion(InterpreterError):  # noqa: N818
    """A `cute.assert` whose condition does not hold, in a CTA of this number."""

    def __init__(self, op: Operation, message: str, cta: int) -> None:
        super().__init__(op, message)
        self.cta = cta


@dataclass(frozen=True)
class Choices:
    """What a program leaves open; it has to be right for all of it.

    local: what a `local` reduction or condition covers: "whole" tiles, or as little as may be: each
    element its "own" part, each row a branch of its own. seed: draws which CTA goes on where CTAs
    meet; None lets them take turns. sm_count: multiprocessors, and how many CTAs run at one time.
    """

    local: Literal["whole", "own"] = "whole"
    seed: int | None = None
    sm_count: int = 4

    def __post_init__(self) -> None:
        if self.local not in ("whole", "own"):
            raise ValueError(f"local: expected 'whole' or 'own', got {self.local!r}")
        if self.sm_count < 1:
            raise ValueError(f"sm_count: expected 1 or more, got {self.sm_count}")


class Fragment:
    """A register tile. Its array is replaced, never changed, so that others may share it. Elements
    that were just rounded to `narrow` floats are widened when they are used: most are only stored.

    Where threads that hold an element disagree on it (a `local` reduction), the array has their
    values along a mode in which the tile has the extent 1.
    """

    __slots__ = ("_held", "narrow", "shape")

    def __init__(
        self, array: np.ndarray | None, shape: tuple[int, ...], narrow: np.ndarray | None = None
    ) -> None:
        self._held = array
        self.narrow = narrow
        self.shape = shape

    @property
    def array(self) -> np.ndarray:
        """The elements as they are held."""
        if self._held is None:
            assert self.narrow is not None
            self._held = held(self.narrow)
        return self._held

    @array.setter
    def array(self, array: np.ndarray) -> None:
        self._held, self.narrow = array, None

    @property
    def is_replicated(self) -> bool:
        """Whether threads may hold different values of one element."""
        elements = self._held if self.narrow is None else self.narrow
        return elements is not None and elements.shape != self.shape

    def read(self) -> np.ndarray:
        """One value for each element: that of the first thread that holds it."""
        elements = self.array
        if elements.shape == self.shape:
            return elements
        return elements[tuple(map(slice, self.shape))]

    def stored(self, memory: Memory) -> np.ndarray:
        """The elements for a memory, as it stores them where they are at hand."""
        narrow = self.narrow
        if narrow is None or memory.is_buffer or narrow.dtype != memory.data.dtype:
            return self.read()
        return narrow if narrow.shape == self.shape else self.read()

    def transpose(self) -> Fragment:
        if len(self.shape) == 1:
            return Fragment(self.array.reshape(1, -1), (1, *self.shape))
        return Fragment(self.array.T, self.shape[::-1])


Tile = Fragment | View | Joined


def slot(value: SSAValue) -> int:
    """The key of a value of the IR in `Cta.values`: its identity, as the value's own hash is, which
    takes a call each time. The op of a step keeps the value.
    """
    return id(value)


def slots(values: Iterable[SSAValue]) -> tuple[int, ...]:
    """The keys of several values."""
    return tuple(map(slot, values))


@dataclass
class Cta:
    """One CTA, or the host part. `values` holds what ops gave, by `slot`: NumPy scalars, tiles,
    tuples of a group's members. `item` is the work item of a kernel that has no grid yet. `mask`
    has the rows that take the branch at work, None for all.
    """

    choices: Choices
    values: dict[int, Any]
    index: tuple[int, int, int] = (0, 0, 0)
    grid: tuple[int, int, int] = (1, 1, 1)
    item: tuple[int, ...] = ()
    mask: np.ndarray | None = None
    launcher: Any = field(default=None, repr=False)
    # Calls of functions that have not returned yet.
    depth: int = 0

    def number(self, value: int) -> int:
        """An integer scalar."""
        return int(self.values[value])

    def numbers(self, values: Any) -> list[int]:
        return [int(self.values[value]) for value in values]

    def store(self, tile: Tile, array: np.ndarray, combine: Combine | None = None) -> None:
        """Write a tile's elements, in a branch those of its rows. What has other rows than the
        branch's condition is written whole: nothing behind the branch may depend on it.
        """
        rows = self.mask
        if rows is None and isinstance(tile, Fragment):
            tile.array = array
            return
        if rows is not None and tile.shape[0] != len(rows):
            rows = None
        if isinstance(tile, Fragment):
            if rows is not None:
                rows = rows.reshape(-1, *(1,) * (array.ndim - 1))
                array = np.where(rows, array, tile.array)
            tile.array = array
            return
        if isinstance(tile, Joined):
            raise ValueError("expected a tile of one part to store to, got joined tiles")
        if array.shape != tile.shape:
            array = array[tuple(map(slice, tile.shape))]
        if rows is None:
            tile.write(array, combine)
            return
        for row in np.flatnonzero(rows):
            origin, shape = [0] * array.ndim, list(tile.shape)
            origin[0], shape[0] = int(row), 1
            tile.subview(origin, shape).write(array[row : row + 1], combine)
