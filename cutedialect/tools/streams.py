"""The standard streams of a tool's process, which may be closed or full: a closed input is empty,
and what goes to a closed or full output is a fault that the tool tells in one line.
"""

from __future__ import annotations

import errno
import io
import os
import sys
from contextlib import suppress

# What a stream that is written to may say.
_FAULTS = (errno.ENOSPC, errno.EBADF, errno.EIO, errno.EFBIG, errno.EDQUOT)


class _Closed(io.TextIOBase):
    """The standard output of a process that has none."""

    def write(self, text: str) -> int:
        raise OSError(errno.EBADF, os.strerror(errno.EBADF))


def reason_of(error: OSError | ValueError) -> str:
    """Why a file cannot be read or written, as part of a sentence."""
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return text.lower()


def open_streams() -> None:
    """Put streams in the place of those that were closed when the process began."""
    if sys.stdin is None:
        sys.stdin = io.TextIOWrapper(io.BytesIO(), encoding="utf-8")
    if sys.stdout is None:
        sys.stdout = _Closed()
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115


def output_fault(error: BaseException) -> str | None:
    """What is wrong with standard output, if an error was about it: one of a file names the file.
    What it has not taken is forgotten then.
    """
    if not isinstance(error, OSError) or error.filename is not None or error.errno not in _FAULTS:
        return None
    drop_output()
    return f"cannot write the output: {reason_of(error)}"


def drop_output() -> None:
    """Forget what standard output has not taken, and what follows: Python would write it again, and
    complain, when the process ends.
    """
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
        sys.stdout.flush()
