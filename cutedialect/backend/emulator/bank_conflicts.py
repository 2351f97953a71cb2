"""How many passes over the 32 banks a shared-memory access takes. A pass serves the lanes of one
group (a warp, half warp or quarter warp by access width); lanes that read the same word share it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .lanes import distinct, everywhere

_FAR = 1 << 40


def wavefronts(addresses: Any, group: Any, width: int, groups: int) -> tuple[int, int]:
    """``(wavefronts, minimum)`` of one access.

    ``addresses`` are byte offsets (one a lane), ``group`` the lane's group number in
    ``range(groups)``, ``width`` the bytes a lane moves. The minimum is one pass for each group that
    has a lane, or more where distinct words exceed 32.
    """
    words = addresses.astype(np.int64) >> 2
    if width > 4:
        words = (words[:, None] + np.arange(width // 4)).reshape(-1)
        group = np.repeat(group, width // 4)
    keys = group.astype(np.int64) * _FAR + words
    if len(keys) > 1 and not everywhere(keys[1:] > keys[:-1]):
        keys = distinct(keys)
    which = keys // _FAR
    slot = which * 32 + (keys & 31)
    load = np.bincount(slot, minlength=groups * 32).reshape(groups, 32)
    passes = load.max(axis=1)
    read = load.sum(axis=1)
    return int(passes.sum()), int(((read + 31) >> 5).sum())
