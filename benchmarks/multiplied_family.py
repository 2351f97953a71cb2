"""Classes of programs of several multiplies: where operands come from, how the program runs, what
it does beside. Each class is a row here, drawn by `multiplied_lot`.
"""

from __future__ import annotations

from dataclasses import dataclass, field

Weights = dict[str, float]

# Where an operand of a multiply comes from: `LotOfOperands` has a method for each.
_ANY: Weights = {
    "memory": 4, "scaled": 1, "masked": 0.7, "dequantized": 0.7, "result": 2.5, "constant": 0.3,
    "triangle": 0.4, "known": 1, "normalized": 0.6,
}  # fmt: skip
_REGISTERS: Weights = {name: weight for name, weight in _ANY.items() if name != "memory"}
_COMPUTED: Weights = {
    name: _ANY[name] for name in ("scaled", "masked", "dequantized", "triangle", "normalized")
}
_CHAINS: Weights = {"result": 5, "memory": 1, "known": 0.5}
_MEMORY: Weights = {"memory": 1}
_LOOPS: Weights = {"loop": 4, "unrolled": 1, "nested": 1, "straight": 0.5, "condition": 0.7}
_REPEATED: Weights = {"loop": 5, "unrolled": 1, "nested": 1}
_BESIDE: Weights = {"store": 1, "update": 1, "sums": 0.7, "fetch": 0.7, "atomic": 0.4}
_SIDES = (64, 64, 64, 128, 128, 16, 32, 48, 96)
_TRIPS = (0, 1, 2, 2, 3, 3, 4, 5, 7)
_SCHEDULES = (
    "roles = uniform", "roles = specialized", "roles = alternate", "roles = corrected",
    "roles = split", "stages = 1", "stages = 2", "stages = 3", "warps = (4,1)", "warps = (4,2)",
    "warps = (8,1)", "warps = (2,2)", "epilogue = direct", "epilogue = smem", "epilogue = tma",
    "scheduler = persistent", "scheduler = single", "overlap = no", "overlap = yes",
    "roles = uniform, stages = 2", "roles = specialized, stages = 2", "loads = threads",
)  # fmt: skip


@dataclass(frozen=True)
class Family:
    """A class of programs. Weights are relative, chances from 0 to 1. Right operands come from
    where `left` ones do, unless `right` says otherwise.
    """

    name: str
    about: str
    left: Weights = field(default_factory=lambda: _ANY)
    right: Weights | None = None
    structures: Weights = field(default_factory=lambda: _LOOPS)
    # What stands between multiplies, and how often.
    beside: Weights = field(default_factory=lambda: _BESIDE)
    busy: float = 0.35
    # Statements of which every program has one; methods of `LotOfSpecials`.
    specials: tuple[str, ...] = ()
    sides: tuple[int, ...] = _SIDES
    trips: tuple[int, ...] = _TRIPS
    multiplies: tuple[int, ...] = (2, 2, 3, 3, 4, 5)
    schedules: tuple[str, ...] = _SCHEDULES
    scheduled: float = 0.2
    # Stores that each trip of a loop ends with.
    stores: tuple[int, ...] = (0, 1)
    # How often a trip has a tile in front of its multiplies.
    early: float = 0.45
    # How many work items there may be along a mode.
    items: tuple[int, ...] = (1, 1, 2)
    # Whether multiplied tiles of tensors may have other extents along K than each other.
    unlike: bool = False
    # Multiplications of numbers that a program may do.
    work: float = 12e6


_CLUSTERS = ("cluster = (2,1)", "cluster = (1,2)", "cluster = (2,2)", "cluster = (4,1)")
_SHARES = (
    "split_k = 2", "split_k = 3", "split_k = 2, reduction = atomic",
    "split_k = 2, reduction = cluster", "split_k = 4, reduction = cluster", "scheduler = stream",
    "scheduler = dynamic", "scheduler = cancel", "scheduler = persistent", "scheduler = tail",
)  # fmt: skip
_FEW = (0, 1, 1, 2)

