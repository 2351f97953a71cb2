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
