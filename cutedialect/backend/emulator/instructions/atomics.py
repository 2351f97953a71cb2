"""atom and red (PTX ISA 9.7.13.6) on global and shared memory. Lanes that meet at one address go in
ascending lane order; each sees what the one before it left. Reading shared bytes that were never
written is an error at once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..errors import EmulatorError
from ..lanes import Array, Lanes, anywhere, where
from ..module import Instruction, Operand, Sink, Vector
from ..races import warps_of
from ..types import STORAGE, TYPES, ScalarType
from .compare import flush
from .load_store import drop_hints, resolve, take_space
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

_OPERATIONS = ("add", "min", "max", "and", "or", "xor", "inc", "dec", "exch", "cas")
_UFUNCS: dict[str, Any] = {
    "add": np.add, "min": np.minimum, "max": np.maximum,
    "and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor,
}  # fmt: skip
_ALLOWED = {
    "add": ("u32", "s32", "u64", "s64", "f32", "f64", "f16", "f16x2", "bf16", "bf16x2"),
    "min": ("u32", "s32", "u64", "s64", "f16", "f16x2", "bf16", "bf16x2"),
    "max": ("u32", "s32", "u64", "s64", "f16", "f16x2", "bf16", "bf16x2"),
    "and": ("b32", "b64"), "or": ("b32", "b64"), "xor": ("b32", "b64"),
    "inc": ("u32",), "dec": ("u32",),
    "exch": ("b32", "b64"), "cas": ("b16", "b32", "b64"),
}  # fmt: skip


def _combine(name: str, type: ScalarType, ftz: bool) -> Callable[[Array, Array, Array], Array]:
    """``new(old, b, c)`` on arrays of the type's numbers."""
    if name == "exch":
        return lambda old, b, c: b
    if name == "cas":
        return lambda old, b, c: where(old == b, c, old)
    if name == "inc":
        return lambda old, b, c: where(old >= b, 0, old + 1).astype(np.uint32)
    if name == "dec":
        return lambda old, b, c: where((old == 0) | (old > b), b, old - 1).astype(np.uint32)
    if name == "add" and type.name == "f32" and ftz:
        return lambda old, b, c: flush(flush(old) + flush(b))
    ufunc = _UFUNCS[name]
    if name in ("min", "max") and type.kind in "fx":
        ufunc = np.fmin if name == "min" else np.fmax
    if (type.kind in "fx" and type.bits == 16) or type.kind == "x":
        dtype = np.dtype(ml_dtypes.bfloat16 if type.name.startswith("bf16") else np.float16)

        def halves(old: Array, b: Array, c: Array) -> Array:
            a = np.ascontiguousarray(old).view(dtype).astype(np.float32)
            value = ufunc(a, np.ascontiguousarray(b).view(dtype).astype(np.float32)).astype(dtype)
            return value.view(old.dtype)

        return halves
    return lambda old, b, c: ufunc(old, b)


class _Cells:
    """The words that an atomic touches, in one space: keys identify words across CTAs."""

    def __init__(self, machine: Machine, space: str, lanes: Lanes, addresses: Array, width: int):
        self.machine, self.space, self.width = machine, space, width
        if space == "shared":
            owner = machine.lane_cta[lanes.sel]
            self.keys = machine.shared.offsets(addresses, owner, width, "atomic")
        elif space == "cluster":
            owner, addresses = machine.clusters.owners(lanes, addresses)
            self.keys = machine.shared.offsets(addresses, owner, width, "atomic")
        elif space == "global":
            self.keys = addresses
        else:
            raise EmulatorError(f"atomic operation on {space} memory", code="CD-I1")

    def load(self, keys: Array) -> Array:
        if self.space == "global":
            return self.machine.global_memory.load(keys, self.width)
        words, poison = self.machine.shared.load(keys, self.width)
        if poison is not None and anywhere(poison):
            raise EmulatorError("atomic operation on shared memory never written", code="CD-I3")
        return words

    def store(self, keys: Array, words: Array) -> None:
        if self.space == "global":
            self.machine.global_memory.store(keys, words, self.width)
        else:
            self.machine.shared.store(keys, words, self.width)


def apply(
    cells: _Cells, combine: Callable[[Array, Array, Array], Array], dtype: Any, b: Array, c: Array
) -> Array:
    """Run the operation in lane order; returns the old values (storage bits)."""
    keys = cells.keys
    order = np.argsort(keys, kind="stable")
    sorted_keys = keys[order]
    fresh = np.ones(len(keys), np.bool_)
    fresh[1:] = sorted_keys[1:] != sorted_keys[:-1]
    heads = np.flatnonzero(fresh)
    unique = sorted_keys[heads]
    current = cells.load(unique)
    before = current.copy()
    old = np.empty(len(keys), current.dtype)
    if len(heads) == len(keys):
        old[order] = current
        current = combine(current.view(dtype), b[order], c[order]).astype(dtype).view(current.dtype)
    else:
        group = np.cumsum(fresh) - 1
        rank = np.arange(len(keys)) - heads[group]
        depth = int(rank.max()) + 1
        by_rank = np.argsort(rank, kind="stable")
        cuts = np.searchsorted(rank[by_rank], np.arange(depth + 1))
        for r in range(depth):
            members = by_rank[cuts[r] : cuts[r + 1]]
            which, lane = group[members], order[members]
            was = current[which]
            old[lane] = was
            value = combine(was.view(dtype), b[lane], c[lane]).astype(dtype)
            current[which] = value.view(current.dtype)
    if anywhere(before != current):
        cells.machine.progress = True
    cells.store(unique, current)
    return old


