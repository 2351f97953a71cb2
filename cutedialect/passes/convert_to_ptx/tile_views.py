"""Views of tensors, allocations, and what a kernel asks about its tensors and its grid."""

from __future__ import annotations

from xdsl.ir import Operation, SSAValue

from cutedialect.dialects import cute
from cutedialect.layout import flatten

from .context import (
    fail,
)
from .elementwise import Fragment
from .lowering import Handler, KernelLowering, integers
from .views import View, extent_of, local_tile, memref_view, stage, subview, transpose


def _dim(self: KernelLowering, op: cute.DimOp) -> None:
    view = self.view(op, op.memref)
    self.scalars[op.result] = extent_of(self.builder, view, op.mode.value.data)


def _stride(self: KernelLowering, op: cute.StrideOp) -> None:
    leaves = self.view(op, op.memref).modes[op.mode.value.data]
    stride = leaves[0][1]
    self.scalars[op.result] = stride if isinstance(stride, int) else stride.value


def _block_idx(self: KernelLowering, op: cute.BlockIdxOp) -> None:
    self.scalars[op.result] = self.builder.special(f"ctaid.{op.axis.data}")


def _grid_dim(self: KernelLowering, op: cute.GridDimOp) -> None:
    self.scalars[op.result] = self.builder.special(f"nctaid.{op.axis.data}")


def _tile_index(self: KernelLowering, op: cute.TileIndexOp) -> None:
    del self
    raise fail(op, "expected block indices, which cute-tile makes of tile indices")


def _local_tile(self: KernelLowering, op: cute.LocalTileOp) -> None:
    self.views[op.result] = local_tile(
        self.builder,
        self.view(op, op.memref),
        integers(op.tile),
        tuple(self.scalars[each] for each in op.coords),
    )


def _transpose(self: KernelLowering, op: cute.TransposeOp) -> None:
    if op.source in self.views:
        self.views[op.result] = transpose(self.views[op.source])
        return
    type_ = op.result.type
    assert isinstance(type_, cute.FragmentType)
    self.fragments[op.result] = Fragment(type_, self.fragment(op, op.source).array)


def _subview(self: KernelLowering, op: cute.SubviewOp) -> None:
    type_ = op.result.type
    assert isinstance(type_, cute.MemRefType)
    self.views[op.result] = subview(
        self.builder,
        self.view(op, op.source),
        integers(op.origin),
        type_.shape,  # type: ignore[arg-type]
    )


def _stage(self: KernelLowering, op: cute.StageOp) -> None:
    self.views[op.result] = stage(self.view(op, op.source), self.scalars[op.index])


def _alloc_fragment(self: KernelLowering, op: cute.AllocFragmentOp) -> None:
    self.new_fragment(op, op.result)


def _alloc_smem(self: KernelLowering, op: cute.AllocSmemOp) -> None:
    type_ = op.result.type
    assert isinstance(type_, cute.MemRefType)
    elements = 1 + sum(
        (extent - 1) * abs(stride)
        for extent, stride in zip(
            flatten(type_.layout.shape), flatten(type_.layout.stride), strict=True
        )
    )
    size = -(-elements * type_.bits // 8)
    root = self.context.smem.take(size, type_.alignment)

    def dynamic(cls: str) -> SSAValue:
        raise fail(op, f"expected a static layout, got {type_.layout} ({cls})")

    view = memref_view(type_, root, dynamic)
    self.views[op.result] = View(
        view.element,
        "smem",
        root,
        view.alignment,
        view.swizzle,
        view.modes,
        (None,) * len(view.modes),
        root_modes=(-1,) * len(view.modes),
    )


HANDLERS: dict[type[Operation], Handler] = {
    cute.DimOp: _dim,
    cute.StrideOp: _stride,
    cute.BlockIdxOp: _block_idx,
    cute.GridDimOp: _grid_dim,
    cute.TileIndexOp: _tile_index,
    cute.LocalTileOp: _local_tile,
    cute.TransposeOp: _transpose,
    cute.SubviewOp: _subview,
    cute.StageOp: _stage,
    cute.AllocFragmentOp: _alloc_fragment,
    cute.AllocSmemOp: _alloc_smem,
}
