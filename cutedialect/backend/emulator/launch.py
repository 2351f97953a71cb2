"""``launch``: one kernel launch on NumPy arrays."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Any

import numpy as np

from .arguments import GlobalBuffers, bind
from .errors import EmulatorError
from .image import FUNCTION_BASE, LOCAL_START, SHARED_START, Image, LaunchQueue
from .lanes import Array, Lanes
from .machine import Machine
from .memory import CONST_BASE, PARAM_BASE, Allocation, LinearMemory
from .module import Function, FunctionRef, Imm, Module, Reg, Sym, Variable
from .parser import parse
from .report import Report
from .scheduler import Scheduler
from .timeline import Timeline, begin
from .types import STORAGE

RESIDENT_CTAS = 132
RESIDENT_LANES = 32768
# Where a kernel cancels the launch of clusters, few start at once, so that some are left.
_RESIDENT_CLUSTERS = 2
MAX_SHARED = 232_448
DEFAULT_MAX_STEPS = 50_000_000

# How often a run tells how far it is.
_TOLD_EVERY_SECONDS = 0.1

Extent = int | tuple[int, ...]
Progress = Callable[[int, int, int], object]
"""What is told of a run: the CTAs that have exited, all of them, and the instructions issued."""


def launch(
    ptx: str,
    entry: str,
    grid: Extent,
    block: Extent,
    args: Any,
    dynamic_smem: int = 0,
    cluster: Extent | None = None,
    *,
    seed: int = 0,
    max_steps: int = DEFAULT_MAX_STEPS,
    progress: Progress | None = None,
) -> Report:
    """Run kernel ``entry`` of the PTX text and return its counters.

    ``args``: NumPy arrays (global buffers, updated in place; a view stands for the memory that it
    spans), NumPy scalars and Python numbers (converted to the declared parameter type), ``np.void``
    structs by value; for a pointer also a list of tensor maps, or a mapping of ``bytes`` (an array)
    and ``pointers`` (pairs of an offset in the bytes and the array whose address goes there).
    ``grid``, ``block`` and ``cluster`` are an int or up to three ints; ``dynamic_smem`` is in
    bytes. ``seed`` other than 0 draws the order of threads at random. ``max_steps`` bounds the
    instructions issued. ``progress`` is called now and then with the CTAs that have exited, all of
    them and the instructions issued so far. Raises ``EmulatorError``.
    """
    with _collections_held_back():
        module = parse(ptx)
    function = _entry(module, entry)
    extents = {
        "grid": _extent("grid", grid), "block": _extent("block", block),
        "cluster": _extent("cluster", cluster or 1),
    }  # fmt: skip
    _check_shape(function, extents)
    with np.errstate(all="ignore"):
        image = _image(module, function, args, dynamic_smem, extents)
    report = image.report
    timeline = begin(ptx)
    threads = int(np.prod(extents["block"]))
    per_cta = -(-threads // 32) * 32
    batch = max(RESIDENT_CTAS, RESIDENT_LANES // per_cta)
    cluster_size = int(np.prod(extents["cluster"]))
    batch = max(1, batch // cluster_size) * cluster_size
    if any(ins.opcode.startswith("clusterlaunchcontrol") for ins in module.code):
        batch = _RESIDENT_CLUSTERS * cluster_size
    try:
        with np.errstate(all="ignore"):
            while image.queue.next < image.queue.total:
                first, count = image.queue.take(batch)
                # Of CTAs that run one after the other, a timeline has the first ones.
                seen = timeline if first == 0 else None
                if first:
                    gc.collect(0)  # the batch before this one: steps and machine are a cycle
                with _collections_held_back():
                    _run_batch(image, function, first, count, seed, max_steps, seen, progress)
    except EmulatorError as error:
        error.output = report.output
        raise
    report.global_read = image.global_memory.read_bytes
    report.global_written = image.global_memory.written_bytes
    return report


def _run_batch(
    image: Image,
    function: Function,
    first: int,
    ctas: int,
    seed: int,
    max_steps: int,
    timeline: Timeline | None = None,
    progress: Progress | None = None,
) -> None:
    machine = Machine(image, first, ctas, seed, timeline)
    report = image.report
    issued, told_at = report.steps, time.monotonic()

    def tell(steps: int) -> None:
        nonlocal told_at
        if progress is not None and time.monotonic() - told_at >= _TOLD_EVERY_SECONDS:
            running = int(machine.alive.reshape(ctas, -1).any(1).sum())
            progress(first + ctas - running, image.queue.total, issued + steps)
            told_at = time.monotonic()

    scheduler = Scheduler(machine, seed, max_steps - issued, None if progress is None else tell)
    try:
        scheduler.run(Lanes.of(np.flatnonzero(machine.alive), machine.total), function.start)
        machine.transfers.flush()
        left = machine.copies.finish()
        if left:
            report.notes.append(f"{left} asynchronous copies were never waited for")
        left = machine.wgmma.finish()
        if left:
            report.notes.append(f"{left} wgmma instructions were never waited for")
        left = machine.pipes.in_flight()
        if left:
            report.notes.append(f"{left} tcgen05 instructions were never waited for")
    finally:
        if timeline is not None:
            timeline.done()
        # Steps and machine are a cycle, which a round of the collector would have to find.
        scheduler.linker.steps.clear()
        report.steps += scheduler.steps
        report.output += "".join(machine.output)
        for ins, count in zip(image.module.code, scheduler.counts, strict=True):
            if count:
                report.instructions[ins.opcode] += count
                report.lines[ins.line] += count


@contextmanager
def _collections_held_back() -> Generator[None]:
    """Without Python's collector of cycles: tokens, instructions and their steps all stay, so that
    its rounds would go through them for nothing.
    """
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


def _entry(module: Module, name: str) -> Function:
    function = module.functions.get(name)
    if function is None or not function.is_entry:
        names = ", ".join(f.name for f in module.functions.values() if f.is_entry) or "none"
        raise EmulatorError(f"no kernel '{name}' in this module; kernels: {names}", code="CD-ARG")
    return function


def _extent(name: str, value: Any) -> tuple[int, int, int]:
    try:
        numbers = [int(part) for part in (value if np.iterable(value) else (value,))]
    except (TypeError, ValueError):
        numbers = []
    if not 1 <= len(numbers) <= 3 or any(n < 1 for n in numbers):
        raise EmulatorError(f"{name}: expected 1 to 3 positive ints, got {value!r}", code="CD-ARG")
    return (*numbers, 1, 1)[:3]  # type: ignore[return-value]


def _check_shape(function: Function, extents: dict[str, tuple[int, int, int]]) -> None:
    block, grid, cluster = extents["block"], extents["grid"], extents["cluster"]
    threads = int(np.prod(block))
    if threads > 1024:
        raise EmulatorError(f"block: at most 1024 threads, got {threads}", code="CD-ARG")
    required = function.tuning.get("reqntid")
    if required and (*required, 1, 1)[:3] != block:
        raise EmulatorError(
            f"block: '{function.name}' requires {(*required, 1, 1)[:3]} (.reqntid), got {block}",
            code="CD-ARG",
        )
    limit = function.tuning.get("maxntid")
    if limit and threads > int(np.prod(limit)):
        raise EmulatorError(
            f"block: '{function.name}' allows {int(np.prod(limit))} threads (.maxntid), "
            f"got {threads}",
            code="CD-ARG",
        )
    declared = function.tuning.get("reqnctapercluster")
    if declared:
        declared = (*declared, 1, 1)[:3]
        if cluster not in ((1, 1, 1), declared):
            raise EmulatorError(
                f"cluster: '{function.name}' requires {declared} (.reqnctapercluster), "
                f"got {cluster}",
                code="CD-ARG",
            )
        extents["cluster"] = cluster = declared  # type: ignore[assignment]
    if any(g % c for g, c in zip(grid, cluster, strict=True)):
        raise EmulatorError(f"grid: {grid} is not a multiple of cluster {cluster}", code="CD-ARG")


def _reachable(module: Module, entry: Function) -> list[Function]:
    """The kernel and every function it may call."""
    names = [entry.name]
    found: list[Function] = []
    seen = {entry.name}
    while names:
        function = module.functions.get(names.pop())
        if function is None:
            continue
        found.append(function)
        for ins in module.code[function.start : function.end]:
            for operand in ins.operands:
                if isinstance(operand, FunctionRef) and operand.name not in seen:
                    seen.add(operand.name)
                    names.append(operand.name)
    if any(ins.opcode.startswith("call") and not any(isinstance(o, FunctionRef)
           for o in ins.operands) for f in found
           for ins in module.code[f.start : f.end]):  # fmt: skip
        found = [entry, *(f for f in module.functions.values() if not f.is_entry)]
    return found


def _symbols(operand: Any, into: set[int]) -> None:
    if isinstance(operand, (Reg, Imm)):
        return
    if isinstance(operand, Sym):
        into.add(operand.variable.uid)
    for name in ("items", "base"):
        inner: Any = getattr(operand, name, ())
        for part in inner if name == "items" else (inner,) if inner else ():
            _symbols(part, into)


class _Placement:
    """Where each variable that a launch reaches begins in its state space."""

    def __init__(self, module: Module, function: Function) -> None:
        self.offsets: dict[int, int] = {}
        self.sizes: dict[str, int] = dict.fromkeys(("frame", "param", "const"), 0)
        self.sizes |= {"shared": SHARED_START, "local": LOCAL_START}
        self.params = frozenset(p.uid for p in function.params if isinstance(p, Variable))
        self._dynamic: list[Variable] = []
        for param in function.params:
            if isinstance(param, Variable):
                self._place("param", param)
        reachable = _reachable(module, function)
        self._used: set[int] = set()
        for reached in reachable:
            for ins in module.code[reached.start : reached.end]:
                for operand in ins.operands:
                    _symbols(operand, self._used)
        self._names = {f.name for f in reachable}
        self._results = {r.uid for f in reachable for r in f.results if isinstance(r, Variable)}
        for variable in module.variables:
            space = self._space_of(variable)
            if space == "shared" and variable.size < 0:
                self._dynamic.append(variable)
            elif space is not None:
                self._place(space, variable)

    def _space_of(self, variable: Variable) -> str | None:
        """None where nothing that is launched reaches the variable, or a buffer holds it."""
        uid = variable.uid
        is_own = variable.function in self._names
        if variable.space == "param" and uid not in self.params:
            return "frame" if is_own or uid in self._results else None
        if variable.space == "shared":
            return "shared" if uid in self._used else None
        if variable.space == "local":
            return "local" if is_own or uid in self._used else None
        return "const" if variable.space == "const" else None

    def _place(self, space: str, variable: Variable) -> None:
        at = -(-self.sizes[space] // variable.align) * variable.align
        self.offsets[variable.uid] = at
        self.sizes[space] = at + max(variable.size, 0)

    def shared_bytes(self, dynamic_smem: int) -> int:
        """Lays the variables without a size behind the others; the bytes of a CTA in all."""
        if dynamic_smem < 0:
            raise EmulatorError(f"dynamic_smem: expected >= 0, got {dynamic_smem}", code="CD-ARG")
        align = max([16, *(v.align for v in self._dynamic)])
        end = self.sizes["shared"]
        start = -(-end // align) * align
        for variable in self._dynamic:
            self.offsets[variable.uid] = start
        size = (start + dynamic_smem if dynamic_smem else end) - SHARED_START
        if size > MAX_SHARED:
            raise EmulatorError(
                f"shared memory: {size} bytes exceed the {MAX_SHARED} of one CTA", code="CD-ARG"
            )
        return size


def _image(
    module: Module,
    function: Function,
    args: Any,
    dynamic_smem: int,
    extents: dict[str, tuple[int, int, int]],
) -> Image:
    placement = _Placement(module, function)
    offsets, sizes, params = placement.offsets, placement.sizes, placement.params
    shared_size = placement.shared_bytes(dynamic_smem)
    global_memory, const_memory = LinearMemory("global"), LinearMemory("const")
    param_memory = LinearMemory("param")
    buffers = GlobalBuffers(global_memory)
    raw = bind(function, args, offsets, sizes["param"], buffers)
    for uid in params:
        offsets[uid] += PARAM_BASE
    param_memory.add(Allocation("the kernel parameters", PARAM_BASE, raw, writable=False))
    pending: list[tuple[Variable, Array]] = []
    for variable in module.variables:
        if variable.space == "const":
            offsets[variable.uid] += CONST_BASE
            const_memory.read_bytes = 0
        elif variable.space == "global":
            offsets[variable.uid] = buffers.reserve(max(variable.size, 0), max(256, variable.align))
        else:
            continue
        data = np.zeros(max(variable.size, 1), np.uint8)
        memory = const_memory if variable.space == "const" else global_memory
        memory.add(
            Allocation(f"'{variable.name}'", offsets[variable.uid], data,
                       writable=variable.space == "global")
        )  # fmt: skip
        pending.append((variable, data))
    for variable, data in pending:
        _initialize(module, variable, data, offsets)
    report = Report(function.name, extents["grid"], extents["block"])
    report.variables = {v.name: data for v, data in pending if v.space == "global"}
    return Image(
        module, function.name, offsets, params, shared_size, dynamic_smem,
        sizes["local"] - LOCAL_START, sizes["frame"], global_memory, const_memory, param_memory,
        extents["grid"], extents["block"], extents["cluster"], report,
        LaunchQueue(int(np.prod(extents["grid"])), int(np.prod(extents["cluster"]))),
    )  # fmt: skip


def _initialize(module: Module, variable: Variable, data: Array, offsets: dict[int, int]) -> None:
    for at, width, value in variable.init:
        if at + width > len(data):
            raise EmulatorError(
                f"'{variable.name}' has more initializers than elements", ptx_line=variable.line
            )
        if isinstance(value, Sym):
            value = offsets.get(value.variable.uid, 0) + value.offset
        if isinstance(value, FunctionRef):
            function = module.functions.get(value.name)
            if function is None:
                raise EmulatorError(
                    f"'{variable.name}': unknown symbol '{value.name}'", ptx_line=variable.line
                )
            value = FUNCTION_BASE + function.start
        if isinstance(value, float):
            raw = np.array([value]).astype(variable.type.dtype)
        else:
            raw = np.array([value & (1 << (8 * width)) - 1], STORAGE[8 * width])
        data[at : at + width] = raw.view(np.uint8)
