"""What a schedule of `gemm_schedules.py` is estimated to take on sm_90a, in cycles: of a step of
the main loop, of what a tile does besides, of the waves of tiles, and of memory. The constants are
a fit to 17,200 timings of 1,390 random problems on H100s (benchmarks/NOTES.md). On problems that a
fit did not see what is chosen by it takes 1.027 of the best time of those that were timed in the
geometric mean: layers of language models 1.018, other majors and sizes 1.03, odd sizes 1.045, 1.5
at worst.

What it misses, as a share of the time, say regression trees over facts of a schedule and a problem
(`gemm_residues.py`), where TMA copies operands of 8 and 16 bits and results of 16.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd, log, log2

from cutedialect.choices import Reduction
from cutedialect.schedule import Schedule

from .gemm_problem import (
    MOST_BESIDE,
    VECTOR,
    WORD,
    Problem,
    block_of,
    blocks_of,
    ceil_div,
    extents_of,
    sides_of,
    values_of,
    warpgroups,
)
from .gemm_residues import LEAF_UNIT, TREES

# Into how many parts a cluster splits the depth of a tile, and how many CTAs of such clusters run
# at one time in GPCs of 14, 16 or 18 multiprocessors, of which no two devices have alike many.
CLUSTER_PARTS = {2: 132, 3: 108, 4: 120, 5: 100, 6: 96, 8: 120, 10: 70, 12: 84, 16: 64}
# Multiprocessors of an H100 SXM on which clusters of so many CTAs that multicast find room at one
# time; of more than two they share one round of tiles.
RESIDENT = {1: 132, 2: 132, 4: 120, 8: 120}
PROCESSORS = RESIDENT[1]
LINE = 128
# Of how much of a round at least is felt, and of how much at most its tiles may be shared.
_LEAST_FELT, _SHARED_ROUND = 0.9, 0.5
# Cycles of a multiply of 64 rows and 32 bytes of depth: for each column, and at least. Shared
# memory meanwhile reads the rows, so many cycles, and takes what is loaded, so many bytes in one.
_COLUMN, _MULTIPLY = 0.787, 7.8
_ROWS_READ, _SHARED_BYTES = 1.0, 128
# Bytes in a cycle that one multiprocessor gets from L2, and all of them. Rows that begin at
# multiples of no more than so many bytes take that many times as long; operands that are contiguous
# across the depth take so many cycles more for each step.
_L2_BYTES, _L2_ALL = 70.6, 6331.2
_PITCHES = {128: 1.0, 64: 1.56, 32: 1.86, 16: 3.14}
_ACROSS_STEP = 8.6
# What a box of an operand across the depth takes more that is half as wide as a line of 128 bytes.
_NARROW_BOX = 0.482
# Cycles for each byte that threads copy, and for each step, by the alignment of rows in bytes.
_COPIES = {
    16: (0.0, 0.0),
    8: (0.0907, 0.0),
    4: (0.1213, 1673.0),
    2: (0.08, 0.0),
}
# So many times as long where a warpgroup does nothing but shift, beside so many accumulators of a
# thread and warpgroups that multiply; cycles for each byte of a tile's last step, elsewhere and
# there.
_SHIFTED_APART, _GROUPS_BESIDE = 0.9, 2
_SHIFTED_EDGE, _SHIFTED_BITS = (0.15, 0.04), 16
# How many times as long they take from L2 as rows at multiples of 128 bytes.
_COPIED_PITCH = 2.0
# The exponents with which the parts of a step, the two teams that take turns, and multiprocessors
# and memory, add up.
_STEP_NORM, _TEAMS_NORM, _MEMORY_NORM = 2.72, 10.0, 1.14
# Cycles that a step of a lone warpgroup waits, half as many where two take turns; that it waits for
# the other CTAs of a cluster, alone or beside others, and more for each doubling of the cluster; a
# ring of few stages waits longer.
_WAIT = 78.3
_CLUSTER_WAITS, _CLUSTER_DOUBLED = (95.2, 72.2), 0.2
_CLUSTER = 1.026
_FEW_STAGES, _SHORT_RING = 4, 1.138
# Cycles in which a warpgroup reads words of A to registers, and more for each block of 64 rows,
# before its multiplies begin.
_READ, _READ_BLOCK = 200.0, 300.0
# Cycles of a tile besides its steps: at least, for each accumulator of a thread, and more for each
# and for each of the tile where lines of the output begin at any element.
_TILE, _VALUE = 6.6, 24.7
_ALIGNED_VALUE, _ALIGNED = 10.0, 0.05
# Cycles of each line of 128 bytes, or less, that TMA stores, and of each time that it is told to;
# of a value of the transposed product so many times as much.
_LINE_STORED, _STORE, _SWAPPED_VALUE = 4.67, 4.8, 0.82
# And where CTAs share the tile: in all, for each accumulator, and for each of each part.
_SHARE, _SHARE_VALUE, _PART_VALUE = 4867.2, 47.1, 60.0
# The same of a cluster, and of one whose CTAs have parts of the columns each.
_SUM, _SUM_VALUE, _SUM_PART_VALUE = 1194.9, 6.0, 35.8
_SCATTER, _SCATTER_VALUE = 508.8, 144.7
_ATOM_COLUMNS = 8
# The last tile's stores, for each accumulator, where multiplies hide those of the others.
_LAST_VALUE = 19.0
# What of a last wave that is not full is not felt, since CTAs are not in step.
_STRAGGLERS = 0.066
# Cycles of a launch; bytes from memory in one.
_LAUNCH, _MEMORY_BYTES = 6839.3, 821.2
# How many times as long memory takes where clusters that read one panel are apart.
_APART = 1.3
# What is left of the fit for tiles of so many rows, and columns up to so many: steps and ends take
# so many times as long; the same where two take turns.
_BANDS = (8, 16, 32, 64, 96, 128, 160, 192, 224, 256)
_FACTORS = {
    (64, 8): 0.836, (64, 16): 0.796, (64, 32): 0.789, (64, 64): 0.818, (64, 96): 0.847,
    (64, 128): 0.851, (64, 160): 0.907, (64, 192): 0.911, (64, 224): 0.922, (64, 256): 0.899,
    (128, 8): 1.0, (128, 16): 1.112, (128, 32): 1.074, (128, 64): 1.016, (128, 96): 1.01,
    (128, 128): 0.986, (128, 160): 1.019, (128, 192): 1.023, (128, 224): 1.04, (128, 256): 1.034,
    (192, 16): 1.002, (192, 32): 1.605, (192, 64): 1.137, (192, 96): 1.089, (192, 128): 1.054,
    (192, 160): 1.061, (192, 192): 0.956, (256, 32): 1.0, (256, 64): 1.178, (256, 96): 1.083,
    (256, 128): 0.984, (256, 160): 0.955,
}  # fmt: skip
_ALTERNATE_FACTORS = {
    (64, 64): 0.95, (64, 96): 0.856, (64, 128): 0.9, (64, 160): 1.037, (64, 192): 1.062,
    (64, 256): 1.0, (128, 96): 1.092, (128, 128): 0.972, (128, 160): 1.0, (128, 192): 1.0,
}  # fmt: skip
# Bytes of shared memory for a ring, beside barriers and the results of two chunks of columns.
_RING = 226 * 1024
_CHUNK = 64
_SUM_BYTES = 4
# Bits of operands and results of which the trees know, and bytes of memory that are written at
# once. Beyond the others a fact is taken to be as large.
_WIDEST = 16
_SECTOR = 32
_READERS, _PANELS, _ROUNDS, _STAGES = 16, 64, 8.0, 12


def least_cycles(problem: Problem, rows: int, columns: int, count: int) -> float:
    """Cycles, fewer than what is estimated for so many tiles of a problem in any cluster."""
    # Few tiles are shared by the CTAs that are left.
    rounds = count / PROCESSORS
    rounds = ceil_div(count, PROCESSORS) * _LEAST_FELT if rounds > _SHARED_ROUND else rounds
    line = LINE * 8 // problem.bits
    step = rows // 64 * LINE // 32 * max(_COLUMN * columns, _MULTIPLY)
    walk = rounds * ceil_div(problem.k, line) * max(step, rows + columns)
    walk *= _factor_of(rows, columns, _FACTORS)
    return _LAUNCH + _norm(_MEMORY_NORM, walk, memory_cycles((problem,)))


def scatters(schedule: Schedule, parts: int) -> bool:
    """Whether each of the CTAs that share a tile of a cluster goes on with columns of their own."""
    assert schedule.tile is not None
    return schedule.tile[1] % (_ATOM_COLUMNS * parts) == 0


def shifts_apart(schedule: Schedule, problem: Problem) -> bool:
    """Whether a warpgroup shifts operands, of 16 bits, and does nothing else: beside few
    accumulators.
    """
    if not problem.shifts or problem.bits != _SHIFTED_BITS or schedule.plan.teams > 1:
        return False
    if not problem.may_shift:
        return False
    return values_of(schedule) <= MOST_BESIDE and warpgroups(schedule) <= _GROUPS_BESIDE


def cycles(schedule: Schedule, *problems: Problem) -> float:
    """Estimated clock cycles of a schedule on a problem, or on several in one launch."""
    return estimated(schedule, schedule.split_k or 1, schedule.reduction, problems)


def estimated(
    schedule: Schedule, parts: int, reduction: Reduction | None, problems: tuple[Problem, ...]
) -> float:
    assert schedule.tile is not None
    assert schedule.cluster is not None
    size = schedule.cluster[0] * schedule.cluster[1]
    resident = RESIDENT[size] // size
    scattered = reduction == "cluster" and scatters(schedule, parts)
    if reduction == "cluster":
        resident = CLUSTER_PARTS.get(parts, PROCESSORS) // parts * parts
    items = [blocks_of(schedule, each) * parts for each in problems]
    active = min(sum(items), resident) * size
    tiles = [_tile_cycles(schedule, each, parts, active, scattered) for each in problems]
    if len(problems) == 1:
        waves = ceil_div(items[0], resident)
        felt = waves + _STRAGGLERS * (items[0] / resident - waves)
        walk = felt * tiles[0]
    else:
        waves = 1
        work = sum(count * each for count, each in zip(items, tiles, strict=True))
        walk = work / resident + max(tiles) / 2
    values = values_of(schedule)
    if parts > 1 and scattered:
        walk += waves * (_SCATTER + _SCATTER_VALUE * values)
    elif parts > 1 and reduction == "cluster":
        walk += waves * (_SUM + (_SUM_VALUE + _SUM_PART_VALUE * parts) * values)
    elif parts > 1:
        walk += waves * (_SHARE + (_SHARE_VALUE + _PART_VALUE * parts) * values)
    if schedule.plan.teams > 1:
        walk += _LAST_VALUE * values
    walk *= (_CLUSTER if size > 1 else 1.0) * _factor(schedule)
    memory = memory_cycles(problems)
    if len(problems) == 1 and size > 1 and items[0] <= resident:
        memory *= _APART if parts_readers(schedule, problems[0]) else 1.0
    return _LAUNCH + _norm(_MEMORY_NORM, walk, memory)


def parts_readers(schedule: Schedule, problem: Problem) -> bool:
    """Whether several clusters read each panel of the longer operand, which the CTAs of one cluster
    do not share.
    """
    assert schedule.cluster is not None
    (height, width), (m, n) = block_of(schedule), extents_of(schedule, problem)
    down, right = schedule.cluster
    return (down == 1 and m > height) if n >= m else (right == 1 and n > width)


def memory_cycles(problems: tuple[Problem, ...]) -> float:
    """Cycles in which memory moves the operands and results of some problems once."""
    moved = sum(
        each.batch * ((each.m + each.n) * each.k * each.bits + each.m * each.n * each.out_bits)
        for each in problems
    )
    return moved / 8 / _MEMORY_BYTES


def _factor(schedule: Schedule) -> float:
    assert schedule.tile is not None
    rows, columns, _ = schedule.tile
    factors = _ALTERNATE_FACTORS if schedule.plan.teams > 1 else _FACTORS
    return _factor_of(rows, columns, factors)


def _factor_of(rows: int, columns: int, factors: Mapping[tuple[int, int], float]) -> float:
    band = next((each for each in _BANDS if columns <= each), _BANDS[-1])
    return factors.get((rows, band), 1.0)


def _norm(exponent: float, *parts: float) -> float:
    """More than the largest of some times, and less than their sum."""
    largest = max(parts)
    if largest == 0:
        return 0.0
    total = sum((part / largest) ** exponent for part in parts)
    return largest * total ** (1 / exponent)


def _tile_cycles(
    schedule: Schedule, problem: Problem, parts: int, active: int, scattered: bool
) -> float:
    """Cycles from one tile, or one of the parts of one, to the next, on so many multiprocessors;
    of a sum that is `scattered` each part has some of the columns.
    """
    assert schedule.tile is not None
    trips = ceil_div(ceil_div(problem.k, schedule.tile[2]), parts)
    steps = trips * _step_cycles(schedule, problem, active)
    if problem.shifts:
        # What masks the end of the depth hides behind no other step.
        loaded = sum(schedule.tile[:2]) * schedule.tile[2] * problem.bits // 8
        steps += _SHIFTED_EDGE[shifts_apart(schedule, problem)] * loaded
    end = _end_cycles(schedule, problem)
    whole = steps + (_TILE + (end - _TILE) / parts if scattered else end)
    # Of two that take turns one stores while the other multiplies.
    return _norm(_TEAMS_NORM, steps, whole / 2) if schedule.plan.teams > 1 else whole


def _step_cycles(schedule: Schedule, problem: Problem, active: int) -> float:
    """Cycles of a step of the main loop."""
    assert schedule.tile is not None
    assert schedule.cluster is not None
    (rows, columns, depth), (across, along) = schedule.tile, schedule.cluster
    line = depth * problem.bits // 8
    atoms = rows // 64 * (line // 32)
    loaded = (rows + columns) * line
    again = _transposed_extents(schedule, problem) * line
    shared = atoms * _ROWS_READ + loaded / _SHARED_BYTES
    if again:
        # Boxes arrive, are read and written once more, and every block of 64 rows reads B.
        moved = loaded + 2 * again + rows * line + rows // 64 * columns * line
        shared = max(shared, moved / _SHARED_BYTES)
    pitches = problem.pitches[::-1] if schedule.swap_ab == "yes" else problem.pitches
    is_across = problem.across[::-1] if schedule.swap_ab == "yes" else problem.across
    a, b = (_PITCHES[max(16, min(128, pitch))] for pitch in pitches)
    if problem.shifts:
        a = b = _COPIED_PITCH
    width = LINE * 8 // problem.bits
    if is_across[1]:
        b *= 1 + _NARROW_BOX * (width / max(8, gcd(columns, width)) - 1)
    read = (rows * a / along + columns * b / across) * line
    each, step = _COPIES[2 if problem.shifts else min(16, problem.align)]
    each *= _SHIFTED_APART if shifts_apart(schedule, problem) else 1.0
    found = _norm(
        _STEP_NORM,
        atoms * max(_COLUMN * columns, _MULTIPLY),
        shared,
        read / _L2_BYTES,
        read * active / _L2_ALL,
        each * loaded + step,
    )
    found += sum(is_across) * _ACROSS_STEP
    groups = warpgroups(schedule)
    if is_across[0] and problem.bits == 8 * WORD:
        own = atoms * max(_COLUMN * columns, _MULTIPLY)
        found = max(found, own / groups + _READ + _READ_BLOCK * rows / (64 * groups))
    is_alone = groups == 1
    if is_alone:
        found += _WAIT / 2 if schedule.plan.teams > 1 else _WAIT
    if across * along > 1:
        found += _CLUSTER_WAITS[0 if is_alone else 1]
        found += _CLUSTER_DOUBLED * log2(across * along / 2)
    return found * (_SHORT_RING if stages_of(schedule, problem) < _FEW_STAGES else 1.0)


def stages_of(schedule: Schedule, problem: Problem, others: int = 0) -> int:
    """Stages of the ring, beside results and the sums of so many other CTAs."""
    assert schedule.tile is not None
    rows, columns, depth = schedule.tile
    line = depth * problem.bits // 8
    stage = (rows + columns + _transposed_extents(schedule, problem)) * line
    if problem.shifts:
        stage += (rows + columns) * (line + VECTOR)
    teams = 2 if schedule.plan.teams > 1 else 1
    staged = teams * rows * min(columns * problem.out_bits // 8, 4 * _CHUNK)
    if problem.out_align < VECTOR:
        # Lines that begin at any element have room for a vector more.
        staged += teams * rows * VECTOR
    return (_RING - staged - others * rows * columns * _SUM_BYTES) // stage


def _end_cycles(schedule: Schedule, problem: Problem) -> float:
    """Cycles of a tile besides its steps."""
    assert schedule.tile is not None
    rows, columns, _ = schedule.tile
    values, swapped = values_of(schedule), schedule.swap_ab == "yes"
    each = _VALUE * (_SWAPPED_VALUE if swapped else 1.0)
    if problem.out_align < VECTOR:
        return _TILE + (each + _ALIGNED_VALUE) * values + _ALIGNED * rows * columns
    chunk = LINE * 8 // problem.out_bits
    while columns % chunk if swapped else columns < chunk:
        chunk //= 2
    steps = ceil_div(columns, chunk)
    lines = steps * chunk * max(1, rows // 64) if swapped else steps * rows
    return _TILE + each * values + _LINE_STORED * lines + _STORE * steps


def _transposed_extents(schedule: Schedule, problem: Problem) -> int:
    """Rows of A's tile and columns of B's, of those that are transposed in shared memory."""
    assert schedule.tile is not None
    sides = sides_of(schedule, problem)
    return sum(each for each, is_again in zip(schedule.tile[:2], sides, strict=True) if is_again)


def knows(problem: Problem) -> bool:
    """Whether the trees were fitted to problems of this kind."""
    is_loaded = min(problem.align, problem.out_align) >= VECTOR and not any(problem.transposed)
    is_narrow = max(problem.bits, problem.out_bits) <= _WIDEST
    return problem.batch == 1 and problem.k > 0 and is_narrow and is_loaded


def residue(schedule: Schedule, problem: Problem, estimate: float) -> float:
    """The logarithm of the time over the estimate, but for a share that all schedules of the
    problem have.
    """
    facts = facts_of(schedule, problem, estimate)
    total = 0
    for splits, leaves in TREES:
        node = 0
        while node < len(splits):
            fact, limit = splits[node]
            node = 2 * node + (2 if facts[fact] > limit else 1)
        total += leaves[node - len(splits)]
    return LEAF_UNIT * total


def facts_of(schedule: Schedule, problem: Problem, estimate: float) -> tuple[float, ...]:
    """What the trees compare, in the order of their numbers, of a schedule with all that is chosen.

    Of the logarithm of the estimate in cycles and the share of it that memory takes; of clusters:
    their CTAs, of these how many share panels of the longer and of the shorter operand; of
    clusters, how many read a panel of the longer operand, and how many panels there are; of rounds:
    how many, what of the last is empty, the CTAs of a full one; of tiles: the share of their values
    that are results; of bytes: how many times they come from L2 (logarithm), those of a step, with
    those that others of the cluster ask for, and those of all CTAs; of the steps of a CTA; of the
    depth (logarithm); of a tile: rows, columns, values, those of a thread, its depth in lines; of
    the schedule: whether the product is transposed, whether teams take turns, whether it starts
    early, its parts, negative where clusters share tiles; of the output: whether tiles begin within
    sectors, and within lines; of operands: bits, how many are across the depth, how much narrower
    boxes are than a line, to what rows are aligned; of the ring: stages; of the raster.
    """
    assert schedule.tile is not None
    assert schedule.cluster is not None
    (rows, columns, depth), (down, right) = schedule.tile, schedule.cluster
    size, parts = down * right, schedule.split_k or 1
    is_shared = schedule.reduction == "cluster"
    m, n = extents_of(schedule, problem)
    blocks = ceil_div(m, rows * down), ceil_div(n, columns * right)
    resident = RESIDENT[size] // size
    if is_shared:
        resident = CLUSTER_PARTS.get(parts, PROCESSORS) // parts * parts
    items = blocks_of(schedule, problem) * parts
    fill, active = items / resident, min(items, resident) * size
    is_wide = n >= m
    line = depth * problem.bits // 8
    step = (rows / right + columns / down) * line
    moved = memory_cycles((problem,))
    read = (m * blocks[1] + n * blocks[0]) * problem.k * problem.bits / 8
    is_swapped = schedule.swap_ab == "yes"
    segment = (rows if is_swapped else columns) * problem.out_bits // 8
    across = problem.across[::-1] if is_swapped else problem.across
    width = LINE * 8 // problem.bits
    return (
        log(estimate), moved / estimate,
        size, *((down, right) if is_wide else (right, down)),
        min(_READERS, blocks[not is_wide]), min(_PANELS, blocks[is_wide]),
        min(_ROUNDS, fill), ceil_div(items, resident) - fill, active,
        m * n * parts / (items * size * rows * columns),
        log(read / moved), step, (rows + columns) * line, step * active,
        ceil_div(ceil_div(problem.k, depth), parts), log(problem.k),
        rows, columns, rows * columns, rows * columns / (128 * warpgroups(schedule)), line // LINE,
        is_swapped, schedule.plan.teams > 1, schedule.early_launch == "yes",
        -parts if is_shared else parts,
        segment % _SECTOR > 0, segment % LINE > 0,
        problem.bits, sum(across), width / max(8, gcd(columns, width)) - 1 if across[1] else 0,
        min(problem.pitches),
        min(_STAGES, stages_of(schedule, problem)), min(schedule.raster or 1, blocks[0]),
    )  # fmt: skip
