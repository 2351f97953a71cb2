"""The `cute` dialect: tensors, register tiles, and the ops that tile, copy, multiply and reduce them.

`attributes.py`, `layout_types.py` and `types.py` hold what is written in types, `kernel_ops.py` the
kernel, `host_ops.py` its host part, `groups.py` tables of tensors, `slices.py` parts of tensors,
`joins.py` tiles of several parts, `exits.py` what ends a loop or a work item early, `tensor_layouts.py` layouts of tensors as values, `indexed_tiles.py` tiles of numbered rows, `pixel_tiles.py` tiles of pixels, `views.py` tiles,
`storage.py` where they lie, `scalar_ops.py` numbers, `inline_ptx.py` instructions of a program's
own, `fragment_ops.py` register tiles, `packed_tiles.py` those of packed elements, `tile_ops.py` what computes, `atomics.py` what is combined
with memory, `reductions.py` what combines the elements of a tile. `algebra/` is the layout algebra
as IR, as NVIDIA's CuTe IR has it.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.ir import Attribute, Dialect, Operation

from cutedialect.dialects.effects import declared

from .atomics import ATOMICS, FETCHED, ORDERS, SCOPES, AtomicOp, CombineOp, FetchOp
from .attributes import (
    ComposedLayoutAttr,
    LayoutAttr,
    ScheduleAttr,
    SwizzleAttr,
    TiledCopyAttr,
)
from .block_scales import panels_of
from .cooperation import (
    CancelLaunchOp,
    ClaimOp,
    ClusterBoundOp,
    ClusterRankOp,
    ClusterReduceOp,
    ClusterScatterOp,
    ClusterSumOp,
    LastArrivalOp,
)
from .exits import BreakIfOp, ExitOp, ReturnIfOp
from .fragment_ops import AnyOp, ConvertOp, CoordOp, ExtractOp, FillOp, ShareOp
from .groups import FindOp, GroupSizeOp, GroupType, MemberOp
from .host_ops import LaunchOp, SmCountOp, TileOffsetsOp, TileSharesOp, WorkspaceOp
from .indexed_tiles import IndexedTileOp
from .inline_ptx import InlinePtxOp
from .joins import ConcatOp
from .kernel_ops import (
    SCHEDULED,
    AssertOp,
    BarrierOp,
    BlockIdxOp,
    DimOp,
    GridDimOp,
    KernelOp,
    PrintfOp,
    StrideOp,
    TileIndexOp,
)
from .layout_types import ComposedLayoutType, LayoutType, SwizzleType
from .lines import LINE_OPS, LineOp, PutOp, ScanOp, SortOp, TakeOp
from .packed_tiles import UnpackOp
from .pixel_tiles import PixelTileOp
from .reductions import ReduceOp
from .scalar_ops import BrevOp
from .slices import ReadOp, SearchOp, SliceOp, slice_type
from .storage import AllocFragmentOp, AllocSmemOp, AllocTmemOp, LoadOp, StageOp
from .tensor_layouts import GetLayoutOp, MakeViewOp, view_type
from .tile_ops import (
    HELD,
    PANEL_COLUMNS,
    PANEL_GROUPS,
    PANEL_LANES,
    PANEL_ROWS,
    PANEL_WORDS,
    SCALINGS,
    SIX,
    CopyOp,
    GemmOp,
    MapOp,
    YieldOp,
    broadcasts,
)
from .types import (
    FragmentType,
    MemRefType,
    element_bits,
    fragment_of,
    memref_of,
    mode_of,
    threads_along,
)
from .views import (
    LocalTileOp,
    SubviewOp,
    TransposeOp,
    element_of,
    has_part,
    local_tile_type,
    named_copy,
    shape_of,
    tile_behind,
    transposed_tv,
    transposed_type,
)


class CuteDialect(Dialect):
    """The dialect with the ops and types of the layout algebra, which are made when text is read: a
    compiled kernel has none of them.
    """

    @property
    def operations(self) -> Iterator[type[Operation]]:
        from .algebra import OPERATIONS
        from .tiled_values import OPERATIONS as TILED

        yield from super().operations
        yield from OPERATIONS
        yield from TILED

    @property
    def attributes(self) -> Iterator[type[Attribute]]:
        from .algebra import ATTRIBUTES
        from .tiled_values import ATTRIBUTES as TILED

        yield from super().attributes
        yield from ATTRIBUTES
        yield from TILED


Cute = CuteDialect(
    "cute",
    declared(
        [
            KernelOp,
            LaunchOp,
            SmCountOp,
            TileOffsetsOp,
            TileSharesOp,
            GroupSizeOp,
            MemberOp,
            FindOp,
            DimOp,
            StrideOp,
            TileIndexOp,
            BlockIdxOp,
            GridDimOp,
            PrintfOp,
            SliceOp,
            ReadOp,
            SearchOp,
            LocalTileOp,
            IndexedTileOp,
            PixelTileOp,
            ConcatOp,
            GetLayoutOp,
            MakeViewOp,
            TransposeOp,
            SubviewOp,
            StageOp,
            AllocFragmentOp,
            AllocSmemOp,
            AllocTmemOp,
            FillOp,
            LoadOp,
            CopyOp,
            ConvertOp,
            ExtractOp,
            UnpackOp,
            AnyOp,
            ShareOp,
            GemmOp,
            MapOp,
            YieldOp,
            CoordOp,
            ReduceOp,
            ScanOp,
            SortOp,
            TakeOp,
            PutOp,
            AssertOp,
            BreakIfOp,
            ReturnIfOp,
            CombineOp,
            FetchOp,
            LastArrivalOp,
            ClusterSumOp,
            ClusterScatterOp,
            ClusterBoundOp,
            ClusterRankOp,
            ClusterReduceOp,
            ClaimOp,
            CancelLaunchOp,
            WorkspaceOp,
            BarrierOp,
            BrevOp,
            InlinePtxOp,
        ]
    ),
    [
        LayoutAttr,
        ComposedLayoutAttr,
        SwizzleAttr,
        TiledCopyAttr,
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
    "ATOMICS",
    "FETCHED",
    "HELD",
    "LINE_OPS",
    "ORDERS",
    "PANEL_COLUMNS",
    "PANEL_GROUPS",
    "PANEL_LANES",
    "PANEL_ROWS",
    "PANEL_WORDS",
    "SCALINGS",
    "SCHEDULED",
    "SCOPES",
    "SIX",
    "AllocFragmentOp",
    "AllocSmemOp",
    "AllocTmemOp",
    "AnyOp",
    "AssertOp",
    "AtomicOp",
    "BarrierOp",
    "BlockIdxOp",
    "BreakIfOp",
    "BrevOp",
    "CancelLaunchOp",
    "ClaimOp",
    "ClusterBoundOp",
    "ClusterRankOp",
    "ClusterReduceOp",
    "ClusterScatterOp",
    "ClusterSumOp",
    "CombineOp",
    "ComposedLayoutAttr",
    "ComposedLayoutType",
    "ConcatOp",
    "ConvertOp",
    "CoordOp",
    "CopyOp",
    "Cute",
    "DimOp",
    "ExitOp",
    "ExtractOp",
    "FetchOp",
    "FillOp",
    "FindOp",
    "FragmentType",
    "GemmOp",
    "GetLayoutOp",
    "GridDimOp",
    "GroupSizeOp",
    "GroupType",
    "IndexedTileOp",
    "InlinePtxOp",
    "KernelOp",
    "LastArrivalOp",
    "LaunchOp",
    "LayoutAttr",
    "LayoutType",
    "LineOp",
    "LoadOp",
    "LocalTileOp",
    "MakeViewOp",
    "MapOp",
    "MemRefType",
    "MemberOp",
    "PixelTileOp",
    "PrintfOp",
    "PutOp",
    "ReadOp",
    "ReduceOp",
    "ReturnIfOp",
    "ScanOp",
    "ScheduleAttr",
    "SearchOp",
    "ShareOp",
    "SliceOp",
    "SmCountOp",
    "SortOp",
    "StageOp",
    "StrideOp",
    "SubviewOp",
    "SwizzleAttr",
    "SwizzleType",
    "TakeOp",
    "TileIndexOp",
    "TileOffsetsOp",
    "TileSharesOp",
    "TiledCopyAttr",
    "TransposeOp",
    "UnpackOp",
    "WorkspaceOp",
    "YieldOp",
    "broadcasts",
    "element_bits",
    "element_of",
    "fragment_of",
    "has_part",
    "local_tile_type",
    "memref_of",
    "mode_of",
    "named_copy",
    "panels_of",
    "shape_of",
    "slice_type",
    "threads_along",
    "tile_behind",
    "transposed_tv",
    "transposed_type",
    "view_type",
]
