"""`cute-pipeline`: every staged buffer becomes a ring, and its edge gets barriers.

Before, a loop copies a tile to shared memory and reads it in the same iteration. After, the buffer
has one more mode of S stages; the copies of iteration k + S - 1 are issued in iteration k, the
first S - 1 ahead of the loop, and the verbs of the `pipeline` dialect say who waits for what.

    for k { copy g[k], s; use s }
    =>
    for j in 0..S-1 { acquire; copy g[j], s[j] if j < n; commit }
    for k { wait; acquire; copy g[k+S-1], s[(k+S-1) % S] if k+S-1 < n; commit;
            use s[k % S]; release }

In a kernel with roles, buffers that cross them get mbarriers instead (`mbarrier_rings.py`), and the
program splits (`split_roles.py`); instances of a role take turns (`alternate_instances.py`).
"""

from __future__ import annotations

from dataclasses import dataclass

from xdsl.context import Context
from xdsl.dialects import arith, scf
from xdsl.dialects.builtin import IntegerAttr, ModuleOp, i32
from xdsl.ir import Block, Operation, SSAValue
from xdsl.passes import ModulePass
from xdsl.rewriter import InsertPoint
from xdsl.traits import is_side_effect_free
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects.cute import (
    AllocSmemOp,
    BarrierOp,
    CopyOp,
    KernelOp,
    LoadOp,
    StageOp,
)
from cutedialect.dialects.cute_nvgpu import SimtAsyncCopyType
from cutedialect.dialects.pipeline import (
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    RoleOp,
)
from cutedialect.passes.alternate_instances import alternate_instances
from cutedialect.passes.assign_warp_roles import roles_of
from cutedialect.passes.fragment_prefetch import prefetch_fragments
from cutedialect.passes.mbarrier_rings import insert_rings
from cutedialect.passes.narrow_meetings import narrow_meetings
from cutedialect.passes.ring_buffers import ring_type
from cutedialect.passes.scalar_ops import ScalarBuilder
from cutedialect.passes.split_roles import split_roles
from cutedialect.passes.work_loops import share_claims
from cutedialect.schedule import Schedule


@dataclass(frozen=True)
class PipelinePass(ModulePass):
    """Turn staged buffers into rings; `stages` overrides the schedule."""

    name = "cute-pipeline"

    stages: int | None = None

    def __post_init__(self) -> None:
        Schedule(stages=self.stages)

    def apply(self, ctx: Context, op: ModuleOp) -> None:
        for kernel in op.ops:
            if not isinstance(kernel, KernelOp):
                continue
            scheduled = kernel.schedule.data.stages if kernel.schedule is not None else None
            stages = self.stages or scheduled or 2
            roles = roles_of(kernel)
            if roles:
                insert_rings(kernel, roles, stages)
                split_roles(kernel, roles)
                share_claims(kernel)
                for role in [each for each in kernel.body.block.ops if isinstance(each, RoleOp)]:
                    narrow_meetings(role)
                    if role.teams > 1:
                        alternate_instances(kernel, role)
                continue
            narrow_meetings(kernel)
            staged = _staged_buffers(kernel)
            for block in _blocks_with_writers(staged):
                writers = [w for w in staged.values() if w.parent is block]
                loop = block.parent_op()
                if isinstance(loop, scf.ForOp):
                    _pipeline_loop(kernel, loop, writers, stages)
                else:
                    _wait_in_place(writers)


def _staged_buffers(kernel: KernelOp) -> dict[AllocSmemOp, CopyOp]:
    """Buffers that partition staged an operand in, each with the copy that fills it.

    A conversion's `scratch` buffer brings its own barriers.
    """
    staged: dict[AllocSmemOp, CopyOp] = {}
    for op in kernel.body.block.walk():
        if not isinstance(op, CopyOp):
            continue
        buffer = op.destination.owner
        if isinstance(buffer, AllocSmemOp) and "scratch" not in buffer.attributes:
            staged[buffer] = op
    return staged


def _blocks_with_writers(staged: dict[AllocSmemOp, CopyOp]) -> list[Block]:
    blocks: list[Block] = []
    for writer in staged.values():
        block = writer.parent
        assert block is not None
        if block not in blocks:
            blocks.append(block)
    return blocks


def _kind(writers: list[CopyOp]) -> str:
    is_async = any(isinstance(w.atom, SimtAsyncCopyType) for w in writers)
    return "cp_async" if is_async else "threads"


def _wait_in_place(writers: list[CopyOp]) -> None:
    """A buffer filled outside of any loop: commit after the last write, wait before any read."""
    last = writers[-1]
    block = last.parent
    assert block is not None
    create = CreateOp(_kind(writers), 1)
    block.insert_op_before(create, writers[0])
    commit, wait = ProducerCommitOp(create.ring), ConsumerWaitOp(create.ring, 0)
    block.insert_op_after(commit, last)
    block.insert_op_after(wait, commit)
    for op in (create, commit, wait):
        op.location = last.location


