"""How much work a check is, whatever else the machine does: steps of teams in all cases."""

import pytest

import cutedialect as cute
from benchmarks.cases import CASES, EXTRAS
from cutedialect.frontend import launch
from cutedialect.passes.protocol.machine import Machine

# A tenth more than there were.
MOST_STEPS = {
    ("sm_90a", "1024^3 bf16 TN"): 1_400,
    ("sm_90a", "8192^3 s8 NT"): 1_450,
    ("sm_100a", "1024^3 bf16 TN"): 1_450,
    ("sm_100a", "1k 16x128 causal bf16"): 6_900,
}


@pytest.mark.parametrize(("arch", "name"), MOST_STEPS)
def test_steps_of_a_check(arch, name, monkeypatch):
    steps, run = [], Machine.run

    def counted(machine):
        found = run(machine)
        steps.append(sum(team.gone for team in machine.teams))
        return found

    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    # What other tests of this process have compiled is compiled again.
    monkeypatch.setattr(launch, "_kernels", {})
    monkeypatch.setattr(Machine, "run", counted)
    (case,) = (case for case in (*CASES, *EXTRAS) if case.name == name)
    case.compiled(None, arch)
    assert 0 < sum(steps) <= MOST_STEPS[arch, name]


def test_who_comes_last_of_several_ctas_is_entered():
    """Of a tile that CTAs share the last one adds up what the others did: no case is left out."""
    specs = [cute.TensorSpec((4096, 4096), "bf16")] * 2
    kernel = cute.compile(cute.gemm, *specs, arch="sm_100a", schedule="scheduler = stream")
    assert not [remark for remark in kernel.remarks if remark.pass_name == "cute-check-protocol"]
