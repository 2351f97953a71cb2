"""What torch.compile makes of cases, compiled in processes of their own before the worker times it.
It compiles for seconds and measures its candidates for some of them; the caches on disk carry both
to the worker. One process at a time measures, so that what is chosen does not depend on the others.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import nullcontext, suppress
from multiprocessing import active_children, get_context
from typing import Any

from .streaming_case import COMPILED, TUNED, Streaming

_PROCESSES = 14
# torch spreads each compilation over processes of its own unless told otherwise.
_THREADS = "TORCHINDUCTOR_COMPILE_THREADS"


class PeerCompilation:
    """Compiles the peers of cases from entering on, the first cases first; `ready` says which cases
    have all of them.
    """

    def __init__(self, cases: Iterable[Streaming]) -> None:
        self._cases = list(cases)
        self._pool: ProcessPoolExecutor | None = None
        self._futures: dict[Streaming, list[Any]] = {}

    def __enter__(self) -> PeerCompilation:
        if self._cases:
            context = get_context("spawn")
            processes = min(_PROCESSES, os.cpu_count() or 1, 2 * len(self._cases))
            self._pool = ProcessPoolExecutor(processes, context, _begin, (context.RLock(),))
            for case in self._cases:
                self._futures[case] = [
                    self._pool.submit(compile_peer, case, name) for name in (COMPILED, TUNED)
                ]
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():  # the device is the worker's alone from here on
                process.kill()
                process.join()

    def ready(self, seconds: float) -> list[Streaming]:
        """The cases that are compiled after at most so many seconds."""
        wait([each for both in self._futures.values() for each in both], timeout=seconds)
        return [case for case, both in self._futures.items() if all(each.done() for each in both)]


def compile_peer(case: Streaming, name: str) -> None:
    """Compile one peer of a case by calling it once."""
    import torch  # pyright: ignore[reportMissingImports]

    with _alone():
        operands = case.make_operands(torch, 0)
    case.theirs(torch)[name]()(operands)
    torch.cuda.synchronize()
    del operands
    torch.cuda.empty_cache()


_device: Any = None


def _alone() -> Any:
    """Held by the one process that uses the device."""
    return nullcontext() if _device is None else _device


def _begin(device: Any) -> None:
    """Let torch measure its candidates only while this process holds the device."""
    global _device
    _device = device
    os.environ.setdefault(_THREADS, "1")
    with suppress(ImportError, AttributeError):
        from torch._inductor.runtime import (  # pyright: ignore[reportMissingImports]
            benchmarking,
        )

        kind = type(benchmarking.benchmarker)
        kind.benchmark_gpu = _held(kind.benchmark_gpu)


def _held(function: Callable[..., Any]) -> Callable[..., Any]:
    def measured(*args: Any, **options: Any) -> Any:
        with _alone():
            return function(*args, **options)

    return measured
