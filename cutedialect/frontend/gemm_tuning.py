"""`cute.gemm` as something to tune, and the schedules that tuning kept for it. A call without a
schedule looks for a result of its class of problems on its device, once for each look of its
arguments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import islice, product
from math import prod
from typing import Any

from cutedialect.backend.runtime.devices import device_name
from cutedialect.backend.runtime.fingerprint import FingerprintError, fingerprint
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.timing import Timer
from cutedialect.backend.runtime.tunings import best_schedule
from cutedialect.choosing.gemm_price import cycles
from cutedialect.choosing.gemm_problem import Problem
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.need import NONE
from cutedialect.schedule import Schedule

from .gemm import GemmCall, ReadyCall, normalized, schedule_of
from .gemm_declaration import GEMM
from .gemm_scales import panel_facts
from .tunable import held, rough, tensor_class
from .tuned_options import Candidate, Options

# Of the list, what is not estimated to take this many times as long as the best, at most so many.
_SLOWER = 2.0
_MOST_LISTED = 20
# Variations of the first few: the walk over tiles, and warpgroups that take tiles in turns, whose
# accumulators have to leave room for the epilogue.
_VARIED = 3
_WALKS = (
    *(Schedule(raster=raster) for raster in (1, 2, 4, 8, 16, 32)),
    Schedule(raster=8, order="snake"),
    Schedule(raster=8, order="hilbert"),
)
_MOST_ALTERNATE = 128 * 128
_SHARES = (
    *(Schedule(split_k=parts) for parts in (2, 4, 8)),
    *(Schedule(split_k=parts, reduction="cluster") for parts in (2, 4)),
    Schedule(scheduler="stream"),
)
# CTA tiles where warps multiply by themselves; the depth is counted in 64 bytes.
_ROWS = _COLUMNS = (64, 128, 256)
_DEPTHS = (1, 2)
_STAGES = (2, 3, 4)
_DEPTH_BYTES = 64
_MOST_ACCUMULATORS = 128 * 256
# Results of a tile from which warps that load are tried beside those that multiply.
_LEAST_OF_ROLES = 128 * 128
# The same where warps multiply blocks by scales in panels of 128 rows: grids of warps that leave a
# thread 64 or 128 accumulators, and depths of whole panels.
_OF_PANELS = (
    ((128, 128), (2, 2)),
    ((128, 128), (4, 2)),
    ((128, 256), (2, 4)),
    ((256, 128), (4, 2)),
)
_PANEL_DEPTHS = (128, 256)


class TunableGemm:
    """A call of `cute.gemm` on arrays or specs of given extents."""

    name = "gemm"

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any], timer: Timer) -> None:
        self._options = {k: v for k, v in options.items() if k not in ("arch", "backend", "stream")}
        self._arch: str = options["arch"]
        self._alpha, self._beta, call = self._checked(args, timer)
        self._call = call
        self._out = held(call.result, "out", timer) if call.out is None else call.result

    def _checked(self, args: tuple[Any, ...], timer: Timer) -> tuple[float, float, GemmCall]:
        given = GEMM.given(*args, **self._options)
        if given.acc is not None:
            raise TypeError("acc: expected no tile to tune cute.gemm with, got one")
        given = normalized(given)
        for each in GEMM.arrays:
            setattr(given, each.name, held(getattr(given, each.name), each.name, timer))
        return given.alpha, given.beta, GemmCall(given)

    @property
    def problem(self) -> str:
        return problem_class(self._call)

    @property
    def fingerprint(self) -> str:
        return _program_fingerprint(self._call.activation)

    def candidates(self) -> tuple[Schedule | None, ...]:
        if self._call.takes_tcgen05(self._arch):
            return None, *GEMM_SPACE.ranked((self._call.problem(arch=self._arch),), None, NONE)
        listed = _specialized if self._call.takes_wgmma(self._arch) else _uniform
        listed = _in_panels if self._call.has_panels else listed
        return None, *listed(self._call, self._arch)

    def compiled(self, schedule: Candidate) -> Kernel:
        kernel = self._ready(schedule).kernel
        if kernel is None:
            raise ValueError(f"a: expected an output with elements, got {self._call.out_shape}")
        return kernel

    def arguments(self, schedule: Candidate) -> tuple[Any, ...]:
        call = self._call
        of_call = call.a, call.b, call.c, call.bias, call.aux
        a, b, c, bias, aux = (each and each.value for each in of_call)
        scale_a, scale_b = call.scale_values
        ready = self._ready(schedule)
        given = ready.arguments(
            (a, b, c, bias, self._out, scale_a, scale_b, call.zero_value, aux),
            (self._alpha, self._beta),
        )
        return tuple(value for value in given if value is not None)

    def _ready(self, schedule: Candidate) -> ReadyCall:
        assert not isinstance(schedule, Options)  # `tune` refuses these for a product
        chosen = schedule_of(self._call, schedule, self._arch)
        return self._call.prepared_with(chosen, self._arch, "auto")


def kept_schedule(call: GemmCall, arch: str) -> Schedule | None:
    """The fastest schedule that tuning found for such a call on this device; None where nothing was
    tuned, or nothing is faster than what is chosen without tuning.
    """
    try:
        kernel = _program_fingerprint(call.activation)
    except FingerprintError:
        return None
    best = best_schedule(kernel, problem_class(call), arch, device_name())
    return Schedule.parse(best) if best else None


def kernel_class(call: GemmCall) -> str:
    """What kernels of a schedule depend on: types, majors, alignments and the epilogue."""
    return f"gemm {problem_class(call, extents=False)} {call.activation}"


def problem_class(call: GemmCall, extents: bool = True) -> str:
    """Sizes (if not left out), types, majors, alignment classes and the epilogue of a call."""
    *batch, m, n = (rough(extent) for extent in call.out_shape)
    k = rough(call.k)
    sizes = "x".join(str(extent) for extent in (*batch, m, n, k))
    given = {
        "a": call.a.value,
        "b": call.b.value,
        "c": call.c and call.c.value,
        "bias": call.bias and call.bias.value,
        "out": call.result,
        "aux": call.aux and call.aux.value,
    }
    parts = [*([sizes] if extents else []), f"acc {call.acc_dtype.name}"]
    parts += [
        f"{name} {tensor_class(v, name, extents)}" for name, v in given.items() if v is not None
    ]
    if call.is_scaled:
        spans = [None if scale is None else scale.spans for scale in call.scales]
        parts.append(f"scales {spans[0]} {spans[1]}")
    if call.has_zero:
        parts.append(f"zeros {call.zero.spans if call.zero else ''}".strip())
    if call.packing_text is not None:
        parts.append(f"packed {call.packing_text}")
    if call.promotes:
        parts.append("promoted")
    if call.splits:
        parts.append("3xtf32")
    return ", ".join(parts)


@lru_cache(maxsize=64)
def _program_fingerprint(activation: str | Callable[..., Any] | None) -> str:
    from .library.gemm import program_for

    return fingerprint(program_for(activation).function)


def _specialized(call: GemmCall, arch: str) -> list[Schedule]:
    """What the space puts first, of which the default is the first; the first of them walked in
    other orders, by warpgroups in turns, and shared by CTAs.
    """
    problem = call.problem(arch=arch)
    ranked = list(islice(GEMM_SPACE.ranked((problem,), None, NONE), _MOST_LISTED))
    if not ranked:
        return []
    limit = _SLOWER * cycles(ranked[0], problem)
    listed = [each for each in ranked if cycles(each, problem) <= limit]
    walked = [each.merged(walk) for each, walk in product(listed[:_VARIED], _WALKS)]
    small = [
        each
        for each in listed
        if each.tile and prod(each.tile[:2]) <= _MOST_ALTERNATE and each.warps is None
    ]
    turns = [each.merged(Schedule(roles="alternate")) for each in small[:_VARIED]]
    # CTAs share a tile where there are fewer than a device has multiprocessors.
    most = problem.device.processors
    few = [each for each in listed if _tiles(problem, each) < most and not each.split_k]
    # One warpgroup loads and prepares where CTAs of a cluster add up.
    few = [
        each.merged(Schedule(roles="specialized")) if each.plan.has_preparing_group else each
        for each in few[:_VARIED]
    ]
    shared = [each.merged(share) for each, share in product(few, _SHARES)]
    return list(dict.fromkeys([*listed, *walked, *turns, *shared]))


def _tiles(problem: Problem, schedule: Schedule) -> int:
    assert schedule.tile is not None
    m, n = problem.m, problem.n
    if schedule.swap_ab == "yes":
        m, n = n, m
    rows, columns = schedule.tile[:2]
    return problem.batch * -(-m // rows) * -(-n // columns)


def _in_panels(call: GemmCall, arch: str) -> list[Schedule]:
    """Tiles of whole panels of scales, and rings that shared memory holds."""
    from cutedialect.atoms import target

    facts = panel_facts(call.a.dtype, call.scales)
    # A row of a tile has so many bytes for each element of the depth, its scales among them.
    each = facts["bits"] / 8 + 1 / facts["scaled"]
    uniform = [
        Schedule(tile=(*tile, depth), warps=warps, stages=stages)
        for (tile, warps), depth, stages in product(_OF_PANELS, _PANEL_DEPTHS, _STAGES)
        if stages * sum(tile) * depth * each <= target(arch).smem_per_cta
    ]
    return [*uniform, *_loaded_by_others(uniform, arch)]


def _uniform(call: GemmCall, arch: str) -> list[Schedule]:
    """Tiles and rings that shared memory holds, where every warp loads and multiplies; large ones
    with warps that load beside those that multiply, too.
    """
    from cutedialect.atoms import target

    smem = target(arch).smem_per_cta
    unit = _DEPTH_BYTES * 8 // call.a.dtype.bits
    uniform = [
        Schedule(tile=(rows, columns, depth * unit), stages=stages)
        for rows, columns, depth, stages in product(_ROWS, _COLUMNS, _DEPTHS, _STAGES)
        if rows * columns <= _MOST_ACCUMULATORS
        and stages * (rows + columns) * depth * _DEPTH_BYTES <= smem
    ]
    return [*uniform, *_loaded_by_others(uniform, arch)]


def _loaded_by_others(listed: Sequence[Schedule], arch: str) -> list[Schedule]:
    """Those of large tiles with a role that loads, where there are mbarriers for one."""
    from cutedialect.atoms import target

    if not target(arch).has("sm_90+"):
        return []
    roles = Schedule(roles="specialized")
    large = [each for each in listed if each.tile and prod(each.tile[:2]) >= _LEAST_OF_ROLES]
    return [each.merged(roles) for each in large]
