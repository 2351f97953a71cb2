"""Starts the worker, asks it, and replaces it when it stops answering: a kernel that waits for ever
or destroys the CUDA context costs one row, not the table.
"""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

WORKER = (sys.executable, "-m", "benchmarks.worker")
# Where `benchmarks` is found, whatever else is installed under that name.
_ROOT = Path(__file__).parents[1]
_START_SECONDS = 300.0


class WorkerError(Exception):
    """The worker hung or died; `doing` is what it said last."""

    def __init__(self, message: str, doing: str | None) -> None:
        super().__init__(message)
        self.doing = doing


class NoDeviceError(Exception):
    """There is nothing to measure on."""


class Supervisor:
    """A worker that is there when asked. `patience` is the time in seconds between two signs of
    life; `machine` is what the worker said about its device.
    """

    def __init__(self, patience: float = 60.0, command: Sequence[str] = WORKER) -> None:
        self.patience = patience
        self.machine: dict[str, Any] = {}
        self._command = tuple(command)
        self._process: subprocess.Popen[str] | None = None
        self._lines: queue.Queue[str | None] = queue.Queue()
        self._errors: Any = None

    def __enter__(self) -> Supervisor:
        self._start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stop()

    def ask(
        self, request: dict[str, Any], hear: Callable[[str], None] = lambda _: None
    ) -> dict[str, Any]:
        """The answer to a request; `hear` is told what the worker does meanwhile.

        Raises WorkerError after `patience` seconds of silence, or when the worker ends.
        """
        if self._process is None or self._process.poll() is not None:
            self._start()
        assert self._process is not None
        assert self._process.stdin is not None
        doing: str | None = None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise self._failed(doing) from None
        while True:
            message = self._message(self.patience, doing)
            if "doing" not in message:
                if message.get("lost"):  # it is on its way out
                    self._stop()
                return message
            doing = str(message["doing"])
            hear(doing)

    def _message(self, seconds: float, doing: str | None) -> dict[str, Any]:
        try:
            line = self._lines.get(timeout=seconds)
        except queue.Empty:
            self._stop()
            during = f" during '{doing}'" if doing else ""
            raise WorkerError(f"no sign of life for {seconds:g} s{during}", doing) from None
        if line is None:
            raise self._failed(doing)
        return json.loads(line)

    def _failed(self, doing: str | None) -> WorkerError:
        """The end of the worker as an error, with the last line that it wrote about it."""
        code = self._process.wait() if self._process is not None else None
        self._errors.seek(0)
        lines = [line.strip() for line in self._errors.read().splitlines() if line.strip()]
        self._stop()
        said = f": {lines[-1]}" if lines else ""
        return WorkerError(f"the process ended with {code}{said}", doing)

    def _start(self) -> None:
        self._stop()
        self._errors = tempfile.TemporaryFile(  # noqa: SIM115 - lives as long as the worker
            "w+", encoding="utf-8", errors="replace"
        )
        self._process = subprocess.Popen(
            self._command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=_ROOT,
            start_new_session=True,  # Ctrl-C is for the table, which then stops the worker
        )
        self._lines = queue.Queue()
        threading.Thread(
            target=_read, args=(self._process, self._lines), daemon=True, name="answers"
        ).start()
        first = self._message(_START_SECONDS, "start")
        if "missing" in first:
            raise NoDeviceError(f"expected {first['missing']}")
        self.machine = first["machine"]

    def kill(self) -> None:
        """End the worker and what it started (an assembler), from any thread."""
        process = self._process
        if process is not None and process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)

    def _stop(self) -> None:
        self.kill()
        process, self._process = self._process, None
        if process is not None:
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    with contextlib.suppress(OSError):  # what was not read cannot be flushed
                        pipe.close()
        if self._errors is not None:
            self._errors.close()
            self._errors = None


def _read(process: subprocess.Popen[str], lines: queue.Queue[str | None]) -> None:
    assert process.stdout is not None
    try:
        for line in process.stdout:
            lines.put(line)
    except ValueError:  # closed while reading
        pass
    lines.put(None)
