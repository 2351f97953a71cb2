"""The state of one batch of resident CTAs: registers, shared and local memory, which threads live,
and the binding of an instruction's operands to all of that. Instructions are bound once, at first
use, into steps: functions of a ``Lanes`` that run the instruction for those threads.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from .async_copy import AsyncCopies
from .barriers import Barriers
from .clusters import RANK_SHIFT, Clusters
from .errors import EmulatorError
from .image import FUNCTION_BASE, LOCAL_START, SHARED_START, Image, cta_order
from .lanes import Array, Lanes, anywhere, distinct
from .mbarriers import MBarriers
from .memory import (
    CONST_BASE,
    GLOBAL_BASE,
    LOCAL_WINDOW,
    PARAM_BASE,
    SHARED_WINDOW,
    WINDOW_SIZE,
    LinearMemory,
)  # fmt: skip
from .module import (
    Function,
    FunctionRef,
    Imm,
    Instruction,
    Not,
    Operand,
    Reg,
    Sink,
    Special,
    Sym,
    Variable,
)  # fmt: skip
from .ordering import Ordering, concerns
from .races import Races
from .register_pool import RegisterPool
from .registers import Register
from .report import GlobalAccess, SharedAccess
from .shared import CHUNK, BankedMemory
from .special import SpecialValues
from .tensor_memory import TensorMemory
from .tensor_pipes import TensorPipes
from .timeline import Timeline
from .transfers import Transfers
from .types import STORAGE, TYPES, ScalarType
from .wgmma_groups import Warpgroups

if TYPE_CHECKING:
    from .scheduler import Scheduler

Read = Callable[[Lanes], Array]
Step = Callable[[Lanes], Any]
# What an instruction computes, on arrays of its operands.
Compute = (
    Callable[[], Any]
    | Callable[[Array], Any]
    | Callable[[Array, Array], Any]
    | Callable[[Array, Array, Array], Any]
    | Callable[[Array, Array, Array, Array], Any]
)


class Machine:
    """``total`` lanes: ``ctas`` CTAs of ``warps`` warps. ``lane_cta`` is the CTA row of each
    lane.
    """

    scheduler: Scheduler

    def __init__(
        self,
        image: Image,
        first_cta: int,
        ctas: int,
        seed: int = 0,
        timeline: Timeline | None = None,
    ) -> None:
        """``ctas`` CTAs from ``first_cta`` on, both multiples of the cluster size: rows go
        cluster by cluster, by rank within one."""
        self.image = image
        self.timeline = timeline
        self.module = image.module
        self.report = image.report
        threads = image.block[0] * image.block[1] * image.block[2]
        self.threads = threads
        self.warps = -(-threads // 32)
        self.ctas = ctas
        self.cta_ids = cta_order(image.grid, image.cluster, first_cta, ctas)
        self.cluster_size = image.cluster[0] * image.cluster[1] * image.cluster[2]
        self.total = ctas * self.warps * 32
        lane = np.arange(self.total)
        self.lane_cta = lane // (self.warps * 32)
        self.lane_thread = lane % (self.warps * 32)
        self.lane_id = lane & 31
        self.alive = self.lane_thread < threads
        self._unwritten = np.ones(self.total, np.bool_)
        self._unwritten.setflags(write=False)
        self.registers: list[Register | None] = [None] * len(image.module.registers)
        self.shared = BankedMemory("shared", ctas, image.shared_size, SHARED_START)
        self._local: BankedMemory | None = None
        self._frames: BankedMemory | None = None
        self.local_shift = 0
        # Clocks of who knows of whose writes, where there is more than one warp or an asynchronous
        # unit; for each 4 bytes of shared memory the stamp of the last ordinary store.
        opcodes = {ins.opcode for ins in image.module.code}
        needed = self.warps > 1 or timeline is not None or any(map(concerns, opcodes))
        self.ordering = Ordering(self) if needed else None
        self.races = None
        if self.ordering is not None and self.warps * self.cluster_size > 1:
            self.races = Races(self, self.ordering)
        self._stamps: Array = None
        if self.ordering is not None:
            self._stamps = np.zeros(len(self.shared.data) // 4, np.uint32)
        self.mbarriers = MBarriers(self)
        self.transfers = Transfers(self, seed)
        self.clusters = Clusters(self)
        # First CTAs of clusters that know that no launch is left to cancel.
        self.denied: set[int] = set()
        self.pool = RegisterPool(self)
        self.special = SpecialValues(self)
        self.barriers = Barriers(self)
        self.copies = AsyncCopies(self)
        self.wgmma = Warpgroups(self)
        self.pipes = TensorPipes(self)
        self.tensor = TensorMemory(self)
        self.carry = np.zeros(self.total, np.bool_)
        self.polled = False
        self.progress = True
        self.clock = 0
        self.output: list[str] = []
        self.mask_readers: dict[int, Read] = {}
        self.interned_frames: dict[Any, Any] = {}
        self._alive_bits: Array = None
        self._registers_of: dict[str, list[Reg]] = {}

    @property
    def global_memory(self) -> LinearMemory:
        return self.image.global_memory

    @property
    def local(self) -> BankedMemory:
        if self._local is None:
            self._local = BankedMemory("local", self.total, self.image.local_size, LOCAL_START)
        return self._local

    def grow_local(self, size: int) -> None:
        """Make room for a deeper recursion; contents are kept."""
        old = self.local
        if size <= old.size:
            return
        if size > 1 << 20:
            raise EmulatorError("the call stack exceeds 1 MiB a thread", code="CD-LIMIT")
        new = BankedMemory("local", self.total, max(size, 2 * old.size), LOCAL_START)
        for name in ("data", "shadow"):
            source = getattr(old, name).reshape(self.total, old.pitch)
            getattr(new, name).reshape(self.total, new.pitch)[:, : old.size] = source[:, : old.size]
        self._local = new

    @property
    def frames(self) -> BankedMemory:
        """Parameters and results of device functions, one instance a thread."""
        if self._frames is None:
            self._frames = BankedMemory("param", self.total, self.image.frame_size, 0)
        return self._frames

    # Ordinary writes to shared memory, as the async proxy sees them.

    def stamp(self, lanes: Lanes, offsets: Array, width: int) -> None:
        """Note an ordinary store of ``width`` bytes a lane."""
        if self.ordering is None:
            return
        marks = self.ordering.stamps(lanes)
        if width <= 4:
            self._stamps[offsets >> 2] = marks
        else:
            self._stamps.reshape(-1, width // 4)[offsets // width] = marks[:, None]

    def stamp_rows(self, lanes: Lanes, offsets: Array) -> None:
        """Note a store of 16-byte rows by whole warps, equally many a warp."""
        if self.ordering is not None:
            marks = np.repeat(self.ordering.stamp[lanes.warps], len(offsets) // len(lanes.warps))
            self._stamps.reshape(-1, 4)[offsets // 16] = marks[:, None]

    def unstamp(self, chunks: Array) -> None:
        """An asynchronous write replaced the 16-byte chunks."""
        if self._stamps is not None:
            self._stamps.reshape(-1, 4)[chunks] = 0

    def demand_visible(self, warps: Array, chunks: Array, reader: str, code: str = "CD-A1") -> None:
        """Error ``code`` unless ordinary stores to the 16-byte chunks (numbers within the shared
        data) are visible to an asynchronous operation that threads of ``warps`` issue now."""
        if self.ordering is not None:
            stamps = self._stamps.reshape(-1, CHUNK // 4).take(chunks, 0)
            if anywhere(stamps):
                self.ordering.demand_visible(warps, stamps, reader, code)

    # Warp membership.

    def alive_bits(self) -> Array:
        """Bit i of entry w: lane i of warp w has not exited."""
        if self._alive_bits is None:
            self._alive_bits = _pack(self.alive)
        return self._alive_bits

    def exit(self, lanes: Lanes) -> None:
        self.alive[lanes.sel] = False
        self._alive_bits = None
        self.progress = True

    def warp_masks(self, pc: int, lanes: Lanes) -> Array:
        """Member masks of the ``bar.warp.sync`` at ``pc``."""
        return self.mask_readers[pc](lanes)

    def present_bits(self, lanes: Lanes) -> Array:
        """Bit i of entry w: lane i of warp w is in ``lanes``."""
        present = np.zeros(self.total, np.bool_)
        present[lanes.sel] = True
        return _pack(present)

    # Operands.

    def registers_of(self, function: Function) -> list[Reg]:
        """The registers that a function's code names."""
        found = self._registers_of.get(function.name)
        if found is None:
            seen: dict[int, Reg] = {}
            for ins in self.module.code[function.start : function.end]:
                collect_registers(ins.operands, seen)
            found = self._registers_of[function.name] = list(seen.values())
        return found

    def register(self, reg: Reg) -> Register:
        found = self.registers[reg.slot]
        if found is None:
            found = self.registers[reg.slot] = Register(reg, self._unwritten)
        return found

    def read(
        self, ins: Instruction, operand: Operand, type: ScalarType, wide: bool = False
    ) -> Read:
        """A function that gives the operand's values as ``type.dtype``: ``[lanes]``, or ``[1]`` for
        a constant. ``wide`` allows a register wider than the type (PTX ISA 9.4.1: ld, st, cvt).
        """
        dtype = type.dtype
        if isinstance(operand, Reg):
            register = self.register(operand)
            if register.width == type.bits:
                whole = register.bits if type.bits == 128 else register.view(dtype)

                def read_register(lanes: Lanes) -> Array:
                    return whole if lanes.full else whole[lanes.sel]

                return read_register
            if wide and register.width > type.bits and register.width <= 64 and type.bits > 1:
                bits, storage = register.bits, STORAGE[type.bits]

                def read_narrow(lanes: Lanes) -> Array:
                    return bits[lanes.sel].astype(storage).view(dtype)

                return read_narrow
            raise ins.malformed(
                f"expected a {type.bits}-bit operand for .{type.name}, got {operand} "
                f"({register.width} bits)"
            )
        if isinstance(operand, Imm):
            constant = immediate(ins, operand, type)
            return lambda lanes: constant
        if isinstance(operand, Special):
            return self.special.reader(ins, operand.name, type)
        if isinstance(operand, Sym):
            return self._read_symbol(ins, operand, type)
        if isinstance(operand, FunctionRef) and type.bits == 64:
            start = self.module.functions[operand.name].start
            pointer = np.array([FUNCTION_BASE + start], np.uint64).view(dtype)
            return lambda lanes: pointer
        if isinstance(operand, Not) and type.bits == 1:
            inner = self.read(ins, operand.operand, type)
            return lambda lanes: ~inner(lanes)
        raise ins.malformed(f"operand {operand} cannot be read here")

    def _read_symbol(self, ins: Instruction, symbol: Sym, type: ScalarType) -> Read:
        if type.bits not in (32, 64):
            raise ins.malformed(f"the address of {symbol} does not fit .{type.name}")
        variable = symbol.variable
        address = self.address_of(ins, variable) + symbol.offset
        if variable.uid in self.image.entry_params:
            address -= PARAM_BASE  # an address in .param space; cvta.param makes it generic
        storage = STORAGE[type.bits]
        mask = (1 << type.bits) - 1
        if variable.space == "local":
            return lambda lanes: np.array([(address + self.local_shift) & mask], storage)
        constant = np.array([address & mask], storage)
        return lambda lanes: constant

    def address_of(self, ins: Instruction, variable: Variable) -> int:
        """Address of a variable in its own space."""
        if variable.uid not in self.image.offsets:
            raise ins.malformed(f"'{variable.name}' is not defined in this module")
        return self.image.offsets[variable.uid]

    def sources(self, *operands: Operand) -> list[Register]:
        """The registers that the operands read."""
        found: list[Register] = []
        for operand in operands:
            if isinstance(operand, Not):
                operand = operand.operand
            if isinstance(operand, Reg):
                found.append(self.register(operand))
        return found

    def target(self, operand: Operand) -> Register | None:
        """The register that a destination names; None for the sink ``_``."""
        return self.register(operand) if isinstance(operand, Reg) else None

    def write(
        self, ins: Instruction, operand: Operand, type: ScalarType, wide: bool = False
    ) -> Callable[[Lanes, Array], None]:
        """A function that stores ``[lanes]`` values of ``type``; extended by the type's sign where
        the register is wider and ``wide`` allows it.
        """
        if isinstance(operand, Sink):
            return lambda lanes, values: None
        if not isinstance(operand, Reg):
            raise ins.malformed(f"expected a register as destination, got {operand}")
        register = self.register(operand)
        if register.width == type.bits:
            whole = register.bits if type.bits == 128 else register.view(type.dtype)

            def write_register(lanes: Lanes, values: Array) -> None:
                whole[lanes.sel] = values

            return write_register
        if wide and type.bits < register.width <= 64:
            signed = type.is_signed
            target = register.view(np.dtype(f"i{register.width // 8}")) if signed else register.bits
            source = np.dtype(f"i{type.bytes}") if signed else STORAGE[type.bits]

            def write_wide(lanes: Lanes, values: Array) -> None:
                target[lanes.sel] = values.view(source)

            return write_wide
        raise ins.malformed(
            f"expected a {type.bits}-bit destination for .{type.name}, got {operand} "
            f"({register.width} bits)"
        )

    def pure(
        self,
        ins: Instruction,
        results: list[tuple[Operand, ScalarType]],
        operands: list[tuple[Operand, ScalarType]],
        compute: Compute,
        *,
        wide: bool = False,
    ) -> Step:
        """A step that computes results from operands lane by lane: ``compute(*arrays)`` returns one
        array, or a tuple for several results. A lane with a poison operand gets poison results."""
        run: Callable[..., Any] = compute
        reads = [self.read(ins, operand, type, wide) for operand, type in operands]
        sources = self.sources(*(operand for operand, _ in operands))
        targets = [self.register(o) for o, _ in results if isinstance(o, Reg)]
        writes = [self.write(ins, operand, type, wide) for operand, type in results]
        finish = self.finisher(targets, sources)
        if len(writes) == 1:
            write = writes[0]
            if len(reads) == 1:
                (one,) = reads

                def unary(lanes: Lanes) -> None:
                    write(lanes, run(one(lanes)))
                    finish(lanes)

                return unary
            if len(reads) == 2:
                left, right = reads

                def binary(lanes: Lanes) -> None:
                    write(lanes, run(left(lanes), right(lanes)))
                    finish(lanes)

                return binary

            def many(lanes: Lanes) -> None:
                write(lanes, run(*[read(lanes) for read in reads]))
                finish(lanes)

            return many

        def several(lanes: Lanes) -> None:
            for write, value in zip(writes, run(*[read(lanes) for read in reads]), strict=True):
                write(lanes, value)
            finish(lanes)

        return several

    def settled(
        self,
        ins: Instruction,
        step: Step,
        results: list[Operand],
        operands: list[Operand],
        deciding: list[Operand],
        absorbing: bool,
    ) -> Step:
        """A predicate step whose result is defined, whatever else is poison, where one of the
        ``deciding`` operands is defined and ``absorbing``: false for and, true for or."""
        everything = self.sources(*operands)
        parts = [(self.read(ins, o, TYPES["pred"]), self.sources(o)) for o in deciding]
        targets = self.sources(*(r for r in results if isinstance(r, Reg)))

        def run(lanes: Lanes) -> None:
            if all(register.poison is None for register in everything):
                step(lanes)
                return
            decided = np.zeros(lanes.count, np.bool_)
            for read, registers in parts:
                holds: Array = read(lanes) == absorbing
                for register in registers:
                    poison = register.poisoned(lanes)
                    if poison is not None:
                        holds = holds & ~poison
                decided |= holds
            step(lanes)
            for target in targets:
                poison = target.poisoned(lanes)
                if poison is not None:
                    target.taint(lanes, poison & ~decided, target.origin, self.total)

        return run

    def finisher(self, targets: list[Register], sources: list[Register]) -> Callable[[Lanes], None]:
        """Propagates poison from sources to targets after a write. Must run after the values are
        written; a source that is also a target keeps its own poison until then."""
        total = self.total

        def finish(lanes: Lanes) -> None:
            for source in sources:
                if source.poison is not None:
                    break
            else:
                for target in targets:
                    if target.poison is not None:
                        target.clear(lanes)
                return
            mask: Array = None
            origin = None
            for source in sources:
                found = source.poisoned(lanes)
                if found is not None:
                    mask = found.copy() if mask is None else mask | found
                    origin = origin or source.why()
            for target in targets:
                if mask is None:
                    target.clear(lanes)
                else:
                    target.taint(lanes, mask, origin, total)

        return finish

    def demand(self, sources: list[Register], lanes: Lanes, use: str) -> None:
        """Refuse poison: CD-I3, CD-I4 or the code of the poison's origin."""
        for source in sources:
            if source.poison is not None:
                mask = source.poisoned(lanes)
                if mask is not None:
                    code, why = source.why()
                    lane = int(lanes.index[np.argmax(mask)])
                    raise EmulatorError(
                        f"{use} depends on an uninitialized value in {source.name}: {why} "
                        f"({self.describe_lane(lane)})",
                        code=code,
                    )

    # Addresses.

    def spaces(self, addresses: Array) -> list[tuple[str, int, Array]]:
        """Generic addresses by the space they lie in: ``(space, window start, mask)``."""
        low, high = int(addresses.min()), int(addresses.max())
        for name, start, end in _RANGES:
            if start <= low and high < end:
                if name == "shared" and high - start >> RANK_SHIFT:
                    name = "cluster"
                return [(name, _WINDOW.get(name, 0), np.ones(len(addresses), np.bool_))]
        found: list[tuple[str, int, Array]] = []
        for name, start, end in _RANGES:
            mask = (addresses >= np.uint64(start)) & (addresses <= np.uint64(end - 1))
            if anywhere(mask):
                if name == "shared" and self.cluster_size > 1:
                    name = "cluster"
                found.append((name, _WINDOW.get(name, 0), mask))
        return found

    def outside(self, space: str, addresses: Array) -> Array:
        """Which accesses reach global memory."""
        if space != "generic":
            return np.full(len(addresses), space == "global")
        return addresses < np.uint64(SHARED_WINDOW)

    def linear_of(self, address: int) -> LinearMemory:
        """The linear memory that holds a generic address."""
        if PARAM_BASE <= address < CONST_BASE:
            return self.image.param_memory
        return (
            self.image.const_memory if CONST_BASE <= address < GLOBAL_BASE else self.global_memory
        )

    def count_shared(self, ins: Instruction, passes: tuple[int, int]) -> None:
        access = self.report.shared.get(ins.line)
        if access is None:
            access = self.report.shared[ins.line] = SharedAccess(ins.line, ins.opcode)
        access.accesses += 1
        access.wavefronts += passes[0]
        access.minimum += passes[1]

    def count_global(self, ins: Instruction, lanes: Lanes, addresses: Array, width: int) -> None:
        """Add an access of threads to global memory, aligned to its ``width`` bytes a lane."""
        access = self.report.global_.get(ins.line)
        if access is None:
            access = self.report.global_[ins.line] = GlobalAccess(ins.line, ins.opcode)
        warps = lanes.index.astype(np.uint64) >> np.uint64(5)
        sectors = addresses.astype(np.uint64) >> np.uint64(5)
        access.accesses += len(lanes.warps)
        access.bytes += width * lanes.count
        access.sectors += len(distinct(warps << np.uint64(44) | sectors))

    # Names for reports.

    def describe_lane(self, lane: int) -> str:
        thread = int(self.lane_thread[lane])
        x, y, _ = self.image.block
        tid = (thread % x, thread // x % y, thread // (x * y))
        return f"CTA {self.describe_cta(int(self.lane_cta[lane]))}, thread {tid}"

    def describe_shared(self, at: int) -> str:
        """A byte offset into the shared data by variable, with its CTA."""
        row, offset = divmod(at, self.shared.pitch)
        address = offset + SHARED_START
        name, start = "", 0
        for variable in self.module.variables:
            base = self.image.offsets.get(variable.uid, -1)
            if variable.space == "shared" and start <= base <= address:
                name, start = variable.name, base
        place = f"{name}+{address - start}" if name else f"at {offset:#x}"
        return f"{place} of CTA {self.describe_cta(row)}"

    def describe_cta(self, row: int) -> tuple[int, int, int]:
        cta = int(self.cta_ids[row])
        x, y, _ = self.image.grid
        return (cta % x, cta // x % y, cta // (x * y))


_WINDOW = {"shared": SHARED_WINDOW, "cluster": SHARED_WINDOW, "local": LOCAL_WINDOW}
_RANGES = (
    ("global", GLOBAL_BASE, SHARED_WINDOW),
    ("shared", SHARED_WINDOW, SHARED_WINDOW + WINDOW_SIZE),
    ("local", LOCAL_WINDOW, LOCAL_WINDOW + WINDOW_SIZE),
    ("param", PARAM_BASE, CONST_BASE),
    ("const", CONST_BASE, GLOBAL_BASE),
    ("global", 0, PARAM_BASE),
    ("global", SHARED_WINDOW + WINDOW_SIZE, LOCAL_WINDOW),
    ("global", LOCAL_WINDOW + WINDOW_SIZE, 1 << 64),
)


def immediate(ins: Instruction, operand: Imm, type: ScalarType) -> Array:
    """The constant as a one-element array of the type."""
    storage = STORAGE[64 if type.bits == 128 else type.bits]
    if operand.kind == "int":
        value = int(operand.value)
        if type.kind == "f" and type.bits > 16:
            if value != 0:
                raise ins.malformed(f"expected a floating-point constant, got {value}")
            return np.zeros(1, type.dtype)
        if type.bits == 1:
            return np.array([value != 0])
        return np.array([value & ((1 << type.bits) - 1)], storage).view(type.dtype)
    if operand.kind == "f32":
        bits = np.array([int(operand.value)], np.uint32)
        if type.bits == 32 and type.kind in "bf":
            return bits.view(type.dtype)
        number = float(bits.view(np.float32)[0])
    else:
        number = float(operand.value)
    if type.kind == "f":
        return np.array([number]).astype(type.dtype)
    if type.bits == 32 and type.kind == "b":
        return np.array([number], np.float32).view(type.dtype)
    if type.bits == 64 and type.kind == "b":
        return np.array([number], np.float64).view(type.dtype)
    raise ins.malformed(f"expected an integer constant, got {number}")


def _pack(flags: Array) -> Array:
    return np.packbits(flags.reshape(-1, 32), axis=1, bitorder="little").view(np.uint32)[:, 0]


def collect_registers(operands: Any, into: dict[int, Reg]) -> None:
    """All registers in operands, however nested."""
    for operand in operands:
        if isinstance(operand, Reg):
            into[operand.slot] = operand
            continue
        for name in ("items", "base", "operand", "first", "second"):
            inner = getattr(operand, name, None)
            if inner is not None:
                collect_registers(inner if isinstance(inner, tuple) else (inner,), into)
