"""Sizes that decide the time of a compilation; counted, so that no slow machine can fail them."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from xdsl.context import Context

import cutedialect as cute
from cutedialect.dialects import all_dialects
from cutedialect.tools.locating_parser import LocatingParser

OPERATIONS_OF_A_GEMM = 500
ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize("dtype", ["f16", "bf16", "i8"])
def test_operations_at_the_last_stage_of_a_gemm(dtype):
    spec = cute.TensorSpec((None, None), getattr(cute, dtype))
    stages = cute.compile(cute.gemm, spec, spec, arch="sm_80").stages
    context = Context()
    for name, load in all_dialects().items():
        context.register_dialect(name, load)
    module = LocatingParser(context, stages["convert-to-ptx"], "stage.mlir").parse_module()
    count = sum(1 for _ in module.walk())
    assert 50 < count <= OPERATIONS_OF_A_GEMM


# What a product entered when the compiler had half of what it has now.
FILES_OF_A_GEMM = 130
# What proves every kernel, which changes none, and what spells out rings and roles for it.
FILES_OF_THE_CHECK = 19
# What makes ops in the place of xDSL's constructors.
FILES_OF_DEFINITIONS = 1


def test_files_that_a_gemm_enters():
    """Who follows one compilation meets no more files than these; those that check what tests print
    are not among them.
    """
    command = [sys.executable, "-m", "benchmarks.reach"]
    environment = {
        name: value for name, value in os.environ.items() if name != "CUTEDIALECT_VERIFY"
    }
    told = subprocess.run(
        command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    ).stdout
    found = re.search(r"enter (\d+) files", told)
    assert found is not None
    known = FILES_OF_A_GEMM + FILES_OF_THE_CHECK + FILES_OF_DEFINITIONS
    assert 80 < int(found[1]) <= known
