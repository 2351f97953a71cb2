"""`cute-opt` as a function: flags, files and streams."""

import io
import re
from pathlib import Path

import pytest

from cutedialect.tools.cute_opt import CuteOpt

FUNCTION = """\
func.func @f(%a: i32) -> i32 {
  %0 = arith.addi %a, %a : i32
  %1 = arith.addi %a, %a : i32
  func.return %1 : i32
}
"""
WITHOUT_DUPLICATE = FUNCTION.replace("  %1 = arith.addi %a, %a : i32\n", "").replace("%1", "%0")


def cute_opt(*argv, stdin=""):
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt([str(word) for word in argv], io.StringIO(stdin), out, err).run()
    return code, out.getvalue(), err.getvalue()


def indented(text):
    body = "".join(f"  {line}\n" for line in text.splitlines())
    return "builtin.module {\n" + body + "}\n"


@pytest.mark.parametrize(
    "flags",
    [
        ("-p", "cse"),
        ("-p", "cse,dce"),
        ("-p", " cse , dce "),
        ("--passes=cse",),
        ("--pass-pipeline=builtin.module(cse)",),
        ("--pass-pipeline", "builtin.module( cse , dce )"),
        ("-pass-pipeline=cse",),
        ("--cse",),
        ("--cse", "--dce"),
        ("-cse",),
        ("-t", "mlir", "--cse"),
        ("--emit=mlir", "--cse"),
        ("--verify-each", "--cse"),
        ("--verify-each=false", "--cse"),
        ("--no-verify-each", "--cse"),
        ("-", "--cse"),
    ],
)
def test_pipelines_and_spellings(flags):
    assert cute_opt(*flags, stdin=FUNCTION) == (0, indented(WITHOUT_DUPLICATE), "")


def test_no_pass_prints_the_input_again():
    code, out, _ = cute_opt(stdin=FUNCTION)
    assert (code, out) == (0, indented(FUNCTION))
    assert cute_opt(stdin=out) == (0, out, "")


def test_files(tmp_path):
    source, target = tmp_path / "in.mlir", tmp_path / "out.mlir"
    source.write_text(FUNCTION)
    assert cute_opt(source, "-o", target) == (0, "", "")
    assert target.read_text() == indented(FUNCTION)
    assert [path.name for path in tmp_path.iterdir()] == ["in.mlir", "out.mlir"]


def test_a_failed_run_keeps_the_old_output(tmp_path):
    target = tmp_path / "out.mlir"
    target.write_text("old")
    assert cute_opt("-o", target, stdin="nonsense")[0] == 1
    assert target.read_text() == "old"


def test_generic_form_and_locations():
    _, out, _ = cute_opt("--mlir-print-op-generic", "--mlir-print-debuginfo", stdin=FUNCTION)
    assert '"arith.addi"(%a, %a)' in out
    assert 'loc("<stdin>":2:3)' in out
    assert cute_opt("--print-op-generic", "--print-debuginfo", stdin=FUNCTION)[1] == out


def test_an_explicit_location_wins():
    text = FUNCTION.replace(
        "%0 = arith.addi %a, %a : i32", '%0 = arith.addi %a, %a : i32 loc("k.py":7:9)'
    )
    _, out, _ = cute_opt("--print-debuginfo", stdin=text)
    assert 'loc("k.py":7:9)' in out
    assert 'loc("<stdin>":3:3)' in out


def test_split_input_keeps_line_numbers_and_goes_on():
    text = FUNCTION + "// -----\nfunc.func @g() { oops }\n// -----\n" + FUNCTION
    code, out, err = cute_opt("--split-input-file", stdin=text)
    assert code == 1
    assert out.count("func.func @f") == 2
    assert "// -----" in out
    assert err.startswith("<stdin>:7:18: error: ")


def test_a_comment_only_part_is_an_empty_module():
    code, out, _ = cute_opt("--split-input-file", stdin="// RUN: x\n// -----\n" + FUNCTION)
    assert code == 0
    assert "func.func @f" in out


def test_unregistered_operations():
    text = '"foo.bar"() : () -> ()\n'
    assert cute_opt("--allow-unregistered-dialect", stdin=text)[0] == 0
    code, _, err = cute_opt(stdin=text)
    assert code == 1
    assert "unknown dialect 'foo' of operation 'foo.bar'" in err


def test_ir_around_passes():
    _, _, err = cute_opt("--cse", "--dce", "--print-ir-after-all", stdin=FUNCTION)
    assert re.findall(r"IR Dump (.*) //-----", err) == ["After cse", "After dce"]
    _, _, err = cute_opt("--cse", "--dce", "--mlir-print-ir-before-all", stdin=FUNCTION)
    assert re.findall(r"IR Dump (.*) //-----", err) == ["Before cse", "Before dce"]
    _, _, err = cute_opt("--cse", "--dce", "--print-ir-after=dce", stdin=FUNCTION)
    assert re.findall(r"IR Dump (.*) //-----", err) == ["After dce"]
    _, _, err = cute_opt("--cse", "--dce", "--print-ir-before=cse,dce", stdin=FUNCTION)
    assert re.findall(r"IR Dump (.*) //-----", err) == ["Before cse", "Before dce"]
    _, _, err = cute_opt("--cse", "--dce", "--print-ir-after-change", stdin=FUNCTION)
    assert re.findall(r"IR Dump (.*) //-----", err) == ["After cse"]


