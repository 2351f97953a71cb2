"""One row of the table: what ours and the yardstick did in a case, and whether that is enough."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from math import exp, isfinite, log
from typing import Any

from .accuracy import within
from .case import Case
from .contenders import OURS

# HBM3 of an H100 SXM5, and the share of it that a memory-bound row aims at.
PEAK_BANDWIDTH = 3.35e12
BANDWIDTH_GOAL = 0.8
# Pooled errors may be so many times the yardstick's.
_MEAN_ERROR, _LARGEST_ERROR = 1.3, 1.3


@dataclass
class Row:
    """Paired times of one case, ours and the yardstick's of the same round, in milliseconds a
    launch.

    `yardstick` is the name of the fastest one, empty where it is the memory; `allowance` the error
    that ours may have twice. `failure` is why ours has no times; `right` is None when nothing was
    computed. `pooled` are, of a case whose errors are pooled, the mean and the largest error over
    those of the yardstick, and the largest in units in the last place. `peers` maps a peer to its
    median ratio to the yardstick, or to why it has none; `seconds` what the row took, by phases.
    """

    case: Case
    ours_ms: list[float] = field(default_factory=list)
    yardstick_ms: list[float] = field(default_factory=list)
    error: float | None = None
    allowance: float | None = None
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
    yardstick: str = ""
    pooled: tuple[float, float, float] | None = None
    seconds: dict[str, float] = field(default_factory=dict)

    @property
    def ratios(self) -> list[float]:
        """The yardstick's time over ours, round by round, for equal work: above 1 ours is faster.
        Without a yardstick the share of the peak bandwidth.
        """
        if not self.case.yardsticks:
            return [1e3 * self.case.bytes / PEAK_BANDWIDTH / ms for ms in self.ours_ms]
        return [self.case.share * one for one in ratios(self.yardstick_ms, self.ours_ms)]

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
    def yardstick_tflops(self) -> float | None:
        return _rate(self.case.flops / self.case.share, self.yardstick_ms)

    @property
    def bandwidth(self) -> float | None:
        """The least traffic of the case over our time, as a share of the peak."""
        if not self.ours_ms:
            return None
        return self.case.bytes / (1e-3 * statistics.median(self.ours_ms)) / PEAK_BANDWIDTH

    @property
    def verdict(self) -> str:
        """ "goal", "gate", "MISSED", "WRONG" or "FAILED"; "right" where the case has no gate."""
        if self.failure is not None:
            return "FAILED"
        if not self.right:
            return "WRONG"
        if not self.case.gate:
            return "right"
        if self.ratio is None or self.ratio < self.case.gate:
            return "MISSED"
        starving = self.case.starved and (self.bandwidth or 0) < BANDWIDTH_GOAL
        return "gate" if self.ratio < self.case.goal or starving else "goal"

    @property
    def passed(self) -> bool:
        return self.verdict in ("goal", "gate", "right")

    @property
    def of_best(self) -> float | None:
        """Our rate over that of the fastest other schedule of ours; None without any."""
        rivals = [self.peers.get(name) for name in self.case.rivals]
        rates = [rate for rate in rivals if isinstance(rate, float)]
        return self.ratio / max(rates) if rates and self.ratio is not None else None

    def joined(self, other: Row) -> Row:
        """The rounds of two runs of one case as one row; a failure of either stays."""
        assert self.case == other.case
        merged = Row(**{name: getattr(other, name) for name in self.__dataclass_fields__})
        merged.ours_ms = self.ours_ms + other.ours_ms
        merged.yardstick_ms = self.yardstick_ms + other.yardstick_ms
        merged.failure = self.failure or other.failure
        merged.seconds = together(self.seconds, other.seconds)
        merged.right = None if None in (self.right, other.right) else self.right and other.right
        return merged

    def record(self) -> dict[str, Any]:
        """Plain data for JSON, derived figures included."""
        data = asdict(self)
        data["case"] = self.case.name
        data["section"] = self.case.section
        data["gate"], data["goal"] = self.case.gate, self.case.goal
        for name in (
            "of_best",
            "ratio",
            "spread",
            "tflops",
            "yardstick_tflops",
            "bandwidth",
            "verdict",
        ):
            data[name] = getattr(self, name)
        # JSON has no infinity; the verdict says what such an error means.
        for name in ("error", "allowance"):
            data[name] = data[name] if data[name] is not None and isfinite(data[name]) else None
        return data


def _row_of_errors(case: Case, answer: dict[str, Any]) -> Row:
    """The row of a case whose errors are pooled."""
    results = {result["name"]: result for result in answer["results"]}
    row = Row(case, resources=answer.get("resources", {}).get(OURS, ""))
    row.seconds = answer.get("seconds", {})
    mine, theirs = results.get(OURS), results.get(case.yardsticks[0])
    for result in (theirs, mine):
        if result is None or result["failure"] is not None:
            row.failure = answer.get("failure") or (result or {}).get("failure") or "not reached"
    if row.failure is None and mine is not None and theirs is not None:
        (largest, mean, units), (their_largest, their_mean, _) = mine["errors"], theirs["errors"]
        row.error, row.allowance, row.yardstick = mean, their_mean, theirs["name"]
        row.pooled = mean / their_mean, largest / their_largest, units
        row.right = is_accurate(mine["errors"], theirs["errors"])
    return row


def is_accurate(mine: Sequence[float], theirs: Sequence[float]) -> bool:
    """Whether pooled errors (largest, mean, largest in units) are near enough to a yardstick's."""
    (largest, mean, units), (their_largest, their_mean, _) = mine, theirs
    small = largest <= _LARGEST_ERROR * their_largest or units <= 1
    return mean <= _MEAN_ERROR * their_mean and small


