"""What is fixed for a launch: the module, where its variables lie, the memories that all CTAs
share, and the order in which CTAs start.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .lanes import Array
from .memory import LinearMemory
from .module import Module
from .report import Report

FUNCTION_BASE = 0x0000_0002_0000_0000
SHARED_START = 1024
LOCAL_START = 16


@dataclass(frozen=True)
class Image:
    """What is fixed for a launch: where each variable lies and the memories that all CTAs share.

    ``offsets`` maps a variable's uid to its address in its own space. The kernel's own parameters
    are ``entry_params``, in ``param_memory``; those of device functions have one instance a thread.
    """

    module: Module
    entry: str
    offsets: dict[int, int]
    entry_params: frozenset[int]
    shared_size: int
    dynamic_shared: int
    local_size: int
    frame_size: int
    global_memory: LinearMemory
    const_memory: LinearMemory
    param_memory: LinearMemory
    grid: tuple[int, int, int]
    block: tuple[int, int, int]
    cluster: tuple[int, int, int]
    report: Report
    queue: LaunchQueue


class LaunchQueue:
    """CTAs of the grid that have not started: rows ``next`` to ``total`` in the order of
    ``cta_order``. A kernel may cancel the launch of the first cluster among them."""

    def __init__(self, total: int, cluster: int) -> None:
        self.next = 0
        self.total = total
        self.cluster = cluster

    def take(self, count: int) -> tuple[int, int]:
        """``(first row, rows)`` of the next ``count`` CTAs at most."""
        first, self.next = self.next, min(self.next + count, self.total)
        return first, self.next - first

    def cancel(self) -> int | None:
        """The first row of a cluster that will not start; None if all have."""
        if self.next >= self.total:
            return None
        return self.take(self.cluster)[0]


def cta_order(
    grid: tuple[int, int, int], cluster: tuple[int, int, int], first: int, count: int
) -> Array:
    """Linear CTA numbers of rows ``first`` to ``first + count``: clusters in the order of their
    coordinates, within one by rank."""
    size = cluster[0] * cluster[1] * cluster[2]
    row = np.arange(first, first + count)
    if size == 1:
        return row
    group, rank = row // size, row % size
    across, down = grid[0] // cluster[0], grid[1] // cluster[1]
    x = group % across * cluster[0] + rank % cluster[0]
    y = group // across % down * cluster[1] + rank // cluster[0] % cluster[1]
    z = group // (across * down) * cluster[2] + rank // (cluster[0] * cluster[1])
    return x + grid[0] * (y + grid[1] * z)
