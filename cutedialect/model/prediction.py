"""Predict a launch from a kernel's last stage: some CTAs of one SM run in time (`warps.py`), and
the launch takes as long as they do in as many rounds as it has, or as memory does for operands.
"""

from __future__ import annotations

import heapq
import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import ceil, prod
from typing import Any

from xdsl.dialects.builtin import ModuleOp

from cutedialect.atoms import REGISTER_FILE
from cutedialect.backend.runtime import host as host_part
from cutedialect.backend.runtime.tensor_maps import TensorMapArgument
from cutedialect.dialects import ptx

from . import warps
from .claims import Claims, Survey, dealt, pace_of, sampled
from .devices import DEVICES, Device
from .processor import Processor
from .roles import Role, roles_of
from .warp import Cta, Warp

_SHARED = 227 << 10
_RESERVED = 1 << 10
_THREADS = 2048
# Registers of a thread where a kernel does not say how many CTAs an SM is to have.
_USUAL_REGISTERS = 64
# Warps among which are those that load.
_LOADING = 4
# Units that a whole SM has one of.
_WHOLE = ("shared", "l2", "l1", "port", "memory")


@dataclass(frozen=True)
class Kernel:
    """One kernel of a launch: cycles of all CTAs of an SM, and of one of them alone or of those
    that it has at a time; rounds of CTAs, bytes of memory, what each role of a CTA has taken, and
    for how many cycles each unit of the SM and memory were busy.
    """

    name: str
    cycles: float
    alone: float
    rounds: float
    bytes: float
    roles: tuple[Role, ...]
    units: dict[str, float]
    memory: float

    @property
    def bound(self) -> str:
        """The unit that is busy for the longest time."""
        found = self.units | {"memory": self.memory}
        unit = max(found, key=lambda each: found[each])
        return f"{unit} {found[unit] / max(self.cycles, self.memory):.0%}"


@dataclass(frozen=True)
class Prediction:
    """Cycles of a whole launch at the device's clock, and its kernels."""

    cycles: float
    device: Device
    kernels: tuple[Kernel, ...] = field(default=())

    @property
    def seconds(self) -> float:
        return self.cycles / self.device.clock


def predict(module: ModuleOp, arguments: Sequence[Any], device: Device | None = None) -> Prediction:
    """The time of a launch of a module that `convert-to-ptx` has made.

    arguments: (shape, strides) in elements for each tensor, a number for each scalar. Raises
    ValueError for a target without a device in the model, for IR of another stage, and where warps
    wait for what the model does not follow (sums over a cluster); CompileError without a host part.
    """
    kernels = {op.sym_name.data: op for op in module.ops if isinstance(op, ptx.KernelOp)}
    if not kernels:
        raise ValueError("expected IR of the stage convert-to-ptx, got a module without ptx.kernel")
    if device is None:
        target = next(iter(kernels.values())).target.data
        if target not in DEVICES:
            raise ValueError(f"expected a target of {', '.join(DEVICES)}, got {target}")
        device = DEVICES[target]
    host = host_part.find_host(module)
    plan = host_part.load(host_part.host_source(host))
    parameters = host_part.signature_of(host).parameters
    if len(parameters) != len(arguments):
        names = ", ".join(each.name for each in parameters)
        raise ValueError(f"expected {len(parameters)} arguments ({names}), got {len(arguments)}")
    flat = [(None, *each) if isinstance(each, tuple) else each for each in arguments]
    moved, read = (_bytes(parameters, arguments, each) for each in (False, True))
    room = min((device.fits(prod(each)) for each in plan.clusters.values()), default=0)
    launches = plan.run(flat, room or device.processors)
    warps.forget()
    share = 1 / max(1, len(launches))
    found = [
        _kernel(kernels[launch.kernel], launch, device, moved * share, read * share)
        for launch in launches
    ]
    total = sum(
        max(each.cycles, each.memory) + _launch(kernels[each.name], device) for each in found
    )
    return Prediction(total, device, tuple(found))


def _launch(op: ptx.KernelOp, device: Device) -> float:
    """Cycles between a kernel and the one in front of it, which early launches share."""
    is_early = any(isinstance(inner, ptx.GriddepWaitOp) for inner in op.walk())
    return device.early_launch if is_early else device.launch


def _bytes(parameters: Any, arguments: Sequence[Any], only_read: bool) -> float:
    """Bytes of all tensors, each of them once; or of those that no kernel stores to."""
    total = 0.0
    for parameter, given in zip(parameters, arguments, strict=True):
        if isinstance(given, tuple) and not (only_read and parameter.written):
            shape, strides = given
            size = prod(extent for extent, step in zip(shape, strides, strict=True) if step != 0)
            total += size * _element_bits(parameter.element) / 8
    return total


