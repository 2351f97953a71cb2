"""How many clusters of a kernel run at one time. A cluster lives in one part of the device (a GPC),
whose multiprocessors its size may not divide, so that it is less than their number says: a grid for
CTAs that stay has to fit, or some of them begin when others end.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

from cutedialect.backend.runtime.tensor_maps import DRIVER

# CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_CLUSTER_DIMENSION = 4


class _Attribute(ctypes.Structure):
    """CUlaunchAttribute with a cluster's extents."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("pad", ctypes.c_char * 4),
        ("extents", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    )


class _Config(ctypes.Structure):
    """CUlaunchConfig."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("smem", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(_Attribute)),
        ("count", ctypes.c_uint),
    )


def active_clusters(
    function: int, cluster: tuple[int, int, int], threads: int, smem: int
) -> int | None:
    """Clusters of the function (a CUfunction that has opted in to `smem` bytes) that the current
    device holds at one time, None where the driver does not say.
    """
    query = _query()
    if query is None:
        return None
    attribute = _Attribute(_CLUSTER_DIMENSION, b"", (ctypes.c_uint * 3)(*cluster))
    config = _Config(
        (ctypes.c_uint * 3)(*cluster),
        (ctypes.c_uint * 3)(threads, 1, 1),
        smem,
        None,
        ctypes.pointer(attribute),
        1,
    )
    found = ctypes.c_int()
    status = query(ctypes.byref(found), ctypes.c_void_p(function), ctypes.byref(config))
    return found.value if status == 0 and found.value > 0 else None


@cache
def _query() -> Any:
    try:
        return ctypes.CDLL(DRIVER).cuOccupancyMaxActiveClusters
    except (OSError, AttributeError):  # no driver, or one from before clusters
        return None
