"""The laws of `benchmarks/layout_laws.py` on a part of the layouts that the command looks at."""

from collections import Counter
from itertools import islice

import pytest

from benchmarks import layout_laws
from cutedialect.layout import Layout


@pytest.mark.parametrize("name", layout_laws.LAWS)
def test_a_law_holds(name, capsys):
    counts = Counter()
    some = [
        *islice(layout_laws.compact_layouts(), 7, None, 130),
        *islice(layout_laws.strided_layouts(), 3, None, 80),
        *islice(layout_laws.drawn_layouts(38), 50),
    ]
    assert layout_laws.broken(some, counts, name) == 0, capsys.readouterr().out
    assert counts[name] == len(some) > 100


def test_the_small_layouts_are_all_there():
    compact = list(layout_laws.compact_layouts())
    assert len(compact) == 4 + 2 * 4**2 + 6 * 4**3 + 24 * 4**4
    assert Layout((2, 3, 4, 2), (12, 1, 3, 24)) in compact
    strided = list(layout_laws.strided_layouts())
    assert Layout((4, 4), (32, 0)) in strided
    assert Layout((4, 4), (33, 0)) not in strided


def test_a_broken_law_is_told(monkeypatch, capsys):
    monkeypatch.setitem(layout_laws.LAWS, "sizes_are_even", lambda layout: layout.size() % 2 == 0)
    counts = Counter()
    assert layout_laws.broken([Layout(3), Layout(4)], counts, "sizes_are_even") == 1
    assert "sizes_are_even: 3:1" in capsys.readouterr().out
