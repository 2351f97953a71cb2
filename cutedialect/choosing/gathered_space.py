"""The tiles from which products choose whose operands are gathered by threads: rows of experts
(`cute.routed_gemm`), and pixels of images that TMA does not bring (`cute.conv2d`). Tables of
`prices/gathered-rules.json` list them, the best ones first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from types import SimpleNamespace

from cutedialect.allocation import multiplying_warps
from cutedialect.atoms import H100, WARP_SIZE, Device
from cutedialect.schedule import Schedule

from .gemm_problem import ceil_div
from .need import Limits, Need
from .price import in_order
from .rules import load_rules

RULES: SimpleNamespace = load_rules("gathered")
# Registers of a thread for addresses, bounds and coordinates, and all of them.
_BESIDE, _MOST_REGISTERS = 24, 255
# Trips of the depth that each part of it has at least, and parts at most.
_LEAST_TRIPS, _MOST_PARTS = 16, 16


@dataclass(frozen=True)
class GatheredProblem:
    """Such products, None for what is not known before a call runs.

    kind: "rows" of experts, "pixels" that are rows, or pixels that are the "depth", also where the
    "diagonal" of a square product alone is a result, as if it had one column. rows, columns,
    depth: of a product, rows of experts on average. products: how many there are. bits: of an
    element of the left operand. unit: what multiplies: "warps", "groups" of four, or "tensor"
    cores that tensor memory feeds. is_gated: two products share a tile. adds: sums are added to
    memory by threads. is_weight: elements become wider on their way. has_blocks: operands have
    scales of blocks. group: rows of the depth that share a scale, 0 for all. block: elements that
    are packed together. is_ragged: rows begin at any element. device: that it is computed on.
    """

    kind: str
    rows: int | None
    columns: int | None
    depth: int | None
    products: int = 1
    bits: int = 16
    unit: str = "groups"
    is_gated: bool = False
    adds: bool = False
    is_weight: bool = False
    has_blocks: bool = False
    group: int = 0
    block: int = 1
    is_ragged: bool = False
    device: Device = H100

    @property
    def is_narrow(self) -> bool:
        """Whether threads convert elements, or add up products apart, which takes registers."""
        return self.is_weight or self.has_blocks


class GatheredSpace:
    """Tiles of rows, columns, and a depth that divides groups of scales."""

    name = "gathered products"

    def ranked(
        self, problem: GatheredProblem, given: Schedule | None, limits: Limits
    ) -> Iterator[Schedule]:
        """The tiles of the table that keep within limits: of pixels the largest that give each
        multiprocessor one, else the smallest; and parts of a depth of pixels where tiles are few.
        """
        listed = [_whole(tile, problem) for tile in RULES.tiles.each(problem)]
        fits = [each for each in dict.fromkeys(listed) if self.need(problem, each).leaves(limits)]
        for tile in in_order((_price(problem, each), each) for each in fits):
            parts = _parts(problem, tile) if given is None else None
            yield replace(tile, split_k=parts).merged(given)

    def need(self, problem: GatheredProblem, schedule: Schedule) -> Need:
        """Sums of a thread: those of both gated products, and of a step where scales multiply
        them.
        """
        assert schedule.tile is not None
        rows, columns, _ = schedule.tile
        # Weights are multiplied from registers as rows of the transposed product.
        is_turned = problem.is_weight and problem.unit == "groups"
        tile = (columns, rows) if is_turned else (rows, columns)
        threads = WARP_SIZE * prod(schedule.warps or multiplying_warps(tile, 1))
        sums = (1 + problem.is_gated) * (1 + (problem.group > 0))
        return Need(sums * rows * columns / threads + _BESIDE, _MOST_REGISTERS, threads=threads)


GATHERED = GatheredSpace()


def beside_tile(schedule: Schedule) -> Schedule | None:
    """A schedule without its tile, where that is a parameter of the program: passes choose what is
    open, as they do where none is given.
    """
    rest = replace(schedule, tile=None)
    return None if rest == Schedule() else rest


def _whole(tile: Schedule, problem: GatheredProblem) -> Schedule:
    """Rows and columns of the table with the depth of a step: so many bytes, whole blocks of packed
    elements, no more than share a scale.
    """
    assert tile.tile is not None
    depth = max(RULES.line.first(problem) * 8 // problem.bits, problem.block)
    return replace(tile, tile=(*tile.tile, min(depth, problem.group or depth)))


def _tiles(problem: GatheredProblem, schedule: Schedule) -> int | None:
    """How many tiles a product has, if that is known."""
    if problem.rows is None or problem.columns is None or schedule.tile is None:
        return None
    rows, columns, _ = schedule.tile
    return ceil_div(problem.rows, rows) * ceil_div(problem.columns, columns)


def _price(problem: GatheredProblem, schedule: Schedule) -> float:
    """1 of the tiles in the order of the table; of pixels more where they leave multiprocessors
    idle, the smallest the least.
    """
    tiles = _tiles(problem, schedule)
    if problem.kind == "rows" or tiles is None or tiles >= problem.device.processors:
        return 1.0
    return 1.0 + prod((schedule.tile or ())[:2])


def _parts(problem: GatheredProblem, schedule: Schedule) -> int | None:
    """Parts of a depth of pixels, which are added in order, where there are few tiles."""
    tiles = _tiles(problem, schedule)
    if (
        problem.kind not in ("depth", "diagonal")
        or tiles is None
        or problem.depth is None
        or schedule.tile is None
    ):
        return None
    wanted = problem.device.processors // max(1, tiles * problem.products)
    parts = min(wanted, problem.depth // (schedule.tile[2] * _LEAST_TRIPS), _MOST_PARTS)
    return parts if parts > 1 else None
