"""Exchanges of layouts through shared memory, by role: a step of `cute-assign-warp-roles`.

    barrier; copy x, s; barrier; copy s, y

`cute-partition` lets exchanges of one type share a buffer, which is right as long as the same
threads do all of them. Here each exchange first gets a buffer of its own, so that it binds no more
than what goes through it, and when roles are given the exchanges of each role share one again. The
barriers of an exchange are those of the role that does it.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutedialect.dialects.cute import AllocSmemOp, BarrierOp, CopyOp, KernelOp
from cutedialect.dialects.walks import ops_behind
from cutedialect.passes.analysis.role_plan import give, role_of
from cutedialect.passes.anchors import anchored
from cutedialect.passes.rewriting import erase


@dataclass(frozen=True)
class Exchange:
    """The copies into a buffer and out of it, the barriers in front of each, and the buffer that
    the exchange has shared with others.
    """

    into: CopyOp
    out: CopyOp
    barriers: list[BarrierOp]
    shared: AllocSmemOp


@anchored(marks=("scratch",), otherwise=list)
def part_exchanges(kernel: KernelOp) -> list[Exchange]:
    """Give each exchange a buffer of its own."""
    found: list[Exchange] = []
    allocs = [op for op in kernel.body.block.ops if isinstance(op, AllocSmemOp)]
    for alloc in [each for each in allocs if "scratch" in each.attributes]:
        users = [use.operation for use in alloc.result.uses]
        copies = [op for op in users if isinstance(op, CopyOp) and op.destination is alloc.result]
        found += [each for into in copies if (each := _exchange(alloc, into)) is not None]
    for exchange in found:
        own = exchange.shared.clone()
        own.location = exchange.shared.location
        kernel.body.block.insert_op_after(own, exchange.shared)
        _move(exchange, own)
    return found


def join_exchanges(exchanges: list[Exchange]) -> None:
    """Let the role that does an exchange meet for it, and the exchanges of a role share the buffer
    that they shared before.
    """
    owners: dict[tuple[AllocSmemOp, str | None], AllocSmemOp] = {}
    firsts: set[AllocSmemOp] = set()
    for exchange in exchanges:
        own, role = exchange.into.destination.owner, role_of(exchange.into)
        assert isinstance(own, AllocSmemOp)
        if role is not None:
            give(role, *exchange.barriers)
        kept = owners.get((exchange.shared, role))
        if kept is None:
            # The first role keeps the one that all have shared.
            kept = own if exchange.shared in firsts else exchange.shared
            firsts.add(exchange.shared)
            owners[exchange.shared, role] = kept
        if kept is not own:
            _move(exchange, kept)
            erase(own)


def _exchange(alloc: AllocSmemOp, into: CopyOp) -> Exchange | None:
    """The exchange that a copy into a buffer begins."""
    barriers = [into.prev_op] if isinstance(into.prev_op, BarrierOp) else []
    for op in ops_behind(into):
        if isinstance(op, BarrierOp):
            barriers.append(op)
        if isinstance(op, CopyOp) and op.source is alloc.result:
            return Exchange(into, op, barriers, alloc)
    return None


def _move(exchange: Exchange, buffer: AllocSmemOp) -> None:
    """Let an exchange go through another buffer."""
    exchange.into.operands[1] = buffer.result
    exchange.out.operands[0] = buffer.result
