"""The kernels whose protocols `protocol_mutants` breaks, and the plans that they are compiled with:
GEMMs and attentions of the library, a product as a user writes it, and drawn programs of several
multiplies.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np

import cutedialect as cute
from cutedialect import CompileError

from . import multiplied_programs
from .program_outcome import Outcome, outcome
from .tile_program import Argument, Program

# Schedules of which each gives another protocol, where a target has it.
PLANS = (
    "",
    "roles = uniform",
    "roles = specialized",
    "roles = alternate",
    "roles = shifting",
    "roles = corrected",
    "roles = split",
    "roles = specialized, stages = 2",
    "roles = specialized, scheduler = persistent",
    "roles = specialized, scheduler = dynamic",
    "roles = specialized, scheduler = cancel",
    "roles = specialized, scheduler = stream",
    "roles = specialized, cluster = (2,1)",
    "roles = corrected, cluster = (2,1)",
    "roles = split, cluster = (2,1)",
    # What defaults of attention are with wide heads: P over the scores, and long blocks of keys.
    "tile = (256,128), roles = split, cluster = (2,1)",
    "tile = (128,96), roles = corrected, cluster = (2,1)",
    "roles = specialized, epilogue = direct",
    "overlap = turns",
    # Parts of a loop, of which some have a trip or two.
    "split_loops = yes",
)
_DRAWN = 14
# Relative to the largest element; results are of 16 bits.
_TOLERANCE = 0.02


class Subject(NamedTuple):
    """A kernel: its name, and what becomes of it on a target with a schedule."""

    name: str
    outcome: Callable[[str, str], Outcome]


def gemm(schedule: str = "") -> Program:
    """A product of some tiles, as a program."""
    lines = (
        "i, j = cute.tile_index(C, (64, 64))",
        "a, b = cute.local_tile(A, (64, 64), (i, None)), cute.local_tile(B, (64, 64), (None, j))",
        "acc = cute.zeros((64, 64))",
        "for k in cute.range(a.tiles):",
        "    cute.gemm(a[k], b[k], acc)",
        "cute.copy(acc * 1.0, cute.local_tile(C, (64, 64), (i, j)))",
    )
    arguments = (
        Argument("A", (128, 320), "f16", (0, 1), seed=1, low=-2, high=2),
        Argument("B", (320, 128), "f16", (0, 1), seed=2, low=-2, high=2),
        Argument("C", (128, 128), "f32", (0, 1)),
    )
    return Program(-1, arguments, tuple(f"    {line}" for line in lines), frozenset(), schedule)


def subjects(seed: int) -> tuple[Subject, ...]:
    """All kernels."""
    drawn = [
        Subject(f"drawn {seed}.{number}", partial(_drawn, seed, number)) for number in range(_DRAWN)
    ]
    return (
        Subject("product", lambda target, schedule: outcome(gemm(), target, schedule=schedule)),
        Subject("cute.gemm", partial(_gemm, False)),
        Subject("cute.gemm of transposes", partial(_gemm, True)),
        Subject("cute.attention", partial(_attention, False, (64, 64))),
        Subject("cute.attention, causal", partial(_attention, True, (64, 64))),
        Subject("cute.attention, causal, d = 128", partial(_attention, True, (128, 128))),
        *drawn,
        Subject("cute.attention, d = 256", partial(_attention, False, (256, 256))),
        Subject("cute.attention, causal, d = 256", partial(_attention, True, (256, 256))),
        Subject("cute.attention, d = 192 and 128", partial(_attention, False, (192, 128))),
        Subject("cute.attention, causal, d = 192 and 128", partial(_attention, True, (192, 128))),
    )


def _drawn(seed: int, number: int, target: str, schedule: str) -> Outcome:
    return outcome(multiplied_programs.program_of(seed, number), target, schedule=schedule)


def _gemm(is_transposed: bool, target: str, schedule: str) -> Outcome:
    rng = np.random.default_rng(3)
    a, b = (rng.integers(-2, 3, (192, 320)).astype(np.float16) for _ in range(2))
    one, other = (a.T, b) if is_transposed else (a, b.T)
    wanted = one.astype(np.float64) @ other.astype(np.float64)
    return _judged(lambda options: cute.gemm(one, other, **options), wanted, target, schedule)


def _attention(is_causal: bool, dims: tuple[int, int], target: str, schedule: str) -> Outcome:
    """Attention of heads with columns of Q and K, and of V."""
    rng, (dim, width) = np.random.default_rng(4), dims
    q, k, v = (
        rng.standard_normal((1, 2, 320, each)).astype(np.float16) for each in (dim, dim, width)
    )
    scores = np.einsum("bhid,bhjd->bhij", *(x.astype(np.float64) for x in (q, k))) / dim**0.5
    if is_causal:
        scores = np.where(np.tri(320, dtype=bool), scores, -np.inf)
    p = np.exp(scores - scores.max(-1, keepdims=True))
    wanted = (p / p.sum(-1, keepdims=True)) @ v.astype(np.float64)

    def run(options: dict[str, Any]) -> Any:
        return cute.attention(q, k, v, causal=is_causal, **options)

    return _judged(run, wanted, target, schedule)


def _judged(
    run: Callable[[dict[str, Any]], Any], wanted: np.ndarray, target: str, schedule: str
) -> Outcome:
    """What becomes of a function of the library, next to what it has to give."""
    options: dict[str, Any] = {"arch": target, "backend": "emulator"}
    if schedule:
        options["schedule"] = schedule
    try:
        got = np.asarray(run(options)).astype(np.float64)
    except (CompileError, ValueError, TypeError) as error:
        return Outcome("refused", f"{type(error).__name__}: {error}")
    except Exception as error:
        return Outcome("broken", f"{type(error).__name__}: {error}")
    deviation = np.abs(got - wanted).max()
    if not deviation <= _TOLERANCE * np.abs(wanted).max():
        return Outcome("wrong", f"deviates by {deviation}")
    return Outcome("right")
