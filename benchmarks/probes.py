"""All probes of `benchmarks.agreement`."""

from __future__ import annotations

from .attention_probes import attention_probes
from .gemm_probes import gemm_probes
from .probe import Probe
from .random_probes import random_probes


def probes(random: int = 0) -> list[Probe]:
    """All of them, with so many random ones. The names are unique."""
    return [*gemm_probes(), *attention_probes(), *random_probes(random)]
