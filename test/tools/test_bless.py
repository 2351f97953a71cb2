"""The keeper of golden tests."""

import pytest

from cutedialect.tools.bless import BlessError, blessed, check_lines, main

GOLDEN = """\
// RUN: cute-opt %s -p cse | filecheck %s
// BLESSED CHECK
// CHECK: out of date
// END BLESSED

func.func @f() -> i32 {
  // CHECKED by hand
  %c = arith.constant 1 : i32
  func.return %c : i32
}
"""


def test_rewrites_only_between_the_markers(tmp_path, capsys):
    path = tmp_path / "golden.mlir"
    path.write_text(GOLDEN)
    assert main(["--check", str(tmp_path)]) == 1
    assert path.read_text() == GOLDEN
    assert main([str(tmp_path)]) == 0
    assert path.read_text() == GOLDEN.replace(
        "// CHECK: out of date\n",
        "// CHECK: builtin.module {\n"
        "// CHECK-NEXT:   func.func @f() -> i32 {\n"
        "// CHECK-NEXT:     %c = arith.constant 1 : i32\n"
        "// CHECK-NEXT:     func.return %c : i32\n"
        "// CHECK-NEXT:   }\n"
        "// CHECK-NEXT: }\n",
    )
    assert main(["--check", str(path)]) == 0
    assert "blessed" in capsys.readouterr().out


def test_directives_match_what_filecheck_would_read_as_patterns():
    assert check_lines("\na\n\nb {{x}} [[y]]\n", "PTX") == (
        "// PTX: a\n// PTX-EMPTY:\n// PTX-NEXT: b {{[{][{]}}x}} {{\\[\\[}}y]]\n"
    )


def test_a_part_without_a_run_line_is_an_error(tmp_path):
    path = tmp_path / "golden.mlir"
    path.write_text(GOLDEN.replace("BLESSED CHECK", "BLESSED OTHER"))
    with pytest.raises(BlessError, match="RUN line with filecheck for OTHER"):
        blessed(path)
    path.write_text(GOLDEN.replace("arith.constant", "arith.constnt"))
    with pytest.raises(BlessError, match="unknown operation"):
        blessed(path)
    assert main([str(path)]) == 1
