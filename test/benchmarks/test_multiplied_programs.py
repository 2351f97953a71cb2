"""Programs of several multiplies are drawn by class, run against NumPy; refusals are judged."""

from __future__ import annotations

import argparse
import contextlib
import linecache
from collections import Counter
from dataclasses import replace
from random import Random

import numpy as np
import pytest

from benchmarks import multiplied_programs
from benchmarks.multiplied_family import FAMILIES
from benchmarks.multiplied_lot import _Lot, draw
from benchmarks.multiplied_operands import TooLongError
from benchmarks.multiplied_programs import TARGETS, judged, program_of
from benchmarks.multiplied_steps import COMBINATIONS, Step, combinations
from benchmarks.numpy_tiles import InexactError
from benchmarks.program_outcome import Outcome, expected, outcome
from benchmarks.program_refusals import lacks
from benchmarks.program_views import LARGE
from benchmarks.random_programs import _small, main
from benchmarks.tile_program import Argument, Program

SEED = 0
MATRIX = Argument("", (64, 64), "f16", (0, 1), 0, 0, 1, -1, 1)


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")


def program(*lines: str, must_be_refused: bool = False, **arguments: Argument) -> Program:
    named = tuple(replace(argument, name=name) for name, argument in arguments.items())
    text = tuple("    " + line for line in lines)
    return Program(0, named, text, frozenset(), "", must_be_refused)


@pytest.mark.some(8)
@pytest.mark.parametrize("family", FAMILIES)
def test_every_class_is_drawn(family) -> None:
    """Each number gives one program, with what the class is about, and NumPy runs it."""
    special = {each.replace("_", " ") for each in FAMILIES[family].specials}
    for number in range(6):
        drawn = program_of(SEED, number, family)
        multiplied_programs.program_of.cache_clear()
        assert drawn == program_of(SEED, number, family)
        assert f"class {family}" in drawn.features
        assert not special or special & drawn.features
        assert any(isinstance(each, np.ndarray) for each in expected(drawn))


def test_what_programs_are_made_of() -> None:
    drawn = [program_of(SEED, number, "mixed") for number in range(120)]
    shares = Counter(feature for each in drawn for feature in each.features)
    wanted = {
        *(f"operands: {kind}" for kind in ("memory", "scaled", "masked", "dequantized", "result")),
        *(f"trips {trips}" for trips in ("0", "1", "2", "3", "4+")),
        "an operand beside its transpose", "the same operand twice", "nested loops", "branches",
        "unrolled loops", "stores in a loop", "atomics", "sums of results", "transposed views",
        "accumulators updated", "ragged sizes", "trips at run time", "runs of tiles",
    }  # fmt: skip
    assert {feature for feature in wanted if shares[feature] < 3} == set()
    assert {each.schedule != "" for each in drawn} == {True, False}
    counts = Counter(sum("cute.gemm(" in line for line in each.lines) for each in drawn)
    assert {2, 3, 4, 5} <= set(counts)


def test_combinations_that_raced_and_hung_are_drawn() -> None:
    """Each in at least one program of fifty."""
    drawn = []
    for number, family in enumerate(list(FAMILIES) * 30):
        with contextlib.suppress(TooLongError):
            drawn.append(draw(number, family))
    shares = Counter(feature for each in drawn for feature in each.features)
    assert len(COMBINATIONS) == 6
    assert {name for name in COMBINATIONS if shares[name] < len(drawn) / 50} == set()


def test_what_trips_combine() -> None:
    """A store, and behind it a multiply of 128 rows that is stored too: in one loop, not in two."""
    multiply = Step("multiply", "p", 128, "t", "memory", "memory")
    around = [Step("store", "x", 64, "t"), multiply, Step("store", "p", 128, "t")]
    assert list(combinations(around)) == ["trips: stores around a multiply of 128 rows"]
    assert list(combinations(around[1:])) == []
    assert list(combinations([replace(around[0], loop="u"), *around[1:]])) == []
    assert list(combinations([around[0], replace(multiply, rows=64), around[2]])) == []
    chained = replace(multiply, left="result")
    assert list(combinations([replace(chained, loop="")] * 3)) == [
        "three multiplies in a row, one chained"
    ]
    computed = replace(multiply, left="result", right="scaled")
    assert list(combinations([computed, Step("sum", "x", 64, "t")])) == [
        "trips: rows summed beside a computed right operand",
        "trips: a chain whose right operand is computed",
    ]


