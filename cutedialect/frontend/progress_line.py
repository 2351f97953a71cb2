"""A line on standard error that says how far a long search is. It shows on a terminal only."""

from __future__ import annotations

import shutil
import sys
import time
from typing import TextIO

_INTERVAL = 0.1


class ProgressLine:
    """`show` replaces the line, at most ten times a second; `clear` wipes it."""

    def __init__(self, stream: TextIO | None = None) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._shown_at = 0.0
        self._shows = False

    def show(self, text: str) -> None:
        """Say where the search is."""
        now = time.monotonic()
        if not self._stream.isatty() or (self._shows and now - self._shown_at < _INTERVAL):
            return
        width = shutil.get_terminal_size().columns - 1
        self._stream.write("\r\x1b[K" + text[:width])
        self._stream.flush()
        self._shown_at, self._shows = now, True

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._shows:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shows = False
