"""`python -m cutedialect.tools.cute_ir_tests [FOLDER] [WORD ...] [--printed] [--mlir PYTHON]`:
NVIDIA's own lit tests of its open CuTe IR, run through our `cute-opt` and FileCheck.

FOLDER is `cutlass_compiler/cute_ir/test` in a checkout of github.com/NVIDIA/cutlass; WORDs keep the
files whose path has one of them. A file passes if all its RUN lines do. Of a file of rejected IR
every part must be rejected at the operation that the file names, in words that may be ours. What we
do not support is listed in `UNSUPPORTED` with the reason, and counts as failed. None of those files
is part of this project.

With `--printed` what we print is read, not what they wrote: every accepted file, as it is and
behind the passes of its RUN lines, and the modules without our extensions in the files of
`--also FOLDER`. Each must be CuTe IR alone (`cute_ir_grammar.py`), each operation spelled as the
assembly format in the checkout's `CuteOps.td` says. With `--mlir PYTHON`, an interpreter that has
NVIDIA's wheel `nvidia-cutlass-dsl`, MLIR's own parser and verifier read it too, the operations of
the dialect in generic form.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import re
import shlex
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from cutedialect.dialects.walks import walk
from cutedialect.tools import cute_ir_grammar as grammar
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


def printed(path: Path) -> Iterator[tuple[str, str]]:
    """(what it is, text) of each module that we print of a file: read and printed, and the result
    of each pipeline of its RUN lines.
    """
    text = path.read_text(encoding="utf-8")
    split, read = "--split-input-file", ("%s", "--verify-diagnostics", "--split-input-file")
    pipelines = [[split]]
    for line in _run_lines(text):
        name, *arguments = shlex.split(line.split("|")[0])
        if name == "cute-opt" and not any("generic" in word for word in arguments):
            pipelines.append([*(word for word in arguments if word not in read), split])
    for arguments in pipelines:
        code, out, _ = _cute_opt(arguments, text)
        if code == 0:
            for part in _SEPARATOR.split(out):
                yield f"{path.name}: cute-opt {' '.join(arguments)}", part


def check_printed(
    paths: Sequence[Path], ours: Sequence[Path], definitions: str, python: str | None
) -> int:
    """Look at what we print of their files and of ours; prints what is not legal CuTe IR, and
    returns how much.
    """
    formats = grammar.read_formats(definitions)
    texts: list[tuple[str, str]] = []
    faults = operations = 0
    met: set[str] = set()
    for path in (*paths, *ours):
        for name, text in printed(path):
            if path in ours and grammar.has_extensions(text):
                continue
            try:
                module = grammar.read_again(text)
            except Exception as error:  # whatever refuses it is what is asked for
                print(f"{name}\n{error}")
                faults += 1
                continue
            wrong = list(grammar.misspelled(module, formats))
            for fault in wrong:
                print(f"{name}\n{fault}")
            faults += len(wrong)
            named = [op.name for op in walk(module) if op.name in formats]
            operations += len(named)
            met.update(named)
            texts.append((name, grammar.for_mlir(module)))
    refused = [] if python is None else grammar.refused_by_mlir(python, texts)
    for name, error in refused:
        print(f"{name}\nMLIR: {error}")
    read = "not asked" if python is None else f"{len(refused)} refused"
    print(
        f"printed: {len(texts):,} modules of {len(paths) + len(ours)} files, "
        f"{operations:,} operations, {len(met)} of {len(formats)} kinds, {faults} faults; MLIR's "
        f"parser: {read}"
    )
    return faults + len(refused)


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
    parser.add_argument("--printed", action="store_true", help="look at what we print instead")
    parser.add_argument("--also", type=Path, action="append", default=[], help="files of ours")
    parser.add_argument("--mlir", metavar="PYTHON", help="with nvidia-cutlass-dsl installed")
    options = parser.parse_args(arguments)
    folder = options.folder
    if folder is None:
        sys.stderr.write(
            "NOT RUN: CuTe IR's lit tests need a checkout of github.com/NVIDIA/cutlass (commit "
            f"{PINNED}); give its folder cutlass_compiler/cute_ir/test as "
            "an argument\n"
        )
        return 2
    if options.printed:
        return _printed_main(folder, options)
    try:
        results = run_tests(folder, options.words)
    except FileNotFoundError as error:
        sys.stderr.write(f"NOT RUN: {error}\n")
        return 2
    sys.stdout.write(report(results, folder, options.verbose))
    names = {result.path.relative_to(folder).as_posix() for result in results if not result.passes}
    return 1 if names - UNSUPPORTED.keys() else 0


def _printed_main(folder: Path, options: argparse.Namespace) -> int:
    definitions = folder.parent / "include/cute_ir/Dialect/Cute/IR/CuteOps.td"
    if not definitions.exists():
        sys.stderr.write(f"NOT RUN: expected the dialect's definitions in {definitions}\n")
        return 2
    chosen, ours = (
        [
            path
            for place in places
            for path in sorted(place.rglob("*.mlir"))
            if "verify-diagnostics" not in path.read_text(encoding="utf-8")
            and (not options.words or any(word in str(path) for word in options.words))
        ]
        for places in ([folder], options.also)
    )
    faults = check_printed(chosen, ours, definitions.read_text(encoding="utf-8"), options.mlir)
    return 1 if faults or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
