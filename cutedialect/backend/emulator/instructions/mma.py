"""mma.sync, dense (PTX ISA 9.7.14.5). Products and sums of floating types are formed in f64 and
rounded once to the accumulator type; f64 is a chain of fused multiply-adds, k ascending; integers
wrap, or saturate with ``.satfinite``. tf32 operands lose their low 13 bits, as on the hardware.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

import ml_dtypes
import numpy as np

from ..convergence import whole_warps
from ..fragments import accumulator, invert, operand_a, operand_b
from ..lanes import Array, Lanes, anywhere, where
from ..module import Instruction, Operand, Vector
from ..registers import Register
from ..rounding import NAN16, NAN32, fma_f64
from ..types import TYPES
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

# (A and B type class, accumulator types, shapes)
_SHAPES: dict[str, tuple[tuple[str, ...], tuple[str, ...]]] = {
    "f16": (("m16n8k8", "m16n8k16"), ("f16", "f32")),
    "bf16": (("m16n8k8", "m16n8k16"), ("f32",)),
    "tf32": (("m16n8k4", "m16n8k8"), ("f32",)),
    "f64": (("m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"), ("f64",)),
    "fp8": (("m16n8k16", "m16n8k32"), ("f16", "f32")),
    "int8": (("m8n8k16", "m16n8k16", "m16n8k32"), ("s32",)),
    "int4": (("m8n8k32", "m16n8k32", "m16n8k64"), ("s32",)),
    "b1": (("m8n8k128", "m16n8k128", "m16n8k256"), ("s32",)),
}
_CLASS = {
    "f16": "f16", "bf16": "bf16", "tf32": "tf32", "f64": "f64", "e4m3": "fp8", "e5m2": "fp8",
    "s8": "int8", "u8": "int8", "s4": "int4", "u4": "int4", "b1": "b1",
}  # fmt: skip
_BITS = {"f16": 16, "bf16": 16, "tf32": 32, "f64": 64, "fp8": 8, "int8": 8, "int4": 4, "b1": 1}


def decode(words: Array, name: str) -> Array:
    """32-bit words (64-bit for f64) ``[..., n]`` to numbers ``[..., n * e]`` as f64, low bits
    first.
    """
    words = np.ascontiguousarray(words)
    if name == "f16":
        return words.view(np.float16).astype(np.float64)
    if name == "bf16":
        return words.view(ml_dtypes.bfloat16).astype(np.float64)
    if name == "tf32":
        return (words & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
    if name == "f64":
        return words.view(np.float64)
    if name in ("e4m3", "e5m2"):
        return words.view(TYPES[name].dtype).astype(np.float64)
    if name in ("s8", "u8"):
        return words.view(np.int8 if name == "s8" else np.uint8).astype(np.float64)
    raw = words.view(np.uint8)
    if name == "b1":
        return np.unpackbits(raw, axis=-1, bitorder="little").astype(np.float64)
    nibbles = np.stack((raw & np.uint8(15), raw >> np.uint8(4)), axis=-1)
    nibbles = nibbles.reshape(*raw.shape[:-1], -1).astype(np.float64)
    return where(nibbles > 7, nibbles - 16, nibbles) if name == "s4" else nibbles


def round_result(exact: Array, type: str, saturate: bool) -> Array:
    """f64 sums to accumulator numbers; NaN to the hardware's NaN."""
    if type == "f32":
        value = exact.astype(np.float32)
        wrong = np.isnan(value)
        return where(wrong, NAN32, value) if anywhere(wrong) else value
    if type == "f16":
        value = exact.astype(np.float16)
        wrong = np.isnan(value)
        if anywhere(wrong):
            bits = where(wrong, NAN16, value.view(np.uint16)).astype(np.uint16)
            return bits.view(np.float16)
        return value
    if type == "s32":
        whole = exact.astype(np.int64)
        if saturate:
            whole = np.clip(whole, -(1 << 31), (1 << 31) - 1)
        return whole.astype(np.int32)
    return exact


def multiply(a: Array, b: Array, c: Array, kind: str, combine: str | None, mode: str) -> Array:
    """``a [w, m, k]``, ``b [w, n, k]``, ``c [w, m, n]`` in f64 to c + a b^T."""
    if kind == "f64":
        total = c
        for k in range(a.shape[2]):
            total = fma_f64(a[:, :, k, None], b[:, None, :, k], total, mode)
        return total
    product = np.matmul(a, np.swapaxes(b, 1, 2))
    if combine == "xor":
        product = a.sum(axis=2)[:, :, None] + b.sum(axis=2)[:, None, :] - 2 * product
    return product + c


