"""The announcement, once in a process, that kernels run in the emulator for want of a GPU."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path

from cutedialect.backend.runtime.errors import EmulatorWarning

_PACKAGE = str(Path(__file__).parents[2])
_announced: set[str] = set()


def announce() -> None:
    """Warn of the emulator at the line of the user's call, at the first call only."""
    if _announced:
        return
    _announced.add("emulator")
    warnings.warn(_reason(), EmulatorWarning, stacklevel=_frames_of_ours())


def _reason() -> str:
    """Why there is no GPU to run on, and what to do."""
    silence = "backend='emulator' or CUTEDIALECT_BACKEND=emulator silences this"
    slow = "kernels run in the emulator, which is slow"
    if not _has_nvidia_device():
        return f"expected a CUDA device, got none: {slow}; {silence}"
    return (
        f"expected the CUDA driver to see the NVIDIA GPU of this machine, got no device: {slow}; "
        f"see: python -m cutedialect doctor; {silence}"
    )


def _has_nvidia_device() -> bool:
    """Whether the machine has an NVIDIA GPU, by what its driver leaves in the file system: to ask
    the driver itself would start CUDA in this process.
    """
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def _frames_of_ours() -> int:
    """The stack level of the nearest caller outside of the package, as seen from `announce`."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame, level = frame.f_back, level + 1
    return level
