"""Runs of the explorer, each in a process that is forked from one which has the package loaded: a
run leaves nothing behind, and one that does not end, or that a newer one replaces, is stopped.
"""

from __future__ import annotations

import multiprocessing
import shutil
import tempfile
import threading
from pathlib import Path
from typing import Any

from cutedialect.passes import OURS

_LOADED = (
    "cutedialect.tools.explored",
    "cutedialect.backend.runtime.emulated",
    "cutedialect.backend.emulator.instructions",
    *(f"cutedialect.passes.{file}" for file in OURS.values()),
)


def stopped(why: str) -> dict[str, Any]:
    """The result of a run that was stopped."""
    return {"stopped": why}


class Runs:
    """Runs copies of one file, one at a time, each for at most `seconds`."""

    def __init__(self, file: Path, seconds: float) -> None:
        self.file = file.resolve()
        self.seconds = seconds
        self._folder = Path(tempfile.mkdtemp(prefix="cutedialect-explore-"))
        is_forked = "forkserver" in multiprocessing.get_all_start_methods()
        self._context = multiprocessing.get_context("forkserver" if is_forked else "spawn")
        if is_forked:
            self._context.set_forkserver_preload(list(_LOADED))
        self._lock = threading.Lock()
        self._running: Any = None
        self._numbers = iter(range(1 << 62))

    def run(self, source: str, kind: str, target: str, schedule: str) -> dict[str, Any]:
        """What `explored` gives for a text, or why the run was stopped."""
        folder = self._folder / str(next(self._numbers))
        folder.mkdir()
        copy = folder / self.file.name
        copy.write_text(source, encoding="utf-8")
        receiver, sender = self._context.Pipe(duplex=False)
        what = (sender, str(self.file.parent), source, str(copy), kind, target, schedule)
        process = self._context.Process(target=_explored, args=what, daemon=True)
        with self._lock:
            self._end(self._running)
            self._running = process
            process.start()
        sender.close()
        try:
            if not receiver.poll(self.seconds):
                return stopped(
                    f"the program had not ended after {self.seconds:g} s, and was stopped; "
                    "--seconds gives it more"
                )
            return receiver.recv()
        except EOFError:
            with self._lock:
                is_newest = self._running is process
            process.join(1)
            if not is_newest:
                return stopped("a newer run took the place of this one")
            return stopped(f"the program's process ended with status {process.exitcode}")
        finally:
            with self._lock:
                self._end(process)
            receiver.close()
            shutil.rmtree(folder, ignore_errors=True)

    def close(self) -> None:
        """Stop what runs, and remove the copies."""
        with self._lock:
            self._end(self._running)
            self._running = None
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, process: Any) -> None:
        if process is not None and process.is_alive():
            process.kill()
            process.join()


def _explored(connection: Any, *what: str) -> None:
    """The body of a process; what it runs is imported there."""
    from cutedialect.tools.explored import serve

    serve(connection, *what)
