"""Predictions of the static model in the place of timings: of devices that no one lends. No call
runs the model; price files are fitted to what it says (`fit.py`). It takes no branch that depends
on run time, and so sees nothing of what CTAs that share a tile add up: the constants of these stay
as they are.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from functools import lru_cache

import cutedialect as cute
from cutedialect.atoms import Device
from cutedialect.choosing.need import NONE
from cutedialect.choosing.tensor_memory_schedules import TENSOR_SPACE
from cutedialect.model import predict
from cutedialect.tools.model_command import parsed

from .fit_timings import Record, drawn, gemm_of, problem_of
from .schedule_worker import NoMemory, call_of, whole
from .static_model import arguments_of

# Problems share kernels.
_module = lru_cache(maxsize=512)(parsed)
# How many times the rows of one table are drawn; of each problem, schedules that come first, and
# others.
_SCALE, _FIRST, _OTHERS = 2.0, 8, 3


def predicted(
    device: Device, seed: int, minutes: float, say: Callable[[str], None]
) -> Iterator[list[Record]]:
    """What schedules of one drawn problem after the other take on a device by the model, until the
    minutes are over: those that the price at hand puts first, and some of the others.
    """
    began = time.monotonic()
    for name in drawn(seed, _SCALE):
        if time.monotonic() > began + 60 * minutes:
            return
        case, (specs, options) = gemm_of(name), call_of(name)
        target = cute.gemm.tunable(specs, options | {"arch": device.arch}, NoMemory())
        records: list[Record] = []
        ranked = list(TENSOR_SPACE.ranked((problem_of(name, device),), None, NONE))
        ranked = [schedule for schedule in ranked if schedule.split_k is None]
        others = ranked[_FIRST:]
        drawn_too = random.Random(f"{seed} {name}").sample(others, min(_OTHERS, len(others)))
        for schedule in map(whole, ranked[:_FIRST] + drawn_too):
            text = schedule.text()
            try:
                kernel = target.compiled(schedule)
                module = _module(kernel.stages["convert-to-ptx"])
                seconds = predict(module, arguments_of(case, kernel)).seconds
            except (cute.CompileError, ValueError) as error:
                say(f"{name}: {text}: {error}")
                continue
            at = round(time.monotonic() - began)
            us = round(1e6 * seconds, 3)
            record = {"case": name, "schedule": text, "us": us, "run": seed, "at": at}
            records.append(record | {"predicted": True})
        yield records
