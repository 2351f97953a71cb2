"""All probes of `benchmarks.agreement`."""

from __future__ import annotations

from .attention_probes import attention_probes
from .gemm_probes import gemm_probes
from .probe import Probe


def probes() -> list[Probe]:
    """The names are unique."""
    return [*gemm_probes(), *attention_probes()]
