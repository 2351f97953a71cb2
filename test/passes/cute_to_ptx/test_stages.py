"""Every stage prints, reads back and goes on to the same PTX."""

import io
from pathlib import Path

import pytest

from cutedialect.tools.cute_opt import CuteOpt

GEMM = Path(__file__).with_name("gemm.mlir").read_text()
PASSES = (
    "cute-fuse",
    "cute-tile{arch=sm_80}",
    "cute-partition{arch=sm_80}",
    "cute-defer-sums",
    "cute-assign-warp-roles",
    "cute-schedule-loops",
    "cute-synchronize",
    "convert-to-ptx{arch=sm_80}",
)


def cute_opt(text, *argv):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt(argv, io.StringIO(text), out, err).run()
    assert code == 0, err.getvalue()
    return out.getvalue()


def without_comments(ptx):
    """The instructions; locations differ since each stage was read from another text."""
    kept = []
    for line in ptx.splitlines():
        line = line.split("//")[0].strip()
        if line and not line.startswith((".loc", ".file")):
            kept.append(line)
    return kept


@pytest.fixture(scope="module")
def ptx():
    return without_comments(cute_opt(GEMM, "-p", "cute-to-ptx{arch=sm_80}", "-t", "ptx"))


@pytest.mark.some(9)
@pytest.mark.parametrize("stop", range(1, len(PASSES) + 1))
@pytest.mark.parametrize("form", [(), ("--mlir-print-op-generic",), ("--mlir-print-debuginfo",)])
def test_a_compilation_can_stop_and_go_on_from_text(ptx, stop, form):
    text = cute_opt(GEMM, "-p", ",".join(PASSES[:stop]), *form)
    rest = cute_opt(text, "-p", ",".join(PASSES[stop:]), "-t", "ptx")
    assert without_comments(rest) == ptx


@pytest.mark.parametrize("stop", range(1, len(PASSES) + 1))
def test_no_operation_loses_its_location(stop):
    text = cute_opt(GEMM, "-p", ",".join(PASSES[:stop]), "--mlir-print-debuginfo")
    lost = [line for line in text.splitlines() if line.rstrip().endswith("loc(unknown)")]
    assert [line for line in lost if "^" not in line] == []
