"""GEMM on problems drawn at random against cuBLAS: what the default does where nothing was fitted.

    python -m benchmarks.shapes [--seed N] [--budget SECONDS] [--only REGEX] [--scale F]
                                [--json FILE] [--check]

One seed draws one list (`shape_draws.py`): layers of language models, sizes of any kind, other
majors, skinny problems, batches of small ones (which have no gate), and f16 8192^3 against our own
rate at 6144^3. Ours and cuBLAS run interleaved as CUDA graphs over inputs rotated past L2; a row
below its gate is timed once more with five times the samples, which then count. Rows share what is
left of the budget equally. `--scale` draws that many times the rows. The seed and the five worst
rows end the table.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

from .drawn_table import Drawn
from .rows import Row
from .shape_draws import LARGE, STRATA, drawn
from .strata import judged
from .supervisor import Supervisor

# Seconds: what a skinny row may take besides its bytes.
_OVERHEAD = 3e-6
_LARGE_GATE, _LARGE_GOAL = 0.98, 1.02


def main(arguments: Sequence[str] | None = None, supervisor: Supervisor | None = None) -> int:
    table = Drawn("shapes", __doc__, drawn, _reached, summary, unranked=LARGE)
    return table.run(arguments, supervisor)


def _reached(row: Row, copied: float | None) -> bool:
    """Whether a row has its gate, or the time that its bytes may take."""
    return row.passed or _as_fast_as_copies(row, copied)


def _as_fast_as_copies(row: Row, copied: float | None) -> bool:
    stratum = next((each for each in STRATA if each.section == row.case.section), None)
    if stratum is None or not stratum.copies or not row.ours_ms or not row.right or not copied:
        return False
    ms = sorted(row.ours_ms)[len(row.ours_ms) // 2]
    return 1e-3 * ms <= _OVERHEAD + row.case.bytes / (stratum.copies * copied)


def summary(rows: Sequence[Row], copied: float | None) -> tuple[list[str], bool]:
    """A line for each stratum, and whether all that is asked of them holds."""
    lines: list[str] = []
    passed = True
    for stratum in STRATA:
        inside = [row for row in rows if row.case.section == stratum.section]
        if inside:
            line, holds = judged(stratum, inside, lambda row: _as_fast_as_copies(row, copied))
            lines.append(line)
            passed &= holds
    large = {row.case.name: row.tflops for row in rows if row.case.section == LARGE}
    rates = list(large.values())
    if len(rates) == 2 and None not in rates:
        ratio = rates[0] / rates[1]  # type: ignore[operator]
        names = " over ".join(large)
        missed = "" if ratio >= _LARGE_GATE else "  MISSED"
        passed &= not missed
        lines.append(f"{names}: {ratio:.3f} (gate {_LARGE_GATE}, goal {_LARGE_GOAL}){missed}")
    wrong = [row for row in rows if row.failure is not None or row.right is False]
    lines += [f"  {row.verdict} {row.case.name}: {row.failure or 'error'}" for row in wrong]
    return lines, passed and not wrong


if __name__ == "__main__":
    sys.exit(main())
