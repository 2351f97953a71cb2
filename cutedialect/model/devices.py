"""What the units of a multiprocessor do in a cycle, of the devices that the model knows.

Where each figure comes from: [sheet] NVIDIA's data sheets of H100 SXM and B200; [guide] CUDA C++
Programming Guide, throughput of native arithmetic instructions, compute capabilities 9.0 and 10.0;
[tuning] Hopper Tuning Guide, 1.4.1 and 1.4.2; [assumed] a guess
that no measurement made; [driver] `cuOccupancyMaxActiveClusters` on an H100; [fit] fitted
to programs of the seeds 2 to 4, 51, 52, 201 and 202 of `benchmarks.static_model`, and to when their
warps came by places in the code, on an H100; taken over for B200, where nothing was measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from cutedialect.atoms import usual_device


def _heavy() -> dict[str, float]:
    """Cycles that a unit of a quarter takes for an instruction of a warp: 32 results of f32 in a
    cycle, 16 of integers, comparisons, minima and conversions to 16 bits, 8 of shuffles [guide]. A
    special function would take 8 (4 results in a cycle), and integers 2; with what stands around
    them they take more [fit].
    """
    return {"fma": 1.0, "alu": 2.5, "sfu": 9.5, "shuffle": 4.0}


@dataclass(frozen=True)
class Device:
    """Figures of one multiprocessor (SM) and of its share of the device, in cycles at `clock` Hz
    and bytes; a quarter of an SM issues one instruction of a warp in a cycle [tuning].

    tensor: multiply-adds of 16-bit elements of an SM in a cycle [sheet]; 8-bit ones are twice as
    many, 32-bit ones half as many. tensor_share: what a main loop reaches of it, register_share:
    where A comes from registers [fit].
    memory_bytes: bytes a second of memory, what streams reach of the sheet's figure [fit].
    heavy: cycles of a warp's instruction by unit. shared_bytes: what shared memory gives or takes
    of threads in a cycle [tuning]; fill_bytes: what it takes of asynchronous copies [fit].
    l2_bytes: what L2 gives an SM where all ask; l2_port: what comes to an SM at most, copies that
    others of its cluster ask for included [fit].
    pace: cycles between a warp's instructions of arithmetic, which other warps can fill; crowded:
    how much longer special functions take where one, two or more warps of a quarter ask for them:
    two run in step, and more fill each other's pauses [fit].
    clusters: how many clusters of so many CTAs, one on each SM, fit beside each other, where these
    are fewer than the SMs have room for [driver].

    Latencies, all [fit]: a launch, and one that begins early; from the first CTA of a launch that
    begins to the last one (`spread`); a multiply of the tensor core; an instruction's result; a
    phase of an mbarrier until a warp sees it; shared memory; L2; memory; a store by TMA.
    """

    name: str
    processors: int
    clock: float
    tensor: int
    memory_bytes: float
    l2_bytes: float = 58.0
    l2_port: float = 72.0
    heavy: dict[str, float] = field(default_factory=_heavy)
    tensor_share: float = 0.92
    register_share: float = 0.8
    shared_bytes: float = 128.0
    fill_bytes: float = 190.0
    pace: float = 2.5
    crowded: tuple[float, ...] = (1.0, 1.5, 1.3)
    launch: float = 3600.0
    early_launch: float = 2300.0
    clusters: Mapping[int, int] = field(default_factory=dict)
    spread: float = 1500.0
    multiply_latency: float = 110.0
    result: float = 5.0
    phase: float = 80.0
    shared: float = 30.0
    l2: float = 500.0
    memory: float = 800.0
    store: float = 700.0

    def fits(self, cluster: int) -> int:
        """SMs that CTAs in clusters of so many take at most.

        >>> H100.fits(1), H100.fits(8)
        (132, 120)
        """
        return cluster * min(
            self.clusters.get(cluster, self.processors), self.processors // cluster
        )


_H100, _B200 = (usual_device(arch) for arch in ("sm_90a", "sm_100a"))
# Of the sheet's bandwidth nine tenths.
H100 = Device(
    "H100 SXM",
    processors=_H100.processors,
    clock=_H100.clock,
    tensor=_H100.multiplies,
    memory_bytes=3.0e12,
    clusters={3: 36, 4: 30, 5: 20, 6: 16, 8: 15, 10: 7, 12: 7, 16: 4},
)
# The same; L2 [assumed].
B200 = Device(
    "B200",
    processors=_B200.processors,
    clock=_B200.clock,
    tensor=_B200.multiplies,
    memory_bytes=7.2e12,
    l2_bytes=91.0,
    l2_port=128.0,
)
DEVICES = {"sm_90a": H100, "sm_100a": B200, "sm_100f": B200, "sm_103a": B200}
"""The device that the model takes for a target."""
