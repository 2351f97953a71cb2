"""wgmma.mma_async, fence, commit_group and wait_group (PTX ISA 9.7.15), dense. Integers wrap, or
saturate with ``.satfinite``; floating-point sums have the bits that an H100 gives them
(``wgmma_rounding``). Operands are read when the instruction is issued, and their bytes may not be
written until it has been waited for.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import ml_dtypes
import numpy as np

from ..convergence import whole_warpgroups
from ..fragments import operand_a
from ..lanes import Array, Lanes, anywhere, distinct, everywhere
from ..module import Imm, Instruction, Operand, Reg, Vector
from ..shared import BARRIER, IN_FLIGHT, LOADING, READING, UNSET
from ..smem_descriptor import CHUNK, footprint, rows_of
from ..types import TYPES
from ..wgmma_groups import Block, SharedReads
from ..wgmma_rounding import add_products, round_sum, unit, whole
from .mma import decode, round_result
from .registry import instruction

if TYPE_CHECKING:
    from ..machine import Machine, Step

# What a reader asks of shared bytes: all but that others read them too.
_TELLING = np.uint32(~READING & 0xFF) * np.uint32(0x01010101)
# Warpgroups to multiply in one go: more would not stay in the processor's cache.
_AT_ONCE = 16
_EVERY_8 = frozenset(range(8, 257, 8))
_INTEGER_N = frozenset((8, 24, *range(16, 257, 16)))


@dataclass(frozen=True)
class _Kind:
    """A row of the table of types: K, the accumulators, N, which immediates follow scale-d."""

    bits: int
    accumulators: tuple[str, ...]
    n: frozenset[int]
    scales: bool
    transposes: bool

    @property
    def k(self) -> int:
        return 256 // self.bits


_F16 = _Kind(16, ("f16", "f32"), _EVERY_8, True, True)
_BF16 = _Kind(16, ("f32",), _EVERY_8, True, True)
_TF32 = _Kind(32, ("f32",), _EVERY_8, True, False)
_FP8 = _Kind(8, ("f16", "f32"), _EVERY_8, True, False)
_INT8 = _Kind(8, ("s32",), _INTEGER_N, False, False)
_B1 = _Kind(1, ("s32",), _INTEGER_N, False, False)
_KINDS = {
    "f16": _F16, "bf16": _BF16, "tf32": _TF32, "e4m3": _FP8, "e5m2": _FP8, "s8": _INT8,
    "u8": _INT8, "b1": _B1,
}  # fmt: skip


def _table(dtype: Any) -> Array:
    return np.arange(256, dtype=np.uint8).view(dtype).astype(np.float64)


_FP8_VALUES = {
    "e4m3": _table(ml_dtypes.float8_e4m3fn), "e5m2": _table(ml_dtypes.float8_e5m2),
}  # fmt: skip


@dataclass(frozen=True)
class _Shape:
    n: int
    kind: _Kind
    d: str
    a: str
    b: str
    saturate: bool


def _parse(ins: Instruction) -> _Shape:
    mods = ins.modifiers("wgmma.mma_async")
    if mods.has("sp"):
        raise ins.unsupported("sparse matrices")
    collective = mods.has("sync") and mods.has("aligned")
    found = re.search(r"\.m64n(\d+)k(\d+)(?=\.|$)", ins.opcode)
    if not collective or found is None:
        raise ins.unsupported("expected .sync.aligned and a shape m64nNkK")
    mods.has(found.group()[1:])
    n, k = int(found.group(1)), int(found.group(2))
    saturate = mods.has("satfinite")
    d = mods.take("f32", "f16", "s32")
    a, b = mods.take(*_KINDS), mods.take(*_KINDS)
    popc = mods.has("and") and mods.has("popc")
    mods.done()
    if d is None or a is None or b is None:
        raise ins.unsupported("expected the types of D, A and B")
    kind = _KINDS[a]
    if _KINDS[b] is not kind or (kind.bits > 8 and a != b) or d not in kind.accumulators:
        raise ins.unsupported(f"operand types .{d}.{a}.{b}")
    if k != kind.k or n not in kind.n:
        raise ins.unsupported(f"m64n{n}k{k} of .{a}; expected k{kind.k} and n in {_list(kind.n)}")
    if popc != (kind is _B1) or (saturate and kind is not _INT8):
        raise ins.unsupported("unknown combination")
    return _Shape(n, kind, d, a, b, saturate)


def _list(numbers: frozenset[int]) -> str:
    return "8 to 256 by 8" if numbers == _EVERY_8 else "8, 24 and 16 to 256 by 16"


def _constant(ins: Instruction, operand: Operand, name: str, *allowed: int) -> int:
    if not isinstance(operand, Imm) or operand.kind != "int" or operand.value not in allowed:
        expected = " or ".join(map(str, allowed))
        raise ins.malformed(f"expected {expected} as {name}, got {operand}")
    return int(operand.value)


def numbers_of(rows: Array, type: str) -> Array:
    """``[..., 32]`` bytes along K to ``[..., K]`` numbers in f64."""
    if type == "bf16":
        wide = rows.view(np.uint16).astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    if type in _FP8_VALUES:
        return _FP8_VALUES[type].take(rows)
    return decode(rows.view(np.uint32), type)


class _SharedOperand:
    """An operand behind a matrix descriptor: ``extent`` rows of 32 bytes."""

    def __init__(
        self, ins: Instruction, machine: Machine, operand: Operand, name: str,
        extent: int, type: str, mn_major: bool,
    ) -> None:  # fmt: skip
        self.ins, self.machine, self.name = ins, machine, name
        self.extent, self.type, self.mn_major = extent, type, mn_major
        if not isinstance(operand, Reg) or operand.type.bits != 64:
            raise ins.malformed(f"expected a 64-bit descriptor as {name}, got {operand}")
        self.read = machine.read(ins, operand, TYPES["u64"])
        self.sources = machine.sources(operand)

    def load(self, lanes: Lanes, groups: Array) -> tuple[Array, Array, Array, list[SharedReads]]:
        """``(numbers [u, extent, K], bad, which, reads)``: the distinct operands, one bool a row
        (or None) of those that are poison, and which of them each warpgroup has.
        """
        machine, shared = self.machine, self.machine.shared
        machine.demand(self.sources, lanes, f"the descriptor of {self.name}")
        bits = _uniform(self.ins, machine, self.read(lanes), lanes, f"descriptors of {self.name}")
        keys = list(zip((groups // machine.wgmma.per_cta).tolist(), bits.tolist(), strict=True))
        distinct = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        which = np.array([distinct[key] for key in keys])
        prints = [footprint(descriptor, self.extent, self.mn_major) for _, descriptor in distinct]
        limit = (shared.size + shared.start) // CHUNK
        for (cta, _), covered in zip(distinct, prints, strict=True):
            if covered.distinct[0] * CHUNK < shared.start or covered.distinct[-1] >= limit:
                first, last = int(covered.distinct[0]), int(covered.distinct[-1])
                raise self.ins.error(
                    "CD-C7",
                    f"{self.name} covers shared addresses {first * CHUNK:#x} to "
                    f"{last * CHUNK + CHUNK:#x}, outside the CTA's {shared.start:#x} to "
                    f"{shared.start + shared.size:#x} (CTA {machine.describe_cta(cta)}; "
                    f"{covered.descriptor})",
                )
        base = np.array([cta * (shared.pitch // CHUNK) for cta, _ in distinct])
        base -= shared.start // CHUNK
        if all(covered is prints[0] for covered in prints):
            chunks = prints[0].chunks[None] + base[:, None, None]
        else:
            chunks = np.stack([covered.chunks for covered in prints]) + base[:, None, None]
        data, shadow = shared.words(CHUNK)
        bad: Array = None
        for i, covered in enumerate(prints):
            first, last = int(covered.distinct[0] + base[i]), int(covered.distinct[-1] + base[i])
            if anywhere(shadow[first : last + 1] & _TELLING):
                bad = self._poison(shadow, chunks)
                break
        for i, covered in enumerate(prints):
            readers = machine.wgmma.warps_of(groups[which == i])
            machine.demand_visible(
                readers, covered.distinct + base[i], f"wgmma operand {self.name}", "CD-A2"
            )
        raw = data.take(chunks, 0)
        numbers = numbers_of(rows_of(raw, self.mn_major), self.type)
        return numbers, bad, which, self._reads(prints, base, which)

    def _poison(self, shadow: Array, chunks: Array) -> Array:
        """Rows that have an element never written; refuses bytes that are in flight."""
        shared = self.machine.shared
        shared.refuse(
            distinct(chunks), IN_FLIGHT | LOADING | BARRIER, f"wgmma reads {self.name} from"
        )
        unset = rows_of(shadow.take(chunks, 0) & np.uint32(UNSET * 0x01010101), self.mn_major)
        bad = (unset != 0).any(axis=2)
        return bad if anywhere(bad) else None

    def _reads(self, prints: list[Any], base: Array, which: Array) -> list[SharedReads]:
        """Parts in which no chunk occurs twice: at most one operand of each CTA."""
        left = np.bincount(which, minlength=len(prints))
        rounds: list[list[int]] = []
        seen: dict[int, int] = {}
        for i, start in enumerate(base.tolist()):
            turn = seen[start] = seen.get(start, -1) + 1
            if turn == len(rounds):
                rounds.append([])
            rounds[turn].append(i)
        found: list[SharedReads] = []
        for members in rounds:
            by_size: dict[int, list[int]] = {}
            for i in members:
                by_size.setdefault(len(prints[i].distinct), []).append(i)
            for same in by_size.values():
                row = np.full(len(prints), -1)
                row[same] = np.arange(len(same))
                chunks = np.stack([prints[i].distinct + base[i] for i in same])
                found.append(SharedReads(chunks, row[which], left[same]))
        return found


class _RegisterOperand:
    """A in registers: four a thread, as the A operand of mma.sync for the warp's 16 rows."""

    def __init__(
        self, ins: Instruction, machine: Machine, operand: Vector, type: str, kind: _Kind
    ) -> None:
        if len(operand.items) != 4:
            raise ins.malformed(f"expected 4 registers as A, got {len(operand.items)}")
        b32 = TYPES["b32"]
        self.ins, self.type = ins, type
        self.reads = [machine.read(ins, item, b32) for item in operand.items]
        self.block = machine.wgmma.fragment(operand.items)
        _, position = operand_a(16, kind.k, kind.bits)
        # Elements that share a register move together.
        each = 32 // kind.bits
        self.word = position[:, ::each] // each

    def load(self, lanes: Lanes, groups: Array) -> tuple[Array, Array]:
        """``(numbers [groups, 64, K], bad)`` as of ``_SharedOperand``."""
        words = np.stack([read(lanes).reshape(-1, 32) for read in self.reads], axis=1)
        rows = words.reshape(len(words), -1)[:, self.word].reshape(len(groups), 64, 8)
        found = np.zeros(words.shape, np.bool_)
        for i, register in enumerate(self.block.registers):
            poison = register.poisoned(lanes)
            if poison is not None:
                found[:, i] = poison.reshape(-1, 32)
        bad: Array = None
        if anywhere(found):
            bad = found.reshape(len(words), -1)[:, self.word].any(axis=2).reshape(len(groups), 64)
        return numbers_of(rows.view(np.uint8), self.type), bad

    def origin(self, lanes: Lanes) -> tuple[str, str] | None:
        for register in self.block.registers:
            if register.poisoned(lanes) is not None:
                return register.why()
        return None


