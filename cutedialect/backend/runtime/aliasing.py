"""Which arrays share memory: an output has memory of its own, or is one that the call may overwrite
because it reads every element before it writes that one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cutedialect.backend.runtime.arrays import TensorArgument, numpy_dtype, tensor_argument
from cutedialect.backend.runtime.buffers import span_of


@dataclass(frozen=True)
class Named:
    """An array of a call; `updates` names the input on which an output may lie as it is."""

    name: str
    value: Any
    written: bool = False
    updates: str | None = None


def check_aliases(arrays: Sequence[Named], why: str = "") -> None:
    """Raise ValueError naming an output that shares memory with another array of the call, or
    elements of which lie on one another; `why` is added to what it says.

    Views of one buffer are told apart where both are whole pieces of memory or have the same pitch,
    as columns of one matrix have; others count as apart.
    """
    found = [
        (named, span)
        for named in arrays
        if named.value is not None and (span := _span(named)) is not None
    ]
    for named, span in found:
        if named.written and span.is_repeated:
            raise ValueError(
                f"{named.name}: expected every element at an address of its own, got strides "
                f"{span.argument.strides} for shape {span.argument.shape}"
            )
    active: list[tuple[Named, _Span]] = []
    for named, span in sorted(found, key=lambda each: each[1].start):
        active = [each for each in active if each[1].end > span.start]
        for other, theirs in active:
            if (named.written or other.written) and _share(
                span.modes, theirs.modes, theirs.start - span.start
            ):
                _refuse(named, span, other, theirs, why)
        active.append((named, span))


def _refuse(one: Named, span: _Span, other: Named, theirs: _Span, why: str) -> None:
    """The error for two arrays that share memory, unless one may be written over the other."""
    out, read = (one, other) if one.written else (other, one)
    if not read.written and out.updates == read.name and span.is_same(theirs):
        return
    allowed = f", or that of {out.updates} as it is" if out.updates is not None else ""
    raise ValueError(
        f"{out.name}: expected memory of its own{allowed}, got an array that overlaps "
        f"{read.name}{why}"
    )


@dataclass(frozen=True)
class _Span:
    """The memory of an array: `modes` are (stride, extent) in bytes, the longest strides first, the
    element itself last, and no stride below zero; `start` and `end` are its lowest address and
    that behind it.
    """

    argument: TensorArgument
    start: int
    modes: tuple[tuple[int, int], ...]
    is_repeated: bool

    @property
    def end(self) -> int:
        return self.start + _length(self.modes)

    def is_same(self, other: _Span) -> bool:
        """Whether each element lies where the other array has the one with its index."""
        mine, theirs = self.argument, other.argument
        return (mine.pointer, mine.shape, mine.strides, mine.dtype) == (
            theirs.pointer, theirs.shape, theirs.strides, theirs.dtype,
        )  # fmt: skip


def _span(named: Named) -> _Span | None:
    """The memory of an array; None where it has no elements."""
    argument = tensor_argument(named.value)
    if argument is None or 0 in argument.shape:
        return None
    item = numpy_dtype(argument.dtype).itemsize
    many = [
        (abs(stride) * item, extent)
        for stride, extent in zip(argument.strides, argument.shape, strict=True)
        if extent > 1
    ]
    modes = sorted([mode for mode in many if mode[0]], reverse=True)
    # Host memory and that of each device have address spaces of their own.
    place = 0 if argument.device is None else (1 + argument.device) << 64
    start = place + span_of(argument)[0]
    return _Span(argument, start, (*modes, (1, item)), len(modes) < len(many))


_Modes = Sequence[tuple[int, int]]


def _length(modes: _Modes) -> int:
    """Bytes from the first one to the last."""
    return 1 + sum(stride * (extent - 1) for stride, extent in modes)


def _is_dense(modes: _Modes) -> bool:
    """Whether all bytes between the first and the last belong to elements."""
    return all(stride <= _length(modes[i + 1 :]) for i, (stride, _) in enumerate(modes))


def _share(one: _Modes, other: _Modes, apart: int) -> bool:
    """Whether arrays share bytes, as far as can be told; the other begins so many bytes behind."""
    if apart >= _length(one) or -apart >= _length(other):
        return False
    if _is_dense(one) and _is_dense(other):
        return True
    pitch = max(modes[0][0] for modes in (one, other) if not _is_dense(modes))
    lines: list[_Modes] = []
    for modes in (one, other):
        line = modes[1:] if modes[0][0] == pitch else modes
        if _length(line) > pitch:
            return _is_dense(modes)
        lines.append(line)
    behind = apart % pitch
    return any(_share(lines[0], lines[1], place) for place in (behind, behind - pitch))
