"""The schedules of an attention that tuning times: tiles, policies of the maximum, and how CTAs get
tiles. Each leaves to the space what goes with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from cutedialect.choosing.attention_parameters import open_parameters, takes_turns
from cutedialect.choosing.attention_problem import GROUP_ROWS, WIDE, AttentionProblem
from cutedialect.choosing.attention_space import ATTENTION
from cutedialect.choosing.choose import choose
from cutedialect.schedule import SHARES, Schedule, replace_set

# Rows of a tile and keys of a block: of warpgroups, and of warps that multiply alone.
_GROUP_TILES = tuple(product((64, 128, 192), (32, 48, 64, 80, 96, 112, 128, 160, 192)))
_WARP_TILES = tuple(product((16, 32, 64, 128), (16, 32, 64, 128)))
# Registers of a thread that a tile may lack by count: the assembler finds some.
_SLACK = 8
# Fields that are varied one at a time around what is chosen.
_VARIED = (
    *(Schedule(maxima=way) for way in ("exact", "lazy", "guessed")),
    *(Schedule(scheduler=way) for way in ("single", "persistent", "dynamic")),
    *(Schedule(order="sections", raster=heads) for heads in (1, 8, 32)),
    Schedule(overlap="no"),
    Schedule(overlap="turns"),
    Schedule(split_loads="no"),
    Schedule(split_loops="no"),
    Schedule(early_launch="yes"),
)
_STAGES = (2, 3, 4)
# CTAs of one warpgroup that share a processor, and keys of their blocks.
_RESIDENT = tuple(product((2, 3, 4), (32, 64)))


def tuned_schedules(problem: AttentionProblem) -> list[Schedule]:
    """What is worth timing beside the default, which the first differ from least: no more than a
    hundred, none of which does what another one does.
    """
    seen, listed = {_kernel(problem, None)}, []
    for given in _varied(problem):
        kernel = _kernel(problem, given)
        if kernel not in seen:
            seen.add(kernel)
            listed.append(given)
    return listed


def _kernel(problem: AttentionProblem, given: Schedule | None) -> tuple[object, ...]:
    """What tells kernels apart: a policy of the maximum may be asked for, or follow."""
    schedule = choose(ATTENTION, problem, given)
    parameters = open_parameters(problem, schedule)
    return replace_set(schedule, {"maxima": None}), *parameters.values()


def _varied(problem: AttentionProblem) -> Iterator[Schedule]:
    """Schedules with the fields that tuning varies."""
    yield from _VARIED
    yield from (Schedule(stages=stages) for stages in _STAGES)
    if problem.target.tmem_columns:
        yield from (Schedule(polynomials=(share, 3)) for share in range(0, SHARES // 2 + 1, 2))
        yield from (Schedule(roles=roles) for roles in ("specialized", "uniform"))
    if problem.widest > WIDE:
        return
    if not problem.on_groups:
        yield from (Schedule(tile=tile) for tile in _WARP_TILES if _fits(problem, tile))
        return
    for tile in _GROUP_TILES:
        if _fits(problem, tile):
            yield Schedule(tile=tile)
            if takes_turns(problem, choose(ATTENTION, problem, Schedule(tile=tile))):
                yield Schedule(tile=tile, unroll=2)
    for ctas, keys in _RESIDENT:
        tile = GROUP_ROWS, keys
        if problem.is_plain and _fits(problem, tile, ctas):
            yield Schedule(tile=tile, ctas=ctas)


def _fits(problem: AttentionProblem, tile: tuple[int, int], ctas: int = 1) -> bool:
    """Whether threads have the registers for a tile, and a processor the memory of `ctas`."""
    need = ATTENTION.need(problem, choose(ATTENTION, problem, Schedule(tile=tile)))
    return need.spare >= -_SLACK and need.smem <= problem.target.smem_of(ctas)