def _uniform(ins: Instruction, machine: Machine, values: Array, lanes: Lanes, what: str) -> Array:
    """One value a warpgroup. CD-C5 if its threads disagree."""
    if len(values) == 1:
        return np.broadcast_to(values, (lanes.count // 128,))
    table = values.reshape(-1, 128)
    wrong = table != table[:, :1]
    if anywhere(wrong):
        row, column = (int(i) for i in np.argwhere(wrong)[0])
        one, other = (machine.describe_lane(int(lanes.index[row * 128 + c])) for c in (0, column))
        raise ins.error(
            "CD-C5",
            f"expected the same {what} in all threads of a warpgroup, got {table[row, 0]} in {one} "
            f"and {table[row, column]} in {other}",
        )
    return table[:, 0]


def _multiply(a: Array, b: Array, which: Array) -> Array:
    """``a [groups, 64, K]`` times ``b [u, N, K]`` transposed, of which group g takes
    ``b[which[g]]``."""
    groups, least = len(a), int(which.min())
    b = b[least : int(which.max()) + 1]
    share = groups // len(b)
    if share > 1 and everywhere(which - least == np.arange(groups) // share):
        joined = a.reshape(len(b), share * 64, a.shape[2])
        return np.matmul(joined, np.swapaxes(b, 1, 2)).reshape(groups, 64, -1)
    if share != 1 or anywhere(which - least != np.arange(groups)):
        b = b[which - least]
    return np.matmul(a, np.swapaxes(b, 1, 2))


def _check_count(ins: Instruction, kind: _Kind) -> None:
    from_registers = len(ins.operands) > 1 and isinstance(ins.operands[1], Vector)
    transposes = (1 if from_registers else 2) if kind.transposes else 0
    ins.expect(4 + 2 * kind.scales + transposes)


def _constants(
    ins: Instruction, kind: _Kind, constants: list[Operand]
) -> tuple[list[bool], list[bool]]:
    """Whether A and B are negated, and whether they are MN-major."""
    negative, transposed = [False, False], [False, False]
    if kind.scales:
        for i, name in enumerate(("imm-scale-a", "imm-scale-b")):
            negative[i] = _constant(ins, constants[i], name, -1, 1) < 0
    rest = constants[2:]
    for side, operand in zip((0, 1)[-len(rest) :], rest, strict=True) if rest else ():
        transposed[side] = _constant(ins, operand, f"imm-trans-{'ab'[side]}", 0, 1) == 1
    return negative, transposed


@instruction("wgmma.mma_async")
def _mma_async(ins: Instruction, machine: Machine) -> Step:
    shape = _parse(ins)
    kind, n = shape.kind, shape.n
    _check_count(ins, kind)
    d, a_place, b_place, scale_d, *constants = ins.operands
    negative, transposed = _constants(ins, kind, constants)
    count = n // 4 if shape.d == "f16" else n // 2
    if not isinstance(d, Vector) or len(d.items) != count:
        got = len(d.items) if isinstance(d, Vector) else 1
        raise ins.malformed(f"expected {count} registers as D, got {got}")
    slots = {item.slot for item in d.items if isinstance(item, Reg) and item.type.bits == 32}
    if len(slots) != count:
        raise ins.malformed("expected distinct 32-bit registers as D")
    state = machine.wgmma
    target = state.accumulator(d.items, shape.d)
    b_operand = _SharedOperand(ins, machine, b_place, "B", n, shape.b, transposed[1])
    a_operand: _SharedOperand | _RegisterOperand
    blocks: list[Block] = [target]
    if isinstance(a_place, Vector):
        a_operand = _RegisterOperand(ins, machine, a_place, shape.a, kind)
        blocks.append(a_operand.block)
    else:
        a_operand = _SharedOperand(ins, machine, a_place, "A", 64, shape.a, transposed[0])
    scale_source = machine.sources(scale_d)
    if isinstance(scale_d, Imm):
        _constant(ins, scale_d, "scale-d", 0, 1)
    read_scale = machine.read(ins, scale_d, TYPES["pred"])
    negate = negative[0] != negative[1]
    how = unit(shape.a, shape.b) if kind.scales else None
    origin_shared = (
        "CD-I3", f"multiplied at PTX line {ins.line} from shared memory never written"
    )  # fmt: skip

    def multiply(
        a: Array, b: Array, which: Array, start: Array, small: bool, groups: Array
    ) -> Array:
        """``a b[which]`` plus ``start`` (None: zero) as values of D. ``small`` products are
        integers that need no rounding, nor does their sum with a ``start`` of such."""
        if how is None:
            total = _multiply(a, b, which)
            if start is not None:
                total += start
            return round_result(total, shape.d, shape.saturate)
        limit = 1 << how.fraction
        if start is not None and small:
            inside = -limit < start.min() and start.max() < limit
            small = everywhere(target.whole[groups]) and inside
        if small:
            total = _multiply(a, b, which)
            if start is not None:
                total += start
        else:
            if start is None:
                start = np.zeros((len(a), 64, n), np.float32)
            total = np.empty((len(a), 64, n))
            for i, j in enumerate(which.tolist()):
                total[i] = add_products(a[i : i + 1], b[j : j + 1], start[i : i + 1], how)[0]
        target.whole[groups] = small
        return round_sum(total, shape.d, how)

    def run(lanes: Lanes) -> None:
        groups = state.of(lanes)
        machine.demand(scale_source, lanes, "scale-d")
        scale = _uniform(ins, machine, read_scale(lanes), lanes, "scale-d")
        for block in blocks:
            state.claim(ins, block, groups, lanes)
        reads: list[SharedReads] = []
        origin = origin_shared
        if isinstance(a_operand, _RegisterOperand):
            a, bad_a = a_operand.load(lanes, groups)
            if bad_a is not None:
                origin = a_operand.origin(lanes) or origin
        else:
            a, bad_a, which_a, reads_a = a_operand.load(lanes, groups)
            reads += reads_a
            if len(a) != len(groups):
                a = a[which_a]
            if bad_a is not None:
                bad_a = bad_a[which_a]
        b, bad_b, which_b, reads_b = b_operand.load(lanes, groups)
        reads += reads_b
        accumulates = anywhere(scale)
        if accumulates:
            state.hold(target, groups, lanes)
        if negate:
            a = -a
        small = how is None or whole(a) * whole(b) < 1 << how.fraction
        for first in range(0, len(groups), _AT_ONCE):
            part = slice(first, first + _AT_ONCE)
            here = groups[part]
            start = target.values[here] if accumulates else None
            if start is not None and not everywhere(scale[part]):
                start[~scale[part]] = 0
            target.values[here] = multiply(a[part], b, which_b[part], start, small, here)
        if bad_a is not None or bad_b is not None or target.bad is not None:
            bad = np.zeros((len(groups), 64, n), np.bool_)
            if bad_a is not None:
                bad |= bad_a[:, :, None]
            if bad_b is not None:
                bad |= bad_b[which_b][:, None, :]
            fresh = anywhere(bad)
            if accumulates and target.bad is not None:
                bad |= target.bad[groups] & scale[:, None, None]
            target.taint(groups, bad, origin if fresh else target.origin)
        state.issue(ins, blocks, groups, reads)

    return whole_warpgroups(ins, machine, run)


def _collective(ins: Instruction) -> None:
    mods = ins.modifiers(".".join(ins.opcode.split(".")[:2]))
    if not (mods.has("sync") and mods.has("aligned")):
        raise ins.unsupported("expected .sync.aligned")
    mods.done()


@instruction("wgmma.fence")
def _fence(ins: Instruction, machine: Machine) -> Step:
    _collective(ins)
    ins.expect(0)
    state = machine.wgmma
    return whole_warpgroups(ins, machine, lambda lanes: state.fence(state.of(lanes), lanes))


@instruction("wgmma.commit_group")
def _commit_group(ins: Instruction, machine: Machine) -> Step:
    _collective(ins)
    ins.expect(0)
    state = machine.wgmma
    return whole_warpgroups(ins, machine, lambda lanes: state.commit(state.of(lanes)))


@instruction("wgmma.wait_group")
def _wait_group(ins: Instruction, machine: Machine) -> Step:
    _collective(ins)
    ins.expect(1)
    count = ins.operands[0]
    if not isinstance(count, Imm) or count.kind != "int" or count.value < 0:
        raise ins.malformed(f"expected a constant count of groups, got {count}")
    allowed = int(count.value)
    state = machine.wgmma
    return whole_warpgroups(ins, machine, lambda lanes: state.wait(state.of(lanes), allowed))
