"""One row of the table: what ours and cuBLAS did in a case, and whether that is enough."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from math import exp, isfinite, log
from typing import Any

from .accuracy import within
from .cases import Case
from .contenders import CUBLAS, OURS

# HBM3 of an H100 SXM5, and the share of it that a memory-bound row aims at.
PEAK_BANDWIDTH = 3.35e12
BANDWIDTH_GOAL = 0.8


@dataclass
class Row:
    """Paired times of one case, ours and cuBLAS's of the same round, in milliseconds a launch.

    `failure` is why ours has no times; `right` is None when nothing was computed. `peers` maps a
    peer to its median ratio to cuBLAS, or to why it has none.
    """

    case: Case
    ours_ms: list[float] = field(default_factory=list)
    cublas_ms: list[float] = field(default_factory=list)
    error: float | None = None
    cublas_error: float | None = None
    right: bool | None = None
    failure: str | None = None
    peers: dict[str, float | str] = field(default_factory=dict)
    launches: int = 0
    captured: bool = True
    started: float = 0.0
    stopped: float = 0.0
    mhz: float | None = None
    watts: float | None = None
    resources: str = ""

    @property
    def ratios(self) -> list[float]:
        """cuBLAS's time over ours, round by round: above 1 ours is faster."""
        return ratios(self.cublas_ms, self.ours_ms)

    @property
    def ratio(self) -> float | None:
        found = self.ratios
        return statistics.median(found) if found else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The quartiles of the ratios."""
        return quartiles(self.ratios)

    @property
    def tflops(self) -> float | None:
        return _rate(self.case.flops, self.ours_ms)

    @property
    def cublas_tflops(self) -> float | None:
        return _rate(self.case.flops, self.cublas_ms)

    @property
    def bandwidth(self) -> float | None:
        """The least traffic of the case over our time, as a share of the peak."""
        if not self.ours_ms:
            return None
        return self.case.bytes / (1e-3 * statistics.median(self.ours_ms)) / PEAK_BANDWIDTH

    @property
    def verdict(self) -> str:
        """ "goal", "gate", "MISSED", "WRONG" or "FAILED"."""
        if self.failure is not None:
            return "FAILED"
        if not self.right:
            return "WRONG"
        if self.ratio is None or self.ratio < self.case.gate:
            return "MISSED"
        starving = self.case.starved and (self.bandwidth or 0) < BANDWIDTH_GOAL
        return "gate" if self.ratio < self.case.goal or starving else "goal"

    @property
    def passed(self) -> bool:
        return self.verdict in ("goal", "gate")

    def pooled(self, other: Row) -> Row:
        """The rounds of two runs of one case as one row; a failure of either stays."""
        assert self.case == other.case
        merged = Row(**{name: getattr(other, name) for name in self.__dataclass_fields__})
        merged.ours_ms = self.ours_ms + other.ours_ms
        merged.cublas_ms = self.cublas_ms + other.cublas_ms
        merged.failure = self.failure or other.failure
        merged.right = None if None in (self.right, other.right) else self.right and other.right
        return merged

    def record(self) -> dict[str, Any]:
        """Plain data for JSON, derived figures included."""
        data = asdict(self)
        data["case"] = self.case.name
        data["section"] = self.case.section
        data["gate"], data["goal"] = self.case.gate, self.case.goal
        for name in ("ratio", "spread", "tflops", "cublas_tflops", "bandwidth", "verdict"):
            data[name] = getattr(self, name)
        # JSON has no infinity; the verdict says what such an error means.
        for name in ("error", "cublas_error"):
            data[name] = data[name] if data[name] is not None and isfinite(data[name]) else None
        return data


def row_of(case: Case, answer: dict[str, Any], name: str = OURS) -> Row:
    """The row that the worker's answer holds for the contender `name`."""
    results = {result["name"]: result for result in answer["results"]}
    row = Row(case, resources=answer.get("resources", {}).get(name, ""))
    mine, theirs = results.get(name), results.get(CUBLAS)
    if mine is None or theirs is None:
        row.failure = answer.get("failure") or "not reached"
        return row
    for field_name in ("launches", "captured", "started", "stopped"):
        setattr(row, field_name, mine[field_name])
    row.ours_ms, row.cublas_ms = mine["ms"], theirs["ms"]
    row.failure = mine["failure"]
    if row.failure is None and theirs["failure"] is not None:
        row.failure = f"cuBLAS: {theirs['failure']}"
    if mine["errors"] and theirs["errors"]:
        row.error, row.cublas_error = max(mine["errors"]), max(theirs["errors"])
        row.right = within(tuple(mine["errors"]), tuple(theirs["errors"]))
        if mine["later_errors"]:
            row.right &= within(tuple(mine["later_errors"]), tuple(theirs["errors"]))
            row.error = max(row.error, *mine["later_errors"])
    for peer, result in results.items():
        if peer in (CUBLAS, OURS, name):
            continue
        found = ratios(theirs["ms"], result["ms"])
        row.peers[peer] = statistics.median(found) if found else result["failure"] or "no times"
        if found and not within(tuple(result["errors"]), tuple(theirs["errors"])):
            row.peers[peer] = "wrong"
    return row


def ratios(slower: Sequence[float], faster: Sequence[float]) -> list[float]:
    """`slower` over `faster`, pair by pair; none where either is missing."""
    return [one / other for one, other in zip(slower, faster, strict=False)]


def quartiles(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < 2:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def geometric_mean(rows: Sequence[Row]) -> float | None:
    """Of the ratios of the rows that have one."""
    found = [row.ratio for row in rows if row.ratio is not None]
    return exp(sum(map(log, found)) / len(found)) if found else None


def _rate(flops: int, ms: Sequence[float]) -> float | None:
    return flops / statistics.median(ms) / 1e9 if ms else None
