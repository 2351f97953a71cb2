"""The runner of CuTe IR's own lit tests, on a folder of our own."""

from cutedialect.tools import cute_ir_tests

ROUND_TRIP = """// RUN: cute-opt %s -split-input-file \\
// RUN:   | cute-opt | FileCheck %s
// RUN: cute-opt -mlir-print-op-generic %s -split-input-file | cute-opt | FileCheck %s
// CHECK: %[[R:.+]]:2 = cute.get_leaves(%{{.+}}) : !cute.shape<"(4,8)">
func.func @leaves(%s: !cute.shape<"(4,8)">) {
  %a, %b = cute.get_leaves(%s) : !cute.shape<"(4,8)">
  return
}
"""

REJECTED = """// RUN: cute-opt %s -split-input-file -verify-diagnostics
// expected-error@+1 {{in words of their own}}
func.func private @f(!cute.shape<"(1,_)">)
// -----
func.func @g(%s: !cute.shape<"(4,8)">) {
  // expected-error@+1 {{in words of their own}}
  %r = cute.get<[7]>(%s)
         : !cute.shape<"(4,8)"> -> !cute.shape<"4">
  return
}
"""


def run(tmp_path, capsys, **texts):
    for name, text in texts.items():
        (tmp_path / f"{name}.mlir").write_text(text)
    code = cute_ir_tests.main([str(tmp_path)])
    return code, capsys.readouterr().out


def test_files_pass_by_their_run_lines(tmp_path, capsys):
    code, out = run(tmp_path, capsys, a=ROUND_TRIP, b=REJECTED)
    assert code == 0
    assert "accepted IR: 1 of 1 pass" in out
    assert "rejected IR: 1 of 1 pass" in out


def test_a_file_that_prints_otherwise_fails(tmp_path, capsys):
    code, out = run(tmp_path, capsys, a=ROUND_TRIP.replace("]]:2", "]]:3"))
    assert code == 1
    assert "FAILED a.mlir" in out


def test_every_part_must_be_rejected_where_the_file_says(tmp_path, capsys):
    accepted = REJECTED.replace('"(1,_)"', '"(1,2)"')
    assert run(tmp_path, capsys, a=accepted)[0] == 1
    elsewhere = REJECTED.replace("error@+1", "error@-1", 1)
    assert run(tmp_path, capsys, a=elsewhere)[0] == 1


def test_without_a_checkout_it_says_so(tmp_path, capsys):
    assert cute_ir_tests.main([]) == 2
    assert "NOT RUN" in capsys.readouterr().err
    assert cute_ir_tests.main([str(tmp_path)]) == 2
    assert "NOT RUN" in capsys.readouterr().err
