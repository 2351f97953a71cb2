"""wmma.load, wmma.mma, wmma.store (PTX ISA 9.7.14.4). The ISA leaves fragment layouts open; here
element number e (row-major) of a matrix lives in lane ``e / per`` as its element ``e % per``, where
``per`` is the matrix size over 32. Where the ISA gives a lane more register elements than that,
they repeat. Element i of an f16 and an f32 accumulator is the same matrix element.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..convergence import whole_warps
from ..lanes import Array, Lanes, anywhere
from ..module import Instruction, Modifiers, Operand, Vector
from ..types import STORAGE, TYPES
from .load_store import Access, resolve, take_space
from .mma import Fragment, decode, multiply, round_result
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

_SHAPES = ("m16n16k16", "m32n8k16", "m8n32k16", "m16n16k8", "m8n8k4")
_TYPES = ("f16", "bf16", "tf32", "f32", "f64", "s8", "u8", "s32")
# Registers of a fragment by matrix and element type; "ab" counts differ by shape.
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f32": 32, "f64": 64, "s8": 8, "u8": 8, "s32": 32}


def _extent(shape: str, matrix: str) -> tuple[int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    rows, columns = {"a": (m, k), "b": (k, n), "c": (m, n), "d": (m, n)}[matrix]
    return int(rows), int(columns)


def _registers(ins: Instruction, shape: str, matrix: str, type: str) -> int:
    """How many registers the ISA gives the fragment."""
    allowed = {
        "m16n16k16": ("f16", "bf16", "s8", "u8", "f32", "s32"),
        "m32n8k16": ("f16", "bf16", "s8", "u8", "f32", "s32"),
        "m8n32k16": ("f16", "bf16", "s8", "u8", "f32", "s32"),
        "m16n16k8": ("tf32", "f32"), "m8n8k4": ("f64",),
    }[shape]  # fmt: skip
    accumulates = matrix in "cd"
    if type not in allowed or (accumulates and type in ("bf16", "tf32", "s8", "u8")):
        raise ins.unsupported(f"{matrix} fragment of {shape} .{type}")
    if not accumulates and type in ("f32", "s32"):
        raise ins.unsupported(f"{matrix} fragment of .{type}")
    if type == "f64":
        return 2 if accumulates else 1
    if accumulates:
        return 4 if type == "f16" else 8
    if type == "f16":
        return 8
    rows, columns = _extent(shape, matrix)
    return max(1, rows * columns * _BITS[type] // 1024)


def _storage(type: str) -> int:
    return 64 if type == "f64" else 32


def _take_shape(ins: Instruction, mods: Modifiers) -> str:
    if not mods.has("aligned"):
        raise ins.unsupported("expected .sync.aligned")
    shape = mods.take(*_SHAPES)
    if shape is None:
        raise ins.unsupported(f"expected one of {', '.join(_SHAPES)}")
    return shape


def _offsets(rows: int, columns: int, column_major: bool, slots: int) -> tuple[Array, Array]:
    """Per lane and slot, the multiples of stride and of the element size: ``[slots, 32]`` each."""
    per = rows * columns // 32
    element = np.arange(32)[None, :] * per + np.arange(slots)[:, None] % per
    row, column = element // columns, element % columns
    return (column, row) if column_major else (row, column)


def _leading(ins: Instruction, machine: Machine, operands: list[Operand], default: int) -> Any:
    if len(operands) == 3:
        return machine.read(ins, operands[2], TYPES["u32"])
    constant = np.array([default], np.uint32)

    def read_default(lanes: Lanes) -> Array:
        return constant

    return read_default


@instruction("wmma.load.a.sync", "wmma.load.b.sync", "wmma.load.c.sync")
def _load(ins: Instruction, machine: Machine) -> Step:
    matrix = ins.opcode[10]
    mods = ins.modifiers(ins.opcode[:16])
    layout = mods.take("row", "col")
    shape = _take_shape(ins, mods)
    space = take_space(ins, mods)
    type = mods.take(*_TYPES)
    mods.done()
    ins.expect(2, 3)
    if layout is None or type is None:
        raise ins.unsupported("expected a layout and a type")
    count = _registers(ins, shape, matrix, type)
    bits, storage = _BITS[type], _storage(type)
    items = ins.operands[0].items if isinstance(ins.operands[0], Vector) else (ins.operands[0],)
    if len(items) != count:
        raise ins.malformed(f"expected {count} registers, got {len(items)}")
    writes = [machine.write(ins, item, TYPES[f"b{storage}"]) for item in items]
    targets = [machine.target(item) for item in items]
    rows, columns = _extent(shape, matrix)
    outer, inner = _offsets(rows, columns, layout == "col", count * storage // bits)
    stride = _leading(ins, machine, list(ins.operands), rows if layout == "col" else columns)
    read, sources = resolve(ins, machine, ins.operands[1], space)
    more = machine.sources(*ins.operands[2:])
    access = Access(ins, machine, space, bits // 8)

    def run(lanes: Lanes) -> None:
        machine.demand(sources + more, lanes, "an address")
        base, step = read(lanes), stride(lanes).astype(np.uint64)
        slots = len(outer)
        words = np.empty((lanes.count, slots), STORAGE[bits])
        poison = np.zeros((lanes.count, slots), np.bool_)
        for i in range(slots):
            at = _address(lanes, base, step, outer[i], inner[i], bits)
            words[:, i], bad = access.load(lanes, at)
            if bad is not None:
                poison[:, i] = bad.any(axis=1)
        packed = words.view(STORAGE[storage])
        spoiled: Array = poison.reshape(lanes.count, count, -1).any(axis=2)
        for i, write in enumerate(writes):
            write(lanes, packed[:, i])
            target = targets[i]
            if target is not None and anywhere(spoiled[:, i]):
                why = ("CD-I3", f"loaded at PTX line {ins.line} from memory never written")
                target.taint(lanes, spoiled[:, i], why, machine.total)
            elif target is not None:
                target.clear(lanes)

    return whole_warps(ins, machine, run)


def _address(
    lanes: Lanes, base: Array, step: Array, outer: Array, inner: Array, bits: int
) -> Array:
    warps = lanes.count // 32
    rows = np.tile(outer, warps).astype(np.uint64) * step + np.tile(inner, warps).astype(np.uint64)
    return base + rows * np.uint64(bits // 8)


@instruction("wmma.store.d.sync")
def _store(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("wmma.store.d.sync")
    layout = mods.take("row", "col")
    shape = _take_shape(ins, mods)
    space = take_space(ins, mods)
    type = mods.take(*_TYPES)
    mods.done()
    ins.expect(2, 3)
    if layout is None or type is None:
        raise ins.unsupported("expected a layout and a type")
    count = _registers(ins, shape, "d", type)
    bits, storage = _BITS[type], _storage(type)
    fragment = Fragment(ins, machine, ins.operands[1], count, storage)
    rows, columns = _extent(shape, "d")
    outer, inner = _offsets(rows, columns, layout == "col", count * storage // bits)
    stride = _leading(ins, machine, list(ins.operands), rows if layout == "col" else columns)
    read, sources = resolve(ins, machine, ins.operands[0], space)
    more = machine.sources(*ins.operands[2:])
    everything = [r for found in fragment.sources for r in found]
    access = Access(ins, machine, space, bits // 8)

    def run(lanes: Lanes) -> None:
        machine.demand(sources + more, lanes, "an address")
        machine.demand(everything, lanes, "a matrix store")
        base, step = read(lanes), stride(lanes).astype(np.uint64)
        words = fragment.words(lanes).reshape(-1, count, 32).transpose(0, 2, 1)
        values = np.ascontiguousarray(words).view(STORAGE[bits]).reshape(lanes.count, -1)
        for i in range(len(outer)):
            at = _address(lanes, base, step, outer[i], inner[i], bits)
            access.store(lanes, at, values[:, i], None)

    return whole_warps(ins, machine, run)


@instruction("wmma.mma.sync")
def _mma(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("wmma.mma.sync")
    layouts = [mods.take("row", "col"), mods.take("row", "col")]
    shape = _take_shape(ins, mods)
    saturate = mods.has("satfinite")
    mode = mods.take("rn", "rz", "rm", "rp") or "rn"
    names = list(iter(lambda: mods.take(*_TYPES), None))
    mods.done()
    ins.expect(4)
    if None in layouts or len(names) not in (2, 4):
        raise ins.unsupported("unknown form")
    d_type, a_type, b_type, c_type = (
        (names[0], "f16", "f16", names[1]) if len(names) == 2 else names
    )
    if saturate and d_type != "s32":
        raise ins.unsupported(".satfinite of this type")
    counts = [
        _registers(ins, shape, matrix, type)
        for matrix, type in zip("abcd", (a_type, b_type, c_type, d_type), strict=True)
    ]
    storage = _storage(d_type)
    d, *inputs = ins.operands
    fragments = [
        Fragment(ins, machine, operand, count, storage)
        for operand, count in zip(inputs, counts, strict=False)
    ]
    items = d.items if isinstance(d, Vector) else (d,)
    if len(items) != counts[3]:
        raise ins.malformed(f"expected {counts[3]} registers, got {len(items)}")
    writes = [machine.write(ins, item, TYPES[f"b{storage}"]) for item in items]
    targets = [machine.target(item) for item in items]
    everything = [r for f in fragments for found in f.sources for r in found]
    kind = "f64" if d_type == "f64" else a_type

    def matrix(fragment: Fragment, name: str, type: str, lanes: Lanes) -> Array:
        rows, columns = _extent(shape, name)
        words = fragment.words(lanes).reshape(-1, len(fragment.items), 32).transpose(0, 2, 1)
        words = np.ascontiguousarray(words)
        if type == "f32":
            values = words.view(np.float32).astype(np.float64)
        elif type == "s32":
            values = words.view(np.int32).astype(np.float64)
        else:
            values = decode(words, type)
        values = values.reshape(len(values), 32, -1)[:, :, : rows * columns // 32]
        return values.reshape(len(values), rows, columns)

    def run(lanes: Lanes) -> None:
        machine.demand(everything, lanes, "a matrix product")
        a = matrix(fragments[0], "a", a_type, lanes)
        b = np.swapaxes(matrix(fragments[1], "b", b_type, lanes), 1, 2)
        c = matrix(fragments[2], "c", c_type, lanes)
        result = round_result(multiply(a, b, c, kind, None, mode), d_type, saturate)
        words = np.ascontiguousarray(result).view(STORAGE[_BITS[d_type]]).reshape(lanes.count, -1)
        words = words.view(STORAGE[storage])
        for i, write in enumerate(writes):
            write(lanes, words[:, i])
        for target in targets:
            if target is not None:
                target.clear(lanes)

    return whole_warps(ins, machine, run)
