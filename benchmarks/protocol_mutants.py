"""`python -m benchmarks.protocol_mutants`: holds `cute-check-protocol` to account. Of kernels
behind the last pass that orders it removes, moves or alters each fence, wait, arrival, byte count,
stage and release, one at a time, and asks both the check and the emulator.

    python -m benchmarks.protocol_mutants [--seed S] [--kernel TEXT] [--target NAME] [--plan TEXT]
                                          [--edit TEXT] [--mutants N] [--jobs N] [--patience S]
                                          [--budget SECONDS] [--json FILE] [--verbose]

Kernels are those of `protocol_kernels`, each with all plans on all targets that take it; of these
`--mutants` draws so many edits each. The table has a row for each kind of edit: how many mutants
the emulator finds faulty, and how many of them the check finds; what the check finds and the
emulator does not, which stays right on the one run that the emulator makes of it; and what is
proved but faulty, of which there has to be none.
Without edits (`--mutants 0`) every kernel has to be proved. Exits 1 where a kernel is not proved,
or where a mutant is proved and faulty.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from random import Random
from typing import Any, NamedTuple

from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Operation

from cutedialect.dialects import cute, cute_nvgpu, pipeline
from cutedialect.dialects.walks import walk

from . import multiplied_programs
from .program_outcome import Outcome
from .protocol_kernels import PLANS, Subject, subjects
from .protocol_verdict import checked
from .supervisor import WorkerError
from .worker_pool import answers

Row = dict[str, Any]
_REMOVED: tuple[type[Operation], ...] = (
    cute_nvgpu.ProxyFenceOp,
    cute_nvgpu.WgmmaFenceOp,
    cute_nvgpu.Tcgen05FenceOp,
    cute_nvgpu.WgmmaCommitOp,
    cute_nvgpu.WgmmaWaitOp,
    cute_nvgpu.CpAsyncCommitOp,
    cute_nvgpu.CpAsyncWaitOp,
    cute_nvgpu.TmaStoreCommitOp,
    cute_nvgpu.TmaStoreWaitOp,
    cute.BarrierOp,
    pipeline.ProducerAcquireOp,
    pipeline.ExpectOp,
    pipeline.ExchangeDrainOp,
    pipeline.ExchangeExpectOp,
    pipeline.ExchangeTellOp,
    pipeline.ExchangeWaitOp,
    pipeline.ProducerCommitOp,
    pipeline.ConsumerWaitOp,
    pipeline.ConsumerReleaseOp,
    pipeline.DrainOp,
    pipeline.StartOp,
    pipeline.AdvanceOp,
    pipeline.TurnWaitOp,
    pipeline.TurnPassOp,
)
_MOVED = (
    cute_nvgpu.ProxyFenceOp,
    cute_nvgpu.WgmmaWaitOp,
    cute_nvgpu.CpAsyncWaitOp,
    cute_nvgpu.TmaStoreWaitOp,
    cute.BarrierOp,
    pipeline.ProducerCommitOp,
    pipeline.ConsumerWaitOp,
    pipeline.ConsumerReleaseOp,
)
_WAITS = (cute_nvgpu.WgmmaWaitOp, cute_nvgpu.CpAsyncWaitOp, cute_nvgpu.TmaStoreWaitOp)
_MORE_BYTES = 16


class Edit(NamedTuple):
    """An edit of the op of this number in a walk: what it does, and its kind for the table."""

    number: int
    kind: str
    apply: Callable[[Operation], None]


def edits_of(module: ModuleOp) -> Iterator[Edit]:
    """All edits of the kernels of a module."""
    for number, op in enumerate(walk(module)):
        short = op.name.partition(".")[2]
        if isinstance(op, _REMOVED):
            yield Edit(number, f"without {short}", _remove)
        if isinstance(op, _MOVED):
            if _neighbor(op, later=True) is not None:
                yield Edit(number, f"{short} later", _later)
            if _neighbor(op, later=False) is not None:
                yield Edit(number, f"{short} earlier", _earlier)
        if isinstance(op, _WAITS):
            yield Edit(number, f"{short} of one group less", _wait_less)
        if isinstance(op, cute.BarrierOp):
            yield Edit(number, "barrier of one warp", _of_one_warp)
        if isinstance(op, cute.BarrierOp | pipeline.StartOp) and op.cluster is not None:
            yield Edit(number, f"{short} of one CTA", _of_one_cta)
        if isinstance(op, pipeline.StartOp) and op.publishes is not None:
            yield Edit(number, "start that publishes nothing", _unpublished)
        if isinstance(op, pipeline.ConsumerReleaseOp) and op.back is not None:
            yield Edit(number, "release of the stage at work", _not_back)
        if isinstance(op, pipeline.ConsumerReleaseOp) and op.commits is not None:
            yield Edit(number, "release without a commit", _no_commit)
        if isinstance(op, cute.StageOp) and not isinstance(op.index.owner, ConstantOp):
            yield Edit(number, "always the first stage", _first_stage)
        if isinstance(op, pipeline.ExchangeExpectOp):
            yield Edit(number, "bytes more", lambda op: _count(op, "bytes", _MORE_BYTES))
        if isinstance(op, pipeline.CreateOp):
            if op.bytes is not None:
                yield Edit(number, "bytes more", lambda op: _count(op, "bytes", _MORE_BYTES))
                yield Edit(number, "bytes less", lambda op: _count(op, "bytes", -_MORE_BYTES))
            for name in ("producers", "consumers"):
                if op.properties[name].value.data:  # type: ignore[attr-defined]
                    yield Edit(number, f"{name} more", lambda op, name=name: _count(op, name, 1))
                if op.properties[name].value.data > 1:  # type: ignore[attr-defined]
                    yield Edit(number, f"{name} less", lambda op, name=name: _count(op, name, -1))


def _remove(op: Operation) -> None:
    op.detach()


def _is_at_work(op: Operation) -> bool:
    """Whether to pass an op by changes anything: one that is no number or view."""
    return isinstance(
        op,
        cute.CopyOp
        | cute.GemmOp
        | cute.LoadOp
        | cute.BarrierOp
        | pipeline.ProducerCommitOp
        | pipeline.ConsumerReleaseOp
        | pipeline.ConsumerWaitOp
        | cute_nvgpu.WgmmaCommitOp
        | cute_nvgpu.TmaStoreCommitOp
        | cute_nvgpu.CpAsyncCommitOp
        | pipeline.AdvanceOp
        | pipeline.ScratchStoreOp
        | pipeline.ScratchLoadOp
        | pipeline.ExchangeLoadOp,
    )


def _neighbor(op: Operation, later: bool) -> Operation | None:
    """The next op of the block, or the one before, past which an op moves with a difference."""
    other = op.next_op if later else op.prev_op
    while other is not None and not _is_at_work(other):
        if other.regions and any(_is_at_work(inner) for inner in walk(other)):
            return None
        # What an op uses stays in front of it.
        if not later and any(result in op.operands for result in other.results):
            return None
        other = other.next_op if later else other.prev_op
    if isinstance(other, pipeline.AdvanceOp) and other.state in op.operands:
        return None
    return other


def _later(op: Operation) -> None:
    other = _neighbor(op, later=True)
    assert other is not None
    assert other.parent is not None
    op.detach()
    other.parent.insert_op_after(op, other)


def _earlier(op: Operation) -> None:
    other = _neighbor(op, later=False)
    assert other is not None
    assert other.parent is not None
    op.detach()
    other.parent.insert_op_before(op, other)


def _wait_less(op: Operation) -> None:
    pending = op.properties["pending"]
    assert isinstance(pending, IntegerAttr)
    op.properties["pending"] = IntegerAttr(pending.value.data + 1, pending.type)


def _of_one_warp(op: Operation) -> None:
    op.properties["warps"] = IntegerAttr(1, i32)


def _of_one_cta(op: Operation) -> None:
    for name in ("cluster", "publishes"):
        op.properties.pop(name, None)


def _unpublished(op: Operation) -> None:
    del op.properties["publishes"]


def _not_back(op: Operation) -> None:
    del op.properties["back"]


def _no_commit(op: Operation) -> None:
    del op.properties["commits"]


def _first_stage(op: Operation) -> None:
    zero = ConstantOp.from_int_and_width(0, i32)
    assert op.parent is not None
    op.parent.insert_op_before(zero, op)
    op.operands[1] = zero.result


def _count(op: Operation, name: str, by: int) -> None:
    count = op.properties[name]
    assert isinstance(count, IntegerAttr)
    op.properties[name] = IntegerAttr(count.value.data + by, i32)


def judged(subject: Subject, target: str, plan: str, number: int, kind: str) -> Outcome:
    """What the check and the emulator say of a kernel with an edit."""

    def change(module: ModuleOp) -> None:
        for edit in edits_of(module):
            if (edit.number, edit.kind) == (number, kind):
                op = next(op for at, op in enumerate(walk(module)) if at == number)
                edit.apply(op)
                return

    return checked(lambda: subject.outcome(target, plan), change)


def listed(subject: Subject, target: str, plan: str) -> tuple[Outcome, list[tuple[int, str]]]:
    """A kernel as it is, and its edits by their number and kind."""
    found: list[tuple[int, str]] = []

    def look(module: ModuleOp) -> None:
        found[:] = [(edit.number, edit.kind) for edit in edits_of(module)]

    return checked(lambda: subject.outcome(target, plan), look), found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.protocol_mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="of the drawn kernels")
    parser.add_argument("--kernel", metavar="TEXT", default="", help="those with this in the name")
    parser.add_argument("--target", metavar="NAME", action="append", help="all five")
    parser.add_argument("--plan", metavar="TEXT", action="append", help="all; '' is the default")
    parser.add_argument("--edit", metavar="TEXT", default="", help="kinds of edits with this")
    parser.add_argument("--mutants", metavar="N", type=int, help="of each plan; else all")
    parser.add_argument("--jobs", metavar="N", type=int, default=1, help="processes")
    parser.add_argument("--patience", type=float, default=120, metavar="S", help="for a mutant")
    parser.add_argument("--budget", type=float, metavar="S", help="stop after so many seconds")
    parser.add_argument("--json", metavar="FILE", help="write all that was judged")
    parser.add_argument("--verbose", action="store_true", help="what the check says of each")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.environ["CUTEDIALECT_NO_CACHE"] = "1"
    if options.worker:
        return _work(options.seed)
    end = time.monotonic() + (options.budget or math.inf)
    kernels = [
        {"kernel": at, "target": target, "plan": plan, "op": -1, "edit": ""}
        for at, subject in enumerate(subjects(options.seed))
        if options.kernel in subject.name
        for plan in (PLANS if options.plan is None else options.plan)
        for target in options.target or multiplied_programs.TARGETS
    ]
    rows: list[Row] = []
    mutants: list[Row] = []
    for row in _rows(kernels, options, end):
        rows.append(row)
        edits = [edit for edit in row.pop("edits") if options.edit in edit[1]]
        Random(f"{row['name']} {row['target']} {row['plan']}").shuffle(edits)
        if row["emulator"] == "right":
            names = ("kernel", "target", "plan")
            same = {name: row[name] for name in names}
            mutants += [{**same, "op": op, "edit": kind} for op, kind in edits[: options.mutants]]
    Random(options.seed).shuffle(mutants)
    print(f"{len(kernels)} kernels with plans, {len(mutants)} mutants", flush=True)
    rows += _rows(mutants, options, end)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return _report(rows)


def _rows(requests: Sequence[Row], options: argparse.Namespace, end: float) -> Iterator[Row]:
    """What comes of requests, as it comes; what is at odds is shown."""
    command = (sys.executable, "-m", "benchmarks.protocol_mutants", "--worker")
    command += ("--seed", str(options.seed))
    came: Any
    if options.jobs > 1 and requests:
        came = answers(requests, command, options.jobs, options.patience)
    else:
        came = ((at, answer(request, options.seed)) for at, request in enumerate(requests))
    with contextlib.closing(came):
        for at, row in came:
            if isinstance(row, WorkerError):
                row = {
                    **requests[at], "check": "lost", "what": "", "emulator": "broken",
                    "reason": str(row), "edits": [], "name": "",
                }  # fmt: skip
            if options.verbose or _is_at_odds(row):
                name = f"{row['name']} on {row['target']} with {row['plan'] or 'the default'}"
                print(f"{name}, op {row['op']} {row['edit']}: {row['check']} / {row['emulator']}")
                print(f"    check: {row['what'][:300]}\n    emulator: {row['reason'][:200]}")
                sys.stdout.flush()
            yield row
            if time.monotonic() > end:
                return


def _is_at_odds(row: Row) -> bool:
    """Whether the check takes what the emulator finds faulty, or decides nothing, or refuses a
    kernel without an edit.
    """
    if row["emulator"] == "refused":
        return False
    if row["check"] == "found":
        return row["emulator"] == "right" and not row["edit"]
    return row["check"] != "proved" or row["emulator"] != "right"


def answer(request: Row, seed: int) -> Row:
    """What the check and the emulator say of a request: a kernel, a target, a plan and an edit."""
    subject = subjects(seed)[request["kernel"]]
    target, plan = request["target"], request["plan"]
    edits: list[tuple[int, str]] = []
    if request["op"] < 0:
        got, edits = listed(subject, target, plan)
    else:
        got = judged(subject, target, plan, request["op"], request["edit"])
    return {
        **request, "name": subject.name, "check": got.check, "what": got.what[:300],
        "emulator": got.kind, "reason": got.reason[:300], "edits": edits,
    }  # fmt: skip


def _work(seed: int) -> int:
    """The child: answers one request after the other."""
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    print(json.dumps({"machine": {}}), file=replies, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line), seed)), file=replies, flush=True)
    return 0


def _report(rows: Sequence[Row]) -> int:
    """The tables; 1 where a kernel is not proved, or a mutant proved and faulty."""
    plain = [row for row in rows if not row["edit"]]
    print("\nkernels:", dict(Counter(f"{row['check']}/{row['emulator']}" for row in plain)))
    mutants = [row for row in rows if row["edit"] and row["emulator"] != "refused"]
    print(f"{'edit':42} faulty found missed | right found proved | undecided")
    total: Counter[str] = Counter()
    for kind in sorted({row["edit"] for row in mutants}):
        counts = Counter(
            (row["check"], row["emulator"] != "right") for row in mutants if row["edit"] == kind
        )
        found, missed = counts["found", True], counts["proved", True]
        unseen, right = counts["found", False], counts["proved", False]
        undecided = counts.total() - found - missed - unseen - right
        total.update(found=found, missed=missed, unseen=unseen, right=right, undecided=undecided)
        print(
            f"{kind:42} {found + missed:6} {found:5} {missed:6} | {unseen + right:5} {unseen:5} "
            f"{right:6} | {undecided:9}"
        )
    faulty = total["found"] + total["missed"]
    print(dict(total), f"{100 * total['found'] / max(1, faulty):.1f} % of the faulty ones found")
    false = [row for row in plain if row["emulator"] == "right" and row["check"] != "proved"]
    return 1 if false or total["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
