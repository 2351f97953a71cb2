"""`python -m cutedialect timeline SCRIPT`: runs a Python script as `python SCRIPT` would, its
kernels in the emulator, and draws what the roles of the last launch did (`timeline.py`).
"""

from __future__ import annotations

import argparse
import runpy
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cutedialect import environment
from cutedialect.backend.emulator import timeline as model_time
from cutedialect.backend.runtime.written_files import write_whole
from cutedialect.tools.kernel_arguments import placed_errors
from cutedialect.tools.timeline import drawn_timeline


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect timeline",
        description="Draw what the roles of a kernel do, and when, from a run in the emulator.",
    )
    parser.add_argument("script", type=Path, help="Python file that runs kernels")
    parser.add_argument(
        "arguments", nargs="*", metavar="ARGUMENT", help="of the script; behind -- where one is -x"
    )
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("timeline.svg"), help="the picture, an .svg file"
    )
    parser.add_argument("--launch", type=int, default=-1, help="which launch; the last by default")
    options = parser.parse_args(arguments)
    if options.out.suffix.lower() != ".svg":
        raise ValueError(f"-o: expected the name of an .svg file, got '{options.out}'")
    with model_time.recording() as found:
        scope = run_script(options.script, options.arguments)
    if not -len(found) <= options.launch < len(found):
        raise ValueError(
            f"expected a launch of {len(found)} that {options.script} makes in the emulator, got "
            f"{options.launch}"
        )
    timeline = drawn_timeline(found[options.launch], scope)
    write_whole(options.out, timeline.svg().encode())
    print(timeline)
    return 0


def run_script(script: Path, arguments: Sequence[str]) -> dict[str, Any]:
    """Run a script as the main program, host arrays of it in the emulator; returns its globals, as
    far as it left any.
    """
    if not script.is_file():
        raise ValueError(f"expected a Python file, got '{script}'")
    before = sys.argv, sys.path[:]
    sys.argv = [str(script), *arguments]
    sys.path.insert(0, str(script.resolve().parent))
    try:
        with environment.without_device(), placed_errors():
            return runpy.run_path(str(script), run_name="__main__")
    except SystemExit as ending:
        if ending.code not in (None, 0):
            raise ValueError(f"expected {script} to end with status 0, got {ending.code}") from None
        return {}
    finally:
        sys.argv, sys.path[:] = before
