"""The compile-time parameters of the attention program that a schedule leaves open: the policy of
the maximum, what adds up exponentials, and with which keys tiles begin; and what of a schedule rows
ask that tell them.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from cutedialect.allocation import RoleUse, registers_of_roles
from cutedialect.choices import Maxima
from cutedialect.schedule import Schedule

from .attention_problem import GROUP_ROWS, PRICE, RULES, AttentionProblem
from .need import extents, values_of_thread
from .rules import Fact


def registers(problem: AttentionProblem, chosen: Schedule, trips: int) -> tuple[float, float]:
    """The registers of a thread of a warpgroup, which has half of a row: for accumulators, scores
    and what is beside them while the exponentials of a block wait, or of blocks of several trips
    that take turns; and how many a thread has, none where it is not known who multiplies.
    """
    rows, keys = extents(chosen)
    beside = RULES.beside.first(problem, trips=trips)
    # Operands of one block wait in registers, of two that take turns in accumulators.
    operands, sums = (0, problem.widest) if trips > 1 else (problem.widest // 16, problem.columns)
    held = values_of_thread((rows, keys), threads=2 * rows, sums=sums, scores=2) + beside + operands
    if chosen.registers is not None:
        return held, chosen.registers[1]
    groups = -(-rows // GROUP_ROWS)
    pair = registers_of_roles(RoleUse(computing=groups, multiplies=2))
    return held, min(PRICE.most_registers, pair[1]) if pair and groups <= PRICE.most_groups else 0


def facts_of(problem: AttentionProblem) -> dict[str, object]:
    """What rows ask of the schedule that is the fact `whole`: the registers that are left over by
    blocks of keys one after the other, and by two that take turns.
    """

    def spare(trips: int, fact: Fact) -> float:
        held, room = registers(problem, fact("whole"), trips)
        return room - held

    return {"spare_of_one": partial(spare, 1), "spare_of_two": partial(spare, 2)}


def maxima(problem: AttentionProblem, chosen: Schedule) -> Maxima:
    """How a kernel keeps the score that a row's exponentials count from."""
    return RULES.maxima.first(problem, whole=chosen, **facts_of(problem))


def takes_turns(problem: AttentionProblem, chosen: Schedule) -> bool:
    """Whether a loop of two blocks of keys pays, of which each has registers for its exponentials:
    where rows see many of them, and registers suffice for both.
    """
    return RULES.turns.first(problem, whole=chosen, **facts_of(problem))


def open_parameters(problem: AttentionProblem, chosen: Schedule) -> dict[str, object]:
    """What the space fills of the program's parameters, by name."""
    (rows, keys), warps = extents(chosen), chosen.warps or (4, 1)
    facts = facts_of(problem) | {
        "whole": chosen,
        "rows_of_tile": rows,
        # Whether warpgroups have whole rows of a tile, whose keys they multiply by 16.
        "is_even": (rows % GROUP_ROWS, keys % 16, warps[0] % 4, warps[1]) == (0, 0, 0, 1),
    }
    names = "maxima", "meets_at", "sums", "packed"
    told: dict[str, Any] = {name: getattr(RULES, name).first(problem, **facts) for name in names}
    # Those of a block that a mask cuts are others.
    most, adds_alone = told["packed"], RULES.adds_alone.first(problem, **facts)
    return {"tile": chosen.tile, **told, "packed": (most, 1 if adds_alone else most)}
