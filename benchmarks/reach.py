"""`python -m benchmarks.reach`: how much of the compiler compiles what.

    python -m benchmarks.reach [--target NAME] [--table] [--files]

Prints, for one `cute.gemm` of f16 or for the whole table of the benchmarks, how many files of the
package a compilation enters, imports apart, and how many lines of `passes/` it runs, of how many;
with `--files` each of them, with the lines that run, of those in functions. A file of which few run
may be one that is asked only to decline.
The script asks for nothing else than `cute.compile`, so that an older checkout can be measured by
the same rule: `PYTHONPATH=OLD python benchmarks/reach.py`, with `--names FILE` to write the
problems of its table, or to take those of a written one.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import cutedialect as cute

_PACKAGE = Path(cute.__file__).parent
_WARM, _SIZE = 2048, 4096


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a line for each part of the package that is entered, and the sums."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.reach", description=__doc__)
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--table", action="store_true", help="all problems of the benchmarks")
    parser.add_argument("--files", action="store_true", help="list the files that are entered")
    parser.add_argument("--names", type=Path, help="the problems: written where it is missing")
    given = parser.parse_args(arguments)
    os.environ["CUTEDIALECT_NO_CACHE"] = "1"
    _product(_WARM, given.target)
    calls = [lambda: _product(_SIZE, given.target)]
    if given.table:
        calls = [
            lambda case=case: case.compiled(None, given.target) for case in _cases(given.names)
        ]
    lines = _lines(calls)
    parts: dict[str, list[int]] = {}
    for path, ran in lines.items():
        part = parts.setdefault(path.relative_to(_PACKAGE).parts[0], [0, 0])
        part[0] += 1
        part[1] += len(ran)
    for name, (files, ran) in sorted(parts.items()):
        print(f"{name:16} {files:4} files {ran:6} lines")
    if given.files:
        for path, ran in sorted(lines.items(), key=lambda each: (len(each[1]), each[0])):
            print(f"{len(ran):5} of {len(_code_lines(path)):5}  {path.relative_to(_PACKAGE)}")
    source = sorted((_PACKAGE / "passes").rglob("*.py"))
    wrote = sum(len(path.read_text().splitlines()) for path in source)
    code = sum(len(_code_lines(path)) for path in source)
    print(
        f"{len(calls)} compilations for {given.target} enter {len(lines)} files; passes/ has "
        f"{len(source)} files of {wrote} lines, {code} of them in functions, and runs "
        f"{parts['passes'][1]}"
    )
    return 0


def _product(size: int, target: str) -> Any:
    operand = cute.TensorSpec((size, size), "f16", (None, 1))
    return cute.compile(cute.gemm, operand, operand, arch=target)  # type: ignore[call-overload]


def _cases(names: Path | None) -> list[Any]:
    """The problems of the benchmarks, or those of them that a file names."""
    from benchmarks.cases import CASES, EXTRAS

    cases = {f"{case.kind} {case.section} {case.name}": case for case in (*CASES, *EXTRAS)}
    if names is None:
        return list(cases.values())
    if not names.exists():
        names.write_text(json.dumps(list(cases)))
    return [cases[name] for name in json.loads(names.read_text()) if name in cases]


def _lines(calls: Sequence[Callable[[], Any]]) -> dict[Path, set[int]]:
    """The lines that run, by file of the package. Bodies of modules and classes run at imports."""
    found: dict[str, set[int]] = {}

    def entered(frame: FrameType, event: str, value: Any) -> Any:
        del event, value
        code = frame.f_code
        if not code.co_filename.startswith(str(_PACKAGE)) or not code.co_flags & 1:
            return None
        ran = found.setdefault(code.co_filename, set())

        def stepped(frame: FrameType, event: str, value: Any) -> Any:
            del value
            if event == "line":
                ran.add(frame.f_lineno)
            return stepped

        return stepped

    for call in calls:
        sys.settrace(entered)
        try:
            call()
        finally:
            sys.settrace(None)
    return {Path(name): ran for name, ran in found.items()}


def _code_lines(path: Path) -> set[int]:
    """The lines of a file on which a function computes something."""
    found: set[int] = set()
    pending: list[CodeType] = [compile(path.read_text(), str(path), "exec")]
    while pending:
        code = pending.pop()
        if code.co_flags & 1:  # of a function, neither a module's nor a class's
            found |= {line for _, _, line in code.co_lines() if line}
        pending += [each for each in code.co_consts if isinstance(each, CodeType)]
    return found


if __name__ == "__main__":
    sys.exit(main())
