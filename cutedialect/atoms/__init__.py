"""Hardware as plain data: MMA and copy instructions with their thread-value layouts, GPU targets
with their limits, and `legal`, which says whether one PTX statement may stand for one target.
Adding an instruction is adding an entry; verifiers, partitioning, emission, documentation and tests
read it here.
"""

from __future__ import annotations

from cutedialect.atoms.capability import Target, target, targets, targets_with
from cutedialect.atoms.copy_atoms import CopyAtom, copy, copy_atom, find_copy
from cutedialect.atoms.legality import Legality, legal
from cutedialect.atoms.mma_atoms import MmaAtom, MmaTypes, find_mma, mma, mma_atom

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
