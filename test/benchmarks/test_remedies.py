"""What errors advise for schedules that are drawn by lot: some of them here, the same ones each
time.
"""

import pickle
import re

import numpy as np
import pytest

import cutedialect as cute
from benchmarks import remedies
from cutedialect.frontend import fitting


@pytest.mark.some(2)
@pytest.mark.parametrize("number", range(200))
def test_advice_helps(number):
    case = remedies.draw(0, number)
    assert remedies.faults(case) == [], case.text


def refused(arch, function, arrays, schedule):
    schedule = cute.Schedule.parse(schedule)
    case = remedies.Case(0, arch, function, arrays, {}, schedule)
    assert remedies.faults(case) == []
    return str(case.refusal(schedule))


def half(*shape):
    return np.zeros(shape, np.float16)


# Target, and a schedule of a product of 1024 x 1024 x 1024 that the target does not have.
REFUSED = {
    "rows not split": ("sm_90a", "tile = (128,256,64), roles = split"),
    "no turns": ("sm_100a", "tile = (128,16,16), instances = 1"),
    "split twice": ("sm_90a", "split_k = 4, scheduler = stream"),
    "no clusters": ("sm_80", "cluster = (2,1)"),
    "claims in a cluster": ("sm_90a", "cluster = (2,1), scheduler = cancel"),
    "too many CTAs": ("sm_90a", "tile = (128,96,64), ctas = 4, stages = 1"),
    "more registers than there are": ("sm_90a", "warps = (8,1), roles = shifting, ctas = 2"),
    "one tile too large": ("sm_90a", "tile = (256,256,256), stages = 4"),
}


@pytest.mark.some(4)
@pytest.mark.parametrize("case", REFUSED)
def test_remedies_of_a_product(case):
    arch, schedule = REFUSED[case]
    told = refused(arch, cute.gemm, (half(1024, 1024), half(1024, 1024)), schedule)
    assert re.search(r"note: (the nearest schedule that|it) compiles,? without", told)


def test_instances_of_warps_say_why():
    """A program without a loop over work items has none that take turns."""
    schedule = "tile = (64,64,64), warps = (1,1), roles = alternate"
    told = refused("sm_90a", cute.gemm, (half(64, 64), half(64, 64)), schedule)
    assert "take roles = specialized" in told
    assert "note: the nearest schedule that compiles, without roles" in told


def test_a_program_that_no_schedule_mends_has_no_advice():
    @cute.kernel
    def odd(X, Y):
        x = cute.load(cute.local_tile(X, (64, 64), (0, 0)))
        cute.copy(x, cute.local_tile(Y, (64, 32), (0, 0)))

    with pytest.raises(Exception, match="64") as found:
        cute.compile(odd, half(64, 64), half(64, 64), schedule="stages = 2", arch="sm_90a")
    assert "nearest" not in str(found.value)


def test_a_refusal_may_be_pickled():
    """What looks for advice stays behind; what was found goes along."""
    operands = half(64, 64), half(64, 64)
    with pytest.raises(cute.CompileError) as found:
        cute.compile(cute.gemm, *operands, schedule="cluster = (2,1)", arch="sm_80")
    assert "note" not in str(pickle.loads(pickle.dumps(found.value)))
    assert "note: it compiles" in str(found.value)
    assert "note: it compiles" in str(pickle.loads(pickle.dumps(found.value)))


def test_wrong_advice_is_noticed(monkeypatch):
    case = remedies.draw(0, 0)
    case = remedies.Case(0, "sm_90a", cute.gemm, (half(64, 64), half(64, 64)), {},
                         cute.Schedule(roles="split"))  # fmt: skip
    monkeypatch.setattr(fitting, "_nearest_allowed", lambda *_: None)
    assert any(each.startswith("unanswered") for each in remedies.faults(case))
    note = "the nearest schedule that compiles, without x: schedule='roles = split, stages = 2'"
    monkeypatch.setattr(fitting, "_nearest_allowed", lambda *_: note)
    assert any("is refused" in each for each in remedies.faults(case))
    same = "expected 1 part; take roles = split"
    monkeypatch.setattr(remedies.Case, "refusal", lambda *_: ValueError(same))
    assert any("does not help" in each for each in remedies.faults(case))


def test_the_command_tells_what_it_drew(capsys):
    assert remedies.main(["--only", "1"]) == 0
    assert "1 cases in" in capsys.readouterr().out
