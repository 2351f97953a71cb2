"""What a traced program is estimated to take, in cycles: its multiplies, what it loads, stores and
computes, and the waves of its work items, by the constants of products on a device and those of
`prices/program-DEVICE.json`. It ranks the values of open parameters; no time of it is told.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from types import SimpleNamespace

from cutedialect.allocation import (
    MOST_RING_STAGES,
    Ring,
    RoleUse,
    SharedUse,
    registers_of_roles,
    stages_that_fit,
)
from cutedialect.atoms import WARP_SIZE, Device, target

from .gemm_price import gemm_price, norm
from .need import Need
from .price import load, nearest

# Rows that a warpgroup multiplies, threads of one, and the bytes of depth of one multiply.
_ROWS, _THREADS, _DEPTH_BYTES = 64, 4 * WARP_SIZE, 32
# Warpgroups that compute a tile: all where it has the rows of three, else two at most.
_MOST_GROUPS, _ALL_GROUPS = 2, 3
# Registers of a thread for addresses, bounds and coordinates.
_BESIDE = 20


@dataclass(frozen=True)
class Multiply:
    """Products that a work item does `times`: rows and columns of the sums, bytes of a row of A,
    and whether that comes from registers.
    """

    rows: int
    columns: int
    line: int
    times: float
    is_held: bool = False


@dataclass(frozen=True)
class Work:
    """What a kernel does: how many work items there are, and of each its multiplies, the bytes that
    it loads and stores, the values that it computes, and how many of these by the unit for special
    functions. `held` are its sums; `moved` are the bytes of all tensors. Of shared memory `results`
    are the bytes of the largest tile that is stored, `kept` those that multiplies read in every
    trip, `stage` those of one of the `trips`.
    """

    items: float
    multiplies: tuple[Multiply, ...]
    loaded: float
    stored: float
    computed: float
    special: float
    held: float
    moved: float
    results: float
    kept: float
    stage: float
    trips: float

    @property
    def groups(self) -> int:
        """Warpgroups that compute."""
        rows = max((each.rows for each in self.multiplies), default=_ROWS)
        most = _ALL_GROUPS if rows == _ALL_GROUPS * _ROWS else _MOST_GROUPS
        return max(1, min(most, rows // _ROWS))

    def stages(self, arch: str) -> int:
        """Those of the loads into its loops."""
        kept, rings = int(self.results + self.kept), (Ring(int(self.stage)),)
        memory = target(arch).smem_per_cta
        use = SharedUse(memory, kept, rings, signaled=1, second_bytes=int(self.kept))
        return stages_that_fit(use, MOST_RING_STAGES)


def estimated(works: Sequence[Work], device: Device, price: SimpleNamespace | None = None) -> float:
    """Clock cycles that kernels are estimated to take one after the other; none of those without a
    multiply, of which nothing was timed. `price` has other constants than the device's.
    """
    price = price or load("program", nearest("program", device).file)
    return sum(_cycles(work, device, price) for work in works if work.multiplies)


def _cycles(work: Work, device: Device, price: SimpleNamespace) -> float:
    """Those of one kernel."""
    of_products = gemm_price(device)
    alone, processors, read = work.groups == 1, device.processors, work.loaded
    atoms = [each.times * each.rows / _ROWS * each.line / _DEPTH_BYTES for each in work.multiplies]
    multiplied = sum(
        count * max(of_products.column * each.columns, of_products.multiply)
        for count, each in zip(atoms, work.multiplies, strict=True)
    )
    steps = norm(
        of_products.step_norm,
        multiplied,
        sum(atoms) * of_products.rows_read + read / of_products.shared_bytes,
        read / of_products.l2_bytes,
        read * min(work.items, processors) / price.l2_shared,
        work.trips * price.latency / max(1, work.stages(device.arch) - 1),
    )
    # One warpgroup computes while it does not multiply; of two one computes while the other does.
    computed = work.computed / price.values + work.special / price.special_values
    steps += computed * price.apart[alone]
    steps += sum(each.times for each in work.multiplies) * price.between[alone]
    waves = -(-work.items // processors)
    waves += of_products.stragglers * (work.items / processors - waves)
    walk = waves * (steps + price.item + work.stored / price.stored_bytes)
    memory = work.moved / of_products.memory_bytes
    return of_products.launch + float(norm(of_products.memory_norm, walk, memory))


def need(works: Sequence[Work]) -> Need:
    """The registers of a thread of the kernel that has the fewest left."""
    return min(map(_need, works), key=lambda each: each.spare, default=Need())


def _need(work: Work) -> Need:
    """Sums, operands that threads hold, and what is beside them."""
    pair = registers_of_roles(RoleUse(computing=work.groups, multiplies=len(work.multiplies)))
    if pair is None or not work.multiplies:
        return Need()
    lines = max(each.is_held * each.rows * each.line for each in work.multiplies)
    values = work.held + lines / 4
    return Need(values / (_THREADS * work.groups) + _BESIDE, pair[1])
