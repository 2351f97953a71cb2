"""What a schedule of `gemm_schedules.py` is estimated to take, in cycles: of a step of the main
loop, of what a tile does besides, of the waves of tiles, and of memory. The constants of a device
are in `prices/`, fitted to timings (benchmarks/NOTES.md). On problems that the fit for an H100 did
not see what is chosen by it takes 1.027 of the best time of those that were timed in the geometric
mean: layers of language models 1.018, other majors and sizes 1.03, odd sizes 1.045, 1.5 at worst.

What it misses, as a share of the time, say regression trees over facts of a schedule and a problem,
where TMA copies operands of 8 and 16 bits and results of 16.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, log, log2
from typing import Any, NamedTuple

from cutedialect.choices import Reduction
from cutedialect.schedule import Schedule

from .gemm_problem import (
    MOST_BESIDE,
    VECTOR,
    WORD,
    Problem,
    Tiling,
    ceil_div,
    tiling_of,
)
from .price import NO_TREES, Trees, load

LINE = 128
_GROUPS_BESIDE, _SHIFTED_BITS = 2, 16
_ATOM_COLUMNS = 8
# Bytes of shared memory for a ring, beside barriers and the results of two chunks of columns.
_RING = 226 * 1024
_CHUNK = 64
_SUM_BYTES = 4
# Bits of operands and results of which the trees know, and bytes of memory that are written at
# once. Beyond the others a fact is taken to be as large.
_WIDEST = 16
_SECTOR = 32
_READERS, _PANELS, _ROUNDS, _STAGES = 16, 64, 8.0, 12


@dataclass(frozen=True)
class GemmPrice:
    """Constants of a device, in cycles where no other unit is named.

    resident: CTAs that run at one time in clusters of so many that multicast; cluster_parts: the
    same of clusters whose CTAs share a tile, by how many they are. least_felt, shared_round: of how
    much of a round at least is felt, and of how much at most its tiles may be shared.
    column, multiply: of a multiply of 64 rows and 32 bytes of depth, for each column, and at least;
    rows_read: in which shared memory reads the rows, shared_bytes: what it takes in one.
    l2_bytes, l2_all: bytes that one multiprocessor gets from L2, and all of them. pitches: how many
    times as long rows take that begin at multiples of no more than so many bytes, copied_pitch:
    those that are shifted; across_step: for each step with an operand that is contiguous across the
    depth, narrow_box: what a box of it takes more that is half as wide as a line.
    copies: for each byte that threads copy, and for each step, by the alignment of rows in bytes;
    shifted_apart: so many times as long where a warpgroup does nothing but shift, shifted_edge: for
    each byte of a tile's last step, elsewhere and there.
    step_norm, teams_norm, memory_norm: the exponents with which the parts of a step, the two teams
    that take turns, and multiprocessors and memory, add up.
    wait: a step of a lone warpgroup, half as many where two take turns; cluster_waits: for the
    other CTAs of a cluster, alone or beside others, cluster_doubled: more for each doubling of it;
    cluster: all of a cluster is so many times as long; short_ring: a step of fewer than few_stages.
    read, read_block: in which a warpgroup reads words of A to registers, and for each 64 rows.
    tile, value: of a tile besides its steps, at least, and for each accumulator of a thread;
    aligned_value, aligned: more for each and for each of the tile where lines of the output begin
    at any element. line_stored, store: of each line that TMA stores, and of each time that it is
    told to; swapped_value: of a value of the transposed product so many times as much.
    share, share_value, part_value: where CTAs share the tile, in all, for each accumulator, and for
    each of each part; sum, ...: of a cluster; scatter, ...: of one whose CTAs have columns of their
    own. last_value: the last tile's stores, where multiplies hide those of the others. stragglers:
    what of a last wave that is not full is not felt. launch: of a launch; memory_bytes: from memory
    in one; apart: how many times as long memory takes where clusters that read one panel are apart.
    factors, turns_factors: what is left of the fit for tiles of so many rows, and columns up to one
    of `bands`; the same where two take turns.
    """

    resident: Mapping[int, int]
    cluster_parts: Mapping[int, int]
    least_felt: float
    shared_round: float
    column: float
    multiply: float
    rows_read: float
    shared_bytes: float
    l2_bytes: float
    l2_all: float
    pitches: Mapping[int, float]
    across_step: float
    narrow_box: float
    copies: Mapping[int, Sequence[float]]
    shifted_apart: float
    shifted_edge: Sequence[float]
    copied_pitch: float
    step_norm: float
    teams_norm: float
    memory_norm: float
    wait: float
    cluster_waits: Sequence[float]
    cluster_doubled: float
    cluster: float
    few_stages: int
    short_ring: float
    read: float
    read_block: float
    tile: float
    value: float
    aligned_value: float
    aligned: float
    line_stored: float
    store: float
    swapped_value: float
    share: float
    share_value: float
    part_value: float
    sum: float
    sum_value: float
    sum_part_value: float
    scatter: float
    scatter_value: float
    last_value: float
    stragglers: float
    launch: float
    memory_bytes: float
    apart: float
    bands: Sequence[int]
    factors: Mapping[str, float]
    turns_factors: Mapping[str, float]
    trees: Trees

    @property
    def processors(self) -> int:
        """Multiprocessors."""
        return self.resident[1]

    def factor(self, rows: int, columns: int, teams: bool) -> float:
        """What is left of the fit for tiles of an extent."""
        place = bisect_left(self.bands, columns)
        band = self.bands[min(place, len(self.bands) - 1)]
        return (self.turns_factors if teams else self.factors).get(f"{rows}x{band}", 1.0)


@lru_cache(maxsize=4)
def gemm_price(device: str) -> GemmPrice:
    """The price of products on a device."""
    price = load("gemm", device)
    return constants_of(price.constants, price.trees)


def constants_of(constants: Mapping[str, Any], trees: Trees = NO_TREES) -> GemmPrice:
    """A price with constants as a file has them."""
    tables = ("resident", "cluster_parts", "pitches", "copies")
    read: dict[str, Any] = {
        name: {int(key): each for key, each in value.items()} if name in tables else value
        for name, value in constants.items()
    }
    return GemmPrice(**read, trees=trees)


def scatters(tiling: Tiling, parts: int) -> bool:
    """Whether each of the CTAs that share a tile of a cluster goes on with columns of their own."""
    return tiling.columns % (_ATOM_COLUMNS * parts) == 0


def shifts_apart(tiling: Tiling, problem: Problem) -> bool:
    """Whether a warpgroup shifts operands, of 16 bits, and does nothing else: beside few
    accumulators.
    """
    if not problem.shifts or problem.bits != _SHIFTED_BITS or tiling.teams:
        return False
    few = tiling.values <= MOST_BESIDE and tiling.groups <= _GROUPS_BESIDE
    return problem.may_shift and few


def parts_readers(tiling: Tiling, problem: Problem) -> bool:
    """Whether several clusters read each panel of the longer operand, which the CTAs of one cluster
    do not share.
    """
    m, n = problem.extents(tiling.swapped)
    if n >= m:
        return tiling.down == 1 and m > tiling.rows
    return tiling.right == 1 and n > tiling.columns


def knows(problem: Problem) -> bool:
    """Whether the trees were fitted to problems of this kind."""
    is_loaded = min(problem.align, problem.out_align) >= VECTOR and not any(problem.transposed)
    is_narrow = max(problem.bits, problem.out_bits) <= _WIDEST
    return problem.batch == 1 and problem.k > 0 and is_narrow and is_loaded


def _norm(exponent: float, *parts: float) -> float:
    """More than the largest of some times, and less than their sum."""
    largest = max(parts)
    if largest == 0:
        return 0.0
    total = 0.0
    for part in parts:
        total += (part / largest) ** exponent
    return largest * total ** (1 / exponent)


class Estimate:
    """What schedules are estimated to take for some problems that are one launch."""

    def __init__(self, problems: tuple[Problem, ...], price: GemmPrice) -> None:
        self.price, self._problems = price, problems
        self._steps = [_Steps(problem, price) for problem in problems]
        moved = sum(
            each.batch * ((each.m + each.n) * each.k * each.bits + each.m * each.n * each.out_bits)
            for each in problems
        )
        self.memory = moved / 8 / price.memory_bytes
        """Cycles in which memory moves the operands and results once."""

    def cycles(self, tiling: Tiling, parts: int, reduction: Reduction | None) -> float:
        """Estimated clock cycles, where so many CTAs share a tile."""
        price = self.price
        size = tiling.down * tiling.right
        resident = price.resident[size] // size
        in_cluster = reduction == "cluster"
        scattered = in_cluster and scatters(tiling, parts)
        if in_cluster:
            resident = price.cluster_parts.get(parts, price.processors) // parts * parts
        items = [each.blocks_of(tiling) * parts for each in self._problems]
        active = min(sum(items), resident) * size
        tiles = [each.tile_cycles(tiling, parts, active, scattered) for each in self._steps]
        waves = 1
        if len(tiles) == 1:
            waves = ceil_div(items[0], resident)
            walk = (waves + price.stragglers * (items[0] / resident - waves)) * tiles[0]
        else:
            work = sum(count * each for count, each in zip(items, tiles, strict=True))
            walk = work / resident + max(tiles) / 2
        if parts > 1:
            walk += waves * self._shared(tiling, parts, in_cluster, scattered)
        if tiling.teams:
            walk += price.last_value * tiling.values
        walk *= (price.cluster if size > 1 else 1.0) * price.factor(
            tiling.rows, tiling.columns, tiling.teams
        )
        memory = self.memory
        if len(tiles) == 1 and size > 1 and items[0] <= resident:
            memory *= price.apart if parts_readers(tiling, self._problems[0]) else 1.0
        return price.launch + _norm(price.memory_norm, walk, memory)

    def _shared(self, tiling: Tiling, parts: int, in_cluster: bool, scattered: bool) -> float:
        """Cycles in which the sums of a tile that CTAs share are added up."""
        price, values = self.price, tiling.values
        if scattered:
            return price.scatter + price.scatter_value * values
        if in_cluster:
            return price.sum + (price.sum_value + price.sum_part_value * parts) * values
        return price.share + (price.share_value + price.part_value * parts) * values

    def floor(self, tiling: Tiling) -> Callable[[int, int], float]:
        """Fewer cycles than a problem is estimated to take with some tiles, for so many blocks of
        clusters of so many CTAs: nothing is read from L2, which differs from cluster to cluster.
        """
        price, memory = self.price, self.memory
        tile = self._steps[0].tile_cycles(tiling, 1, 0, False)
        last = price.last_value * tiling.values if tiling.teams else 0.0
        factor = price.factor(tiling.rows, tiling.columns, tiling.teams)

        def cycles(blocks: int, size: int) -> float:
            resident = price.resident[size] // size
            waves = -(-blocks // resident)
            walk = (waves + price.stragglers * (blocks / resident - waves)) * tile + last
            walk *= (price.cluster if size > 1 else 1.0) * factor
            return price.launch + _norm(price.memory_norm, walk, memory)

        return cycles

    def least(self, rows: int, columns: int, count: int) -> float:
        """Fewer cycles than what is estimated for so many tiles of a problem in any cluster."""
        price, problem = self.price, self._problems[0]
        # Few tiles are shared by the CTAs that are left.
        rounds = count / price.processors
        if rounds > price.shared_round:
            rounds = ceil_div(count, price.processors) * price.least_felt
        line = LINE * 8 // problem.bits
        step = rows // 64 * LINE // 32 * max(price.column * columns, price.multiply)
        walk = rounds * ceil_div(problem.k, line) * max(step, rows + columns)
        walk *= price.factor(rows, columns, False)
        return price.launch + _norm(price.memory_norm, walk, self.memory)


class _Unit(NamedTuple):
    """Of a step in any cluster: bytes of a line; rows of A and columns of B, as many times as they
    take longer from L2; cycles in which is multiplied, and in which shared memory and threads move
    operands; those more of operands across the depth; those of words that are read to registers at
    least; how many times as long a short ring takes.
    """

    line: int
    a: float
    b: float
    multiplied: float
    shared: float
    copied: float
    across: float
    words: float
    ring: float


class _Steps:
    """What the tiles of a problem take; what several schedules share is computed once."""

    def __init__(self, problem: Problem, price: GemmPrice) -> None:
        self._problem, self._price = problem, price
        self._known: dict[tuple[Tiling, int], tuple[float, float]] = {}
        self._units: dict[Tiling, _Unit] = {}

    def tile_cycles(self, tiling: Tiling, parts: int, active: int, scattered: bool) -> float:
        """Cycles from one tile, or one of the parts of one, to the next, on so many
        multiprocessors; of a sum that is `scattered` each part has some of the columns.
        """
        price, problem = self._price, self._problem
        key = (tiling if active else tiling.alone, active)
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = self._step(*key), self._end(tiling)
        step, end = known
        steps = ceil_div(ceil_div(problem.k, tiling.depth), parts) * step
        if problem.shifts:
            # What masks the end of the depth hides behind no other step.
            loaded = (tiling.rows + tiling.columns) * tiling.depth * problem.bits // 8
            steps += price.shifted_edge[shifts_apart(tiling, problem)] * loaded
        whole = steps + (price.tile + (end - price.tile) / parts if scattered else end)
        # Of two that take turns one stores while the other multiplies.
        return _norm(price.teams_norm, steps, whole / 2) if tiling.teams else whole

    def _step(self, tiling: Tiling, active: int) -> float:
        """Cycles of a step of the main loop on so many multiprocessors; on none, without what is
        read from L2.
        """
        price = self._price
        alone = tiling.alone
        unit = self._units.get(alone)
        if unit is None:
            unit = self._units[alone] = self._unit(alone)
        read = (unit.a / tiling.right + unit.b / tiling.down) * unit.line
        found = _norm(
            price.step_norm,
            unit.multiplied,
            unit.shared,
            read / price.l2_bytes if active else 0.0,
            read * active / price.l2_all,
            unit.copied,
        )
        found += unit.across
        found = max(found, unit.words)
        is_alone = tiling.groups == 1
        if is_alone:
            found += price.wait / 2 if tiling.teams else price.wait
        if tiling.down * tiling.right > 1:
            found += price.cluster_waits[0 if is_alone else 1]
            found += price.cluster_doubled * log2(tiling.down * tiling.right / 2)
        return found * unit.ring

    def _unit(self, tiling: Tiling) -> _Unit:
        """What a step takes in any cluster."""
        price, problem = self._price, self._problem
        rows, columns = tiling.rows, tiling.columns
        line = tiling.depth * problem.bits // 8
        atoms = rows // 64 * (line // 32)
        loaded = (rows + columns) * line
        again = problem.transposed_extents(tiling) * line
        shared = atoms * price.rows_read + loaded / price.shared_bytes
        if again:
            # Boxes arrive, are read and written once more, and every block of 64 rows reads B.
            moved = loaded + 2 * again + rows * line + rows // 64 * columns * line
            shared = max(shared, moved / price.shared_bytes)
        pitches, across = problem.pitches, problem.across
        if tiling.swapped:
            pitches, across = pitches[::-1], across[::-1]
        a, b = (price.pitches[max(16, min(128, pitch))] for pitch in pitches)
        if problem.shifts:
            a = b = price.copied_pitch
        width = LINE * 8 // problem.bits
        if across[1]:
            b *= 1 + price.narrow_box * (width / max(8, gcd(columns, width)) - 1)
        each, step = price.copies[2 if problem.shifts else min(16, problem.align)]
        each *= price.shifted_apart if shifts_apart(tiling, problem) else 1.0
        multiplied = atoms * max(price.column * columns, price.multiply)
        words = 0.0
        if across[0] and problem.bits == 8 * WORD:
            groups = tiling.groups
            read = price.read + price.read_block * rows / (64 * groups)
            words = multiplied / groups + read
        is_short = stages_of(tiling, problem) < price.few_stages
        return _Unit(
            line, rows * a, columns * b, multiplied, shared, each * loaded + step,
            sum(across) * price.across_step, words, price.short_ring if is_short else 1.0,
        )  # fmt: skip

    def _end(self, tiling: Tiling) -> float:
        """Cycles of a tile besides its steps."""
        price, problem = self._price, self._problem
        rows, columns, swapped = tiling.rows, tiling.columns, tiling.swapped
        each = price.value * (price.swapped_value if swapped else 1.0)
        if problem.out_align < VECTOR:
            each += price.aligned_value
            return price.tile + each * tiling.values + price.aligned * rows * columns
        chunk = LINE * 8 // problem.out_bits
        while columns % chunk if swapped else columns < chunk:
            chunk //= 2
        steps = ceil_div(columns, chunk)
        lines = steps * chunk * max(1, rows // 64) if swapped else steps * rows
        return price.tile + each * tiling.values + price.line_stored * lines + price.store * steps


def cycles(schedule: Schedule, *problems: Problem, device: str = "h100") -> float:
    """Estimated clock cycles of a schedule on a problem, or on several in one launch."""
    estimate = Estimate(problems, gemm_price(device))
    return estimate.cycles(tiling_of(schedule), schedule.split_k or 1, schedule.reduction)


def stages_of(tiling: Tiling, problem: Problem, others: int = 0) -> int:
    """Stages of the ring, beside results and the sums of so many other CTAs."""
    rows, columns = tiling.rows, tiling.columns
    line = tiling.depth * problem.bits // 8
    stage = (rows + columns + problem.transposed_extents(tiling)) * line
    if problem.shifts:
        stage += (rows + columns) * (line + VECTOR)
    teams = 2 if tiling.teams else 1
    staged = teams * rows * min(columns * problem.out_bits // 8, 4 * _CHUNK)
    if problem.out_align < VECTOR:
        # Lines that begin at any element have room for a vector more.
        staged += teams * rows * VECTOR
    return (_RING - staged - others * rows * columns * _SUM_BYTES) // stage


def facts_of(
    schedule: Schedule, problem: Problem, cycles: float, estimate: Estimate
) -> dict[str, float]:
    """What the trees compare, of a schedule with all that is chosen and its cycles.

    cluster_long, cluster_short: CTAs of a cluster that share panels of the longer and of the
    shorter operand; readers: clusters that read a panel of the longer one, of which there are so
    many panels. last_round_empty: a share of a round. results_share: of the values of tiles.
    log_rereads: how many times bytes come from L2. step_bytes: with those that others of the
    cluster ask for; stage_bytes: without. steps: of a CTA. lines: of the depth of a tile. parts:
    negative where clusters share tiles. within_sectors, within_lines: whether tiles begin within
    those of the output. across: operands that are contiguous across the depth; narrow_boxes: how
    much narrower their boxes are than a line. pitch: to what rows are aligned.
    """
    tiling, price = tiling_of(schedule), estimate.price
    rows, columns, depth, down, right, is_turned, is_swapped = tiling
    size, parts = down * right, schedule.split_k or 1
    is_shared = schedule.reduction == "cluster"
    m, n = problem.extents(is_swapped)
    blocks = ceil_div(m, rows * down), ceil_div(n, columns * right)
    resident = price.resident[size] // size
    if is_shared:
        resident = price.cluster_parts.get(parts, price.processors) // parts * parts
    items = problem.blocks_of(tiling) * parts
    fill, active = items / resident, min(items, resident) * size
    is_wide = n >= m
    line = depth * problem.bits // 8
    step = (rows / right + columns / down) * line
    read = (m * blocks[1] + n * blocks[0]) * problem.k * problem.bits / 8
    segment = (rows if is_swapped else columns) * problem.out_bits // 8
    across = problem.across[::-1] if is_swapped else problem.across
    width = LINE * 8 // problem.bits
    return {
        "log_estimate": log(cycles),
        "memory_share": estimate.memory / cycles,
        "cluster_ctas": size,
        "cluster_long": down if is_wide else right,
        "cluster_short": right if is_wide else down,
        "readers": min(_READERS, blocks[not is_wide]),
        "panels": min(_PANELS, blocks[is_wide]),
        "rounds": min(_ROUNDS, fill),
        "last_round_empty": ceil_div(items, resident) - fill,
        "active_ctas": active,
        "results_share": m * n * parts / (items * size * rows * columns),
        "log_rereads": log(read / estimate.memory),
        "step_bytes": step,
        "stage_bytes": (rows + columns) * line,
        "step_bytes_of_all": step * active,
        "steps": ceil_div(ceil_div(problem.k, depth), parts),
        "log_depth": log(problem.k),
        "rows": rows,
        "columns": columns,
        "tile_values": rows * columns,
        "thread_values": tiling.values,
        "lines": line // LINE,
        "swapped": is_swapped,
        "turns": is_turned,
        "early": schedule.early_launch == "yes",
        "parts": -parts if is_shared else parts,
        "within_sectors": segment % _SECTOR > 0,
        "within_lines": segment % LINE > 0,
        "bits": problem.bits,
        "across": sum(across),
        "narrow_boxes": width / max(8, gcd(columns, width)) - 1 if across[1] else 0,
        "pitch": min(problem.pitches),
        "stages": min(_STAGES, stages_of(tiling, problem)),
        "raster": min(schedule.raster or 1, blocks[0]),
    }
