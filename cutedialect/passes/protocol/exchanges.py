"""What CTAs of a cluster send each other: CTAs run one program, so that what this one sends the
others send it, in the same round.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from xdsl.ir import Operation

from cutedialect.dialects import pipeline

from . import findings
from .clocks import Clock, Team, joined, with_time
from .nodes import Event, Skeleton
from .steps import Step

if TYPE_CHECKING:
    from .machine import Machine


@dataclass
class Exchange:
    """A round of an exchange: the bytes that its barrier expects and that came, what they and those
    who tell pass on, and how many rounds were told.
    """

    expected: int = 0
    came: int = 0
    sent: Clock = 0
    told: Clock = 0
    tells: int = 0


IN_A_ROOM = (pipeline.ExchangeSendOp, pipeline.ExchangeWaitOp, pipeline.ExchangeLoadOp)
"""Accesses to the room of an exchange: of this CTA, and of others, which a wait ends."""
EXCHANGES = (
    pipeline.ExchangeExpectOp,
    pipeline.ExchangeSendOp,
    pipeline.ExchangeWaitOp,
    pipeline.ExchangeTellOp,
)
"""Steps whose event says which exchange they are of."""


def is_in_own_room(op: Operation) -> bool:
    """Whether a step of an exchange tells of an access to the room of the CTA that does it. Where
    one alone has a room, its wait stands for what the others send it.
    """
    steps = op.parent_op()
    is_ranked = isinstance(steps, pipeline.StepsOp) and steps.otherwise is not None
    if isinstance(op, pipeline.ExchangeWaitOp):
        return is_ranked and op.side.data == "full"
    return isinstance(op, pipeline.ExchangeLoadOp) or not is_ranked


def note_step(event: Event, op: Operation, exchange: int, skeleton: Skeleton) -> None:
    """Fill in what a step of an exchange says of it."""
    event.exchange = exchange
    match op:
        case pipeline.ExchangeExpectOp():
            event.count = op.bytes.value.data
        case pipeline.ExchangeSendOp():
            event.count = skeleton.sends[exchange] = op.bytes.value.data
            # The others tell this CTA later that they have read it.
            made = op.exchange.owner
            assert isinstance(made, pipeline.ExchangeOp)
            event.is_read = made.readers.value.data > 0
        case pipeline.ExchangeWaitOp():
            event.is_read = op.side.data == "empty"
        case _:
            skeleton.tells.add(exchange)


def report_unmade(machine: Machine, event: Event, name: str) -> None:
    """Report a wait at a barrier that is not there yet."""
    machine.report(
        findings.STUCK,
        event,
        f"waits at a barrier of {name} that no thread has made: expected pipeline.start in front",
    )


def _exchange_of(machine: Machine, team: Team, event: Event) -> Exchange:
    key = event.exchange, team.role, team.instance, team.turn
    return machine.exchanges.setdefault(key, Exchange())


def expect_all(machine: Machine, team: Team, step: Step) -> bool:
    """Count the bytes of a round."""
    if not team.has_started:
        report_unmade(machine, step.event, "an exchange")
    team.step()
    _exchange_of(machine, team, step.event).expected += step.event.count
    return True


def send_all(machine: Machine, team: Team, step: Step) -> bool:
    """Send, when all have read what was sent before; as much comes."""
    event = step.event
    machine.reach_others(team, event)
    exchange, before = _exchange_of(machine, team, event), team.sent.get(event.exchange)
    if before is not None:
        machine.report(
            findings.UNORDERED,
            event,
            "sends to other CTAs while they may still read what came before: expected "
            "pipeline.exchange_drain in front",
            before,
        )
    _come(machine, team, step, exchange, event.count)
    if event.is_read:
        team.sent[event.exchange] = event
    return True


def _come(machine: Machine, team: Team, step: Step, exchange: Exchange, count: int) -> None:
    """So many bytes come to the room of this CTA."""
    machine.touch(team, step, True, team.column, team.step())
    exchange.came += count
    exchange.sent = joined(exchange.sent, team.published(), team.carries)


def await_all(machine: Machine, team: Team, step: Step) -> bool:
    """Wait until all has come, or is read."""
    event = step.event
    if not team.has_started:
        report_unmade(machine, event, "an exchange")
    exchange, sends = _exchange_of(machine, team, event), machine.skeleton.sends
    if event.is_read:
        is_told = event.exchange in machine.skeleton.tells
        if is_told:
            team.step()
            team.sent.pop(event.exchange, None)
        else:
            machine.blocked[team.column] = event
        return is_told
    # Where the others alone send, they do in this round.
    others = sends.get(event.exchange, 0) if event.touches else 0
    if not exchange.expected or not (exchange.came or others):
        machine.blocked[team.column] = event
        return False
    if others:
        _come(machine, team, step, exchange, others)
    if exchange.came != exchange.expected:
        machine.report(
            findings.BYTES,
            event,
            f"waits for {exchange.expected} bytes of other CTAs, which send {exchange.came}",
        )
    exchange.expected = exchange.came = 0
    team.step()
    team.learn_of_cluster(exchange.sent)
    return True


def tell(machine: Machine, team: Team, step: Step) -> bool:
    """Tell the others what all warps of the team know of each other: one of them tells it."""
    exchange = _exchange_of(machine, team, step.event)
    known, _ = team.met[0]
    team.step()
    exchange.told = joined(exchange.told, with_time(team.clock, team.column, known), team.carries)
    exchange.tells += 1
    return True


def leave(machine: Machine, team: Team, step: Step) -> bool:
    """Wait until the others have read what was sent, if something was."""
    event = step.event
    if event.exchange not in team.sent:
        return True
    exchange = _exchange_of(machine, team, event)
    if not exchange.tells:
        machine.blocked[team.column] = event
        return False
    exchange.tells -= 1
    del team.sent[event.exchange]
    team.step()
    team.learn_of_cluster(exchange.told)
    return True
