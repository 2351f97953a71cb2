"""The compile-time parameters of the attention program that a schedule leaves open: the policy of
the maximum, what adds up exponentials, and with which keys tiles begin.
"""

from __future__ import annotations

from cutedialect.allocation import RoleUse, computing_registers, registers_of_roles
from cutedialect.atoms import target, usual_device
from cutedialect.choices import Maxima
from cutedialect.schedule import SHARES, Schedule

from .attention_problem import GROUP_ROWS, PRICE, SPAN, WIDE, AttentionProblem

# Keys that a multiply takes at once.
_UNIT_KEYS = 16


def beside(narrow: int, groups: int, ctas: int = 1) -> tuple[int, int]:
    """Registers of a thread that loads, and of one of the warpgroups that multiply beside it."""
    return narrow, computing_registers(narrow, groups, ctas=ctas)


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
        has_more = problem.is_capped or (problem.group != 1 and problem.keeps_more)
        return widest // 2 + keys + (PRICE.beside_turns_more if has_more else PRICE.beside_turns)
    beside = PRICE.beside_block_more if problem.keeps_more else PRICE.beside_block
    return problem.dims[1] // 2 + keys + widest // 16 + beside


def maxima(problem: AttentionProblem, chosen: Schedule) -> Maxima:
    """How a kernel keeps the score that a row's exponentials count from."""
    if chosen.maxima is not None:
        return chosen.maxima
    return "guessed" if guesses(problem, chosen) else maxima_found(problem, chosen)


def maxima_found(problem: AttentionProblem, chosen: Schedule) -> Maxima:
    """The same where the largest score of each block is looked for. It pays to ask in each trip if
    what was added up has to be scaled where rows see many blocks of keys (their largest scores grow
    in the first few), and warpgroups multiply meanwhile, or results are wide. Where another role
    scales it pays of few blocks, too: rows decide by themselves, in fewer registers.
    """
    if problem.has_window or problem.is_packed:
        return "exact"
    is_apart = chosen.plan.corrects is not None
    is_rare = problem.has_many_keys and (
        chosen.overlaps_multiplies or problem.widest > WIDE or is_apart
    )
    return "lazy" if is_rare or (is_apart and problem.widest <= 2 * SPAN) else "exact"


def guesses(problem: AttentionProblem, chosen: Schedule) -> bool:
    """Whether it pays to count exponentials from the largest score of the blocks before and to look
    for a larger one only where they add up to too much: where warpgroups multiply meanwhile, and
    registers hold the scores until that is known, beside what is made of them.
    """
    widest = problem.widest
    is_plain = problem.is_plain and not problem.is_paged and chosen.overlaps_multiplies
    is_crowded = (widest > 128 and problem.keeps_more) or (problem.has_window and problem.is_sliced)
    most = WIDE if problem.is_uneven else PRICE.widest_unmasked
    if not is_plain or is_crowded or widest > most:
        return False
    return held_registers(problem, chosen.merged(Schedule(unroll=1))) <= registers_of(chosen)


def takes_turns(problem: AttentionProblem, chosen: Schedule) -> bool:
    """Whether a loop of two blocks of keys pays, of which each has registers for its exponentials:
    where rows see many of them, and registers suffice for both.
    """
    # Problems of one wave have no loops of two: there would be more kinds of kernels.
    if maxima(problem, chosen) != "guessed" or chosen.scheduler == "single":
        return False
    is_short_window = problem.has_window and (problem.sees or 0) < PRICE.long_window
    least, most = PRICE.turns_dims[problem.is_f16]
    if not problem.has_many_keys or is_short_window or not least <= problem.widest <= most:
        return False
    return held_registers(problem, chosen.merged(Schedule(unroll=2))) <= registers_of(chosen)


def summed_by(problem: AttentionProblem, chosen: Schedule) -> str:
    """What adds up a row's rounded exponentials: the "multiply" by V, where one span of a swizzle
    holds the columns of V and more of them in a multiply of warpgroups cost less than the
    arithmetic, or else "registers". These add up "unrounded" ones where the target adds f32 in
    pairs, and exponentials are at most 2^8: taking rounded ones apart would be half of the sum.
    """
    if target(problem.arch).pairs_f32 and maxima(problem, chosen) == "lazy":
        return "unrounded"
    columns = problem.dims[1]
    is_plain = problem.is_plain and not problem.is_latent
    if not (problem.on_groups and is_plain and columns <= SPAN and _multiplies_groups(chosen)):
        return "registers"
    # What ptxas gives all threads at first has to hold what one instruction takes, and three
    # warpgroups have no registers for more beside places in a slice, or addresses of results.
    is_tight = (chosen.ctas or 1) > PRICE.most_ctas and columns == SPAN
    if chosen.tile is not None and chosen.tile[0] == 3 * GROUP_ROWS:
        is_tight |= problem.is_sliced or not problem.stores_boxes
    is_rounded = maxima(problem, chosen) != "exact"
    return "multiply" if is_rounded and not is_tight and not problem.sums_few else "registers"