def test_the_ir_that_a_pass_left_when_it_failed():
    text = "func.func @f(%a: i32) {\n  %0 = arith.addi %a, %a : i32\n  func.return\n}\n"
    flags = ("-p", "convert-to-ptx{arch=sm_1}", "--print-ir-after-failure")
    code, _, err = cute_opt(*flags, stdin=text)
    assert code == 1
    assert "IR Dump After convert-to-ptx Failed" in err


@pytest.mark.parametrize("flag", ["--print-ir-tree-dir", "--mlir-print-ir-tree-dir"])
def test_tree_of_numbered_files(tmp_path, flag):
    assert cute_opt("--cse", "--dce", flag, tmp_path / "ir", stdin=FUNCTION)[0] == 0
    names = sorted(path.name for path in (tmp_path / "ir").iterdir())
    assert names == ["01-cse.mlir", "02-dce.mlir"]
    again = cute_opt(tmp_path / "ir" / "01-cse.mlir")
    assert again == (0, indented(WITHOUT_DUPLICATE), "")


@pytest.mark.parametrize("flag", ["--timing", "--mlir-timing"])
def test_timing_goes_to_stderr(flag):
    code, out, err = cute_opt("--cse", flag, stdin=FUNCTION)
    assert (code, out) == (0, indented(WITHOUT_DUPLICATE))
    labels = re.findall(r"%\)  (.*)", err)
    assert labels == ["Parser", "Verifier", "cse", "Output", "Total"]


def test_lists():
    code, out, _ = cute_opt("--list-passes")
    assert code == 0
    assert re.search(r"^cute-partition\{", out, re.MULTILINE)
    assert "does not load" not in out
    assert "cute_nvgpu\n" in cute_opt("--show-dialects")[1]
    assert cute_opt("--version")[1].startswith("cute-opt ")
    assert "--split-input-file" in cute_opt("--help")[1]


def test_fewer_checks_between_passes_but_the_input_is_always_checked():
    text = "func.func @f(%a: i32) {\n  func.return %a : i32\n}\n"
    code, _, err = cute_opt("--no-verify-each", stdin=text)
    assert code == 1
    assert err.startswith("<stdin>:2:3: error: 'func.return': Expected arguments")


def test_verify_diagnostics_kinds_and_places():
    bad = "  func.return %a : i32\n"
    head = "func.func @f(%a: i32) {\n"
    cases = {
        head + "// expected-error @+1 {{expected [], got [i32]}}\n" + bad + "}\n": 0,
        head + "// expected-error @below {{'func.return'}}\n" + bad + "}\n": 0,
        head + bad + "// expected-error @above {{'func.return'}}\n}\n": 0,
        head + "// expected-error-re @+1 {{got \\[{{i[0-9]+}}\\]}}\n" + bad + "}\n": 1,
        head + "// expected-error-re @+1 {{got [{{i[0-9]+}}]}}\n" + bad + "}\n": 0,
        head + "// expected-error @+2 {{'func.return'}}\n" + bad + "}\n": 1,
        head + "// expected-warning @+1 {{'func.return'}}\n" + bad + "}\n": 1,
        head + "// expected-note @+1 {{'func.return'}}\n" + bad + "}\n": 1,
        head + "// expected-error @unknown {{'func.return'}}\n" + bad + "}\n": 1,
        head + "// expected-error @+1 {{'func.return'\n" + bad + "}\n": 1,
        head + "// expected-error-re @+1 {{ {{(}} }}\n" + bad + "}\n": 1,
        head + bad + "}\n": 1,
        "// expected-error @+1 {{never}}\n" + FUNCTION: 1,
        FUNCTION: 0,
    }
    for text, code in cases.items():
        assert cute_opt("--verify-diagnostics", stdin=text)[0] == code, text


def test_internal_errors_say_so_and_show_a_traceback_on_request(monkeypatch):
    from xdsl.transforms.dead_code_elimination import DeadCodeElimination

    def fail(self, ctx, op):
        raise KeyError("surprise")

    monkeypatch.setattr(DeadCodeElimination, "apply", fail)
    code, _, err = cute_opt("--dce", stdin=FUNCTION)
    assert code == 1
    assert "internal error while running 'dce': KeyError: 'surprise'" in err
    assert "Traceback" not in err
    monkeypatch.setenv("CUTEDIALECT_DEBUG", "1")
    with pytest.raises(KeyError):
        cute_opt("--dce", stdin=FUNCTION)


def test_stages_of_the_repository_print_and_parse_back():
    """Every .mlir file that `cute-opt` reads is also read from what it prints."""
    root = Path(__file__).parents[1]
    read = 0
    for path in sorted(root.rglob("*.mlir")):
        code, out, _ = cute_opt(path, "--split-input-file")
        if code == 0:
            assert cute_opt("--split-input-file", stdin=out) == (0, out, ""), path
            read += 1
    assert read > 0
