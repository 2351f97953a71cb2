"""Hardware as plain data: MMA and copy instructions with their thread-value layouts, GPU targets
with their limits, and `legal`, which says whether one PTX statement may stand for one target.
Adding an instruction is adding an entry; verifiers, partitioning, emission, documentation and tests
read it here. The judge of statements is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutedialect.atoms.capability import Target, target, targets, targets_with
from cutedialect.atoms.copy_atoms import CopyAtom, copy, copy_atom, find_copy
from cutedialect.atoms.mma_atoms import MmaAtom, MmaTypes, find_mma, mma, mma_atom

if TYPE_CHECKING:
    from cutedialect.atoms.legality import Legality, legal

__all__ = [
    "CopyAtom",
    "Legality",
    "MmaAtom",
    "MmaTypes",
    "Target",
    "copy",
    "copy_atom",
    "find_copy",
    "find_mma",
    "legal",
    "mma",
    "mma_atom",
    "target",
    "targets",
    "targets_with",
]


def __getattr__(name: str) -> object:
    if name in ("Legality", "legal"):
        from cutedialect.atoms import legality

        return getattr(legality, name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
