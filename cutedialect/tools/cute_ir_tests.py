"""`python -m cutedialect.tools.cute_ir_tests [FOLDER] [WORD ...]`: NVIDIA's own lit tests of its
open CuTe IR, run through our `cute-opt` and FileCheck.

FOLDER is `cutlass_compiler/cute_ir/test` in a checkout of github.com/NVIDIA/cutlass; WORDs keep the
files whose path has one of them. A file passes if all its RUN lines do. Of a file of rejected IR
every part must be rejected at the operation that the file names, in words that may be ours. What we
do not support is listed in `UNSUPPORTED` with the reason, and counts as failed. None of those files
is part of this project.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutedialect.tools.cute_opt import CuteOpt
from cutedialect.tools.expected_errors import ExpectedDiagnostic, read_expected

PINNED = "7107b05535f8977f5ecb9d01ee203205b1fd9bc4"
"""The commit of NVIDIA/cutlass that our figures are of."""

_COMPARES_AGAIN = (
    "wants a comparison of each leaf; ours leaves out those that are known to be the same"
)
UNSUPPORTED: dict[str, str] = {
    "Conversion/CuteExpandOps/Accessors/get.mlir": (
        "pip's filecheck 1.0.6 finds the text of a CHECK-NOT in the match of the CHECK after it"
    ),
    "Conversion/CuteExpandOps/AdvancedConstructors/make_ordered_layout.mlir": (
        "wants a product that nothing uses"
    ),
    "Conversion/CuteExpandOps/Arithmetic/equal.mlir": _COMPARES_AGAIN,
    "Conversion/CuteToBase/PostExpand/Arithmetic/equal.mlir": _COMPARES_AGAIN,
    "Conversion/CuteToBase/func_signature.mlir": (
        "wants `call` where xDSL prints the whole name, `func.call`"
    ),
}
"""Path below the test folder to why the file cannot pass."""

_RUN = re.compile(r"^\s*//\s*RUN:\s*(.*?)\s*$", re.MULTILINE)
_SEPARATOR = re.compile(r"^[ \t]*// -----[ \t]*$", re.MULTILINE)


@dataclass(frozen=True)
class Result:
    """What became of one file; `reason` is empty of one that passes."""

    path: Path
    reason: str
    rejects: bool

    @property
    def passes(self) -> bool:
        return not self.reason


def run_tests(folder: Path, words: Sequence[str] = ()) -> list[Result]:
    """The result of every `.mlir` file below `folder` whose path has one of `words`.

    Raises `FileNotFoundError` where there is none.
    """
    paths = sorted(folder.rglob("*.mlir"))
    if not paths:
        raise FileNotFoundError(f"expected .mlir files below {folder}, got none")
    chosen = [path for path in paths if not words or any(word in str(path) for word in words)]
    return [run_test(path) for path in chosen]


def run_test(path: Path) -> Result:
    """Run the file's RUN lines, or check what it says is rejected."""
    text = path.read_text(encoding="utf-8")
    lines = _run_lines(text)
    if not lines:
        return Result(path, "expected a RUN line, got none", False)
    if any("verify-diagnostics" in line for line in lines):
        return Result(path, _accepted(path, text), True)
    failures = (_pipeline_failure(line, path) for line in lines)
    return Result(path, next((failure for failure in failures if failure), ""), False)


def _run_lines(text: str) -> list[str]:
    """The commands, continued lines put together."""
    lines: list[str] = []
    pending = ""
    for line in _RUN.findall(text):
        pending += line
        if pending.endswith("\\"):
            pending = pending[:-1] + " "
        else:
            lines.append(pending)
            pending = ""
    return lines


def _accepted(path: Path, text: str) -> str:
    """The first part of a file of rejected IR that is not rejected where the file says, or that is
    rejected though it is right; empty if there is none.
    """
    start = 0
    for end in [*(match.start() for match in _SEPARATOR.finditer(text)), len(text)]:
        part = "\n" * text.count("\n", 0, start) + text[start:end].removeprefix("// -----")
        expected, _ = read_expected(part, "<stdin>")
        code, _, err = _cute_opt(["--split-input-file"], part)
        lines = {int(line) for line in re.findall(r"^<stdin>:(\d+):\d+: error", err, re.MULTILINE)}
        if "Traceback" in err or (code == 0) != (not expected):
            return f"line {_first_line(part)}: {'accepted' if code == 0 else err}"
        if expected and not lines & _lines_of(expected, part):
            wanted = sorted({one.line or 0 for one in expected})
            return f"expected an error on line {wanted}, got {err}"
        start = end
    return ""


