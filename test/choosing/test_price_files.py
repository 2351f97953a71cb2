"""Files of prices: the page names each constant, and the room that decides asks for each."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from cutedialect.choosing import price

ROOM = Path(price.__file__).parent
FILES = sorted(
    path
    for path in price.FOLDER.glob("*.json")
    if not path.stem.endswith(("-candidates", "-facts", "-rules"))
)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_each_constant_is_explained_and_used(path):
    constants = json.loads(path.read_text())["constants"]
    page = (price.FOLDER / "README.md").read_text()
    named = set(re.findall(r"`(\w+)`", page))
    files = *ROOM.glob("*.py"), price.FOLDER / "gemm-facts.json"
    code = "\n".join(each.read_text() for each in files)
    asked = set(re.findall(r"\b(?:price|PRICE|self|p)\.(\w+)", code))
    assert set(constants) - named == set()
    assert set(constants) - asked == set()


def test_a_file_without_trees_has_none():
    assert price.load("attention", "h100").trees is price.NO_TREES
    assert price.load("gemm", "h100").trees.rows


def test_numbers_are_keys_of_tables():
    assert price.named({"resident": {"64": 3}, "margins": {"shared": 1.2}, "gain": 0.9}) == {
        "resident": {64: 3},
        "margins": {"shared": 1.2},
        "gain": 0.9,
    }
