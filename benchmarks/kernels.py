"""Our kernels of cases without a device: what each takes, and many of them compiled at once. A
compilation takes longer than a measurement, and the disk cache carries it to the worker.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor, wait
from multiprocessing import active_children, get_context
from typing import Any

from .case import Case
from .telemetry import capability

_PROCESSES = 12


def resources(case: Case, schedule: str | None) -> str:
    """Registers, spilled bytes and shared memory of the kernel, and the heuristic's schedule where
    none was given; empty where a call takes several kernels.
    """
    try:
        kernel = case.compiled(schedule)
        if kernel is None:
            return ""
        found = kernel.resources
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0]
    chosen = f"{kernel.schedule}; " if schedule is None else ""
    spills = f", {found.spills} B SPILLED" if found.spills else ""
    return f"{chosen}{found.registers} registers, {found.smem} B shared{spills}"


class Compilation:
    """Compiles in processes of their own from entering on; `finish` waits for them. What fails here
    fails again in the worker, which then says why.
    """

    def __init__(self, work: Iterable[tuple[Case, str | None]]) -> None:
        self._work = list(work)
        for case in dict.fromkeys(case for case, _ in self._work):
            self._work += [(other, None) for other in case.companions]
        self._pool: ProcessPoolExecutor | None = None
        self._futures: list[Any] = []

    def __enter__(self) -> Compilation:
        arch = _arch()
        if arch is not None and len(self._work) > 1:
            processes = min(_PROCESSES, os.cpu_count() or 1, len(self._work))
            self._pool = ProcessPoolExecutor(processes, get_context("spawn"))
            self._futures = [
                self._pool.submit(assemble, case, schedule, arch) for case, schedule in self._work
            ]
        return self

    def __exit__(self, *error: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)
            for process in active_children():  # a pass that never ends would hold up the exit
                process.kill()

    def finish(self, seconds: float) -> tuple[int, int]:
        """(compiled, all) after at most `seconds`."""
        wait(self._futures, timeout=seconds)
        done = [future for future in self._futures if future.done()]
        return sum(future.exception() is None for future in done), len(self._futures)


def assemble(case: Case, schedule: str | None, arch: str) -> int:
    """The size in bytes of a case's cubin, which is in the disk cache afterwards."""
    kernel = case.compiled(schedule, arch)
    return 0 if kernel is None else len(kernel.cubin)


def _arch() -> str | None:
    """The target of the device, without a context on it."""
    found = capability()
    if found is None:
        return None
    return f"sm_{found}a" if found >= 90 else f"sm_{found}"
