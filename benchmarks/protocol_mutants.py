"""`python -m benchmarks.protocol_mutants`: holds `cute-check-protocol` to account. Of kernels
behind the last pass that orders it removes, moves or alters each fence, wait, arrival, byte count,
stage and release, one at a time, and asks both the check and the emulator.

    python -m benchmarks.protocol_mutants [--count N] [--seed S] [--target NAME] [--mutants N]
                                          [--budget SECONDS] [--json FILE] [--verbose]

Kernels are drawn programs of several multiplies (`multiplied_programs`), and a GEMM for each
target. The table has a row for each kind of edit: how many mutants the emulator finds faulty, and
of these how many the check finds; what the check finds and the emulator does not, which stays
right on the one run that the emulator makes of it; and what is proved but faulty, of which there
has to be none.
Without edits (`--mutants 0`) every program has to be proved. Exits 1 where a program is not proved,
or where a mutant is proved and faulty.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, NamedTuple

from xdsl.context import Context
from xdsl.dialects.arith import ConstantOp
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Operation

from cutedialect.dialects import cute, cute_nvgpu, pipeline
from cutedialect.dialects.walks import walk
from cutedialect.passes import cute_to_ptx
from cutedialect.passes.protocol.check_protocol import verdict_of
from cutedialect.passes.protocol.skeleton import Undecided

from . import multiplied_programs
from .program_outcome import Outcome, outcome
from .tile_program import Argument, Program

_BEHIND = "cute-unroll-loops"
_REMOVED: tuple[type[Operation], ...] = (
    cute_nvgpu.ProxyFenceOp,
    cute_nvgpu.WgmmaFenceOp,
    cute_nvgpu.WgmmaCommitOp,
    cute_nvgpu.WgmmaWaitOp,
    cute_nvgpu.CpAsyncCommitOp,
    cute_nvgpu.CpAsyncWaitOp,
    cute_nvgpu.TmaStoreCommitOp,
    cute_nvgpu.TmaStoreWaitOp,
    cute.BarrierOp,
    pipeline.ProducerAcquireOp,
    pipeline.ProducerCommitOp,
    pipeline.ConsumerWaitOp,
    pipeline.ConsumerReleaseOp,
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
        if isinstance(op, pipeline.ConsumerReleaseOp) and op.back is not None:
            yield Edit(number, "release of the stage at work", _not_back)
        if isinstance(op, pipeline.ConsumerReleaseOp) and op.commits is not None:
            yield Edit(number, "release without a commit", _no_commit)
        if isinstance(op, cute.StageOp) and not isinstance(op.index.owner, ConstantOp):
            yield Edit(number, "always the first stage", _first_stage)
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
        | pipeline.AdvanceOp,
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


class _Step:
    """A pass behind the last one that orders."""

    name = "mutate"

    def __init__(self, change: Callable[[ModuleOp], None]) -> None:
        self.change = change

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        self.change(op)


@contextmanager
def behind_the_last_pass(change: Callable[[ModuleOp], None]) -> Iterator[None]:
    """Compilations inside do this to a module behind the last pass that orders."""
    before = cute_to_ptx.pipeline

    def pipeline_with(arch: str, schedule: str | None = None) -> tuple[Any, ...]:
        steps: list[Any] = []
        for step in before(arch, schedule):
            steps.append(step)
            if step.name == _BEHIND:
                steps.append(_Step(change))
        return tuple(steps)

    cute_to_ptx.pipeline = pipeline_with
    try:
        yield
    finally:
        cute_to_ptx.pipeline = before


def verdict(module: ModuleOp) -> tuple[str, str]:
    """What the check says of a module: `proved`, `found` with what, or `undecided`."""
    for kernel in module.ops:
        if isinstance(kernel, cute.KernelOp):
            try:
                findings = verdict_of(kernel).findings
            except Undecided as undecided:
                return "undecided", str(undecided)
            if findings:
                return "found", f"{findings[0].op.name}: {findings[0].text()}"
    return "proved", ""


def judged(program: Program, target: str, edit: Edit | None) -> tuple[tuple[str, str], Outcome]:
    """What the check and the emulator say of a program with an edit."""
    says: list[tuple[str, str]] = []

    def change(module: ModuleOp) -> None:
        if edit is not None:
            op = next(op for number, op in enumerate(walk(module)) if number == edit.number)
            edit.apply(op)
        says.append(verdict(module))

    with behind_the_last_pass(change):
        got = outcome(program, target)
    return says[-1] if says else ("refused", ""), got


def edits(program: Program, target: str) -> list[Edit]:
    """All edits of a program on a target."""
    found: list[Edit] = []

    def look(module: ModuleOp) -> None:
        found[:] = edits_of(module)

    with behind_the_last_pass(look):
        outcome(program, target)
    return found


def gemm(schedule: str = "") -> Program:
    """A product of some tiles, as a program."""
    lines = (
        "i, j = cute.tile_index(C, (64, 64))",
        "a, b = cute.local_tile(A, (64, 64), (i, None)), cute.local_tile(B, (64, 64), (None, j))",
        "acc = cute.zeros((64, 64))",
        "for k in cute.range(a.tiles):",
        "    cute.gemm(a[k], b[k], acc)",
        "cute.copy(acc * 1.0, cute.local_tile(C, (64, 64), (i, j)))",
    )
    arguments = (
        Argument("A", (128, 320), "f16", (0, 1), seed=1, low=-2, high=2),
        Argument("B", (320, 128), "f16", (0, 1), seed=2, low=-2, high=2),
        Argument("C", (128, 128), "f32", (0, 1)),
    )
    return Program(-1, arguments, tuple(f"    {line}" for line in lines), frozenset(), schedule)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.protocol_mutants",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--count", metavar="N", type=int, default=20, help="so many programs")
    parser.add_argument("--seed", metavar="S", type=int, default=0, help="which ones")
    parser.add_argument("--target", metavar="NAME", action="append", help="all five")
    parser.add_argument("--mutants", metavar="N", type=int, default=20, help="of each program")
    parser.add_argument("--budget", type=float, metavar="S", help="stop after so many seconds")
    parser.add_argument("--json", metavar="FILE", help="write all that was judged")
    parser.add_argument("--verbose", action="store_true", help="what the check says of each")
    options = parser.parse_args(arguments)
    os.environ["CUTEDIALECT_NO_CACHE"] = "1"
    targets = options.target or list(multiplied_programs.TARGETS)
    start, rows = time.monotonic(), []
    for number in range(-1, options.count):
        for target in targets:
            if options.budget is None or time.monotonic() - start < options.budget:
                rows += _rows(number, target, options)
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            json.dump(rows, file, indent=1)
    return _report(rows)


def _rows(number: int, target: str, options: argparse.Namespace) -> list[dict[str, str]]:
    """A row for a program as it is, and for each of its mutants."""
    program = gemm() if number < 0 else multiplied_programs.program_of(options.seed, number)
    rows: list[dict[str, str]] = []

    def judge(edit: Edit | None) -> dict[str, str]:
        (says, what), got = judged(program, target, edit)
        kind = "" if edit is None else edit.kind
        at = 0 if edit is None else edit.number
        row = {
            "program": str(number), "target": target, "edit": kind, "op": str(at), "check": says,
            "what": what, "emulator": got.kind, "reason": got.reason[:300],
        }  # fmt: skip
        rows.append(row)
        is_fault = (says == "proved") != (got.kind == "right") or says == "undecided"
        if got.kind != "refused" and (options.verbose or is_fault):
            print(f"{number} {target} op {at} {kind}: {says} / {got.kind}")
            print(f"    check: {what[:300]}\n    emulator: {got.reason[:200]}", flush=True)
        return row

    if judge(None)["emulator"] != "right" or not options.mutants:
        return rows
    found = edits(program, target)
    Random(number).shuffle(found)
    for edit in found[: options.mutants]:
        judge(edit)
    return rows


def _report(rows: Sequence[dict[str, str]]) -> int:
    """The tables; 1 where a program is not proved, or a mutant proved and faulty."""
    plain = [row for row in rows if not row["edit"]]
    print("\nprograms:", dict(Counter(f"{row['check']}/{row['emulator']}" for row in plain)))
    mutants = [row for row in rows if row["edit"] and row["emulator"] != "refused"]
    print(f"{'edit':42} faulty found missed | right found proved | undecided")
    total: Counter[str] = Counter()
    for kind in sorted({row["edit"] for row in mutants}):
        counts = Counter(
            (row["check"], row["emulator"] != "right") for row in mutants if row["edit"] == kind
        )
        found, missed = counts["found", True], counts["proved", True]
        unseen, right = counts["found", False], counts["proved", False]
        undecided = counts["undecided", True] + counts["undecided", False]
        total.update(found=found, missed=missed, unseen=unseen, right=right, undecided=undecided)
        print(
            f"{kind:42} {found + missed:6} {found:5} {missed:6} | {unseen + right:5} {unseen:5} "
            f"{right:6} | {undecided:9}"
        )
    print(dict(total))
    false = [row for row in plain if row["emulator"] == "right" and row["check"] != "proved"]
    return 1 if false or total["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
