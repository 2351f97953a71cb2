"""mma.sync.m8n8k4 with f16 operands (PTX ISA 9.7.14.5.1): a warp makes four products of 8x8x4, one
for each quad pair, lanes 4p to 4p + 3 and 16 + 4p to 19 + 4p. A poison operand makes the warp's
whole result poison.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

import numpy as np

from ..convergence import whole_warps
from ..fragments import invert
from ..lanes import Array, Lanes
from ..module import Instruction, Vector
from ..types import TYPES
from .mma import Fragment, decode, multiply, round_result

if TYPE_CHECKING:
    from ..machine import Machine, Step

_FORMS = (("f16", "f16"), ("f32", "f32"), ("f32", "f16"))


@functools.cache
def _operand(contiguous: bool) -> Array:
    """``[4, 8, 4]``: half number of element (row or column, k). ``contiguous``: a thread holds the
    k of one row (A row-major, B column-major); otherwise four rows of one k.
    """
    position = np.zeros((4, 8, 4), np.int64)
    for p in range(4):
        for thread in range(8):
            lane = 4 * p + thread % 4 + 16 * (thread // 4)
            for v in range(4):
                row, k = (thread, v) if contiguous else (v + 4 * (thread // 4), thread % 4)
                position[p, row, k] = (v // 2 * 32 + lane) * 2 + v % 2
    return position


@functools.cache
def _accumulator(type: str) -> Array:
    """``[4, 8, 8]``: number of element (row, column) as value * 32 + lane."""
    position = np.zeros((4, 8, 8), np.int64)
    for p in range(4):
        for thread in range(8):
            lane = 4 * p + thread % 4 + 16 * (thread // 4)
            for i in range(8):
                if type == "f16":
                    row, column = thread, i
                else:
                    row = (lane & 1) + (i & 2) + 4 * (lane >= 16)
                    column = (i & 4) + (lane & 2) + (i & 1)
                position[p, row, column] = i * 32 + lane
    return position


def _numbers(words: Array, type: str) -> Array:
    """Accumulator registers ``[warps, registers * 32]`` to f64 ordered (value, lane)."""
    if type == "f32":
        return words.view(np.float32).astype(np.float64)
    pairs = words.view(np.float16).reshape(len(words), -1, 32, 2)
    return np.swapaxes(pairs, 2, 3).reshape(len(words), -1).astype(np.float64)


def build(ins: Instruction, machine: Machine) -> Step:
    """The step of a ``mma.sync.aligned.m8n8k4`` whose operands are f16."""
    mods = ins.modifiers("mma.sync")
    fine = mods.has("aligned") and mods.has("m8n8k4")
    a_layout, b_layout = mods.take("row", "col"), mods.take("row", "col")
    names = [mods.take("f16", "f32") for _ in range(4)]
    mods.done()
    ins.expect(4)
    d_type, a_type, b_type, c_type = (name or "" for name in names)
    if not fine or not b_layout or (a_type, b_type) != ("f16", "f16"):
        raise ins.unsupported("unknown form")
    if (d_type, c_type) not in _FORMS:
        raise ins.unsupported(f"accumulators .{d_type} and .{c_type}")
    d, a, b, c = ins.operands
    count = {"f16": 4, "f32": 8}
    fragments = [
        Fragment(ins, machine, a, 2, 32),
        Fragment(ins, machine, b, 2, 32),
        Fragment(ins, machine, c, count[c_type], 32),
    ]
    items = d.items if isinstance(d, Vector) else (d,)
    if len(items) != count[d_type]:
        raise ins.malformed(f"expected {count[d_type]} registers, got {len(items)}")
    writes = [machine.write(ins, item, TYPES["b32"]) for item in items]
    targets = [machine.target(item) for item in items]
    at_a, at_b = _operand(a_layout == "row"), _operand(b_layout == "col")
    at_c, at_d = _accumulator(c_type), invert(_accumulator(d_type))

    def run(lanes: Lanes) -> None:
        origin = next((o for o in (f.origin(lanes) for f in fragments) if o), None)
        warps = lanes.count // 32
        left = decode(fragments[0].words(lanes), "f16")[:, at_a].reshape(-1, 8, 4)
        right = decode(fragments[1].words(lanes), "f16")[:, at_b].reshape(-1, 8, 4)
        start = _numbers(fragments[2].words(lanes), c_type)[:, at_c].reshape(-1, 8, 8)
        exact = multiply(left, right, start, "f16", None, "rn")
        result: Array = round_result(exact, d_type, False).reshape(warps, -1)[:, at_d]
        if d_type == "f16":
            halves = np.swapaxes(result.view(np.uint16).reshape(warps, 4, 2, 32), 2, 3)
            words: Array = np.ascontiguousarray(halves).view(np.uint32).reshape(warps, 4, 32)
        else:
            words = result.view(np.uint32).reshape(warps, 8, 32)
        spoiled = np.ones(lanes.count, np.bool_)
        for i, (write, target) in enumerate(zip(writes, targets, strict=True)):
            write(lanes, words[:, i].reshape(-1))
            if target is not None and origin is not None:
                target.taint(lanes, spoiled, origin, machine.total)
            elif target is not None:
                target.clear(lanes)

    return whole_warps(ins, machine, run)