def _lines_of(expected: Sequence[ExpectedDiagnostic], part: str) -> set[int]:
    """The lines of the operations that errors are expected at: a type on a later line may be it."""
    text = part.split("\n")
    lines: set[int] = set()
    for line in (one.line for one in expected if one.line is not None):
        lines.add(line)
        while line < len(text) and re.match(r"\s*(:|->|!|\))", text[line]):
            line += 1
            lines.add(line)
    return lines


def _first_line(part: str) -> int:
    return part.count("\n", 0, len(part) - len(part.lstrip())) + 1


def _pipeline_failure(line: str, path: Path) -> str:
    """What the commands of a RUN line, each fed with the output of the one before, fail with."""
    text = ""
    for command in line.replace("%s", str(path)).split("|"):
        name, *arguments = shlex.split(command)
        runner = _PROGRAMS.get(name)
        if runner is None:
            return f"expected one of {', '.join(_PROGRAMS)}, got {name}"
        code, out, err = runner(arguments, text)
        if code != 0:
            return f"$ {command.strip()}\n{err}{out if name == 'FileCheck' else ''}"
        text = out
    return ""


def _cute_opt(arguments: Sequence[str], text: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    code = CuteOpt(arguments, io.StringIO(text), out, err).run()
    return code, out.getvalue(), err.getvalue()


def _filecheck(arguments: Sequence[str], text: str) -> tuple[int, str, str]:
    """The main of pip's `filecheck`, which reads its input from stdin."""
    import filecheck.main  # pyright: ignore[reportMissingImports]

    out, err = io.StringIO(), io.StringIO()
    stdin = sys.stdin
    sys.stdin = io.StringIO(text)
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                filecheck.main.main(["filecheck", *arguments])  # pyright: ignore
                code = 0
            except SystemExit as exit:
                code = int(exit.code or 0)
    finally:
        sys.stdin = stdin
    return code, out.getvalue(), err.getvalue()


_Runner = Callable[[Sequence[str], str], "tuple[int, str, str]"]
_PROGRAMS: dict[str, _Runner] = {"cute-opt": _cute_opt, "FileCheck": _filecheck}


def report(results: Sequence[Result], folder: Path, verbose: bool) -> str:
    """The failed files with their reasons, and how many pass."""
    lines: list[str] = []
    for result in results:
        if result.passes:
            continue
        name = result.path.relative_to(folder).as_posix()
        reason = UNSUPPORTED.get(name)
        if reason is not None:
            lines.append(f"unsupported {name}: {reason}")
        elif verbose:
            lines.append(f"FAILED {name}\n{result.reason.rstrip()}\n")
        else:
            lines.append(f"FAILED {name}: {_first_words(result.reason)}")
    for kind, rejects in (("accepted", False), ("rejected", True)):
        chosen = [result for result in results if result.rejects == rejects]
        passed = sum(result.passes for result in chosen)
        lines.append(f"files of {kind} IR: {passed} of {len(chosen)} pass")
    return "\n".join(lines) + "\n"


def _first_words(reason: str) -> str:
    errors = [line for line in reason.splitlines() if "error" in line or "Error" in line]
    return (errors or reason.splitlines())[0].strip()[:200]


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if all supported files pass, 1 if some do not, 2 without a checkout."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect.tools.cute_ir_tests", description=__doc__
    )
    parser.add_argument("folder", nargs="?", type=Path, help="cutlass_compiler/cute_ir/test")
    parser.add_argument("words", nargs="*", help="keep the files whose path has one of these")
    parser.add_argument("--verbose", action="store_true", help="whole outputs of what fails")
    options = parser.parse_args(arguments)
    folder = options.folder
    if folder is None:
        sys.stderr.write(
            "NOT RUN: CuTe IR's lit tests need a checkout of github.com/NVIDIA/cutlass (commit "
            f"{PINNED}); give its folder cutlass_compiler/cute_ir/test as "
            "an argument\n"
        )
        return 2
    try:
        results = run_tests(folder, options.words)
    except FileNotFoundError as error:
        sys.stderr.write(f"NOT RUN: {error}\n")
        return 2
    sys.stdout.write(report(results, folder, options.verbose))
    names = {result.path.relative_to(folder).as_posix() for result in results if not result.passes}
    return 1 if names - UNSUPPORTED.keys() else 0


if __name__ == "__main__":
    sys.exit(main())
