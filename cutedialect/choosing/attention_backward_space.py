"""The schedules from which the backward pass of attention chooses: tiles of keys and rows, by
warpgroups, in tensor memory, or by warps that multiply alone, and what goes with each of them
(`prices/attention_backward-rules.json`).
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from cutedialect.allocation import RoleUse, registers_of_roles
from cutedialect.atoms import WARP_SIZE
from cutedialect.schedule import Schedule, replace_set

from .attention_problem import BACKWARD_RULES as RULES
from .attention_problem import GROUP_ROWS, AttentionBackwardProblem
from .need import Limits, Need, bytes_of_tile, extents, values_of_thread

# Bytes of barriers and of rows of f32 beside the tiles; the same with two stages of such rows
# beside tiles that tensor memory leaves.
_BESIDE_BYTES, _BESIDE_TENSOR_BYTES = 4096, 3072
# Registers of a thread for addresses, bounds and coordinates, and all of them.
_BESIDE, _MOST_REGISTERS = 24, 255
# Keys that a warp multiplies at once, and lanes of tensor memory.
_KEYS_OF_WARP, _LANES = 16, 128
_THREADS_OF_GROUP = 128
_ELEMENT_BYTES, _WEIGHTS_OF_REGISTER = 2, 2


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
        # Columns of a gradient of queries beside whole blocks of rows of a warpgroup, and those of
        # the gradients of keys and of values.
        facts = {"odd_depth": problem.dims[0] % GROUP_ROWS, "both": sum(problem.dims)}
        # What a row says of rings is about its own plan.
        listed = dict.fromkeys(
            whole(problem, tile, given)
            for tile in RULES.tiles.each(problem, **facts)
            if tile.roles is None or given.roles is None or tile.plan == given.plan
        )
        chip = problem.target
        yield from sorted(listed, key=lambda each: not self.need(problem, each).fits(chip, limits))

    def need(self, problem: AttentionBackwardProblem, schedule: Schedule) -> Need:
        """Registers of a thread that computes, and bytes of the block of keys, two stages of rows
        and what multiplies exchange. Tensor memory has scores and gradients.
        """
        keys, rows = extents(schedule)
        slices, apart = schedule.plan.main.slices, in_tensor_memory(schedule)
        threads = WARP_SIZE * prod(schedule.warps or (keys // _KEYS_OF_WARP, 1)) * slices
        # Scores with their slopes, beside which capped ones have tangents (those are factors of
        # weights that tensor memory has); or slopes as an operand and what is added, for which both
        # have made room.
        scores = 2 + (problem.is_capped and not apart)
        if problem.adds and not apart:
            scores = max(scores, 0.5 + problem.dims[0] / keys)
        sums = 0 if apart else sum(problem.dims)
        values = values_of_thread((keys, rows), threads, sums, scores)
        # Threads keep weights in registers that warpgroups alone, or tensor memory, multiply, and
        # slopes, of which no gradient of queries is multiplied.
        exchanged = 1 if apart or (problem.on_groups and slices == 1) else 2
        exchanged -= apart and not problem.adds
        size, stages = _ELEMENT_BYTES * sum(problem.dims), schedule.stages or 2
        of_rows = zip((schedule.ring_stages or (0, 0, 0))[1:3], problem.dims, strict=True)
        comes = _ELEMENT_BYTES * sum((own or stages) * columns for own, columns in of_rows)
        smem = bytes_of_tile((keys, rows), (size, comes), 1, exchanged * _ELEMENT_BYTES)
        smem += _BESIDE_TENSOR_BYTES if apart else _BESIDE_BYTES
        return Need(values + _BESIDE, _room(problem, schedule, threads), smem, threads=threads)


ATTENTION_BACKWARD = AttentionBackwardSpace()


def in_tensor_memory(schedule: Schedule) -> bool:
    """Whether tensor memory has scores, slopes and gradients, of which a role adds some."""
    return schedule.plan.taking("adds") is not None


def _room(problem: AttentionBackwardProblem, schedule: Schedule, threads: int) -> float:
    """The registers of a thread that computes."""
    if in_tensor_memory(schedule):
        return schedule.plan.main.registers or _MOST_REGISTERS
    use = RoleUse(computing=threads // _THREADS_OF_GROUP, multiplies=5)
    pair = registers_of_roles(use) if problem.on_groups else None
    return pair[1] if pair else _MOST_REGISTERS


def whole(
    problem: AttentionBackwardProblem, tile: Schedule, given: Schedule | None = None
) -> Schedule:
    """A tile with what goes with it."""
    return RULES.beside.filled(tile, given or Schedule(), problem, **_facts(problem, tile))


def _facts(problem: AttentionBackwardProblem, schedule: Schedule) -> dict[str, object]:
    """What rows ask of a schedule."""
    keys, rows = extents(schedule)
    slices, need = schedule.plan.main.slices, ATTENTION_BACKWARD.need(problem, schedule)
    rounds = problem.rounds(GROUP_ROWS)
    return {
        "rows_of_tile": rows,
        "odd_rows": _LANES % rows,
        "warps_of_tile": prod(schedule.warps or (keys // _KEYS_OF_WARP, 1)),
        "in_tensor_memory": in_tensor_memory(schedule),
        "slices": slices,
        "overlap": schedule.overlap,
        # Whether two warpgroups share what a tile has of gradients, each with all registers.
        "has_many": slices > 1 or keys > GROUP_ROWS,
        "rounds": None if rounds is None else rounds * max(1, problem.group),
        # Beside weights in another type.
        "spare": need.spare - keys * rows / _WEIGHTS_OF_REGISTER / need.threads,
    }


def streamed(problem: AttentionBackwardProblem, schedule: Schedule) -> Schedule:
    """The schedule of the pass over the keys beside one of the kernel that has the gradients of
    these: two warpgroups with 64 rows each where that kernel's tile is one of many, else its rows.
    """
    keys, rows = extents(schedule)
    open_ = Schedule()
    fields = RULES.streamed.filled(open_, open_, problem, **_facts(problem, schedule))
    most, least = extents(fields)
    # What two warpgroups share has keys of its own.
    return fields.merged(Schedule(tile=(most if least > 1 else min(keys, most), max(rows, least))))


def open_parameters(
    problem: AttentionBackwardProblem, schedule: Schedule, wants_keys: bool = True
) -> dict[str, object]:
    """What the space fills of the program's parameters, by name: dQ is `turned`, multiplied
    transposed, where the rows of a tile are none of a warpgroup's; with `early_values` dV is
    multiplied beside the slopes; `values` is the schedule of a kernel for dV alone, where tensor
    memory lacks columns for scores, slopes and both gradients. One that has dV and not dK, without
    `wants_keys`, loads less: other rings.
    """
    columns = 2 * extents(schedule)[1] + sum(problem.dims)
    alone = replace_set(schedule, {"ring_stages": None})
    has_slopes = problem.adds or wants_keys
    lacks_columns = in_tensor_memory(schedule) and columns > problem.target.tmem_columns
    is_apart = lacks_columns and wants_keys and not problem.adds
    return {
        "schedule": schedule if has_slopes else alone,
        "values": alone.text() if is_apart else None,
        "tile": schedule.tile,
        "streamed": streamed(problem, schedule).text(),
        "turned": problem.on_groups and extents(schedule)[1] % GROUP_ROWS != 0,
        "early_values": RULES.early_values.first(problem, **_facts(problem, schedule)),
    }
