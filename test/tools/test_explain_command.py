"""`python -m cutedialect explain`: every code of an error has a page, and every page a code."""

import ast
import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import cutedialect as cute
from cutedialect.__main__ import main
from cutedialect.backend.runtime.errors import LACKS_REGISTERS, SPILL
from cutedialect.explanations import pages

ROOT = Path(__file__).parents[2] / "cutedialect"
# Codes of ptxas that are errors here.
ASSEMBLER = {"C7508", "C7510", *LACKS_REGISTERS} - {SPILL}
CODE = re.compile(r"CD-[A-Z]+\d*(?:-[A-Z]+)*")


def codes_in(text):
    """The codes in the strings of a program, docstrings apart, whose codes are mentions."""
    if not CODE.search(text):
        return set()
    tree = ast.parse(text)
    mentions = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
    }
    return {
        code
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and id(node) not in mentions
        for code in CODE.findall(node.value)
    }


def test_every_code_in_the_package_has_a_page_and_every_page_a_code():
    raised = {}
    for path in ROOT.rglob("*.py"):
        if "explanations" not in path.parts and path.name != "explain_command.py":
            raised |= dict.fromkeys(codes_in(path.read_text(encoding="utf-8")), path)
    missing = {code: str(path) for code, path in raised.items() if code not in pages()}
    assert not missing
    assert set(pages()) - ASSEMBLER == set(raised)


def test_codes_of_docstrings_and_pages_exist():
    for path in [*ROOT.rglob("*.py"), *ROOT.rglob("*.md")]:
        text = path.read_text(encoding="utf-8")
        unknown = {code for code in CODE.findall(text) if code not in pages()} - {"CD-P"}
        assert not unknown, path


def test_every_page_says_what_to_do():
    for page in pages().values():
        assert "\nMend: " in page.text, page.code
        assert len(page.title) <= 90
        assert not page.title.endswith(".")


@pytest.mark.parametrize("code", ["CD-P6", "cd-p6", "P6", "error[CD-P6]:"])
def test_a_code_is_found_as_it_is_typed(capsys, code):
    assert main(["explain", code]) == 0
    out = capsys.readouterr().out
    assert out.startswith("CD-P6: Python state")
    assert "cute.where" in out


def test_the_list(capsys):
    assert main(["explain"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines if line.startswith("  ")] == list(pages())
    assert main(["explain", "--json", "CD-A1"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["code"] == "CD-A1"


def test_an_unknown_code(capsys):
    assert main(["explain", "CD-A99"]) == 1
    assert "did you mean CD-A" in capsys.readouterr().err


def test_an_error_of_a_program_names_its_page():
    @cute.kernel
    def wrong(X, Y):
        m = cute.zeros((16,), cute.f32)
        view = cute.local_tile(X, (16,), (None,))
        for k in cute.range(view.tiles):
            m = cute.maximum(m, view[k].load())
        cute.copy(m, cute.local_tile(Y, (16,), (0,)))

    x = np.zeros(32, np.float32)
    with pytest.raises(cute.CompileError, match=r"error\[CD-P6\]: expected 'm'") as caught:
        wrong(x, x.copy(), backend="emulator")
    assert caught.value.code == "CD-P6"
    assert caught.value.__notes__ == ["python -m cutedialect explain CD-P6"]


def test_errors_of_arguments_have_codes():
    a, b = np.zeros((4, 8), np.float16), np.zeros((9, 4), np.float16)
    q = np.zeros((1, 1, 4, 8), np.float16)

    @cute.kernel
    def nothing(X):
        cute.copy(cute.zeros((4, 8), cute.f16), cute.local_tile(X, (4, 8), (0, 0)))

    for call, kind, code in (
        (lambda: cute.gemm(a, b), ValueError, "CD-K2"),
        (lambda: cute.gemm(a, a.T.astype(np.float32)), TypeError, "CD-K1"),
        (lambda: cute.gemm(a, a.T, precision="ieee"), ValueError, "CD-K2"),
        (lambda: cute.gemm(a, a.T, atom="mma"), TypeError, "CD-K1"),
        (lambda: cute.grouped_gemm([a], [b]), ValueError, "CD-K2"),
        (lambda: cute.grouped_gemm([a], [a.T, a.T]), ValueError, "CD-K2"),
        (lambda: cute.attention(q, q[..., :4], q), ValueError, "CD-K2"),
        (lambda: cute.gemm(a, a.T, schedule="stages = 0"), ValueError, "CD-SCHEDULE"),
        (lambda: nothing(a, a), TypeError, "CD-K1"),
        (lambda: nothing(a, arch="sm_1"), ValueError, "CD-K2"),
        (lambda: nothing(a, backend="cloud"), ValueError, "CD-K2"),
        (lambda: cute.compile(nothing, a, schedule="stag = 2"), ValueError, "CD-SCHEDULE"),
    ):
        with pytest.raises(kind) as caught:
            call()
        assert caught.value.code == code
        assert f"python -m cutedialect explain {code}" in caught.value.__notes__


def test_an_error_of_a_users_function_stays_as_it_is():
    @cute.kernel
    def wrong(X):
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine") as caught:
        wrong(np.zeros(4, np.float32), backend="emulator")
    assert not hasattr(caught.value, "code")


class Terminal:
    def isatty(self):
        return True


def test_colors_are_for_terminals_without_no_color(monkeypatch):
    from cutedialect import environment
    from cutedialect.tools.diagnostics import Diagnostic, Position

    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    assert environment.color(Terminal())
    monkeypatch.setenv("TERM", "dumb")
    assert not environment.color(Terminal())
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("NO_COLOR", "1")
    assert not environment.color(Terminal())
    shown = Diagnostic("expected x, got y", Position("a.mlir", 1, 3)).render(
        {"a.mlir": "abcd"}, True
    )
    assert "\x1b[1;31merror:\x1b[0m" in shown
    assert re.sub(r"\x1b\[[\d;]*m", "", shown) == (
        Diagnostic("expected x, got y", Position("a.mlir", 1, 3)).render({"a.mlir": "abcd"})
    )


def test_a_pipe_gets_no_colors():
    done = subprocess.run(
        [sys.executable, "-m", "cutedialect", "explain", "CD-P1"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert "\x1b" not in done.stdout
    done = subprocess.run(
        [sys.executable, "-m", "cutedialect", "--version"],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert done.stdout == f"cutedialect {cute.__version__}\n"


def test_cute_opt_colors_what_it_says_on_a_terminal(monkeypatch):
    import io

    from cutedialect.tools.cute_opt import CuteOpt

    class Shown(io.StringIO):
        def isatty(self):
            return True

    monkeypatch.setenv("TERM", "xterm")
    for set_to, colored in ((None, True), ("1", False)):
        monkeypatch.delenv("NO_COLOR", raising=False)
        if set_to is not None:
            monkeypatch.setenv("NO_COLOR", set_to)
        stderr = Shown()
        assert CuteOpt(["-"], io.StringIO("%0 ="), io.StringIO(), stderr).run() == 1
        assert ("\x1b[1;31merror:" in stderr.getvalue()) == colored
