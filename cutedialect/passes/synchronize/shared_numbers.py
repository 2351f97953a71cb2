"""Numbers that one role knows and others need: a step of `cute-synchronize`, once roles are split.

    %b = share %a (main); if %b { ... }          %b = share (mma); if %b { ... }
    =>
    acquire; send %a to slots[i]; commit         wait; %x = receive slots[j]; release
    if %a { ... }                                if %x != 0 { ... }

Such a number is a condition computed from tiles, or the work item that a CTA has claimed. It goes
through a ring of slots in shared memory. A condition is told where it is known. Claims are told at
the end of an item's code: where one thread loads for the CTA, it claims before it loads, and behind
that tells the other roles through a ring of two slots, so that the next item is known before the
one at work is done. Where several threads load, each for a ring, the first of them claims when it
has loaded what an item begins with, and tells the other loading threads too.

An item that comes by canceling a launch arrives by itself, in all roles: the loading thread asks
when it begins an item, the response comes to a slot, and each role reads it at the end of the item.

    acquire; request slots[i] signal full[i]; commit; ...; wait; %x = response slots[j]; release
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

from xdsl.dialects import arith
from xdsl.dialects.builtin import IntegerAttr, i32
from xdsl.ir import Operation, SSAValue
from xdsl.utils.exceptions import PassFailedException

from cutedialect.dialects import cute, pipeline
from cutedialect.dialects.cute_nvgpu import ProxyFenceOp
from cutedialect.dialects.pipeline import BarrierOp as FullBarrierOp
from cutedialect.dialects.walks import ops_of
from cutedialect.layout import Layout
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import erase, insert_before
from cutedialect.passes.synchronize.ring_ends import RingEnd

# Of the one that tells a number, the others may be so many behind.
_SLOTS = 2
# Where a thread loads what an item begins with, the next one's is there while all others are at
# work on this one: it claims when they have begun, not earlier, so that the last items come to who
# is free.
_SLOTS_AHEAD = 1
# Of requests: the thread that loads begins an item while the tensor core is at work on the one
# before, and others store the one before that.
_REQUESTS = 3


class _Slots:
    """A ring through which one role tells others a number."""

    def __init__(
        self,
        kernel: cute.KernelOp,
        name: str,
        slots: int,
        teller: pipeline.RoleOp,
        told: Sequence[pipeline.RoleOp],
    ) -> None:
        consumers = sum(len(role.warp_range) for role in told)
        self.ring = pipeline.CreateOp("threads", slots, _arriving(teller), consumers)
        type_ = cute.MemRefType.get(i32, "smem", 8, Layout((slots,), (1,)))
        self.memory = _insert(kernel, self.ring, type_, name)
        self._ends = {teller: RingEnd.at_start(teller.body.block, self.ring, "producer")}
        for role in told:
            self._ends[role] = RingEnd.at_start(role.body.block, self.ring, "consumer")

    def send(self, role: pipeline.RoleOp, value: SSAValue, place: Operation) -> Operation:
        """Tell a number in front of an op; returns where a slot is free."""
        end = self._ends[role]
        index = end.index()
        sent = pipeline.SendOp(value, self.memory.result, index.index)
        insert_before(place, *end.begins(), index, sent, *end.ends())
        return index

    def receive(self, role: pipeline.RoleOp, place: Operation) -> SSAValue:
        """The number that is told, in front of an op."""
        end = self._ends[role]
        index = end.index()
        number = pipeline.ReceiveOp(self.memory.result, index.index)
        insert_before(place, *end.begins(), index, number, *end.ends())
        return number.result


@anchored(cute.ShareOp, cute.ClaimOp, cute.CancelLaunchOp)
def share_numbers(kernel: cute.KernelOp) -> None:
    """Bring conditions and claims to the roles that take them."""
    _share_conditions(kernel)
    _share_claims(kernel)
    _share_responses(kernel)


_Asking = TypeVar("_Asking", cute.ClaimOp, cute.CancelLaunchOp)


def _roles(kernel: cute.KernelOp) -> list[pipeline.RoleOp]:
    return [op for op in kernel.body.block.ops if isinstance(op, pipeline.RoleOp)]


def _share_conditions(kernel: cute.KernelOp) -> None:
    parts = {role.role.data: role for role in _roles(kernel)}
    shares: dict[int, list[tuple[pipeline.RoleOp, cute.ShareOp]]] = {}
    for role in parts.values():
        for op in ops_of(role, cute.ShareOp):
            shares.setdefault(op.number.value.data, []).append((role, op))
    for number in sorted(shares):
        op = shares[number][0][1]
        teller, told = parts[op.makes], [parts[each] for each in op.takes]
        slots = _Slots(kernel, "condition", _SLOTS, teller, told)
        for role, op in shares[number]:
            if op.value is not None:
                told_as = arith.ExtUIOp(op.value, i32)
                insert_before(op, told_as)
                slots.send(role, told_as.result, op)
                known = op.value
            else:
                received = slots.receive(role, op)
                zero = arith.ConstantOp(IntegerAttr(0, i32))
                holds = arith.CmpiOp(received, zero, "ne")
                insert_before(op, zero, holds)
                known = holds.result
            op.result.replace_all_uses_with(known)
            erase(op)


def _share_claims(kernel: cute.KernelOp) -> None:
    """Let the first role whose one thread loads claim for the others, which each have the loop."""
    roles = _roles(kernel)
    claims = [(role, op) for role in roles for op in ops_of(role, cute.ClaimOp)]
    if not claims:
        return
    loading = _of_loading_roles(roles, claims, "dynamic")
    teller, claim = loading[0]
    others = [each for each in claims if each[1] is not claim]
    alone = len(loading) == 1
    told = list(dict.fromkeys(role for role, _ in others))
    slots = _Slots(kernel, "claimed", _SLOTS if alone else _SLOTS_AHEAD, teller, told)
    free = slots.send(teller, claim.result, _last(claim))
    if not alone:
        claim.detach()
        insert_before(free, claim)
    for role, other in others:
        other.result.replace_all_uses_with(slots.receive(role, _last(other)))
        erase(other)


def _of_loading_roles(
    roles: Sequence[pipeline.RoleOp],
    asked: Sequence[tuple[pipeline.RoleOp, _Asking]],
    scheduler: str,
) -> list[tuple[pipeline.RoleOp, _Asking]]:
    """Of the ops that ask for work items those of roles of which one thread loads; an error where
    there is none, or several teams compute.
    """
    found = [each for each in asked if each[0].elect is not None]
    if not found or any(role.teams > 1 for role in roles):
        raise PassFailedException(
            asked[0][1],
            f"expected the scheduler {scheduler} for roles of which one thread loads every tile "
            "and one team computes, got others; take scheduler = persistent",
        )
    return found


def _share_responses(kernel: cute.KernelOp) -> None:
    """Let the first role of which one thread loads cancel launches, and all roles, which each have
    the loop, read what came of it.
    """
    roles = _roles(kernel)
    asked = [(role, op) for role in roles for op in ops_of(role, cute.CancelLaunchOp)]
    if not asked:
        return
    asker, request = _of_loading_roles(roles, asked, "cancel")[0]
    readers = list(dict.fromkeys(role for role, _ in asked))
    ctas = 1 if kernel.cluster is None else kernel.cluster.value.data
    consumers = sum(_arriving(role) * ctas // (1 if role.pair is None else 2) for role in readers)
    size = 4 * pipeline.RESPONSE_WORDS
    ring = pipeline.CreateOp("tma", _REQUESTS, 1, consumers, size, led=ctas > 1)
    layout = Layout((pipeline.RESPONSE_WORDS, _REQUESTS), (1, pipeline.RESPONSE_WORDS))
    type_ = cute.MemRefType.get(i32, "smem", size, layout)
    memory = _insert(kernel, ring, type_, "canceled")
    end = RingEnd.at_start(asker.body.block, ring, "producer")
    index, full = end.index(), FullBarrierOp(*end.operands)
    ask = pipeline.RequestOp(memory.result, index.index, full.barrier)
    insert_before(request, *end.begins(), full, index, ask, *end.ends())
    for role, op in asked:
        end = RingEnd.at_start(role.body.block, ring, "consumer")
        index = end.index()
        response = pipeline.ResponseOp(memory.result, index.index, op.total)
        # The next response is written by the async proxy (PTX ISA 9.7.13.17).
        fence = ProxyFenceOp()
        insert_before(_last(op), *end.begins(), index, response, fence, *end.ends())
        op.result.replace_all_uses_with(response.result)
        erase(op)


def _insert(
    kernel: cute.KernelOp, ring: pipeline.CreateOp, type_: cute.MemRefType, name: str
) -> cute.AllocSmemOp:
    """Make a ring of slots in shared memory."""
    memory = cute.AllocSmemOp(type_)
    memory.result.name_hint = name
    ring.location = memory.location = kernel.location
    first = kernel.body.block.first_op
    assert first is not None
    insert_before(first, memory)
    insert_before(_roles(kernel)[0], ring)
    return memory


def _arriving(role: pipeline.RoleOp) -> int:
    """How many threads of a role arrive at a barrier: one of each warp, or the one that acts."""
    return 1 if role.elect is not None else len(role.warp_range)


def _last(op: Operation) -> Operation:
    """The end of an op's block."""
    last = None if op.parent is None else op.parent.last_op
    assert last is not None
    return last
