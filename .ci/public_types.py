"""Whether the types of everything public are complete: of the names in `cutedialect.__all__` with
what belongs to them, of `cutedialect.layout` and of `cutedialect.atoms`, as `pyright --verifytypes`
counts. Run by the interpreter of an environment that has cutedialect and pyright: the exit code is
1 when a type is missing, whose name is printed then.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import cutedialect

# pyright looks for packages where the `python` in PATH has them.
PROGRAMS = os.path.dirname(sys.executable)
FOLDERS = ("cutedialect.layout", "cutedialect.atoms")


def report(package: str) -> list[dict[str, Any]]:
    """What pyright says of each symbol of a package."""
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pyright", "--verifytypes", package),
            *("--ignoreexternal", "--outputjson"),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=os.environ | {"PATH": os.pathsep.join((PROGRAMS, os.environ["PATH"]))},
    )
    return json.loads(done.stdout)["typeCompleteness"]["symbols"]


def public(symbols: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The symbols that `__all__` names, and the members of its classes, under the names with which
    they are imported and those of the modules that define them.
    """
    roots = {f"cutedialect.{name}" for name in cutedialect.__all__}
    for name in cutedialect.__all__:
        value = getattr(cutedialect, name)
        if isinstance(value, type):
            roots.add(f"{value.__module__}.{value.__qualname__}")
    return [
        each for each in symbols if each["name"] in roots or each["name"].rsplit(".", 1)[0] in roots
    ]


def main() -> int:
    """Check all three; returns the exit code."""
    status = 0
    for what, symbols in (
        ("cutedialect.__all__", public(report("cutedialect"))),
        *((folder, report(folder)) for folder in FOLDERS),
    ):
        bad = [s for s in symbols if not s["isTypeKnown"] or s["isTypeAmbiguous"]]
        for each in bad:
            print(f"{each['name']} ({each['category']})")
            for said in each["diagnostics"]:
                print("   ", said["message"].replace("\n", "\n    "))
        known = 100 * (len(symbols) - len(bad)) / max(len(symbols), 1)
        print(f"{what}: {len(symbols)} symbols, {known:.1f} % with a complete type")
        status |= bool(bad) or not symbols
    return status


if __name__ == "__main__":
    sys.exit(main())
