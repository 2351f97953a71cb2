"""Tensor maps that a kernel edits: tensormap.replace on a copy in shared or global memory, and
tensormap.cp_fenceproxy, which publishes the copy (PTX ISA 9.7.9.28, 9.7.13.14). Fields are in the
driver's units: strides in bytes, the rank less one.
"""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import numpy as np

from ..convergence import ALL, named_lanes
from ..errors import EmulatorError
from ..lanes import Array, Lanes, begins
from ..module import Imm, Instruction
from ..tensor_map import ALIGN, ELEMENT_CODES, SIZE, SPAN_CODES, UNIT_CODES, TensorMap, decode
from .load_store import Access, resolve
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

# Fields with an index operand, and those without.
_INDEXED = ("box_dim", "global_dim", "global_stride", "element_stride")
_PLAIN = (
    "global_address", "rank", "elemtype", "interleave_layout", "swizzle_mode", "fill_mode",
    "swizzle_atomicity",
)  # fmt: skip


def _set(values: tuple[int, ...], index: int, value: int) -> tuple[int, ...]:
    if index >= len(values):
        raise EmulatorError(f"no dimension {index} in this tensor map", code="CD-E1")
    return (*values[:index], value, *values[index + 1 :])


def _fit(values: tuple[int, ...], count: int, filler: int) -> tuple[int, ...]:
    return (*values, *(filler,) * count)[:count]


def _change(tensor: TensorMap, field: str, index: int, value: int) -> TensorMap:
    if field == "global_address":
        return dataclasses.replace(tensor, address=value)
    if field == "global_dim":
        return dataclasses.replace(tensor, dims=_set(tensor.dims, index, value))
    if field == "global_stride":
        return dataclasses.replace(tensor, strides=_set(tensor.strides, index, value))
    if field == "box_dim":
        return dataclasses.replace(tensor, box=_set(tensor.box, index, value))
    if field == "element_stride":
        steps = _set(tensor.element_strides, index, value)
        return dataclasses.replace(tensor, element_strides=steps)
    if field == "rank":
        return dataclasses.replace(
            tensor, dims=_fit(tensor.dims, value + 1, 1), box=_fit(tensor.box, value + 1, 1),
            strides=_fit(tensor.strides, value, 16),
            element_strides=_fit(tensor.element_strides, value + 1, 1),
        )  # fmt: skip
    if field == "elemtype" and value < len(ELEMENT_CODES):
        return dataclasses.replace(tensor, dtype=ELEMENT_CODES[value])
    if field == "swizzle_mode" and value < len(SPAN_CODES):
        return dataclasses.replace(tensor, span=SPAN_CODES[value])
    if field == "fill_mode":
        return dataclasses.replace(tensor, nan_fill=bool(value))
    if field == "swizzle_atomicity" and value < len(UNIT_CODES):
        return dataclasses.replace(tensor, unit=UNIT_CODES[value])
    if field == "interleave_layout" and value == 0:
        return tensor
    raise EmulatorError(f"the value {value} of {field} is not supported", code="CD-E1")


@instruction("tensormap.replace")
def _replace(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("tensormap.replace")
    tile = mods.has("tile")
    field = mods.take(*_INDEXED, *_PLAIN)
    space = mods.take("global", "shared::cta")
    whole = mods.has("b1024")
    type = mods.type("b32", "b64")
    mods.done()
    if not tile or field is None or not whole:
        raise ins.unsupported("expected .tile, a field and .b1024")
    operands = list(ins.operands)
    index = 0
    if field in _INDEXED:
        ins.expect(3)
        which = operands.pop(1)
        if not isinstance(which, Imm):
            raise ins.malformed(f"expected a constant dimension, got {which}")
        index = int(which.value)
    else:
        ins.expect(2)
    place = {"global": "global", "shared::cta": "shared", None: "generic"}[space]
    locate, sources = resolve(ins, machine, operands[0], place)
    read = machine.read(ins, operands[1], type)
    more = machine.sources(operands[1])
    memory = _Blobs(ins, machine, place)

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "the address of a tensor map")
        machine.demand(more, lanes, "a field of a tensor map")
        addresses = np.broadcast_to(locate(lanes), (lanes.count,))
        values = np.broadcast_to(read(lanes), (lanes.count,)).tolist()
        for i in range(lanes.count):
            one = memory.one(lanes, i)
            tensor = decode(memory.load(one, addresses[i : i + 1]))
            if tensor is None:
                raise ins.error("CD-E2", "no tensor map at the address of tensormap.replace")
            changed = _change(tensor, field, index, int(values[i]))
            memory.store(one, addresses[i : i + 1], changed.encode())

    return step


class _Blobs:
    """Tensor maps as 128 bytes of some memory."""

    def __init__(self, ins: Instruction, machine: Machine, space: str) -> None:
        self._machine = machine
        self._access = Access(ins, machine, space, 16)

    def one(self, lanes: Lanes, position: int) -> Lanes:
        return Lanes.of(lanes.index[position : position + 1], self._machine.total)

    def load(self, one: Lanes, address: Array) -> bytes:
        self._aligned(address)
        parts: list[bytes] = []
        for at in range(0, SIZE, 16):
            words, poison = self._access.load(one, address + np.uint64(at))
            if poison is not None:
                raise EmulatorError("a tensor map that was never written", code="CD-I3")
            parts.append(np.ascontiguousarray(words).tobytes())
        return b"".join(parts)

    def store(self, one: Lanes, address: Array, raw: bytes) -> None:
        self._aligned(address)
        rows = np.frombuffer(raw, np.uint32).reshape(-1, 1, 4)
        for i, row in enumerate(rows):
            self._access.store(one, address + np.uint64(16 * i), row, None)

    def _aligned(self, address: Array) -> None:
        if int(address[0]) % ALIGN:
            raise EmulatorError(
                f"a tensor map at {int(address[0]):#x}: expected a multiple of {ALIGN} bytes",
                code="CD-E2",
            )


_EVERY = np.array([ALL], np.uint32)


@instruction("tensormap.cp_fenceproxy")
def _publish(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("tensormap.cp_fenceproxy")
    fine = mods.has("global") and mods.has("shared::cta") and mods.has("tensormap::generic")
    mods.take("release")
    mods.take("cta", "cluster", "gpu", "sys")
    aligned = mods.has("sync") and mods.has("aligned")
    mods.done()
    ins.expect(3)
    size: Any = ins.operands[2]
    if not fine or not aligned or not isinstance(size, Imm) or size.value != SIZE:
        raise ins.unsupported("expected .global.shared::cta.tensormap::generic and 128 bytes")
    target, target_sources = resolve(ins, machine, ins.operands[0], "global")
    source, sources = resolve(ins, machine, ins.operands[1], "shared")
    here, there = _Blobs(ins, machine, "shared"), _Blobs(ins, machine, "global")

    def run(lanes: Lanes) -> None:
        machine.demand(sources + target_sources, lanes, "an address")
        froms = np.broadcast_to(source(lanes), (lanes.count,))
        tos = np.broadcast_to(target(lanes), (lanes.count,))
        firsts = np.flatnonzero(begins(lanes.index >> 5))
        for i in firsts.tolist():  # the lanes of a warp copy one map together
            one = here.one(lanes, i)
            there.store(one, tos[i : i + 1], here.load(one, froms[i : i + 1]))

    return named_lanes(ins, machine, lambda lanes: _EVERY, [], run)