def _multiplies_groups(chosen: Schedule) -> bool:
    """Whether warpgroups multiply whole rows of a tile."""
    rows, block = chosen.tile or (GROUP_ROWS, _UNIT_KEYS)
    groups = chosen.warps is None or (chosen.warps[0] % 4 == 0 and chosen.warps[1] == 1)
    is_open = chosen.atom is None and chosen.may_specialize
    return groups and is_open and rows % GROUP_ROWS == 0 and block % _UNIT_KEYS == 0


def packed(problem: AttentionProblem, chosen: Schedule) -> tuple[int, int]:
    """How many elements of a thread the sums of rounded exponentials add in 16 bits, and how many
    those of a block that a mask cuts, whose rows may see few keys. They add these in f32 alone
    where such blocks have a loop of their own, so that no other block asks which it is. Rows of
    f16 that return logarithms have no registers for that beside both sums.
    """
    most = next((each for widest, each in PRICE.packed_sums.items() if problem.widest <= widest), 1)
    if chosen.tile is not None and chosen.tile[0] <= PRICE.few_rows:
        most = min(most, PRICE.packed_in_windows if problem.has_window else 1)
    if problem.is_f16 or (problem.widest > SPAN and not problem.is_uneven):
        most = min(most, PRICE.less_packed)
    is_split = problem.on_groups and chosen.split_loops != "no" and not problem.has_window
    return most, 1 if is_split and not (problem.is_f16 and problem.returns_lse) else most


def meets_at(problem: AttentionProblem, chosen: Schedule) -> int:
    """With which blocks the tiles of a window begin: with multiples of this, 0 for the first one
    that they see. Those that are computed at a time then read the same keys first: a window's tiles
    have few blocks each, which those beside them read too.
    """
    rows = chosen.tile[0] if chosen.tile else 0
    pays = problem.has_window and problem.widest <= 128 and problem.is_plain
    # Pages, or sequences and shared heads together, leave too few registers.
    is_crowded = problem.is_paged or (problem.is_packed and problem.group != 1)
    is_claimed = chosen.scheduler == "dynamic" and rows == 2 * GROUP_ROWS
    return PRICE.meeting_blocks if pays and is_claimed and not is_crowded else 0


# Exponentials and results of other instructions of a multiprocessor of these targets in a cycle, by
# CUDA's table of throughputs (10.3 has twice the exponentials: those are no bound).
_RATED, _EXPONENTIALS, _ISSUE = ("sm_100a", "sm_100f"), 16, 128
# Instructions for a score beside its exponential: scale and subtract, find the largest, add up,
# round (two at once), and a part of what rows and tiles take. Of a polynomial beside its degree:
# two for the range, three to round, two for the power of two, less the exponential's own.
_BESIDE_SCORE, _BESIDE_DEGREE = 5.5, 6
# The exponentials of a tile wait for its scores, so that their unit is idle now and then.
_BUSY = 0.75


def polynomials(problem: AttentionProblem) -> tuple[int, int] | None:
    """How many exponentials are polynomials (share, degree); None where the tensor cores take
    longer, or nothing is known of the target. The fewest pairs with which neither the unit for
    special functions nor the others take longer than they have to.
    """
    if problem.arch not in _RATED:
        return None
    # Errors below the rounding of what is multiplied by V; logarithms keep those of f32.
    degree = 5 if problem.returns_lse else 4 if problem.is_f16 else 3
    multiplies = usual_device(problem.arch).multiplies
    tensor = sum(problem.dims) * problem.bits_q / 16 / multiplies

    def time(share: int) -> float:
        """Cycles for a score: those of the unit that takes longest."""
        part = share / SHARES
        special = (1 - part) / _EXPONENTIALS / _BUSY
        return max(tensor, special, (_BESIDE_SCORE + part * (degree + _BESIDE_DEGREE)) / _ISSUE)

    share = min(range(0, SHARES + 1, 2), key=time)
    return (share, degree) if share else None


def open_parameters(problem: AttentionProblem, chosen: Schedule) -> dict[str, object]:
    """What the space fills of the program's parameters, by name."""
    return {
        "tile": chosen.tile,
        "maxima": maxima(problem, chosen),
        "meets_at": meets_at(problem, chosen),
        "sums": summed_by(problem, chosen),
        "packed": packed(problem, chosen),
    }
