"""Into how many parts `cute.attention` splits the keys: more CTAs are busy where the tiles of rows
are fewer than a device has multiprocessors, and the parts have to be merged.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cutedialect.atoms import usual_device
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.schedule import Schedule, replace_set

# A part of fewer blocks of keys, for so many rows, saves less than merging it costs.
_LEAST_BLOCKS, _FEW_ROWS = 4, 64
# Fewer keys, for more than few rows, take less time than it takes to merge parts of them.
_LEAST_KEYS = 1536
_MOST_PARTS = 128
# Tiles that fill so much of a wave are left whole; of the best use of the last wave so much is
# enough.
_FULL, _ENOUGH = 0.8, 0.85


def choose_parts(tiles: int, blocks: int, processors: int) -> int:
    """The fewest parts with which the CTAs, `tiles` for each part, fill their waves to 85 % of what
    the best number of parts does; `blocks` of keys are there to be split.
    """
    if tiles == 0 or tiles >= _FULL * processors:
        return 1
    most = max(1, min(_MOST_PARTS, blocks // _LEAST_BLOCKS))
    used: list[float] = []
    for parts in range(1, most + 1):
        waves = -(-tiles * parts // processors)
        used.append(tiles * parts / (waves * processors))
    return next(i for i, each in enumerate(used) if each >= _ENOUGH * max(used)) + 1


@dataclass(frozen=True)
class Work:
    """What a call attends to: k of a shape (B, Hk, Sk, D), to each head of which `rows` attend
    `tiles` times, seeing the keys of `window`; of `packed` sequences nothing is known. With
    `converts` keys become wider on their way: CTAs that share a processor all have work then.
    """

    keys: Sequence[int | None]
    rows: int | None
    tiles: int
    window: tuple[int | None, int | None]
    packed: bool
    converts: bool = False


def parts_of(work: Work, schedule: Schedule, arch: str, backend: str) -> int:
    """The parts that a schedule asks for, else `choose_parts`; 1 where extents are not known."""
    asked = schedule.split_k
    if asked is not None:
        if work.packed and asked > 1:
            raise ValueError(f"schedule: expected split_k = 1 with cu_seqlens, got {asked}")
        return asked
    batch, heads, length = work.keys[:3]
    if work.packed or schedule.tile is None:
        return 1
    if work.rows is None or batch is None or heads is None or length is None:
        return 1
    bq, bk = schedule.tile
    before, behind = work.window
    if before is not None and behind is not None:
        length = min(length, before + behind + bq)
    if length < _LEAST_KEYS and work.rows > _FEW_ROWS:
        return 1
    tiles = work.tiles * batch * heads * -(-work.rows // bq)
    blocks = -(-length // bk) // -(-bq // _FEW_ROWS)
    ctas = schedule.ctas or 1 if work.converts else 1
    return choose_parts(tiles, blocks, ctas * processors_of(arch, backend))


def processors_of(arch: str, backend: str) -> int:
    """Multiprocessors of the device that a call runs on, or of a usual one of its target."""
    if backend not in ("emulator", "interpreter") and gpu_available():
        from cutedialect.backend.runtime.devices import processors

        return processors()
    return usual_device(arch).processors


def without_parts(schedule: Schedule) -> Schedule:
    """The schedule of the kernel that attends to a part."""
    choices = {name: value for name, value in vars(schedule).items() if name != "split_k"}
    return replace_set(Schedule(), choices)
