"""GPU targets as data: what `.target` may name, the oldest PTX version that knows it, and the
limits of the chip; and GPUs with their numbers, by which prices of one are scaled for another. A
requirement is written as the PTX manual does: `sm_80+` is that architecture and all later ones,
`sm_90a` is one exact chip, `sm_100f` a family (its `f` and `a` targets only).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

KIB = 1024
WARP_SIZE = 32
"""Threads of a warp, on every target."""
REGISTER_FILE = 65536
"""Registers of a multiprocessor, on every target; a CTA may take them all."""
# The first target with atomics of vectors, and their floats.
_VECTOR_RED, _VECTOR_FLOATS = 90, 4

GATHER4 = (
    "cp.async.bulk.tensor.2d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes"
)
"""A copy of four rows of a matrix to shared memory (PTX ISA 5.5.3.4)."""
# Instructions that kernels do without where a target has them not, and what they need. Whether a
# printed line may stand is for `legal` to say, of which a test takes these to be a part.
INSTRUCTIONS = {
    "cp.async.ca.shared.global": "sm_80+",
    GATHER4: "sm_100f sm_110f",
    "cvt.rn.f16x2.f32": "sm_80+",
    "cvt.rn.bf16.f32": "sm_80+",
    "cvt.rn.satfinite.e4m3x2.f32": "sm_89+",
    "cvt.rn.satfinite.e2m3x2.f32": "sm_100f sm_110f sm_120f",
    "mma.sync.aligned.m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0": "sm_120f",
    "max.NaN.f32": "sm_80+",
    "max.f16": "sm_80+",
    "fma.rn.bf16": "sm_80+",
    "add.rn.f16x2": "sm_70+",
    "add.rn.bf16x2": "sm_90+",
    "tcgen05.ld.red.sync.aligned.32x32b.x2.max.NaN.f32": "sm_103a sm_110a",
}


@dataclass(frozen=True)
class Target:
    """One `.target` of PTX. Sizes are bytes; registers are 32 bits wide.

    `smem_per_cta` is the opt-in maximum of one CTA (static and dynamic together), `smem_per_sm`
    what the CTAs of one SM share; each resident CTA costs 1 KiB more on sm_80 and later. Source:
    CUDA programming guide, "Compute Capabilities", and PTX ISA 9.1, `.target`.
    """

    name: str
    ptx_version: tuple[int, int]
    smem_per_cta: int
    smem_per_sm: int
    max_threads_per_sm: int
    max_ctas_per_sm: int
    max_cluster: int = 1
    tmem_columns: int = 0
    registers_per_sm: int = REGISTER_FILE
    registers_per_cta: int = REGISTER_FILE
    registers_per_thread: int = 255
    max_threads_per_cta: int = 1024
    warp_size: int = WARP_SIZE

    @property
    def number(self) -> int:
        """The compute capability times ten: 90 for `sm_90a`."""
        return int(self.name[3:].rstrip("af"))

    @property
    def suffix(self) -> str:
        """`a` for one exact chip, `f` for a family, empty for the portable subset."""
        return self.name[3:].lstrip("0123456789")

    @property
    def family(self) -> int:
        """The first member of the family whose `f` features this chip has (121 belongs to 120)."""
        return _FAMILY.get(self.number, self.number)

    @property
    def reduced_floats(self) -> int:
        """The most floats to which one `red.global.add` adds, each atomically by itself (PTX ISA
        9.7.13.6).
        """
        return _VECTOR_FLOATS if self.number >= _VECTOR_RED else 1

    @property
    def pairs_f32(self) -> bool:
        """Whether arithmetic on two f32 (`fma.rn.f32x2`) is one machine instruction. All of sm_100+
        have the PTX, of which `ptxas` makes two for sm_110 and sm_120.

        >>> [target(name).pairs_f32 for name in ("sm_100a", "sm_103f", "sm_120a", "sm_90a")]
        [True, True, False, False]
        """
        return self.has("sm_100f")

    @property
    def multicasts(self) -> bool:
        """Whether a tensor copy to several CTAs of a cluster is made for speed; all of sm_90+ have
        the PTX, which elsewhere may be much slower (PTX ISA 9.7.9.27.1.2).

        >>> [target(name).multicasts for name in ("sm_90a", "sm_103f", "sm_120a")]
        [True, True, False]
        """
        return self.has("sm_90a sm_100f sm_110f")

    @property
    def loads_to_cta(self) -> bool:
        """Whether a tensor copy to the CTA's own shared memory has to say so: of one that may go to
        another CTA of the cluster `ptxas` makes a call there, beside which no `setmaxnreg` counts.

        >>> [target(name).loads_to_cta for name in ("sm_90a", "sm_100a", "sm_120a")]
        [False, False, True]
        """
        return self.has("sm_120+")

    @property
    def max_warps_per_sm(self) -> int:
        return self.max_threads_per_sm // self.warp_size

    @property
    def reserved_smem_per_cta(self) -> int:
        """Bytes of `smem_per_sm` that the system takes for each resident CTA."""
        return KIB if self.number >= 80 else 0

    def smem_of(self, ctas: int) -> int:
        """Bytes of shared memory of each CTA where an SM holds so many of them.

        >>> [target("sm_90a").smem_of(ctas) for ctas in (1, 2)]
        [232448, 115712]
        """
        return min(self.smem_per_cta, self.smem_per_sm // ctas - self.reserved_smem_per_cta)

    def has(self, requirement: str) -> bool:
        """Whether any word of `requirement` (`"sm_90a sm_100f"`, `"sm_80+"`) covers this target.

        >>> target("sm_103a").has("sm_100f"), target("sm_100").has("sm_100f")
        (True, False)
        """
        return any(self._has_word(word) for word in requirement.split())

    def has_instruction(self, name: str) -> bool:
        """Whether one of `INSTRUCTIONS` exists here, with all others of its kind.

        >>> target("sm_75").has_instruction("cp.async.ca.shared.global")
        False
        """
        return self.has(INSTRUCTIONS[name])

    def _has_word(self, word: str) -> bool:
        if word.endswith("+"):
            return self.number >= int(word[3:-1])
        if word.endswith("f"):
            return self.suffix != "" and self.family == int(word[3:-1])
        return self.name == word


_FAMILY = {103: 100, 121: 120}


def _chip(
    number: int,
    versions: dict[str, tuple[int, int]],
    cta_kib: int,
    sm_kib: int,
    threads: int,
    ctas: int,
    cluster: int = 1,
    tmem: int = 0,
) -> tuple[Target, ...]:
    return tuple(
        Target(
            f"sm_{number}{suffix}",
            version,
            cta_kib * KIB,
            sm_kib * KIB,
            threads,
            ctas,
            cluster,
            tmem,
        )
        for suffix, version in versions.items()
    )


# max_cluster is the portable size; an H100 and a B200 go up to 16 with an opt-in attribute.
_TARGETS: dict[str, Target] = {
    each.name: each
    for chip in (
        _chip(70, {"": (6, 0)}, 96, 96, 2048, 32),
        _chip(72, {"": (6, 1)}, 96, 96, 2048, 32),
        _chip(75, {"": (6, 3)}, 64, 64, 1024, 16),
        _chip(80, {"": (7, 0)}, 163, 164, 2048, 32),
        _chip(86, {"": (7, 1)}, 99, 100, 1536, 16),
        _chip(87, {"": (7, 4)}, 163, 164, 1536, 16),
        _chip(88, {"": (9, 0)}, 99, 100, 1536, 16),
        _chip(89, {"": (7, 8)}, 99, 100, 1536, 24),
        _chip(90, {"": (7, 8), "a": (8, 0)}, 227, 228, 2048, 32, 8),
        _chip(100, {"": (8, 6), "f": (8, 8), "a": (8, 6)}, 227, 228, 2048, 32, 8, 512),
        _chip(103, {"": (8, 8), "f": (8, 8), "a": (8, 8)}, 227, 228, 2048, 32, 8, 512),
        _chip(110, {"": (9, 0), "f": (9, 0), "a": (9, 0)}, 227, 228, 1536, 24, 8, 512),
        _chip(120, {"": (8, 7), "f": (8, 8), "a": (8, 7)}, 99, 100, 1536, 24, 8),
        _chip(121, {"": (8, 8), "f": (8, 8), "a": (8, 8)}, 99, 100, 1536, 24, 8),
    )
    for each in chip
}


def targets() -> tuple[str, ...]:
    """The names of every known target, oldest first."""
    return tuple(_TARGETS)


def target(name: str | Target) -> Target:
    """The target called `name`; `ValueError` with the near names for an unknown one."""
    if isinstance(name, Target):
        return name
    found = _TARGETS.get(name)
    if found is None:
        from difflib import get_close_matches

        near = get_close_matches(str(name), _TARGETS, n=3, cutoff=0.6)
        hint = f"; did you mean {' or '.join(near)}?" if near else ""
        raise ValueError(f"expected one of {', '.join(_TARGETS)}, got target {name!r}{hint}")
    return found


@cache
def targets_with(requirement: str) -> tuple[str, ...]:
    """The names of the targets that satisfy `requirement`, oldest first."""
    return tuple(each.name for each in _TARGETS.values() if each.has(requirement))


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
