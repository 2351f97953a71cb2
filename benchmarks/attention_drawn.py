"""The sections of `benchmarks.attention` that a seed draws, and what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from .attention_case import Attention
from .attention_draws import ACCURACY, LATENT, STRATA, drawn
from .drawn_table import Drawn
from .rows import Row
from .strata import judged

# Of latent attention: heads that are few, the share of a device copy's rate that these reach, and
# what others compute in a second.
_FEW_HEADS, _OF_COPY, _GOAL_OF_COPY = 16, 0.75, 0.85
_TFLOPS, _GOAL_TFLOPS = 450, 600
# As in the table of listed rows: a kernel behind another one's long kernel reads low at first.
_BATCH_MS = 6.0


def table(description: str | None) -> Drawn:
    return Drawn(
        "attention",
        description,
        drawn,
        _reached,
        summary,
        unranked=ACCURACY,
        shuffled=True,
        batch_ms=_BATCH_MS,
    )


def _reached(row: Row, copied: float | None) -> bool:
    return row.passed and not _is_behind(row)


def _is_behind(row: Row) -> bool:
    """Whether another way is faster by more than is asked."""
    least = max((each.of_best for each in STRATA if each.section == row.case.section), default=0.0)
    return row.of_best is not None and row.of_best < least


def _judged_latent(row: Row, copied: float | None) -> tuple[str, bool]:
    """Few heads wait for the memory, many compute."""
    assert isinstance(row.case, Attention)
    seconds = 1e-3 * median(row.ours_ms)
    share = row.case.bytes / seconds / copied if copied else 0.0
    if row.case.heads[0] <= _FEW_HEADS:
        holds = share >= _OF_COPY
        found = f"{share:.1%} of a copy's rate (gate {_OF_COPY:.0%}, goal {_GOAL_OF_COPY:.0%})"
    else:
        holds = (row.tflops or 0.0) >= _TFLOPS
        found = f"{row.tflops:.0f} TFLOP/s (gate {_TFLOPS}, goal {_GOAL_TFLOPS})"
    return f"{LATENT}: {row.case.name}: {found}{'' if holds else '  MISSED'}", holds


def summary(rows: Sequence[Row], copied: float | None) -> tuple[list[str], bool]:
    """A line for each stratum, and whether all that is asked of them holds."""
    lines: list[str] = []
    passed = True
    for stratum in STRATA:
        inside = [row for row in rows if row.case.section == stratum.section]
        if inside:
            line, holds = judged(stratum, inside, lambda row: False)
            lines.append(line)
            passed &= holds
    pooled = [row.pooled for row in rows if row.pooled is not None]
    if pooled:
        means, largest, _ = zip(*pooled, strict=True)
        lines.append(
            f"{ACCURACY}: {len(pooled)} problems, mean errors up to {max(means):.2f} of cuDNN's, "
            f"largest up to {max(largest):.2f}"
        )
    for row in rows:
        if row.case.section == LATENT and row.failure is None:
            line, holds = _judged_latent(row, copied)
            lines.append(line)
            passed &= holds
    failed = [row for row in rows if row.failure is not None or row.right is False]
    lines += [f"  {row.verdict} {row.case.name}: {row.failure or 'error'}" for row in failed]
    lines += [
        f"  {row.of_best:.3f} of the best way: {row.case.name} "
        + ", ".join(f"{name} {row.peers.get(name)}" for name in row.case.rivals)
        for row in rows
        if _is_behind(row)
    ]
    return lines, passed and not failed
