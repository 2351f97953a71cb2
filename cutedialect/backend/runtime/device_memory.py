"""What launches point to on a device beside the caller's arrays: the tables of groups, which are
uploaded once for each content, and workspaces, of which each stream has its own.

A workspace that a CUDA graph captures belongs to the graph: allocating, clearing and freeing it are
nodes of the graph, so that nothing else ever meets in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cutedialect.backend.runtime.host import Launch
from cutedialect.backend.runtime.kept import Kept
from cutedialect.backend.runtime.tables import Table, joined
from cutedialect.backend.runtime.workspaces import Workspace, layout

_TO_DEVICE = 1
_TABLES_KEPT = 256


@dataclass(frozen=True)
class Placed:
    """Launches with the addresses of all that they point to.

    memory: what has to live as long as the launches may be repeated. stream: the only one on which
    they may, None for any. captured: memory of the graph under capture, to be freed behind them.
    """

    launches: tuple[Launch, ...]
    memory: tuple[Any, ...] = ()
    stream: int | None = None
    captured: tuple[int, ...] = ()


class DeviceMemory:
    """Tables and workspaces of one program on one device, which has to be current in every call."""

    def __init__(self, cuda: Any, name: str) -> None:
        self._cuda = cuda
        self._runtime = cuda.runtime
        self._name = name
        self._tables: Kept[bytes, Any] = Kept(_TABLES_KEPT)
        self._captured_tables: set[Any] = set()
        self._workspaces: dict[tuple[int, bool], Any] = {}

    def place(self, planned: tuple[Launch, ...], handle: int) -> Placed:
        """Give tables and workspaces their addresses for launches on the stream `handle`.

        Raises RuntimeError for a table that is not on the device yet under graph capture.
        """
        given = [value for launch in planned for value in launch.arguments]
        tables = [value for value in given if type(value) is Table]
        workspaces = [value for value in given if type(value) is Workspace]
        if not tables and not workspaces:
            return Placed(planned)
        capturing = self._runtime.streamIsCapturing(handle)
        memory: list[Any] = []
        captured: list[int] = []
        starts = iter(self._table_addresses(tables, handle, capturing, memory))
        places: dict[Workspace, int] = {}
        for zeroed in (False, True):
            wanted, size = layout([each for each in workspaces if each.zeroed == zeroed])
            if not wanted:
                continue
            if capturing:
                base = self._runtime.mallocAsync(max(1, size), handle)
                captured.append(base)
                if zeroed:
                    self._runtime.memsetAsync(base, 0, size, handle)
            else:
                memory.append(self._workspace(size, zeroed, handle))
                base = memory[-1].ptr
            places |= {workspace: base + start for workspace, start in wanted.items()}
        launches = tuple(
            replace(
                launch,
                arguments=tuple(
                    next(starts)
                    if type(value) is Table
                    else places[value]
                    if type(value) is Workspace
                    else value
                    for value in launch.arguments
                ),
            )
            for launch in planned
        )
        return Placed(launches, tuple(memory), handle if workspaces else None, tuple(captured))

    def release(self, placed: Placed, handle: int) -> None:
        """Free what belongs to the graph under capture, behind the launches."""
        for pointer in placed.captured:
            self._runtime.freeAsync(pointer, handle)

    def _table_addresses(
        self, tables: list[Table], handle: int, capturing: bool, memory: list[Any]
    ) -> list[int]:
        """Addresses of the tables of a call, which are one upload."""
        if not tables:
            return []
        data, starts = joined(tables)
        found = self._tables.get(data)
        if found is None:
            if capturing:
                raise RuntimeError(
                    f"expected a call of kernel '{self._name}' with the same arrays before it is "
                    "captured in a CUDA graph, got the first one under capture; the table of a "
                    "group cannot be uploaded there"
                )
            # Not from a pool, which could give it to another stream while a kernel reads it.
            found = self._cuda.memory.Memory(len(data))
            source = np.frombuffer(data, np.uint8).ctypes.data
            self._runtime.memcpyAsync(found.ptr, source, len(data), _TO_DEVICE, handle)
            self._runtime.streamSynchronize(handle)
            self._tables.keep(data, found)
        elif capturing:
            # The graph may run as long as the program is there.
            self._captured_tables.add(found)
        memory.append(found)
        return [found.ptr + start for start in starts]

    def _workspace(self, size: int, zeroed: bool, handle: int) -> Any:
        """The stream's memory, at least so large: launches of a stream follow each other in it."""
        found = self._workspaces.get((handle, zeroed))
        if found is None or found.size < size:
            found = self._cuda.memory.Memory(max(1, size))
            if zeroed:
                self._runtime.memsetAsync(found.ptr, 0, size, handle)
            self._workspaces[handle, zeroed] = found
        return found
