"""A progress line on standard error: a bar, the row in work and what is done with it. It shows on a
terminal only, and is wiped before a row of the table is printed.
"""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

_WIDTH = 24


class Progress:
    """`total` steps; `step` begins one, `note` says what is being done, `clear` wipes the line."""

    def __init__(self, total: int, stream: TextIO | None = None) -> None:
        self._total = total
        self._stream = sys.stderr if stream is None else stream
        self._begun = time.monotonic()
        self._done = -1
        self._name = ""
        self._shown = False

    def step(self, name: str) -> None:
        self._done += 1
        self._name = name
        self.note("")

    def note(self, what: str) -> None:
        if not self._stream.isatty():
            return
        filled = _WIDTH * self._done // max(1, self._total)
        bar = "#" * filled + "." * (_WIDTH - filled)
        seconds = time.monotonic() - self._begun
        left = ""
        if self._done:
            left = f", {seconds / self._done * (self._total - self._done):.0f} s left"
        text = f"[{bar}] {self._done + 1}/{self._total}{left}  {self._name}  {what}"
        self._stream.write("\r\x1b[K" + text[: shutil.get_terminal_size().columns - 1])
        self._stream.flush()
        self._shown = True

    def clear(self) -> None:
        if self._shown:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shown = False
