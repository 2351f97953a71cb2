"""What a schedule of `gemm_schedules.py` is estimated to take, in cycles: of a step of the main
loop, of what a tile does besides, of the waves of tiles, and of memory. The constants of a device
are in `prices/`, whose page says what they were fitted to. Of 829 problems that were timed on an
H100, a launch at a time, what is chosen takes 1.032 of the best in the geometric mean, and 1.11 or
less for 95 % of them.

What it misses, as a share of the time, say regression trees over facts of a schedule and a problem,
where TMA copies operands of 8 and 16 bits and results of 16.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property, lru_cache
from types import SimpleNamespace
from typing import Any

import numpy as np

from cutedialect.allocation import LEAST_RESERVED_BYTES, Ring, SharedUse
from cutedialect.atoms import Device, target
from cutedialect.schedule import Schedule

from .gemm_problem import (
    LINE,
    MOST_BESIDE,
    OVERLAPPED,
    THREADS,
    VECTOR,
    WORD,
    Counts,
    Problem,
    Tiling,
    ceil_div,
    tiling_of,
)
from .price import NO_TREES, Trees, load, named, nearest

_GROUPS_BESIDE, _SHIFTED_BITS = 2, 16
_ATOM_COLUMNS = 8
_SUM_BYTES = 4
# Bits of operands and results of which the trees know, and bytes of memory that are written at
# once. Beyond the others a fact is taken to be as large.
_WIDEST = 16
_SECTOR = 32
_READERS, _PANELS, _ROUNDS, _STAGES = 16, 64, 8.0, 12
# Rows up to which sums with scales of blocks keep the constants of sums without.
_FITTED_ROWS = 64
# Decimals of a cycle that are compared: what is behind them differs from machine to machine.
_DECIMALS = 3
# What no time is divided by.
_LEAST_CYCLES = 1e-9
# CTAs of the largest cluster, and blocks of 64 rows of the tallest tile.
_MOST_CTAS, _MOST_BLOCKS = 16, 8


class GemmPrice(SimpleNamespace):
    """Constants of a device by their names, in cycles where `prices/README.md` names no other unit,
    and `trees`.
    """

    @property
    def processors(self) -> int:
        """Multiprocessors."""
        return self.resident[1]

    @cached_property
    def _tables(self) -> tuple[Counts, Counts, Counts]:
        """CTAs that run at one time by those of a cluster, the same of clusters that share a tile,
        and what is left of the fit.
        """
        resident, shared = (
            np.array([table.get(ctas, self.processors) for ctas in range(_MOST_CTAS + 1)])
            for table in (self.resident, self.cluster_parts)
        )
        factors = np.ones((2, _MOST_BLOCKS + 1, len(self.bands)))
        for teams, table in enumerate((self.factors, self.turns_factors)):
            for name, factor in table.items():
                rows, band = map(int, name.split("x"))
                factors[teams, rows // 64, list(self.bands).index(band)] = factor
        return resident, shared, factors

    def resident_ctas(self, ctas: Counts) -> Counts:
        """CTAs that run at one time in clusters of so many."""
        return self._tables[0][ctas]

    def blocks_at_once(self, tiling: Tiling) -> Counts:
        """Blocks, or parts of them, that are computed at one time."""
        alone = self.resident_ctas(tiling.ctas) // tiling.ctas
        shared = self._tables[1][tiling.parts] // tiling.parts * tiling.parts
        return np.where(tiling.in_cluster, shared, alone)

    def factor(self, tiling: Tiling) -> Counts:
        """What is left of the fit for tiles of an extent."""
        place = np.minimum(np.searchsorted(self.bands, tiling.columns), len(self.bands) - 1)
        return self._tables[2][np.where(tiling.teams, 1, 0), tiling.rows // 64, place]

    def scaled(self, of: Device, device: Device) -> GemmPrice:
        """The price of one device for another."""
        more = device.processors / of.processors
        memory = device.memory_bytes_per_cycle / of.memory_bytes_per_cycle
        counts = {
            name: {ctas: int(count * more) // ctas * ctas for ctas, count in table.items()}
            for name, table in vars(self).items()
            if name in ("resident", "cluster_parts")
        }
        rates = {"l2_all": self.l2_all * more, "memory_bytes": self.memory_bytes * memory}
        return self.replaced(**counts, **rates)

    def replaced(self, **constants: Any) -> GemmPrice:
        """The price with other constants, or trees."""
        known = {name: value for name, value in vars(self).items() if name != "_tables"}
        return GemmPrice(**known | constants)


@lru_cache(maxsize=4)
def gemm_price(device: Device) -> GemmPrice:
    """The price of products on a device, or that of the nearest one scaled for it."""
    of = nearest("gemm", device)
    known = load("gemm", of.file)
    price = constants_of(known.constants, known.trees)
    return price if of == device else price.scaled(of, device)


def constants_of(constants: Mapping[str, Any], trees: Trees = NO_TREES) -> GemmPrice:
    """A price with constants as a file has them."""
    return GemmPrice(**named(constants), trees=trees)


def scatters(tiling: Tiling) -> Counts:
    """Whether each of the CTAs that share a tile of a cluster goes on with columns of their own."""
    return tiling.in_cluster & (tiling.columns % (_ATOM_COLUMNS * tiling.parts) == 0)


def shifts_apart(tiling: Tiling, problem: Problem) -> Counts:
    """Whether a warpgroup shifts operands, of 16 bits, and does nothing else: beside few
    accumulators.
    """
    may_shift = problem.shifts and problem.bits == _SHIFTED_BITS and problem.may_shift
    few = (tiling.values <= MOST_BESIDE) & (tiling.groups <= _GROUPS_BESIDE)
    return np.logical_not(tiling.teams) & few & may_shift


def parts_readers(tiling: Tiling, problem: Problem) -> Counts:
    """Whether several clusters read each panel of the longer operand, which the CTAs of one cluster
    do not share.
    """
    m, n = problem.extents(tiling.swapped)
    below, beside = (
        (tiling.down == 1) & (m > tiling.rows),
        (tiling.right == 1) & (n > tiling.columns),
    )
    return np.where(n >= m, below, beside)


def knows(problem: Problem) -> bool:
    """Whether the trees were fitted to problems of this kind."""
    is_loaded = min(problem.align, problem.out_align) >= VECTOR and not any(problem.transposed)
    is_narrow = max(problem.bits, problem.out_bits) <= _WIDEST
    is_plain = problem.batch == 1 and problem.k > 0
    is_plain &= not (problem.widens or problem.promotes or problem.scaled)
    return is_plain and is_narrow and is_loaded


def norm(exponent: float, *parts: Counts) -> Counts:
    """More than the largest of some times, and less than their sum."""
    largest = np.maximum.reduce(np.broadcast_arrays(*parts, _LEAST_CYCLES))
    total: Counts = 0.0
    for part in parts:
        total = total + (part / largest) ** exponent
    return largest * total ** (1 / exponent)


def memory_cycles(problems: Sequence[Problem], price: GemmPrice) -> float:
    """Cycles in which memory moves the operands and results once."""
    moved = sum(
        each.batch
        * (
            (each.m * each.bits + each.n * (each.weight_bits or each.bits)) * each.k
            + each.m * each.n * each.out_bits
        )
        for each in problems
    )
    return moved / 8 / price.memory_bytes


def estimated(tiling: Tiling, problems: Sequence[Problem], price: GemmPrice) -> Counts:
    """Clock cycles that candidates are estimated to take for some problems that are one launch."""
    size = tiling.ctas
    resident = price.blocks_at_once(tiling)
    items = [each.blocks_of(tiling) * tiling.parts for each in problems]
    active = np.minimum(sum(items), resident) * size
    tiles = [_tile_cycles(tiling, each, price, active) for each in problems]
    memory = memory_cycles(problems, price)
    if len(tiles) == 1:
        waves = ceil_div(items[0], resident)
        walk = (waves + price.stragglers * (items[0] / resident - waves)) * tiles[0]
        walk += np.where(tiling.parts > 1, waves * _shared(tiling, price), 0.0)
        # What clusters that are apart read comes later.
        is_apart = (size > 1) & (items[0] <= resident) & parts_readers(tiling, problems[0])
        memory = np.where(is_apart, memory * price.apart, memory)
    else:
        work = sum(count * each for count, each in zip(items, tiles, strict=True))
        walk = work / resident + np.maximum.reduce(tiles) / 2
    hides_stores = tiling.teams | problems[0].in_tensor_memory
    last = np.where(hides_stores, price.last_value * tiling.values, 0.0)
    # Where scales leave columns for one accumulator alone, no multiply hides what a tile stores.
    stored = np.where(_stores_alone(tiling, problems[0]), sum(items) / resident, 1.0)
    walk += last * np.maximum(1.0, stored)
    # The factors are of loops that widen nothing, and add up nothing apart.
    is_other = problems[0].widens or problems[0].promotes
    left = 1.0 if is_other else price.factor(tiling)
    walk *= np.where(size > 1, price.cluster, 1.0) * left
    return np.round(price.launch + norm(price.memory_norm, walk, memory), _DECIMALS)


def _stores_alone(tiling: Tiling, problem: Problem) -> Counts:
    """Whether tensor memory holds one accumulator, and a tile begins when that has been stored."""
    columns = target(problem.device.arch).tmem_columns
    return problem.scaled > 0 and problem.tensor_columns(tiling, 2) > columns


def _shared(tiling: Tiling, price: GemmPrice) -> Counts:
    """Cycles in which the sums of a tile that CTAs share are added up."""
    values, parts = tiling.values, tiling.parts
    scattered = price.scatter + price.scatter_value * values
    in_cluster = price.sum + (price.sum_value + price.sum_part_value * parts) * values
    in_memory = price.share + (price.share_value + price.part_value * parts) * values
    found = np.where(tiling.in_cluster, in_cluster, in_memory)
    return np.where(scatters(tiling), scattered, found)


def _tile_cycles(tiling: Tiling, problem: Problem, price: GemmPrice, active: Counts) -> Counts:
    """Cycles from one tile, or one of the parts of one, to the next, on so many
    multiprocessors; of a sum that is scattered each part has some of the columns.
    """
    step, end = _step(tiling, problem, price, active), _end(tiling, problem, price)
    steps = ceil_div(ceil_div(problem.k, tiling.depth), tiling.parts) * step
    if problem.shifts:
        # What masks the end of the depth hides behind no other step.
        loaded = (tiling.rows + tiling.columns) * tiling.depth * problem.bits // 8
        beside, apart = price.shifted_edge
        steps += np.where(shifts_apart(tiling, problem), apart, beside) * loaded
    shared = np.where(scatters(tiling), tiling.parts, 1)
    whole = steps + (price.tile + (end - price.tile) / shared)
    # Of two that take turns one stores while the other multiplies.
    return np.where(tiling.teams, norm(price.teams_norm, steps, whole / 2), whole)


def _step(tiling: Tiling, problem: Problem, price: GemmPrice, active: Counts) -> Counts:
    """Cycles of a step of the main loop on so many multiprocessors."""
    rows, columns = tiling.rows, tiling.columns
    line = tiling.depth * problem.bits // 8
    atoms = rows // 64 * (line // 32)
    of_rows, of_columns = problem.lines(tiling)
    loaded = rows * of_rows + problem.held_columns(tiling) * of_columns
    loaded += problem.scale_bytes(tiling)
    again = problem.transposed_extents(tiling) * line
    shared = atoms * price.rows_read + loaded / price.shared_bytes
    # Boxes arrive, are read and written once more, and every block of 64 rows reads B.
    moved = loaded + 2 * again + rows * line + rows // 64 * columns * line
    shared = np.where(again > 0, np.maximum(shared, moved / price.shared_bytes), shared)
    multiplied = atoms * np.maximum(price.column * columns, price.multiply)
    alignment = 2 if problem.shifts else min(VECTOR, problem.align)
    byte, step = price.copies[alignment]
    apart = np.where(shifts_apart(tiling, problem), price.shifted_apart, 1.0)
    read = _read(tiling, problem, price)
    cycles = norm(
        price.step_norm, multiplied, shared, read / price.l2_bytes, read * active / price.l2_all,
        byte * apart * loaded + step, _widened(tiling, problem, price),
    )  # fmt: skip
    cycles += sum(problem.across) * price.across_step
    groups = tiling.groups
    if problem.bits == 8 * WORD and any(problem.across):
        words = multiplied / groups + price.read + price.read_block * rows / (64 * groups)
        reads = np.where(tiling.swapped, problem.across[1], problem.across[0])
        cycles = np.where(reads, np.maximum(cycles, words), cycles)
    # Where an operand is widened, each warpgroup waits for it, and then for what it multiplies.
    is_alone, size, stages = (groups == 1) | problem.widens, tiling.ctas, stages_of(tiling, problem)
    wait = np.where(tiling.teams, price.wait / 2, price.wait)
    beside = np.where(is_alone, *price.cluster_waits)
    doubled = price.cluster_doubled * np.log2(size / 2)
    joined = np.where(size > 1, beside + doubled, 0.0)
    if problem.widens:
        # Two that widen while they multiply hide that CTAs wait for each other.
        joined = np.where((columns >= OVERLAPPED) & (groups > 1), 0.0, 2 * joined)
        wait, stages = 2 * wait, stages * (line // LINE)
    cycles += np.where(is_alone, wait, 0.0) + joined
    if problem.promotes:
        cycles = _promoted(tiling, problem, price, cycles, multiplied)
    is_short = stages < price.few_stages
    return cycles * np.where(is_short, price.short_ring, 1.0)


def _promoted(
    tiling: Tiling, problem: Problem, price: GemmPrice, cycles: Counts, multiplied: Counts
) -> Counts:
    """Cycles of a step whose products threads scale and add up. Those of a warpgroup wait for its
    own multiply, or for the one before it, while others multiply.
    """
    is_fitted = any(problem.blocks[:2]) and problem.m > _FITTED_ROWS
    each, step, swapped = price.scaled_sums if is_fitted else price.promoted
    # Scales of columns are as many as values; of rows, or of a tile, few.
    values = tiling.values * np.where(tiling.swapped, swapped, 1.0)
    added = step + each * values
    alone = np.maximum(cycles, multiplied / tiling.groups + added)
    beside = norm(price.step_norm, cycles, tiling.groups * each * values)
    return np.where(problem.adds_beside(tiling), beside, alone)


def _read(tiling: Tiling, problem: Problem, price: GemmPrice) -> Counts:
    """Bytes of a step that a CTA reads from L2, as many times as they take longer."""
    swapped = tiling.swapped
    a, b = (
        price.copied_pitch if problem.shifts else price.pitches[max(16, min(LINE, pitch))]
        for pitch in problem.pitches
    )
    a, b = np.where(swapped, b, a), np.where(swapped, a, b)
    is_across = np.where(swapped, problem.across[0], problem.across[1])
    b = b * (1 + np.where(is_across, price.narrow_box * _narrowness(tiling, problem), 0.0))
    of_rows, of_columns = problem.lines(tiling)
    read = tiling.rows * a / tiling.right * of_rows + tiling.columns * b / tiling.down * of_columns
    return read + problem.scale_bytes(tiling)


def _widened(tiling: Tiling, problem: Problem, price: GemmPrice) -> Counts:
    """Cycles of a step in which elements of A become wider in registers: the warpgroups of a
    multiprocessor share what converts them.
    """
    if not problem.widens:
        return 0.0
    return price.widened * tiling.rows * tiling.depth / THREADS


def _narrowness(tiling: Tiling, problem: Problem) -> Counts:
    """How much narrower than a line boxes of B are that lie across the depth."""
    width = LINE * 8 // problem.bits
    return width / np.maximum(8, np.gcd(tiling.columns, width)) - 1


def _end(tiling: Tiling, problem: Problem, price: GemmPrice) -> Counts:
    """Cycles of a tile besides its steps."""
    rows, columns, swapped = tiling.rows, tiling.columns, tiling.swapped
    each = price.value * np.where(swapped, price.swapped_value, 1.0)
    if problem.out_align < VECTOR:
        each += price.aligned_value
        return price.tile + each * tiling.values + price.aligned * rows * columns
    most = LINE * 8 // problem.out_bits
    # The widest power of two that divides the columns, or that is no wider than they are.
    chunk = np.minimum(most, 1 << np.log2(columns).astype(int))
    chunk = np.where(swapped, np.gcd(columns, most), chunk)
    steps = ceil_div(columns, chunk)
    lines = steps * np.where(swapped, chunk * np.maximum(1, rows // 64), rows)
    return price.tile + each * tiling.values + price.line_stored * lines + price.store * steps


def cycles(schedule: Schedule, *problems: Problem) -> float:
    """Estimated clock cycles of a schedule on a problem, or on several in one launch."""
    return float(estimated(tiling_of(schedule), problems, gemm_price(problems[0].device)))


def stages_of(tiling: Tiling, problem: Problem, others: Counts = 0) -> Counts:
    """Stages of the ring, beside results and the sums of so many other CTAs."""
    stage, staged = problem.shared_use(tiling)
    ring = target(problem.device.arch).smem_per_cta - LEAST_RESERVED_BYTES - staged
    return (ring - others * tiling.rows * tiling.columns * _SUM_BYTES) // stage


def shared_bytes(tiling: Tiling, problem: Problem, stages: int) -> int:
    """Bytes of shared memory of a CTA with so many stages, as they are allocated later."""
    stage, staged = problem.shared_use(tiling)
    use = SharedUse(0, kept=int(staged), rings=(Ring(int(stage)),), signaled=1)
    return -use.left(stages)


def facts_of(
    tiling: Tiling,
    problem: Problem,
    price: GemmPrice,
    cycles: Counts,
    raster: Counts,
    early: Counts,
) -> dict[str, Counts]:
    """What the trees compare (`prices/README.md`), of candidates with their cycles, rasters, and
    whether they start early.
    """
    rows, columns, size, swapped = tiling.rows, tiling.columns, tiling.ctas, tiling.swapped
    m, n = problem.extents(swapped)
    below, beside = problem.blocks_along(tiling)
    resident = price.blocks_at_once(tiling)
    items = problem.blocks_of(tiling) * tiling.parts
    fill, active = items / resident, np.minimum(items, resident) * size
    is_wide = n >= m
    line = tiling.depth * problem.bits // 8
    step = (rows / tiling.right + columns / tiling.down) * line
    read = (m * beside + n * below) * problem.k * problem.bits / 8
    segment = np.where(swapped, rows, columns) * problem.out_bits // 8
    across = np.where(swapped, problem.across[0], problem.across[1])
    memory = memory_cycles((problem,), price)
    facts = {
        "log_estimate": np.log(cycles),
        "memory_share": memory / cycles,
        "cluster_ctas": size,
        "cluster_long": np.where(is_wide, tiling.down, tiling.right),
        "cluster_short": np.where(is_wide, tiling.right, tiling.down),
        "readers": np.minimum(_READERS, np.where(is_wide, below, beside)),
        "panels": np.minimum(_PANELS, np.where(is_wide, beside, below)),
        "rounds": np.minimum(_ROUNDS, fill),
        "last_round_empty": ceil_div(items, resident) - fill,
        "active_ctas": active,
        "results_share": m * n * tiling.parts / (items * size * rows * columns),
        "log_rereads": np.log(read / memory),
        "step_bytes": step,
        "stage_bytes": (rows + columns) * line,
        "step_bytes_of_all": step * active,
        "steps": ceil_div(ceil_div(problem.k, tiling.depth), tiling.parts),
        "log_depth": np.log(problem.k),
        "rows": rows,
        "columns": columns,
        "tile_values": rows * columns,
        "thread_values": tiling.values,
        "lines": line // LINE,
        "swapped": swapped,
        "turns": tiling.teams,
        "early": early,
        "parts": np.where(tiling.in_cluster, -tiling.parts, tiling.parts),
        "within_sectors": segment % _SECTOR > 0,
        "within_lines": segment % LINE > 0,
        "bits": problem.bits,
        "across": sum(problem.across),
        "narrow_boxes": np.where(across, _narrowness(tiling, problem), 0.0),
        "pitch": min(problem.pitches),
        "stages": np.minimum(_STAGES, stages_of(tiling, problem)),
        "raster": np.minimum(raster, below),
    }
    return dict(zip(facts, np.broadcast_arrays(*facts.values()), strict=True))
