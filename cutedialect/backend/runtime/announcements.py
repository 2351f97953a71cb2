"""What a user is warned of, once in a process: that kernels run in the emulator for want of a GPU,
each kernel that the assembler made slower, and each misspelled variable of the environment.
"""

from __future__ import annotations

import functools
import sys
import threading
import warnings
from collections.abc import Iterable
from pathlib import Path

from cutedialect.backend.runtime.errors import EmulatorWarning, LossWarning
from cutedialect.backend.runtime.program import CompiledProgram, losses

_PACKAGE = str(Path(__file__).parents[2])
# "emulator", and the PTX text of kernels.
_announced: set[str] = set()
_announcing = threading.Lock()


def announce() -> None:
    """Warn of the emulator at the line of the user's call, at the first call only."""
    if "emulator" in _announced or not _is_first("emulator"):
        return
    warnings.warn(_reason(), EmulatorWarning, stacklevel=_frames_of_ours())


def announce_environment(misspelled: Iterable[str]) -> None:
    """Warn of each variable that nothing reads, as `environment.check` tells them."""
    for text in misspelled:
        if _is_first(text):
            warnings.warn(text, UserWarning, stacklevel=_frames_of_ours())


def announce_losses(program: CompiledProgram) -> None:
    """Warn of a kernel's registers that spill, or `wgmma` that are serialized, at the line of the
    user's call.
    """
    for each in losses(program):
        if _is_first(program.ptx):
            text = (
                f"{each.message}; spills='refuse' names the nearest schedule that fits, "
                "spills='allow' silences this"
            )
            warnings.warn(text, LossWarning, stacklevel=_frames_of_ours())


def _is_first(what: str) -> bool:
    """Whether nobody was warned of something yet; whoever asks is about to."""
    with _announcing:
        is_first = what not in _announced
        _announced.add(what)
        return is_first


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
    """The stack level of the nearest caller outside of the package, as seen from who warns."""
    frame, level = sys._getframe(1), 1
    while frame.f_back is not None and _is_between(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def _is_between(name: str) -> bool:
    """Whether a file is of the package, or what it computes properties once with."""
    return name.startswith(_PACKAGE) or name == functools.__file__
