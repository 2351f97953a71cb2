"""Kernels of the cases are compiled for the operands that the cases make."""

import numpy as np
import pytest

import cutedialect as cute
from benchmarks import kernels
from benchmarks.gemm_case import Gemm


@pytest.mark.parametrize("majors", ["TN", "NT"])
def test_the_kernel_is_the_one_of_the_arrays(majors):
    case = Gemm("main", "f16", (256, 128, 64), majors)
    made = case.compiled("tile = (64,64,32)", "sm_80")
    a, b = np.zeros((256, 64), np.float16), np.zeros((64, 128), np.float16)
    a = a if majors[0] == "T" else np.asfortranarray(a)
    b = b if majors[1] == "T" else np.asfortranarray(b)
    same = cute.compile(cute.gemm, a, b, schedule="tile = (64,64,32)", arch="sm_80")
    assert made.ptx == same.ptx


def test_resources_name_the_schedule_that_was_chosen(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    case = Gemm("main", "f16", (256, 128, 64))
    text = kernels.resources(case, None)
    if "ptxas" not in text:  # without it there is nothing to count
        assert "stages = " in text
        assert "registers" in text
    assert "stagess" in kernels.resources(case, "stagess = 3")
    assert kernels.resources(Gemm("other", "bf16", group=((1, 2, 3),)), None) == ""


def test_kernels_are_compiled_ahead_in_other_processes(monkeypatch, tmp_path):
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(kernels, "capability", lambda: 80)
    case = Gemm("main", "f16", (256, 128, 64))
    work = [(case, "tile = (64,64,32)"), (case, "stagess = 3")]
    with kernels.Compilation(work) as compilation:
        done, begun = compilation.finish(60)
    assert begun == 2
    assert done <= 1
    assert any(tmp_path.rglob("*"))


def test_without_a_device_nothing_is_compiled_ahead(monkeypatch):
    monkeypatch.setattr(kernels, "capability", lambda: None)
    with kernels.Compilation([(Gemm("main", "f16", (256, 128, 64)), None)] * 2) as compilation:
        assert compilation.finish(1) == (0, 0)
