"""Copies of boxes by tensor map: cp.async.bulk.tensor, cp.reduce.async.bulk.tensor, prefetches of
them (PTX ISA 9.7.9.27), in tile mode, and loads in im2col mode and of four rows. What an H100
refuses although it assembles is an error here.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..lanes import Array, Lanes, anywhere
from ..module import Address, Bracket, Instruction, Modifiers, Operand, Vector
from ..shared import CHUNK
from ..tensor_map import ALIGN, SIZE, TensorMap, combine, decode, reducible
from ..transfers import Load
from ..types import TYPES
from .load_store import resolve
from .registry import instruction
from .shared_place import destinations, shared_place

if TYPE_CHECKING:
    from ..machine import Machine, Step

_RANKS = ("1d", "2d", "3d", "4d", "5d")
_OTHER_MODES = (
    "im2col::w", "im2col::w::128", "im2col_no_offs", "tile::scatter4",
)  # fmt: skip
# How a load finds its elements: boxes of the tensor, pixels in a row, or four rows anywhere.
_TILE, _IM2COL, _GATHER4 = "tile", "im2col", "tile::gather4"
_GATHERED = 4
# Bits of an offset of im2col mode by dimensions (PTX ISA 5.5.4).
_OFFSET_BITS = {3: 16, 4: 8, 5: 5}
_OPERATIONS = ("add", "min", "max", "inc", "dec", "and", "or", "xor")


class _Boxes:
    """The ``[map, {coordinates}]`` operand: maps and coordinates by lane."""

    def __init__(
        self, ins: Instruction, machine: Machine, operand: Operand, rank: int, mode: str = _TILE
    ) -> None:
        self.ins, self.machine, self.rank, self.mode = ins, machine, rank, mode
        if not isinstance(operand, Bracket) or len(operand.items) != 2:
            raise ins.malformed(f"expected [map, {{coordinates}}], got {operand}")
        address, coordinates = operand.items
        items = coordinates.items if isinstance(coordinates, Vector) else (coordinates,)
        count = 1 + _GATHERED if mode == _GATHER4 else rank
        if not isinstance(address, Address) or len(items) != count:
            raise ins.malformed(f"expected a map and {count} coordinates, got {operand}")
        if address.offset:
            raise ins.malformed(f"expected the address of a map without an offset, got {operand}")
        self._address, address_sources = resolve(ins, machine, address, "generic")
        self._coordinates = [machine.read(ins, item, TYPES["s32"]) for item in items]
        self._address_sources = address_sources
        self._sources = machine.sources(*items)
        self._known: dict[int, TensorMap] = {}
        self._views: dict[TensorMap, Array] = {}

    def at(self, lanes: Lanes) -> list[tuple[TensorMap, tuple[int, ...]]]:
        """``(map, coordinates)`` of each lane; CD-E6 for an innermost coordinate that does not name
        a multiple of 16 bytes."""
        machine = self.machine
        machine.demand(self._address_sources, lanes, "the address of a tensor map")
        machine.demand(self._sources, lanes, "a tensor coordinate")
        addresses = np.broadcast_to(self._address(lanes), (lanes.count,)).tolist()
        columns = [np.broadcast_to(c(lanes), (lanes.count,)).tolist() for c in self._coordinates]
        found: list[tuple[TensorMap, tuple[int, ...]]] = []
        for address, *start in zip(addresses, *columns, strict=True):
            tensor = self._known.get(address) or self._map(address)
            if tensor.held is not tensor and start[0] % tensor.box[0]:
                raise self.ins.error(
                    "CD-E6",
                    f"the innermost coordinate {start[0]} of packed elements: expected a multiple "
                    f"of {tensor.box[0]}",
                )
            if start[0] * tensor.element_bytes % 16:
                raise self.ins.error(
                    "CD-E6",
                    f"the innermost coordinate {start[0]} names byte "
                    f"{start[0] * tensor.element_bytes} of a row: expected a multiple of 16 bytes "
                    f"({16 // tensor.element_bytes} elements), else it is an illegal instruction",
                )
            found.append((tensor, tuple(start)))
        return found

    def _map(self, address: int) -> TensorMap:
        if address % ALIGN:
            raise self.ins.error(
                "CD-E2", f"a tensor map at {address:#x}: expected a multiple of {ALIGN} bytes"
            )
        memory = self.machine.linear_of(address)
        spots = np.arange(address, address + SIZE, dtype=np.uint64)
        before = memory.read_bytes
        tensor = decode(memory.load(spots, 1).tobytes())
        memory.read_bytes = before
        if tensor is None:
            raise self.ins.error(
                "CD-E2", f"no tensor map at {memory.describe(address)}: expected the generic "
                "address (cvta.param) of a tensor map that the launch passed"
            )  # fmt: skip
        if tensor.rank != self.rank:
            raise self.ins.error(
                "CD-E1", f"a copy of {self.rank} dimensions with a tensor map of {tensor.rank}"
            )
        if bool(tensor.lower) != (self.mode == _IM2COL):
            made = _IM2COL if tensor.lower else _TILE
            raise self.ins.error(
                "CD-E1", f"a copy in {self.mode} mode with a tensor map of {made} mode"
            )
        if self.mode == _GATHER4 and tensor.box[1] != 1:
            raise self.ins.error(
                "CD-E1", f"a copy of four rows with a tensor map of boxes of {tensor.box[1]} rows: "
                "expected boxes of one row",
            )  # fmt: skip
        if memory is self.machine.image.param_memory:
            self._known[address] = tensor
        return tensor

    def elements(self, tensor: TensorMap, writes: bool) -> Array | _Around:
        """The whole tensor in global memory."""
        if tensor.goes_around:
            return _Around(self.ins, self.machine, tensor, writes)
        known = self._views.get(tensor)
        if known is not None:
            return known
        memory = self.machine.global_memory
        allocation = memory.find(tensor.address, 1)
        if allocation is None or tensor.address + tensor.reach > allocation.end:
            raise self.ins.error(
                "CD-I1",
                f"the tensor at {memory.describe(tensor.address)} of {tensor.reach} bytes does not "
                "lie in one array",
            )
        if writes and not allocation.writable:
            raise self.ins.error("CD-I1", f"write to {allocation.name}, which is read-only")
        view = tensor.elements(allocation.data, tensor.address - allocation.base)
        self._views[tensor] = view
        return view


class _Around:
    """A tensor whose coordinates reach all addresses: where a part of it lies is looked up as an
    index asks for it."""

    def __init__(self, ins: Instruction, machine: Machine, tensor: TensorMap, writes: bool) -> None:
        self._ins, self._machine, self._tensor, self._writes = ins, machine, tensor, writes
        self.dtype = np.dtype(f"u{tensor.element_bytes}")

    def __getitem__(self, parts: tuple[slice, ...]) -> Array:
        address, size, shape, steps = self._tensor.place(parts)
        memory = self._machine.global_memory
        allocation = memory.find(address, size)
        if allocation is None:
            raise self._ins.error(
                "CD-I1", f"a box at {memory.describe(address)} of {size} bytes does not lie in one "
                "array",
            )  # fmt: skip
        if self._writes and not allocation.writable:
            raise self._ins.error("CD-I1", f"write to {allocation.name}, which is read-only")
        first = address - allocation.base
        word = allocation.data[first : first + self.dtype.itemsize].view(self.dtype)
        writable = bool(allocation.data.flags.writeable)
        return np.lib.stride_tricks.as_strided(word, shape, steps, writeable=writable)

    def __setitem__(self, parts: tuple[slice, ...], values: Array) -> None:
        self[parts][...] = values


def _chunks(ins: Instruction, machine: Machine, tensor: TensorMap, at: int) -> Array:
    """Chunk numbers of a box at a byte offset into the shared data, checked."""
    shared = machine.shared
    offset = at % shared.pitch
    if (offset + shared.start) % 128:
        raise ins.error(
            "CD-E3",
            f"a box in shared memory at {machine.describe_shared(at)}: expected a multiple of 128 "
            f"bytes, got address {offset + shared.start:#x}",
        )
    last = offset + (tensor.rows - 1) * tensor.pitch + tensor.row_bytes
    if last > shared.size:
        raise ins.error(
            "CD-I1",
            f"out-of-bounds box of shared memory at {machine.describe_shared(at)}: it ends at byte "
            f"{last} of {shared.size}",
        )
    return tensor.chunks(offset + shared.start) + at // CHUNK


def _take_rank(ins: Instruction, mods: Modifiers, is_load: bool = False) -> tuple[int, str]:
    """Dimensions of a copy, and its mode, of which a load has most."""
    rank = mods.take(*_RANKS)
    if rank is None:
        raise ins.unsupported("expected .1d to .5d")
    mode = mods.take(*_OTHER_MODES)
    if mode is not None:
        raise ins.unsupported(f".{mode}")
    mode = mods.take(_IM2COL, _GATHER4, _TILE) or _TILE
    if mode != _TILE and not is_load:
        raise ins.unsupported(f".{mode}")
    if mode == _IM2COL and int(rank[0]) < 3:
        raise ins.malformed(f"expected .3d to .5d with .im2col, got .{rank}")
    if mode == _GATHER4 and rank != "2d":
        raise ins.malformed(f"expected .2d with .{_GATHER4}, got .{rank}")
    return int(rank[0]), mode


class _Offsets:
    """The offsets operand of im2col mode, 16 bits each; none in tile mode."""

    def __init__(self, ins: Instruction, machine: Machine, operand: Operand, rank: int) -> None:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) != rank - 2:
            raise ins.malformed(f"expected {rank - 2} offsets, got {operand}")
        self.ins, self.machine, self.rank = ins, machine, rank
        self._read = [machine.read(ins, item, TYPES["u16"]) for item in items]
        self._sources = machine.sources(*items)

    def at(self, lanes: Lanes) -> list[tuple[int, ...]]:
        """Those of each lane; CD-E6 for one that is too large."""
        self.machine.demand(self._sources, lanes, "an offset of pixels")
        columns = [np.broadcast_to(read(lanes), (lanes.count,)).tolist() for read in self._read]
        most = (1 << _OFFSET_BITS[self.rank]) - 1
        for column in columns:
            if max(column) > most:
                raise self.ins.error("CD-E6", f"expected offsets up to {most}, got {max(column)}")
        return list(zip(*columns, strict=True))


@instruction("cp.async.bulk.tensor")
def _copy(ins: Instruction, machine: Machine) -> Step:
    if ".global.shared::cta" in ins.opcode:
        return _store(ins, machine, "cp.async.bulk.tensor", None)
    mods = ins.modifiers("cp.async.bulk.tensor")
    rank, mode = _take_rank(ins, mods, is_load=True)
    walks = mode == _IM2COL
    space = mods.take("shared::cluster", "shared::cta")
    source = mods.has("global")
    counted = mods.has("mbarrier::complete_tx::bytes")
    multicast = mods.has("multicast::cluster")
    group = mods.take("cta_group::1", "cta_group::2")
    hint = mods.has("L2::cache_hint")
    mods.done()
    if space is None or not source or not counted:
        raise ins.unsupported("expected .shared::cluster.global.mbarrier::complete_tx::bytes")
    if multicast and space != "shared::cluster":
        raise ins.unsupported(".multicast::cluster needs .shared::cluster")
    ins.expect(3 + walks + multicast + hint)
    boxes = _Boxes(ins, machine, ins.operands[1], rank, mode)
    offsets_of = _Offsets(ins, machine, ins.operands[3], rank) if walks else None
    where = "cluster" if space == "shared::cluster" else "shared"
    locate, sources = shared_place(ins, machine, ins.operands[0], where, 16, "box load", True)
    targets = destinations(
        ins, machine, ins.operands[2], ins.operands[3 + walks] if multicast else None, where,
        2 if group == "cta_group::2" else 1,
    )  # fmt: skip

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "a shared address")
        starts = boxes.at(lanes)
        moves = None if offsets_of is None else offsets_of.at(lanes)
        offsets = locate(lanes)
        for i, at, slot in targets(lanes, offsets):
            tensor, start = starts[i]
            view = boxes.elements(tensor, writes=False)
            moved = None if moves is None else moves[i]
            copied = tensor.of_four_rows if mode == _GATHER4 else tensor
            machine.transfers.load(
                Load(ins, int(lanes.index[i]), at // machine.shared.pitch, slot,
                     copied.copy_bytes, _chunks(ins, machine, copied, at),
                     _fetch(ins, machine, tensor, view, start, moved))
            )  # fmt: skip

    return step


def _fetch(
    ins: Instruction, machine: Machine, tensor: TensorMap, view: Array | _Around,
    start: tuple[int, ...], moved: tuple[int, ...] | None,
) -> Callable[[], Array]:  # fmt: skip
    def fetch() -> Array:
        if len(start) > tensor.rank:
            column, *rows = start
            machine.global_memory.read_bytes += len(rows) * tensor.copy_bytes
            return np.concatenate([tensor.fetch(view, (column, row)) for row in rows])
        machine.global_memory.read_bytes += tensor.copy_bytes
        if moved is None:
            return tensor.fetch(view, start)
        found = tensor.pixels(view, start, moved)  # pyright: ignore[reportArgumentType]
        if isinstance(found, str):
            # Seen on an H100, which stops with an illegal instruction.
            raise ins.error(
                "CD-E6", f"the coordinates {start} of a load in im2col mode: expected {found}"
            )
        return found

    return fetch


@instruction("cp.reduce.async.bulk.tensor")
def _reduce(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("cp.reduce.async.bulk.tensor")
    operation = mods.take(*_OPERATIONS)
    if operation is None:
        raise ins.unsupported(f"expected an operation: {', '.join(_OPERATIONS)}")
    return _store(ins, machine, "cp.reduce.async.bulk.tensor", operation)


def _store(ins: Instruction, machine: Machine, head: str, operation: str | None) -> Step:
    mods = ins.modifiers(head)
    rank, _ = _take_rank(ins, mods)
    fine = mods.has("global") and mods.has("shared::cta") and mods.has("bulk_group")
    hint = mods.has("L2::cache_hint")
    if operation is not None:
        mods.has(operation)
    mods.done()
    if not fine:
        raise ins.unsupported("expected .global.shared::cta and .bulk_group")
    ins.expect(2 + hint)
    boxes = _Boxes(ins, machine, ins.operands[0], rank)
    locate, sources = shared_place(ins, machine, ins.operands[1], "shared", 16, "box store")

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "a shared address")
        starts = boxes.at(lanes)
        for i, at in enumerate(locate(lanes).tolist()):
            tensor, start = starts[i]
            if tensor.held is not tensor:
                raise ins.error("CD-E6", f"a store of packed elements ({tensor.dtype})")
            if min(start) < 0:
                raise ins.error(
                    "CD-E6",
                    f"the coordinates {start} of a store: expected none below 0, which is an "
                    "illegal instruction",
                )
            if operation is not None and not reducible(operation, tensor.dtype):
                raise ins.error(
                    "CD-E6",
                    f".{operation} of {tensor.dtype} elements, which is an illegal instruction",
                )
            view = boxes.elements(tensor, writes=True)
            chunks = _chunks(ins, machine, tensor, at)
            lane = int(lanes.index[i])
            data, poison = machine.transfers.read_shared(ins, lane, chunks)
            inside = tensor.window(start)
            shape = tensor.counts[::-1]
            box = data.reshape(*shape[:-1], -1).view(view.dtype)
            if poison is not None and inside is not None:
                bad = poison.reshape(*shape, tensor.element_bytes)[inside[1]]
                if anywhere(bad):
                    raise ins.error(
                        "CD-I3",
                        f"a box store from {machine.describe_shared(at)} of shared memory that was "
                        f"never written ({int(bad.any(axis=-1).sum())} elements of the box)",
                    )
            machine.transfers.store(
                ins, lane, chunks, _write(machine, boxes, tensor, view, start, box, operation)
            )

    return step


def _write(
    machine: Machine, boxes: _Boxes, tensor: TensorMap, view: Array | _Around,
    start: tuple[int, ...], box: Array, operation: str | None,
) -> Callable[[], None]:  # fmt: skip
    def write() -> None:
        inside = tensor.window(start)
        if inside is None:
            return
        part = box[inside[1]]
        machine.global_memory.written_bytes += part.size * tensor.element_bytes
        if operation is None:
            view[inside[0]] = part
        else:
            number: Any = tensor.number
            old = np.ascontiguousarray(view[inside[0]]).view(number)
            new = combine(operation, number)(old, np.ascontiguousarray(part).view(number))
            view[inside[0]] = new.astype(number).view(view.dtype)
        _write_tail(machine, tensor, start, box, inside, operation)

    return write


def _write_tail(
    machine: Machine, tensor: TensorMap, start: tuple[int, ...], box: Array, inside: Any,
    operation: str | None,
) -> None:  # fmt: skip
    """Stores and reductions clip dimension 0 at 16 bytes only: what lies behind the last element up
    to there takes part too, where memory goes on."""
    size = tensor.element_bytes
    end = tensor.dims[0] * size
    extra = min(-end % 16, (start[0] + tensor.counts[0]) * size - end)
    if extra <= 0:
        return
    first = (tensor.dims[0] - start[0]) * size
    rows: Array = box[inside[1][:-1]].reshape(-1, tensor.counts[0]).view(np.uint8)
    along = [
        [index * stride for index in range(s.start, s.stop, s.step)]
        for s, stride in zip(inside[0][:-1], tensor.strides[::-1], strict=True)
    ]
    memory = machine.global_memory
    for row, steps in zip(rows, itertools.product(*along), strict=True):
        at = (tensor.address + sum(steps) + end) % (1 << 64)
        allocation = memory.find(at, extra)
        if allocation is not None and allocation.writable:
            place = slice(at - allocation.base, at - allocation.base + extra)
            new = row[first : first + extra]
            if operation is not None:
                old = allocation.data[place].view(tensor.number)
                new = combine(operation, tensor.number)(old, new.view(tensor.number))
                new = new.astype(tensor.number).view(np.uint8)
            allocation.data[place] = new


@instruction("cp.async.bulk.prefetch.tensor")
def _prefetch(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("cp.async.bulk.prefetch.tensor")
    rank, _ = _take_rank(ins, mods)
    fine = mods.has("L2") and mods.has("global")
    hint = mods.has("L2::cache_hint")
    mods.done()
    if not fine:
        raise ins.unsupported("expected .L2.global")
    ins.expect(1 + hint)
    boxes = _Boxes(ins, machine, ins.operands[0], rank)

    def step(lanes: Lanes) -> None:
        for tensor, _ in boxes.at(lanes):
            boxes.elements(tensor, writes=False)

    return step
