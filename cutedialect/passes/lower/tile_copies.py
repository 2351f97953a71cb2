"""`cute.copy` and its kin: which lowering a copy takes follows from its atom and from what its two
sides have become.
"""

from __future__ import annotations

from collections.abc import Iterator

from xdsl.dialects.builtin import FloatTF32Type
from xdsl.ir import Operation

from cutedialect.dialects import cute, ptx
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
from .indexed_tiles import copy_rows, copy_rows_async, move_rows
from .lowering import Handler, KernelLowering, integers
from .matrix_copies import move_matrices
from .memory_copies import copy_async, copy_tile, widen_copy
from .scalar_builder import Scalar
from .shifted_copies import copy_around, copy_shifted, shift_within
from .tile_views import pieces
from .tma import tensor_copy
from .transposing_copies import transpose_copy
from .unpacking import unpack
from .views import View

# Atoms of copies that threads share by a thread-value layout, from memory to memory.
_BETWEEN_MEMORIES = SimtAsyncCopyType | OperandCopyType | AlignedStoreType


def _copy(self: KernelLowering, op: cute.CopyOp) -> None:
    predicate: Scalar = True if op.pred is None else self.scalars[op.pred]
    atom = op.atom
    if op.source in self.indexed and op.destination in self.views:
        _copy_rows(self, op, predicate)
    elif isinstance(atom, SimtAsyncCopyType) and not atom.around:
        for piece in _tiled_pieces(self, op):
            copy_async(self.context, *piece, atom, predicate)
    elif isinstance(atom, TmemLoadType):
        tensor_memory.load(self, op)
    elif isinstance(atom, TmemStoreType):
        tensor_memory.store(self, op)
    elif isinstance(atom, TmaLoadType | TmaStoreType | BulkCopyType):
        tensor_copy(self, op, predicate)
    else:
        self.context.when(predicate, lambda: _plain_copy(self, op))


def _copy_rows(self: KernelLowering, op: cute.CopyOp, predicate: Scalar) -> None:
    """Numbered rows to shared memory."""
    if op.tiled is None:
        raise ValueError("expected the attribute tiled (a tiled copy) between memories")
    tile, target = self.indexed[op.source], self.view(op, op.destination)
    tv = copied(op.tiled.data, target.shape)
    if isinstance(op.atom, SimtAsyncCopyType):
        copy_rows_async(self.context, tile, target, tv, op.atom, predicate)
    else:
        context = self.context
        context.when(predicate, lambda: copy_rows(context, tile, target, tv))


def _plain_copy(self: KernelLowering, op: cute.CopyOp) -> None:
    context, atom, source, target = self.context, op.atom, op.source, op.destination
    limit = atom.bits // 8 if isinstance(atom, UniversalCopyType) else 16
    mask = None if op.mask is None else self.fragment(op, op.mask).array
    reads, writes = source in self.views, target in self.views
    if isinstance(atom, OperandCopyType) and atom.form == "transpose":
        transpose_copy(context, op, self.view(op, source), self.view(op, target))
    elif isinstance(atom, _BETWEEN_MEMORIES) or ((reads or source in self.joined) and writes):
        for piece in _tiled_pieces(self, op):
            _copy_piece(self, op, piece, limit)
    elif target in self.indexed:
        fragment = self.fragment(op, source)
        move_rows(context, self.indexed[target], fragment, ptx.StOp, limit, mask)
    elif not reads and not writes:
        _move(self, op, self.fragment(op, source), self.fragment(op, target))
    else:
        fragment = self.fragment(op, target if reads else source)
        view, array, tv = self.views[source if reads else target], fragment.array, fragment.tv
        if isinstance(atom, LdsmType if reads else StsmType):
            move_matrices(context, view, array, fragment.type, atom)
        elif not reads:
            store_tile(context, view, array, tv, limit, mask)
        elif not load_exchanged(context, view, array, tv):
            load_tile(context, view, array, tv, limit)


Piece = tuple[View, View, Layout]


def _copy_piece(self: KernelLowering, op: cute.CopyOp, piece: Piece, limit: int) -> None:
    context, atom = self.context, op.atom
    is_tf32 = isinstance(getattr(atom, "element", None), FloatTF32Type)
    match atom:
        case SimtAsyncCopyType():
            copy_around(context, *piece)
        case AlignedStoreType():
            store_aligned(context, *piece, atom.groups)
        case OperandCopyType(form="convert"):
            widen_copy(context, *piece)
        case OperandCopyType() if op.origin is not None:
            shift_within(context, self.view(op, op.origin), *piece, is_tf32)
        case OperandCopyType():
            copy_shifted(context, *piece, is_tf32)
        case _:
            copy_tile(context, *piece, limit, is_tf32)


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
    if op.source in self.indexed:
        move_rows(self.context, self.indexed[op.source], fragment, ptx.LdOp)
        return
    load_tile(self.context, self.view(op, op.source), fragment.array, fragment.tv)


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
