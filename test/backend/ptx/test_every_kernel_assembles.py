"""`ptxas` takes what is printed without a warning or a spill, for every target it is meant for."""

import io
import re
import shlex
from pathlib import Path

import pytest

import cutedialect as cute
from cutedialect.backend.runtime import ptxas
from cutedialect.tools.cute_opt import CuteOpt

ROOT = Path(__file__).parents[2]
GEMM = ROOT / "passes" / "cute_to_ptx" / "gemm.mlir"
TARGETS = ("sm_80", "sm_86", "sm_89", "sm_90", "sm_100", "sm_120")

try:
    ptxas.find("sm_80")
except Exception:
    pytestmark = pytest.mark.skip(reason="no ptxas is installed")


def cute_opt(*argv, stdin=""):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt([str(word) for word in argv], io.StringIO(stdin), out, err).run()
    assert code == 0, err.getvalue()
    return out.getvalue()


def printing_runs():
    """The cute-opt commands of the lit tests that print PTX."""
    for path in sorted(ROOT.rglob("*.mlir")):
        for line in re.findall(r"^// RUN: (cute-opt .*?) \| filecheck", path.read_text(), re.M):
            if " -t ptx" in line:
                yield path, line


@pytest.mark.parametrize(("path", "line"), list(printing_runs()))
def test_the_kernels_of_the_text_tests(path, line):
    ptx = ""
    for command in line.split(" | "):
        words = shlex.split(command)[1:]
        ptx = cute_opt(*(word.replace("%s", str(path)) for word in words), stdin=ptx)
    target = re.search(r"^\.target (\w+)", ptx, re.MULTILINE)[1]
    assembly = ptxas.assemble(ptx, target, strict=True)
    assert assembly.kernels
    assert assembly.spill_stores == 0


@pytest.mark.some(3)
@pytest.mark.parametrize("target", TARGETS)
def test_gemm_on_every_target(target):
    ptx = cute_opt(GEMM, "-p", f"cute-to-ptx{{arch={target}}}", "-t", "ptx")
    assert f".target {target}\n" in ptx
    assert ptxas.assemble(ptx, target, strict=True).kernels


@pytest.mark.some(6)
@pytest.mark.parametrize("dtype", ["f16", "bf16", "f32", "f64", "i8"])
@pytest.mark.parametrize("majors", ["TN", "TT", "NT"])
def test_gemm_of_every_type_and_major(dtype, majors):
    shape = (None, None)
    strides = {"row": (None, 1), "column": (1, None)}
    a = strides["row" if majors[0] == "T" else "column"]
    b = strides["row" if majors[1] == "T" else "column"]
    kernel = cute.compile(
        cute.gemm,
        cute.TensorSpec(shape, getattr(cute, dtype), strides=a),
        cute.TensorSpec(shape, getattr(cute, dtype), strides=b),
        arch="sm_80",
    )
    assembly = ptxas.assemble(kernel.ptx, "sm_80", strict=True)
    assert assembly.spill_stores == assembly.spill_loads == 0
