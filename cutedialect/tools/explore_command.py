"""`python -m cutedialect explore FILE`: serves a page on this machine on which a program or IR is
edited, and its stages, PTX, layouts, remarks and run in the emulator are looked at.
"""

from __future__ import annotations

import argparse
import signal
from collections.abc import Sequence
from pathlib import Path
from typing import NoReturn

from cutedialect.tools.explore_runs import Runs
from cutedialect.tools.explore_server import ExploreServer

_SUFFIXES = (".py", ".mlir")


def main(arguments: Sequence[str]) -> int:
    """Run the command until Ctrl-C or SIGTERM, and remove what it wrote; returns the exit code."""
    parser = argparse.ArgumentParser(
        prog="python -m cutedialect explore",
        description="Serve a page on which a kernel is edited and its stages are looked at. The "
        "file itself is not written. Only this machine reaches the page, with the token of its "
        "address; what is edited there is run as you.",
    )
    parser.add_argument("file", type=Path, help="Python file that launches a kernel, or .mlir")
    parser.add_argument("--port", type=int, default=0, help="a free one by default")
    parser.add_argument(
        "--seconds", type=float, default=30.0, help="how long a program may run; 30 by default"
    )
    options = parser.parse_args(arguments)
    if options.file.suffix not in _SUFFIXES or not options.file.is_file():
        raise ValueError(f"expected a file of {' or '.join(_SUFFIXES)}, got '{options.file}'")
    if not options.seconds > 0:
        raise ValueError(f"--seconds: expected a positive number, got {options.seconds}")
    if not 0 <= options.port < 1 << 16:
        raise ValueError(f"--port: expected 0 to 65535, got {options.port}")
    signal.signal(signal.SIGTERM, _end)
    # A shell leaves out Ctrl-C for what it starts in the background.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    runs = Runs(options.file, options.seconds)
    try:
        source = options.file.read_text(encoding="utf-8")
        with ExploreServer(options.port, options.file.name, source, runs.run) as server:
            print(server.address, flush=True)
            server.serve_forever()
    except OSError as error:
        raise ValueError(f"--port {options.port}: {error.strerror}") from None
    finally:
        runs.close()
    return 0


def _end(number: int, frame: object) -> NoReturn:
    """End as Ctrl-C does."""
    raise KeyboardInterrupt
