"""Memory that kernels of a launch share among their CTAs, and that no argument is. A launcher gives
each stream its own, so that two launches never meet in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from cutedialect.backend.runtime.arrays import numpy_dtype
from cutedialect.backend.runtime.signature import DTYPE_OF_ELEMENT

ALIGNMENT = 256


class Workspace(NamedTuple):
    """Memory for `count` elements of a type (MLIR's name). `zeroed` memory is all zeros before a
    launch, which leaves it so; any other memory is undefined. Equal ones of a call are one.
    """

    name: str
    element: str
    count: int
    zeroed: bool

    @property
    def size(self) -> int:
        """Bytes."""
        return max(0, self.count) * numpy_dtype(DTYPE_OF_ELEMENT[self.element]).itemsize


def layout(workspaces: Sequence[Workspace]) -> tuple[dict[Workspace, int], int]:
    """Where each lies in one piece of memory, and the size of it in bytes."""
    places: dict[Workspace, int] = {}
    size = 0
    for workspace in workspaces:
        if workspace not in places:
            places[workspace] = size
            size += -(-workspace.size // ALIGNMENT) * ALIGNMENT
    return places, size


def emulated_workspace(workspace: Workspace) -> np.ndarray:
    """The memory for one launch in the emulator: what must not be read is NaN."""
    dtype = numpy_dtype(DTYPE_OF_ELEMENT[workspace.element])
    memory = np.zeros(max(0, workspace.count), dtype)
    if not workspace.zeroed and memory.dtype.kind not in "iub":
        memory.fill(np.nan)
    return memory
