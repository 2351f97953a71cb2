"""Hardware as plain data: MMA and copy instructions with their thread-value layouts, GPU targets
with their limits, and `legal`, which says whether one PTX statement may stand for one target.
Adding an instruction is adding an entry; verifiers, partitioning, emission, documentation and tests
read it here. What not every reader needs is imported at its first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutedialect.atoms.capability import (
    DEVICES,
    H100,
    REGISTER_FILE,
    WARP_SIZE,
    Device,
    Target,
    device_named,
    target,
    targets,
    targets_with,
    usual_device,
)
from cutedialect.atoms.copy_atoms import CopyAtom, copy, copy_atom, find_copy
from cutedialect.atoms.mma_atoms import MmaAtom, MmaTypes, find_mma, mma, mma_atom, mma_sync

if TYPE_CHECKING:
    from cutedialect.atoms.bulk_copy_atoms import BulkCopyAtom
    from cutedialect.atoms.legality import Legality, legal
    from cutedialect.atoms.matrix_descriptor import MatrixDescriptor, operand_addends
    from cutedialect.atoms.smem_layouts import SmemLayoutAtom, find_smem_layout, smem_layout_atoms
    from cutedialect.atoms.tcgen05_atoms import Tcgen05Atom, find_tcgen05, tcgen05
    from cutedialect.atoms.tensor_map import TensorMap, tensor_map_of
    from cutedialect.atoms.tmem_copy_atoms import TmemCopyAtom, find_tmem_copy
    from cutedialect.atoms.tmem_tiled_copy import make_tmem_copy
    from cutedialect.atoms.wgmma_atoms import WgmmaAtom, find_wgmma, wgmma

# Names whose module is imported at their first use.
_LAZY = {
    "bulk_copy_atoms": ("BulkCopyAtom",),
    "legality": ("Legality", "legal"),
    "matrix_descriptor": ("MatrixDescriptor", "operand_addends"),
    "smem_layouts": ("SmemLayoutAtom", "find_smem_layout", "smem_layout_atoms"),
    "tcgen05_atoms": ("Tcgen05Atom", "find_tcgen05", "tcgen05"),
    "tensor_map": ("TensorMap", "tensor_map_of"),
    "tmem_copy_atoms": ("TmemCopyAtom", "find_tmem_copy"),
    "tmem_tiled_copy": ("make_tmem_copy",),
    "wgmma_atoms": ("WgmmaAtom", "find_wgmma", "wgmma"),
}

__all__ = [
    "DEVICES",
    "H100",
    "REGISTER_FILE",
    "WARP_SIZE",
    "BulkCopyAtom",
    "CopyAtom",
    "Device",
    "Legality",
    "MatrixDescriptor",
    "MmaAtom",
    "MmaTypes",
    "SmemLayoutAtom",
    "Target",
    "Tcgen05Atom",
    "TensorMap",
    "TmemCopyAtom",
    "WgmmaAtom",
    "copy",
    "copy_atom",
    "device_named",
    "find_copy",
    "find_mma",
    "find_smem_layout",
    "find_tcgen05",
    "find_tmem_copy",
    "find_wgmma",
    "legal",
    "make_tmem_copy",
    "mma",
    "mma_atom",
    "mma_sync",
    "operand_addends",
    "smem_layout_atoms",
    "target",
    "targets",
    "targets_with",
    "tcgen05",
    "tensor_map_of",
    "usual_device",
    "wgmma",
]


def __getattr__(name: str) -> object:
    for module, names in _LAZY.items():
        if name in names:
            from importlib import import_module

            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module '{__name__}' has no attribute '{name}'")
