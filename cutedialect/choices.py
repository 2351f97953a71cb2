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
Activation = Literal["relu", "gelu", "silu", "tanh", "sigmoid"]
Backend = Literal["auto", "emulator", "interpreter", "cuda", "cupy", "cupy-cubin"]
BACKENDS: tuple[Backend, ...] = ("auto", "emulator", "interpreter", "cuda", "cupy", "cupy-cubin")
Precision = Literal["tf32", "3xtf32"]
BlockFormat = Literal[
    "mxfp8", "mxfp8_e5m2", "mxfp6_e2m3", "mxfp6_e3m2", "mxfp4", "nvfp4", "fp8_block", "fp8_square",
]  # fmt: skip
Rounding = Literal["up", "down", "nearest"]
Spills = Literal["refuse", "warn", "allow"]
Unproved = Literal["refuse", "warn"]

Roles = Literal[
    "uniform", "specialized", "alternate", "pipelined", "shifting", "reduced", "corrected", "split",
]  # fmt: skip
# The roles of each plan; plans.py says how they read.
_BUILT_IN = "load 1+: loads; prepare 2: prepares; mma 1: tensor_multiplies; main *: rest"
PLANS = {
    # Every warp does everything: what Ampere's multistage kernels do.
    "uniform": "main *: rest",
    # Beside the warps that compute: one that loads, or threads of a warpgroup where they copy;
    # warps that bring operands into a form that tensor cores read; one that issues multiplies into
    # tensor memory.
    "specialized": _BUILT_IN,
    # The same with teams of warps that take work items in turns.
    "alternate": _BUILT_IN.replace("main *", "main 2x*"),
    # Two warpgroups, of which the second goes on with what the first computes: each has an
    # accumulator of many columns, and one multiplies while the other computes.
    "pipelined": "load 1 @24: loads; main 2>* @240: rest",
    # A warpgroup that copies and one that shifts what it brings, beside those that compute: where
    # these hold few accumulators, since every thread starts with fewer registers.
    "shifting": "load 4 @56: loads; prepare 4 @144: prepares; main * @152: rest",
    # The second with as many warps as compute, which add to memory what tensor memory holds of each
    # trip: the sums of attention's backward pass leave while the next trip is computed.
    "reduced": (
        "load 1 @32: loads; mma 1 @32: tensor_multiplies; reduction * @72: adds; main * @152: rest"
    ),
    # The second with a warpgroup that corrects, in tensor memory, accumulators that change between
    # multiplies (of attention, O), and a warp that stores them, where TMA does.
    "corrected": _BUILT_IN.replace("main *", "epilogue 1: stores; correction 4: corrects; main *"),
    # Sixteen warps: two warpgroups each compute half of a tile's rows, a third corrects both, and
    # of the first one a warp each loads, multiplies and stores; the last one is empty. What they
    # have of the register file is all of it.
    "split": (
        "load 1 @32: loads; mma 1 @32: tensor_multiplies; epilogue 1 @32: stores; "
        "empty 1 @32: nothing; correction 4 @96: corrects; "
        "main 2/* @192: rest"
    ),
}
Scheduler = Literal["single", "persistent", "dynamic", "cancel", "stream", "tail"]
Reduction = Literal["ordered", "atomic", "cluster"]
Order = Literal["columns", "snake", "hilbert", "sections", "tall", "short", "memory"]
Overlap = Literal["no", "yes", "turns"]
Loads = Literal["tma", "threads"]
Maxima = Literal["exact", "lazy", "guessed"]
Switch = Literal["no", "yes"]
Epilogue = Literal["direct", "smem", "tma"]
