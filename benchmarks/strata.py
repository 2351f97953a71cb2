"""Rows of one kind, and what is asked of their ratios together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .rows import Row, geometric_mean


@dataclass(frozen=True)
class Stratum:
    """Rows of one kind and what is asked of their ratios: a geometric `mean`, a share of rows that
    reach `most`, all of them `least`; `goal` is the mean aimed at. A gate of 0 is none, and with no
    gates the least ratio is shown alone. `copies` is
    the share of a device copy's rate that a row may reach instead of a ratio, after 3 us. Of each
    row that was timed under other schedules too, the default's rate is at least `of_best` of the
    fastest one's.
    """

    section: str
    count: int
    mean: float
    most: float
    least: float
    goal: float
    copies: float = 0.0
    share: float = 0.95
    of_best: float = 0.0


def judged(
    stratum: Stratum, rows: Sequence[Row], copied: Callable[[Row], bool]
) -> tuple[str, bool]:
    """A line about the rows of a stratum, and whether all that is asked of them holds; `copied`
    says whether one is as fast as copies.
    """
    ratios = sorted(row.ratio for row in rows if row.ratio is not None)
    mean = geometric_mean(rows)
    if mean is None:
        return f"{stratum.section}: no rows have times", False
    reached = sum(ratio >= stratum.most for ratio in ratios) / len(rows)
    holds = mean >= stratum.mean and reached >= stratum.share and ratios[0] >= stratum.least
    parts = [f"{stratum.section}: geometric mean {mean:.3f} of {len(ratios)}/{len(rows)} rows"]
    gate = f"gate {stratum.mean:.2f}" if stratum.mean else "no gate"
    parts.append(f"({gate}, goal {stratum.goal:.2f})")
    if not (stratum.most or stratum.copies):
        parts.append(f"least {ratios[0]:.2f}")
    if stratum.most:
        below = sum(ratio < stratum.most for ratio in ratios)
        parts.append(f"{below} below {stratum.most:.2f}, least {ratios[0]:.2f}")
        parts.append(f"(at most {1 - stratum.share:.0%} of them, none below {stratum.least:.2f})")
    if stratum.copies:
        fast = sum(map(copied, rows))
        parts.append(f"{fast} within 3 us and {stratum.copies:.2f} of a copy's rate")
        holds = mean >= stratum.mean or fast == len(rows)
    shares = [share for row in rows if (share := row.of_best) is not None]
    if stratum.of_best and shares:
        behind = sum(share < stratum.of_best for share in shares)
        parts.append(f"{behind} below {stratum.of_best:.2f} of the best way, least")
        parts.append(f"{min(shares):.3f}")
        holds &= not behind
    return "  ".join([*parts, *([] if holds else ["MISSED"])]), holds
