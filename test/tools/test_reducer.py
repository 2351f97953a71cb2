"""`cute-opt --reduce` and reproducers: a small input with the same failure, and its passes."""

import io
import stat
import sys

import pytest

from cutedialect.tools.cute_opt import CuteOpt
from cutedialect.tools.reproducers import read_reproducer

PASSES = "cute-to-ptx{arch=sm_80}"
FAILURE = "'cute.gemm': expected a tile of multiples of (16, 8, 64), over which the TiledMMA"
SOURCE = """\
!a = !cute.memref<f16, gmem, align<16>, "(128,256):(256,1)">
!t = !cute.memref<f16, gmem, align<16>, "(64,32):(256,1)">
!c = !cute.memref<f32, gmem, align<16>, "(64,64):(64,1)">
!acc = !cute.fragment<f32, "(64,64)">
cute.kernel @bad(%A: !a, %C: !c, %i: i32) {
  %acc = cute.alloc_fragment : !acc
  %zero = arith.constant 0.0 : f32
  cute.fill %acc, %zero : !acc
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c8 = arith.constant 8 : i32
  scf.for %k = %c0 to %c8 step %c1 : i32 {
    %j = arith.addi %k, %i : i32
    %t = cute.local_tile %A, [64, 32], (%c0, %j) : !a -> !t
    cute.gemm %t, %t, %acc {atom = "(mma_m16n8k16_f32_f16; (1,1,4))"} : !t, !t, !acc
  }
  cute.copy %acc, %C : !acc -> !c
}
"""


def cute_opt(*argv, source=SOURCE):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt(argv, io.StringIO(source), out, err).run()
    return code, out.getvalue(), err.getvalue()


def test_a_failing_module_is_made_small():
    code, small, told = cute_opt("-p", PASSES, "--reduce")
    assert code == 0
    assert small.count("\n") == 6
    assert "scf.for" not in small
    assert "6 of 18 lines after" in told
    code, _, err = cute_opt("-p", PASSES, source=small)
    assert code == 1
    assert "expected a tile of multiples of" in err


def test_a_text_that_is_no_module_loses_lines_and_words():
    source = "func.func @f(%a: i32) -> i32 {\n  %c = arith.addi %a, %a : i32\n" + (
        "  %d = arith.muli %c, %c :: i32\n  func.return %c : i32\n}\n"
    )
    code, small, told = cute_opt("--reduce", source=source)
    assert code == 0
    assert len(small) < 25 < len(source)
    assert "1 of 5 lines" in told
    assert cute_opt(source=small)[0] == 1


def test_a_part_of_a_file_is_reduced():
    source = "func.func @fine() {\n  func.return\n}\n// -----\n" + SOURCE
    code, small, _ = cute_opt("-p", PASSES, "--reduce", "--split-input-file", source=source)
    assert code == 0
    assert "@bad" in small
    assert "@fine" not in small


def test_an_input_that_does_not_fail_is_refused():
    code, out, err = cute_opt("--reduce")
    assert (code, out) == (1, "")
    assert err.startswith("<stdin>:1:1: error: expected an input that fails, got none")


def test_a_program_says_what_is_interesting(tmp_path):
    script = tmp_path / "interesting.py"
    script.write_text(
        f"#!{sys.executable}\nimport sys\nsys.exit('cute.fill' in open(sys.argv[1]).read())\n"
    )
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    code, small, _ = cute_opt(f"--reduce-test={script}")
    assert code == 0
    assert "cute.fill" in small
    assert "cute.gemm" not in small


@pytest.mark.parametrize("local", [False, True])
def test_a_reproducer_fails_as_the_command_did(tmp_path, local):
    path = tmp_path / "reproducer.mlir"
    flags = ["--mlir-pass-pipeline-local-reproducer"] if local else []
    code, _, err = cute_opt("-p", PASSES, f"--mlir-pass-pipeline-crash-reproducer={path}", *flags)
    assert code == 1
    assert FAILURE in err
    text = path.read_text()
    wanted = "cute-partition" if local else "cute-to-ptx"
    assert read_reproducer(text) == (f'builtin.module({wanted}{{arch="sm_80"}})', True)
    code, _, again = cute_opt("--run-reproducer", source=text)
    assert code == 1
    assert FAILURE in again
    assert cute_opt(source=text)[0] == 0


def test_no_reproducer_is_written_where_nothing_fails(tmp_path):
    path = tmp_path / "reproducer.mlir"
    assert cute_opt("-p", "cse", f"--mlir-pass-pipeline-crash-reproducer={path}")[0] == 0
    assert not path.exists()


@pytest.mark.parametrize(
    "text",
    ["", "{-# external_resources: { mlir_reproducer: { } } #-}",
     '{-# external_resources: { mlir_reproducer: { pipeline: "\\q" } } #-}'],
)  # fmt: skip
def test_a_file_without_passes_is_no_reproducer(text):
    code, _, err = cute_opt("--run-reproducer", source=text)
    assert code == 1
    assert err.startswith("<stdin>:1:1: error: expected a reproducer")


def test_a_wrong_pipeline_of_a_reproducer_is_located():
    text = '{-# external_resources: { mlir_reproducer: { pipeline: "no-such-pass" } } #-}'
    code, _, err = cute_opt("--run-reproducer", source=text)
    assert code == 1
    assert err.startswith("<mlir_reproducer>:1:1: error: unknown pass 'no-such-pass'")
