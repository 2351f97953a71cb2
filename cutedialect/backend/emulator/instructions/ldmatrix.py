"""ldmatrix, stmatrix, movmatrix (PTX ISA 9.7.14.5.15 on), 8x8 matrices of 16-bit elements. Lane 8j
+ i names the address of row i of matrix j; a lane holds row ``lane / 4``, columns ``2 (lane % 4)``
and the next, or with ``.trans`` the same of the transposed matrix.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..bank_conflicts import wavefronts
from ..convergence import whole_warps
from ..lanes import Array, Lanes
from ..module import Instruction, Operand, Vector
from ..types import TYPES
from .load_store import resolve
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step


def _parse(ins: Instruction, head: str) -> tuple[int, bool]:
    mods = ins.modifiers(head)
    aligned, shape = mods.has("aligned"), mods.has("m8n8")
    count = mods.take("x1", "x2", "x4")
    transposed = mods.has("trans")
    mods.take("shared", "shared::cta")
    mods.type("b16")
    mods.done()
    if not aligned or not shape or count is None:
        raise ins.unsupported("expected .aligned.m8n8 with .x1, .x2 or .x4")
    ins.expect(2)
    return int(count[1:]), transposed


def _registers(ins: Instruction, operand: Operand, count: int) -> tuple[Operand, ...]:
    items = operand.items if isinstance(operand, Vector) else (operand,)
    if len(items) != count:
        raise ins.malformed(f"expected {count} registers, got {len(items)}")
    return items


def _transpose(rows: Array) -> Array:
    """``[..., 8 rows, 8 columns]`` to the pairs that lanes hold of the transposed matrix."""
    return np.ascontiguousarray(np.swapaxes(rows, -1, -2))


def _rows(ins: Instruction, machine: Machine, count: int, address: Operand, lanes: Lanes,
          read: object, verb: str) -> Array:  # fmt: skip
    """Checked offsets of the rows, ``[warps, 8 * count]``; counts the wavefronts."""
    addresses = np.broadcast_to(read(lanes), (lanes.count,)).reshape(-1, 32)[:, : 8 * count]  # type: ignore[operator]
    owner = machine.lane_cta[lanes.sel].reshape(-1, 32)[:, : 8 * count].reshape(-1)
    at = machine.shared.offsets(addresses.reshape(-1), owner, 16, verb)
    group = np.repeat(np.arange(len(at) // 8), 8)
    machine.count_shared(ins, wavefronts(at, group, 16, len(at) // 8))
    return at


@instruction("ldmatrix.sync")
def _ldmatrix(ins: Instruction, machine: Machine) -> Step:
    count, transposed = _parse(ins, "ldmatrix.sync")
    b32 = TYPES["b32"]
    items = _registers(ins, ins.operands[0], count)
    writes = [machine.write(ins, item, b32) for item in items]
    targets = [machine.target(item) for item in items]
    read, sources = resolve(ins, machine, ins.operands[1], "shared")

    def run(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        at = _rows(ins, machine, count, ins.operands[1], lanes, read, "read")
        if machine.races is not None:
            rows = np.repeat(lanes.warps, len(at) // len(lanes.warps))
            machine.races.read_shared(ins, rows, at, 16)
        words, poison = machine.shared.load(at, 16)
        words = words.reshape(-1, count, 8, 4)
        if transposed:
            words = _transpose(words.view(np.uint16)).view(np.uint32)
        for j, write in enumerate(writes):
            write(lanes, words[:, j].reshape(-1))
        if poison is None:
            for target in targets:
                if target is not None and target.poison is not None:
                    target.clear(lanes)
            return
        halves = poison.reshape(-1, count, 8, 8, 2).any(axis=-1)
        if transposed:
            halves = np.swapaxes(halves, -1, -2)
        bad = halves.reshape(-1, count, 8, 4, 2).any(axis=-1)
        origin = ("CD-I3", f"loaded at PTX line {ins.line} from shared memory never written")
        for j, target in enumerate(targets):
            if target is not None:
                target.taint(lanes, bad[:, j].reshape(-1), origin, machine.total)

    return whole_warps(ins, machine, run)


@instruction("stmatrix.sync")
def _stmatrix(ins: Instruction, machine: Machine) -> Step:
    count, transposed = _parse(ins, "stmatrix.sync")
    b32 = TYPES["b32"]
    items = _registers(ins, ins.operands[1], count)
    reads = [machine.read(ins, item, b32) for item in items]
    registers = machine.sources(*items)
    read, sources = resolve(ins, machine, ins.operands[0], "shared")

    def run(lanes: Lanes) -> None:
        machine.demand(sources, lanes, "an address")
        at = _rows(ins, machine, count, ins.operands[0], lanes, read, "write")
        columns = [np.broadcast_to(r(lanes), (lanes.count,)).reshape(-1, 8, 4) for r in reads]
        words = np.stack(columns, axis=1)
        if transposed:
            words = _transpose(words.view(np.uint16)).view(np.uint32)
        machine.progress = True
        if machine.races is not None:
            rows = np.repeat(lanes.warps, len(at) // len(lanes.warps))
            machine.races.write_shared(ins, rows, at, 16, words.reshape(-1, 4))
        machine.shared.store(at, words.reshape(-1, 4), 16)
        machine.stamp_rows(lanes, at)
        if any(r.poison is not None and r.poisoned(lanes) is not None for r in registers):
            bad = np.zeros((len(at) // (8 * count), count, 8, 4), np.bool_)
            for j, register in enumerate(registers):
                found = register.poisoned(lanes)
                if found is not None:
                    bad[:, j] = found.reshape(-1, 8, 4)
            halves = np.repeat(bad, 2, axis=-1)
            if transposed:
                halves = np.swapaxes(halves, -1, -2)
            machine.shared.poison(at, np.repeat(halves, 2, axis=-1).reshape(-1, 16))

    return whole_warps(ins, machine, run)


@instruction("movmatrix.sync")
def _movmatrix(ins: Instruction, machine: Machine) -> Step:
    mods = ins.modifiers("movmatrix.sync")
    fine = mods.has("aligned") and mods.has("m8n8") and mods.has("trans")
    mods.type("b16")
    mods.done()
    ins.expect(2)
    if not fine:
        raise ins.unsupported("expected .aligned.m8n8.trans")
    b32 = TYPES["b32"]
    write, read = machine.write(ins, ins.operands[0], b32), machine.read(ins, ins.operands[1], b32)
    target, source = machine.sources(ins.operands[0]), machine.sources(ins.operands[1])

    def run(lanes: Lanes) -> None:
        machine.demand(source, lanes, "a matrix transpose")
        words = np.ascontiguousarray(np.broadcast_to(read(lanes), (lanes.count,))).reshape(-1, 8, 4)
        write(lanes, _transpose(words.view(np.uint16)).view(np.uint32).reshape(-1))
        for register in target:
            register.clear(lanes)

    return whole_warps(ins, machine, run)
