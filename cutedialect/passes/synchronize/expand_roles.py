"""`cute-expand-roles`: what a kernel does beside what stands in its roles becomes ops, so that what
is checked behind this pass is all that is printed.

    alloc_tmem; create; role "mma" {...}; role "main" {...}
    =>
    alloc_tmem; create; tmem_alloc; start; tmem_address; role "mma" {...};
    role "main" {...; tcgen05_fence before; barrier; tcgen05_fence after; tmem_dealloc}

Steps stand in front of what threads do by memory that they share (`thread_exchanges.py`). In front
of the roles one warp takes the columns of tensor memory, threads write the ones by which multiplies
add up rows, and one thread makes the barriers of rings and exchanges before all meet.
At their ends roles wait for those that read what they sent to other CTAs, and when all that load
from tensor memory have done so, one gives its columns back. A kernel without roles makes the
barriers of its reductions over a cluster when it begins, and waits for the other CTAs at the first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import Float32Type
from xdsl.ir import Operation

from cutedialect.allocation import ONES_BYTES
from cutedialect.atoms.tmem_layouts import COLUMNS, allocation
from cutedialect.dialects.cute import (
    AllocSmemOp,
    AllocTmemOp,
    BarrierOp,
    ClusterReduceOp,
    ClusterScatterOp,
    ClusterSumOp,
    CopyOp,
    GemmOp,
    KernelOp,
    MemRefType,
    element_bits,
    element_of,
)
from cutedialect.dialects.cute_nvgpu import (
    ProxyFenceOp,
    RoundToTf32Op,
    Sm90MmaType,
    Tcgen05FenceOp,
    TmemAddressOp,
    TmemAllocOp,
    TmemDeallocOp,
    TmemLoadType,
    WgmmaFenceOp,
    WriteOnesOp,
)
from cutedialect.dialects.pipeline import (
    CreateOp,
    ExchangeDrainOp,
    ExchangeOp,
    RoleOp,
    StartArriveOp,
    StartOp,
    StartWaitOp,
)
from cutedialect.dialects.walks import ops_of
from cutedialect.layout import Layout
from cutedialect.passes.anchors import Anchors, KernelPass, anchored
from cutedialect.passes.rewriting import insert_before

from .cluster_exchanges import SLOT_BYTES, steps_of_cluster
from .thread_exchanges import THREAD_EXCHANGES, say_steps

# A tile of ones begins where lines of shared memory do: a swizzle exchanges vectors of a line.
_LINE_BYTES = 128
Exchanging = ClusterReduceOp | ClusterScatterOp | ClusterSumOp


@dataclass(frozen=True)
class ExpandRolesPass(KernelPass):
    """Say by ops what roles ask for; a kernel that says it stays as it is."""

    name = "cute-expand-roles"
    anchors = Anchors(ops=(RoleOp, ClusterReduceOp, GemmOp, *THREAD_EXCHANGES))

    def run(self, kernel: KernelOp) -> None:
        say_steps(kernel)
        _round(kernel)
        if ops_of(kernel, StartOp, StartArriveOp):
            return
        _begin_reductions(kernel)
        roles = [op for op in kernel.body.block.ops if isinstance(op, RoleOp)]
        if roles:
            _begin(kernel, roles)
            _end(kernel, roles)


@anchored(WgmmaFenceOp)
def _round(kernel: KernelOp) -> None:
    """Round f32 that warpgroups multiply from registers, in front of the fence."""
    for op in ops_of(kernel, GemmOp):
        is_in_registers = isinstance(op.atom, Sm90MmaType) and op.atom.a_source == "rmem"
        if not is_in_registers or not isinstance(element_of(op.a.type), Float32Type):
            continue
        if isinstance(op.a.owner, RoundToTf32Op):
            continue
        fence = op.prev_op
        if not isinstance(fence, WgmmaFenceOp):
            fence = WgmmaFenceOp()
            insert_before(op, fence)
        rounded = RoundToTf32Op(op.a)
        insert_before(fence, rounded)
        op.operands[0] = rounded.result


def _exchange(op: Exchanging, made: ExchangeOp) -> None:
    """Name to an op the exchange that its CTAs take, and say how."""
    op.operands = [op.operands[0], made.exchange]
    insert_before(op, steps_of_cluster(op, made.exchange))


@anchored(ClusterReduceOp)
def _begin_reductions(kernel: KernelOp) -> None:
    """Make the barriers of reductions over the cluster first, and meet at the first of them: what
    is loaded in between is on its way while the other CTAs begin.
    """
    reductions = ops_of(kernel, ClusterReduceOp)
    if not reductions:
        return
    exchanges = [ExchangeOp(0, SLOT_BYTES * op.count.value.data) for op in reductions]
    insert_before(reductions[0], StartWaitOp())
    for op, made in zip(reductions, exchanges, strict=True):
        _exchange(op, made)
    block = kernel.body.block
    first = block.first_op
    assert first is not None
    for op in (*exchanges, StartArriveOp()):
        op.location = kernel.location
        block.insert_op_before(op, first)


def _begin(kernel: KernelOp, roles: Sequence[RoleOp]) -> None:
    """What comes in front of the roles."""
    before: list[Operation] = []
    behind: list[Operation] = []
    columns = _columns(kernel)
    if columns:
        before.append(TmemAllocOp(columns, _is_paired(roles)))
        behind.append(TmemAddressOp())
    sums = ops_of(kernel, ClusterSumOp, ClusterScatterOp)
    for op in sums:
        readers = op.count.value.data if isinstance(op, ClusterScatterOp) else 1
        made = ExchangeOp(readers)
        _exchange(op, made)
        before.append(made)
    ones = _ones(kernel)
    cluster = bool(sums) or any(ring.is_shared for ring in ops_of(kernel, CreateOp))
    # Behind a relaxed arrival nobody has to see what is written in front of it.
    start = StartOp(cluster, cluster and bool(ones or columns))
    insert_before(roles[0], *before, *ones, start, *behind)


def _columns(kernel: KernelOp) -> int:
    """The columns of tensor memory that all buffers take."""
    used = sum(op.columns for op in ops_of(kernel, AllocTmemOp) if op.over is None)
    # Who asks for more is told so at the buffer that is too much.
    return allocation(min(used, COLUMNS)) if used else 0


def _is_paired(roles: Sequence[RoleOp]) -> bool:
    return any(role.pair is not None for role in roles)


@anchored(marks=("sums",), otherwise=list)
def _ones(kernel: KernelOp) -> list[Operation]:
    """A tile of ones for each type of elements whose rows multiplies add up."""
    made: list[Operation] = []
    elements = [element_of(op.a.type) for op in ops_of(kernel, GemmOp) if op.sums is not None]
    for element in dict.fromkeys(elements):
        layout = Layout((ONES_BYTES * 8 // element_bits(element),), (1,))
        tile = AllocSmemOp(MemRefType.get(element, "smem", _LINE_BYTES, layout))
        made += [tile, WriteOnesOp(tile.result)]
    return [*made, ProxyFenceOp()] if made else []


def _end(kernel: KernelOp, roles: Sequence[RoleOp]) -> None:
    """What comes at the ends of roles."""
    columns, readers = _columns(kernel), [role for role in roles if _loads(role)]
    for role in roles:
        ends: list[Operation] = []
        for op in ops_of(role, ClusterScatterOp):
            assert op.exchange is not None
            ends.append(ExchangeDrainOp(op.exchange))
            ends[-1].location = op.location
        if columns and role in readers:
            ends += _given_back(role, readers, columns, _is_paired(roles))
        for op in ends:
            role.body.block.add_op(op)


def _loads(role: RoleOp) -> bool:
    """Whether a role loads from tensor memory."""
    return any(isinstance(op.atom, TmemLoadType) for op in ops_of(role, CopyOp))


def _given_back(
    role: RoleOp, readers: Sequence[RoleOp], columns: int, is_paired: bool
) -> list[Operation]:
    """What a role that loads from tensor memory does at its end: meet the others, and, the first of
    them, give the columns back.
    """
    ends: list[Operation] = [Tcgen05FenceOp("before")]
    if len(readers) > 1:
        ends.append(BarrierOp(roles=[each.role.data for each in readers]))
    if role is readers[0]:
        if is_paired:
            # So the other CTA has read them, too: both give them back together.
            ends.append(BarrierOp(cluster=True))
        elif len(readers) == 1:
            ends.append(BarrierOp())
        ends += [Tcgen05FenceOp("after"), TmemDeallocOp(columns, is_paired)]
    for op in ends:
        op.location = role.location
    return ends
