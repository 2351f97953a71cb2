"""What a ring with barriers has to add up to, over all roles of a kernel: who arrives how often, how
many bytes come to a stage, and which CTAs share it. A number that does not fit hangs or races.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from xdsl.dialects import scf
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import VerifyException

from cutedialect.atoms import WARP_SIZE
from cutedialect.dialects.cute import CopyOp, KernelOp, MemRefType
from cutedialect.dialects.cute_nvgpu import SimtAsyncCopyType, TmaLoadType
from cutedialect.dialects.walks import ops_of

from .messages import RequestOp
from .rings import (
    BarrierOp,
    ConsumerReleaseOp,
    ConsumerWaitOp,
    CreateOp,
    ProducerAcquireOp,
    ProducerCommitOp,
    is_whole,
    sharing_ctas,
    widest_groups,
)
from .roles import RoleOp, role_of
from .turns import TurnWaitOp

# Bytes of the response to a request for a launch (PTX ISA 9.7.13.17.1).
_RESPONSE = 16


def verify_ring(create: CreateOp) -> None:
    """Check a ring against the roles of its kernel; nothing where there are none yet."""
    kernel, block = create.parent_op(), create.parent
    if block is None or not isinstance(kernel, KernelOp) or not is_whole(kernel):
        return
    roles = [op for op in block.ops if isinstance(op, RoleOp)]
    involved = [*roles, *(use.operation for use in create.ring.uses)]
    if not roles or not all(is_whole(op) for op in (*involved, *_copies(create))):
        return
    filling = ProducerAcquireOp if create.is_released else ProducerCommitOp
    for kind, verb in (
        (filling, f"a role that fills the ring ({filling.name.removeprefix('pipeline.')})"),
        (ConsumerWaitOp, "a role that reads the ring (consumer_wait)"),
    ):
        if not _verbs(create, kind):
            raise VerifyException(f"expected {verb}, got none")
    if not create.is_released and _verbs(create, ProducerAcquireOp):
        raise VerifyException("expected no producer_acquire of a ring without consumers, got one")
    cluster = 1 if kernel.cluster is None else kernel.cluster.value.data
    if create.is_paired and cluster % 2:
        raise VerifyException(f"expected a cluster of CTA pairs, got {cluster} CTAs")
    _verify_peers(create, cluster)
    _verify_producers(create)
    _verify_consumers(create, cluster)
    _verify_rounds(create)


def _verbs(create: CreateOp, *kinds: type[Operation]) -> list[Operation]:
    """The uses of a ring by some ops."""
    return [use.operation for use in create.ring.uses if isinstance(use.operation, kinds)]


def _roles(ops: Sequence[Operation]) -> list[RoleOp]:
    """The roles of some ops, each once, by their warps."""
    found = {role for op in ops if (role := role_of(op)) is not None}
    return sorted(found, key=lambda role: role.warp_range.start)


def _verify_producers(create: CreateOp) -> None:
    """One thread arrives for what TMA brings, every thread for its `cp.async`, a lane of each warp
    for stores.
    """
    roles = _roles(_verbs(create, ProducerCommitOp))
    if "tma" in create.kinds and len(roles) > 1:
        names = " and ".join(f"'{role.role.data}'" for role in roles)
        raise VerifyException(f"expected one role to fill a tma ring, got {names}")
    counts: dict[str, int] = {}
    for role in roles:
        warps = 1 if role.elect is not None else len(role.warp_range)
        threads = 1 if role.elect is not None else WARP_SIZE * warps
        arrivals = {"tma": 1, "cp_async": threads, "threads": warps, "tcgen05": 1, "tmem": warps}
        for kind in create.kinds:
            if kind == "tmem" and "threads" in create.kinds:
                # A warp arrives once for what its threads store, wherever.
                continue
            counts[f"{kind} in '{role.role.data}'"] = arrivals[kind]
    # What threads of a pair write is told to the CTA that multiplies for both.
    ctas = 2 if create.is_paired and create.is_written else 1
    _compare("producers", "arrivals at a full stage", create.producers.value.data, counts, ctas)


def _compare(what: str, meaning: str, got: int, counts: dict[str, int], ctas: int) -> None:
    expected = sum(counts.values()) * ctas
    if got != expected:
        shown = ", ".join(f"{count} for {name}" for name, count in counts.items())
        shared = f" in {ctas} CTAs" if ctas > 1 else ""
        raise VerifyException(f"expected {expected} {what} ({meaning}: {shown}{shared}), got {got}")


def _verify_consumers(create: CreateOp, cluster: int) -> None:
    got = create.consumers.value.data
    ctas = sharing_ctas(create.peer_groups)
    releases = _verbs(create, ConsumerReleaseOp)
    counts: dict[RoleOp, int] = {}
    for role in _roles(releases):
        mine = next(op for op in releases if role_of(op) is role)
        assert isinstance(mine, ConsumerReleaseOp)
        if role.elect is None:
            counts[role] = _arriving_warps(mine, role)
        elif ctas == 1 or mine.commits is not None:
            counts[role] = 1
        else:
            raise VerifyException(
                f"expected whole warps to release the stages of other CTAs, got one thread of role "
                f"'{role.role.data}'"
            )
    if create.is_led:
        # All CTAs release to the first one; a role of pairs is there in every other.
        counts = {r: n * cluster // (1 if r.pair is None else 2) for r, n in counts.items()}
    names = {f"'{role.role.data}'": count for role, count in counts.items()}
    if create.is_paired and "tcgen05" in create.kinds and not all(map(_commits, releases)):
        ctas = 2
    _compare("consumers", "warps that release a stage", got, names, ctas)


def _commits(release: Operation) -> bool:
    """Whether the tensor core releases a stage."""
    return isinstance(release, ConsumerReleaseOp) and release.commits is not None


def _arriving_warps(release: Operation, role: RoleOp) -> int:
    """Warps that release a stage: of instances that take turns around it, those of one."""
    warps = len(role.warp_range)
    around = release.parent_op()
    while around is not None and around is not role:
        if isinstance(around, scf.ForOp) and any(
            isinstance(op, TurnWaitOp) for block in around.body.blocks for op in block.ops
        ):
            return warps // max(1, role.teams)
        around = around.parent_op()
    return warps


def _verify_peers(create: CreateOp, cluster: int) -> None:
    """Groups of CTAs against the cluster, and against what the copies multicast."""
    groups = create.peer_groups
    for extent, step in groups:
        if extent < 2 or step < 1 or cluster % (extent * step):
            raise VerifyException(
                f"expected peers that divide the cluster of {cluster} CTAs, got {extent} CTAs "
                f"{step} apart"
            )
    if sharing_ctas(groups) > WARP_SIZE:
        raise VerifyException(f"expected at most {WARP_SIZE} CTAs to share stages, got {groups}")
    shared = dict.fromkeys(
        copy.atom.multicast
        for copy in _copies(create)
        if isinstance(copy.atom, TmaLoadType) and copy.atom.multicast is not None
    )
    wanted = widest_groups(shared)
    if "tma" in create.kinds and set(wanted) != set(groups):
        raise VerifyException(
            f"expected the peers to which the copies multicast, {_groups(wanted)}, got "
            f"{_groups(groups)}"
        )


def _groups(groups: Sequence[tuple[int, int]]) -> str:
    """Groups of CTAs as the atoms write them: `2:1`."""
    return ", ".join(f"{extent}:{step}" for extent, step in groups) or "none"


def _copies(create: CreateOp) -> list[CopyOp]:
    """The copies that signal the ring."""
    return [
        use.operation
        for barrier in _verbs(create, BarrierOp)
        for use in barrier.results[0].uses
        if isinstance(use.operation, CopyOp)
    ]


def _verify_rounds(create: CreateOp) -> None:
    """Each round from an acquire to its commit fills a stage in the ways of the ring, and brings
    the bytes that its barrier waits for.

    A tile that several CTAs load in parts comes whole to each of them.
    """
    counted: set[Operation] = set()
    for acquire in _verbs(create, ProducerAcquireOp):
        signaling: list[CopyOp] = []
        for copy in _copies_after(acquire, create):
            if isinstance(copy.atom, SimtAsyncCopyType) and "cp_async" not in create.kinds:
                raise VerifyException(
                    f"expected a ring of a kind with cp_async, as one of its copies is, got "
                    f"'{create.kind.data}'"
                )
            if _signals(copy.barrier, create):
                signaling.append(copy)
        counted.update(signaling)
        ctas = 2 if create.is_paired else 1
        expected = ctas * sum(_tile_bytes(copy) for copy in signaling)
        requests = sum(_asks(op, create) for op in _round(acquire, create))
        expected += _RESPONSE * requests
        got = 0 if create.bytes is None else create.bytes.value.data
        if expected != got:
            raise VerifyException(
                f"expected {expected} bytes for each stage, as {len(signaling)} copies by TMA "
                f"{f'and {requests} requests ' if requests else ''}bring, got {got}"
            )
    if any(copy not in counted for copy in _copies(create)):
        raise VerifyException(
            "expected every copy that signals the ring between an acquire and its commit, got one "
            "elsewhere"
        )


def _copies_after(acquire: Operation, create: CreateOp) -> list[CopyOp]:
    """The copies between an acquire and its commit."""
    around = _round(acquire, create)
    return [each for op in around for each in ops_of(op, CopyOp) if is_whole(each)]


def _round(acquire: Operation, create: CreateOp) -> list[Operation]:
    """The ops between an acquire and its commit."""
    found: list[Operation] = []
    op = acquire.next_op
    while op is not None and not (isinstance(op, ProducerCommitOp) and op.ring is create.ring):
        found.append(op)
        op = op.next_op
    return found


def _asks(op: Operation, create: CreateOp) -> bool:
    """Whether an op lets a response come to a stage."""
    return isinstance(op, RequestOp) and _signals(op.barrier, create)


def _signals(barrier: SSAValue | None, create: CreateOp) -> bool:
    return (
        barrier is not None
        and isinstance(barrier.owner, BarrierOp)
        and barrier.owner.ring is create.ring
    )


def _tile_bytes(copy: CopyOp) -> int:
    """Bytes of a tile in shared memory; a copy to anything else is refused where it stands."""
    type_ = copy.destination.type
    if not isinstance(type_, MemRefType) or not all(isinstance(e, int) for e in type_.shape):
        return 0
    return prod(type_.shape) * type_.bits // 8
