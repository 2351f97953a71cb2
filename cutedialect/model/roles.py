"""What the warps of a CTA have taken, added up by role: warps that load, that issue multiplies for
the tensor core of a whole SM, and that compute.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from .processor import Usage

_TENSOR = "tensor"
# Warps of a role do as much as each other, up to what one of them does for the others.
_ALIKE = 0.5


@dataclass(frozen=True)
class Role:
    """A role's name and warps; for one of its warps the mean cycles in which it has kept units busy
    and has waited, and bytes that all have moved.
    """

    name: str
    warps: tuple[int, ...]
    busy: dict[str, float] = field(default_factory=dict)
    waited: dict[str, float] = field(default_factory=dict)
    bytes: dict[str, float] = field(default_factory=dict)


def roles_of(usages: dict[int, Usage]) -> list[Role]:
    """The roles of warps, neighbors of one kind together."""
    found: list[list[int]] = []
    kinds: list[str] = []
    for warp, usage in sorted(usages.items()):
        kind = _kind(usage)
        same = found and kinds[-1] == kind and _is_like(usages[found[-1][0]], usage)
        if same:
            found[-1].append(warp)
        else:
            found.append([warp])
            kinds.append(kind)
    return [
        _merged(kind, group, [usages[warp] for warp in group])
        for kind, group in zip(kinds, found, strict=True)
        if kind != "idle"
    ]


def _kind(usage: Usage) -> str:
    busy = usage.busy
    if busy.get("issue", 0.0) <= _IDLE_SLOTS:
        return "idle"
    if busy.get(_TENSOR, 0.0) and not (busy.get("sfu") or busy.get("fma") or busy.get("alu")):
        return "mma"
    if usage.bytes.get("l2") and not busy.get(_TENSOR) and not busy.get("alu"):
        return "load"
    return "main"


# Slots of a warp that does nothing but find out that it has no role.
_IDLE_SLOTS = 200


def _is_like(one: Usage, other: Usage) -> bool:
    first, second = one.busy["issue"], other.busy["issue"]
    return min(first, second) >= _ALIKE * max(first, second)


def _merged(kind: str, warps: list[int], usages: list[Usage]) -> Role:
    def summed(name: str, share: float) -> dict[str, float]:
        total: dict[str, float] = {}
        for usage in usages:
            for key, value in getattr(usage, name).items():
                total[key] = total.get(key, 0.0) + value * share
        return total

    mean = 1 / len(warps)
    return Role(
        kind, tuple(warps), summed("busy", mean), summed("waited", mean), summed("bytes", 1.0)
    )
