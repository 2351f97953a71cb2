"""How many clusters of a kernel run at one time. A cluster lives in one part of the device (a GPC),
whose multiprocessors its size may not divide, so that it is less than their number says: a grid for
CTAs that stay has to fit, or some of them begin when others end.
"""

from __future__ import annotations

import ctypes

from cutedialect.backend.runtime.driver import LaunchAttribute, LaunchConfig, driver

# CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION
_CLUSTER_DIMENSION = 4


def active_clusters(
    function: int, cluster: tuple[int, int, int], threads: int, smem: int
) -> int | None:
    """Clusters of the function (a CUfunction that has opted in to `smem` bytes) that the current
    device holds at one time, None where the driver does not say.
    """
    try:
        query = driver().function("cuOccupancyMaxActiveClusters")
    except AttributeError:  # a driver from before clusters
        return None
    attribute = LaunchAttribute(_CLUSTER_DIMENSION, b"", (ctypes.c_uint * 3)(*cluster))
    config = LaunchConfig(
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
