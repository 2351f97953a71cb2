"""`cute-check-protocol`: proves what synchronizes a kernel, behind the last pass that orders.

It runs the roles side by side on integers alone, with clocks, in cases of trips. It refuses a
kernel in which two accesses meet that nothing orders, a fence is missing, bytes or arrivals do not
add up, a wait never ends, or work is left in flight. A kernel with an op that `events.py` does not
know is undecided: it gets a remark, and is neither proved nor refused. The pass changes nothing.
With `protocol=warn` findings are remarks, too.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from xdsl.dialects import scf
from xdsl.dialects.builtin import ModuleOp
from xdsl.ir import Operation
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import AllocSmemOp, AllocTmemOp, KernelOp, StageOp
from cutedialect.dialects.pipeline import StepsOp
from cutedialect.passes.anchors import Anchors, KernelPass
from cutedialect.passes.remarks import remark

from .cases import check, first_case
from .clocks import Team
from .findings import Finding, place_of
from .machine import Machine
from .nodes import Event, Skeleton
from .scalars import constant_of
from .shares import memory_type
from .skeleton import Undecided, skeleton_of
from .steps import walks_of

# Most accesses of a warp are whole pieces of so many bytes.
_GRANULE_BYTES = 32
# A loop of as few trips reads ahead once, which says nothing of how far; one of three does.
_TWO_TRIPS, _THREE_TRIPS = 2, 3
_PROTOCOLS = ("refuse", "warn")


@dataclass(frozen=True)
class CheckProtocolPass(KernelPass):
    """Prove the synchronization of kernels, or refuse them; change nothing."""

    name = "cute-check-protocol"
    # Memory that warps share.
    anchors = Anchors(ops=(AllocSmemOp, AllocTmemOp, StepsOp))

    protocol: str | None = None
    """`refuse`, which is what None means, or `warn`."""

    def __post_init__(self) -> None:
        if self.protocol not in (None, *_PROTOCOLS):
            raise ValueError(
                f"expected protocol to be one of {', '.join(_PROTOCOLS)}, got '{self.protocol}'"
            )

    def run(self, kernel: KernelOp) -> None:
        try:
            verdict = verdict_of(kernel)
        except Undecided as undecided:
            remark(self.name, undecided.op, f"undecided: {undecided}")
            return
        if verdict.unended:
            loop, case = verdict.unended[0]
            remark(
                self.name,
                loop,
                f"undecided: a case ({case}) is not run to its end, which takes too many trips of "
                "this loop, or too many steps, and it does not repeat what it does: whether its "
                "waits end, and whether something is left at the end, is not shown",
            )
        elif verdict.missed:
            remark(
                self.name,
                verdict.missed[0],
                f"proved but for bodies of {len(verdict.missed)} loops and conditions, first this "
                "one, which no case of trips and data enters",
            )
        if self.protocol == "warn":
            for finding in verdict.findings:
                remark(self.name, finding.op, finding.text())
        elif verdict.findings:
            raise UnprovedError(*verdict.findings)


class UnprovedError(PassFailedException):
    """A kernel is refused; `code` is that of its first finding."""

    def __init__(self, first: Finding, *others: Finding) -> None:
        more = "".join(f"\n{other.op.name}{place_of(other.op)}: {other.text()}" for other in others)
        super().__init__(first.op, first.text() + more)
        self.code = first.code


@dataclass(frozen=True)
class Verdict:
    """What was found in how many cases. Without findings the kernel is proved, but for bodies of
    `missed`, which no case has entered; with a loop in `unended`, which kept a case of that name
    from its end, it is undecided.
    """

    findings: tuple[Finding, ...]
    cases: int
    missed: tuple[Operation, ...] = ()
    unended: tuple[tuple[Operation, str], ...] = ()


def verdict_of(kernel: KernelOp) -> Verdict:
    """Check a kernel as it stands behind `cute-unroll-loops`.

    Raises `Undecided` for one with an op that the table of events does not know.
    """
    skeleton = skeleton_of(kernel, _GRANULE_BYTES)
    ends = dict(_ends_of_three_trips(skeleton))
    checked = check(skeleton)
    if checked.findings:
        # Accesses of one granule may be of unlike elements of it.
        checked = check(skeleton_of(kernel))
    findings = checked.findings
    if ends and not findings:
        from .longer_loops import strays_of

        findings = strays_of(kernel, ends, _GRANULE_BYTES)
    return Verdict(tuple(findings), checked.cases, tuple(checked.missed), tuple(checked.unended))


def _ends_of_three_trips(skeleton: Skeleton) -> Iterator[tuple[Operation, int]]:
    """Loops of two trips with a stage for each of three, and where three would end."""
    for loop in dict.fromkeys(skeleton.bodies.values()):
        if not isinstance(loop, scf.ForOp):
            continue
        owners = [value.owner for value in (loop.lb, loop.ub, loop.step)]
        start, end, step = (
            constant_of(owner) if isinstance(owner, Operation) else None for owner in owners
        )
        if start is None or end is None or not step or end - start != _TWO_TRIPS * step:
            continue
        views = [op for op in loop.body.block.ops if isinstance(op, StageOp)]
        if min((memory_type(op.source).shape[-1] for op in views), default=0) >= _THREE_TRIPS:
            yield loop, start + _THREE_TRIPS * step


def traced(module: ModuleOp) -> Iterator[str]:
    """The events of each role of the kernels of a module in the first case, a line each: the role's
    time, the event, and what the role knows of the times of the others.
    """
    for kernel in module.ops:
        if not isinstance(kernel, KernelOp):
            continue
        try:
            skeleton = skeleton_of(kernel, is_short=False)
        except Undecided as undecided:
            yield f"@{kernel.sym_name.data}: undecided: {undecided}{place_of(undecided.op)}\n"
            continue
        yield from _events_of(kernel, skeleton)


def _events_of(kernel: KernelOp, skeleton: Skeleton) -> Iterator[str]:
    case = first_case(skeleton)
    yield f"@{kernel.sym_name.data}, {case.name}\n"
    machine = Machine(skeleton, case.name, walks_of(skeleton, case))
    lines: list[str] = []

    def note(team: Team, event: Event) -> None:
        others = [(other.name, team.knows(other.column)) for other in machine.teams]
        known = [f"{name} {time}" for name, time in others if time and name != team.name]
        lines.append(
            f"  {team.name} {team.time}: {event.op.name}{place_of(event.op)}; knows "
            f"{', '.join(known) or 'nothing of others'}\n"
        )

    machine.trace = note
    machine.run()
    yield from lines
