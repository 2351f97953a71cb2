"""The `cute_nvgpu` dialect: copy and MMA atoms as types that `cute.copy` and `cute.gemm` carry, and
the ops that bracket asynchronous ones.

An atom's facts (layouts, registers, targets) are data in `cutedialect.atoms`; a type here names one
entry of it, in the spelling of NVIDIA's CuTe IR where that has one. `copy_atoms.py`: what threads
copy with; `mma_atoms.py`: multiplies; `tensor_memory.py`: taking its columns; `tma.py`: the tensor
memory accelerator; `bulk.py`: copies of contiguous tiles without a tensor map; `cp_async.py`: groups
of asynchronous copies.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from cutedialect.dialects.effects import declared

from .bulk import BulkCopyType, BulkLoadType, BulkStoreType
from .copy_atoms import (
    SHIFTED_BITS,
    AlignedStoreType,
    CopyType,
    LdsmType,
    MatrixCopyType,
    OperandCopyType,
    SimtAsyncCopyType,
    StsmType,
    TmemLoadType,
    TmemStoreType,
    UniversalCopyType,
)
from .cp_async import CpAsyncCommitOp, CpAsyncWaitOp
from .mma_atoms import (
    NEGATIONS,
    MmaType,
    RoundToTf32Op,
    Sm80MmaType,
    Sm90MmaType,
    Sm100MmaType,
    Tcgen05FenceOp,
    WgmmaCommitOp,
    WgmmaFenceOp,
    WgmmaWaitOp,
    WriteOnesOp,
)
from .tensor_memory import TmemAddressOp, TmemAllocOp, TmemDeallocOp
from .tma import (
    FenceTensorMapsOp,
    MakeTmaDescriptorOp,
    ProxyFenceOp,
    TmaDescriptorType,
    TmaLoadType,
    TmaPrefetchOp,
    TmaStoreCommitOp,
    TmaStoreType,
    TmaStoreWaitOp,
    check_window,
    parse_window,
    window_text,
)

CuteNvgpu = Dialect(
    "cute_nvgpu",
    declared(
        [
            MakeTmaDescriptorOp,
            FenceTensorMapsOp,
            TmaPrefetchOp,
            TmaStoreCommitOp,
            TmaStoreWaitOp,
            ProxyFenceOp,
            CpAsyncCommitOp,
            CpAsyncWaitOp,
            WgmmaFenceOp,
            WgmmaCommitOp,
            WgmmaWaitOp,
            RoundToTf32Op,
            WriteOnesOp,
            Tcgen05FenceOp,
            TmemAllocOp,
            TmemAddressOp,
            TmemDeallocOp,
        ]
    ),
    [
        UniversalCopyType,
        AlignedStoreType,
        SimtAsyncCopyType,
        LdsmType,
        StsmType,
        OperandCopyType,
        Sm80MmaType,
        Sm90MmaType,
        Sm100MmaType,
        TmemLoadType,
        TmemStoreType,
        TmaDescriptorType,
        TmaLoadType,
        TmaStoreType,
        BulkLoadType,
        BulkStoreType,
    ],
)

__all__ = [
    "NEGATIONS",
    "SHIFTED_BITS",
    "AlignedStoreType",
    "BulkCopyType",
    "BulkLoadType",
    "BulkStoreType",
    "CopyType",
    "CpAsyncCommitOp",
    "CpAsyncWaitOp",
    "CuteNvgpu",
    "FenceTensorMapsOp",
    "LdsmType",
    "MakeTmaDescriptorOp",
    "MatrixCopyType",
    "MmaType",
    "OperandCopyType",
    "ProxyFenceOp",
    "RoundToTf32Op",
    "SimtAsyncCopyType",
    "Sm80MmaType",
    "Sm90MmaType",
    "Sm100MmaType",
    "StsmType",
    "Tcgen05FenceOp",
    "TmaDescriptorType",
    "TmaLoadType",
    "TmaPrefetchOp",
    "TmaStoreCommitOp",
    "TmaStoreType",
    "TmaStoreWaitOp",
    "TmemAddressOp",
    "TmemAllocOp",
    "TmemDeallocOp",
    "TmemLoadType",
    "TmemStoreType",
    "UniversalCopyType",
    "WgmmaCommitOp",
    "WgmmaFenceOp",
    "WgmmaWaitOp",
    "WriteOnesOp",
    "check_window",
    "parse_window",
    "window_text",
]
