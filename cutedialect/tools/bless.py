"""Rewrites the golden parts of lit tests: `python -m cutedialect.tools.bless [--check] [path ...]`.

A golden part stands between two marker lines and is what the file's own RUN line prints, as CHECK
lines; everything outside the markers is left alone. The diff is the review.

    // RUN: cute-opt %s -t ptx | filecheck %s --check-prefix=PTX
    // BLESSED PTX
    // PTX: .version 8.0
    // PTX-NEXT: .target sm_80
    // END BLESSED
"""

from __future__ import annotations

import argparse
import io
import re
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from cutedialect.tools.cute_opt import CuteOpt

_RUN = re.compile(r"^// RUN: (.*)$", re.MULTILINE)
_GOLDEN = re.compile(
    r"(?P<begin>^// BLESSED (?P<prefix>[A-Z][\w-]*)\n)(?:.*\n)*?(?P<end>^// END BLESSED$)",
    re.MULTILINE,
)


class BlessError(ValueError):
    """A golden test that cannot be rewritten, with the file and the reason."""


def blessed(path: Path) -> str:
    """The text of the test at `path` with every golden part made anew; the same text if it has
    none. Raises `BlessError` if a part has no RUN line, or its `cute-opt` fails.
    """
    text = path.read_text(encoding="utf-8")
    return _GOLDEN.sub(
        lambda part: (
            part["begin"]
            + check_lines(_output(path, text, part["prefix"]), part["prefix"])
            + part["end"]
        ),
        text,
    )


def check_lines(output: str, prefix: str) -> str:
    """The directives that match `output` line by line."""
    lines: list[str] = []
    for line in output.rstrip("\n").split("\n"):
        if not lines:
            if line:
                lines.append(f"// {prefix}: {_escaped(line)}")
        elif line.strip():
            lines.append(f"// {prefix}-NEXT: {_escaped(line)}")
        else:
            lines.append(f"// {prefix}-EMPTY:")
    return "".join(f"{line}\n" for line in lines)


def _escaped(line: str) -> str:
    # filecheck reads these two as the start of a pattern and of a variable.
    return line.replace("{{", r"{{[{][{]}}").replace("[[", r"{{\[\[}}")


def _output(path: Path, text: str, prefix: str) -> str:
    """What the RUN line that checks `prefix` feeds to filecheck."""
    for line in _RUN.findall(text):
        *commands, checker = [shlex.split(command) for command in line.split(" | ")]
        if checker[:1] != ["filecheck"] or prefix not in _prefixes(checker):
            continue
        fed = ""
        for argv in commands:
            if argv[:1] != ["cute-opt"]:
                raise BlessError(f"{path}: expected only cute-opt before filecheck, got {argv[0]}")
            words = [word.replace("%s", str(path)) for word in argv[1:]]
            out, err = io.StringIO(), io.StringIO()
            if CuteOpt(words, io.StringIO(fed), out, err).run() != 0:
                raise BlessError(f"{path}: {shlex.join(argv)} fails:\n{err.getvalue()}")
            fed = out.getvalue()
        return fed
    raise BlessError(f"{path}: expected a RUN line with filecheck for {prefix}, got none")


def _prefixes(checker: Sequence[str]) -> list[str]:
    found = [
        name
        for word in checker
        if (match := re.match(r"--?check-prefix(?:es)?=(.*)", word))
        for name in match[1].split(",")
    ]
    return found or ["CHECK"]


def main(argv: Sequence[str] | None = None) -> int:
    """Rewrite, or with --check only compare; 1 if a file is (or was) out of date or faulty."""
    parser = argparse.ArgumentParser(prog="python -m cutedialect.tools.bless")
    parser.add_argument("paths", nargs="*", type=Path, default=[Path("test")])
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 if it would")
    options = parser.parse_args(argv)
    code = 0
    for root in options.paths:
        for path in sorted(root.rglob("*.mlir")) if root.is_dir() else [root]:
            try:
                new = blessed(path)
                if new == path.read_text(encoding="utf-8"):
                    continue
            except (BlessError, OSError) as error:
                print(error, file=sys.stderr)
                code = 1
                continue
            print(f"{'out of date' if options.check else 'blessed'}: {path}")
            if options.check:
                code = 1
            else:
                path.write_text(new, encoding="utf-8")
    return code


if __name__ == "__main__":
    sys.exit(main())
