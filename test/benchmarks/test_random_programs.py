"""Tile programs drawn by lot are right on every target; what fails is made small, and is told."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.numpy_tiles import InexactError, NumpyTiles
from benchmarks.program_views import SMALL
from benchmarks.random_programs import (
    TARGETS,
    Outcome,
    expected,
    main,
    outcome,
    program_of,
    smaller,
    takes,
)
from benchmarks.tile_program import Argument, Program

COUNT, TOGETHER, SEED = 200, 10, 0


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")


@pytest.mark.some(2)
@pytest.mark.parametrize("first", range(0, COUNT, TOGETHER))
def test_programs_are_right_on_every_target(first) -> None:
    wrong = []
    for number in range(first, first + TOGETHER):
        program = program_of(SEED, number, SMALL)
        for target in (each for each in TARGETS if takes(each, program)):
            found = outcome(program, target)
            if found.kind != "right":
                wrong.append(f"{target}: {found.kind}: {found.reason}\n{program.script}")
    assert not wrong, "\n\n".join(wrong)


@pytest.mark.some(1)
@pytest.mark.parametrize("sizes", [SMALL, None])
def test_every_feature_is_in_a_twentieth_of_the_programs(sizes) -> None:
    count = 1000
    given = [program_of(SEED, n, *([sizes] if sizes else [])) for n in range(count)]
    shares = Counter(feature for program in given for feature in program.features)
    assert {feature: n for feature, n in shares.items() if n < count / 20} == {}
    assert len(shares) > 40


def program(*lines: str, **arguments: Argument) -> Program:
    named = tuple(replace(argument, name=name) for name, argument in arguments.items())
    return Program(0, named, tuple("    " + line for line in lines), frozenset())


MATRIX = Argument("", (8, 8), "i32", (0, 1), 0, 0, 1, -3, 3)


def test_a_failure_is_made_small() -> None:
    """Here every program with a loop fails: all but a loop goes."""
    given = program(
        "i, j = cute.tile_index(Y, (4, 8))",
        "x = cute.local_tile(X, (4, 8), (i, j)).load()",
        "total = cute.zeros((4, 8), cute.i32)",
        "for k in cute.range(3):",
        "    total += x",
        "    total += 1",
        "cute.copy(total, cute.local_tile(Y, (4, 8), (i, j)))",
        X=replace(MATRIX, pad=3, offset=1),
        Y=MATRIX,
    )
    failed = Outcome("refused", "a.py:3: loops of 8 trips")

    def judged(candidate, target, backend="emulator"):
        expected(candidate)
        return failed if "for k" in candidate.source else Outcome("right")

    small = smaller(given, "sm_80", failed, judge=judged)
    assert "for k" in small.source
    assert len(small.lines) <= 5
    assert {(a.pad, a.offset) for a in small.arguments} == {(0, 0)}


def test_what_a_program_means() -> None:
    """Edges, slices in front of the tensor, masks, branches and order, in NumPy alone."""
    given = program(
        "i, j = cute.tile_index(Y, (8, 8))",
        "x = cute.local_tile(X.slice(0, -2, 6), (8, 8), (i, j)).load()",
        "with cute.when(i > 0):",
        "    cute.copy(x, cute.local_tile(Y, (8, 8), (i, j)))",
        "with cute.otherwise():",
        "    view = cute.local_tile(Y, (8, 8), (i, j))",
        "    cute.copy(x + 10, view, cute.coord(x, 1) < 2)",
        X=MATRIX,
        Y=replace(MATRIX, seed=2),
    )
    x, y = MATRIX.make(), replace(MATRIX, seed=2).make()
    y[2:, :2] = x[:6, :2] + 10
    y[:2, :2] = 10
    np.testing.assert_array_equal(expected(given)[1], y)


def test_values_that_a_type_rounds_are_told() -> None:
    given = program(
        "cute.tile_index(X, (8, 8))",
        "x = cute.local_tile(X, (8, 8), (0, 0)).load()",
        "x.to(cute.f16) * 4096",
        X=replace(MATRIX, low=3),
    )
    with pytest.raises(InexactError, match="beyond the integers of float16"):
        expected(given)
    assert NumpyTiles().minimum(3, 4) == 3


def test_the_command(capsys) -> None:
    assert main(["--count", "2", "--target", "sm_80"]) == 0
    text = capsys.readouterr().out
    assert "2 programs in" in text
    assert "sm_80: 2 right, 0 refused, 0 wrong, 0 broken" in text


def test_a_run_goes_on_where_another_one_ended(capsys, monkeypatch) -> None:
    asked = []

    def noted(program, target, backend="emulator", times=1):
        asked.append(program.number)
        return Outcome("right")

    monkeypatch.setattr("benchmarks.random_programs.outcome", noted)
    assert main(["--first", "7", "--count", "2", "--target", "sm_90a"]) == 0
    assert asked == [7, 8]


@pytest.mark.parametrize("jobs", ["1", "2"])
def test_a_program_that_no_target_takes(jobs, capsys) -> None:
    number = next(n for n in range(COUNT) if not takes("sm_80", program_of(SEED, n)))
    assert main(["--only", str(number), "--target", "sm_80", "--jobs", jobs]) == 0
    assert "sm_80: 0 right, 0 refused, 0 wrong, 0 broken" in capsys.readouterr().out
