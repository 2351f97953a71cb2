"""The schedules from which attention chooses: tiles of rows and keys, by warps that multiply alone,
by warpgroups, or in tensor memory, and what goes with each of them. Both are rows of
`prices/attention-rules.json`; here is in which order they are asked, and what of them fits.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from math import ceil, inf

from cutedialect.schedule import Schedule

from .attention_parameters import facts_of, registers, takes_turns
from .attention_price import keys_seen, pays_in_pairs, time_of
from .attention_problem import GROUP_ROWS, PRICE, RULES, WIDE, AttentionProblem
from .need import Limits, Need, bytes_of_tile, extents
from .rules import Table

# Rows that a warp multiplies at once, and keys that a multiply takes.
_ROWS, _LEAST_KEYS = 16, 16
# Shared memory beside a tile of q and stages of k and v: of one whose results pass through it, of
# one of tensor memory whose results do not, and of wide heads. Bytes of a vector.
_BESIDE_BYTES, _BESIDE_DIRECT_BYTES, _BESIDE_WIDE_BYTES, _VECTOR_BYTES = 4096, 3072, 2048, 16
# Of other targets: warps that shift rows into place, the most that share a tile, and the columns of
# a multiply, of which each warp has as many as the others.
_SHIFTING_WARPS, _MOST_WARPS, _ATOM_COLUMNS = 4, 8, 8
# Lanes of tensor memory, and what columns of results of CTA pairs are a multiple of.
_LANES, _PAIRED_COLUMNS = 128, 32
# What lacked registers has given way so often.
_MOST_STEPS = 8
_NO_FIELDS = Table(())


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
        is_whole = given.is_complete and given.tile is not None
        multiplied = sum(problem.dims) * problem.bits_q // 16
        exponentials = RULES.polynomials.first(problem, multiplied=multiplied)
        for schedule in (given,) if is_whole else _Candidates(problem, given).listed():
            if schedule != before and self.need(problem, schedule).smem < limits.smem:
                yield schedule if exponentials is None else exponentials.merged(schedule)
            before = schedule

    def need(self, problem: AttentionProblem, schedule: Schedule) -> Need:
        """Registers of threads of warpgroups, and bytes of a tile with its stages, two where these
        are open.
        """
        smem = _tile_bytes(problem, schedule, schedule.stages or 2)
        if not problem.on_groups or problem.widest > WIDE:
            return Need(smem=smem)
        return Need(*registers(problem, schedule, schedule.unroll or 1), smem)


ATTENTION = AttentionSpace()


@dataclass(frozen=True)
class _Candidates:
    """The schedules of a problem with the fields that are given."""

    problem: AttentionProblem
    given: Schedule

    def listed(self) -> Iterator[Schedule]:
        """Two blocks of keys that take turns where that pays, then loops of one."""
        if RULES.may_turn.first(self.problem, given=self.given):
            turns = next(self._loops_of_one(in_turns=True))
            if takes_turns(self.problem, turns):
                yield turns.merged(Schedule(unroll=2)).merged(self.given)
        yield from self._loops_of_one()

    def _loops_of_one(self, in_turns: bool = False) -> Iterator[Schedule]:
        """Loops of one block: CTAs that share a processor, what is fastest of all that was timed,
        results in tensor memory, then tiles of fewer and fewer keys.
        """
        problem, first, most = self.problem, 0, inf
        if problem.widest > WIDE:
            yield from self._wide()
            return
        yield from self._resident()
        if RULES.has_narrow_caches.first(problem, given=self.given):
            # Rows that are not known are many.
            rows = inf if problem.rows is None else problem.rows
            for tile in RULES.narrow_caches.each(problem, rows=rows):
                # As where these fields are given: the others follow from them.
                schedule = _Candidates(problem, tile.merged(self.given))._shared()
                most = extents(schedule)[1]
                yield schedule
        for schedule in self._in_tensor_memory():
            first = 1
            yield schedule
        steps = (self._shared(step, in_turns) for step in range(first, _MOST_STEPS))
        yield from (schedule for schedule in steps if extents(schedule)[1] <= most)

    def _shared(self, step: int = 0, in_turns: bool = False) -> Schedule:
        """A tile that warps or warpgroups share, after so many steps that leave registers."""
        problem, three = self.problem, RULES.three_groups.first(self.problem)
        if three is None:
            three = time_of(problem, 3 * GROUP_ROWS) <= time_of(problem, 2 * GROUP_ROWS)
        keys = RULES.most_keys.first(problem, for_three=three, in_turns=in_turns)
        keys = _fewer_keys(problem, keys - RULES.fewer_keys.first(problem), step)
        if not problem.on_groups:
            # Shared memory of sm_75 does not hold as many of some heads beside any rows.
            while keys > _LEAST_KEYS and not _fits(problem, Schedule(tile=(_ROWS, keys))):
                keys //= 2
        heights = RULES.heights.first(problem, for_three=three)
        fit = [rows for rows in heights if _fits(problem, Schedule(tile=(rows, keys)))]
        rows = min(fit or heights[-1:], key=partial(time_of, problem))
        if not problem.on_groups:
            return self._on_warps(rows, keys, step)
        if rows == GROUP_ROWS and RULES.is_wide_and_short.first(problem):
            # More stages than of larger blocks.
            keys = min(keys, GROUP_ROWS)
        return self._filled(RULES.group_fields, Schedule(tile=(rows, keys)), step)

    def _on_warps(self, rows: int, keys: int, step: int) -> Schedule:
        """Several warps may share the rows by columns, twice as many with each step: threads that
        shift rows into place hold many elements of a block, and 16 rows of a result in one warp
        leave no registers for these.
        """
        problem, given = self.problem, self.given
        if problem.has_tensor_memory and given.plan.taking("tensor_multiplies"):
            # Scores in tensor memory have all of its lanes for each role that computes.
            rows = _LANES * given.plan.parts
        atoms = rows // _ROWS
        columns = max(1, _SHIFTING_WARPS // atoms) if problem.is_shifted else 1
        columns = min(columns << step, max(1, _MOST_WARPS // atoms))
        even = keys | problem.columns
        columns = min(columns, max(1, (even & -even) // _ATOM_COLUMNS))
        is_open = given.tile is given.warps is given.roles is None
        warps = (atoms, columns) if columns > 1 and is_open else None
        return self._filled(_NO_FIELDS, Schedule(tile=(rows, keys), warps=warps))

    def _in_tensor_memory(self) -> list[Schedule]:
        """The plans that keep results in tensor memory, the longest blocks of keys first: of pairs
        where these take less time, or longer ones where pairs are given.
        """
        problem, given = self.problem, self.given
        fills, odd = problem.fills_one_wave(_LANES), problem.columns % _PAIRED_COLUMNS
        tiles = RULES.tensor_tiles.each(problem, given=given, fills_tiles=fills, odd_pairs=odd)
        fit = [tile for tile in tiles if _fits(problem, tile)]
        alone = [extents(tile) for tile in fit if tile.cluster is None]

        def pays(tile: Schedule) -> bool:
            rows, keys = extents(tile)
            others = [each for height, each in alone if height == rows]
            if tile.cluster is None or given.cluster is not None:
                return tile.cluster is None or (_is_paired(given) and keys > max(others, default=0))
            return not problem.fills_one_wave(rows) and pays_in_pairs(problem, rows, keys, others)

        listed = [self._filled(RULES.tensor_fields, tile) for tile in fit if pays(tile)]
        return [each for each in listed if extents(each)[0] == extents(listed[0])[0]]

    def _wide(self) -> Iterator[Schedule]:
        """Tiles of wide heads, with as many stages as shared memory holds."""
        fits, odd = partial(_fits, self.problem), self.problem.columns % WIDE
        tiles = list(RULES.wide_tiles.each(self.problem, odd_columns=odd))
        for tile in [tile for tile in tiles if fits(tile, stages=1)] or tiles[-1:]:
            stages = range(PRICE.wide_stages, 1, -1)
            stages = next((each for each in stages if fits(tile, each)), 1)
            yield self._filled(RULES.wide_fields, tile.merged(Schedule(stages=stages)))

    def _resident(self) -> Iterator[Schedule]:
        """CTAs of one warpgroup that share a processor, where that pays."""
        problem, rounds = self.problem, self.problem.rounds(GROUP_ROWS)
        if problem.on_groups and rounds:
            seen = max(keys_seen(problem, GROUP_ROWS), default=None)
            facts = {"turns": ceil(rounds), "seen": seen, "given": self.given}
            tile: Schedule | None = RULES.resident.first(problem, **facts)
            if tile is not None:
                rows, keys = extents(tile)
                tile = tile.merged(Schedule(tile=(rows, _known(problem, keys))))
                yield self._filled(RULES.resident_fields, tile)

    def _filled(self, table: Table, tile: Schedule, step: int = 0) -> Schedule:
        """A tile with what goes with it by a table, and the order of such tiles."""
        problem, given, (rows, keys) = self.problem, self.given, extents(tile)
        rounds = problem.rounds(rows, tile.ctas or 1)
        size = max(1, (problem.keys or 0) * sum(problem.dims) * problem.bits // 8)
        # Warpgroups whose heads L2 is to hold keys and values of; CTAs that share it are two.
        groups = 2 if tile.ctas else max(1, rows // GROUP_ROWS)
        limit = PRICE.band_bytes[min(max(PRICE.band_bytes), groups)]
        facts = facts_of(problem) | {
            "step": step,
            "rows_of_tile": rows,
            "keys_of_block": keys,
            "keeps_tile": given.tile in (None, tile.tile),
            "fills_one_wave": problem.fills_one_wave(rows),
            "rounds": rounds,
            # What the last round lacks.
            "idle": rounds and ceil(rounds) - rounds,
            "key_bytes": size,
            "heads_of_band": problem.group * limit / size,
            "windows": problem.rows / problem.sees if problem.rows and problem.sees else None,
        }
        tile = tile.merged(RULES.order.first(problem, **facts))
        return table.filled(tile, given, problem, **facts)


def _is_paired(schedule: Schedule) -> bool:
    """Whether two CTAs multiply together."""
    return schedule.cluster is not None and schedule.cluster[0] % 2 == 0


def _fewer_keys(problem: AttentionProblem, keys: int, step: int) -> int:
    """The keys of a block after so many steps that leave threads more registers. Pages have a power
    of two of keys: blocks are whole ones, or a part of one.
    """
    less = 32 if 8 in (problem.bits, problem.bits_q) else _LEAST_KEYS
    if problem.is_paged:
        return 1 << max(less, keys >> step).bit_length() - 1
    keys = max(less, keys - less * step)
    is_whole = problem.on_groups and problem.is_plain and not problem.is_sliced
    return _known(problem, keys) if is_whole else keys


def _known(problem: AttentionProblem, keys: int) -> int:
    """No more keys than there are."""
    if problem.keys is None:
        return keys
    return min(keys, max(_LEAST_KEYS, -(-problem.keys // _LEAST_KEYS) * _LEAST_KEYS))


def _fits(problem: AttentionProblem, tile: Schedule, stages: int = 2) -> bool:
    """Whether shared memory holds a tile, and tensor memory the results and scores of one there."""
    rows, keys = extents(tile)
    beside = _BESIDE_DIRECT_BYTES if tile.epilogue == "direct" else _BESIDE_BYTES
    beside = _BESIDE_WIDE_BYTES if problem.widest > WIDE else beside
    columns = rows // _LANES * (problem.columns + keys) if problem.has_tensor_memory else 0
    chip, smem = problem.target, _tile_bytes(problem, tile, stages) + beside
    return smem <= chip.smem_per_cta and columns <= chip.tmem_columns


def _tile_bytes(problem: AttentionProblem, tile: Schedule, stages: int) -> int:
    """Bytes of the rows of a tile and of stages of keys and values."""
    rows, keys = extents(tile)
    element = problem.bits_q // 8
    row, value = (element * columns for columns in problem.dims)
    key, exchanged = row + value, 0
    if problem.widest > WIDE:
        key, exchanged = row if problem.is_latent else key, element
        if problem.on_groups and problem.is_shifted:
            # Each row comes with the words around it, and is shifted to where a multiply reads it:
            # no part of a key is a value there.
            row, key = 2 * row + _VECTOR_BYTES, 2 * (row + value + _VECTOR_BYTES)
    elif problem.on_groups and problem.bits == 8:
        # What takes a second step in shared memory is there as it was loaded too.
        key += problem.columns if element == 1 else sum(problem.dims)
    keys //= 2 if problem.has_tensor_memory and _is_paired(tile) else 1
    return bytes_of_tile((rows, keys), (row, key), stages, exchanged)
