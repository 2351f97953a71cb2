"""`cute.attention_backward` as something to tune. A call without a schedule looks for a result of
its class of problems on its device.
"""

from __future__ import annotations

from functools import lru_cache
from itertools import starmap
from typing import Any

from cutedialect.backend.runtime.devices import device_name
from cutedialect.backend.runtime.fingerprint import fingerprint
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.timing import Timer
from cutedialect.backend.runtime.tunings import best_schedule
from cutedialect.choosing.attention_backward_space import ATTENTION_BACKWARD as SPACE
from cutedialect.choosing.attention_backward_space import whole
from cutedialect.choosing.attention_problem import BACKWARD_RULES, AttentionBackwardProblem
from cutedialect.choosing.choose import choose
from cutedialect.choosing.need import NONE
from cutedialect.schedule import Schedule

from .attention_backward import AttentionBackwardCall
from .attention_operands import ATTENTION_BACKWARD
from .attention_tuning import held_array, held_indices, problem_class
from .dtypes import DType
from .library.attention_backward import attention_backward as program
from .ready_attention_backward import ReadyAttentionBackward
from .rules import Extents, new_spec
from .tunable import held
from .tuned_options import Candidate, Options

_INDICES = "lengths", "cu_seqlens"
_ARRAYS = (
    "do", "q", "k", "v", "out", "lse", "dlse", "dq", "dk", "dv", "scale_q", "scale_k", "scale_v",
)  # fmt: skip
# Facts that tell targets apart.
_OF_TARGETS = ("on_groups", "has_tensor_memory")
# Fields that are varied one at a time around what is chosen.
_VARIED = (
    *(Schedule(stages=stages) for stages in (1, 2, 3)),
    *(Schedule(overlap=way) for way in ("no", "yes")),
    *(Schedule(scheduler=way) for way in ("persistent", "dynamic")),
    *(Schedule(order="sections", raster=heads) for heads in (1, 8, 32)),
    *(Schedule(epilogue=way) for way in ("direct", "smem", "tma")),
    Schedule(split_loops="yes"),
)


def tuned_tiles(problem: AttentionBackwardProblem) -> list[Schedule]:
    """The schedules of the tiles of a target that may suffice, others than heads suit among them,
    as far as is counted.
    """

    def is_known(name: str, wanted: object) -> bool:
        return name not in _OF_TARGETS or getattr(problem, name) == wanted

    rules = BACKWARD_RULES.tiles.rules
    fit = (rule.then for rule in rules if all(starmap(is_known, rule.when.items())))
    listed = (whole(problem, tile) for tile in fit)
    return [each for each in listed if SPACE.need(problem, each).fits(problem.target, NONE)]


class TunableAttentionBackward:
    """A call of `cute.attention_backward` on arrays, or specs of given extents."""

    name = "attention_backward"

    def __init__(self, args: tuple[Any, ...], options: dict[str, Any], timer: Timer) -> None:
        self._arch: str = options["arch"]
        self._timer = timer
        given = ATTENTION_BACKWARD.given(*args, **{k: v for k, v in options.items() if k != "arch"})
        for name in _ARRAYS:
            setattr(given, name, held_array(getattr(given, name), name, timer))
        for name in _INDICES:
            setattr(given, name, held_indices(getattr(given, name), name, timer))
        self._call = AttentionBackwardCall(given)
        self.problem = backward_class(self._call)
        for name, (shape, dtype) in self._call.gradients.items():
            if getattr(given, name) is None:
                # The results of each candidate are compared with the first one's.
                setattr(given, name, held(new_spec(shape, dtype), name, timer))
        self._memory: dict[tuple[Extents, DType], list[Any]] = {}

    @property
    def fingerprint(self) -> str:
        return _program_fingerprint()

    def candidates(self) -> tuple[Schedule | None, ...]:
        problem = self._call.backward_problem(self._arch, "auto")
        seen, listed = {choose(SPACE, problem)}, []
        for given in (*tuned_tiles(problem), *_VARIED):
            schedule = choose(SPACE, problem, given)
            if schedule not in seen:
                seen.add(schedule)
                listed.append(given)
        return None, *listed

    def compiled(self, schedule: Candidate) -> Kernel:
        kernel = self._ready(schedule).kernel
        if kernel is None:
            raise ValueError(f"q: expected {self._call.lacks()}")
        return kernel

    def arguments(self, schedule: Candidate) -> tuple[Any, ...]:
        taken: dict[tuple[Extents, DType], int] = {}

        def memory(shape: Extents, dtype: DType) -> Any:
            """What no other argument of the call has, and other candidates have again."""
            key = shape, dtype
            number = taken[key] = taken.get(key, -1) + 1
            known = self._memory.setdefault(key, [])
            if number == len(known):
                known.append(held(new_spec(shape, dtype), "memory", self._timer))
            return known[number]

        given = self._call.program_arguments(self._ready(schedule), memory)
        return tuple(value for value in given if value is not None)

    def _ready(self, schedule: Candidate) -> ReadyAttentionBackward:
        assert not isinstance(schedule, Options)  # `tune` refuses these for a call of arrays
        return self._call.prepared_with(schedule, self._arch)


def kept_schedule(call: AttentionBackwardCall, arch: str) -> Schedule | None:
    """The fastest schedule that tuning found for such a call on this device, if any."""
    best = best_schedule(_program_fingerprint(), backward_class(call), arch, device_name())
    return Schedule.parse(best) if best else None


def backward_class(call: AttentionBackwardCall) -> str:
    """The classes of the arrays, and what is asked for beside them."""
    gradients = (f"{name} {dtype.name}" for name, (_, dtype) in call.gradients.items())
    more = ["deterministic"] if call.given.deterministic else []
    more += ["copies"] if call.copies else []
    return ", ".join([problem_class(call), *gradients, *more])


@lru_cache(maxsize=1)
def _program_fingerprint() -> str:
    return fingerprint(program.function)
