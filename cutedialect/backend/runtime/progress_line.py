"""A line on standard error that says how far a long search, or a run of the emulator, is. It shows
on a terminal only.
"""

from __future__ import annotations

import sys
import time
from typing import TextIO

_INTERVAL = 0.1


class ProgressLine:
    """`show` replaces the line, at most ten times a second; `clear` wipes it. `is_shown` says
    whether there is a terminal.
    """

    def __init__(self, stream: TextIO | None = None) -> None:
        # A process without a terminal may have no standard error at all.
        self._stream: TextIO | None = sys.stderr if stream is None else stream
        self.is_shown: bool = self._stream is not None and self._stream.isatty()
        self._shown_at = 0.0
        self._shows = False

    def show(self, text: str) -> None:
        """Say where the work is."""
        now = time.monotonic()
        if self._stream is None or not self.is_shown:
            return
        if self._shows and now - self._shown_at < _INTERVAL:
            return
        import shutil

        width = shutil.get_terminal_size().columns - 1
        self._stream.write("\r\x1b[K" + text[:width])
        self._stream.flush()
        self._shown_at, self._shows = now, True

    def clear(self) -> None:
        """Leave the terminal as it was."""
        if self._shows and self._stream is not None:
            self._stream.write("\r\x1b[K")
            self._stream.flush()
            self._shows = False
