"""PTX versions: the lowest `.version` in which a target and all that we print for it exist."""

from __future__ import annotations

from cutedialect.atoms import target

# First architecture to the PTX version that our instructions for it need, newest first: products of
# fp8 and of mixed signs came with 8.4, L2 policies with 7.4, `ldmatrix` and its products with 6.5.
_INSTRUCTIONS = ((89, (8, 4)), (80, (7, 4)), (70, (6, 5)))


def version_of(name: str) -> str:
    """The `.version` to print for a target; ValueError for one that is not known."""
    chip = target(name)
    needed = next(version for number, version in _INSTRUCTIONS if chip.number >= number)
    major, minor = max(chip.ptx_version, needed)
    return f"{major}.{minor}"
