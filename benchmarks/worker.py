"""The process that holds the GPU: reads requests and writes results, JSON lines both ways.

It stays for all cases, so that ours and the yardstick share one context; `supervisor.py` starts it
and replaces it when a kernel hangs or takes the context along.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib.metadata
import importlib.util
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, TextIO

from .cases import case_of
from .contenders import make_contenders
from .kernels import resources
from .measurement import DeviceLostError, measure, reason
from .timing import Plan

_LOST = 3
# Bytes of a copy that is timed, many times L2.
_COPIED = 1 << 30


def main() -> int:
    # Whatever a library prints must not end up between the answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    torch = _torch()
    if isinstance(torch, str):
        _say(answers, {"missing": torch})
        return 2
    _say(answers, {"machine": machine(torch)})
    for line in sys.stdin:
        if not serve(torch, json.loads(line), lambda message: _say(answers, message)):
            return _LOST
    return 0


def serve(torch: Any, request: dict[str, Any], say: Callable[[dict[str, Any]], None]) -> bool:
    """Answer one request; False when the context is gone."""
    if request.get("copy"):
        say({"bytes_per_second": copy_rate(torch)})
        return True
    case = case_of(request["case"])
    answer: dict[str, Any] = {"results": []}
    alive = True
    phases = _Phases(say)
    try:
        makers = make_contenders(
            torch,
            case,
            request["schedules"],
            peers=request["peers"],
            yardsticks=request.get("yardsticks", True),
        )
        results = measure(torch, case, makers, Plan(**request["plan"]), phases)
    except DeviceLostError as lost:
        results, alive = lost.args[0], False
        answer["lost"] = True
    except Exception as error:
        results, answer["failure"] = [], reason(error)
    answer["results"] = [asdict(result) for result in results]
    if alive and request.get("resources"):
        phases("resources")
        answer["resources"] = {
            result.name: resources(case, request["schedules"][result.name])
            for result in results
            if result.failure is None and result.name in request["schedules"]
        }
    if alive:
        phases("freeing")
        torch.cuda.empty_cache()
    answer["seconds"] = phases.ended()
    say(answer)
    return alive


class _Phases:
    """Says what is being done, and counts the seconds of each."""

    def __init__(self, say: Callable[[dict[str, Any]], None]) -> None:
        self._say = say
        self._seconds: dict[str, float] = {}
        self._doing: str | None = None
        self._begun = 0.0

    def __call__(self, what: str) -> None:
        self.ended()
        self._doing, self._begun = what, time.perf_counter()
        self._say({"doing": what})

    def ended(self) -> dict[str, float]:
        """The seconds of each phase by now."""
        if self._doing is not None:
            spent = time.perf_counter() - self._begun
            self._seconds[self._doing] = self._seconds.get(self._doing, 0.0) + spent
            self._doing = None
        return self._seconds


def machine(torch: Any) -> dict[str, object]:
    """What the figures depend on."""
    properties = torch.cuda.get_device_properties(0)
    return {
        "device": torch.cuda.get_device_name(),
        "multiprocessors": properties.multi_processor_count,
        "l2_bytes": getattr(properties, "L2_cache_size", None),
        "torch": torch.__version__,
        "cuda": torch.version.cuda,
        "cublas": _cublas_version(),
        "cudnn": torch.backends.cudnn.version(),
        "cupy": next(filter(None, map(_version, ("cupy-cuda13x", "cupy-cuda12x", "cupy"))), None),
        "triton": _version("triton"),
    }


def copy_rate(torch: Any) -> float:
    """Bytes that a copy on the device reads and writes in a second: the best of a few."""
    source = torch.empty(_COPIED, dtype=torch.int8, device="cuda").fill_(1)
    target = torch.empty_like(source)
    seconds = []
    for _ in range(8):
        start, stop = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        target.copy_(source)
        stop.record()
        torch.cuda.synchronize()
        seconds.append(1e-3 * start.elapsed_time(stop))
    return 2 * _COPIED / min(seconds)


def _torch() -> Any:
    """torch, or what of it is missing."""
    if importlib.util.find_spec("torch") is None:
        return "torch and a CUDA device, got no torch"
    import torch  # pyright: ignore[reportMissingImports]

    if not torch.cuda.is_available():
        return "torch and a CUDA device, got no device"
    return torch


def _version(package: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(package)
    return None


def _cublas_version() -> str | None:
    """The version of the library that torch has loaded."""
    for major in (13, 12, 11):
        with contextlib.suppress(OSError, AttributeError):
            library = ctypes.CDLL(f"libcublas.so.{major}", ctypes.RTLD_GLOBAL)
            parts = [ctypes.c_int() for _ in range(3)]
            for index, part in enumerate(parts):
                library.cublasGetProperty(index, ctypes.byref(part))
            return ".".join(str(part.value) for part in parts)
    return None


def _say(answers: TextIO, message: dict[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()


if __name__ == "__main__":
    sys.exit(main())
