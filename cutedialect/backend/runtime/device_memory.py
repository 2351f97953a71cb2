"""What launches point to on a device beside the caller's arrays: the tables of groups, which are
uploaded once for each content, and workspaces, of which each stream has its own.

The programs of a device share workspaces: launches of a stream follow each other in one, and what
has to be zeros there is left so. A capture into a CUDA graph has one of its own, so that nothing
else meets in it when the graph runs. That is set aside beforehand, so that a launch under capture
allocates nothing, and stays as long as the process, as the graph may.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from cutedialect.backend.runtime.driver import Driver, DriverError
from cutedialect.backend.runtime.host import Launch
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.tables import Table, joined
from cutedialect.backend.runtime.workspaces import Workspace, layout

_TABLES_KEPT = 256
# A piece of memory is a multiple of this many bytes: of what kernels leave as they like, and of
# zeros.
_STEPS = (2 << 20, 64 << 10)


class Allocation:
    """Memory on a device that goes with the last that refers to it, when the device is done."""

    def __init__(self, driver: Driver, device: int, size: int) -> None:
        self.pointer = driver.allocate(size)
        # The end of the process frees it by itself, and the driver may be gone by then.
        weakref.finalize(self, _free, driver, device, self.pointer).atexit = False


def _free(driver: Driver, device: int, pointer: int) -> None:
    with suppress(DriverError), driver.on(device):  # a device that is lost has freed it
        driver.free(pointer)


class Located(NamedTuple):
    """The address of a workspace: so many bytes behind the start of the stream's memory, of that
    which is zeros or of the other.
    """

    start: int
    zeroed: bool


@dataclass(frozen=True)
class Placed:
    """Launches in which tables are addresses and workspaces are `Located`, and how many bytes of
    either kind of workspace, (any, zeros), they take.
    """

    launches: tuple[Launch, ...]
    needs: tuple[int, int] = (0, 0)
    tables: tuple[Allocation, ...] = ()


@dataclass(frozen=True)
class _Piece:
    """Addresses and bytes of memory that may hold anything, and of zeros."""

    starts: tuple[int, int]
    sizes: tuple[int, int]

    def holds(self, needs: tuple[int, int]) -> bool:
        return needs[0] <= self.sizes[0] and needs[1] <= self.sizes[1]


class DeviceMemory:
    """Tables and workspaces on one device, whose context has to be current in every call."""

    def __init__(self, driver: Driver, device: int) -> None:
        self._driver, self._device = driver, device
        self._lock = threading.Lock()
        self._tables: Kept[bytes, Allocation] = Kept(_TABLES_KEPT)
        self._captured_tables: set[Allocation] = set()
        # By the handle of a stream and the number of a capture, 0 for none.
        self._pieces: dict[tuple[int, int], _Piece] = {}
        self._spare: _Piece | None = None

    def place(self, planned: Sequence[Launch], handle: int, name: str) -> Placed:
        """Give tables their addresses, and workspaces their places.

        Raises RuntimeError for a table of kernel `name` that is not on the device yet while the
        stream `handle` is captured.
        """
        given = [value for launch in planned for value in launch.arguments]
        tables = [value for value in given if type(value) is Table]
        workspaces = [value for value in given if type(value) is Workspace]
        if not tables and not workspaces:
            return Placed(tuple(planned))
        table, offsets = self._uploaded(tables, handle, name)
        starts = iter(offsets)
        places: dict[Workspace, Located] = {}
        needs: list[int] = []
        for zeroed in (False, True):
            wanted, size = layout([each for each in workspaces if each.zeroed == zeroed])
            needs.append(size)
            places |= {workspace: Located(start, zeroed) for workspace, start in wanted.items()}

        def put(value: Any) -> Any:
            if type(value) is Table:
                return next(starts)
            return places[value] if type(value) is Workspace else value

        launches = tuple(
            replace(launch, arguments=tuple(map(put, launch.arguments))) for launch in planned
        )
        return Placed(launches, (needs[0], needs[1]), () if table is None else (table,))

    def workspaces(self, needs: tuple[int, int], handle: int) -> tuple[int, int]:
        """Addresses of the two kinds of workspace for launches on the stream `handle`."""
        number = self._driver.captured_id(handle)
        found = self._pieces.get((handle, number))
        if found is None or not found.holds(needs):
            with self._lock:
                found = self._pieces[handle, number] = self._piece(needs, found, bool(number))
        if self._spare is None and not number:
            with self._lock:
                self._spare = self._spare or self._allocated(found.sizes)
        return found.starts

    def reserve(self, needs: tuple[int, int] = (1, 1)) -> None:
        """Set aside what a capture takes."""
        with self._lock:
            if self._spare is None or not self._spare.holds(needs):
                self._spare = self._allocated(needs)

    def keep_for_graph(self, tables: Sequence[Allocation], handle: int) -> None:
        """Keep tables as long as the process where the stream is captured."""
        if not self._captured_tables.issuperset(tables) and self._driver.captured_id(handle):
            self._captured_tables.update(tables)

    def _piece(self, needs: tuple[int, int], before: _Piece | None, captured: bool) -> _Piece:
        """Memory of a stream or of a capture; launches in flight or in graphs may still use what
        was there before, so that it stays, and what comes next is twice as large.
        """
        if before is not None:
            grown = [max(need, 2 * old) for need, old in zip(needs, before.sizes, strict=True)]
            needs = grown[0], grown[1]
        if captured and self._spare is not None and self._spare.holds(needs):
            found, self._spare = self._spare, None
            return found
        return self._allocated(needs)

    def _allocated(self, needs: tuple[int, int]) -> _Piece:
        sizes = [-(-max(1, size) // step) * step for size, step in zip(needs, _STEPS, strict=True)]
        starts = [self._driver.allocate(size) for size in sizes]
        self._driver.clear(starts[1], sizes[1])
        return _Piece((starts[0], starts[1]), (sizes[0], sizes[1]))

    def _uploaded(
        self, tables: list[Table], handle: int, name: str
    ) -> tuple[Allocation | None, list[int]]:
        """The tables of a call, which are one upload, and the address of each."""
        if not tables:
            return None, []
        data, starts = joined(tables)
        found = self._tables.get(data)
        if found is None:
            if self._driver.captured_id(handle):
                raise RuntimeError(
                    f"expected a call of kernel '{name}' with the same arrays before it is "
                    "captured in a CUDA graph, got the first one under capture; the table of a "
                    "group cannot be uploaded there"
                )
            found = Allocation(self._driver, self._device, len(data))
            source = np.frombuffer(data, np.uint8).ctypes.data
            self._driver.copy_to_device(found.pointer, source, len(data), handle)
            self._driver.synchronize(handle)
            self._tables.keep(data, found)
        return found, [found.pointer + start for start in starts]


@cache
def memory_of(driver: Driver, device: int) -> DeviceMemory:
    """The memory that the programs of a device share."""
    return DeviceMemory(driver, device)
