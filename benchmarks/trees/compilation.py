"""What one compilation takes of the process, program to PTX, and the protocol's check in it."""

from __future__ import annotations

import functools
import gc
import os
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any
from unittest import mock

_CHECK = "cutedialect.passes.protocol.check_protocol"


def milliseconds(case: Any, target: str) -> dict[str, float]:
    """Of a case's default kernel with empty memos: in all, and of the check, 0 in trees without."""
    forget()
    with mock.patch.dict(os.environ, CUTEDIALECT_NO_CACHE="1"), _checks() as spent:
        began = time.process_time()
        case.compiled(None, target)
        whole = time.process_time() - began
    return {"whole": 1e3 * whole, "check": 1e3 * sum(spent)}


@contextmanager
def _checks() -> Iterator[list[float]]:
    """The seconds of each check of a kernel meanwhile."""
    spent: list[float] = []
    try:
        check = import_module(_CHECK)
        verdict_of = check.verdict_of
    except (ImportError, AttributeError):
        yield spent
        return

    def timed(kernel: Any) -> Any:
        began = time.process_time()
        try:
            return verdict_of(kernel)
        finally:
            spent.append(time.process_time() - began)

    with mock.patch.object(check, "verdict_of", timed):
        yield spent


def forget() -> None:
    """Empty what earlier compilations left: kernels, and the memos of the package's functions."""
    import_module("cutedialect.frontend.launch")._kernels = {}
    for name, module in list(sys.modules.items()):
        if name.startswith("cutedialect."):
            for value in vars(module).values():
                if isinstance(value, functools._lru_cache_wrapper):
                    value.cache_clear()
    gc.collect()
