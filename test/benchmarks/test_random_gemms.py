"""Matrix multiplies drawn by lot: some of them here, the same ones each time."""

from dataclasses import replace

import numpy as np
import pytest

import cutedialect as cute
from benchmarks import random_attentions, random_gemms, scaled_draws
from cutedialect.backend import emulator


@pytest.mark.parametrize("number", [*range(3), *(pytest.param(n, marks=pytest.mark.long)
                                                  for n in range(3, 100))])  # fmt: skip
def test_blackwell(number):
    problem = random_gemms.draw(5, number)
    found, _ = random_gemms.outcome(problem)
    assert found.kind in ("right", "refused"), (problem.text, found)


@pytest.mark.parametrize("number", [*range(2), *(pytest.param(n, marks=pytest.mark.long)
                                                  for n in range(2, 100))])  # fmt: skip
def test_scales_of_blocks(number):
    problem = random_gemms.draw_scaled(5, number, scaled_draws.SCALED_TARGETS)
    found, unit = random_gemms.outcome(problem)
    assert found.kind in ("right", "refused"), (problem.text, found)
    assert found.kind == "refused" or "block_scale" in unit


@pytest.mark.parametrize(("code", "kind"), [("CD-PASS", "refused"), ("CD-R1", "broken")])
@pytest.mark.parametrize("lot", [random_gemms, random_attentions])
def test_a_kernel_whose_check_refuses_it_is_a_fault(monkeypatch, lot, code, kind):
    """Two warpgroups wrote over what the other one read, and it was counted as a refusal."""

    def compile_(*arguments, **options):
        raise cute.CompileError("expected a barrier, got none", code=code)

    monkeypatch.setattr(cute, "compile", compile_)
    found, _ = lot.outcome(lot.draw(5, 0), runs=False)
    assert found.kind == kind
    assert "expected a barrier" in found.reason


def test_no_depth_and_several_panels_of_a_tile():
    """An array without elements has no strides that say how it lies."""
    problem = random_gemms.Problem(
        *(0, "sm_120a", (np.uint8, np.uint8), "f32", ((392, 184, 0),), "TT"),
        schedule="tile = (128,256,256), warps = (2,4)",
        formats=("mxfp6_e3m2", "mxfp6_e2m3"),
    )
    assert random_gemms.outcome(problem)[0].kind == "right"


def test_drawn_scales_differ_and_their_places_are_found():
    """A product whose scales lie elsewhere is wrong."""
    problem = random_gemms.Problem(
        *(0, "sm_120a", (np.uint8, np.uint8), "f32", ((60, 50, 256),), "TN"),
        formats=("nvfp4", "nvfp4"),
    )
    assert random_gemms.outcome(problem)[0].kind == "right"
    drawn = scaled_draws.drawn

    def moved(*arguments):
        found = drawn(*arguments)
        return replace(found, scales=np.ascontiguousarray(found.scales[..., ::-1]))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(scaled_draws, "drawn", moved)
        assert random_gemms.outcome(problem)[0].kind == "wrong"


def test_the_command_tells_what_it_drew(capsys):
    assert random_gemms.main(["--count", "2", "--seed", "3", "--target", "sm_100a"]) == 0
    assert "2 problems in" in capsys.readouterr().out


@pytest.mark.skipif(not random_gemms.releases(), reason="no ptxas")
def test_each_release_is_told_of(capsys, tmp_path):
    """An assembler that is named takes its turn beside those that are found."""
    (found, *_) = random_gemms.releases()
    named = tmp_path / "ptxas"
    named.write_text(f'#!/bin/sh\nexec "{found.path}" "$@"\n')
    named.chmod(0o755)
    command = ["--count", "2", "--seed", "3", "--dry", "--target", "sm_100a", "--ptxas", str(named)]
    assert random_gemms.main(command) == 0
    told = [line for line in capsys.readouterr().out.splitlines() if line.startswith("ptxas ")]
    assert (
        f"ptxas {found.number}: 2 clean, 0 with spills, 0 with warnings or C75xx ({named})" in told
    )


def test_a_kernel_that_spills_comes_with_the_nearest_schedule_that_fits():
    """256 accumulators in each of 128 threads."""
    half = np.float16
    given = "tile = (128,256,32), warps = (4,1), roles = uniform"
    sizes = ((200, 256, 64),)
    problem = random_gemms.Problem(0, "sm_100a", (half, half), "f16", sizes, "TN", given)
    tools = random_gemms.releases()
    if not tools:
        pytest.skip("no ptxas")
    found, unit = random_gemms.outcome(problem, tools, runs=False)
    assert (found.kind, unit) == ("spills", "mma.sync")
    assert "warps = (4,2), roles = uniform'" in found.reason
    assert [release.said["spills"] for release in tools] == [1] * len(tools)


def test_a_kernel_that_stores_nothing_is_not_right(monkeypatch):
    original = emulator.launch

    def launch(ptx, entry, grid, block, arguments, *rest):
        given = [each.copy() if isinstance(each, np.ndarray) else each for each in arguments]
        return original(ptx, entry, grid, block, given, *rest)

    monkeypatch.setattr(emulator, "launch", launch)
    problems = [random_gemms.draw(5, number) for number in range(2)]
    assert "right" not in {random_gemms.outcome(each)[0].kind for each in problems}
