"""Special registers (PTX ISA section 10): fixed values per lane, masks and clocks."""

from __future__ import annotations

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
            if axis == "w":
                return np.zeros(1, np.uint32)
            which = "xyz".index(axis)
            cta = machine.cta_ids[machine.lane_cta]
            if base == "tid":
                return _coordinate(machine.lane_thread, image.block)[which]
            if base == "ntid":
                return np.array([image.block[which]])
            if base == "ctaid":
                return _coordinate(cta, image.grid)[which]
            if base == "nctaid":
                return np.array([image.grid[which]])
            ctaid = _coordinate(cta, image.grid)
            if base == "cluster_ctaid":
                return ctaid[which] % image.cluster[which]
            if base == "cluster_nctaid":
                return np.array([image.cluster[which]])
            if base == "clusterid":
                return ctaid[which] // image.cluster[which]
            return np.array([image.grid[which] // image.cluster[which]])
        lane = machine.lane_id.astype(np.uint64)
        one = np.uint64(1)
        if name == "%laneid":
            return lane
        if name == "%lanemask_eq":
            return one << lane
        if name == "%lanemask_lt":
            return (one << lane) - one
        if name == "%lanemask_le":
            return (one << (lane + one)) - one
        if name == "%lanemask_gt":
            return np.uint64(0xFFFFFFFF) ^ ((one << (lane + one)) - one)
        if name == "%lanemask_ge":
            return np.uint64(0xFFFFFFFF) ^ ((one << lane) - one)
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


_VECTORS = {
    "tid", "ntid", "ctaid", "nctaid", "cluster_ctaid", "cluster_nctaid", "clusterid", "nclusterid"
}  # fmt: skip


def _coordinate(linear: Array, extent: tuple[int, int, int]) -> tuple[Array, Array, Array]:
    x, y, _ = extent
    return linear % x, linear // x % y, linear // (x * y)
