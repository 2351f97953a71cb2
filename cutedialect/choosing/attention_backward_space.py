"""The schedules from which the backward pass of attention chooses: tiles of keys and rows, by
warpgroups, in tensor memory, or by warps that multiply alone
(`prices/attention_backward-rules.json`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cutedialect.allocation import RoleUse, registers_of_roles
from cutedialect.atoms import WARP_SIZE
from cutedialect.schedule import Schedule

from .attention_backward_problem import AttentionBackwardProblem
from .attention_problem import GROUP_ROWS
from .need import NONE, Limits, Need
from .rules import Table, load_rules

RULES = load_rules("attention_backward", AttentionBackwardProblem)
# Bytes of barriers and of rows of f32 beside the tiles.
_BESIDE_BYTES = 4096
# Registers of a thread for addresses, bounds and coordinates.
_BESIDE = 24
_MOST_REGISTERS = 255
# Keys that a warp multiplies at once.
_KEYS_OF_WARP = 16
_THREADS_OF_GROUP = 128
_ELEMENT_BYTES = 2
# Bytes of barriers and of two stages of rows of f32 beside tiles that tensor memory leaves.
_BESIDE_TENSOR_BYTES = 3072
_WEIGHTS_OF_REGISTER = 2


class AttentionBackwardSpace:
    """The schedules of the kernel that has the gradients of keys and values."""

    name = "attention_backward"

    def ranked(
        self, problem: AttentionBackwardProblem, given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The schedules with the fields of `given`, in the order of the rows of the target, those
        that need more registers than there are behind all others.
        """
        given = given or Schedule()
        if given.is_complete and given.tile is not None:
            yield given
            return
        tiles = (tile for table in _tiles(problem) for tile in table.each(problem))
        listed = dict.fromkeys(_whole(problem, tile).merged(given) for tile in tiles)
        fits = [each for each in listed if self.need(problem, each).fits(problem.target, limits)]
        yield from fits
        yield from (each for each in listed if each not in fits)

    def need(self, problem: AttentionBackwardProblem, schedule: Schedule) -> Need:
        """Registers of a thread that computes, and bytes of the block of keys, two stages of rows
        and what multiplies exchange.
        """
        assert schedule.tile is not None
        keys, rows = schedule.tile
        slices = schedule.plan.main.slices
        threads = WARP_SIZE * prod(schedule.warps or (keys // _KEYS_OF_WARP, 1)) * slices
        depth, width = problem.dims
        if in_tensor_memory(schedule):
            return _need_in_tensor_memory(problem, schedule, threads)
        # Both gradients, and scores with their slopes, beside which capped ones have tangents.
        values = (2 + problem.is_capped) * rows * keys
        if problem.adds:
            # Slopes as an operand, and what is added, for which both have made room.
            values = max(values, 0.5 * rows * keys + rows * depth)
        values += keys * (depth + width)
        stages = schedule.stages or 2
        size = _ELEMENT_BYTES * (depth + width)
        # Warpgroups keep weights in registers, and add up through shared memory.
        exchanged = 1 if problem.on_groups and slices == 1 else 2
        smem = size * (keys + stages * rows) + exchanged * _ELEMENT_BYTES * rows * keys
        smem += _BESIDE_BYTES
        return Need(values / threads + _BESIDE, _room(problem, threads), smem, threads=threads)


ATTENTION_BACKWARD = AttentionBackwardSpace()


def in_tensor_memory(schedule: Schedule) -> bool:
    """Whether tensor memory has scores, slopes and gradients, of which a role adds some."""
    return schedule.plan.taking("adds") is not None


def _need_in_tensor_memory(
    problem: AttentionBackwardProblem, schedule: Schedule, threads: int
) -> Need:
    """Registers for scores and slopes alone: tangents become factors of weights that tensor memory
    has. Slopes are all that threads leave in shared memory.
    """
    assert schedule.tile is not None
    keys, rows = schedule.tile
    values = 2 * rows * keys / threads
    stages, size = schedule.stages or 2, _ELEMENT_BYTES * sum(problem.dims)
    smem = size * (keys + stages * rows) + _ELEMENT_BYTES * rows * keys + _BESIDE_TENSOR_BYTES
    room = schedule.plan.main.registers or _MOST_REGISTERS
    return Need(values + _BESIDE, room, smem, threads=threads)


def _room(problem: AttentionBackwardProblem, threads: int) -> float:
    """The registers of a thread that computes."""
    use = RoleUse(computing=threads // _THREADS_OF_GROUP, multiplies=5)
    pair = registers_of_roles(use) if problem.on_groups else None
    return pair[1] if pair else _MOST_REGISTERS


def _tiles(problem: AttentionBackwardProblem) -> tuple[Table, ...]:
    """The tables of a target, the first one first."""
    if problem.on_groups:
        return (RULES.groups,)
    return (RULES.tensors, RULES.warps) if problem.target.tmem_columns else (RULES.warps,)


def _whole(problem: AttentionBackwardProblem, tile: Schedule) -> Schedule:
    """A tile with what goes with it."""
    assert tile.tile is not None
    assert tile.warps is not None
    if not problem.on_groups and not in_tensor_memory(tile):
        return tile
    facts = {"rows_of_tile": tile.tile[1], "warps_of_tile": prod(tile.warps), "roles": tile.roles}
    for fields in RULES.beside.each(problem, **facts):
        tile = tile.merged(fields)
    return tile


def tuned_tiles(problem: AttentionBackwardProblem) -> list[Schedule]:
    """The schedules of the tiles of a target that may suffice, others than heads suit among them,
    as far as is counted.
    """
    rules = (rule for table in _tiles(problem) for rule in table.rules)
    listed = (_whole(problem, rule.then) for rule in rules)
    return [
        each for each in listed if ATTENTION_BACKWARD.need(problem, each).fits(problem.target, NONE)
    ]


def streamed(problem: AttentionBackwardProblem, schedule: Schedule) -> Schedule:
    """The schedule of the pass over the keys beside one of the kernel that has the gradients of
    these: two warpgroups with 64 rows each where that kernel's tile is one of many, else its rows.
    """
    assert schedule.tile is not None
    _, rows = schedule.tile
    if problem.fits_tensor_memory:
        in_tensors: Schedule = RULES.streamed_tensors.first(problem)
        if in_tensors.tile is not None and in_tensors.tile[1] % rows == 0:
            return in_tensors
    # Whether two warpgroups share what a tile has of gradients, each with all registers.
    has_many = schedule.plan.main.slices > 1 or schedule.tile[0] > GROUP_ROWS
    if not problem.on_groups or not has_many or not problem.loads_boxes:
        split_loops = "no" if rows > GROUP_ROWS else None
        return Schedule(tile=(streamed_keys(problem, schedule), rows), split_loops=split_loops)
    chosen: Schedule = RULES.streamed.first(problem)
    assert chosen.tile is not None
    keys, most = chosen.tile
    if problem.rows is not None and problem.sequences is not None:
        tiles = -(-problem.rows // GROUP_ROWS) * problem.sequences * max(1, problem.group)
        if tiles <= problem.processors:
            most = GROUP_ROWS
    return chosen.merged(Schedule(tile=(keys, max(most, rows))))


def streamed_keys(problem: AttentionBackwardProblem, schedule: Schedule) -> int:
    """Keys of a block where rows stay."""
    assert schedule.tile is not None
    return min(schedule.tile[0], RULES.streamed_keys.first(problem))


def multiplies_values_early(problem: AttentionBackwardProblem, schedule: Schedule) -> bool:
    """Whether dV is multiplied beside the slopes: of one role of warpgroups that have registers for
    weights in two types, and no more than a slice's bounds beside.
    """
    if in_tensor_memory(schedule):
        # P takes the place of the scores, so that other products have that of the slopes.
        return True
    if not problem.on_groups or schedule.plan.main.slices > 1 or schedule.overlap != "no":
        return False
    need = ATTENTION_BACKWARD.need(problem, schedule)
    assert schedule.tile is not None
    weights = prod(schedule.tile) / _WEIGHTS_OF_REGISTER / need.threads
    slices_more = problem.is_sliced and (problem.shares or problem.has_window)
    return need.spare >= weights and not slices_more


def turns_sums(problem: AttentionBackwardProblem, schedule: Schedule) -> bool:
    """Whether dQ is multiplied transposed: where the rows of a tile are none of a warpgroup's."""
    assert schedule.tile is not None
    return problem.on_groups and schedule.tile[1] % GROUP_ROWS != 0
