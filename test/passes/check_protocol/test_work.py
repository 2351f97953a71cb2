"""How much work a check is, whatever else the machine does: steps of teams in all cases."""

import pytest

from benchmarks.cases import CASES, EXTRAS
from cutedialect.passes.protocol.machine import Machine

# A tenth more than there were.
MOST_STEPS = {
    ("sm_90a", "1024^3 bf16 TN"): 900,
    ("sm_90a", "8192^3 s8 NT"): 1_450,
    ("sm_100a", "1024^3 bf16 TN"): 1_450,
    ("sm_100a", "1k 16x128 causal bf16"): 6_900,
}


@pytest.mark.parametrize(("arch", "name"), MOST_STEPS)
def test_steps_of_a_check(arch, name, monkeypatch):
    steps, run = [], Machine.run

    def counted(machine):
        found = run(machine)
        steps.append(sum(machine.gone))
        return found

    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    monkeypatch.setattr(Machine, "run", counted)
    (case,) = (case for case in (*CASES, *EXTRAS) if case.name == name)
    case.compiled(None, arch)
    assert 0 < sum(steps) <= MOST_STEPS[arch, name]
