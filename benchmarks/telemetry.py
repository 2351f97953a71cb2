"""Clock and power of the GPU while rows are measured, read by one `nvidia-smi` that runs alongside.

Without `nvidia-smi` there are no samples and nothing else changes.
"""

from __future__ import annotations

import re
import shutil
import statistics
import subprocess
import threading
from dataclasses import dataclass
from datetime import datetime
from types import TracebackType
from typing import Any

_FIELDS = "timestamp,clocks.sm,power.draw,temperature.gpu"
_PERIOD_MS = 50


@dataclass(frozen=True)
class Sample:
    """`time` in seconds since the epoch, `mhz` of the multiprocessors, `watts`, degrees Celsius."""

    time: float
    mhz: float
    watts: float
    celsius: float


class Telemetry:
    """Samples from entering to leaving."""

    def __init__(self) -> None:
        self.samples: list[Sample] = []
        self._process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Telemetry:
        tool = shutil.which("nvidia-smi")
        if tool is not None:
            self._process = subprocess.Popen(
                [tool, "-i", "0", f"--query-gpu={_FIELDS}", "--format=csv,noheader,nounits"]
                + [f"--loop-ms={_PERIOD_MS}"],
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                text=True,
                start_new_session=True,
            )
            threading.Thread(target=self._read, daemon=True, name="nvidia-smi").start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait()

    def between(self, started: float, stopped: float) -> tuple[float, float] | None:
        """Median MHz and mean watts of the samples in a span of time; None without any."""
        inside = [sample for sample in list(self.samples) if started <= sample.time <= stopped]
        if not inside:
            return None
        mhz = statistics.median(sample.mhz for sample in inside)
        return mhz, statistics.mean(sample.watts for sample in inside)

    def _read(self) -> None:
        assert self._process is not None
        assert self._process.stdout is not None
        for line in self._process.stdout:
            sample = sample_of(line)
            if sample is not None:
                self.samples.append(sample)


def sample_of(line: str) -> Sample | None:
    """A line of nvidia-smi's CSV; None for one that lacks a figure.

    >>> sample_of("2026/11/21 07:00:00.250, 1755, 512.25, 48").watts
    512.25
    """
    parts = [part.strip() for part in line.split(",")]
    try:
        when = datetime.strptime(parts[0], "%Y/%m/%d %H:%M:%S.%f").timestamp()
        mhz, watts, celsius = map(float, parts[1:])
    except (ValueError, IndexError):
        return None
    return Sample(when, mhz, watts, celsius)


def driver() -> dict[str, Any]:
    """Driver version, clock and power limits, as nvidia-smi gives them; empty without it."""
    return _query("driver_version", "power.limit", "clocks.max.sm", "clocks.max.memory")


def capability() -> int | None:
    """The compute capability as 80 or 90; None without nvidia-smi."""
    text = _query("compute_cap").get("compute_cap", "")
    return int(text.replace(".", "")) if re.fullmatch(r"\d+\.\d", text) else None


def _query(*names: str) -> dict[str, str]:
    tool = shutil.which("nvidia-smi")
    if tool is None:
        return {}
    query = [tool, "-i", "0", f"--query-gpu={','.join(names)}", "--format=csv,noheader"]
    try:
        done = subprocess.run(query, capture_output=True, text=True, timeout=20)
    except (OSError, subprocess.TimeoutExpired):
        return {}
    values = [part.strip() for part in done.stdout.strip().split(",")]
    return dict(zip(names, values, strict=True)) if len(values) == len(names) else {}
