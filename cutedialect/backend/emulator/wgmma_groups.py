"""What warpgroups have in flight (PTX ISA 9.7.15): groups of ``wgmma.mma_async``, the accumulators
and A fragments that they own until waited for, and the order that ``wgmma.fence`` makes. Values of
an accumulator stay in one dense matrix until an ordinary instruction names one of its registers.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .lanes import Array, Lanes, anywhere, distinct, everywhere
from .module import Instruction, Module, Reg, Vector
from .registers import Register
from .shared import CHUNK, READING

if TYPE_CHECKING:
    from .machine import Machine, Step

ACCUMULATOR: dict[str, Any] = {"f32": np.float32, "f16": np.float16, "s32": np.int32}

# (registers, accumulator type or None for an A fragment)
BlockKey = tuple[tuple[Reg, ...], str | None]


@functools.lru_cache(maxsize=32)
def _blocks(module: Module, entry: str) -> tuple[BlockKey, ...]:
    """The register vectors that the wgmma instructions of a kernel, and of device functions, own
    while in flight."""
    found: dict[BlockKey, None] = {}
    others = {f.name for f in module.functions.values() if f.is_entry and f.name != entry}
    for ins in module.code:
        if not ins.opcode.startswith("wgmma.mma_async") or ins.function in others:
            continue
        parts = ins.opcode.split(".")
        kind = next((part for part in parts if part in ACCUMULATOR), None)
        for operand, of in zip(ins.operands, (kind, None), strict=False):
            if isinstance(operand, Vector) and all(isinstance(i, Reg) for i in operand.items):
                found[operand.items, of] = None  # type: ignore[index]
    return tuple(found)


class Block:
    """Registers that a wgmma owns together. One entry a warpgroup: ``last`` is the youngest group
    that uses them, ``unordered`` tells that a wgmma has used them since the last fence. One entry a
    warp: ``dirty`` tells that other code has.
    """

    def __init__(self, registers: tuple[Register, ...], warps: int, groups: int) -> None:
        self.registers = registers
        self.overlaps: tuple[Block, ...] = ()
        self.last = np.full(groups, -1, np.int64)
        self.unordered = np.zeros(groups, np.bool_)
        self.dirty = np.ones(warps, np.bool_)
        self.toucher: Instruction | None = None
        self.user: Instruction | None = None


class Accumulator(Block):
    """``values[g]`` is the 64 x N matrix of warpgroup g where ``held``; elsewhere the registers
    hold it. ``bad`` marks its poison elements (None: there are none), ``whole`` the warpgroups that
    have integers only.
    """

    def __init__(self, registers: tuple[Register, ...], warps: int, groups: int, kind: str) -> None:
        super().__init__(registers, warps, groups)
        self.packed = 2 if kind == "f16" else 1
        self.n = len(registers) * 2 * self.packed
        self.values: Array = np.zeros((groups, 64, self.n), ACCUMULATOR[kind])
        self.held = np.zeros(groups, np.bool_)
        self.holding = False
        self.whole = np.zeros(groups, np.bool_)
        self.bad: Array = None
        self.origin: tuple[str, str] | None = None

    def push(self, groups: Array, lanes: Lanes, total: int) -> None:
        """Values of ``groups``, whose threads are ``lanes``, to the registers."""
        words = self._to_registers(self.values[groups]).view(np.uint32)
        bad: Array = None if self.bad is None else self.bad[groups]
        if bad is not None:
            bad = self._to_registers(bad) if anywhere(bad) else None
            if bad is not None and self.packed == 2:
                bad = bad.reshape(len(bad), -1, 2).any(axis=2)
        for i, register in enumerate(self.registers):
            register.bits[lanes.sel] = words[i]
            if bad is not None and anywhere(bad[i]):
                register.taint(lanes, bad[i], self.origin, total)
            elif register.poison is not None:
                register.clear(lanes)
        self.held[groups] = False
        self.holding = anywhere(self.held)

    def pull(self, groups: Array, lanes: Lanes) -> None:
        """The reverse: values of ``groups`` from the registers, poison included."""
        words = np.stack([register.bits[lanes.sel] for register in self.registers])
        values = self._from_registers(words.view(self.values.dtype), len(groups))
        self.values[groups] = values
        self.whole[groups] = (np.rint(values) == values).all(axis=(1, 2))
        found: Array = None
        for i, register in enumerate(self.registers):
            poison = register.poisoned(lanes)
            if poison is not None:
                if found is None:
                    found = np.zeros((len(self.registers), lanes.count), np.bool_)
                    self.origin = register.why()
                found[i] = poison
        if found is not None:
            if self.packed == 2:
                found = np.repeat(found, 2, axis=1)
            self.taint(groups, self._from_registers(found, len(groups)), self.origin)
        elif self.bad is not None:
            self.bad[groups] = False

    def taint(self, groups: Array, bad: Array, origin: tuple[str, str] | None) -> None:
        """Set which elements of ``groups`` are poison."""
        if self.bad is None:
            self.bad = np.zeros(self.values.shape, np.bool_)
        self.bad[groups] = bad
        self.origin = origin
        if not anywhere(self.bad):
            self.bad = None

    # A thread of warp w holds rows 16w + g and 8 below, columns 8j + 2q and the next, with
    # g = lane / 4 and q = lane % 4; values are numbered j, row, column, and pairs of f16 packed.

    def _to_registers(self, matrix: Array) -> Array:
        """``[groups, 64, n]`` to ``[registers, lanes (* 2 if packed)]``."""
        parts = matrix.reshape(-1, 4, 2, 8, self.n // 8, 4, 2)
        order = (4, 2, 0, 1, 3, 5, 6) if self.packed == 2 else (4, 2, 6, 0, 1, 3, 5)
        return np.ascontiguousarray(parts.transpose(order)).reshape(len(self.registers), -1)

    def _from_registers(self, rows: Array, groups: int) -> Array:
        """``[registers, lanes (* 2 if packed)]`` to ``[groups, 64, n]``."""
        if self.packed == 2:
            parts = rows.reshape(self.n // 8, 2, groups, 4, 8, 4, 2)
            matrix = parts.transpose(2, 3, 1, 4, 0, 5, 6)
        else:
            parts = rows.reshape(self.n // 8, 2, 2, groups, 4, 8, 4)
            matrix = parts.transpose(3, 4, 1, 5, 0, 6, 2)
        return matrix.reshape(groups, 64, self.n)


@dataclass
class SharedReads:
    """Chunks that an instruction reads: ``chunks[i]`` for the warpgroups whose ``row`` is i (-1:
    none of these), of which ``left[i]`` have yet to wait.
    """

    chunks: Array
    row: Array
    left: Array


@dataclass
class _InFlight:
    ins: Instruction
    groups: Array
    number: Array
    reads: list[SharedReads]


class Warpgroups:
    """Warpgroup g of the batch is four consecutive warps of a CTA, from a warp that is a multiple
    of four; the last warps of a CTA with fewer than four more are in none.
    """

    def __init__(self, machine: Machine) -> None:
        self._machine = machine
        self.per_cta = machine.warps // 4
        count = machine.ctas * self.per_cta
        warp = np.arange(machine.ctas * machine.warps)
        cta, local = warp // machine.warps, warp % machine.warps
        self.of_warp = np.where(local // 4 < self.per_cta, cta * self.per_cta + local // 4, -1)
        group = np.arange(count)
        per_cta = max(self.per_cta, 1)
        self.first_lane = (group // per_cta * machine.warps + group % per_cta * 4) * 32
        self._committed = np.zeros(count, np.int64)
        self._completed = np.zeros(count, np.int64)
        self._flying: list[_InFlight] = []
        self._blocks: dict[BlockKey, Block] = {}
        self._of_slot: dict[int, list[Block]] = {}
        machine.shared.explain.append(self._explain)
        for registers, kind in _blocks(machine.module, machine.image.entry):
            self._add(registers, kind, len(warp), count)

    def _add(self, items: tuple[Reg, ...], kind: str | None, warps: int, groups: int) -> None:
        registers = tuple(self._machine.register(item) for item in items)
        if kind is None:
            block = Block(registers, warps, groups)
        elif len(registers) % (2 if kind == "f16" else 4) == 0:
            block = Accumulator(registers, warps, groups, kind)
        else:
            return
        self._blocks[items, kind] = block
        others: list[Block] = []
        for item in items:
            here = self._of_slot.setdefault(item.slot, [])
            others += [o for o in here if o not in others and o is not block]
            here.append(block)
        block.overlaps = tuple(others)
        for other in others:
            other.overlaps = (*other.overlaps, block)

    def accumulator(self, items: tuple[Any, ...], kind: str) -> Accumulator:
        block = self._blocks[items, kind]
        assert isinstance(block, Accumulator)
        return block

    def fragment(self, items: tuple[Any, ...]) -> Block:
        return self._blocks[items, None]

    # Membership.

    def of(self, lanes: Lanes) -> Array:
        """The warpgroups that make up ``lanes``, or None if one is incomplete."""
        if lanes.groups is None:
            lanes.groups = self._divide(lanes)
        return None if lanes.groups is False else lanes.groups

    def _divide(self, lanes: Lanes) -> Any:
        if lanes.count % 128 or not lanes.whole:
            return False
        groups = self.of_warp[lanes.warps].reshape(-1, 4)
        first = groups[:, 0]
        return first if everywhere(first >= 0) and everywhere(groups == first[:, None]) else False

    def touched(self, lanes: Lanes) -> Array:
        """The warpgroups that have a thread in ``lanes``."""
        whole = self.of(lanes)
        if whole is not None:
            return whole
        groups = distinct(self.of_warp[lanes.warps])
        return groups[groups >= 0]

    def lanes_of(self, groups: Array) -> Lanes:
        index = (self.first_lane[groups][:, None] + np.arange(128)).reshape(-1)
        return Lanes.of(index, self._machine.total)

    def warps_of(self, groups: Array) -> Array:
        return ((self.first_lane[groups] >> 5)[:, None] + np.arange(4)).reshape(-1)

    def describe(self, group: int) -> str:
        cta = self._machine.describe_cta(group // self.per_cta)
        return f"CTA {cta}, warpgroup {group % self.per_cta}"

    # Registers.

    def watch(self, ins: Instruction, step: Step) -> Step:
        """``step`` for an ordinary instruction: it may not touch registers of a wgmma in flight,
        and what it touches needs a fence before the next wgmma."""
        if not self._blocks or ins.opcode.startswith("wgmma"):
            return step
        if ins.opcode.startswith(("call", "ret")):

            def settling(lanes: Lanes) -> Any:
                self._settle()
                return step(lanes)

            return settling
        from .machine import collect_registers

        named: dict[int, Reg] = {}
        collect_registers(ins.operands, named)
        registers = list(named.values())
        blocks = list({id(b): b for r in registers for b in self._of_slot.get(r.slot, ())}.values())
        if not blocks:
            return step
        names = {r.name for r in registers}

        def touching(lanes: Lanes) -> Any:
            for block in blocks:
                if self._flying:
                    self._refuse_in_flight(ins, block, lanes, names)
                if isinstance(block, Accumulator) and block.holding:
                    self._flush(block, self.touched(lanes))
                block.dirty[lanes.warps] = True
                block.toucher = ins
            return step(lanes)

        return touching

    def _refuse_in_flight(
        self, ins: Instruction, block: Block, lanes: Lanes, names: set[str]
    ) -> None:
        groups = self.touched(lanes)
        wrong = block.last[groups] >= self._completed[groups]
        if not anywhere(wrong):
            return
        group = int(groups[np.argmax(wrong)])
        name = next((r.name for r in block.registers if r.name in names), "a register")
        what = "accumulator" if isinstance(block, Accumulator) else "A fragment"
        missing = "wgmma.wait_group"
        if block.last[group] >= self._committed[group]:
            missing = "wgmma.commit_group and wgmma.wait_group"
        assert block.user is not None
        raise ins.error(
            "CD-C2",
            f"{ins.opcode} touches {name}, of the {what} of the wgmma at PTX line "
            f"{block.user.line}, which is in flight: expected {missing} before it "
            f"({self.describe(group)})",
        )

    def _flush(self, block: Accumulator, groups: Array) -> None:
        held = groups[block.held[groups]]
        if len(held):
            block.push(held, self.lanes_of(held), self._machine.total)

    def _settle(self) -> None:
        """All finished results to their registers."""
        for block in self._blocks.values():
            if isinstance(block, Accumulator) and block.holding:
                done = block.held & (block.last < self._completed)
                self._flush(block, np.flatnonzero(done))

    # The life of an instruction.

    def claim(self, ins: Instruction, block: Block, groups: Array, lanes: Lanes) -> None:
        """Check that a wgmma may use ``block`` now, and bring values that other accumulators hold
        of its registers into them. Raises CD-C1 (a fence is missing) or CD-C2."""
        if anywhere(block.dirty[lanes.warps]):
            self._refuse_unfenced(ins, block, lanes)
        for other in block.overlaps:
            if not isinstance(block, Accumulator) and not isinstance(other, Accumulator):
                continue
            if anywhere(other.unordered[groups]):
                assert other.user is not None
                raise ins.error(
                    "CD-C1",
                    f"this wgmma shares registers with the wgmma at PTX line {other.user.line} in "
                    "another role or shape: expected wgmma.fence between them",
                )
            if not isinstance(other, Accumulator):
                continue
            if not isinstance(block, Accumulator):
                wrong = other.last[groups] >= self._completed[groups]
                if anywhere(wrong):
                    assert other.user is not None
                    raise ins.error(
                        "CD-C2",
                        f"the A fragment is the accumulator of the wgmma at PTX line "
                        f"{other.user.line}, which is in flight: expected wgmma.wait_group before "
                        f"it ({self.describe(int(groups[np.argmax(wrong)]))})",
                    )
            if other.holding:
                self._flush(other, groups)

    def _refuse_unfenced(self, ins: Instruction, block: Block, lanes: Lanes) -> None:
        if block.toucher is None:
            why = "no wgmma.fence comes before the first wgmma"
        else:
            name = block.registers[0].name
            why = (
                f"the instruction at PTX line {block.toucher.line} has touched the registers of "
                f"{name} since the last wgmma.fence"
            )
        warp = int(lanes.warps[np.argmax(block.dirty[lanes.warps])])
        raise ins.error(
            "CD-C1",
            f"{why}: expected wgmma.fence before this instruction "
            f"({self._machine.describe_lane(warp * 32)})",
        )

    def hold(self, block: Accumulator, groups: Array, lanes: Lanes) -> None:
        """Let ``block.values`` hold the accumulators of ``groups``, read from the registers where
        they do not yet."""
        held = block.held[groups]
        if not everywhere(held):
            if anywhere(held):
                rest = groups[~held]
                block.pull(rest, self.lanes_of(rest))
            else:
                block.pull(groups, lanes)

    def issue(
        self, ins: Instruction, blocks: list[Block], groups: Array, reads: list[SharedReads]
    ) -> None:
        """``blocks`` and ``reads`` are in flight from now on, in the open group."""
        number = self._committed[groups]
        for block in blocks:
            block.last[groups] = number
            block.unordered[groups] = True
            block.user = ins
            if isinstance(block, Accumulator):
                block.held[groups] = True
                block.holding = True
        for part in reads:
            self._machine.shared.begin_read(part.chunks.reshape(-1))
        self._flying.append(_InFlight(ins, groups, number, reads))

    def fence(self, groups: Array, lanes: Lanes) -> None:
        for block in self._blocks.values():
            block.dirty[lanes.warps] = False
            block.unordered[groups] = False

    def commit(self, groups: Array) -> None:
        self._committed[groups] += 1

    def wait(self, groups: Array, allowed: int) -> None:
        """Complete all groups of ``groups`` but the ``allowed`` youngest committed ones."""
        done = np.maximum(self._completed[groups], self._committed[groups] - allowed)
        self._completed[groups] = done
        if not self._flying:
            return
        waiting = np.zeros(len(self._completed), np.bool_)
        waiting[groups] = True
        keep: list[_InFlight] = []
        for item in self._flying:
            due = waiting[item.groups] & (item.number < self._completed[item.groups])
            if anywhere(due):
                self._retire(item, due)
                if everywhere(due):
                    continue
                rest = ~due
                reads = [SharedReads(r.chunks, r.row[rest], r.left) for r in item.reads]
                item = _InFlight(item.ins, item.groups[rest], item.number[rest], reads)
            keep.append(item)
        self._flying = keep

    def _retire(self, item: _InFlight, due: Array) -> None:
        races = self._machine.races
        for part in item.reads:
            rows = part.row[due]
            if races is not None:
                for group, row in zip(item.groups[due], rows, strict=True):
                    if row >= 0:
                        warps = self.warps_of(np.array([group]))
                        races.read_by_multiply(item.ins, warps, part.chunks[row].reshape(-1))
            np.subtract.at(part.left, rows[rows >= 0], 1)
            over = part.left == 0
            if anywhere(over):
                self._machine.shared.end_read(part.chunks[over].reshape(-1))
                part.left[over] = -1

    def _explain(self, at: int, flags: int) -> tuple[str, str] | None:
        """Who reads the byte at a shared offset."""
        for item in self._flying if flags & READING else ():
            for part in item.reads:
                rows = np.flatnonzero((part.chunks == at // CHUNK).any(axis=1) & (part.left > 0))
                if len(rows):
                    group = int(item.groups[part.row == rows[0]][0])
                    return "CD-C3", (
                        f"the wgmma at PTX line {item.ins.line} may still read it "
                        f"({self.describe(group)}): expected wgmma.wait_group, then a barrier, "
                        "before it"
                    )
        return None

    def finish(self) -> int:
        """How many instructions were never waited for, at the end of the CTAs."""
        return len(self._flying)
