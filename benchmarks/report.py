"""The table as text and as JSON."""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any

from .rows import Row, geometric_mean

# The last column but the remarks: errors beside those that ours may have twice.
HEADER = (
    f"{'case':32} {'TFLOP/s':>8} {'theirs':>7} {'ratio':>6} {'quartiles':>11} {'gate':>5} "
    f"{'goal':>5} {'HBM':>4} {'error/reference':>17} {'MHz':>5} {'W':>4}"
)


def line_of(row: Row) -> str:
    """One line of the table, under `HEADER`."""
    if row.failure is not None:
        theirs = _number(row.yardstick_tflops, 16, 1)
        return f"{row.case.name:32} {theirs}  FAILED  {row.failure}"
    if row.pooled is not None:
        mean, largest, units = row.pooled
        return (
            f"{row.case.name:32} errors over {row.yardstick}'s: mean {mean:.2f}, largest "
            f"{largest:.2f} ({units:.2f} units in the last place)  {row.verdict}"
        )
    spread = "" if row.spread is None else f"{row.spread[0]:.3f}-{row.spread[1]:.3f}"
    hbm = f"{100 * row.bandwidth:.0f}%" if row.case.starved and row.bandwidth else ""
    error = "" if row.error is None else f"{row.error:.3g}/{row.allowance:.3g}"
    peers = "".join(f"  {name} {_peer(value)}" for name, value in row.peers.items())
    queued = "" if row.captured else "  (no graph)"
    bounds = f"{row.case.gate:5.2f} {row.case.goal:5.2f}" if row.case.gate else " " * 11
    named = len(row.case.yardsticks) > 1 or row.case.companions
    against = f", to {row.yardstick}" if named else ""
    return (
        f"{row.case.name:32} {_number(row.tflops, 8, 1)} {_number(row.yardstick_tflops, 7, 1)} "
        f"{_number(row.ratio, 6, 3)} {spread:>11} {bounds} "
        f"{hbm:>4} {error:>17} {_number(row.mhz, 5, 0)} {_number(row.watts, 4, 0)}  "
        f"{row.verdict}{against}{peers}{queued}"
    )


def summary(rows: Sequence[Row]) -> list[str]:
    """Geometric means of the sections, and what did not pass."""
    lines: list[str] = []
    for section in dict.fromkeys(row.case.section for row in rows):
        inside = [row for row in rows if row.case.section == section]
        mean = geometric_mean(inside)
        if mean is None or len(inside) < 2:
            continue
        goals = {row.case.goal for row in inside if row.case.gate}
        goal = f" (goal {goals.pop():.2f})" if len(goals) == 1 else ""
        counted = sum(row.ratio is not None for row in inside)
        lines.append(f"geometric mean, {section}: {mean:.3f} of {counted}/{len(inside)} rows{goal}")
    missed = [row for row in rows if not row.passed]
    lines.append(f"{len(rows) - len(missed)} of {len(rows)} rows pass their gate")
    for row in missed:
        ratio = "" if row.ratio is None else f" {row.ratio:.3f} < {row.case.gate:.2f}"
        why = row.failure or (ratio.strip() if row.verdict == "MISSED" else "error above twice")
        lines.append(f"  {row.verdict:6} {row.case.name}: {why}")
    return lines


def write_json(
    path: str, machine: dict[str, Any], plan: dict[str, Any], rows: Sequence[Row]
) -> None:
    """Write everything, at once, so that an interrupted run leaves the last whole file."""
    data = {
        "machine": machine,
        "plan": plan,
        "geometric_means": {
            section: geometric_mean([row for row in rows if row.case.section == section])
            for section in dict.fromkeys(row.case.section for row in rows)
        },
        "results": [row.record() for row in rows],
    }
    partial = f"{path}.partial"
    with open(partial, "w", encoding="utf-8") as file:
        json.dump(data, file, indent=1, allow_nan=False)
    os.replace(partial, path)


def _number(value: float | None, width: int, digits: int) -> str:
    return " " * width if value is None else f"{value:{width}.{digits}f}"


def _peer(value: float | str) -> str:
    return f"{value:.3f}" if isinstance(value, float) else f"({value})"