class Fragment:
    """One operand: reads its registers and gives matrices over the warps."""

    def __init__(
        self, ins: Instruction, machine: Machine, operand: Operand, count: int, bits: int
    ) -> None:
        items = operand.items if isinstance(operand, Vector) else (operand,)
        if len(items) != count:
            raise ins.malformed(f"expected {count} registers, got {len(items)}")
        self.items = items
        type = TYPES[f"b{bits}"]
        self.reads = [machine.read(ins, item, type) for item in items]
        self.sources: list[list[Register]] = [machine.sources(item) for item in items]
        self.dtype = type.dtype

    def words(self, lanes: Lanes) -> Array:
        """``[warps, registers * 32]``."""
        out = np.empty((lanes.count // 32, len(self.reads), 32), self.dtype)
        for i, read in enumerate(self.reads):
            values = read(lanes)
            out[:, i] = values.reshape(-1, 32) if len(values) > 1 else values
        return out.reshape(len(out), -1)

    def poison(self, lanes: Lanes) -> Array:
        """``[warps, registers * 32]``, or None."""
        out: Array = None
        for i, registers in enumerate(self.sources):
            for register in registers:
                found = register.poisoned(lanes)
                if found is not None:
                    if out is None:
                        out = np.zeros((lanes.count // 32, len(self.reads), 32), np.bool_)
                    out[:, i] = found.reshape(-1, 32)
        return None if out is None else out.reshape(len(out), -1)

    def origin(self, lanes: Lanes) -> tuple[str, str] | None:
        for registers in self.sources:
            for register in registers:
                if register.poisoned(lanes) is not None:
                    return register.why()
        return None


@dataclass(frozen=True)
class Form:
    """What an opcode says: the shape, types, bits of an operand's element in a register, and how
    words of operands are read.
    """

    shape: str
    d: str
    a: str
    b: str
    bits: int
    kind: str = ""
    saturate: bool = False
    combine: str | None = None
    mode: str = "rn"
    decode: Callable[[Array, str], Array] = decode

    @property
    def extents(self) -> tuple[int, int, int]:
        """M, N and K."""
        m, rest = self.shape[1:].split("n")
        n, k = rest.split("k")
        return int(m), int(n), int(k)


class Scales(Protocol):
    """Scale factors of the rows of A and B along K, which registers hold."""

    @property
    def sources(self) -> Sequence[Register]:
        """The registers."""
        ...

    def scaled(self, lanes: Lanes, left: Array, right: Array) -> tuple[Array, Array]:
        """``[w, m, k]`` and ``[w, n, k]`` times their factors."""
        ...

    def poison(self, lanes: Lanes) -> tuple[Array, Array]:
        """Rows ``[w, m]`` and columns ``[w, n]`` with factors that are poison."""
        ...

    def origin(self, lanes: Lanes) -> tuple[str, str] | None:
        """Where poison of a factor comes from."""
        ...


def _parse(ins: Instruction) -> Form:
    mods = ins.modifiers("mma.sync")
    aligned = mods.has("aligned")
    shape = mods.take(*{s for shapes, _ in _SHAPES.values() for s in shapes})
    row, col = mods.take("row"), mods.take("col")
    saturate = mods.has("satfinite")
    combine = mods.take("xor", "and")
    popc = mods.has("popc")
    mode = mods.take("rn", "rz", "rm", "rp") or "rn"
    names = [mods.take(*_CLASS, "f32", "s32") for _ in range(4)]
    mods.done()
    d, a, b, c = names
    if not (aligned and shape and row and col and a and b and d) or c != d:
        raise ins.unsupported("unknown form")
    kind = _class_of(ins, a, b)
    shapes, accumulators = _SHAPES[kind]
    if shape not in shapes or d not in accumulators:
        raise ins.unsupported(f"{shape} of .{d}.{a}.{b}.{c}")
    if (combine is not None) != (kind == "b1") or popc != (kind == "b1"):
        raise ins.unsupported("unknown combination")
    if saturate and kind not in ("int8", "int4"):
        raise ins.unsupported(".satfinite of this type")
    return Form(shape, d, a, b, _BITS[kind], kind, saturate, combine, mode)


def _class_of(ins: Instruction, a: str, b: str) -> str:
    """The class of two operand types, which are equal but for those of 8 bits and less."""
    kind = _CLASS.get(a)
    if kind is None or _CLASS.get(b) != kind or (kind not in ("fp8", "int8", "int4") and a != b):
        raise ins.unsupported(f"operand types .{a}.{b}")
    return kind


@instruction("mma.sync")
def _mma(ins: Instruction, machine: Machine) -> Step:
    if ".m8n8k4." in ins.opcode and ".f64" not in ins.opcode:
        from .volta_mma import build

        return build(ins, machine)
    if ".kind::" in ins.opcode:
        from . import narrow_mma

        return narrow_mma.build(ins, machine)
    ins.expect(4)
    return product(ins, machine, _parse(ins))


def product(ins: Instruction, machine: Machine, form: Form, scales: Scales | None = None) -> Step:
    """D = A B + C of the first four operands, A and B times scale factors where there are some."""
    d_type, kind, bits = form.d, form.kind, form.bits
    m, n, k = form.extents
    storage = 64 if kind == "f64" else 32
    count_a, at_a = operand_a(m, k, bits)
    count_b, at_b = operand_b(n, k, bits)
    at_c = accumulator(m, n)
    at_d = invert(at_c)
    values = m * n // 32
    count_d = values // 2 if d_type == "f16" else values
    d, a, b, c = ins.operands[:4]
    fragment_a = Fragment(ins, machine, a, count_a, storage)
    fragment_b = Fragment(ins, machine, b, count_b, storage)
    fragment_c = Fragment(ins, machine, c, count_d, storage)
    items = d.items if isinstance(d, Vector) else (d,)
    if len(items) != count_d:
        raise ins.malformed(f"expected {count_d} registers, got {len(items)}")
    writes = [machine.write(ins, item, TYPES[f"b{storage}"]) for item in items]
    targets = [machine.target(item) for item in items]
    everything = [
        r for f in (fragment_a, fragment_b, fragment_c) for found in f.sources for r in found
    ]
    everything += [] if scales is None else scales.sources
    read_c = _accumulator_reader(d_type)

    def run(lanes: Lanes) -> None:
        poison: Array = None
        origin = None
        for register in everything:
            if register.poison is not None:
                poison, origin = _poison(lanes)
                break
        left = form.decode(fragment_a.words(lanes), form.a)[:, at_a]
        right = form.decode(fragment_b.words(lanes), form.b)[:, at_b]
        if scales is not None:
            left, right = scales.scaled(lanes, left, right)
        start = read_c(fragment_c.words(lanes))[:, at_c]
        exact = multiply(left, right, start, kind, form.combine, form.mode)
        result = round_result(exact, d_type, form.saturate).reshape(len(exact), -1)[:, at_d]
        _write(lanes, result)
        for i, target in enumerate(targets):
            if target is None:
                continue
            if poison is not None:
                flat: Array = poison.reshape(len(poison), -1)
                flags: Array = flat[:, at_d].reshape(-1, values, 32)
                mask: Array = (
                    flags[:, 2 * i] | flags[:, 2 * i + 1] if d_type == "f16" else flags[:, i]
                )
                target.taint(lanes, mask.reshape(-1), origin, machine.total)
            elif target.poison is not None:
                target.clear(lanes)

    def _write(lanes: Lanes, result: Array) -> None:
        if d_type == "f16":
            halves = result.view(np.uint16).reshape(len(result), count_d, 2, 32)
            words = np.ascontiguousarray(np.swapaxes(halves, 2, 3)).view(np.uint32)
            words = words.reshape(len(result), count_d, 32)
        else:
            words = result.view(np.uint64 if storage == 64 else np.uint32)
            words = words.reshape(len(result), count_d, 32)
        for i, write in enumerate(writes):
            write(lanes, words[:, i].reshape(-1))

    def _poison(lanes: Lanes) -> tuple[Array, Any]:
        """``[warps, m, n]``: an element is poison if its row of A, column of B or C is."""
        e = max(1, 32 // bits)
        bad: Array = np.zeros((lanes.count // 32, m, n), np.bool_)
        found = fragment_a.poison(lanes)
        if found is not None:
            rows: Array = np.repeat(found, e, axis=1)[:, at_a].any(axis=2)
            bad |= rows[:, :, None]
        found = fragment_b.poison(lanes)
        if found is not None:
            columns: Array = np.repeat(found, e, axis=1)[:, at_b].any(axis=2)
            bad |= columns[:, None, :]
        found = fragment_c.poison(lanes)
        if found is not None:
            if d_type == "f16":
                found = np.repeat(found.reshape(len(found), -1, 32), 2, axis=1)
                found = found.reshape(len(found), -1)
            bad |= found[:, at_c]
        if scales is not None:
            rows, columns = scales.poison(lanes)
            bad |= rows[:, :, None] | columns[:, None, :]
        holders = (fragment_a, fragment_b, fragment_c, *([] if scales is None else [scales]))
        origins = (f.origin(lanes) for f in holders)
        return (bad, next((o for o in origins if o), None)) if anywhere(bad) else (None, None)

    return whole_warps(ins, machine, run)


def _accumulator_reader(type: str) -> Callable[[Array], Array]:
    """Words ``[warps, registers * 32]`` to f64 numbers ordered (value, lane)."""
    if type == "f32":
        return lambda words: words.view(np.float32).astype(np.float64)
    if type == "s32":
        return lambda words: words.view(np.int32).astype(np.float64)
    if type == "f64":
        return lambda words: words.view(np.float64)

    def halves(words: Array) -> Array:
        pairs = words.view(np.float16).reshape(len(words), -1, 32, 2)
        return np.swapaxes(pairs, 2, 3).reshape(len(words), -1).astype(np.float64)

    return halves
