"""Formulas of facts of products: each reads what there is, and something reads it."""

from __future__ import annotations

import ast
import re
from dataclasses import fields
from pathlib import Path

import numpy as np
import pytest

from cutedialect.choosing import price
from cutedialect.choosing.gemm_price import FUNCTIONS, Facts, gemm_price
from cutedialect.choosing.gemm_problem import TILES, Problem, tiles_of
from cutedialect.choosing.gemm_schedules import gemm_schedules

FORMULAS = {
    name: formula
    for group in price.table_of("gemm-facts")
    for name, formula in group["facts"].items()
}
PROBLEM = Problem(1000, 2048, 4096, 1, 16, 16)
# What is given: by the choice, and by a sheet of facts itself.
GIVEN = {"cycles", "margins", "p", "rasters", "total"}


def names_of(formula: str) -> set[str]:
    return {node.id for node in ast.walk(ast.parse(formula)) if isinstance(node, ast.Name)}


@pytest.mark.parametrize("name", FORMULAS)
def test_a_formula_reads_what_there_is(name):
    properties = {each for each in dir(Problem) if not each.startswith("_")}
    columns = {each.name for each in fields(Problem)} | properties | set(TILES.names or ())
    assert names_of(FORMULAS[name]) <= columns | GIVEN | set(FUNCTIONS) | set(FORMULAS)
    constants = set(re.findall(r"\bp\.(\w+)", FORMULAS[name]))
    assert constants <= set(vars(gemm_price(PROBLEM.device)))


def test_each_fact_is_read():
    read = set().union(*map(names_of, FORMULAS.values()))
    room = Path(price.__file__).parent
    files = *room.glob("gemm_*.py"), *price.FOLDER.glob("gemm-*.json")
    read |= {
        name
        for path in files
        if path.stem != "gemm-facts"
        for name in re.findall(r'"(\w+)"', path.read_text())
    }
    assert set(FORMULAS) - read == set()


def test_facts_are_numbers_or_columns():
    tiles = tiles_of(*gemm_schedules(16))
    f = Facts(tiles, PROBLEM, gemm_price(PROBLEM.device), cycles=np.full(len(tiles), 1e5))
    for name in FORMULAS:
        assert isinstance(f[name], tuple | list | bool | int | float | np.generic | np.ndarray)
        assert np.ndim(f[name]) == 0 or len(f[name]) in (2, 3, len(tiles))
