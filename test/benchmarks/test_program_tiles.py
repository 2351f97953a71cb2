"""Tiles of programs: their problems, the timings that are kept, and what the price file makes of
them.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pytest

from benchmarks import program_tiles
from benchmarks.fit import _device
from benchmarks.fit_timings import KEPT, read
from cutedialect.choosing.price import FOLDER


@pytest.fixture(scope="module")
def tiles():
    records = read(KEPT, "program-h200")
    cases = list(dict.fromkeys(each["case"] for each in records))[:20]
    few = [each for each in records if each["case"] in cases]
    return program_tiles.Tiles(few, _device("h200"))


def test_the_file_says_how_many_timings_are_kept():
    said = json.loads((FOLDER / "program-h200.json").read_text())["timings"]
    records = read(KEPT, "program-h200")
    assert said["count"] == len(records) > 1000
    assert said["problems"] == len({each["case"] for each in records})


def test_what_is_chosen_is_near_the_best(tiles):
    constants = json.loads((FOLDER / "program-h200.json").read_text())["constants"]
    longer, left = tiles.judged(constants)
    assert tiles.count == 20
    assert longer < 0.02
    # Without what a multiply takes besides, and what values do, more is left of the times.
    other = constants | {"between": [1.0, 1.0], "values": 1e6, "special_values": 1e6}
    assert tiles.judged(other)[1] > 1.2 * left


def test_every_program_is_drawn_and_has_its_arguments():
    names = program_tiles.drawn(3, 40)
    assert {name.split()[0] for name in names} == set(program_tiles.PROGRAMS)
    for name in names:
        program, shapes, _ = program_tiles.call_of(name)
        assert len(shapes) == len(program.parameters)


def test_tiles_that_spill_are_not_timed(monkeypatch):
    def tune(program, specs, more, configs, **_):
        timings = [SimpleNamespace(median=5.0, schedule="") for _ in configs]
        return SimpleNamespace(timings=timings, failures=[])

    monkeypatch.setattr(program_tiles, "tune", tune)
    monkeypatch.setattr(program_tiles, "_fits", lambda program, specs, tile, more: tile[0] > 64)
    (records,) = list(program_tiles.measured(1, 1.0, print, count=1))
    assert [each["schedule"] for each in records][:2] == ["(128, 64)", "(128, 128)"]
    assert {each["case"] for each in records} == {program_tiles.drawn(1, 1)[0]}
