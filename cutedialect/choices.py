"""The words that arguments of calls and fields of schedules may be, as types: a type checker
refuses others, and an editor lists them.
"""

from __future__ import annotations

from typing import Literal

Arch = Literal[
    "sm_70", "sm_72", "sm_75", "sm_80", "sm_86", "sm_87", "sm_88", "sm_89", "sm_90", "sm_90a",
    "sm_100", "sm_100f", "sm_100a", "sm_103", "sm_103f", "sm_103a", "sm_110", "sm_110f", "sm_110a",
    "sm_120", "sm_120f", "sm_120a", "sm_121", "sm_121f", "sm_121a",
]  # fmt: skip
Activation = Literal["relu", "gelu", "silu"]
Backend = Literal["auto", "emulator", "interpreter", "cuda"]
Precision = Literal["tf32", "3xtf32"]
Spills = Literal["refuse", "warn", "allow"]

Roles = Literal["uniform", "specialized", "alternate", "corrected", "split"]
Scheduler = Literal["single", "persistent", "dynamic", "cancel", "stream", "tail"]
Reduction = Literal["ordered", "atomic", "cluster"]
Order = Literal["columns", "snake", "hilbert", "sections", "tall", "short", "memory"]
Overlap = Literal["no", "yes", "turns"]
Loads = Literal["tma", "threads"]
Maxima = Literal["exact", "lazy", "guessed"]
Switch = Literal["no", "yes"]
Epilogue = Literal["direct", "smem", "tma"]
