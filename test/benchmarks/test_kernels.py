"""Kernels of the cases are compiled for the operands that the cases make."""

import numpy as np
import pytest

import cutedialect as cute
from benchmarks import kernels
from benchmarks.gemm_case import Gemm

EXTRAS = [
    Gemm("extra", "e4m3", (256, 144, 272), sums="promoted"),
    Gemm("extra", "e4m3", (256, 144, 272), sums="blocks"),
    Gemm("extra", "s8", (256, 144, 272), "NT"),
    Gemm("extra", "bf16", (256, 144, 272), "TT", align=8),
    Gemm("extra", "f16", (256, 144, 272), "NN", align=2),
    Gemm("extra", "e4m3", group=((256, 144, 272), (16, 32, 48))),
]


@pytest.mark.parametrize("majors", ["TN", "NT"])
def test_the_kernel_is_the_one_of_the_arrays(majors):
    case = Gemm("main", "f16", (256, 128, 64), majors)
    made = case.compiled("tile = (64,64,32)", "sm_80")
    a, b = np.zeros((256, 64), np.float16), np.zeros((64, 128), np.float16)
    a = a if majors[0] == "T" else np.asfortranarray(a)
    b = b if majors[1] == "T" else np.asfortranarray(b)
    same = cute.compile(cute.gemm, a, b, schedule="tile = (64,64,32)", arch="sm_80")
    assert made.ptx == same.ptx


@pytest.mark.parametrize("case", EXTRAS, ids=lambda case: case.name)
def test_the_kernel_is_the_one_of_the_call(torch, monkeypatch, case):
    """Of the arrays and options with which ours is called."""
    given = []

    def compiled(operation):
        def call(a, b, *, schedule, **options):
            for name, value in options.items():
                options[name] = [x.array for x in value] if isinstance(value, list) else (
                    getattr(value, "array", value)
                )  # fmt: skip
            a, b = ([x.array for x in v] if isinstance(v, list) else v.array for v in (a, b))
            given.append(cute.compile(operation, a, b, arch="sm_90a", **options))

        return call

    operands = case.make_operands(torch, 0)
    with monkeypatch.context() as patch:
        for name in ("gemm", "grouped_gemm"):
            patch.setattr(cute, name, compiled(getattr(cute, name)))
        case.ours(None)(operands)
    (same,) = given
    assert case.compiled(None, "sm_90a").ptx == same.ptx


def test_operands_are_aligned_as_asked(torch):
    for align, majors in ((8, "TT"), (4, "NN"), (2, "TN")):
        case = Gemm("extra", "bf16", (256, 144, 272), majors, align=align)
        operands = case.make_operands(torch, 0)
        for operand in (operands.a.array, operands.b.array):
            for place in (operand.ctypes.data, max(operand.strides)):
                assert place & -place == align
        assert operands.a.shape == (256, 272)
        assert operands.b.shape == (272, 144)


def test_resources_name_the_schedule_that_was_chosen(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
    case = Gemm("main", "f16", (256, 128, 64))
    text = kernels.resources(case, None)
    if "ptxas" not in text:  # without it there is nothing to count
        assert "stages = " in text
        assert "registers" in text
    assert "stagess" in kernels.resources(case, "stagess = 3")
    assert "stages = " in kernels.resources(Gemm("other", "bf16", group=((1, 2, 3),)), None) or (
        "ptxas" in text
    )


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
