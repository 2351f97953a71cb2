"""The compile-time parameters of the attention program that a schedule leaves open: the policy of
the maximum, what adds up exponentials, and with which keys tiles begin.
"""

from __future__ import annotations

from cutedialect.allocation import RoleUse, registers_of_roles
from cutedialect.atoms import target
from cutedialect.choices import Maxima
from cutedialect.schedule import Schedule

from .attention_problem import GROUP_ROWS, PRICE, RULES, AttentionProblem

# Keys that a multiply takes at once.
_UNIT_KEYS = 16


def registers_of(chosen: Schedule) -> int:
    """The registers of a thread that multiplies; none where it is not known who does."""
    assert chosen.tile is not None
    if chosen.registers is not None:
        return chosen.registers[1]
    groups = -(-chosen.tile[0] // GROUP_ROWS)
    pair = registers_of_roles(RoleUse(computing=groups, multiplies=2))
    return min(PRICE.most_registers, pair[1]) if pair and groups <= PRICE.most_groups else 0


def held_registers(problem: AttentionProblem, chosen: Schedule) -> int:
    """The registers of a thread of a warpgroup for accumulators, operands and what is beside them
    while the exponentials of a block wait.
    """
    assert chosen.tile is not None
    keys, widest = chosen.tile[1], problem.widest
    if (chosen.unroll or 1) > 1:
        has_more = problem.is_capped or (problem.shares and problem.keeps_more)
        return widest // 2 + keys + (PRICE.beside_turns_more if has_more else PRICE.beside_turns)
    beside = PRICE.beside_block_more if problem.keeps_more else PRICE.beside_block
    return problem.dims[1] // 2 + keys + widest // 16 + beside


def maxima(problem: AttentionProblem, chosen: Schedule) -> Maxima:
    """How a kernel keeps the score that a row's exponentials count from."""
    if chosen.maxima is not None:
        return chosen.maxima
    if guesses(problem, chosen):
        return "guessed"
    is_apart = chosen.plan.corrects is not None
    return RULES.maxima.first(problem, is_apart=is_apart, overlaps=chosen.overlaps_multiplies)


def guesses(problem: AttentionProblem, chosen: Schedule) -> bool:
    """Whether it pays to guess largest scores, and registers suffice beside what is made of the
    scores meanwhile.
    """
    if not RULES.may_guess.first(problem, overlaps=chosen.overlaps_multiplies):
        return False
    return held_registers(problem, chosen.merged(Schedule(unroll=1))) <= registers_of(chosen)


def takes_turns(problem: AttentionProblem, chosen: Schedule) -> bool:
    """Whether a loop of two blocks of keys pays, of which each has registers for its exponentials:
    where rows see many of them, and registers suffice for both.
    """
    way = maxima(problem, chosen)
    if not RULES.turns.first(problem, maxima=way, scheduler=chosen.scheduler):
        return False
    return held_registers(problem, chosen.merged(Schedule(unroll=2))) <= registers_of(chosen)


def open_parameters(problem: AttentionProblem, chosen: Schedule) -> dict[str, object]:
    """What the space fills of the program's parameters, by name."""
    rows, block = chosen.tile or (GROUP_ROWS, _UNIT_KEYS)
    # Whether warpgroups multiply whole rows of a tile.
    groups = chosen.warps is None or (chosen.warps[0] % 4 == 0 and chosen.warps[1] == 1)
    groups = groups and chosen.atom is None and chosen.may_specialize
    facts: dict[str, object] = {
        "rows_of_tile": chosen.tile and rows,
        "maxima": maxima(problem, chosen),
        "scheduler": chosen.scheduler,
        "ctas": chosen.ctas,
        "is_split": chosen.split_loops != "no",
        "pairs_f32": target(problem.arch).pairs_f32,
        "multiplies_groups": groups and rows % GROUP_ROWS == 0 and block % _UNIT_KEYS == 0,
    }
    most = RULES.packed.first(problem, **facts)
    return {
        "tile": chosen.tile,
        "maxima": facts["maxima"],
        "meets_at": RULES.meets_at.first(problem, **facts),
        "sums": RULES.sums.first(problem, **facts),
        # Those of a block that a mask cuts are others.
        "packed": (most, 1 if RULES.adds_alone.first(problem, **facts) else most),
    }
