"""The rows of a table as they are timed: each asked of the worker, kept, printed and written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from .case import Case
from .progress import Progress
from .report import line_of, write_json
from .rows import Row, row_of
from .supervisor import Supervisor, WorkerError
from .telemetry import Telemetry
from .timing import Plan


@dataclass
class TimedRows:
    """Rows by the names of their cases. `json` is the file that they are written to, or None, with
    what is known of the `machine`.
    """

    worker: Supervisor
    telemetry: Telemetry
    progress: Progress
    rows: dict[str, Row]
    machine: dict[str, Any]
    json: str | None

    def timed(
        self,
        case: Case,
        plan: Plan,
        schedules: Mapping[str, str | None],
        named: Any,
        has_peers: bool = False,
    ) -> Row:
        """A case, `named` as the worker finds it, under some schedules; a row that says so where
        the worker fails.
        """
        request: dict[str, Any] = {
            "case": named,
            "schedules": dict(schedules),
            "peers": has_peers,
            "plan": asdict(plan),
            "resources": True,
        }
        try:
            return row_of(case, self.worker.ask(request, self.progress.note))
        except WorkerError as error:
            return Row(case, failure=str(error))

    def keep(self, row: Row, plan: Plan) -> None:
        """Take in a row, pooled with an earlier one of its case, and show it."""
        row.mhz, row.watts = self.telemetry.between(row.started, row.stopped) or (None, None)
        before = self.rows.get(row.case.name)
        row = row if before is None else before.joined(row)
        self.rows[row.case.name] = row
        self.progress.clear()
        print(line_of(row), flush=True)
        if self.json:
            write_json(self.json, self.machine, asdict(plan), list(self.rows.values()))