def _pipeline_loop(kernel: KernelOp, loop: scf.ForOp, writers: list[CopyOp], stages: int) -> None:
    producers = _producers(loop, writers)
    _check_step(loop)
    rings = {w: _ring(w, stages) for w in writers}
    build = ScalarBuilder(InsertPoint.before(loop), writers[0])
    create = CreateOp(_kind(writers), stages)
    build.insert(create)
    if isinstance(loop.parent_op(), scf.ForOp):
        # Slower warps may still read the last stages of the previous trip.
        build.insert(BarrierOp())
    ahead = stages - 1
    if ahead:
        _prologue(build, loop, producers, rings, create.ring, ahead)
    first = loop.body.block.first_op
    assert first is not None
    inner = ScalarBuilder(InsertPoint.before(first), writers[0])
    k = loop.body.block.args[0]
    size = inner.constant(stages)
    from_start = inner.binary(arith.SubiOp, k, loop.lb)
    if ahead:
        wait = ConsumerWaitOp(create.ring, stages - 2)
        inner.insert(wait)
        next_k = inner.binary(arith.AddiOp, k, inner.constant(ahead))
        position = inner.binary(arith.AddiOp, from_start, inner.constant(ahead))
    else:
        inner.insert(BarrierOp())
        next_k, position = k, from_start
    slot = inner.binary(arith.RemUIOp, position, size)
    inside = inner.insert(arith.CmpiOp(next_k, loop.ub, "slt")).results[0]
    _produce(inner, loop, producers, rings, create.ring, next_k, slot, inside)
    if not ahead:
        wait = ConsumerWaitOp(create.ring, 0)
        inner.insert(wait)
    current = inner.binary(arith.RemUIOp, from_start, size)
    views: list[StageOp] = []
    for writer, ring in rings.items():
        stage = StageOp(ring, current)
        inner.insert(stage)
        views.append(stage)
        view = stage.result
        old = writer.destination
        old.replace_uses_with_if(view, lambda use: use.operation not in producers)
    for op in reversed(producers):
        # A coordinate may be wanted elsewhere in the loop too.
        if not any(result.first_use is not None for result in op.results):
            op.detach()
            op.erase()
    last = loop.body.block.last_op
    assert last is not None
    release = ConsumerReleaseOp(create.ring)
    release.location = loop.location
    loop.body.block.insert_op_before(release, last)
    if ahead:
        prefetch_fragments(loop, wait, views, from_start)
    for buffer in [op for op in kernel.body.block.ops if isinstance(op, AllocSmemOp)]:
        if not any(True for _ in buffer.result.uses):
            buffer.detach()
            buffer.erase()


def _check_step(loop: scf.ForOp) -> None:
    step = loop.step.owner
    value = step.value if isinstance(step, arith.ConstantOp) else None
    if not isinstance(value, IntegerAttr) or value.value.data != 1:
        raise PassFailedException(loop, "expected a pipelined loop with step 1")


def _producers(loop: scf.ForOp, writers: list[CopyOp]) -> list[Operation]:
    """The copies into shared memory and what only feeds them, in program order."""
    body = loop.body.block
    wanted: set[Operation] = set(writers)
    for op in reversed(list(body.ops)):
        if op in wanted:
            for operand in op.operands:
                owner = operand.owner
                if isinstance(owner, Operation) and owner.parent is body:
                    wanted.add(owner)
    ordered = [op for op in body.ops if op in wanted]
    for op in ordered:
        if not (op in writers or isinstance(op, LoadOp) or is_side_effect_free(op)):
            raise PassFailedException(
                op, f"expected a staged copy to depend on pure ops and loads, got {op.name}"
            )
    return ordered


def _ring(writer: CopyOp, stages: int) -> SSAValue:
    """The buffer of `writer` with a last mode of `stages`."""
    buffer = writer.destination.owner
    assert isinstance(buffer, AllocSmemOp)
    ring = AllocSmemOp(ring_type(buffer.result.type, stages))
    ring.location = buffer.location
    ring.result.name_hint = buffer.result.name_hint
    block = buffer.parent
    assert block is not None
    block.insert_op_before(ring, buffer)
    return ring.result


def _prologue(
    build: ScalarBuilder,
    loop: scf.ForOp,
    producers: list[Operation],
    rings: dict[CopyOp, SSAValue],
    ring: SSAValue,
    ahead: int,
) -> None:
    """Fill the first `ahead` stages."""
    body = Block(arg_types=[i32])
    zero, one, count = build.constant(0), build.constant(1), build.constant(ahead)
    build.insert(scf.ForOp(zero, count, one, [], body))
    inner = ScalarBuilder(InsertPoint.at_end(body), loop)
    slot = body.args[0]
    k = inner.binary(arith.AddiOp, slot, loop.lb)
    inside = inner.insert(arith.CmpiOp(k, loop.ub, "slt")).results[0]
    _produce(inner, loop, producers, rings, ring, k, slot, inside)
    inner.insert(scf.YieldOp())


def _produce(
    build: ScalarBuilder,
    loop: scf.ForOp,
    producers: list[Operation],
    rings: dict[CopyOp, SSAValue],
    ring: SSAValue,
    k: SSAValue,
    slot: SSAValue,
    inside: SSAValue,
) -> None:
    """The producers of iteration `k`, writing stage `slot` where the iteration exists."""
    build.insert(ProducerAcquireOp(ring))
    values: dict[SSAValue, SSAValue] = {loop.body.block.args[0]: k}
    for op in producers:
        if isinstance(op, CopyOp) and op in rings:
            stage = build.insert(StageOp(rings[op], slot)).results[0]
            source = values.get(op.source, op.source)
            copy = CopyOp(source, stage, inside, op.atom, op.tv)
            copy.attributes.update(op.attributes)
            build.insert(copy).location = op.location
            continue
        clone = op.clone(values)
        build.insert(clone).location = op.location
        for old, new in zip(op.results, clone.results, strict=True):
            values[old] = new
    build.insert(ProducerCommitOp(ring))