FAMILIES = {
    family.name: family
    for family in (
        Family("mixed", "all that follows but for special statements"),
        Family(
            "views",
            "views of mutable tiles that change while the view is in use",
            specials=("turned_and_changed", "columns_and_changed", "old_row"),
        ),
        Family(
            "calls",
            "arguments of cute.gemm inside a kernel",
            left=_MEMORY,
            specials=("negated", "negated", "summed", "scaled_call", "foreign_argument"),
            multiplies=_FEW,
        ),
        Family(
            "ranks",
            "the largest of rows and their places, some with fewer numbers than are asked for",
            specials=("top", "place_of_maximum"),
            multiplies=_FEW,
        ),
        Family(
            "batches",
            "runs of tiles along a batch mode",
            specials=("open_batch", "open_batch", "multiplied_batch"),
            multiplies=_FEW,
        ),
        Family(
            "aliases",
            "one array in two arguments",
            specials=("in_place", "shifted_alias", "moved_alias"),
            multiplies=_FEW,
            items=(1, 2, 2),
        ),
        Family(
            "beside",
            "operands from registers beside operands that TMA loads",
            left=_COMPUTED | {"memory": 2, "result": 0.5},
        ),
        Family(
            "stores",
            "two and more stores in a loop",
            left={"memory": 3, "scaled": 1, "result": 1},
            sides=(128, 64, 128, 64, 32),
            structures=_REPEATED,
            stores=(1, 2, 2),
            early=1,
        ),
        Family(
            "chains",
            "chained multiplies with operands from registers",
            left=_CHAINS,
            right=_COMPUTED | {"result": 2, "known": 1},
        ),
        Family(
            "straight",
            "chains without a loop",
            left=_CHAINS | _COMPUTED,
            structures={"straight": 1},
            multiplies=(2, 3, 4, 5),
        ),
        Family(
            "chained-stores",
            "chains whose results are stored each trip",
            left=_CHAINS,
            right=_ANY,
            structures=_REPEATED,
            stores=(1, 1, 2),
        ),
        Family(
            "both",
            "multiplies of two operands from registers",
            left=_REGISTERS,
        ),
        Family(
            "clusters",
            "operands from registers in clusters of CTAs",
            left=_COMPUTED | {"memory": 2, "result": 1},
            structures={"loop": 3, "straight": 1, "condition": 0.3},
            schedules=_CLUSTERS,
            scheduled=1,
            items=(2, 2, 4),
        ),
        Family(
            "shared",
            "sums that CTAs share through a workspace or a cluster, and work items they claim",
            left={"memory": 4, "scaled": 1, "dequantized": 0.5},
            right={"memory": 4, "scaled": 1, "result": 1},
            structures={"loop": 1},
            schedules=_SHARES,
            scheduled=1,
            multiplies=(1, 1, 2),
            trips=(0, 1, 2, 3, 4, 5, 7),
            busy=0.15,
        ),
        Family(
            "rows",
            "reductions along modes of one element, long rows and columns",
            specials=("long_row", "long_row", "long_column", "flat_reduction"),
            multiplies=_FEW,
            items=(1, 2),
        ),
        Family(
            "large",
            "tiles of up to 128 x 256",
            sides=(128, 256, 64, 128, 192),
            trips=(0, 1, 2, 3),
            items=(1, 1),
            scheduled=0,
            work=40e6,
        ),
        Family(
            "paged",
            "tiles of a cache of pages, and atomics of 16-bit types",
            specials=("pages", "pages", "multiplied_pages", "short_atomic"),
            multiplies=_FEW,
        ),
        Family(
            "unlike",
            "tiles of tensors whose extents along K differ",
            left={"memory": 4, "result": 1, "scaled": 1},
            unlike=True,
        ),
        Family(
            "containers",
            "lists and dictionaries that the body of a loop fills",
            specials=("filled_list", "filled_dictionary"),
            multiplies=_FEW,
        ),
    )
}
