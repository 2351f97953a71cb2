"""Which work items CTAs get where they claim them from each other: what items load is counted for
all of them (`Survey`), a first run of one CTA shows how long some take (`Claims`, `pace_of`), and
with that the items are dealt to all CTAs (`dealt`).
"""

from __future__ import annotations

import heapq
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

# Items that a first run looks at: how long others take lies between, by what they load.
_SAMPLES = 8
# Multiples of it lie evenly between whole numbers, however many there are.
_GOLDEN = 0.6180339887


@dataclass
class Claims:
    """The items that a CTA gets in turn: its own one, and those that it claims.

    `total` is known when the first one is claimed; `times` says when each was, and `begun` when
    each warp learned of its next one.
    """

    items: Sequence[int]
    total: int | None = None
    times: list[float] = field(default_factory=list)
    begun: dict[int, list[float]] = field(default_factory=dict)

    def claim(self, time: float, total: int | None) -> int | None:
        """The number of the next item; None where no one is left."""
        self.total = total
        self.times.append(time)
        turn = len(self.times)
        return self.items[turn] if turn < len(self.items) else None

    def begin(self, warp: int, time: float) -> None:
        """A warp reads which item is its next one."""
        self.begun.setdefault(warp, []).append(time)


@dataclass
class Survey:
    """What the items of a kernel load (bytes), as one warp that claims them or is told of them does
    one after another, a turn of its loop for each; trips of the loops inside are alike.
    """

    total: int | None = None
    bytes: list[float] = field(default_factory=list)
    told: int = 0
    scale: float = 1.0
    is_inside: bool = False

    def load(self, amount: float) -> None:
        if self.is_inside:
            self.bytes[-1] += amount * self.scale

    def next(self) -> int | None:
        """The number of the next item; None where no one is left."""
        if self.total is None or self.told + 1 >= self.total:
            return None
        self.told += 1
        return self.told


def sampled(loads: Sequence[float]) -> list[int]:
    """Some items by what each loads: from the most to the least.

    >>> sampled([3.0, 3.0, 1.0])
    [0, 1, 2]
    """
    order = sorted(range(len(loads)), key=lambda item: -loads[item])
    places = {round(n * (len(order) - 1) / _SAMPLES) for n in range(_SAMPLES + 1)}
    return [order[place] for place in sorted(places)]


@dataclass(frozen=True)
class Pace:
    """How long items take by what they load, in ascending order, and when CTAs claim: the first
    ones at the times `opening`, and each later one so many cycles (`after`) behind the beginning of
    the item that stands as many turns in front of it as there are first ones.
    """

    loads: tuple[float, ...]
    cycles: tuple[float, ...]
    first: float = 0.0
    opening: tuple[float, ...] = (0.0,)
    after: float = 0.0

    def of(self, load: float) -> float:
        """Cycles of an item.

        >>> Pace((0.0, 2.0), (1.0, 5.0)).of(1.0)
        3.0
        """
        at = bisect_left(self.loads, load)
        if at == len(self.loads):
            return self.cycles[-1]
        if at == 0 or self.loads[at] == load:
            return self.cycles[at]
        low, high = self.loads[at - 1], self.loads[at]
        share = (load - low) / (high - low)
        return self.cycles[at - 1] * (1 - share) + self.cycles[at] * share


def pace_of(claims: Claims, loads: Sequence[float]) -> Pace | None:
    """What a run over some items shows, whose loads are known; None where too little happened."""
    count = len(claims.items)
    slowest = max(
        (times for times in claims.begun.values() if len(times) >= count),
        key=lambda times: times[count - 1],
        default=None,
    )
    if slowest is None or count < 2:
        return None
    # A warp learns of an item where it ends the one in front of it.
    cycles = [after - before for before, after in pairwise(slowest[:count])]
    seen: dict[float, list[float]] = {}
    for item, each in zip(claims.items[1:], cycles, strict=True):
        seen.setdefault(loads[item], []).append(each)
    found = sorted((load, sum(each) / len(each)) for load, each in seen.items())
    pace = Pace(tuple(load for load, _ in found), tuple(each for _, each in found))
    first = max(0.0, slowest[0] - pace.of(loads[claims.items[0]]))
    # Those that are claimed while the first item is begun wait for no item to be done.
    opening = tuple(time for time in claims.times[:count] if 2 * time < slowest[0]) or (0.0,)
    begins = [first, *slowest]
    later = [
        claimed - begun
        for claimed, begun in zip(claims.times[len(opening) : count], begins[1:], strict=False)
    ]
    after = sum(later) / len(later) if later else 0.0
    return replace(pace, first=first, opening=opening, after=after)


@dataclass(frozen=True)
class Dealt:
    """The items of each CTA, and which one is done last."""

    items: tuple[tuple[int, ...], ...]
    last: int


def dealt(ctas: int, loads: Sequence[float], pace: Pace, spread: float = 0.0) -> Dealt:
    """Each CTA has the item of its own number first. CTAs begin within `spread` cycles, in an order
    that has nothing to do with their numbers.

    >>> dealt(2, [9.0, 5.0, 4.0, 1.0], Pace((0.0, 9.0), (0.0, 9.0)))
    Dealt(items=((0, 2), (1, 3)), last=0)
    """
    found = [[place] for place in range(ctas)]
    starts = [spread * (place * _GOLDEN % 1.0) for place in range(ctas)]
    begins = [[start + pace.first] for start in starts]
    ends = [begun[0] + pace.of(loads[place]) for place, begun in enumerate(begins)]
    queue = [(starts[place] + pace.opening[0], place) for place in range(ctas)]
    heapq.heapify(queue)
    opened = len(pace.opening)
    for item in range(ctas, len(loads)):
        time, place = heapq.heappop(queue)
        found[place].append(item)
        begins[place].append(ends[place])
        ends[place] += pace.of(loads[item])
        turn = len(found[place]) - 1
        if turn < opened:
            at = starts[place] + pace.opening[turn]
        else:
            at = begins[place][turn - opened + 1] + pace.after
        heapq.heappush(queue, (max(time, at), place))
    last = max(range(ctas), key=lambda place: ends[place])
    return Dealt(tuple(map(tuple, found)), last)
