"""`cutedialect <command>` or `python -m cutedialect <command>`: doctor, explain, cache, compile,
explore, layout, model, report, schedules, timeline, tmem, tune. A command's module is imported when
it is asked for; usage errors exit with 2, anything else that a user can mend with one line and 1,
Ctrl-C with 130.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Literal

from cutedialect import __version__, environment
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.tools.streams import drop_output, open_streams, output_fault

_INTERRUPTED = 130
# Command to (module with `main(arguments) -> exit code`, what it does).
COMMANDS = {
    "doctor": ("cutedialect.tools.doctor", "what is installed and works, to paste into an issue"),
    "explain": ("cutedialect.tools.explain_command", "what an error's code means, and what to do"),
    "cache": ("cutedialect.tools.cache_command", "list, locate, prune or clear the disk cache"),
    "compile": (
        "cutedialect.tools.compile_command",
        "write a kernel's PTX, cubin, JSON description and stages",
    ),
    "explore": (
        "cutedialect.tools.explore_command",
        "serve a page on which a kernel is edited, and each of its stages looked at",
    ),
    "layout": (
        "cutedialect.tools.layout_command",
        "find what gives a layout, and count a copy's bank conflicts",
    ),
    "model": (
        "cutedialect.tools.model_command",
        "predict the cycles of a launch from a kernel's IR, and where they go",
    ),
    "report": (
        "cutedialect.tools.report_command",
        "write a page on a kernel: lines, schedule, resources, bound, timeline, loops",
    ),
    "schedules": (
        "cutedialect.tools.schedules_command",
        "list the schedules of cute.gemm, and its choice for a problem",
    ),
    "tmem": ("cutedialect.tools.tmem_command", "draw a map of tensor memory from a kernel's IR"),
    "timeline": (
        "cutedialect.tools.timeline_command",
        "draw what the roles of a kernel do, and when, in the emulator",
    ),
    "tune": ("cutedialect.tools.tune_command", "time a kernel's schedules and keep the fastest"),
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    open_streams()
    try:
        status = _run(given)
        sys.stdout.flush()
    except BrokenPipeError:  # the reader of a pipe had enough
        drop_output()
        return 0
    except (CompileError, ValueError, TypeError, OSError) as error:
        if _shows_tracebacks():
            raise
        _complain(output_fault(error) or str(error))
        return 1
    except KeyboardInterrupt:
        if _shows_tracebacks():
            raise
        print("interrupted", file=sys.stderr)
        return _INTERRUPTED
    return status


def _run(given: Sequence[str]) -> int:
    if given[:1] in (["-h"], ["--help"]):
        print(_usage())
        return 0
    if given[:1] == ["--version"]:
        print(f"cutedialect {__version__}")
        return 0
    if not given or given[0] not in COMMANDS:
        got = f"'{given[0]}'" if given else "nothing"
        _complain(f"expected a command, got {got}\n{_usage()}")
        return 2
    if given[0] != "doctor":  # which reports it
        for text in environment.check():
            _complain(text, "warning")
    module, _ = COMMANDS[given[0]]
    return import_module(module).main(given[1:])


def _shows_tracebacks() -> bool:
    try:
        return environment.debug()
    except ValueError:  # which is told
        return False


def _complain(message: str, severity: Literal["error", "warning"] = "error") -> None:
    head = f"{severity}:"
    if environment.color(sys.stderr):
        from cutedialect.tools.styles import styled

        head = styled(head, severity)
    print(head, message, file=sys.stderr)


def _usage() -> str:
    lines = ["usage: cutedialect COMMAND [--help]", "       cutedialect --version", "", "commands:"]
    lines += [f"  {name:10} {what}" for name, (_, what) in COMMANDS.items()]
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
