"""Tables of rules: each row decides for some drawn problem, others are refused."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from dataclasses import fields
from itertools import islice, pairwise
from typing import Any

import pytest

from benchmarks import attention_choices
from cutedialect.choosing import rules
from cutedialect.choosing.attention_backward_space import ATTENTION_BACKWARD
from cutedialect.choosing.attention_backward_space import open_parameters as backward_parameters
from cutedialect.choosing.attention_parameters import open_parameters, takes_turns
from cutedialect.choosing.attention_problem import BACKWARD_RULES as BACKWARD
from cutedialect.choosing.attention_problem import RULES as FORWARD
from cutedialect.choosing.attention_problem import AttentionBackwardProblem, AttentionProblem
from cutedialect.choosing.attention_space import ATTENTION
from cutedialect.choosing.need import NONE
from cutedialect.choosing.rules import Rule, Table, load_rules
from cutedialect.schedule import Schedule

ROW = {"when": {"rows": [1, None]}, "then": 1, "why": "some rows"}


# What tuning times, and another target of a family: no draw has them.
MORE = (
    (AttentionProblem((64, 64)), Schedule.parse("tile = (64,64), ctas = 4")),
    (AttentionProblem((64, 64), arch="sm_100f"), None),
    (AttentionProblem((64, 64), arch="sm_80"), Schedule(maxima="guessed")),
)


def ask_all() -> None:
    """What both spaces ask of drawn problems."""
    for problem, given in (*map(attention_choices.drawn, attention_choices.NUMBERS), *MORE):
        for schedule in islice(ATTENTION.ranked(problem, given, NONE), 3):
            open_parameters(problem, schedule)
            takes_turns(problem, schedule)
    for problem in backward_problems():
        for schedule in islice(ATTENTION_BACKWARD.ranked(problem, None, NONE), 3):
            backward_parameters(problem, schedule)


def backward_problems() -> Iterator[AttentionBackwardProblem]:
    rng, targets = random.Random("attention backward"), ("sm_80", "sm_90a", "sm_100a")
    for _ in range(2500):
        depth = rng.choice((32, 48, 64, 80, 96, 112, 128, 160, 176, 192, 256))
        names = "is_masked", "has_window", "is_sliced", "is_capped", "is_f16"
        facts = {name: rng.random() < 0.4 for name in names}
        width = depth if rng.random() < 0.7 else 128
        yield AttentionBackwardProblem(
            (depth, width), group=rng.choice((1, 4)), adds=depth <= 128 and rng.random() < 0.7,
            loads_boxes=rng.random() < 0.8, arch=rng.choice(targets),
            rows=rng.choice((None, 512, 4096)), sequences=rng.choice((None, 4, 64)), **facts,
        )  # fmt: skip


@pytest.fixture(scope="module")
def deciding() -> dict[int, set[int]]:
    """The rows of each table without which another one would have told something else."""
    tables = [*vars(FORWARD).values(), *vars(BACKWARD).values()]
    found: dict[int, set[int]] = {id(table): set() for table in tables}
    patch, filled, filling = pytest.MonkeyPatch(), Table.filled, []

    def each(table: Table, problem: object, **more: object) -> Iterator[Any]:
        fact = table.fact(problem, more)
        held = ((place, rule.then) for place, rule in enumerate(table.rules) if rule.holds(fact))
        if id(table) not in found or id(table) in filling:
            return (then for _, then in held)
        held = list(held)
        rows = found[id(table)]
        rows |= {place for (place, then), (_, other) in pairwise(held) if then != other}
        rows |= {place for place, _ in held[-1:]}
        return iter([then for _, then in held])

    def filled_as_well(table: Table, *args: Any, **more: Any) -> Schedule:
        filling.append(id(table))
        schedule, rows = filled(table, *args, **more), found.get(id(table), set())
        filling.pop()
        for place in {*range(len(table.rules))} - rows:
            others = Table((*table.rules[:place], *table.rules[place + 1 :]), table.tables)
            if filled(others, *args, **more) != schedule:
                rows.add(place)
        return schedule

    def first(table: Table, problem: object, **more: object) -> Any:
        return next(each(table, problem, **more))

    patch.setattr(Table, "each", each)
    patch.setattr(Table, "first", first)
    patch.setattr(Table, "filled", filled_as_well)
    ask_all()
    patch.undo()
    return found


@pytest.mark.parametrize(
    ("tables", "name"),
    [
        pytest.param(tables, name, id=f"{space} {name}")
        for space, tables in (("attention", FORWARD), ("backward", BACKWARD))
        for name in vars(tables)
        if name != "narrow_caches"  # `test_narrow_caches_have_what_was_fastest`
    ],
)
def test_each_row_decides(tables, name, deciding):
    table: Table = getattr(tables, name)
    assert deciding[id(table)] == set(range(len(table.rules)))


def test_the_first_row_that_holds_decides():
    wide = Rule({"widest": [65, None]}, ({"rows": None},), "wide")
    table = Table((wide, Rule({}, (), "narrow")))
    assert table.first(AttentionProblem((128, 64), rows=8)) == "wide"
    assert table.first(AttentionProblem((128, 64))) == "narrow"
    assert table.first(AttentionProblem((64, 64), rows=8)) == "narrow"
    assert list(table.each(AttentionProblem((128, 64)), rows=8)) == ["wide", "narrow"]


def test_of_each_field_the_first_row_decides():
    """A later row asks of what those before it chose, and of what is given."""
    rows = (
        Rule({}, (), Schedule(scheduler="single")),
        Rule({"given.tile": None}, (), Schedule(scheduler="dynamic", stages=2)),
        Rule({"chosen.stages": [2, None]}, (), Schedule(raster=1)),
    )
    table, problem = Table(rows), AttentionProblem((64, 64))
    open_, tile = Schedule(), Schedule(tile=(64, 64))
    assert (
        table.filled(open_, open_, problem).text() == "stages = 2, scheduler = single, raster = 1"
    )
    assert table.filled(open_, tile, problem) == Schedule(tile=(64, 64), scheduler="single")
    assert table.filled(open_, Schedule(raster=4), problem).raster == 4


def test_a_table_is_a_fact_of_others():
    wide = Table((Rule({"widest": [limit := 65, None]}, (), True), Rule({}, (), False)))
    asking = Table((Rule({"is_wide": True}, (), "wide"), Rule({}, (), "narrow")), {"is_wide": wide})
    assert asking.first(AttentionProblem((limit, 64))) == "wide"
    assert asking.first(AttentionProblem((64, 64))) == "narrow"
    doubled = {"doubled": lambda fact: 2 * fact("widest")}
    twice = Table((Rule({"doubled": 128}, (), "asked"),))
    assert twice.first(AttentionProblem((64, 64)), **doubled) == "asked"


@pytest.mark.parametrize(
    ("space", "kind"),
    [("attention", AttentionProblem), ("attention_backward", AttentionBackwardProblem)],
)
def test_rows_ask_of_known_facts_and_say_why(space, kind):
    """Those of the problem, of other tables, and what a table says that it is told beside."""
    tables = json.loads((rules.FOLDER / f"{space}-rules.json").read_text())
    known = {field.name for field in fields(kind)} | {*dir(kind)}
    assert known.isdisjoint(tables)
    for name, table in tables.items():
        assert table.keys() == {"of", "facts", "rows"}, name
        for row in table["rows"]:
            assert {"when", "then"} <= row.keys() <= {"when", "unless", "then", "why"}, row
            assert row.get("why") or not row["when"], row
            asked = {
                fact.partition(".")[0]
                for facts in (row["when"], *row.get("unless", ()))
                for fact in facts
            }
            assert asked <= {*known, *tables, *table["facts"]}, row


def test_a_text_of_fields_is_a_schedule(tmp_path, monkeypatch):
    monkeypatch.setattr(rules, "FOLDER", tmp_path)
    rows = [ROW | {"then": then} for then in ("tile = (64,64)", "lazy")]
    tables = {"keys": {"of": "keys", "facts": [], "rows": rows}}
    (tmp_path / "made-rules.json").write_text(json.dumps(tables))
    first, other = load_rules("made").keys.rules
    assert (first.then.tile, other.then) == ((64, 64), "lazy")
