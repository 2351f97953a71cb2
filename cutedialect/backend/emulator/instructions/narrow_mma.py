"""mma.sync with a .kind (PTX ISA 9.7.14.5): operands of 4, 6 and 8 bits, dense, with and without
scale factors of blocks. Elements of f8f6f4 kinds stand in bytes; those of mxf4 and mxf4nvf4 are two
to a byte. A word of factors comes from one thread for each row: thread-id says from which of a
quad, byte-id where in the word the first factor is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from .. import tensor_numbers as numbers
from ..lanes import Array, Lanes
from ..module import Imm, Instruction, Operand, Vector
from ..registers import Register
from ..types import TYPES
from .mma import Form, product

if TYPE_CHECKING:
    from ..machine import Machine, Step

_TYPES = ("e4m3", "e5m2", "e3m2", "e2m3", "e2m1")
_VECTORS = {"scale_vec::1X": 1, "scale_vec::2X": 2, "scale_vec::4X": 4}
# Of each scaled kind: its shape, types, bits of an element, and by the factors of a row the types
# that these may have. Without a vector size it is the first.
_SCALED = {
    "mxf8f6f4": ("m16n8k32", _TYPES, 8, {1: ("ue8m0",)}),
    "mxf4": ("m16n8k64", ("e2m1",), 4, {2: ("ue8m0",)}),
    "mxf4nvf4": ("m16n8k64", ("e2m1",), 4, {2: ("ue8m0",), 4: ("ue4m3", "ue8m0")}),
}
_SHAPES = ("m16n8k16", "m16n8k32", "m16n8k64")
_EIGHT_BITS, _SUMS, _CONTAINER = ("e4m3", "e5m2"), ("f16", "f32"), 8
# Threads of a quad that give factors of A, two rows each, and of B.
_LAST_A, _LAST_B, _BYTES = 1, 3, 4


@dataclass(frozen=True)
class _Parts:
    """What an opcode says; `factors` are those of a row, 0 without block scaling."""

    kind: str
    shape: str
    types: tuple[str, str, str]
    factors: int
    scale: str

    @property
    def text(self) -> str:
        """The shape and types, for messages."""
        d, a, b = self.types
        return f"{self.shape} of .{d}.{a}.{b}.{d}"


def build(ins: Instruction, machine: Machine) -> Step:
    """The step of one instruction."""
    parts = _parse(ins)
    if parts.kind not in _SCALED:
        _check_plain(ins, parts)
        ins.expect(4)
        return product(ins, machine, Form(parts.shape, *parts.types, 8, decode=_decoded))
    bits = _check_scaled(ins, parts)
    ins.expect(8)
    read = _decoded if bits == _CONTAINER else _pairs
    form = Form(parts.shape, *parts.types, bits, decode=read)
    return product(ins, machine, form, _Factors(ins, machine, form, parts))


def _parse(ins: Instruction) -> _Parts:
    mods = ins.modifiers("mma.sync")
    aligned, shape = mods.has("aligned"), mods.take(*_SHAPES)
    row, col = mods.take("row"), mods.take("col")
    kind = (mods.take("kind::f8f6f4", *(f"kind::{name}" for name in _SCALED)) or "")[6:]
    scaled, vector = mods.has("block_scale"), mods.take(*_VECTORS)
    d, a, b, c = (mods.take(*_TYPES, *_SUMS) for _ in range(4))
    scale = mods.take("ue8m0", "ue4m3") if scaled else None
    mods.done()
    if not (aligned and shape and row and col and kind and d and a and b) or c != d:
        raise ins.unsupported("unknown form")
    if scaled != (kind in _SCALED) or (vector is not None and not scaled):
        raise ins.unsupported("the mx kinds take .block_scale, and no others do")
    count = _factors(ins, kind, vector) if scaled else 0
    return _Parts(kind, shape, (d, a, b), count, scale or "")


def _factors(ins: Instruction, kind: str, vector: str | None) -> int:
    """Factors of a row by the vector size, without which a kind has one of them."""
    if vector is not None:
        return _VECTORS[vector]
    known = _SCALED[kind][3]
    if len(known) > 1:
        raise ins.unsupported(f"expected .scale_vec::2X or ::4X with .kind::{kind}")
    return next(iter(known))


def _check_plain(ins: Instruction, parts: _Parts) -> None:
    """Refuse what f8f6f4 does not multiply."""
    d, *operands = parts.types
    is_wide = {*operands} <= {*_EIGHT_BITS} and parts.shape == "m16n8k16"
    is_known = {*operands} <= {*_TYPES} and d in _SUMS
    if not (is_known and (is_wide or parts.shape == "m16n8k32")):
        raise ins.unsupported(parts.text)


def _check_scaled(ins: Instruction, parts: _Parts) -> int:
    """The bits of an element of a kind with scales; refuses what it does not multiply."""
    shape, types, bits, factors = _SCALED[parts.kind]
    d, *operands = parts.types
    if (parts.shape, d) != (shape, "f32") or not {*operands} <= {*types}:
        raise ins.unsupported(parts.text)
    if parts.factors not in factors:
        raise ins.unsupported(f"{parts.text} with {parts.factors} factors")
    if parts.scale not in factors[parts.factors]:
        raise ins.unsupported(
            f"expected .{' or .'.join(factors[parts.factors])}, got .{parts.scale}"
        )
    return bits


def _decoded(words: Array, name: str) -> Array:
    """Words ``[..., n]`` of four elements in bytes to numbers ``[..., 4 n]``."""
    return numbers.of_tensor(words, name, False)


def _pairs(words: Array, _name: str) -> Array:
    """The same of e2m1, two to a byte."""
    return numbers.of_tensor(words, "e2m1", True)


class _Factors:
    """The factors of both operands of one instruction."""

    def __init__(self, ins: Instruction, machine: Machine, form: Form, parts: _Parts) -> None:
        self.count, self.scale = parts.factors, parts.scale
        count = self.count
        m, n, _ = form.extents
        word_a, select_a, word_b, select_b = ins.operands[4:]
        byte_a, thread_a = _selectors(ins, select_a, count, _LAST_A)
        byte_b, thread_b = _selectors(ins, select_b, count, _LAST_B)
        row, column = np.arange(m), np.arange(n)
        # Two threads of each quad give the rows g and g + 8 of A; one of them gives column g of B.
        lanes_a = 4 * (row % 8) + 2 * thread_a + row // 8
        self.operands = [
            (machine.read(ins, word, TYPES["b32"]), machine.sources(word), lanes, byte)
            for word, lanes, byte in (
                (word_a, lanes_a, byte_a),
                (word_b, 4 * column + thread_b, byte_b),
            )
        ]

    @property
    def sources(self) -> Sequence[Register]:
        """The registers of both words."""
        return [register for _, found, _, _ in self.operands for register in found]

    def scaled(self, lanes: Lanes, left: Array, right: Array) -> tuple[Array, Array]:
        """Both operands times their factors."""
        found: list[Array] = []
        for matrix, (read, _, places, first) in zip((left, right), self.operands, strict=True):
            values = np.broadcast_to(read(lanes), lanes.count).reshape(-1, 32)[:, places]
            raw = np.ascontiguousarray(values).view(np.uint8).reshape(*values.shape, _BYTES)
            factors = numbers.scales_of(raw[..., first : first + self.count], self.scale)
            found.append(matrix * np.repeat(factors, matrix.shape[2] // self.count, axis=2))
        return found[0], found[1]

    def poison(self, lanes: Lanes) -> tuple[Array, Array]:
        """Rows and columns with a word that is poison."""
        found: list[Array] = []
        for _, registers, places, _ in self.operands:
            bad: Array = np.zeros((lanes.count // 32, 32), np.bool_)
            for register in registers:
                mask = register.poisoned(lanes)
                if mask is not None:
                    bad |= np.broadcast_to(mask, lanes.count).reshape(-1, 32)
            found.append(bad[:, places])
        return found[0], found[1]

    def origin(self, lanes: Lanes) -> tuple[str, str] | None:
        """Where the poison of a word comes from."""
        for register in self.sources:
            if register.poisoned(lanes) is not None:
                return register.why()
        return None


def _selectors(ins: Instruction, operand: Operand, count: int, last: int) -> tuple[int, int]:
    """The first byte of a word and the thread of a quad."""
    items = operand.items if isinstance(operand, Vector) else ()
    if len(items) != 2 or not all(isinstance(item, Imm) for item in items):
        raise ins.unsupported("expected immediates {byte-id, thread-id}")
    byte, thread = (int(item.value) for item in items if isinstance(item, Imm))
    if byte % count or byte + count > _BYTES or not 0 <= thread <= last:
        raise ins.malformed(
            f"expected {count} factors within a word and a thread up to {last}, got byte {byte} "
            f"and thread {thread}"
        )
    return byte, thread
