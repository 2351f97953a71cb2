"""The schedules from which attention chooses: candidates of rows and keys of a tile, by warps that
multiply alone, by warpgroups, or in tensor memory, and what goes with each of them. What follows
from facts alone are rows of `prices/attention-rules.json`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from cutedialect.schedule import Schedule

from .attention_parameters import (
    beside,
    guesses,
    held_registers,
    maxima_found,
    polynomials,
    registers_of,
    takes_turns,
)
from .attention_price import pays_in_pairs, time_of
from .attention_problem import GROUP_ROWS, PRICE, RULES, SPAN, WIDE, AttentionProblem
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
_HALF_COLUMNS = 224
# The plan of two roles that share a tile with other registers for those that correct and compute.
_SPLIT_OF = (
    "(load 1 @24: loads; mma 1 @24: tensor_multiplies; epilogue 1 @24: stores; "
    "empty 1 @24: nothing; correction 4 @{}: corrects; main 2/* @{}: rest)"
)
# Keys of a block of wide heads of which shared memory holds two stages beside little more: numbers
# of rows and mbarriers.
_LONGER_KEYS, _BESIDE_LONGER_BYTES = 80, 3072
# What columns of results of CTA pairs are a multiple of; keys of their blocks, by the halves of a
# tile, and the most beside a mask: those of which products take longer than what they read.
_PAIRED_COLUMNS = 32
_PAIRED_KEYS, _MOST_MASKED_KEYS = {2: (128, 96, 64), 1: (96,)}, 96
# Shared memory beside tiles of wide heads, and bytes of a vector.
_WIDE_BYTES, _VECTOR_BYTES = 2048, 16
# Fields that say how warpgroups share a tile.
_OF_GROUPS = ("tile", "warps", "roles", "atom", "ctas", "registers")
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
        for step in range(_MOST_STEPS):
            yield _wide(problem, given, step).merged(given)
        return
    is_alone = problem.on_groups and given.cluster in (None, (1, 1)) and _leaves(given, *_OF_GROUPS)
    if is_alone and RULES.shares_processor.first(problem):
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
    """What is fastest of all that was timed for keys that threads convert."""
    is_odd = problem.is_shifted or problem.is_padded or not problem.loads_boxes
    is_open = _leaves(given, *_OF_GROUPS, "overlap")
    if problem.on_groups and problem.is_mixed and is_open and not is_odd:
        rows = PRICE.many_rows if problem.rows is None else problem.rows
        for tile in RULES.narrow_caches.each(problem, rows=rows):
            # As where these fields are given: the others follow from them.
            yield _on_groups(problem, tile.merged(given), 0, in_turns=False)


def _keys_of(schedule: Schedule) -> int:
    """Keys of a block."""
    assert schedule.tile is not None
    return schedule.tile[1]


def _leaves(given: Schedule, *names: str) -> bool:
    """Whether fields are left open."""
    return all(getattr(given, name) is None for name in names)


# -- Warps that multiply alone


def _on_warps(problem: AttentionProblem, given: Schedule, step: int, _: bool) -> Schedule:
    """Tiles of 16 to 128 rows and as many keys as shared memory holds. Several warps may share the
    rows by columns, twice as many with each step: threads that shift rows into place hold many
    elements of a block, and 16 rows of a result in one warp leave no registers for these.
    """
    keys = _fewer_keys(problem, 64 if problem.widest <= 128 else 32, step)
    while keys > _LEAST_KEYS and not _fits(problem, _ROWS, keys):
        keys //= 2
    rows = _rows(problem, keys)
    if problem.target.tmem_columns and given.plan.taking("tensor_multiplies"):
        # Scores in tensor memory have all of its lanes for each role that computes.
        rows = _LANES * given.plan.parts
    atoms = rows // _ROWS
    columns = max(1, _SHIFTING_WARPS // atoms) if problem.is_shifted else 1
    columns = min(columns << step, max(1, _MOST_WARPS // atoms))
    while columns > 1 and any(each % (columns * _ATOM_COLUMNS) for each in (keys, problem.columns)):
        columns //= 2
    share = columns > 1 and _leaves(given, "tile", "warps", "roles")
    schedule = Schedule(tile=(rows, keys), warps=(atoms, columns) if share else None)
    return schedule.merged(_order(problem, rows)).merged(given)


# -- Tensor memory


def _corrected(problem: AttentionProblem, given: Schedule) -> list[Schedule]:
    """The plans that keep the output in tensor memory, where a role of its own rescales it: tiles
    of 256 rows, of which two roles compute half each, else of 128; the longest blocks of keys
    first. None without tensor memory, for few rows, where threads load or convert operands, and
    where tiles, warps or roles are given.
    """
    tmem, rows = problem.target.tmem_columns, problem.rows or PRICE.many_rows
    is_open = _leaves(given, "tile", "warps", "roles", "atom") and problem.loads_boxes
    # Half of the lanes hold few rows, of which registers hold results of so many columns at most.
    few = _LANES // 2 if problem.columns <= _HALF_COLUMNS else _ROWS
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
        return [
            Schedule(
                tile=(height, keys),
                warps=(4, 1),
                cluster=(2, 1) if ctas == 2 else None,
                roles=_roles_of(problem, roles, halves, keys),
                scheduler="cancel" if waits else None,
                # Stages of longer blocks leave no shared memory for results.
                epilogue="direct" if keys == _LONGER_KEYS else None,
            ).merged(_order(problem, height))
            for keys, ctas in blocks
        ]
    return []


def _roles_of(problem: AttentionProblem, roles: str, halves: int, keys: int) -> str:
    """The plan, with other registers for masked rows and for narrow results."""
    registers = None if halves == 1 else RULES.split_registers.first(problem, keys_of_block=keys)
    return roles if registers is None else _SPLIT_OF.format(*registers)


def _corrected_blocks(
    problem: AttentionProblem, given: Schedule, halves: int
) -> list[tuple[int, int]]:
    """(keys of a block, CTAs that multiply it together) of these plans, the best first: of pairs
    where these take less time, or longer ones where pairs are given.
    """
    alone, height = _corrected_keys(problem, given, halves), halves * _LANES
    may_pair = _leaves(given, "stages", "ring_stages", "epilogue", "scheduler", "loads")
    pairs_columns = problem.columns % _PAIRED_COLUMNS == 0
    may_pair = may_pair and RULES.pairs.first(problem, pairs_columns=pairs_columns)
    paired = [
        keys
        for keys in _PAIRED_KEYS[halves]
        if may_pair
        and _fits(problem, height, keys, ctas=2)
        and not (problem.is_uneven and keys > _MOST_MASKED_KEYS)
    ]
    if given.cluster is not None:
        is_longer = given.cluster[0] % 2 == 0
        paired = [keys for keys in paired if is_longer and keys > max(alone, default=0)]
    elif not problem.has_many_keys or problem.fills_one_wave(height):
        paired = []
    else:
        paired = [keys for keys in paired if pays_in_pairs(problem, height, keys, alone)]
    blocks = [*((keys, 2) for keys in paired), *((keys, 1) for keys in alone)]
    columns = problem.target.tmem_columns
    return [each for each in blocks if halves * (problem.columns + each[0]) <= columns]


def _corrected_keys(problem: AttentionProblem, given: Schedule, halves: int) -> tuple[int, ...]:
    """Keys of a block of CTAs by themselves."""
    fits = partial(_fits, problem, halves * _LANES)
    is_open = _leaves(given, "epilogue", "stages", "ring_stages")
    if halves == 1 and is_open and given.cluster in (None, (1, 1)):
        used = _tile_bytes(problem, _LANES, _LONGER_KEYS, stages=2) + _BESIDE_LONGER_BYTES
        if used <= problem.target.smem_per_cta and RULES.longer_blocks.first(problem):
            return (_LONGER_KEYS, *filter(fits, (_CORRECTED_KEYS,)))
    return tuple(filter(fits, RULES.corrected_keys.first(problem, halves=halves)))


# -- Warpgroups


def _on_groups(problem: AttentionProblem, given: Schedule, step: int, in_turns: bool) -> Schedule:
    """Tiles of one to three warpgroups. Where TMA does not load the operands, the threads that do
    take registers from those that multiply.
    """
    three = _is_for_three_groups(problem)
    keys = RULES.group_keys.first(problem, for_three=three, in_turns=in_turns)
    keys = _fewer_keys(problem, keys - RULES.fewer_keys.first(problem), step)
    rows = _rows(problem, keys)
    if _is_half(problem, rows) and problem.is_wide_and_short:
        # More stages than of larger blocks.
        keys = min(keys, GROUP_ROWS)
    tile, schedule = (rows, keys), Schedule(tile=(rows, keys))
    is_soon_over = problem.is_over_after(PRICE.soon_alone_seconds)
    for fields in RULES.group_fields.each(
        problem, rows_of_tile=rows, is_soon_over=is_soon_over, is_open=given.tile is None
    ):
        schedule = schedule.merged(fields)
    chosen = schedule.merged(given)
    scheduler = None
    if chosen.cluster in (None, (1, 1)) and chosen.may_specialize:
        one_wave, does_guess = problem.fills_one_wave(rows), guesses(problem, chosen)
        facts = {"rows_of_tile": rows, "fills_one_wave": one_wave, "guesses": does_guess}
        schedule = schedule.merged(RULES.schedulers.first(problem, **facts))
        scheduler = schedule.scheduler
    one_loads = RULES.one_loads.first(problem, rows_of_tile=rows, scheduler=scheduler)
    keeps_tile = given.tile in (None, tile)
    registers = _registers(
        problem, given, rows, step=step, one_loads=one_loads, keeps_tile=keeps_tile
    )
    more = Schedule(registers=registers, split_loads="no" if one_loads else None)
    schedule = schedule.merged(more).merged(_order(problem, rows)).merged(given)
    if step > 0 and problem.widest > PRICE.widest_guessed and guesses(problem, schedule):
        # What lacked registers guesses no more.
        schedule = schedule.merged(Schedule(maxima=maxima_found(problem, schedule)))
    return schedule


def _registers(
    problem: AttentionProblem, given: Schedule, rows: int, **facts: object
) -> tuple[int, int] | None:
    """Those of threads that load and that multiply."""
    is_open = _leaves(given, "tile", "warps", "roles", "loads")
    facts |= {"rows_of_tile": rows, "is_open": is_open}
    loads = RULES.loading_registers.first(problem, **facts)
    return None if loads is None else beside(loads, groups=rows // GROUP_ROWS)


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
    if not is_open:
        return rows
    # Tiles of half as many fill more processors, and of short packs half of a tile is empty.
    if problem.has_short_packs and problem.widest > PRICE.widest_guessed:
        return GROUP_ROWS
    return min((2 * GROUP_ROWS, GROUP_ROWS), key=partial(time_of, problem))


def _is_for_three_groups(problem: AttentionProblem) -> bool:
    """Whether three warpgroups share a tile."""
    pays = RULES.three_groups.first(problem)
    if pays is not None:
        return pays
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


def _wide(problem: AttentionProblem, given: Schedule, step: int) -> Schedule:
    """Tiles of heads so wide that no warp holds a result of 16 rows: warps share the columns of
    one. Two warpgroups have 64 rows each half of them, and compute half of the scores.
    """
    on_groups, element = problem.on_groups, problem.bits_q // 8
    rows = GROUP_ROWS if on_groups else 2 * _ROWS
    keys = max(_LEAST_KEYS, rows >> step)
    row, value = (element * columns for columns in problem.dims)
    key = row + (0 if problem.is_latent else value)
    registers = None
    if on_groups and problem.is_shifted:
        # Each row comes with the words around it, and is shifted to where a multiply reads it: no
        # part of a key is a value there.
        row, key = 2 * row + _VECTOR_BYTES, 2 * (row + value + _VECTOR_BYTES)
        registers = _registers(problem, given, 2 * GROUP_ROWS)
    free = problem.target.smem_per_cta - _WIDE_BYTES - rows * row
    while keys > _LEAST_KEYS and keys * (key + element * rows) > free:
        keys //= 2
    stages = max(1, min(PRICE.wide_stages, (free - element * rows * keys) // (keys * key)))
    if not on_groups:
        # Each of four warps has a column of atoms of the scores.
        columns = 4 if problem.columns % WIDE == 0 and keys >= 2 * _LEAST_KEYS else 2
        return Schedule(tile=(rows, keys), warps=(2, columns), stages=stages)
    return Schedule(
        tile=(rows, keys), warps=(4, 2), stages=stages, scheduler="single", overlap="no",
        epilogue="direct", registers=registers,
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
    if problem.on_groups and problem.has_narrow_window:
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
