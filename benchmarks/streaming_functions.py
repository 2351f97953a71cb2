"""Elementary functions of f32 as programs that stream: one of each element, beside torch's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import cutedialect as cute

from .streaming_workloads import Shape, Workload


@cute.kernel
def of_elements(X, Y, *, function="floor", tile=(4, 1024)):
    at = cute.tile_index(Y, tile)
    x = cute.local_tile(X, tile, at).load()
    named = cute
    for name in function.split("."):
        named = getattr(named, name)
    cute.copy(named(x), cute.local_tile(Y, tile, at))


def _entry(name: str, formula: Callable[[Any, Any], Any]) -> tuple[Workload, float, float]:
    def same(shape: Shape) -> list[Any]:
        return [(shape, "float32")]

    workload = Workload(
        same,
        same,
        lambda torch, x: (formula(torch, x),),
        ours=lambda: of_elements,
        options=lambda shape: {"function": name},
    )
    return workload, 1000, 16000


FUNCTIONS: dict[str, tuple[Workload, float, float]] = {
    "floors": _entry("floor", lambda torch, x: torch.floor(x)),
    "sines": _entry("sin", lambda torch, x: torch.sin(x)),
    "expm1": _entry("expm1", lambda torch, x: torch.expm1(x)),
    "log-gammas": _entry("lgamma", lambda torch, x: torch.lgamma(x)),
    "fast log-gammas": _entry("fast.lgamma", lambda torch, x: torch.lgamma(x)),
}
