"""`python -m cutedialect report SCRIPT -o report.html`: runs a Python script as `python SCRIPT`
would, its kernels in the emulator, and writes one page on the last one that was launched; of two
scripts both kernels side by side.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cutedialect.backend.emulator import timeline as model_time
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.written_files import write_whole
from cutedialect.frontend.launch import known_kernels
from cutedialect.tools.report_facts import Facts, facts_of
from cutedialect.tools.report_page import page
from cutedialect.tools.timeline import drawn_timeline
from cutedialect.tools.timeline_command import run_script


def main(arguments: Sequence[str]) -> int:
    """Run the command; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect report",
        description="Write a page on what a kernel does and what it costs, from a run in the "
        "emulator.",
    )
    parser.add_argument("script", type=Path, help="Python file that runs a kernel")
    parser.add_argument("other", type=Path, nargs="?", help="another one, to stand beside it")
    parser.add_argument(
        "-o", "--out", type=Path, default=Path("report.html"), help="the page, an .html file"
    )
    parser.add_argument("--launch", type=int, default=-1, help="which launch; the last by default")
    options = parser.parse_args(arguments)
    if options.out.suffix.lower() not in (".html", ".htm"):
        raise ValueError(f"-o: expected the name of an .html file, got '{options.out}'")
    scripts = [script for script in (options.script, options.other) if script is not None]
    reports = [_reported(script, options.launch) for script in scripts]
    write_whole(options.out, page(reports).encode())
    for facts in reports:
        print(f"{facts.kernel.name} for {facts.kernel.arch}: {facts.source}")
        for said in facts.missing:
            print(f"  not there: {said}", file=sys.stderr)
    print(options.out)
    return 0


def _reported(script: Path, number: int) -> Facts:
    with model_time.recording() as launches:
        scope = run_script(script, ())
    if not -len(launches) <= number < len(launches):
        raise ValueError(
            f"expected a launch of {len(launches)} that {script} makes in the emulator, got "
            f"{number}"
        )
    launch = launches[number]
    kernel = _kernel(launch.ptx, scope)
    return facts_of(kernel, drawn_timeline(launch, scope), str(script))


def _kernel(ptx: str, scope: dict[str, Any]) -> Kernel:
    """The kernel that ran, with the counts of its last launch."""
    for kernel in (*known_kernels(), *scope.values()):
        if isinstance(kernel, Kernel) and kernel.ptx == ptx and kernel.reports:
            return kernel
    raise ValueError("expected a kernel that this process compiled, got PTX of another origin")