def _kernel(op: ptx.KernelOp, launch: Any, device: Device, moved: float, read: float) -> Kernel:
    """CTAs that an SM runs one after another overlap: it is done with one each time that its
    busiest unit is, or one of those that it has at a time.
    """
    ctas = prod(launch.grid)
    each = ctas / device.processors
    resident = min(_resident(op, launch, device), max(1, ceil(each)))
    # Those that take over the work of CTAs that have not begun are the only ones.
    takes_over = any(isinstance(inner, ptx.TryCancelOp) for inner in op.walk())
    rounds = 1.0 if takes_over else max(1.0, each / resident)
    together = 1 if rounds > 1 else resident
    running = min(device.processors, ctas)
    loads = _surveyed(op, launch, device)
    some = None if loads is None else [sampled(loads)] * together
    counting = Processor(device, running)
    runs = _started(op, launch, counting, together, some)
    _run(runs, counting)
    claims = runs[0][0].cta.claims
    pace = None if loads is None else pace_of(claims, loads)
    shares, given = ctas / together, None
    if pace is not None and loads is not None:
        # The first run has looked at some items of all.
        seen = sum(loads[item] for item in claims.items)
        shares = sum(loads) / max(1.0, seen) / together
        deal = dealt(min(running * together, len(loads)), loads, pace, device.spread)
        places = [(deal.last + number * running) % len(deal.items) for number in range(together)]
        given = [deal.items[place] for place in places]
    loaded: dict[Any, float] = defaultdict(float)
    for _, tensor, amount in counting.asked:
        loaded[tensor] += amount * shares
    cold = _cold(op, launch, loaded, read)
    processor = Processor(device, running, cold, sorted(counting.asked, key=lambda each: each[0]))
    runs = _started(op, launch, processor, together, given)
    alone = _run(runs, processor)
    units = _units(runs)
    cycles = alone
    if rounds > 1:
        step = max(max(units.values()), alone / resident)
        cycles = alone + (each - 1) * step
        units = {unit: amount * each for unit, amount in units.items()}
    first = {warp.index: warp.usage for warp, _ in runs if warp.cta.number == 0}
    memory = moved / device.memory_bytes * device.clock
    roles = tuple(roles_of(first))
    return Kernel(launch.kernel, cycles, alone, rounds, moved, roles, units, memory)


