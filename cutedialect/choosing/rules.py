"""Rules as data: `prices/SPACE-rules.json` has tables, whose rows say of which facts they hold
(`when`, `unless`), what follows (`then`), and `why`. The first row that holds decides, or each that
does is one of several. A text of fields is a schedule; what a table tells of a problem is a fact of
others, by its name.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any

from cutedialect.schedule import Schedule

from .price import FOLDER

Facts = Mapping[str, Any]
Fact = Callable[[str], Any]
"""Tells a fact by its name."""


@dataclass(frozen=True)
class Rule:
    """What follows of problems with all facts of `when`, and not all of any of `unless`. A fact is
    a value, or the least and the most of a number that is known; null is no limit. `chosen.tile` is
    what the fact `chosen` has of that name.
    """

    when: Facts
    unless: Sequence[Facts]
    then: Any

    def holds(self, fact: Fact) -> bool:
        if not _hold(self.when, fact):
            return False
        return not (self.unless and any(_hold(each, fact) for each in self.unless))


@dataclass(frozen=True)
class Table:
    """Rules in the order in which they are asked, and all tables of the space by name."""

    rules: tuple[Rule, ...]
    tables: Mapping[str, Table] = field(default_factory=dict, repr=False, compare=False)

    def fact(self, problem: object, more: Facts) -> Fact:
        """What tells a fact of a problem, of `more`, or of another table; a function among more
        facts is called, with this one, when it is asked for.
        """

        def fact(name: str) -> Any:
            if name in more:
                value = more[name]
                return value(fact) if callable(value) else value
            if name in self.tables:
                return self.tables[name].first(problem, **more)
            if "." in name:
                of, _, path = name.partition(".")
                return attrgetter(path)(fact(of))
            return getattr(problem, name)

        return fact

    def each(self, problem: object, **more: object) -> Iterator[Any]:
        """What follows of a problem, and of `more` facts, by each rule that holds."""
        fact = self.fact(problem, more)
        return (rule.then for rule in self.rules if rule.holds(fact))

    def first(self, problem: object, **more: object) -> Any:
        """The same by the first one; each fact is asked for once."""
        fact = cache(self.fact(problem, more))
        return next(rule.then for rule in self.rules if rule.holds(fact))

    def filled(self, tile: Schedule, given: Schedule, problem: object, **more: object) -> Schedule:
        """A tile with what it and `given` leave open: of each field the first row that holds. Rows
        ask of what is `given`, what the rows before have `chosen`, and of both as a `whole`.
        """
        chosen = tile
        now = {"chosen": lambda _: chosen, "whole": lambda _: chosen.merged(given)}
        for fields in self.each(problem, given=given, **now, **more):
            chosen = fields.merged(chosen)
        return chosen.merged(given)


def _hold(facts: Facts, fact: Fact) -> bool:
    for name, wanted in facts.items():
        value = fact(name)
        if not isinstance(wanted, list):
            if value != wanted:
                return False
            continue
        least, most = wanted
        if value is None or (least is not None and value < least):
            return False
        if most is not None and value > most:
            return False
    return True


def load_rules(space: str) -> SimpleNamespace:
    """The tables of a space by name."""
    text = (FOLDER / f"{space}-rules.json").read_text(encoding="utf-8")
    loaded = SimpleNamespace()
    for name, table in json.loads(text).items():
        rules = (
            Rule(row["when"], row.get("unless", ()), _read(row["then"])) for row in table["rows"]
        )
        setattr(loaded, name, Table(tuple(rules), vars(loaded)))
    return loaded


def _read(then: Any) -> Any:
    return Schedule.parse(then) if isinstance(then, str) and "=" in then else then
