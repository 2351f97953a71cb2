"""The ends of rings: a place in a ring, and the verbs that hand its stages over. Before roles are
split, the verbs of a role stand around its ops and run where these do.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from xdsl.dialects.builtin import StringAttr
from xdsl.ir import Block, Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import pipeline
from cutedialect.dialects.cute import AllocSmemOp, AllocTmemOp, KernelOp, StageOp
from cutedialect.dialects.walks import walk
from cutedialect.passes.analysis.role_plan import ROLE, role_of
from cutedialect.passes.analysis.trips import order_of, set_place, stage_of
from cutedialect.passes.rewriting import _AllocT, insert_after, insert_before
from cutedialect.passes.roles.assign_warp_roles import Role


def insert_ring(kernel: KernelOp, ring: pipeline.CreateOp, like: Operation) -> pipeline.CreateOp:
    """Make a ring behind all buffers of a kernel, at the location of an op."""
    ring.location = like.location
    last = [op for op in kernel.body.block.ops if isinstance(op, AllocSmemOp | AllocTmemOp)][-1]
    insert_after(last, ring)
    return ring


def ring_between(
    kernel: KernelOp, ring: pipeline.CreateOp, like: Operation, producer: Role, consumer: Role
) -> tuple[RoleEnd, RoleEnd]:
    """Make a ring likewise, with the places in it of who fills it and who reads it."""
    insert_ring(kernel, ring, like)
    return RoleEnd.of(ring, "producer", producer), RoleEnd.of(ring, "consumer", consumer)


def role_among(roles: Sequence[Role], ops: Iterable[Operation], expected: str) -> Role:
    """The one role that has some ops, or those inside of them; an error where there are others,
    which says what was `expected`.
    """
    ops = list(ops)
    names = {name for op in ops for inner in walk(op) if (name := role_of(inner)) is not None}
    found = [role for role in roles if role.name in names]
    if len(names) != 1 or len(found) != 1:
        raise PassFailedException(ops[0], f"{expected}, got {', '.join(sorted(names))}")
    return found[0]


@dataclass
class RingEnd:
    """A place in a ring that is filled from it (`producer`) or read (`consumer`), and its verbs."""

    ring: pipeline.CreateOp
    state: pipeline.StateOp

    @staticmethod
    def at_start(block: Block, ring: pipeline.CreateOp, side: str) -> RingEnd:
        """A new place, at the start of a role's program."""
        end = RingEnd(ring, pipeline.StateOp(side, ring.ring))
        end.state.location = ring.location
        assert block.first_op is not None
        insert_before(block.first_op, end.state)
        return end

    @property
    def operands(self) -> tuple[SSAValue, SSAValue]:
        """What each verb takes."""
        return self.ring.ring, self.state.state

    def begins(self) -> list[Operation]:
        """Wait until a stage may be filled, or read."""
        fills = self.state.side.data == "producer"
        return [(pipeline.ProducerAcquireOp if fills else pipeline.ConsumerWaitOp)(*self.operands)]

    def ends(self, commits: bool = False) -> list[Operation]:
        """Hand the stage over and go on: a reader, by a commit behind multiplies that read it."""
        fills = self.state.side.data == "producer"
        verb = None if fills else pipeline.ConsumerReleaseOp(*self.operands, commits=commits)
        return [verb or pipeline.ProducerCommitOp(*self.operands), *self.goes_on()]

    def goes_on(self) -> list[Operation]:
        """Go on to the next stage."""
        return [pipeline.AdvanceOp(self.state.state)]

    def index(self) -> pipeline.IndexOp:
        """Which stage it is."""
        return pipeline.IndexOp(self.state.state)


@dataclass
class RoleEnd(RingEnd):
    """The place of a role, whose verbs stand around ops of it and run where these do."""

    role: Role

    @staticmethod
    def of(
        ring: pipeline.CreateOp, side: str, role: Role, behind: Operation | None = None
    ) -> RoleEnd:
        """A new place, made behind the ring or an op that follows it."""
        end = RoleEnd(ring, pipeline.StateOp(side, ring.ring), role)
        end._stand_like(end.state, ring)
        insert_after(behind or ring, end.state)
        return end

    def before(self, place: Operation, *ops: Operation, like: Operation | None = None) -> None:
        """Insert ops of the role in front of one; they run where that, or another one, does."""
        for op in ops:
            self._stand_like(op, like or place)
            op.location = place.location
        insert_before(place, *ops)

    def behind(self, place: Operation, *ops: Operation) -> None:
        """Insert ops of the role behind one."""
        for op in ops:
            self._stand_like(op, place)
        insert_after(place, *ops)

    def around(
        self,
        places: Sequence[Operation],
        before: Sequence[Operation],
        behind: Sequence[Operation],
        buffers: tuple[_AllocT, _AllocT] | None = None,
    ) -> None:
        """Insert verbs on either side of ops; these, and those inside of them, get a stage of the
        second of two buffers where they have used the first one.
        """
        self.before(places[0], *before)
        self.behind(places[-1], *behind)
        if buffers is not None:
            index = self.index()
            stage = StageOp(buffers[1].result, index.index)
            self.before(places[0], index, stage)
            inside = {inner for place in places for inner in walk(place)}
            buffers[0].result.replace_uses_with_if(
                stage.result, lambda use: use.operation in inside
            )

    def _stand_like(self, op: Operation, like: Operation) -> None:
        op.location = like.location
        op.attributes[ROLE] = StringAttr(self.role.name)
        order = order_of(like)
        if order is not None:
            set_place(op, stage_of(like), order)
