"""PTX versions: the lowest `.version` in which a target and all that we print for it exist."""

from __future__ import annotations

# Target to the first PTX ISA version that knows it; L2 policies need 7.4 on sm_80, products of
# mixed signs and fp8 8.4 on sm_90.
_VERSIONS = {
    "sm_70": "6.5",
    "sm_75": "6.5",
    "sm_80": "7.4",
    "sm_86": "7.4",
    "sm_87": "7.4",
    "sm_89": "8.4",
    "sm_90": "8.4",
    "sm_90a": "8.4",
    "sm_100": "8.6",
    "sm_100a": "8.6",
    "sm_120": "8.7",
    "sm_120a": "8.7",
}


def version_of(target: str) -> str:
    """The `.version` to print for a target; ValueError for one that is not known."""
    if target not in _VERSIONS:
        raise ValueError(f"expected a target ({', '.join(_VERSIONS)}), got '{target}'")
    return _VERSIONS[target]