def _check_operation(
    ins: Instruction, name: str, type: ScalarType, has_result: bool, is_vector: bool
) -> None:
    if type.name not in _ALLOWED[name] or (not has_result and name in ("cas", "exch")):
        raise ins.unsupported(f".{name}.{type.name}")
    if is_vector and (name not in ("add", "min", "max") or type.kind not in "fx"):
        raise ins.unsupported("vectors of this operation")


def _operands(
    ins: Instruction, has_result: bool, count: int
) -> tuple[tuple[Operand, ...], Operand, list[Operand]]:
    """The results, the address and the `count` values of an instruction."""
    operands = list(ins.operands)
    results: tuple[Operand, ...] = (operands.pop(0),) if has_result else ()
    address = operands.pop(0)
    if len(operands) == count + 1 and "L2" in ins.opcode:
        operands.pop()
    if len(operands) != count:
        raise ins.malformed(f"expected {count} values")
    return results, address, operands


def _elements(
    ins: Instruction, value: Operand, results: tuple[Operand, ...], count: int
) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """The elements of a vector, and those of the result where there is one."""
    if not isinstance(value, Vector) or len(value.items) != count:
        raise ins.malformed(f"expected a vector of {count} elements")
    if results and isinstance(results[0], Vector):
        results = results[0].items
    return value.items, results


@instruction("atom", "red")
def _atomic(ins: Instruction, machine: Machine) -> Step:
    head = ins.opcode.split(".")[0]
    mods = ins.modifiers(head)
    mods.take("relaxed", "acquire", "release", "acq_rel", "sc")
    mods.take("cta", "cluster", "gpu", "sys")
    space = take_space(ins, mods)
    name = mods.take(*_OPERATIONS)
    mods.has("noftz")
    drop_hints(mods)
    vector = mods.take("v2", "v4", "v8")
    type = mods.type()
    mods.done()
    if space not in ("generic", "global", "shared", "cluster") or name is None:
        raise ins.unsupported("expected an operation on .global or .shared")
    _check_operation(ins, name, type, head == "atom", vector is not None)
    results, address, operands = _operands(ins, head == "atom", 2 if name == "cas" else 1)
    values: tuple[Operand, ...] = (operands[0],)
    if vector:
        values, results = _elements(ins, operands[0], results, int(vector[1:]))
    read_type = TYPES[f"b{type.bits}"] if type.kind == "x" or type.bits == 16 else type
    reads = [machine.read(ins, v, read_type) for v in values]
    read_c = machine.read(ins, operands[1], read_type) if name == "cas" else None
    writes = [None if isinstance(r, Sink) else machine.write(ins, r, read_type) for r in results]
    targets = machine.sources(*(r for r in results if not isinstance(r, Sink)))
    value_sources = machine.sources(*values, *operands[1:])
    resolver, sources = resolve(ins, machine, address, space)
    storage, dtype = STORAGE[type.bits], read_type.dtype

    def update(lanes: Lanes, base: Array, number: int, b: Array, c: Array) -> Array:
        """Combines element `number` of each lane with memory; gives what was there."""
        old = np.zeros(lanes.count, storage)
        parts = [(space, 0, np.ones(lanes.count, np.bool_))]
        for place, start, mask in machine.spaces(base) if space == "generic" else parts:
            part = lanes.where(mask, machine.total)
            assert part is not None
            at = base[mask] - np.uint64(start) + np.uint64(number * type.bytes)
            cells = _Cells(machine, place, part, at, type.bytes)
            if machine.races is not None:
                note = machine.races.write_shared
                if place == "global":
                    note = machine.races.write_global
                note(ins, warps_of(part), cells.keys, type.bytes, atomic=True)
            combine = _combine(name, type, type.name == "f32" and place == "global")
            old[mask] = apply(cells, combine, dtype, b[mask], c[mask])
            if place != "global":
                machine.stamp(part, cells.keys, type.bytes)
        return old

    def step(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        machine.demand(value_sources, lanes, "an atomic operand")
        machine.polled = True
        if machine.ordering is not None:
            machine.ordering.through_flag(lanes.warps)
        base = resolver(lanes)
        for i, read in enumerate(reads):
            b = np.broadcast_to(read(lanes), (lanes.count,))
            c = b if read_c is None else np.broadcast_to(read_c(lanes), (lanes.count,))
            old = update(lanes, base, i, b, c)
            if writes:
                write = writes[i]
                if write is not None:
                    write(lanes, old.view(dtype))
        for target in targets:
            target.clear(lanes)

    return step