@pytest.mark.parametrize(
    ("kind", "trips", "refused"),
    [("unrolled", 0, False), ("unrolled", 1, True), ("loop", 0, True), ("loop", 1, True)],
)
def test_a_mistake_in_a_loop_without_trips(kind, trips, refused) -> None:
    """A loop of Python does not say it; one that is traced does."""
    lot = _Lot(Random(0), 0, LARGE)
    lot.family = replace(FAMILIES["calls"], trips=(trips,))
    lot.sides = [16, 16, 16]
    with lot.loop(kind):
        lot.foreign_argument()
    assert lot.must_be_refused == refused


def test_a_schedule_that_does_not_fit_is_told_apart(capsys) -> None:
    """Threads multiply here: the role plan is refused, and the program is not."""
    given = program(
        "t = cute.zeros((64, 64))",
        "a, b = (cute.local_tile(x, (64, 64), (0, 0)) for x in (A, B))",
        "cute.gemm(a, b, t)",
        "cute.copy(t, cute.local_tile(C, (64, 64), (0, 0)))",
        A=MATRIX, B=MATRIX, C=replace(MATRIX, dtype="f32", seed=0, low=0, high=0),
    )  # fmt: skip
    given = replace(given, features=frozenset({"class mixed"}))
    split = replace(given, schedule="roles = split")
    assert judged(given, "sm_80").kind == "right"
    found = judged(split, "sm_80")
    assert found.kind == "misfit"
    multiplied_programs.report([(split, {"sm_80": found, "sm_89": Outcome("right")})], TARGETS[:2])
    told = capsys.readouterr().out
    assert "0.0 % refused of 1 programs; 1 others only with the schedule" in told


@pytest.mark.parametrize(("special", "operand"), [("negated", "i8"), ("scaled_call", "f16")])
def test_a_call_of_what_is_no_argument_has_to_be_refused(special, operand) -> None:
    """Integers are not negated; tiles of f16 have one precision, and no sums of their own."""
    found = set()
    for seed in range(8):
        lot = _Lot(Random(seed), 0, LARGE)
        lot.family, lot.sides, lot.operand = FAMILIES["calls"], [16, 16, 16], operand
        getattr(lot, special)()
        (call,) = [line for line in lot.lines if "cute.gemm" in line]
        found.add((call.rstrip(")").split(", ")[-1].split("=")[0], lot.must_be_refused))
    wanted = {("negate", True)} if special == "negated" else {
        ("precision", True), ("fast_accum", True), ("fast_accum", False),
    }  # fmt: skip
    assert found == wanted


def test_arrays_that_overlap_may_be_declined(capsys) -> None:
    """What is read again behind a store to an array over it; refused otherwise, it is refused."""
    given = program(
        "for t in cute.range(2):",
        "    x = cute.local_tile(X, (64, 64), (0, 0)).load()",
        "    cute.copy(x * 2, cute.local_tile(X_, (64, 64), (0, 0)))",
        X=replace(MATRIX, dtype="f32"), X_=replace(MATRIX, dtype="f32", alias="X"),
    )  # fmt: skip
    given = replace(given, features=frozenset({"class aliases"}))
    assert judged(given, "sm_80").kind == "refused"
    found = judged(replace(given, may_be_refused="memory of its own"), "sm_80")
    assert found.kind == "declined"
    assert judged(replace(given, may_be_refused="something else"), "sm_80").kind == "refused"
    multiplied_programs.report([(given, {"sm_80": found, "sm_89": Outcome("right")})], TARGETS[:2])
    assert "0.0 % refused of 1 programs; 0 others" in capsys.readouterr().out


@pytest.mark.parametrize("target", TARGETS)
def test_a_program_is_right(target) -> None:
    given = program(
        "t = cute.zeros((64, 64))",
        "for k in cute.range(2):",
        "    a = cute.local_tile(A, (64, 64), (0, 0)).load() * 2",
        "    cute.gemm(a, cute.local_tile(B, (64, 64), (0, 0)), t)",
        "cute.copy(t, cute.local_tile(Y, (64, 64), (0, 0)))",
        A=MATRIX,
        B=replace(MATRIX, seed=2),
        Y=replace(MATRIX, dtype="f32"),
    )
    a, b, _ = given.make()
    np.testing.assert_array_equal(
        expected(given)[2], 4 * np.asarray(a, np.float32) @ np.asarray(b, np.float32)
    )
    assert judged(given, target) == Outcome("right")


def test_operands_that_tf32_rounds_are_told() -> None:
    given = program(
        "x = cute.local_tile(X, (16, 16), (0, 0)).load()",
        "cute.gemm(x * 1025, x, cute.zeros((16, 16)))",
        X=replace(MATRIX, dtype="f32", shape=(16, 16), low=2, high=2),
    )
    with pytest.raises(InexactError, match="beyond the integers of tf32"):
        expected(given)


