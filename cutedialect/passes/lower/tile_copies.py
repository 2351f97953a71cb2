"""`cute.copy` and its kin: which lowering a copy takes follows from its atom and from what its two
sides have become.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import FloatTF32Type
from xdsl.ir import Operation

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import (
    AlignedStoreType,
    BulkCopyType,
    LdsmType,
    OperandCopyType,
    SimtAsyncCopyType,
    StsmType,
    TmaLoadType,
    TmaStoreType,
    TmemLoadType,
    TmemStoreType,
    UniversalCopyType,
)
from cutedialect.layout import Layout
from cutedialect.passes.analysis.layout_inference import packing_of
from cutedialect.passes.analysis.thread_layouts import copied

from . import tensor_memory
from .aligned_stores import store_aligned
from .context import array_class
from .copies import load_tile, store_tile
from .elementwise import Fragment, as_bits, convert
from .exchanged_loads import load_exchanged
from .gathered_rows import gather_rows
from .lowering import Handler, KernelLowering, integers
from .matrix_copies import move_matrices
from .memory_copies import copy_async, copy_tile
from .operand_copies import Operand, operand_copy, start_around
from .scalar_builder import Scalar
from .tile_views import pieces
from .tma import tensor_copy
from .unpacking import unpack
from .views import Tile, View


def _copy(self: KernelLowering, op: cute.CopyOp) -> None:
    predicate: Scalar = True if op.pred is None else self.scalars[op.pred]
    atom = op.atom
    if isinstance(atom, SimtAsyncCopyType) and not atom.around:
        for piece in _tiled_pieces(self, op):
            copy_async(self.context, *piece, atom, predicate)
    elif isinstance(atom, TmemLoadType):
        tensor_memory.load(self, op)
    elif isinstance(atom, TmemStoreType):
        tensor_memory.store(self, op)
    elif isinstance(atom, TmaLoadType) and atom.gathers:
        gather_rows(self, op, predicate)
    elif isinstance(atom, TmaLoadType | TmaStoreType | BulkCopyType):
        tensor_copy(self, op, predicate)
    else:
        self.context.when(predicate, lambda: _plain_copy(self, op))


def _plain_copy(self: KernelLowering, op: cute.CopyOp) -> None:
    context, atom, source, target = self.context, op.atom, op.source, op.destination
    limit = atom.bits // 8 if isinstance(atom, UniversalCopyType) else 16
    mask = None if op.mask is None else self.fragment(op, op.mask).array
    reads, writes = (self.is_in_memory(value) for value in (source, target))
    if isinstance(atom, OperandCopyType | SimtAsyncCopyType):
        _copy_operand(self, op)
    elif reads and writes:
        for piece in _tiled_pieces(self, op):
            _copy_piece(self, op, piece, limit)
    elif not reads and not writes:
        _move(self, op, self.fragment(op, source), self.fragment(op, target))
    else:
        fragment = self.fragment(op, target if reads else source)
        tile, array, tv = self.tile(op, source if reads else target), fragment.array, fragment.tv
        if isinstance(atom, LdsmType if reads else StsmType) and isinstance(tile, View):
            move_matrices(context, tile, array, fragment.type, atom)
        elif not reads:
            store_tile(context, tile, array, tv, limit, mask)
        elif not (isinstance(tile, View) and load_exchanged(context, tile, array, tv)):
            load_tile(context, tile, array, tv, limit)


Piece = tuple[Tile, View, Layout]


def _copy_operand(self: KernelLowering, op: cute.CopyOp) -> None:
    """Every part of an operand on its way to a multiply."""
    bring = operand_copy if isinstance(op.atom, OperandCopyType) else start_around
    origin = None if op.origin is None else self.view(op, op.origin)
    for source, target in pieces(self, op, op.source, op.destination):
        assert isinstance(source, View)
        tv = None if op.tiled is None else copied(op.tiled.data, source.shape)
        bring(Operand(self.context, op, source, target, tv, origin))


def _copy_piece(self: KernelLowering, op: cute.CopyOp, piece: Piece, limit: int) -> None:
    (source, target, tv), context, atom = piece, self.context, op.atom
    if isinstance(atom, AlignedStoreType):
        assert isinstance(source, View)
        store_aligned(context, source, target, tv, atom.groups)
        return
    is_tf32 = isinstance(getattr(atom, "element", None), FloatTF32Type)
    # Of numbered rows vectors are as wide as their columns allow.
    limit = limit if isinstance(source, View) else 16
    copy_tile(context, source, target, tv, limit, is_tf32)


def _tiled_pieces(self: KernelLowering, op: cute.CopyOp) -> Iterator[Piece]:
    """(tile, place, thread-value layout) of each part of a copy between memories."""
    if op.tiled is None:
        raise ValueError("expected the attribute tiled (a tiled copy) between memories")
    for source, target_ in pieces(self, op, op.source, op.destination):
        yield source, target_, copied(op.tiled.data, source.shape)


def _move(self: KernelLowering, op: cute.CopyOp, source: Fragment, target_: Fragment) -> None:
    if source.tv != target_.tv:
        source = convert(self.context, source, target_.type)
    array = source.array
    if array_class(array) != array_class(target_.array):
        array = as_bits(self.context, source)
    every = range(array.type.count)  # type: ignore[union-attr]
    self.context.move(array, every, target_.array, every)


def _load(self: KernelLowering, op: cute.LoadOp) -> None:
    fragment = self.new_fragment(op.result)
    load_tile(self.context, self.tile(op, op.source), fragment.array, fragment.tv)


def _convert(self: KernelLowering, op: cute.ConvertOp) -> None:
    type_ = op.result.type
    source = self.fragment(op, op.source)
    self.fragments[op.result] = convert(self.context, source, type_)


def _extract(self: KernelLowering, op: cute.ExtractOp) -> None:
    type_ = op.result.type
    source = self.fragment(op, op.source)
    self.fragments[op.result] = convert(self.context, source, type_, integers(op.origin))


def _unpack(self: KernelLowering, op: cute.UnpackOp) -> None:
    source, type_ = self.fragment(op, op.source), cute.fragment_of(op.result)
    self.fragments[op.result] = unpack(self.context, source, type_, packing_of(op))


HANDLERS: dict[type[Operation], Handler] = {
    cute.CopyOp: _copy,
    cute.LoadOp: _load,
    cute.ConvertOp: _convert,
    cute.ExtractOp: _extract,
    cute.UnpackOp: _unpack,
}
