"""Runs PTX text with NumPy: no GPU, no compiler. Lane-exact registers, byte-exact shared memory,
uninitialized data as poison, asynchronous copies that land as late as the kernel allows, and a
report instead of a hang. It shares no table with the compiler: two readings of one specification.
"""

from .errors import EmulatorError, UnsupportedInstruction
from .launch import launch
from .report import GlobalAccess, Report, SharedAccess

__all__ = [
    "EmulatorError",
    "GlobalAccess",
    "Report",
    "SharedAccess",
    "UnsupportedInstruction",
    "launch",
]
