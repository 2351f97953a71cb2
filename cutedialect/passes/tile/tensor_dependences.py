"""Which loads of a kernel may read what the kernel itself stored: an earlier op of the same work
item, or an earlier trip of a loop around both. Such a load stays where it stands, in the role that
stores: no copy of the tile may run ahead of the store.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue

from cutedialect.dialects.cute import KernelOp
from cutedialect.dialects.effects import effects_of, space_of
from cutedialect.dialects.walks import walk
from cutedialect.passes.synchronize.memory_views import are_apart, root_of
from cutedialect.passes.tile.work_loops import is_work_loop


@dataclass(frozen=True)
class _Use:
    """An op that reads or writes a tile of a tensor, and its place in program order."""

    op: Operation
    tile: SSAValue
    place: int


@dataclass(frozen=True)
class TensorDependences:
    """The ops that read tiles which the kernel may have stored before, and their tensors."""

    readers: frozenset[Operation]
    tensors: frozenset[SSAValue]

    def reads_stored(self, op: Operation, tile: SSAValue) -> bool:
        """Whether an op reads a tile that may have been stored before it."""
        return op in self.readers and root_of(tile) in self.tensors


def tensor_dependences(kernel: KernelOp) -> TensorDependences:
    """The dependences of a kernel's loads on its own stores."""
    reads: list[_Use] = []
    writes: dict[SSAValue, list[_Use]] = {}
    for place, op in enumerate(walk(kernel.body.block)):
        effects = effects_of(op)
        for tile in effects.writes:
            if space_of(tile) == "gmem":
                writes.setdefault(root_of(tile), []).append(_Use(op, tile, place))
        reads += [_Use(op, tile, place) for tile in effects.reads if space_of(tile) == "gmem"]
    readers: set[Operation] = set()
    tensors: set[SSAValue] = set()
    for read in reads:
        root = root_of(read.tile)
        if any(_follows(read, write) for write in writes.get(root, ()) if write.op is not read.op):
            readers.add(read.op)
            tensors.add(root)
    return TensorDependences(frozenset(readers), frozenset(tensors))


def _follows(read: _Use, write: _Use) -> bool:
    """Whether a read may see what a write has left."""
    if write.place < read.place and not are_apart(write.tile, read.tile, None):
        return True
    loops = [loop for loop in _loops(read.op) if loop.is_ancestor(write.op)]
    return any(not are_apart(write.tile, read.tile, loop) for loop in loops)


def _loops(op: Operation) -> Iterator[Operation]:
    """The loops around an op, but for those over work items."""
    around = op.parent_op()
    while around is not None:
        if isinstance(around, scf.ForOp | scf.WhileOp) and not is_work_loop(around):
            yield around
        around = around.parent_op()
