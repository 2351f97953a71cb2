"""Which single problem stands for a group when a schedule is chosen: one of the sizes that the
group's work has on average, as often as it takes to have as much work.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from .gemm_schedules import Problem


def mean_problem(problems: Sequence[Problem]) -> Problem:
    """Sizes averaged over multiplications, so that small problems among large ones do not count.

    All problems have one element type and the same limits.
    """
    work = [problem.m * problem.n * max(1, problem.k) * problem.batch for problem in problems]
    total = sum(work)

    def mean(sizes: Sequence[int]) -> int:
        return max(1, round(sum(size * w for size, w in zip(sizes, work, strict=True)) / total))

    m, n, k = (mean([getattr(problem, size) for problem in problems]) for size in "mnk")
    return replace(problems[0], m=m, n=n, k=k, batch=max(1, round(total / (m * n * k))))