def test_an_array_in_two_arguments() -> None:
    """What lies over an array, some rows further on, is changed with it."""
    given = program(
        "x = cute.local_tile(X, (64, 64), (0, 0)).load()",
        "cute.copy(x + 9, cute.local_tile(X_, (64, 64), (0, 0)))",
        X=MATRIX,
        X_=replace(MATRIX, alias="X", shift=4),
    )
    base, over = given.make()
    assert np.shares_memory(base, over)
    before = np.array(base)
    np.testing.assert_array_equal(expected(given)[0][4:], before[:60] + 9)


def test_a_refusal_that_has_to_be() -> None:
    lines = "t = cute.zeros((64, 64))", "cute.copy(t, cute.local_tile(Y, (64, 64), (0, 0)))"
    given = program(*lines, must_be_refused=True, Y=replace(MATRIX, dtype="f32"))
    assert outcome(given, "sm_80") == Outcome("wrong", "expected a refusal, got a result")


def test_what_a_refusal_lacks() -> None:
    assert lacks("a.py:3: error[CD-P2]: expected 1, got 2; take 1") == ""
    assert lacks("a.py:3:7: error[CD-P2]: expected 1, got 2\n  note: take 1") == ""
    assert lacks("a.py:3: error[CD-PASS]: expected 1, got 2") == "a remedy"
    # What a trace expects is what to write instead.
    assert lacks("a.py:3: error[CD-P2]: alpha: expected acc * alpha, got an argument") == ""
    # An argument of the call is named instead of a line.
    assert lacks("ValueError: X: expected memory of its own, got an array that overlaps Y") == ""
    assert lacks("ValueError: expected 1, got 2") == "a line and a remedy"


def test_a_default_that_refuses_what_a_schedule_makes_right(monkeypatch) -> None:
    given = program_of(SEED, 0, "mixed")
    tried = []

    def refused(program, target, backend="emulator", times=1, schedule=""):
        tried.append(schedule)
        is_right = schedule == "stages = 1"
        return Outcome("right") if is_right else Outcome("refused", "a.py:1: error[X]: expected; a")

    monkeypatch.setattr(multiplied_programs, "outcome", refused)
    plain = replace(given, schedule="", must_be_refused=False)
    assert judged(plain, "sm_80") == Outcome(
        "refusable", "a.py:1: error[X]: expected; a", "stages = 1"
    )
    assert tried == ["", "roles = uniform", "stages = 1"]
    # A schedule that was drawn is not the default's fault.
    assert judged(replace(plain, schedule="stages = 2"), "sm_80").kind == "refused"


def test_a_failure_is_made_small(monkeypatch) -> None:
    """Every program with a loop is refused, and right with one stage."""
    given = program(
        "x = cute.local_tile(X, (64, 64), (0, 0)).load()",
        "total = cute.zeros((64, 64))",
        "for k in cute.range(3):",
        "    total += x.to(cute.f32)",
        "cute.copy(total, cute.local_tile(Y, (64, 64), (0, 0)))",
        X=MATRIX,
        Y=replace(MATRIX, dtype="f32"),
    )
    found = Outcome("refusable", "a.py:1: error[X]: expected 3; a", "stages = 1")

    def refused(program, target, backend="emulator", times=1, schedule=""):
        expected(program)
        is_right = schedule == "stages = 1" or "for k" not in program.source
        return Outcome("right") if is_right else replace(found, kind="refused", schedule="")

    monkeypatch.setattr(multiplied_programs, "outcome", refused)
    options = argparse.Namespace(no_shrink=False, backend="emulator", multiplied=True)
    small = _small(replace(given, schedule="warps = (4,1)"), "sm_80", found, options)
    assert "for k" in small.source
    assert len(small.lines) <= 4
    assert small.schedule == ""


def test_the_command(capsys) -> None:
    given = ("--multiplied", "--class", "straight", "--count", "2", "--target", "sm_80")
    assert main(given) == 0
    text = capsys.readouterr().out
    assert "class            target       right    misfit  declined   refused refusable" in text
    assert "straight         sm_80            2         0" in text


def test_a_script_runs(monkeypatch) -> None:
    """A program is printed as Python that runs and compares."""
    given = program(
        "t = cute.zeros((64, 64))",
        "cute.copy(t, cute.local_tile(Y, (64, 64), (0, 0)))",
        Y=replace(MATRIX, dtype="f32"),
    )
    scope: dict[str, object] = {}
    file = __file__ + ".script"
    linecache.cache[file] = (0, None, given.script.splitlines(keepends=True), file)
    exec(compile(given.script, file, "exec"), scope)
    assert not np.asarray(scope["Y"]).any()
