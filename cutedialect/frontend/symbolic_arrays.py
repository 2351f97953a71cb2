"""Arrays whose extents and strides are expressions over the arguments of a call. What makes views
of arrays makes views of these, and so tells how the arguments of a kernel follow from a call's.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cutedialect.backend.runtime.errors import CompileError

Extent = int | str
"""A number that is fixed, or an expression."""


@dataclass(frozen=True)
class SymbolicArray:
    """A view of the array `name`, from its first element on. `stride` is in elements; every
    expression of `requires` has to be true for there to be such a view.
    """

    name: str
    shape: tuple[Extent, ...]
    stride: tuple[str, ...]
    requires: tuple[str, ...] = ()

    def expand(self, shape: Sequence[Extent]) -> SymbolicArray:
        """Broadcast to a shape, with stride 0 along new and repeated modes."""
        missing = len(shape) - len(self.shape)
        mine = zip((1,) * missing + self.shape, ("0",) * missing + self.stride, strict=True)
        stride: list[str] = []
        for wanted, (extent, step) in zip(shape, mine, strict=True):
            if wanted != extent and extent != 1:
                raise self._without_words(shape)
            stride.append(step if wanted == extent else "0")
        return replace(self, shape=tuple(shape), stride=tuple(stride))

    def swapaxes(self, one: int, other: int) -> SymbolicArray:
        """Two modes exchanged."""
        modes = list(zip(self.shape, self.stride, strict=True))
        modes[one], modes[other] = modes[other], modes[one]
        return replace(
            self, shape=tuple(each[0] for each in modes), stride=tuple(each[1] for each in modes)
        )

    def reshape(self, *shape: Extent | Sequence[Extent]) -> SymbolicArray:
        """A view of another shape: modes of known extents are split, or joined where their strides
        are those of one mode, which becomes a requirement.
        """
        wanted: list[Extent] = []
        for extent in shape:
            wanted += [extent] if isinstance(extent, int | str) else extent
        modes = [mode for mode in zip(self.shape, self.stride, strict=True) if mode[0] != 1]
        steps: list[str] = []
        requires = list(self.requires)
        for extent in reversed(wanted):
            step, left, count = "0", extent, 1
            while left != 1:
                have, mine = modes.pop() if modes else (1, "")
                part = _common(have, left)
                if part is None:
                    raise self._without_words(wanted)
                if count == 1:
                    step = mine
                else:
                    requires.append(f"{mine} == {_times(step, count)}")
                if isinstance(have, str) or isinstance(left, str) or isinstance(part, str):
                    break
                if have != part:
                    modes.append((have // part, _times(mine, part)))
                left, count = left // part, count * part
            steps.append(step)
        if modes:
            raise self._without_words(wanted)
        return replace(
            self, shape=tuple(wanted), stride=tuple(reversed(steps)), requires=tuple(requires)
        )

    def __getitem__(self, where: slice) -> SymbolicArray:
        """The first element along the first mode: `[:1]`."""
        if where != slice(None, 1):
            raise self._without_words(self.shape)
        return replace(self, shape=(1, *self.shape[1:]))

    def _without_words(self, shape: Sequence[Extent]) -> CompileError:
        return CompileError(
            f"expected a view of {self.name} {_shown(self.shape)} by its strides to describe, got "
            f"{_shown(shape)}",
            code="CD-DESCRIBE",
        )


def _common(one: Extent, other: Extent) -> Extent | None:
    """How far two modes go together: as far as the shorter one, which divides the other."""
    if one == other or isinstance(one, str) or isinstance(other, str):
        return one if one == other else None
    short, long = sorted((one, other))
    return short if short > 1 and long % short == 0 else None


def _times(step: str, count: int) -> str:
    return step if count == 1 else f"{count} * {step}"


def _shown(shape: Sequence[Extent]) -> str:
    return f"({', '.join(map(str, shape))})"