def row_of(case: Case, answer: dict[str, Any], name: str = OURS, alone: bool = False) -> Row:
    """The row that the worker's answer holds for the contender `name`; `alone`: without a
    yardstick.
    """
    if case.draws:
        return _row_of_errors(case, answer)
    results = {result["name"]: result for result in answer["results"]}
    row = Row(case, resources=answer.get("resources", {}).get(name, ""))
    row.seconds = answer.get("seconds", {})
    mine, theirs = results.get(name), _yardstick(case, results)
    if mine is None or (theirs is None and case.yardsticks and not alone):
        row.failure = answer.get("failure") or "not reached"
        return row
    for field_name in ("launches", "captured", "started", "stopped"):
        setattr(row, field_name, mine[field_name])
    row.ours_ms, row.failure = mine["ms"], mine["failure"]
    if theirs is not None:
        row.yardstick, row.yardstick_ms = theirs["name"], theirs["ms"]
        if row.failure is None and theirs["failure"] is not None:
            row.failure = f"{theirs['name']}: {theirs['failure']}"
    allowance = mine["allowance"] or (theirs["errors"] if theirs is not None else [])
    if mine["errors"] and allowance:
        row.error, row.allowance = max(mine["errors"]), max(allowance)
        row.right = within(mine["errors"], allowance)
        if mine["later_errors"]:
            row.right &= within(mine["later_errors"], allowance)
            row.error = max(row.error, *mine["later_errors"])
    for peer, result in results.items():
        if peer in (*case.yardsticks, OURS, name):
            continue
        found = ratios(row.yardstick_ms, result["ms"])
        row.peers[peer] = statistics.median(found) if found else result["failure"] or "no times"
        if found and not within(result["errors"], allowance):
            row.peers[peer] = "wrong"
    return row


def _yardstick(case: Case, results: dict[str, dict[str, Any]]) -> dict[str, Any] | None:
    """The fastest of the case's yardsticks; where none has times the first that was reached."""
    reached = [results[name] for name in case.yardsticks if name in results]
    timed = [result for result in reached if result["ms"] and result["failure"] is None]
    if timed:
        return min(timed, key=lambda result: statistics.median(result["ms"]))
    return reached[0] if reached else None


def ratios(slower: Sequence[float], faster: Sequence[float]) -> list[float]:
    """`slower` over `faster`, pair by pair; none where either is missing."""
    return [one / other for one, other in zip(slower, faster, strict=False)]


def together(*counts: Mapping[str, float]) -> dict[str, float]:
    """The sums of what several count under each name."""
    total: dict[str, float] = {}
    for each in counts:
        for name, number in each.items():
            total[name] = total.get(name, 0.0) + number
    return total


def quartiles(values: Sequence[float]) -> tuple[float, float] | None:
    if len(values) < 2:
        return None
    low, _, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, high


def geometric_mean(rows: Sequence[Row]) -> float | None:
    """Of the ratios of the rows that have one."""
    found = [row.ratio for row in rows if row.ratio is not None]
    return exp(sum(map(log, found)) / len(found)) if found else None


def _rate(flops: float, ms: Sequence[float]) -> float | None:
    return flops / statistics.median(ms) / 1e9 if ms else None
