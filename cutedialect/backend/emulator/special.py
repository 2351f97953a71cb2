"""Special registers (PTX ISA section 10): fixed values per lane, masks and clocks."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .lanes import Array, Lanes
from .types import STORAGE, ScalarType

if TYPE_CHECKING:
    from .machine import Machine
    from .module import Instruction


class SpecialValues:
    """Clocks advance with every read, so that a loop that waits for time ends."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self._cache: dict[str, Array] = {}

    def reader(self, ins: Instruction, name: str, type: ScalarType) -> Any:
        machine = self._machine
        dtype = type.dtype
        if name in ("%clock", "%clock64", "%clock_hi", "%globaltimer", "%globaltimer_lo",
                    "%globaltimer_hi"):  # fmt: skip
            shift = 32 if name.endswith("_hi") else 0
            mask = (1 << min(type.bits, 64)) - 1

            def read_clock(lanes: Lanes) -> Array:
                machine.clock += 64
                machine.polled = True
                return np.array([(machine.clock >> shift) & mask], STORAGE[type.bits]).view(dtype)

            return read_clock
        values = self._cache.get(name)
        if values is None:
            values = self._values(name)
            if values is None:
                raise ins.unsupported(f"unknown special register {name}")
            self._cache[name] = values
        if type.bits < 16 and name != "%is_explicit_cluster":
            raise ins.malformed(f"{name} does not fit .{type.name}")
        typed = values.astype(STORAGE[type.bits]).view(dtype)
        if len(typed) == 1:

            def read_constant(lanes: Lanes) -> Array:
                return typed

            return read_constant

        def read_lanes(lanes: Lanes) -> Array:
            return typed[lanes.sel]

        return read_lanes

    def _values(self, name: str) -> Array:
        machine = self._machine
        image = machine.image
        base, _, axis = name[1:].partition(".")
        if axis in ("x", "y", "z", "w") and base in _VECTORS:
            return self._of_vector(base, axis)
        if name in _OF_LANES:
            return _OF_LANES[name](machine.lane_id.astype(np.uint64))
        if name == "%warpid":
            return machine.lane_thread >> 5
        if name == "%smid":
            return machine.cta_ids[machine.lane_cta] % 132
        if name == "%cluster_ctarank":
            return machine.lane_cta % machine.cluster_size
        constants = {
            "%nwarpid": 64, "%nsmid": 132, "%gridid": 1, "%envreg0": 0,
            "%dynamic_smem_size": image.dynamic_shared, "%total_smem_size": image.shared_size,
            "%aggr_smem_size": image.shared_size, "%reserved_smem_offset_begin": 0,
            "%reserved_smem_offset_end": 1024, "%reserved_smem_offset_cap": 1024,
            "%cluster_nctarank": image.cluster[0] * image.cluster[1] * image.cluster[2],
            "%is_explicit_cluster": int(image.cluster != (1, 1, 1)),
        }  # fmt: skip
        return np.array([constants[name]]) if name in constants else None

    def _of_vector(self, base: str, axis: str) -> Array:
        """A component of one of `_VECTORS`."""
        if axis == "w":
            return np.zeros(1, np.uint32)
        machine, which = self._machine, "xyz".index(axis)
        image = machine.image
        grid, cluster = image.grid[which], image.cluster[which]
        extents = {
            "ntid": image.block[which], "nctaid": grid, "cluster_nctaid": cluster,
            "nclusterid": grid // cluster,
        }  # fmt: skip
        if base in extents:
            return np.array([extents[base]])
        if base == "tid":
            return _coordinate(machine.lane_thread, image.block)[which]
        cta = _coordinate(machine.cta_ids[machine.lane_cta], image.grid)[which]
        places = {"ctaid": cta, "cluster_ctaid": cta % cluster, "clusterid": cta // cluster}
        return places[base]


_VECTORS = {
    "tid", "ntid", "ctaid", "nctaid", "cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid"
}  # fmt: skip
_ONE, _ALL_LANES = np.uint64(1), np.uint64(0xFFFFFFFF)
_OF_LANES: dict[str, Callable[[Array], Array]] = {
    "%laneid": lambda lane: lane,
    "%lanemask_eq": lambda lane: _ONE << lane,
    "%lanemask_lt": lambda lane: (_ONE << lane) - _ONE,
    "%lanemask_le": lambda lane: (_ONE << (lane + _ONE)) - _ONE,
    "%lanemask_gt": lambda lane: _ALL_LANES ^ ((_ONE << (lane + _ONE)) - _ONE),
    "%lanemask_ge": lambda lane: _ALL_LANES ^ ((_ONE << lane) - _ONE),
}


def _coordinate(linear: Array, extent: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    x, y, _ = extent
    return linear % x, linear // x % y, linear // (x * y)
