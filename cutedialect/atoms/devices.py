"""GPUs as their data sheets have them: the numbers by which prices of one are scaled for another,
and what counts where no device is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

from .capability import target


@dataclass(frozen=True)
class Device:
    """A GPU for a target (`arch`). `name` are words of what the driver calls it.

    processors: multiprocessors. clock: Hz that it runs at under load. multiplies: multiply-adds of
    16-bit elements with sums of 32 bits that one of them does in a cycle, dense. memory_bytes: what
    memory moves in a second.
    """

    name: str
    arch: str
    processors: int
    clock: float
    multiplies: int
    memory_bytes: float

    @property
    def file(self) -> str:
        """How files of its prices name it."""
        return self.name.lower().replace(" ", "-")

    @property
    def memory_bytes_per_cycle(self) -> float:
        return self.memory_bytes / self.clock


# NVIDIA's data sheets; of several with one target, the first is what counts where none is asked.
DEVICES = (
    Device("A100", "sm_80", 108, 1.41e9, 1024, 2.04e12),
    Device("L40S", "sm_89", 142, 2.52e9, 512, 0.864e12),
    Device("H100", "sm_90a", 132, 1.755e9, 2048, 3.35e12),
    Device("H200", "sm_90a", 132, 1.755e9, 2048, 4.8e12),
    Device("H100 PCIe", "sm_90a", 114, 1.62e9, 2048, 2.0e12),
    Device("B200", "sm_100a", 148, 1.85e9, 4096, 8.0e12),
    Device("B300", "sm_103a", 148, 1.85e9, 4096, 8.0e12),
    Device("RTX 5090", "sm_120a", 170, 2.41e9, 256, 1.79e12),
    Device("GB10", "sm_121a", 48, 2.42e9, 256, 0.273e12),
)

H100 = next(each for each in DEVICES if each.name == "H100")


@cache
def usual_device(arch: str) -> Device:
    """What counts for a target where no device is asked: the first with it, or else that of the
    nearest older one.

    >>> [usual_device(arch).name for arch in ("sm_90", "sm_100f", "sm_86", "sm_70")]
    ['H100', 'B200', 'A100', 'A100']
    """
    number = target(arch).number
    older = [each for each in DEVICES if target(each.arch).number <= number] or [DEVICES[0]]
    newest = max(target(each.arch).number for each in older)
    return next(each for each in older if target(each.arch).number == newest)


def device_named(name: str, arch: str) -> Device:
    """The device that the driver calls so, or the usual one of a target.

    >>> device_named("NVIDIA H100 PCIe", "sm_90a").processors
    114
    >>> device_named("NVIDIA GH200 480GB", "sm_90a").name
    'H100'
    """
    known = [each for each in DEVICES if f" {each.name}" in f" {name}"]
    return max(known, key=lambda each: len(each.name), default=usual_device(arch))
