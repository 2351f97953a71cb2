"""`cute.copy` and its kin: which lowering a copy takes follows from its atom and from what its two
sides have become.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from xdsl.dialects.builtin import FloatTF32Type
from xdsl.ir import Operation

from cutedialect.dialects import cute
from cutedialect.dialects.cute_nvgpu import (
    AlignedStoreType,
    BulkCopyType,
    LdsmType,
    ShiftedCopyType,
    SimtAsyncCopyType,
    StsmType,
    TmaLoadType,
    TmaStoreType,
    TmemLoadType,
    TmemStoreType,
    TransposeCopyType,
    UniversalCopyType,
    WidenCopyType,
)
from cutedialect.layout import Layout, LayoutError
from cutedialect.passes.bind.thread_layouts import copied

from . import tensor_memory
from .aligned_stores import store_aligned
from .async_copies import copy_async
from .context import array_class, fail
from .copies import load_tile, store_tile
from .elementwise import Fragment, as_bits, convert, extract
from .exchanged_loads import load_exchanged
from .indexed_tiles import load_rows, store_rows
from .lowering import Handler, KernelLowering, integers
from .matrix_copies import move_matrices
from .register_copies import copy_tile
from .scalar_builder import Scalar
from .shifted_copies import copy_around, copy_shifted, shift_within
from .tile_views import pieces
from .tma import tensor_copy
from .transposing_copies import transpose_copy
from .views import View
from .widening_copies import widen_copy


def _copy(self: KernelLowering, op: cute.CopyOp) -> None:
    predicate: Scalar = True if op.pred is None else self.scalars[op.pred]
    atom = op.atom
    if isinstance(atom, SimtAsyncCopyType):
        for source, target, tv in _tiled_pieces(self, op, "with cp.async"):
            if atom.around:
                start = partial(copy_around, self.context, source, target, tv)
                self.context.when(predicate, start)
            else:
                copy_async(self.context, op, source, target, tv, atom, predicate)
        return
    if isinstance(atom, TmemLoadType):
        tensor_memory.load(self, op)
        return
    if isinstance(atom, TmemStoreType):
        tensor_memory.store(self, op)
        return
    if isinstance(atom, TmaLoadType | TmaStoreType | BulkCopyType):
        tensor_copy(self, op, predicate)
        return
    self.context.when(predicate, lambda: _plain_copy(self, op))


def _plain_copy(self: KernelLowering, op: cute.CopyOp) -> None:
    atom = op.atom
    limit = atom.bits // 8 if isinstance(atom, UniversalCopyType) else 16
    source, target_ = op.source, op.destination
    if isinstance(atom, TransposeCopyType):
        transpose_copy(self.context, op, self.view(op, source), self.view(op, target_))
    elif isinstance(atom, ShiftedCopyType):
        is_tf32 = isinstance(atom.element, FloatTF32Type)
        for piece in _tiled_pieces(self, op, "with a shifted copy"):
            if op.origin is None:
                copy_shifted(self.context, *piece, is_tf32)
            else:
                shift_within(self.context, self.view(op, op.origin), *piece, is_tf32)
    elif isinstance(atom, AlignedStoreType):
        for piece in _tiled_pieces(self, op, "with aligned stores"):
            store_aligned(self.context, *piece, atom.groups)
    elif isinstance(atom, WidenCopyType):
        for piece in _tiled_pieces(self, op, "with a widening copy"):
            widen_copy(self.context, *piece)
    elif (source in self.views or source in self.joined) and target_ in self.views:
        is_tf32 = isinstance(atom, UniversalCopyType) and isinstance(atom.element, FloatTF32Type)
        for piece in _tiled_pieces(self, op, "between memories"):
            copy_tile(self.context, *piece, limit, is_tf32)
    elif target_ in self.indexed:
        mask = None if op.mask is None else self.fragment(op, op.mask).array
        store_rows(self.context, self.indexed[target_], self.fragment(op, source), limit, mask)
    elif source in self.views:
        fragment = self.fragment(op, target_)
        view = self.views[source]
        if isinstance(atom, LdsmType):
            move_matrices(self.context, op, view, fragment.array, fragment.type, atom)
        elif not load_exchanged(self.context, view, fragment.array, fragment.tv):
            load_tile(self.context, view, fragment.array, fragment.tv, limit)
    elif target_ in self.views:
        fragment = self.fragment(op, source)
        view = self.views[target_]
        if isinstance(atom, StsmType):
            move_matrices(self.context, op, view, fragment.array, fragment.type, atom)
        else:
            mask = None if op.mask is None else self.fragment(op, op.mask).array
            store_tile(self.context, view, fragment.array, fragment.tv, limit, mask)
    else:
        _move(self, op, self.fragment(op, source), self.fragment(op, target_))


def _tiled_pieces(
    self: KernelLowering, op: cute.CopyOp, where: str
) -> Iterator[tuple[View, View, Layout]]:
    """(tile, place, thread-value layout) of each part of a copy between memories."""
    if op.tiled is None:
        raise fail(op, f"expected the attribute tiled (a tiled copy) {where}")
    for source, target_ in pieces(self, op, op.source, op.destination):
        try:
            tv = copied(op.tiled.data, source.shape)
        except LayoutError as error:
            raise fail(op, str(error)) from error
        yield source, target_, tv


def _move(self: KernelLowering, op: cute.CopyOp, source: Fragment, target_: Fragment) -> None:
    if source.tv != target_.tv:
        source = convert(self.context, op, source, target_.type)
    array = source.array
    if array_class(array) != array_class(target_.array):
        array = as_bits(self.context, source)
    every = range(array.type.count)  # type: ignore[union-attr]
    self.context.move(array, every, target_.array, every)


def _load(self: KernelLowering, op: cute.LoadOp) -> None:
    fragment = self.new_fragment(op, op.result)
    if op.source in self.indexed:
        load_rows(self.context, self.indexed[op.source], fragment)
        return
    load_tile(self.context, self.view(op, op.source), fragment.array, fragment.tv)


def _convert(self: KernelLowering, op: cute.ConvertOp) -> None:
    type_ = op.result.type
    source = self.fragment(op, op.source)
    self.fragments[op.result] = convert(self.context, op, source, type_)


def _extract(self: KernelLowering, op: cute.ExtractOp) -> None:
    type_ = op.result.type
    source = self.fragment(op, op.source)
    self.fragments[op.result] = extract(self.context, op, source, type_, integers(op.origin))


HANDLERS: dict[type[Operation], Handler] = {
    cute.CopyOp: _copy,
    cute.LoadOp: _load,
    cute.ConvertOp: _convert,
    cute.ExtractOp: _extract,
}
