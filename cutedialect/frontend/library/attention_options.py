"""The schedule of an attention and the compile-time values of its program that go with it."""

from __future__ import annotations

from typing import Any

from cutedialect.schedule import Schedule

from .attention_schedules import choose_schedule, maxima, meets_at, packed, summed_by
from .attention_work import AttentionWork
from .exponential_model import polynomials


def chosen_schedule(work: AttentionWork, arch: str, given: Schedule | None) -> Schedule:
    """What a call computes with, on top of which is what it gives."""
    chosen = choose_schedule(work, arch, given)
    if chosen.polynomials is not None:
        return chosen
    share = polynomials(arch, work.dims, work.bits_q, work.is_f16, work.returns_lse)
    return chosen.merged(Schedule(polynomials=share))


def options_of(work: AttentionWork, arch: str, chosen: Schedule) -> dict[str, Any]:
    """The schedule, and the parameters of `library/attention.py` that go with it."""
    return {
        "tile": chosen.tile,
        "maxima": maxima(work, chosen),
        "meets_at": meets_at(work, chosen),
        "sums": summed_by(work, chosen, arch),
        "packed": packed(work, chosen, arch),
        "schedule": chosen,
    }
