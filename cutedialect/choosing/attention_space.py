"""The schedules from which attention chooses: candidates of rows and keys of a tile, by warps that
multiply alone, by warpgroups, or in tensor memory, and what goes with each of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutedialect.choices import Overlap, Scheduler
from cutedialect.schedule import Schedule

from .attention_pairs import pays
from .attention_parameters import (
    beside,
    guesses,
    held_registers,
    maxima_found,
    polynomials,
    registers_of,
    takes_turns,
)
from .attention_price import time_of
from .attention_problem import GROUP_ROWS, PRICE, SPAN, WIDE, AttentionProblem
from .need import Limits, Need
from .resident_attention import resident_schedule

# Rows that a warp multiplies at once, and the fewest keys of a block that are worth a loop.
_ROWS, _LEAST_KEYS = 16, 16
# Shared memory beside a tile of q and two stages of k and v, of 16-bit elements.
_BESIDE_BYTES = 4096
# Of other targets: warps that shift rows into place, the most that share a tile, and the columns of
# a multiply, of which each warp has as many as the others.
_SHIFTING_WARPS, _MOST_WARPS, _ATOM_COLUMNS = 4, 8, 8
# Lanes of tensor memory, keys of a block there, and the rows of a tile of each plan with a role
# that corrects what is accumulated there; columns of results that half of the lanes hold.
_LANES, _CORRECTED_KEYS, _CORRECTING = 128, 64, {"split": 256, "corrected": 128}
# The plan of two roles that share a tile with other registers for those that correct and compute,
# and the heads whose causal rows have registers for the longest blocks beside a mask.
_SPLIT_OF = (
    "(load 1 @24: loads; mma 1 @24: tensor_multiplies; epilogue 1 @24: stores; "
    "empty 1 @24: nothing; correction 4 @{}: corrects; main 2/* @{}: rest)"
)
_MASKED_DIMS = ((64, 64), (128, 128))
# Registers of a thread that corrects, and of one that computes, masked rows of so many columns.
_MASKED_REGISTERS = {160: (144, 168), 192: (136, 176)}
# Keys of a block of wide heads of which shared memory holds two stages beside little more: numbers
# of rows and mbarriers.
_LONGER_KEYS, _BESIDE_LONGER_BYTES = 80, 3072
# What columns of results of CTA pairs are a multiple of; keys of their blocks, by the halves of a
# tile, and the most beside a mask: those of which products take longer than what they read.
_PAIRED_COLUMNS = 32
_PAIRED_KEYS, _MOST_MASKED_KEYS = {2: (128, 96, 64), 1: (96,)}, 96
# Elements whose exponentials tensor memory holds in the place of scores.
_WIDE_BLOCK_BITS = 16
_HALF_COLUMNS = 224
# Shared memory beside tiles of wide heads, and bytes of a vector.
_WIDE_BYTES, _VECTOR_BYTES = 2048, 16
# What lacked registers has given way so often.
_MOST_STEPS = 8


class AttentionSpace:
    """The schedules of one attention; its program's tile, policy of the maximum and sums follow
    (`attention_parameters.py`).
    """

    name = "attention"

    def ranked(
        self, problem: AttentionProblem, given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The schedules with the fields of `given`: that of the least time, then those that leave
        threads more registers, one step after the other.
        """
        given, before = given or Schedule(), None
        for schedule in (
            (given,) if given.is_complete and given.tile else _candidates(problem, given)
        ):
            if schedule == before or self.need(problem, schedule).smem >= limits.smem:
                continue
            before = schedule
            if schedule.polynomials is None:
                schedule = schedule.merged(Schedule(polynomials=polynomials(problem)))
            yield schedule

    def need(self, problem: AttentionProblem, schedule: Schedule) -> Need:
        """Registers of threads of warpgroups, and bytes of two stages."""
        assert schedule.tile is not None
        rows, keys = schedule.tile
        if problem.target.tmem_columns and (schedule.cluster or (1, 1))[0] % 2 == 0:
            keys //= 2
        smem = _tile_bytes(problem, rows, keys, schedule.stages or 2)
        if not problem.on_groups or problem.widest > WIDE:
            return Need(smem=smem)
        held, room = held_registers(problem, schedule), registers_of(schedule)
        return Need(held, room, smem)


