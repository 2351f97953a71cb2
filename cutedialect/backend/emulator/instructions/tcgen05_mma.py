"""tcgen05.mma (PTX ISA 9.7.16.10.9), dense, with and without block scaling, for one CTA and for a
pair, ``.ws`` included. Sparse A, K = 96 and zero-column masks are not known. Operands are read when
the instruction is issued; ``TensorPipes`` and ``TensorMemory`` see to it that nobody can tell.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from .. import tensor_numbers as numbers
from ..lanes import Array, Lanes, anywhere
from ..module import Address, Imm, Instruction, Operand, Reg, Vector
from ..shared import BARRIER, IN_FLIGHT, LOADING, UNSET
from ..tcgen05_descriptors import CHUNK, KINDS, Shape, decode_instruction, footprint, rows_of
from ..tensor_memory import Region
from ..types import TYPES
from .load_store import resolve
from .registry import instruction
from .tcgen05 import shifted, take_group

if TYPE_CHECKING:
    from ..machine import Machine, Step

_VECTORS = ("scale_vec::1X", "scale_vec::2X", "scale_vec::4X", "block16", "block32")
_COLLECTORS = tuple(
    f"collector::{buffer}::{use}"
    for buffer in ("a", "b0", "b1", "b2", "b3")
    for use in ("fill", "use", "lastuse", "discard")
)


@dataclass(frozen=True)
class _Form:
    """What the opcode says. ``factors``: scale factors along K, 0 without block scaling."""

    kind: str
    group: int
    stationary: bool
    shifts: bool
    factors: int


def _parse(ins: Instruction) -> _Form:
    mods = ins.modifiers("tcgen05.mma")
    stationary = mods.has("ws")
    if mods.has("sp"):
        raise ins.unsupported("sparse matrices")
    group = take_group(ins, mods)
    kind = mods.take(*(f"kind::{name}" for name in KINDS))
    scaled = mods.has("block_scale")
    vector = mods.take(*_VECTORS)
    shifts = mods.has("ashift")
    mods.take(*_COLLECTORS)
    mods.done()
    if kind is None:
        raise ins.unsupported(f"expected .kind::{', .kind::'.join(KINDS)}")
    name = kind.removeprefix("kind::")
    if KINDS[name].scaled != scaled or (vector is not None and not scaled):
        raise ins.unsupported("the mx kinds take .block_scale, and no others do")
    return _Form(name, group, stationary, shifts, _factors(ins, name, vector) if scaled else 0)


def _factors(ins: Instruction, kind: str, vector: str | None) -> int:
    """Scale factors of a row (PTX ISA 9.7.16.10.7.1)."""
    kinds: dict[str, dict[str | None, int]] = {
        "mxf8f6f4": {None: 1, "scale_vec::1X": 1, "block32": 1},
        "mxf4": {None: 2, "scale_vec::2X": 2, "block32": 2},
        "mxf4nvf4": {"scale_vec::2X": 2, "block32": 2, "scale_vec::4X": 4, "block16": 4},
    }
    allowed = kinds[kind]
    if vector not in allowed:
        names = ", ".join(f".{each}" for each in allowed if each)
        raise ins.unsupported(f"expected {names} with .kind::{kind}, got .{vector}")
    return allowed[vector]


class _Issue:
    """One instruction by one thread: the CTAs that it runs on, and the shapes."""

    def __init__(self, step: _Mma, lane: int, shape: Shape) -> None:
        machine, form = step.machine, step.form
        self.step, self.lane, self.shape = step, lane, shape
        own = int(machine.lane_cta[lane])
        self.warp = lane >> 5
        self.rows = [own] if form.group == 1 else [own & ~1, own | 1]
        if form.group == 2:
            machine.clusters.reach(np.array([self.warp]), np.array([own ^ 1]), counted=True)
        self.m = shape.m // form.group
        # How often the columns of D are folded over the lanes.
        half = form.group == 2 and shape.m == 128
        self.folds = 128 // self.m if form.stationary or half else 1
        self.number = machine.pipes.next_number(self.warp)
        self.chunks: list[Array] = []

    # Operands.

    def shared(self, bits: int, name: str, rows: int, type: str, mn_major: bool) -> tuple[Any, Any]:
        """``(numbers [rows * CTAs, K], bad rows or None)`` of a matrix in shared memory, ``rows``
        of them in each CTA."""
        machine, ins = self.step.machine, self.step.ins
        shared, dense = machine.shared, self.step.dense
        covered = footprint(bits, rows, mn_major, numbers.element_bytes(type))
        limit = (shared.size + shared.start) // CHUNK
        first, last = int(covered.distinct[0]), int(covered.distinct[-1])
        if first * CHUNK < shared.start or last >= limit:
            raise ins.error(
                "CD-C7",
                f"{name} covers shared addresses {first * CHUNK:#x} to {last * CHUNK + CHUNK:#x}, "
                f"outside the CTA's {shared.start:#x} to {shared.start + shared.size:#x} "
                f"({covered.matrix})",
            )
        found: list[Array] = []
        bad: list[Array] = []
        data, shadow = shared.words(CHUNK)
        used = numbers.data_bytes(type, dense)
        for cta in self.rows:
            base = cta * (shared.pitch // CHUNK) - shared.start // CHUNK
            distinct = covered.distinct + base
            head = f"tcgen05.mma reads {name} from"
            shared.refuse(distinct, IN_FLIGHT | LOADING | BARRIER, head)
            machine.demand_visible(
                np.array([self.warp]), distinct, f"tcgen05.mma operand {name}", "CD-A2"
            )
            self.chunks.append(distinct)
            size = numbers.element_bytes(type)
            rows_ = rows_of(data.take(covered.chunks + base, 0), mn_major, size)
            found.append(numbers.of_shared(rows_, type, dense))
            state = shadow.take(distinct, 0) & np.uint32(UNSET * 0x01010101)
            if anywhere(state):
                flags = rows_of(shadow.take(covered.chunks + base, 0), mn_major, size)
                bad.append(((flags & UNSET != 0) & used).any(axis=1))
            else:
                bad.append(np.zeros(rows, np.bool_))
        mask = np.concatenate(bad)
        return np.concatenate(found), mask if anywhere(mask) else None

    def _column(self, address: int, name: str, lanes: tuple[int, ...] = (0,)) -> int:
        if address >> 16 not in lanes:
            raise self.step.ins.error(
                "CD-D9",
                f"expected {name} from lane {' or '.join(map(str, lanes))} on, got address "
                f"{address:#x}",
            )
        return address & 0xFFFF

    def _lanes(self, address: int, name: str) -> tuple[Any, int]:
        """``(lanes, first column)`` of A or D (PTX ISA 9.7.16.10.5)."""
        if self.m == 64 and self.folds == 1:
            column = self._column(address, name, (0, 16))
            row = np.arange(64)
            return row % 16 + row // 16 * 32 + (address >> 16), column
        return slice(0, 128), self._column(address, name)

    def tensor_a(self, address: int) -> tuple[Any, Any]:
        """A in tensor memory: eight columns."""
        machine, ins = self.step.machine, self.step.ins
        lanes, column = self._lanes(address, "A")
        found: list[Array] = []
        bad: list[Array] = []
        for cta in self.rows:
            columns = machine.tensor.columns_of(ins, cta, column, 8, "A")
            region = Region(cta, lanes, columns)
            machine.tensor.begin(ins, self.warp, self.number, region, writes=False)
            words = machine.tensor.data[region.index]
            unset = machine.tensor.unset[region.index].any(axis=1)
            if self.folds > 1:
                if anywhere(words[:64] != words[64:]):
                    raise ins.error(
                        "CD-D9", "expected A twice in tensor memory, in lanes 0-63 and 64-127 (M = "
                        "128 of a CTA pair), got two that differ",
                    )  # fmt: skip
                words, unset = words[:64], unset[:64] | unset[64:]
            if self.step.form.shifts:
                words, unset = shifted(words), shifted(unset)
            found.append(numbers.of_tensor(words, self.shape.a, self.step.dense))
            bad.append(unset)
        mask = np.concatenate(bad)
        return np.concatenate(found), mask if anywhere(mask) else None

    def scales(self, address: int, name: str, extent: int, which: int) -> list[tuple[Any, Any]]:
        """Scale factors ``[extent, factors]`` for each CTA, with the rows that are poison (PTX ISA
        9.7.16.10.7): row r in lane r % 32 of column r / 32, the same in all quarters of the lanes,
        of which the two halves serve the halves of N where D is folded."""
        machine, ins, factors = self.step.machine, self.step.ins, self.step.form.factors
        column = self._column(address, name)
        halves = 2 if name == "scale-B" and self.folds == 2 else 1
        each = extent // halves
        wide = -(-each // 32)
        first = self.shape.scale_ids[which]
        if first + factors > 4:
            raise ins.error(
                "CD-D9",
                f"the instruction descriptor takes {factors} {name} factors from byte {first} on: "
                "expected them within a word",
            )
        found: list[tuple[Any, Any]] = []
        for cta in self.rows:
            columns = machine.tensor.columns_of(ins, cta, column, wide, name)
            region = Region(cta, slice(0, 128), columns)
            machine.tensor.begin(ins, self.warp, self.number, region, writes=False)
            words = machine.tensor.data[region.index].reshape(4, 32, wide).transpose(0, 2, 1)
            unset = machine.tensor.unset[region.index].reshape(4, 32, wide).transpose(0, 2, 1)
            # [quarter, rows]
            words, unset = (x.reshape(4, -1)[:, :each] for x in (words, unset))
            copies = words.reshape(halves, 4 // halves, each)
            if anywhere(copies != copies[:, :1]):
                raise ins.error(
                    "CD-D9",
                    f"expected the same {name} factors in every quarter of the lanes"
                    + (" that serves the same half of N" if halves == 2 else "")
                    + ", got some that differ: they have to be copied to all of them",
                )
            raw = np.ascontiguousarray(copies[:, 0].reshape(-1)).view(np.uint8).reshape(-1, 4)
            codes = raw[:, first : first + factors]
            bad = unset.reshape(halves, -1, each).any(axis=1).reshape(-1)
            found.append((numbers.scales_of(codes, self.shape.scale_type), bad))
        return found

    # The result.

    def fold(self, matrix: Array) -> Array:
        """``[m, n]`` of one CTA to lanes and columns."""
        if self.folds == 1:
            return matrix
        return np.concatenate(np.split(matrix, self.folds, axis=1), axis=0)

    def unfold(self, cells: Array) -> Array:
        if self.folds == 1:
            return cells
        return np.concatenate(np.split(cells, self.folds, axis=0), axis=1)

    def result(
        self, address: int, a: Array, b: Array, bad_a: Any, bad_b: Any, disabled: Array,
        accumulates: bool, scales: Any, halvings: int,
    ) -> None:  # fmt: skip
        """Multiply, and write D."""
        machine, ins, shape = self.step.machine, self.step.ins, self.shape
        lanes, column = self._lanes(address, "D")
        wide = shape.n // self.folds
        for i, cta in enumerate(self.rows):
            columns = machine.tensor.columns_of(ins, cta, column, wide, "D")
            region = Region(cta, lanes, columns)
            machine.tensor.begin(ins, self.warp, self.number, region, writes=True)
            part = slice(i * self.m, (i + 1) * self.m)
            left, right = a[part], b
            if scales is not None:
                left, right = self._scaled(left, right, scales, i)
            old: Any = None
            if accumulates:
                words = machine.tensor.data[region.index]
                old = self.unfold(numbers.accumulators(words, shape.d))
                old = np.ldexp(old, -halvings) if halvings else old
            values = numbers.add(left, right, old, shape.d, shape.saturates)
            fresh = self.fold(numbers.words_of(values))
            bad = self._bad(bad_a, bad_b, scales, i, part)
            unset = self.fold(bad)
            if accumulates:
                unset = unset | machine.tensor.unset[region.index]
            keep = self._kept(disabled, i, lanes)
            if keep is None:
                machine.tensor.data[region.index] = fresh
                machine.tensor.unset[region.index] = unset
            else:
                index = cta, np.arange(128)[lanes][keep], columns
                machine.tensor.data[index] = fresh[keep]
                machine.tensor.unset[index] = unset[keep]

    def _scaled(self, a: Array, b: Array, scales: Any, i: int) -> tuple[Array, Array]:
        (sfa, _), (sfb, _) = scales[0][i], scales[1][i]
        each = self.shape.k // self.step.form.factors
        return a * np.repeat(sfa, each, axis=1), b * np.repeat(sfb, each, axis=1)

    def _bad(self, bad_a: Any, bad_b: Any, scales: Any, i: int, part: slice) -> Array:
        bad = np.zeros((self.m, self.shape.n), np.bool_)
        if bad_a is not None:
            bad |= bad_a[part, None]
        if bad_b is not None:
            bad |= bad_b[None, :]
        if scales is not None:
            bad |= scales[0][i][1][:, None]
            bad |= scales[1][i][1][None, :]
        return bad

    @staticmethod
    def _kept(disabled: Array, i: int, lanes: Any) -> Array | None:
        """Which of ``lanes`` are written; None for all."""
        if disabled is None:
            return None
        words = np.ascontiguousarray(disabled[4 * i : 4 * i + 4])
        off = np.unpackbits(words.view(np.uint8), bitorder="little").astype(np.bool_)
        return ~off[lanes] if anywhere(off) else None


class _Mma:
    def __init__(self, ins: Instruction, machine: Machine) -> None:
        self.ins, self.machine, self.form = ins, machine, _parse(ins)
        self.dense = self.form.kind in ("mxf4", "mxf4nvf4")
        operands = list(ins.operands)
        if len(operands) < 5:
            raise ins.malformed("expected D, A, B, an instruction descriptor and a predicate")
        self._d, sources = self._address(operands[0])
        self.a_in_tensor = isinstance(operands[1], Address)
        read_a = self._address if self.a_in_tensor else self._descriptor
        self._a, more = read_a(operands[1])
        self._b, most = self._descriptor(operands[2])
        self._idesc = machine.read(ins, operands[3], TYPES["u32"])
        self._sources = [*sources, *more, *most, *machine.sources(operands[3])]
        rest = operands[4:]
        self._scales: list[Any] = []
        if self.form.factors:
            for operand in rest[:2]:
                read, found = self._address(operand)
                self._scales.append(read)
                self._sources += found
            rest = rest[2:]
        self._disable: list[Any] = []
        mask = rest[0] if rest else None
        if isinstance(mask, Vector):
            items, rest = mask.items, rest[1:]
            if len(items) != 4 * self.form.group or self.form.factors or self.form.stationary:
                raise ins.malformed(
                    f"expected {4 * self.form.group} registers as disabled lanes of a "
                    f".cta_group::{self.form.group} instruction without block scaling"
                )
            self._disable = [machine.read(ins, item, TYPES["b32"]) for item in items]
            self._sources += machine.sources(*items)
        if not rest:
            raise ins.malformed("expected a predicate")
        self._enable = machine.read(ins, rest[0], TYPES["pred"])
        self._enabling = machine.sources(rest[0])
        self.halvings = self._last(rest[1:])
        if self.form.shifts and not self.a_in_tensor:
            raise ins.unsupported(".ashift needs A in tensor memory")

    def _address(self, operand: Operand) -> tuple[Callable[[Lanes], Array], list[Any]]:
        return resolve(self.ins, self.machine, operand, "tensor")

    def _descriptor(self, operand: Operand) -> tuple[Callable[[Lanes], Array], list[Any]]:
        if not isinstance(operand, Reg) or operand.type.bits != 64:
            raise self.ins.malformed(f"expected a 64-bit matrix descriptor, got {operand}")
        return self.machine.read(self.ins, operand, TYPES["u64"]), self.machine.sources(operand)

    def _last(self, rest: list[Operand]) -> int:
        """scale-input-d."""
        if not rest:
            return 0
        if self.form.stationary:
            raise self.ins.unsupported("zero-column masks")
        value = rest[0]
        if len(rest) > 1 or not isinstance(value, Imm) or self.form.kind not in ("f16", "tf32"):
            raise self.ins.malformed("expected scale-input-d, with .kind::f16 or .kind::tf32")
        if not 0 <= int(value.value) <= 15:
            raise self.ins.malformed(f"expected scale-input-d from 0 to 15, got {value}")
        return int(value.value)

    def __call__(self, lanes: Lanes) -> None:
        machine = self.machine
        machine.demand(self._sources, lanes, "an operand of tcgen05.mma")
        machine.demand(self._enabling, lanes, "enable-input-d")

        def values(read: Callable[[Lanes], Array]) -> list[int]:
            return np.broadcast_to(read(lanes), (lanes.count,)).tolist()

        columns = [values(read) for read in (self._d, self._a, self._b, self._idesc)]
        enabled = values(self._enable)
        scales = [values(read) for read in self._scales]
        disabled: Array = None
        if self._disable:
            masks = [np.broadcast_to(read(lanes), (lanes.count,)) for read in self._disable]
            disabled = np.stack(masks, axis=1).astype(np.uint32)
        for i, lane in enumerate(lanes.index.tolist()):
            off = None if disabled is None else disabled[i]
            factors = [each[i] for each in scales]
            self._run(lane, [each[i] for each in columns], bool(enabled[i]), factors, off)

    def _run(
        self, lane: int, operands: list[int], accumulates: bool, factors: list[int], off: Array
    ) -> None:
        d, a_place, b_place, idesc = operands
        form = self.form
        shape = decode_instruction(idesc, form.kind, form.group, form.stationary)
        if form.shifts and shape.m == 64:
            raise self.ins.error("CD-D9", "expected M = 128 or 256 with .ashift, got 64")
        self.machine.tensor.make()
        issue = _Issue(self, lane, shape)
        self.machine.pipes.accumulate(issue.warp, issue.number, (form.group, shape.m, shape.n, d))
        if self.a_in_tensor:
            if shape.transposed[0]:
                raise self.ins.error("CD-D9", "expected a K-major A in tensor memory")
            if form.stationary and shape.m != 128:
                raise self.ins.unsupported(f".ws with M = {shape.m} and A in tensor memory")
            a, bad_a = issue.tensor_a(a_place)
        else:
            a, bad_a = issue.shared(a_place, "A", issue.m, shape.a, shape.transposed[0])
        rows = shape.n // form.group
        b, bad_b = issue.shared(b_place, "B", rows, shape.b, shape.transposed[1])
        if shape.negate[0] != shape.negate[1]:
            a = -a
        scales: Any = None
        if form.factors:
            scales = (
                issue.scales(factors[0], "scale-A", issue.m, 0),
                issue.scales(factors[1], "scale-B", shape.n, 1),
            )
            if shape.scale_type == "ue4m3" and form.factors != 4:
                raise self.ins.error("CD-D9", "ue4m3 scale factors need .block16 (.scale_vec::4X)")
        issue.result(d, a, b, bad_a, bad_b, off, accumulates, scales, self.halvings)
        timeline = self.machine.timeline
        if timeline is not None:
            timeline.multiply(self.machine, issue.warp, issue.m, shape.n)
        self.machine.pipes.issue(self.ins, lane, issue.chunks)


@instruction("tcgen05.mma")
def _mma(ins: Instruction, machine: Machine) -> Step:
    return _Mma(ins, machine)