def _surveyed(op: ptx.KernelOp, launch: Any, device: Device) -> list[float] | None:
    """The bytes that each work item loads, where CTAs claim items; None where they do not, or what
    they claim is not known.
    """
    if not any(isinstance(inner, ptx.AtomOp | ptx.TryCancelOp) for inner in op.walk()):
        return None
    found: dict[int, list[float]] = {}
    total: int | None = None
    for _ in range(2):
        # Warps that are told of items know how many there are when the one that claims has run.
        for index in range(min(_LOADING, launch.block // 32)):
            if index in found:
                continue
            survey = Survey(total)
            ((warp, steps),) = [
                each
                for each in _started(op, launch, Processor(device, 1), 1, None, survey)
                if each[0].index == index
            ]
            for _ in steps:
                pass
            total = survey.total
            if total is not None and len(survey.bytes) == total:
                found[warp.index] = survey.bytes
    if total is None or not found:
        return None
    return [sum(each) for each in zip(*found.values(), strict=True)]


def _cold(op: ptx.KernelOp, launch: Any, loaded: dict[Any, float], read: float) -> dict[Any, float]:
    """The part of what is loaded of each tensor that nobody has loaded before: of tensor maps by
    their extents, of what threads address by all bytes that are left.
    """
    shares: dict[Any, float] = {}
    for parameter, value in zip(op.body.block.args, launch.arguments, strict=True):
        if isinstance(value, TensorMapArgument) and parameter in loaded:
            size = prod(value.shape) * _element_bits(value.element) / 8
            shares[parameter] = min(1.0, size / max(1.0, loaded[parameter]))
            read -= size
    if None in loaded:
        shares[None] = min(1.0, max(0.0, read) / max(1.0, loaded[None]))
    return shares


def _started(
    op: ptx.KernelOp,
    launch: Any,
    processor: Processor,
    together: int,
    given: Sequence[Sequence[int]] | None = None,
    survey: Survey | None = None,
) -> list[tuple[Warp, warps.Run]]:
    """The warps of so many CTAs of an SM, with the items that each of them gets."""
    count, cluster = launch.block // 32, prod(launch.cluster)
    arguments = _arguments(op, launch)
    commits = [inner for inner in op.walk() if isinstance(inner, ptx.Tcgen05CommitOp)]
    is_paired = any(commit.group.value.data == 2 for commit in commits)
    runs: list[tuple[Warp, warps.Run]] = []
    for number in range(together):
        index = number * processor.device.processors // cluster * cluster % prod(launch.grid)
        items = None if given is None else given[number]
        index = index if items is None else items[0]
        special = {
            "ctaid.x": index, "nctaid.x": launch.grid[0], "nctaid.y": launch.grid[1],
            "nctaid.z": launch.grid[2], "ntid.x": launch.block, "cluster_nctarank": cluster,
        }  # fmt: skip
        claims = Claims([index] if items is None else items)
        cta = Cta(number, arguments, special, count, is_paired, claims=claims, survey=survey)
        for each in range(count):
            warp = Warp(processor, cta, each)
            runs.append((warp, warps.run(warp, op.body.block)))
    return runs


def _units(runs: Sequence[tuple[Warp, warps.Run]]) -> dict[str, float]:
    """Cycles of each unit: of the busiest quarter where each has its own."""
    quarters: dict[tuple[str, int], float] = defaultdict(float)
    for warp, _ in runs:
        for unit, amount in warp.usage.busy.items():
            where = 0 if unit in _WHOLE else warp.quarter
            quarters[unit, where] += amount
    found: dict[str, float] = {}
    for (unit, _), amount in quarters.items():
        found[unit] = max(found.get(unit, 0.0), amount)
    return found


def _run(runs: Sequence[tuple[Warp, warps.Run]], processor: Processor) -> float:
    """Let warps run in the order of their times, until all have ended or wait for each other."""
    queue = [(0.0, number) for number in range(len(runs))]
    waiting: dict[int, warps.Wait] = {}
    while queue or _sent(runs, waiting, queue, processor):
        _, number = heapq.heappop(queue)
        warp, steps = runs[number]
        wait = next(steps, _ENDED)
        if wait is _ENDED:
            continue
        if wait is None or _passed(warp, wait):  # pyright: ignore[reportArgumentType]
            heapq.heappush(queue, (warp.time, number))
        else:
            waiting[number] = wait  # pyright: ignore[reportArgumentType]
            wait[0].waiters.append(number)  # pyright: ignore[reportIndexIssue]
        _wake(runs, waiting, queue, processor)
    if waiting:
        raise ValueError(
            f"expected all warps to end, got {len(waiting)} that wait for what only a run can tell"
        )
    return max(warp.time for warp, _ in runs)


_ENDED = object()


def _wake(
    runs: Sequence[tuple[Warp, warps.Run]],
    waiting: dict[int, warps.Wait],
    queue: list[tuple[float, int]],
    processor: Processor,
) -> None:
    """Queue the warps whose barriers have completed the phase that they wait for."""
    while processor.woken:
        number = processor.woken.pop()
        warp = runs[number][0]
        if _passed(warp, waiting[number]):
            del waiting[number]
            heapq.heappush(queue, (warp.time, number))
        else:
            waiting[number][0].waiters.append(number)


def _sent(
    runs: Sequence[tuple[Warp, warps.Run]],
    waiting: dict[int, warps.Wait],
    queue: list[tuple[float, int]],
    processor: Processor,
) -> bool:
    """Let what other CTAs of the cluster store here come when nothing else is left to do, and their
    arrivals: they are as far as this one. Whether some warp goes on.
    """
    for number, (barrier, *_) in list(waiting.items()):
        warp = runs[number][0]
        now = warp.time + processor.device.l2
        if barrier.expected > 0 and barrier.arrived >= barrier.count:
            barrier.receive(now + barrier.expected / processor.l2_bytes, barrier.expected)
        elif 0 < barrier.arrived < barrier.count and warp.cta.special["cluster_nctarank"] > 1:
            barrier.arrive(now, barrier.count - barrier.arrived)
    _wake(runs, waiting, queue, processor)
    return bool(queue)


def _passed(warp: Warp, wait: warps.Wait) -> bool:
    """Whether a barrier's phase is complete; the warp goes on when it has seen that."""
    barrier, parity, why = wait
    end = barrier.end_of(parity)
    if end is None:
        return False
    if end > warp.time:
        warp.until(end + warp.device.phase, why)
    return True


def _resident(op: ptx.KernelOp, launch: Any, device: Device) -> int:
    """CTAs of an SM."""
    threads = launch.block
    found = [_THREADS // threads, _SHARED // (launch.smem + _RESERVED)]
    if op.min_ctas is None:
        found.append(REGISTER_FILE // (threads * _USUAL_REGISTERS))
    else:
        found.append(op.min_ctas.value.data)
    return max(1, min(found))


def _arguments(op: ptx.KernelOp, launch: Any) -> dict[Any, Any]:
    """What each parameter of a kernel is: a number, or the bytes of a tensor map's box."""
    known: dict[Any, Any] = {}
    for parameter, value in zip(op.body.block.args, launch.arguments, strict=True):
        if isinstance(value, TensorMapArgument):
            known[parameter] = prod(value.box) * _element_bits(value.element) / 8
        else:
            known[parameter] = value if isinstance(value, int) else None
    return known


def _element_bits(element: str) -> int:
    found = re.search(r"\d+", element)
    assert found is not None
    return int(found[0])
