"""The laws of `benchmarks/laws/` on a part of the layouts of `benchmarks.layout_laws`."""

from collections import Counter
from itertools import islice

import pytest

from benchmarks import layout_laws
from cutedialect.layout import Layout

_FEWEST_LAYOUTS = 5


# Shared by all laws, so that what several of them ask of a layout is computed once.
CASES = [
    layout_laws.Case(layout)
    for layout in (
        *islice(layout_laws.compact_layouts(), 7, None, 130),
        *islice(layout_laws.strided_layouts(), 3, None, 80),
        *islice(layout_laws.drawn_layouts(38), 50),
    )
]


@pytest.mark.some(137)
@pytest.mark.parametrize("name", layout_laws.LAWS)
def test_a_law_holds(name, capsys):
    said = Counter()
    assert layout_laws.broken(CASES, said, name) == 0, capsys.readouterr().out
    assert said[name] >= _FEWEST_LAYOUTS


def test_there_are_laws_of_all_that_the_algebra_has():
    assert len(layout_laws.LAWS) >= 150


def test_the_small_layouts_are_all_there():
    compact = list(layout_laws.compact_layouts())
    assert len(compact) == 4 + 2 * 4**2 + 6 * 4**3 + 24 * 4**4
    assert Layout((2, 3, 4, 2), (12, 1, 3, 24)) in compact
    strided = list(layout_laws.strided_layouts())
    assert Layout((4, 4), (32, 0)) in strided
    assert Layout((4, 4), (33, 0)) not in strided


def test_a_broken_law_is_told(monkeypatch, capsys):
    monkeypatch.setitem(layout_laws.LAWS, "sizes_are_even", lambda case: case.size % 2 == 0)
    said = Counter()
    assert (
        layout_laws.broken(map(layout_laws.Case, [Layout(3), Layout(4)]), said, "sizes_are_even")
        == 1
    )
    assert "sizes_are_even: 3:1" in capsys.readouterr().out


def test_a_law_that_says_nothing_is_told(monkeypatch, capsys):
    monkeypatch.setitem(layout_laws.LAWS, "nothing", lambda case: None)
    assert layout_laws.main(["--count", "3", "--law", "nothing"]) == 1
    assert "0 layouts: nothing" in capsys.readouterr().out


def test_processes_share_the_layouts(capsys):
    assert layout_laws.main(["--count", "20", "--jobs", "2", "--law", "sums_commute"]) == 0
    told = capsys.readouterr().out
    count = len(layout_laws.layouts_of(0, 0, 20))
    assert f"ones 0 to 19 of seed 0, {count:,} different ones: {count:,} statements" in told


def test_ranges_are_parts_of_one_draw():
    whole = set(layout_laws.layouts_of(7, 0, 60))
    parts = (set(layout_laws.layouts_of(7, first, 20)) for first in (0, 20, 40))
    assert set.union(*parts) == whole
    assert len(whole) == len(layout_laws.layouts_of(7, 0, 60))