ATTENTION = AttentionSpace()


def tile_columns(depth: int, bits: int, on_groups: bool) -> int:
    """The columns of a tile for a head dimension, a multiple of what a multiply takes: boxes of 64
    columns of 16 bits, which warpgroups load, come faster than those of 48, zeros included.
    """
    unit = 256 // bits
    columns = -(-depth // unit) * unit
    return SPAN if on_groups and bits == 16 and SPAN // 2 < columns < SPAN else columns


def _candidates(problem: AttentionProblem, given: Schedule) -> Iterator[Schedule]:
    """Two blocks of keys that take turns where that pays, then loops of one."""
    # Nothing gives way to what is given of registers.
    is_open = _leaves(given, "tile", "warps", "registers", "ctas") and given.unroll != 1
    if problem.on_groups and is_open:
        turns = next(_loops_of_one(problem, given, in_turns=True))
        if takes_turns(problem, turns):
            yield turns.merged(Schedule(unroll=2)).merged(given)
    yield from _loops_of_one(problem, given)


def _loops_of_one(
    problem: AttentionProblem, given: Schedule, in_turns: bool = False
) -> Iterator[Schedule]:
    """The schedules of loops of one block: CTAs that share a processor, then tiles of fewer and
    fewer keys.
    """
    if problem.widest > WIDE:
        registers = _shifting_registers(problem, given) if problem.on_groups else None
        for step in range(_MOST_STEPS):
            yield _wide(problem, step).merged(Schedule(registers=registers)).merged(given)
        return
    if _may_share_processor(problem, given):
        resident = resident_schedule(problem, problem.is_over_after(PRICE.soon_seconds))
        if resident is not None:
            yield resident.merged(_order(problem, 2 * GROUP_ROWS)).merged(given)
    narrow = list(_of_narrow_caches(problem, given))
    yield from narrow
    corrected = _corrected(problem, given)
    yield from (schedule.merged(given) for schedule in corrected)
    for step in range(bool(corrected), _MOST_STEPS):
        choice = _on_groups if problem.on_groups else _on_warps
        schedule = choice(problem, given, step, in_turns)
        if not narrow or _keys_of(schedule) <= _keys_of(narrow[-1]):
            yield schedule


def _of_narrow_caches(problem: AttentionProblem, given: Schedule) -> Iterator[Schedule]:
    """What is fastest of all that was timed for keys that threads convert, by the rows that see
    them: few rows leave most of a warpgroup's multiply empty, and more warps convert beside small
    ones; many rows share what is converted once for all.
    """
    is_open = _leaves(given, "tile", "warps", "roles", "atom", "ctas", "registers", "overlap")
    is_odd = problem.is_shifted or problem.is_padded or not problem.loads_boxes
    if not (problem.on_groups and problem.is_mixed and is_open) or is_odd:
        return
    kind = "integers" if problem.is_integer else "floats"
    rows = PRICE.many_rows if problem.rows is None else problem.rows
    for of, (least, most), (narrowest, widest), scales_keys, words in PRICE.narrow_caches:
        is_kind = of == kind and scales_keys in (None, problem.scales_keys)
        if is_kind and least <= rows <= most and narrowest <= problem.widest <= widest:
            # As where these fields are given: the others follow from them.
            yield _on_groups(problem, Schedule.parse(words).merged(given), 0, in_turns=False)


def _keys_of(schedule: Schedule) -> int:
    """Keys of a block."""
    assert schedule.tile is not None
    return schedule.tile[1]


def _leaves(given: Schedule, *names: str) -> bool:
    """Whether fields are left open."""
    return all(getattr(given, name) is None for name in names)


# -- Warps that multiply alone


def _on_warps(problem: AttentionProblem, given: Schedule, step: int, _: bool) -> Schedule:
    """Tiles of 16 to 128 rows and as many keys as shared memory holds."""
    keys = _fewer_keys(problem, 64 if problem.widest <= 128 else 32, step)
    while keys > _LEAST_KEYS and not _fits(problem, _ROWS, keys):
        keys //= 2
    rows = _rows(problem, keys)
    if problem.target.tmem_columns and given.plan.taking("tensor_multiplies"):
        # Scores in tensor memory have all of its lanes for each role that computes.
        rows = _LANES * given.plan.parts
    is_open = _leaves(given, "tile", "warps", "roles")
    warps = _sharing_warps(problem, rows, keys, step) if is_open else None
    return Schedule(tile=(rows, keys), warps=warps).merged(_order(problem, rows)).merged(given)


def _sharing_warps(
    problem: AttentionProblem, rows: int, keys: int, step: int
) -> tuple[int, int] | None:
    """The warps of a tile where several share its rows by columns, twice as many with each step;
    None where each has its own. Threads that shift rows into place hold many elements of a block,
    and 16 rows of a result in one warp leave no registers for these.
    """
    atoms = rows // _ROWS
    columns = max(1, _SHIFTING_WARPS // atoms) if problem.is_shifted else 1
    columns = min(columns << step, max(1, _MOST_WARPS // atoms))
    while columns > 1 and any(each % (columns * _ATOM_COLUMNS) for each in (keys, problem.dims[1])):
        columns //= 2
    return (atoms, columns) if columns > 1 else None


def _corrected(problem: AttentionProblem, given: Schedule) -> list[Schedule]:
    """The plans that keep the output in tensor memory, where a role of its own rescales it: tiles
    of 256 rows, of which two roles compute half each, else of 128; the longest blocks of keys
    first. None without tensor memory, for few rows, where threads load or convert operands, and
    where tiles, warps or roles are given.
    """
    tmem, rows = problem.target.tmem_columns, problem.rows or PRICE.many_rows
    is_open = _leaves(given, "tile", "warps", "roles", "atom") and problem.loads_boxes
    # Half of the lanes hold few rows, of which registers hold results of so many columns at most.
    few = _LANES // 2 if problem.dims[1] <= _HALF_COLUMNS else _ROWS
    if not tmem or not is_open or problem.bits != problem.bits_q or rows <= few:
        return []
    for roles, height in _CORRECTING.items():
        halves = height // _LANES
        # Half of the processors would have nothing to do, or half of the roles.
        is_idle = halves > 1 and (rows <= _LANES or problem.fills_one_wave(_LANES))
        blocks = _corrected_blocks(problem, given, halves)
        if is_idle or _CORRECTED_KEYS not in [keys for keys, _ in blocks]:
            continue
        # Whoever is done with a short tile takes over the longest that has not begun.
        waits = problem.is_uneven and not problem.fills_one_wave(height)
        scheduler = "cancel" if waits else None
        order = _order(problem, height)
        return [
            Schedule(
                tile=(height, keys),
                warps=(4, 1),
                cluster=(2, 1) if ctas == 2 else None,
                roles=_roles_of(problem, roles, halves, keys),
                scheduler=scheduler,
                # Stages of longer blocks leave no shared memory for results.
                epilogue="direct" if keys == _LONGER_KEYS else None,
            ).merged(order)
            for keys, ctas in blocks
        ]
    return []


def _roles_of(problem: AttentionProblem, roles: str, halves: int, keys: int) -> str:
    """The plan, with other registers for masked rows and for narrow results: more for those that
    compute many keys, and more for the role that corrects wide ones.
    """
    if halves == 1:
        return roles
    is_masked = problem.is_uneven and problem.dims in _MASKED_DIMS
    if keys == 2 * _CORRECTED_KEYS and (is_masked or problem.dims[1] < SPAN):
        return _SPLIT_OF.format(88, 200)
    registers = _MASKED_REGISTERS.get(problem.dims[1]) if problem.is_uneven else None
    return _SPLIT_OF.format(*registers) if registers else roles


def _takes_longer_blocks(problem: AttentionProblem, given: Schedule) -> bool:
    """Whether blocks of wide heads have more keys, for each of which the rows are read less often:
    shared memory is what bounds these. Masks beside shared heads take too many registers, and
    pages have a power of two of keys.
    """
    is_open = _leaves(given, "epilogue", "stages", "ring_stages")
    is_open &= given.cluster in (None, (1, 1))
    is_cut = problem.has_window or problem.is_packed or problem.is_paged
    is_masked = problem.is_uneven and problem.group > 1
    is_wide = problem.widest > _HALF_COLUMNS and problem.bits_q == _WIDE_BLOCK_BITS
    fits = (
        _tile_bytes(problem, _LANES, _LONGER_KEYS, stages=2)
        <= problem.target.smem_per_cta - _BESIDE_LONGER_BYTES
    )
    return is_open and is_wide and fits and problem.has_many_keys and not (is_cut or is_masked)


def _corrected_blocks(
    problem: AttentionProblem, given: Schedule, halves: int
) -> list[tuple[int, int]]:
    """(keys of a block, CTAs that multiply it together) of these plans, the best first: of pairs
    where these take less time, or longer ones where pairs are given.
    """
    alone, height = _corrected_keys(problem, given, halves), halves * _LANES
    paired = [
        keys
        for keys in _PAIRED_KEYS[halves]
        if _may_pair(problem, given)
        and _fits(problem, height, keys, ctas=2)
        and not (problem.is_uneven and keys > _MOST_MASKED_KEYS)
    ]
    if given.cluster is not None:
        is_longer = given.cluster[0] % 2 == 0
        paired = [keys for keys in paired if is_longer and keys > max(alone, default=0)]
    elif not problem.has_many_keys or problem.fills_one_wave(height):
        paired = []
    else:
        paired = [keys for keys in paired if pays(problem, height, keys, alone)]
    blocks = [*((keys, 2) for keys in paired), *((keys, 1) for keys in alone)]
    columns = problem.target.tmem_columns
    return [each for each in blocks if halves * (problem.dims[1] + each[0]) <= columns]


def _may_pair(problem: AttentionProblem, given: Schedule) -> bool:
    """Whether the CTAs of a cluster have the same keys, of heads whose products take longer than
    their exponentials, and threads have no more beside many of them than a causal mask's bounds.
    """
    is_cut = problem.has_window or problem.is_packed or problem.is_paged or problem.is_sliced
    has_more = problem.keeps_more or problem.is_capped or problem.is_latent
    # Masked rows lack registers where many go to the role that corrects.
    has_more |= problem.is_uneven and problem.dims[1] in _MASKED_REGISTERS
    is_open = _leaves(given, "stages", "ring_stages", "epilogue", "scheduler", "loads")
    is_plain = problem.is_plain and problem.bits_q == _WIDE_BLOCK_BITS and not problem.is_padded
    # Products of pairs whose A is in tensor memory have columns by 32.
    is_plain &= problem.dims[1] % _PAIRED_COLUMNS == 0
    return is_open and is_plain and problem.widest > 2 * SPAN and not (is_cut or has_more)


def _corrected_keys(problem: AttentionProblem, given: Schedule, halves: int) -> tuple[int, ...]:
    """Keys of a block of these plans: what a block takes beside its scores is half as much for each
    of twice as many. Threads have a row of scores each, beside which registers hold a causal mask
    at most, and those of one role that computes alone none of so many.
    """
    fits = partial(_fits, problem, halves * _LANES)
    if halves == 1 and _takes_longer_blocks(problem, given):
        return (_LONGER_KEYS, *filter(fits, (_CORRECTED_KEYS,)))
    is_masked = problem.has_window or problem.is_packed
    if problem.is_uneven:
        # Of other heads the role that corrects lacks what these rows have more.
        is_masked |= problem.is_capped or problem.dims not in _MASKED_DIMS
    is_full = halves == 1 or is_masked or problem.bits_q != _WIDE_BLOCK_BITS or problem.keeps_more
    most = (_CORRECTED_KEYS,) if is_full else (2 * _CORRECTED_KEYS, _CORRECTED_KEYS)
    return tuple(filter(fits, most))


# -- Warpgroups


def _on_groups(problem: AttentionProblem, given: Schedule, step: int, in_turns: bool) -> Schedule:
    """Tiles of one to three warpgroups. Where TMA does not load the operands, the threads that do
    take registers from those that multiply.
    """
    keys = _fewer_keys(problem, _group_keys(problem, in_turns), step)
    rows = _rows(problem, keys)
    if _is_half(problem, rows) and problem.is_wide_and_short:
        # More stages than of larger blocks.
        keys = min(keys, GROUP_ROWS)
    schedule = Schedule(
        tile=(rows, keys),
        warps=(12, 1) if rows == 3 * GROUP_ROWS and given.tile is None else None,
        overlap=_overlap(problem),
    )
    scheduler = _scheduler(problem, rows, schedule.merged(given))
    one_loads = _one_thread_loads(problem, rows, scheduler)
    # Beside a window's other side, or the places in a slice, those that compute wide heads have no
    # registers for the bounds of several loops.
    has_more = problem.has_window or (problem.is_sliced and problem.is_plain)
    is_crowded = rows == 2 * GROUP_ROWS and problem.widest > PRICE.widest_guessed and has_more
    schedule = schedule.merged(
        Schedule(
            early_launch="yes" if problem.is_over_after(PRICE.soon_alone_seconds) else None,
            scheduler=scheduler,
            registers=_registers(problem, given, (rows, keys), one_loads, step),
            split_loops="no" if is_crowded else None,
            split_loads="no" if one_loads else None,
            # Shifting results into aligned words takes registers that a tile's next trips have.
            epilogue=None if problem.stores_boxes else "direct",
        )
    )
    schedule = schedule.merged(_order(problem, rows)).merged(given)
    if step > 0 and problem.widest > PRICE.widest_guessed and guesses(problem, schedule):
        # What lacked registers guesses no more.
        schedule = schedule.merged(Schedule(maxima=maxima_found(problem, schedule)))
    return schedule


def _scheduler(problem: AttentionProblem, rows: int, chosen: Schedule) -> Scheduler | None:
    """How CTAs get tiles of so many rows."""
    if chosen.cluster not in (None, (1, 1)) or not chosen.may_specialize:
        return None
    if problem.fills_one_wave(rows):
        return "single"
    if problem.is_short:
        return "dynamic"
    # Guesses of f16 take as long as they fail (+ 1 to + 7 %); of 8 bits, where tiles are over soon,
    # claims even out what the last ones leave (+ 1 %).
    is_uneven = problem.is_uneven or (problem.is_f16 and guesses(problem, chosen))
    is_soon = problem.is_small and rows == 3 * GROUP_ROWS
    return "dynamic" if (is_uneven or is_soon) and problem.loads_boxes else None


def _one_thread_loads(problem: AttentionProblem, rows: int, scheduler: str | None) -> bool:
    """Whether tiles are over before several threads have told each other which comes next."""
    has_some_keys = problem.keys is not None and problem.keys <= PRICE.some_keys
    if scheduler == "single" and problem.widest > SPAN and has_some_keys and not problem.is_paged:
        return True
    if _is_half(problem, rows):
        return problem.has_short_packs or problem.is_wide_and_short
    is_narrow = problem.widest <= SPAN and rows == 2 * GROUP_ROWS
    return scheduler == "dynamic" and is_narrow and not (problem.has_window and problem.is_paged)


def _registers(
    problem: AttentionProblem, given: Schedule, tile: tuple[int, int], one_loads: bool, step: int
) -> tuple[int, int] | None:
    """Those of threads that load and that multiply, after steps to fewer keys."""
    rows = tile[0]
    if rows == 3 * GROUP_ROWS:
        # Those that load slices may need what fewer keys leave to those that multiply.
        takes = given.tile in (None, tile) and (step > 0 or problem.caps_slices)
        return beside(PRICE.slicing_registers, groups=3) if takes else None
    if rows != 2 * GROUP_ROWS:
        return None
    if problem.is_paged and not problem.is_shifted:
        return beside(PRICE.paging_registers[one_loads], groups=2)
    return _shifting_registers(problem, given)


def _shifting_registers(problem: AttentionProblem, given: Schedule) -> tuple[int, int] | None:
    """The registers of threads where some shift rows into place, if it is open what warps do."""
    is_open = _leaves(given, "tile", "warps", "roles", "loads")
    if not problem.is_shifted or not is_open:
        return None
    return beside(PRICE.shifting_registers[problem.bits], groups=2)


def _overlap(problem: AttentionProblem) -> Overlap:
    """How tiles overlap the second multiply, if registers suffice for an operand that waits for the
    next trip: an output of 256 columns takes half of them, threads that load take others.
    """
    if problem.widest > PRICE.widest_guessed:
        return "yes" if problem.is_plain and not problem.keeps_more else "no"
    return "yes" if problem.loads_boxes or problem.widest > 128 else "no"


def _may_share_processor(problem: AttentionProblem, given: Schedule) -> bool:
    """Whether nothing is against CTAs that share a processor: rows of other lengths take these
    twice as long.
    """
    is_open = _leaves(given, "tile", "warps", "roles", "atom", "ctas", "registers")
    is_open = is_open and given.cluster in (None, (1, 1)) and problem.on_groups
    is_odd = problem.is_padded or problem.is_paged or problem.is_capped or not problem.stores_boxes
    is_whole = problem.is_packed or not problem.is_sliced
    return is_open and problem.is_plain and is_whole and not is_odd


def _is_half(problem: AttentionProblem, rows: int) -> bool:
    """Whether a tile has the rows of one warpgroup, whose operands one thread loads."""
    return rows == GROUP_ROWS and problem.is_plain and not problem.is_paged


# -- Rows and keys of a tile


def _rows(problem: AttentionProblem, keys: int) -> int:
    """Rows of a tile: those of three warpgroups, or a power of two of what a warp or warpgroup
    multiplies.
    """
    if problem.on_groups and _is_for_three_groups(problem):
        return 3 * GROUP_ROWS
    unit, most, widest = (GROUP_ROWS if problem.on_groups else _ROWS), 128, problem.widest
    has_few_registers = widest > 192 and not problem.loads_boxes
    if problem.on_groups and (has_few_registers or (problem.is_mixed and widest > 128)):
        most = GROUP_ROWS
    needed = most if problem.rows is None else -(-max(problem.rows, 1) // unit) * unit
    # The threads that multiply may have to convert keys and values: more of them than few rows.
    rows = least = GROUP_ROWS if problem.is_mixed else unit
    while rows < min(most, needed):
        rows *= 2
    while rows > least and not _fits(problem, rows, keys):
        rows //= 2
    is_open = problem.on_groups and rows == 2 * GROUP_ROWS and _is_half(problem, GROUP_ROWS)
    return _fewest_time(problem) if is_open else rows


def _fewest_time(problem: AttentionProblem) -> int:
    """The rows of one or two warpgroups: tiles of half as many fill more processors, and of short
    packs half of a tile is empty.
    """
    if problem.has_short_packs and problem.widest > PRICE.widest_guessed:
        return GROUP_ROWS
    return min((2 * GROUP_ROWS, GROUP_ROWS), key=lambda rows: time_of(problem, rows))


def _is_for_three_groups(problem: AttentionProblem) -> bool:
    """Whether three warpgroups share a tile: two of them hide the exponentials of the third, if
    registers suffice and rows are many.
    """
    is_small, widest = problem.is_small, problem.widest
    # Few columns of masked rows are stored at once, which so many threads do not share evenly.
    is_odd = problem.is_paged or not problem.loads_boxes or problem.is_mixed
    is_odd |= problem.is_uneven and not problem.stores_boxes
    least = PRICE.many_rows if problem.is_uneven or is_small else 3 * GROUP_ROWS
    if is_odd or (problem.rows is not None and problem.rows < least):
        return False
    if is_small:
        # Sequences, shared heads and their scales together leave too few registers.
        return SPAN < widest <= 128 and not (problem.is_packed and problem.group != 1)
    # Of a window two compute less that no row sees.
    is_narrow_window = problem.has_window and widest <= 96
    has_more = problem.is_sliced or not problem.stores_boxes or problem.bits_out != 16
    if is_narrow_window or widest > (SPAN if has_more else max(PRICE.keys_of_three)):
        return False
    return time_of(problem, 3 * GROUP_ROWS) <= time_of(problem, 2 * GROUP_ROWS)


def _fewer_keys(problem: AttentionProblem, keys: int, step: int) -> int:
    """The keys of a block after so many steps that leave threads more registers, no more than there
    are. Pages have a power of two of keys: blocks are whole ones, or a part of one.
    """
    less = 32 if 8 in (problem.bits, problem.bits_q) else _LEAST_KEYS
    if problem.is_paged:
        return 1 << max(less, keys >> step).bit_length() - 1
    keys = max(less, keys - less * step)
    is_whole = problem.is_plain and not problem.is_sliced
    if problem.on_groups and problem.keys is not None and is_whole:
        keys = min(keys, max(_LEAST_KEYS, -(-problem.keys // _LEAST_KEYS) * _LEAST_KEYS))
    return keys


def _group_keys(problem: AttentionProblem, in_turns: bool) -> int:
    """Keys of a block for warpgroups: fewer where what is done to scores takes registers."""
    # Both sums, of exponentials before and behind rounding; of heads that share keys, where the
    # rows of one in a sequence have their logarithms.
    is_crowded = problem.has_window and problem.is_capped
    takes_more = is_crowded if problem.is_uneven else not problem.stores_boxes
    shares = problem.is_packed and problem.group != 1 and not problem.has_window
    takes_more |= shares and min(problem.dims) > PRICE.wide_logarithms
    is_tight = problem.returns_lse and takes_more and problem.is_plain
    is_tight &= SPAN < problem.widest <= 128
    return _most_keys(problem, in_turns) - _LEAST_KEYS * (problem.caps_slices or is_tight)


def _most_keys(problem: AttentionProblem, in_turns: bool) -> int:
    """Those of scores that nothing is done to."""
    widest, is_plain, is_paged = problem.widest, problem.is_plain, problem.is_paged
    if problem.is_small and widest <= 128 and not is_paged:
        return 96 if _is_for_three_groups(problem) else 192
    if _is_for_three_groups(problem):
        return _keys_of_three(problem, in_turns)
    if widest > 128:
        return _keys_of_wide(problem)
    return 64 if not problem.loads_boxes or (is_plain and problem.sees_few) else 128


def _keys_of_wide(problem: AttentionProblem) -> int:
    """Those of heads of more than 128 dimensions."""
    is_plain = problem.is_plain
    if problem.widest > 192:
        # Of 16 bits, which head shares the keys takes a few registers more, beside those of masks.
        takes_more = is_plain and problem.keeps_more and problem.group != 1
        is_converted = not problem.loads_boxes or problem.is_mixed or problem.is_paged
        return 32 if is_converted else 48 if takes_more else 64
    if problem.has_window and is_plain and problem.sees_few and not problem.caps_slices:
        # Less is computed that no row sees.
        return 64
    # A multiply takes 32 keys of 8 bits at once.
    is_even = is_plain or problem.is_small or problem.dims[0] == problem.dims[1]
    return 96 if is_even else 80


def _keys_of_three(problem: AttentionProblem, in_turns: bool) -> int:
    """Keys of a block of 16 bits for three warpgroups. Of wide heads, rows that share keys with
    others have registers for fewer, if they are masked or the scores capped.
    """
    widest, is_uneven = problem.widest, problem.is_uneven
    most, keys = next(row for row in PRICE.keys_of_three.items() if widest <= row[0])
    is_widest = most == max(PRICE.keys_of_three)
    shares = problem.group != 1 and (is_uneven if is_widest else problem.is_capped)
    is_wide = widest > SPAN and (is_widest or not is_uneven)
    looks_often = problem.is_f16 and not is_uneven and widest > PRICE.looking_dims
    return keys[problem.keeps_more or shares or (is_wide and in_turns) or looks_often]


def _wide(problem: AttentionProblem, step: int) -> Schedule:
    """Tiles of heads so wide that no warp holds a result of 16 rows: warps share the columns of
    one. Two warpgroups have 64 rows each half of them, and compute half of the scores.
    """
    on_groups, element = problem.on_groups, problem.bits_q // 8
    rows = GROUP_ROWS if on_groups else 2 * _ROWS
    keys = max(_LEAST_KEYS, rows >> step)
    row, value = (element * columns for columns in problem.dims)
    key = row + (0 if problem.is_latent else value)
    if on_groups and problem.is_shifted:
        # Each row comes with the words around it, and is shifted to where a multiply reads it: no
        # part of a key is a value there.
        row, key = 2 * row + _VECTOR_BYTES, 2 * (row + value + _VECTOR_BYTES)
    free = problem.target.smem_per_cta - _WIDE_BYTES - rows * row
    while keys > _LEAST_KEYS and keys * (key + element * rows) > free:
        keys //= 2
    stages = max(1, min(PRICE.wide_stages, (free - element * rows * keys) // (keys * key)))
    if not on_groups:
        # Each of four warps has a column of atoms of the scores.
        columns = 4 if problem.dims[1] % WIDE == 0 and keys >= 2 * _LEAST_KEYS else 2
        return Schedule(tile=(rows, keys), warps=(2, columns), stages=stages)
    return Schedule(
        tile=(rows, keys), warps=(4, 2), stages=stages, scheduler="single", overlap="no",
        epilogue="direct",
    )  # fmt: skip


def _order(problem: AttentionProblem, rows: int) -> Schedule:
    """The order of tiles of so many rows that take unequal time: the longest of some heads first;
    or those of a packed sequence, head by head. Many heads at a time end together better than few,
    and what L2 does not hold of their keys and values costs less than that, up to a point.
    """
    if not problem.is_uneven or (problem.rows is not None and problem.rows <= GROUP_ROWS):
        return Schedule()
    if problem.is_packed:
        return Schedule(raster=1)
    if problem.keys is None:
        return Schedule(order="sections", raster=PRICE.some_heads)
    if problem.on_groups and _has_narrow_window(problem):
        # Tiles that follow each other read the same keys, and take equal time but for the first.
        return Schedule(order="sections", raster=1)
    size = max(1, problem.keys * sum(problem.dims) * problem.bits // 8)
    limit = PRICE.band_bytes[min(max(PRICE.band_bytes), max(1, rows // GROUP_ROWS))]
    raster = min(PRICE.some_heads, max(1, problem.group * limit // size))
    if 2 * PRICE.some_heads * size <= PRICE.l2_bytes:
        raster = 2 * PRICE.some_heads
    elif problem.widest > 192 and problem.keys <= PRICE.some_keys:
        raster = min(raster, PRICE.some_heads // 2)
    # A power of two, so that few lengths need a kernel of their own.
    return Schedule(order="sections", raster=1 << raster.bit_length() - 1)


def _has_narrow_window(problem: AttentionProblem) -> bool:
    """Whether rows see few of many keys."""
    if problem.sees is None or problem.rows is None or problem.sees > PRICE.few_keys:
        return False
    return PRICE.narrow_windows * problem.sees <= problem.rows


def _fits(problem: AttentionProblem, rows: int, keys: int, ctas: int = 1) -> bool:
    """Whether shared memory holds the rows of a tile and two stages of keys and values, which so
    many CTAs have together.
    """
    free = problem.target.smem_per_cta - _BESIDE_BYTES
    return _tile_bytes(problem, rows, keys // ctas, stages=2) <= free


def _tile_bytes(problem: AttentionProblem, rows: int, keys: int, stages: int) -> int:
    """Bytes of the rows of a tile and of stages of keys and values."""
    dims, element = problem.dims, problem.bits_q // 8
    key = element * sum(dims)
    if problem.on_groups and problem.bits == 8:
        # What takes a second step in shared memory is there as it was loaded too.
        key += dims[1] if element == 1 else sum(dims)
    return element * rows * dims[0] + stages * keys * key
