"""What multiplies and stores of a program stand beside each other: combinations that a program
shows, by what its loops do in a trip.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

# Sources of operands that threads compute from tiles in memory, or from nothing.
_COMPUTED = ("scaled", "masked", "dequantized", "constant", "triangle", "normalized")
_WARPGROUP_PAIR_ROWS = 128


@dataclass(frozen=True)
class Step:
    """A multiply, a store, or a sum of the rows of a tile from memory.

    `loop` is the index of the loop around it, empty outside of every loop, and None in a loop that
    is unrolled or goes round less than twice. `left` and `right` are the sources of a multiply's
    operands; `tile` is what it adds to, what is stored or summed.
    """

    kind: str
    tile: str
    rows: int
    loop: str | None
    left: str = ""
    right: str = ""

    @property
    def chained(self) -> bool:
        """Whether it multiplies what another multiply gave."""
        return "result" in (self.left, self.right)

    @property
    def computed(self) -> bool:
        """Whether it multiplies what threads computed from memory."""
        return self.left in _COMPUTED or self.right in _COMPUTED


Trip = Sequence[Step]


def _of_kind(trip: Trip, kind: str) -> list[Step]:
    return [step for step in trip if step.kind == kind]


def _chain_stored_beside_another(trip: Trip) -> bool:
    chains = [at for at, step in enumerate(trip) if step.kind == "multiply" and step.chained]
    stored = any(step.kind == "store" for at in chains[:1] for step in trip[at:])
    return stored and any(step.computed for step in _of_kind(trip, "multiply"))


def _rows_summed(trip: Trip) -> bool:
    return any(step.right in _COMPUTED for step in trip) and bool(_of_kind(trip, "sum"))


def _chain_with_computed_right(trip: Trip) -> bool:
    return any(step.left == "result" and step.right in _COMPUTED for step in trip)


def _stores_around_tall_multiply(trip: Trip) -> bool:
    for at, step in enumerate(trip):
        if step.kind == "multiply" and step.rows >= _WARPGROUP_PAIR_ROWS:
            behind = {later.tile for later in _of_kind(trip[at:], "store")}
            if step.tile in behind and _of_kind(trip[:at], "store"):
                return True
    return False


def _registers_alone_stored(trip: Trip) -> bool:
    chained = [step for step in _of_kind(trip, "multiply") if step.chained]
    alone = any("memory" not in (step.left, step.right) for step in chained)
    return alone and bool(_of_kind(trip, "store"))


def _chain_of_three(steps: Trip) -> bool:
    multiplies = _of_kind(steps, "multiply")
    return len(multiplies) >= 3 and any(step.chained for step in multiplies)


# What is shown of a program, by its name: something that a trip of one of its loops does.
_OF_TRIPS: dict[str, Callable[[Trip], bool]] = {
    "trips: a chain stored, and a computed operand": _chain_stored_beside_another,
    "trips: rows summed beside a computed right operand": _rows_summed,
    "trips: a chain whose right operand is computed": _chain_with_computed_right,
    "trips: stores around a multiply of 128 rows": _stores_around_tall_multiply,
    "trips: a product of registers alone, and a store": _registers_alone_stored,
}
_OUTSIDE = {"three multiplies in a row, one chained": _chain_of_three}
COMBINATIONS = (*_OF_TRIPS, *_OUTSIDE)


def combinations(steps: Sequence[Step]) -> Iterator[str]:
    """The names of the combinations that the steps of a program show."""
    loops = {step.loop for step in steps}
    for loop in loops - {None}:
        trip = [step for step in steps if step.loop == loop]
        tests = _OUTSIDE if loop == "" else _OF_TRIPS
        yield from (name for name, test in tests.items() if test(trip))
