"""The sections of `benchmarks.attention` that a seed draws, and what is asked of them."""

from __future__ import annotations

from collections.abc import Sequence

from .attention_draws import ACCURACY, STRATA, drawn
from .drawn_table import Drawn
from .rows import Row
from .strata import judged


def table(description: str | None) -> Drawn:
    return Drawn(
        "attention", description, drawn, _reached, summary, unranked=ACCURACY, shuffled=True
    )


def _reached(row: Row, copied: float | None) -> bool:
    return row.passed and not _is_behind(row)


def _is_behind(row: Row) -> bool:
    """Whether another way is faster by more than is asked."""
    least = max((each.of_best for each in STRATA if each.section == row.case.section), default=0.0)
    return row.of_best is not None and row.of_best < least


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
    failed = [row for row in rows if row.failure is not None or row.right is False]
    lines += [f"  {row.verdict} {row.case.name}: {row.failure or 'error'}" for row in failed]
    lines += [
        f"  {row.of_best:.3f} of the best way: {row.case.name} "
        + ", ".join(f"{name} {row.peers.get(name)}" for name in row.case.rivals)
        for row in rows
        if _is_behind(row)
    ]
    return lines, passed and not failed
