"""The `cute` dialect: tensors, register tiles, and the ops that tile, copy, multiply and reduce them.

`attributes.py`, `layout_types.py` and `types.py` hold what is written in types, `kernel_ops.py` the
kernel, `host_ops.py` its host part, `groups.py` tables of tensors, `views.py` tiles and storage,
`fragment_ops.py` register tiles, `tile_ops.py` what computes.
"""

from __future__ import annotations

from xdsl.ir import Dialect

from .attributes import ComposedLayoutAttr, LayoutAttr, ScheduleAttr, SwizzleAttr
from .cooperation import LastArrivalOp
from .fragment_ops import ConvertOp, ExtractOp, FillOp
from .groups import FindOp, GroupSizeOp, GroupType, MemberOp, tensor_type
from .host_ops import LaunchOp, SmCountOp, TileOffsetsOp, WorkspaceOp
from .kernel_ops import (
    BlockIdxOp,
    DimOp,
    GridDimOp,
    KernelOp,
    PrintfOp,
    StrideOp,
    TileIndexOp,
)
from .layout_types import ComposedLayoutType, LayoutType, SwizzleType
from .tile_ops import (
    AtomicOp,
    BarrierOp,
    CoordOp,
    CopyOp,
    GemmOp,
    LoadOp,
    MapOp,
    ReduceOp,
    YieldOp,
    broadcasts,
)
from .types import FragmentType, MemRefType, element_bits
from .views import (
    AllocFragmentOp,
    AllocSmemOp,
    LocalTileOp,
    StageOp,
    SubviewOp,
    TransposeOp,
    element_of,
    local_tile_type,
    shape_of,
    transposed_tv,
    transposed_type,
)

Cute = Dialect(
    "cute",
    [
        KernelOp,
        LaunchOp,
        SmCountOp,
        TileOffsetsOp,
        GroupSizeOp,
        MemberOp,
        FindOp,
        DimOp,
        StrideOp,
        TileIndexOp,
        BlockIdxOp,
        GridDimOp,
        PrintfOp,
        LocalTileOp,
        TransposeOp,
        SubviewOp,
        StageOp,
        AllocFragmentOp,
        AllocSmemOp,
        FillOp,
        LoadOp,
        CopyOp,
        ConvertOp,
        ExtractOp,
        GemmOp,
        MapOp,
        YieldOp,
        CoordOp,
        ReduceOp,
        AtomicOp,
        LastArrivalOp,
        WorkspaceOp,
        BarrierOp,
    ],
    [
        LayoutAttr,
        ComposedLayoutAttr,
        SwizzleAttr,
        ScheduleAttr,
        LayoutType,
        ComposedLayoutType,
        SwizzleType,
        MemRefType,
        GroupType,
        FragmentType,
    ],
)

__all__ = [
    "AllocFragmentOp",
    "AllocSmemOp",
    "AtomicOp",
    "BarrierOp",
    "BlockIdxOp",
    "ComposedLayoutAttr",
    "ComposedLayoutType",
    "ConvertOp",
    "CoordOp",
    "CopyOp",
    "Cute",
    "DimOp",
    "ExtractOp",
    "FillOp",
    "FindOp",
    "FragmentType",
    "GemmOp",
    "GridDimOp",
    "GroupSizeOp",
    "GroupType",
    "KernelOp",
    "LastArrivalOp",
    "LaunchOp",
    "LayoutAttr",
    "LayoutType",
    "LoadOp",
    "LocalTileOp",
    "MapOp",
    "MemRefType",
    "MemberOp",
    "PrintfOp",
    "ReduceOp",
    "ScheduleAttr",
    "SmCountOp",
    "StageOp",
    "StrideOp",
    "SubviewOp",
    "SwizzleAttr",
    "SwizzleType",
    "TileIndexOp",
    "TileOffsetsOp",
    "TransposeOp",
    "WorkspaceOp",
    "YieldOp",
    "broadcasts",
    "element_bits",
    "element_of",
    "local_tile_type",
    "shape_of",
    "tensor_type",
    "transposed_tv",
    "transposed_type",
]
