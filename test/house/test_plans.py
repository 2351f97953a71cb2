"""A plan's name and its text are one plan: nothing but `choices.py` asks for a name."""

import ast
from pathlib import Path

import pytest

from cutedialect.choices import PLANS
from cutedialect.passes.analysis import role_plan
from cutedialect.plans import KINDS, plan_of

ROOT = Path(__file__).parents[2]


def is_a_name(node):
    """Whether an expression is the name of a plan, or a collection that has one."""
    return any(
        isinstance(inner, ast.Constant) and inner.value in PLANS
        for inner in ([node, *getattr(node, "elts", []), *getattr(node, "keys", [])])
    )


def is_asked(node):
    """Whether an expression is the text of a schedule's plan, alone or among others."""
    return any(
        isinstance(inner, ast.Attribute) and inner.attr == "roles"
        for inner in (node, *getattr(node, "elts", []))
    )


def is_none(node):
    """Whether an expression is None, or several of it."""
    if isinstance(node, ast.BinOp):
        return is_none(node.left)
    parts = getattr(node, "elts", [node])
    return all(isinstance(part, ast.Constant) and part.value is None for part in parts)


def comparisons(tree):
    """Lines that compare the name of a plan, or look one up by it."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            by_text = any(map(is_asked, sides)) and not any(map(is_none, sides))
            if by_text or any(map(is_a_name, sides)):
                yield node.lineno
        elif isinstance(node, ast.Subscript) and is_asked(node.slice):
            yield node.lineno
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in ("get", "startswith", "endswith") and any(
                is_asked(argument) or is_asked(node.func.value) for argument in node.args
            ):
                yield node.lineno
        elif isinstance(node, ast.MatchValue) and is_a_name(node.value):
            yield node.pattern.lineno if hasattr(node, "pattern") else node.value.lineno


@pytest.mark.parametrize(
    ("line", "count"),
    [
        ('schedule.roles == "alternate"', 1),
        ('roles in (None, "uniform")', 1),
        ('"uniform" != roles', 1),
        ("schedule.roles in _ROWS", 1),
        ("_ROWS[schedule.roles]", 1),
        ("_ROWS.get(schedule.roles)", 1),
        ("schedule.roles.startswith('s')", 1),
        ("match roles:\n    case 'split':\n        pass", 1),
        ("schedule.roles is None", 0),
        ("(given.tile, given.roles) != (None,) * 2", 0),
        ("schedule.plan.teams == 2", 0),
        ('Schedule(roles="uniform")', 0),
    ],
)
def test_comparisons_are_noticed(line, count):
    assert len(list(comparisons(ast.parse(line)))) == count


@pytest.mark.parametrize("folder", ["cutedialect", "benchmarks", "examples"])
def test_only_the_table_compares_names_of_plans(folder):
    faults = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        if path.name != "choices.py"
        for line in comparisons(ast.parse(path.read_text()))
    ]
    assert not faults, "\n".join(faults)


def test_every_kind_has_its_ops():
    assert set(role_plan._IS_OF_KIND) == set(KINDS)


@pytest.mark.parametrize("name", PLANS)
def test_a_name_and_its_text_are_one_plan(name):
    assert plan_of(name) == plan_of(f"({PLANS[name]})")
    assert plan_of(name, 3) == plan_of(f"({PLANS[name]})", 3)
