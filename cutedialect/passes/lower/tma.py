"""TMA and bulk copies as steps of a kernel: which thread issues them, closes groups, waits."""

from __future__ import annotations

from xdsl.ir import Operation

from cutedialect.dialects import cute, cute_nvgpu, pipeline, ptx
from cutedialect.dialects.cute_nvgpu import (
    BulkLoadType,
    BulkStoreType,
    TmaDescriptorType,
    TmaLoadType,
    TmaStoreType,
)

from .bulk_copies import bulk_load, bulk_store
from .context import fail
from .joined_tiles import pieces
from .lowering import Handler, KernelLowering
from .scalar_builder import Scalar
from .tensor_copies import load_boxes, prefetch_boxes, store_boxes


def tensor_copy(self: KernelLowering, op: cute.CopyOp, predicate: Scalar) -> None:
    """Issue a TMA or bulk copy, where `predicate` (the same for all threads) holds."""
    if isinstance(op.atom, TmaStoreType | BulkStoreType):
        _storing(self, op)
        return
    self.context.when(predicate, lambda: self.context.by_one_thread(lambda: _load_tile(self, op)))


def _load_tile(self: KernelLowering, op: cute.CopyOp) -> None:
    if op.barrier is None or op.barrier not in self.barriers:
        raise fail(op, "expected the barrier that the load signals, got none")
    barrier = self.barriers[op.barrier]
    if isinstance(op.atom, BulkLoadType):
        source, target = self.view(op, op.source), self.view(op, op.destination)
        bulk_load(self.context, op, source, target, op.atom, barrier)
        return
    assert isinstance(op.atom, TmaLoadType)
    map_, described = _map_of(self, op)
    full = op.barrier.owner
    is_paired = isinstance(full, pipeline.BarrierOp) and self.rings[full.ring].op.is_paired
    for source, target in pieces(self, op, op.source, op.destination):
        load_boxes(self.context, op, source, target, map_, described, op.atom, barrier, is_paired)


def _map_of(self: KernelLowering, op: cute.CopyOp):
    assert op.descriptor is not None
    described = op.descriptor.type
    assert isinstance(described, TmaDescriptorType)
    return self.maps[op.descriptor], described


def _prefetch(self: KernelLowering, op: cute_nvgpu.TmaPrefetchOp) -> None:
    described = op.descriptor.type
    assert isinstance(described, TmaDescriptorType)
    tile, map_ = self.view(op, op.tile), self.maps[op.descriptor]
    self.context.by_one_thread(lambda: prefetch_boxes(self.context, op, tile, map_, described))


def _is_storing(op: Operation | None) -> bool:
    """Whether an op is one that the storing thread alone executes."""
    if isinstance(op, cute.CopyOp):
        return isinstance(op.atom, TmaStoreType | BulkStoreType)
    return isinstance(op, cute_nvgpu.TmaStoreCommitOp | cute_nvgpu.TmaStoreWaitOp)


def _storing(self: KernelLowering, op: Operation) -> None:
    """Stores, commits and waits in a row: one branch to the thread whose groups they are."""
    steps: list[Operation] = []
    following: Operation | None = op
    warps = _storing_warps(op)
    while following is not None and _is_storing(following) and _storing_warps(following) == warps:
        steps.append(following)
        following = following.next_op
    self.done.update(steps)

    def issue() -> None:
        for step in steps:
            self.builder.at(step)
            _store_step(self, step)

    self.context.by_one_thread(issue, warps)


def _storing_warps(op: Operation) -> int | None:
    """How many warps have a storing thread of their own; None: the whole role."""
    if isinstance(op, cute.CopyOp):
        return op.atom.warps if isinstance(op.atom, TmaStoreType) else None
    assert isinstance(op, cute_nvgpu.TmaStoreCommitOp | cute_nvgpu.TmaStoreWaitOp)
    return None if op.warps is None else op.warps.value.data


def _store_step(self: KernelLowering, op: Operation) -> None:
    builder = self.builder
    if isinstance(op, cute_nvgpu.TmaStoreCommitOp):
        builder.emit(ptx.BulkCommitOp())
        return
    if isinstance(op, cute_nvgpu.TmaStoreWaitOp):
        builder.emit(ptx.BulkWaitOp(op.pending.value.data, op.read is not None))
        return
    assert isinstance(op, cute.CopyOp)
    atom = op.atom
    source, target = self.view(op, op.source), self.view(op, op.destination)
    predicate: Scalar = True if op.pred is None else self.scalars[op.pred]
    # A store at a negative coordinate is an illegal instruction on an H100.
    predicate = builder.both(predicate, target.guard)
    if isinstance(atom, BulkStoreType):
        self.context.when(predicate, lambda: bulk_store(self.context, op, source, target, atom))
        return
    assert isinstance(atom, TmaStoreType)
    map_, described = _map_of(self, op)
    self.context.when(
        predicate,
        lambda: store_boxes(self.context, op, source, target, map_, described, atom),
    )


HANDLERS: dict[type[Operation], Handler] = {
    cute_nvgpu.TmaPrefetchOp: _prefetch,
    cute_nvgpu.TmaStoreCommitOp: _storing,
    cute_nvgpu.TmaStoreWaitOp: _storing,
}
