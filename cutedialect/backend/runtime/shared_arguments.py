"""Arguments of a launch that share memory: those of which the kernel reads one and writes another.
Which pairs there are, and where both may be one array, was decided when the kernel was compiled.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from cutedialect.backend.runtime.aliasing import Named, check_aliases
from cutedialect.backend.runtime.arguments import Bound
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import span_of
from cutedialect.backend.runtime.repeats import Overlap, overlap
from cutedialect.backend.runtime.signature import GroupParameter, SharedMemory, Signature


class SharedArguments:
    """The pairs of a kernel's arguments that are read and written."""

    def __init__(self, signature: Signature, pairs: Sequence[SharedMemory]) -> None:
        self._parameters = signature.parameters
        self._pairs = pairs

    def check(self, args: Sequence[Any], bound: Bound) -> None:
        """Refuse memory that the kernel reads as one tensor and writes as another, unless both are
        one array of which each work item reads what it writes, before it does.

        Raises ValueError with the names of both arguments.
        """
        for read, written, needs, line in self._pairs:
            mine, theirs = bound[read], bound[written]
            if _is_apart(mine, theirs):
                continue
            source, out = self._parameters[read].name, self._parameters[written].name
            allowed = _members(source, args[read]) if _hold(needs, bound) else {}
            names = [*allowed] if _is_group(mine) == _is_group(theirs) else []
            written_arrays = _members(out, args[written])
            arrays = [Named(name, value) for name, value in _members(source, args[read]).items()]
            for number, (name, value) in enumerate(written_arrays.items()):
                updates = names[number] if number < len(names) else None
                arrays.append(Named(name, value, True, updates))
            place = "" if line is None else f" ({line})"
            reason = f"; pass a copy of {source}, or another array for {out}"
            if not names:
                reason = f", of which tiles may be read{place} behind a store to {out}{reason}"
            check_aliases(arrays, reason)

    def overlaps(self, args: Sequence[Any], bound: Bound) -> list[Overlap]:
        """What is to be looked at of tensors that look like these, groups apart."""
        return [
            overlap(args, written, read, _hold(needs, bound))
            for read, written, needs, _ in self._pairs
            if not any(
                isinstance(self._parameters[place], GroupParameter) for place in (read, written)
            )
        ]

    @property
    def have_groups(self) -> bool:
        """Whether tensors of a group are among them."""
        return any(
            isinstance(self._parameters[place], GroupParameter)
            for pair in self._pairs
            for place in pair[:2]
        )


def _hold(needs: Sequence[tuple[int, int, int]] | None, bound: Bound) -> bool:
    """Whether two arguments may be one array: modes are no longer than a tile."""
    return needs is not None and all(
        bound[place].shape[mode] <= extent for place, mode, extent in needs
    )


def _is_group(argument: Any) -> bool:
    return not isinstance(argument, TensorArgument)


def _is_apart(one: Any, other: Any) -> bool:
    """Whether two tensors are known to share no byte, by where they begin and end alone."""
    if _is_group(one) or _is_group(other):
        return False
    if one.device != other.device:
        return True
    (mine, my_size), (theirs, their_size) = span_of(one), span_of(other)
    return mine + my_size <= theirs or theirs + their_size <= mine


def _members(name: str, value: Any) -> dict[str, Any]:
    """The arrays of an argument by their names."""
    if isinstance(value, list | tuple):
        return {f"{name}[{number}]": each for number, each in enumerate(value)}
    return {name: value}
