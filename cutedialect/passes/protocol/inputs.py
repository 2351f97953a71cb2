"""The inputs of a case of trips: what each term is that control asks for."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from .nodes import Skeleton
from .steps import CLAIMS

ITEMS = 2
"""Work items of a CTA, where a list of shares says so, or claims do."""
# What is the first of its kind in all cases.
_FIRST = ("cute.cluster_rank", "cute.search", "cute.find")


@dataclass(eq=False)
class Inputs:
    """The inputs of one case; those asked for are noted."""

    skeleton: Skeleton
    tiles: dict[Any, int] = field(default_factory=dict)
    """By extent, how many tiles it has, one where none says so ("all" says it of all others); by
    scalar, what it is."""
    values: dict[Any, int] = field(default_factory=dict)
    """What some terms are, whatever else is said."""
    grid: int = 0
    """CTAs; as many as a cluster has where none are said."""
    block: int = 0
    data: int = 0
    above: int = 1
    """Elements of tensors are their index, and so many more, times `data`."""
    holds: bool = False
    """Whether conditions of data hold."""
    has_values: bool = False
    """Whether some register of all that are asked is what is asked for."""
    has_tiles: bool = True
    """Whether extents count tiles, and not elements."""
    absent: int = 0
    """Elements that the last tile of an extent lacks."""
    claims: int = ITEMS
    claimed: int = 1
    """Work items of a CTA that claims them, and whether they are the last one or the first."""
    asked: dict[Any, int] = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        self.grid = self.grid or self.skeleton.cluster

    def __call__(self, term: Any) -> int:
        known = self.asked.get(term)
        if known is None:
            known = self.asked[term] = self.answer(term)
        return known

    def answer(self, term: Any, number: Callable[[Any], int] | None = None) -> int:
        """What a term is, without a note that it was asked for, where a `number` gives those that
        it is made of, or these inputs do.
        """
        if term in self.values:
            return self.values[term]
        kind = term[0]
        if kind in ("input", "dim") and (key := key_of(term)) is not None:
            return self._extent(key) if kind == "dim" else self.tiles.get(key, 1)
        if kind == "claims":
            return self.claims if term == CLAIMS else self.claimed * (term[2] - 1)
        if kind == "condition":
            return int(self.holds or (self.has_values and term[1] == "cute.any"))
        return self._number(term, number or self)

    def but(self, **changes: Any) -> Inputs:
        """The same but for some attributes; those by key but for some keys."""
        for name in ("tiles", "values"):
            changes[name] = getattr(self, name) | changes.get(name, {})
        return replace(self, **changes)

    def _extent(self, key: Any) -> int:
        unit = self.skeleton.units.get(key, 1) if self.has_tiles else 1
        tiles = self.tiles.get(key, self.tiles.get("all", 1))
        return unit * tiles - (self.absent if tiles and unit > 1 else 0)

    def _number(self, term: Any, number: Callable[[Any], int]) -> int:
        """What an op gives that is of no extent."""
        name = term[1]
        if name == "cute.block_idx":
            return self.block if term[2] and "x" in term[2][0] else 0
        if name == "cute.grid_dim":
            return self.grid if term[2] and "x" in term[2][0] else 1
        if name in _FIRST:
            return 0
        if name == "cute.member":
            # Where each share of the work items begins.
            return ITEMS * _index(term[4:], number)
        if name == "cute.read":
            # Numbers that grow, as offsets do, from zero or from the first one on.
            return self.data * (_index(term[4:], number) + self.above)
        return self.data


def _index(terms: Sequence[Any], number: Callable[[Any], int]) -> int:
    return sum(term if isinstance(term, int) else number(term) for term in terms)


def key_of(term: Any) -> Any:
    """What a case varies of a term: an input, or an extent (argument, mode); None for another."""
    if term[0] == "input":
        return term
    if term[0] != "dim":
        return None
    of = term[2]
    if of[1] == "cute.member":
        of = of[3]
    return (of[1], term[1]) if of[0] == "input" else None


def name_of(skeleton: Skeleton, key: Any, tiles: int) -> str:
    """What a case varies, in words."""
    is_input = key[0] == "input"
    number = key[1] if is_input else key[0]
    argument = skeleton.kernel.body.block.args[number]
    name = f"%{argument.name_hint or number}"
    if is_input:
        return f"{name} = {tiles}"
    return f"{tiles} tile{'s' * (tiles != 1)} along mode {key[1]} of {name}"
