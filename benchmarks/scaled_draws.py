"""Products with scales of blocks drawn by lot, for `random_gemms.py --scaled`: formats of both
operands, sizes, batches, groups, epilogues and schedules, and their operands. Elements are small
integers and scales powers of two, so that sums are exact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np

SCALED_TARGETS = ("sm_100a", "sm_103a", "sm_120a", "sm_121a")
_BY_WARPS = ("sm_120", "sm_121")
# Elements, type of scales, elements that share one, elements of a byte.
FORMATS: dict[str, tuple[Any, Any, int, int]] = {
    "mxfp8": (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e8m0fnu, 32, 1),
    "mxfp8_e5m2": (ml_dtypes.float8_e5m2, ml_dtypes.float8_e8m0fnu, 32, 1),
    "mxfp6_e2m3": (ml_dtypes.float6_e2m3fn, ml_dtypes.float8_e8m0fnu, 32, 1),
    "mxfp6_e3m2": (ml_dtypes.float6_e3m2fn, ml_dtypes.float8_e8m0fnu, 32, 1),
    "mxfp4": (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e8m0fnu, 32, 2),
    "nvfp4": (ml_dtypes.float4_e2m1fn, ml_dtypes.float8_e4m3fn, 16, 2),
}
_BYTES, _PAIRS = ("mxfp8", "mxfp8_e5m2"), ("mxfp4", "nvfp4")
_SIX_BITS = ("mxfp6_e2m3", "mxfp6_e3m2")
_PANEL = (128, 4)


@dataclass(frozen=True)
class Scaled:
    """An operand (..., rows, depth) of a format: elements as arrays have them, panels of scales,
    and what both stand for.
    """

    elements: Any
    scales: Any
    wide: Any


def formats_of(one: Any, chance: Any, target: str) -> tuple[str, str]:
    """The formats of A and of B: those of bytes may differ."""
    if chance(0.5):
        return (one(_PAIRS),) * 2
    of_bytes = _BYTES + (_SIX_BITS if target.startswith(_BY_WARPS) else ())
    return one(of_bytes), one(of_bytes)


def schedule_of(one: Any, chance: Any, target: str, packed: int) -> str:
    """A schedule of tiles of whole panels, of which some are refused."""
    depth = 128 * one((1, 1, 2) if packed == 1 else (1, 2, 2))
    choices = {"tile": f"({one((128, 128, 128, 256))},{one((128, 128, 256))},{depth})"}
    by_warps = target.startswith(_BY_WARPS)
    shares: Sequence[tuple[str, float, Sequence[Any]]] = (
        ("cluster", 0.0 if by_warps else 0.6, ("(1,1)", "(2,1)", "(2,1)", "(1,2)", "(2,2)")),
        ("warps", 0.5 if by_warps else 0.05, ("(2,2)", "(4,2)", "(2,4)", "(1,4)", "(8,1)")),
        ("stages", 0.3, (1, 2, 3)),
        ("split_k", 0.2, (2, 3)),
        ("reduction", 0.2, ("ordered", "atomic")),
        ("epilogue", 0.3, ("direct", "smem", "tma")),
        ("scheduler", 0.3, ("single", "persistent", "dynamic")),
        ("raster", 0.2, (1, 2, 8)),
        ("swap_ab", 0.2, ("yes",)),
        ("loads", 0.03, ("threads",)),
        ("roles", 0.5 if by_warps else 0.0, ("specialized", "specialized", "alternate")),
    )
    for name, share, values in shares:
        if chance(share):
            choices[name] = str(one(values))
    return ", ".join(f"{name} = {value}" for name, value in choices.items())


def drawn(format: str, shape: Sequence[int], major: str, rng: Any) -> Scaled:
    """An operand (..., rows, depth); with `major` "N" its rows lie beside each other."""
    element, scale, block, packed = FORMATS[format]
    *batch, rows, depth = shape
    values = rng.integers(-2, 3, shape).astype(element)
    height, width = _PANEL
    down, count = -(-rows // height), -(-depth // block)
    across = -(-count // width)
    numbers = np.ones((*batch, down * height, across * width))
    numbers[..., :rows, :count] = np.exp2(rng.integers(-1, 2, (*batch, rows, count)))
    laid = numbers.reshape(*batch, down, 4, 32, across, width)
    modes = [*range(len(batch)), *(len(batch) + mode for mode in (0, 3, 2, 1, 4))]
    scales = np.ascontiguousarray(laid.transpose(modes)).astype(scale)
    spread = numbers[..., :rows, :count].repeat(block, -1)[..., :depth]
    wide = values.astype(np.float64) * spread
    if packed > 1:
        codes = values.view(np.uint8)
        values = codes[..., ::2] | codes[..., 1::2] << 4
    if major == "N":
        values = np.ascontiguousarray(values.swapaxes(-1, -2)).swapaxes(-1, -2)
    return Scaled(values, scales, wide)
