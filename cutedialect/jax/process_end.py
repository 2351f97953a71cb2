"""The end of a process that XLA still calls. A thread of XLA that wants Python's lock while the
interpreter is torn down never gets it, and XLA's clients wait for their threads, without a word,
for ever. So what is at work ends first.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import jax  # pyright: ignore[reportMissingImports]

# Seconds without a call after which none is expected: a chain of calls whose result nobody holds
# any more takes less from one to the next.
_QUIET_SECONDS = 0.05
# Of a process that the user interrupts.
_INTERRUPTED = 130


class _Calls:
    """How many calls of XLA run, how many there were, and whether any may come."""

    def __init__(self) -> None:
        self.changed = threading.Condition()
        self.running = self.begun = 0
        self.expected = False


_calls = _Calls()


def expect_calls() -> None:
    """Note that something is traced that XLA will call."""
    _calls.expected = True


@contextmanager
def at_work() -> Iterator[None]:
    """A call of XLA, from its first line of Python to the last."""
    with _calls.changed:
        _calls.running += 1
        _calls.begun += 1
    try:
        yield
    finally:
        with _calls.changed:
            _calls.running -= 1
            _calls.changed.notify_all()


# JAX's own function for the end was registered before, so that it runs behind this one.
@atexit.register
def _wait_for_calls() -> None:
    """Let results be there that somebody holds, and calls end whose results nobody does. A user who
    interrupts that ends the process at once.
    """
    if not _calls.expected and not _calls.begun:
        return
    try:
        for platform in sorted({device.platform for device in jax.devices()} | {"cpu"}):
            for array in jax.live_arrays(platform):
                with suppress(Exception):  # the error of a call, which nobody asks for any more
                    array.block_until_ready()
        _wait_for_quiet()
    except KeyboardInterrupt:
        with suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(_INTERRUPTED)


def _wait_for_quiet() -> None:
    while True:
        with _calls.changed:
            _calls.changed.wait_for(lambda: not _calls.running)
            before = _calls.begun
        time.sleep(_QUIET_SECONDS)
        with _calls.changed:
            if _calls.begun == before:
                return
