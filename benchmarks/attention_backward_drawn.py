"""The problems of `benchmarks.attention_backward` that a seed draws: shared heads, windows, packed
sequences, odd lengths, head dimensions from 40 to 256, both types.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import fmean

from .attention_backward_case import AttentionBackward
from .drawn_table import Drawn
from .rows import Row

_CASES, _DEPTHS = 20, (40, 64, 80, 96, 112, 128, 160, 192, 256)
_KINDS = ("plain", "causal", "causal", "shared", "window", "packed")
# Scores of a problem times its heads, as those of 16 heads of 4096 rows and keys.
_SCORES, _TOKENS = 16 * 4096 * 4096, 16384
_MEAN, _LEAST = 1.05, 0.85


def drawn(seed: int, scale: float = 1.0) -> tuple[AttentionBackward, ...]:
    """The rows of a seed, `scale` times as many as usual."""
    rng = random.Random(f"{seed} attention backward")
    rows = [_drawn(rng) for _ in range(max(1, round(scale * _CASES)))]
    return tuple({case.name: case for case in rows}.values())


def _drawn(rng: random.Random) -> AttentionBackward:
    kind, depth = rng.choice(_KINDS), rng.choice(_DEPTHS)
    dtype = rng.choice(("bf16", "bf16", "f16"))
    length = round(2 ** rng.uniform(8, 13))
    if rng.random() < 0.5:
        length = -(-length // 64) * 64
    heads = max(1, 2048 // depth)
    heads -= heads % 4 if heads >= 4 else 0
    batch = max(1, min(_TOKENS // length, 64))
    pair, window, packed = (heads, heads), None, ()
    if kind == "shared":
        pair = heads, max(1, heads // rng.choice((2, 4, 8)))
        pair = (heads - heads % pair[1], pair[1])
    if kind == "window":
        window = rng.randint(32, max(33, length // 2))
    if kind == "packed":
        lengths = [round(2 ** rng.uniform(6, 12)) for _ in range(12)]
        packed, batch, length = tuple(lengths), 1, 0
    causal = kind in ("causal", "window") or rng.random() < 0.5
    label = f"batch {batch}, {length} rows" if not packed else f"{sum(packed)} rows"
    return AttentionBackward(
        "drawn", dtype, batch, pair, length, length, depth, causal, window, packed=packed,
        label=label, gate=_LEAST, goal=1.2,
    )  # fmt: skip


def table(description: str | None) -> Drawn:
    return Drawn(
        "attention_backward", description, drawn, lambda row, _: row.passed, _summary,
        batch_ms=6.0,
    )  # fmt: skip


def _summary(rows: Sequence[Row], copied: float | None) -> tuple[list[str], bool]:
    """What all ratios add up to, and whether that and each of them is enough."""
    ratios = [row.ratio for row in rows if row.ratio is not None]
    failed = [row for row in rows if row.failure is not None or row.right is False]
    lines = [f"  {row.verdict} {row.case.name}: {row.failure or 'error'}" for row in failed]
    if not ratios:
        return lines, False
    mean, least = fmean(ratios), min(ratios)
    holds = mean >= _MEAN and least >= _LEAST and not failed
    lines.insert(
        0,
        f"drawn: {len(ratios)} problems, mean {mean:.3f} (gate {_MEAN}), least {least:.3f} "
        f"(gate {_LEAST}){'' if holds else '  MISSED'}",
    )
    return lines, holds
