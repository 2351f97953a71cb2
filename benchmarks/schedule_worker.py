"""The processes in which schedules are compiled and timed for `fit.py`: JSON lines both ways.

    python -m benchmarks.schedule_worker compile
    python -m benchmarks.schedule_worker time

One that compiles chooses the schedules of a case and leaves their machine code in the disk cache;
it takes nothing of the device, so that many do it side by side. The one that times finds it there.
"""

from __future__ import annotations

import json
import os
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any

import cutedialect as cute
from cutedialect.backend.runtime.arrays import TensorArgument
from cutedialect.backend.runtime.buffers import DeviceTensor
from cutedialect.backend.runtime.devices import current_arch
from cutedialect.backend.runtime.driver import gpu_available
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.program import assembled
from cutedialect.backend.runtime.timing import DeviceTimer, Timer
from cutedialect.choosing.gemm_schedules import GEMM_SPACE
from cutedialect.choosing.need import NONE
from cutedialect.frontend.autotune import tune
from cutedialect.schedule import Schedule

from .fit_timings import gemm_of, problem_of
from .inputs import TYPES

# Of each problem so many schedules are timed, those that the price at hand puts first; and so many
# of those behind them, so that a fit sees more than what one price likes.
_FIRST, _OTHERS, _LISTED = 9, 5, 48
_ROUNDS = 7
# Between the addresses of arrays that nothing reads.
_APART = 1 << 40
Say = Callable[[Mapping[str, object]], None]


class NoMemory:
    """The arrays of a call for which kernels are compiled, and nothing runs."""

    device = "none"

    def __init__(self) -> None:
        self.arch = current_arch() if gpu_available() else "sm_90a"
        self._place = 0

    def random(
        self, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str, align: int
    ) -> DeviceTensor:
        self._place += _APART
        place = self._place + (align if align < 16 else 0)
        return DeviceTensor(TensorArgument(place, shape, strides, dtype, 0, None))

    def copied(self, tensor: TensorArgument) -> DeviceTensor:
        return self.random(tensor.shape, tensor.strides, tensor.dtype, 16)

    def assemble(self, kernel: Kernel) -> object:
        return assembled(kernel.ptx, kernel.arch, spills=kernel.program.spills)

    def prepare(self, kernel: Kernel, arguments: Sequence[Any]) -> Any:
        raise NotImplementedError

    def time(self, prepared: Sequence[Any]) -> list[float]:
        raise NotImplementedError

    def close(self) -> None:
        return None


def main(arguments: Sequence[str], timer: Callable[[], Timer] | None = None) -> int:
    """Answer requests until there are no more; `timer` stands in for a device."""
    (what,) = arguments
    answers = os.fdopen(os.dup(1), "w")
    # Whatever a library prints must not end up between the answers.
    os.dup2(2, 1)

    def say(message: Mapping[str, object]) -> None:
        print(json.dumps(message), file=answers, flush=True)

    if timer is None and not gpu_available():
        say({"missing": "a CUDA device, got none"})
        return 2
    made = timer or (NoMemory if what == "compile" else partial(DeviceTimer, check=False))
    say({"machine": {"device": made().device}})
    answer = compiled if what == "compile" else timed
    for line in sys.stdin:
        request = json.loads(line)
        done = answer(request, made(), say)
        say(done)
        if done.get("lost"):
            return 3
    return 0


def candidates(name: str, seed: int) -> list[str]:
    """The schedules of a case that are timed."""
    ranked = GEMM_SPACE.ranked((problem_of(name),), None, NONE)
    texts = list(dict.fromkeys(whole(each).text() for each in islice(ranked, _LISTED)))
    others = texts[_FIRST:]
    drawn = random.Random(f"{seed} {name}").sample(others, min(_OTHERS, len(others)))
    return texts[:_FIRST] + drawn


def whole(schedule: Schedule) -> Schedule:
    """A schedule that says that its tiles are not shared: else it would be the default where that
    is the same but for shares.
    """
    return Schedule(split_k=1).merged(schedule)


def compiled(request: Mapping[str, Any], timer: Timer, say: Say) -> dict[str, Any]:
    """The schedules of a case that compile and assemble, and why others do not."""
    name = request["case"]
    specs, options = call_of(name)
    target = cute.gemm.tunable(specs, options | {"arch": timer.arch}, timer)
    schedules: list[str] = []
    failures: list[str] = []
    for text in candidates(name, request["seed"]):
        say({"doing": f"compiling {text}"})
        try:
            timer.assemble(target.compiled(Schedule.parse(text)))
        except Exception as error:  # Whatever it is, others are timed.
            failures.append(f"{text}: {type(error).__name__}: {error}")
        else:
            schedules.append(text)
    return {"schedules": schedules, "failures": failures}


def timed(request: Mapping[str, Any], timer: Timer, say: Say) -> dict[str, Any]:
    """Microseconds of the schedules of a case; `lost` where the device is gone."""
    specs, options = call_of(request["case"])
    try:
        tuning = tune(
            cute.gemm, specs, options, configs=request["schedules"], rounds=_ROUNDS, again=True,
            show=lambda text: say({"doing": text}), timer=timer,
        )  # fmt: skip
    except cute.CompileError as error:
        return {"timings": [], "failures": [error.message]}
    timings = {each.schedule: each.median for each in tuning.timings if each.median is not None}
    failures = [f"{each.schedule}: {each.failure}" for each in tuning.failures]
    return {"timings": timings, "failures": failures, "lost": not tuning.complete}


def call_of(name: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The operands of a case, and the options of its call."""
    case = gemm_of(name)
    (specs,) = case.specs
    return specs, {"out_dtype": TYPES[case.dtype][1]}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
