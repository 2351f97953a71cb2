"""Every environment variable that the project reads, as typed accessors. They are read at each
call, never at import, so a test or a notebook may change them at any time. CONTRIBUTING.md has the
same list as a table; no other module looks at `CUTEDIALECT_*`.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

VARIABLES = {
    "CUTEDIALECT_DUMP_DIR": (
        "folder for the IR after each pass (NN-pass.mlir) and kernel.ptx of the kernel compiled "
        "last, and of every kernel in a folder of its name"
    ),
    "CUTEDIALECT_VERIFY": (
        "'each' verifies the IR after every pass of a compilation and every line of its PTX, "
        "'ptx' the lines alone"
    ),
    "CUTEDIALECT_CACHE_DIR": "folder of the disk cache instead of the user's cache folder",
    "CUTEDIALECT_CACHE_SIZE": "most bytes of the disk cache, such as 500M or 2G; default 1G",
    "CUTEDIALECT_NO_CACHE": "1 neither reads nor writes the disk cache",
    "CUTEDIALECT_BACKEND": (
        "'emulator', 'interpreter', 'cuda', 'cupy' or 'cupy-cubin' instead of the automatic choice"
    ),
    "CUTEDIALECT_PTXAS": "path of the ptxas to use",
    "CUTEDIALECT_DEBUG": "1 shows Python tracebacks under errors",
}

_PREFIX = "CUTEDIALECT_"
_VERIFY = ("each", "ptx")
_BACKENDS = ("emulator", "interpreter", "cuda", "cupy", "cupy-cubin")


def dump_dir() -> Path | None:
    """Where to write the IR of every stage and the PTX, or None for nowhere."""
    return _path("CUTEDIALECT_DUMP_DIR")


def verify_each() -> bool:
    """Whether a compilation verifies after every pass; raises ValueError on another word."""
    return _choice("CUTEDIALECT_VERIFY", _VERIFY) == "each"


def verify_ptx() -> bool:
    """Whether printed PTX is checked line by line; raises ValueError on another word."""
    return _choice("CUTEDIALECT_VERIFY", _VERIFY) is not None


def cache_dir() -> Path:
    """The folder of the disk cache; it need not exist yet.

    Without the variable it is where the platform keeps such files: `~/.cache` or XDG_CACHE_HOME
    (XDG base directories, which have it absolute), `~/Library/Caches` on macOS, LOCALAPPDATA on
    Windows.
    """
    chosen = _path("CUTEDIALECT_CACHE_DIR")
    if chosen is not None:
        return chosen
    if sys.platform == "win32":
        base = os.environ.get("LOCALAPPDATA")
        place = Path(base) if base else Path.home() / "AppData" / "Local"
        return place / "cutedialect" / "Cache"
    if sys.platform == "darwin":
        return Path.home() / "Library" / "Caches" / "cutedialect"
    base = os.environ.get("XDG_CACHE_HOME", "")
    return (Path(base) if os.path.isabs(base) else Path.home() / ".cache") / "cutedialect"


def cache_size() -> int:
    """The most bytes that the disk cache may take; raises ValueError on what is no size."""
    return size_in_bytes("CUTEDIALECT_CACHE_SIZE", os.environ.get("CUTEDIALECT_CACHE_SIZE") or "1G")


def check() -> list[str]:
    """Read every variable: raises ValueError for a value that one does not have. Returns what is to
    be said of `CUTEDIALECT_*` variables that nothing reads, misspelled ones.
    """
    for read in (verify_each, cache_size, cache_enabled, backend, debug):
        read()
    said: list[str] = []
    for name in sorted({name for name in os.environ if name.startswith(_PREFIX)} - {*VARIABLES}):
        from difflib import get_close_matches

        near = get_close_matches(name, VARIABLES, 1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(VARIABLES)}"
        said.append(f"expected a variable that cutedialect reads, got {name}; {hint}")
    return said


def size_in_bytes(name: str, text: str) -> int:
    """A number of bytes, as `4096`, `500M` or `2G`; raises ValueError naming `name`."""
    found = re.fullmatch(r"(\d+)([KMGT]?)B?", text.strip().upper())
    if found is None:
        raise ValueError(f"{name}: expected a size such as 500M or 2G, got '{text}'")
    return int(found[1]) << 10 * " KMGT".index(found[2] or " ")


def cache_enabled() -> bool:
    """Whether the disk cache may be read and written."""
    return not _flag("CUTEDIALECT_NO_CACHE")


def backend() -> Literal["emulator", "interpreter", "cuda", "cupy", "cupy-cubin"] | None:
    """The backend forced by the user, or None; raises ValueError on an unknown one."""
    match _choice("CUTEDIALECT_BACKEND", _BACKENDS):
        case "emulator":
            return "emulator"
        case "interpreter":
            return "interpreter"
        case "cuda":
            return "cuda"
        case "cupy":
            return "cupy"
        case "cupy-cubin":
            return "cupy-cubin"
        case _:
            return None


@contextmanager
def without_device() -> Iterator[None]:
    """Kernels run in the emulator, but where the user has chosen a backend."""
    is_free = not os.environ.get("CUTEDIALECT_BACKEND")
    if is_free:
        os.environ["CUTEDIALECT_BACKEND"] = "emulator"
    try:
        yield
    finally:
        if is_free:
            os.environ.pop("CUTEDIALECT_BACKEND", None)


# What calls take that name no target or no schedule.
_calls: dict[str, str] = {}


@contextmanager
def calling(arch: str = "", schedule: str = "") -> Iterator[None]:
    """Calls in the block that name no target take this one, and programs without a schedule this
    one: tools run a user's program for another target without a change of its text.
    """
    before = dict(_calls)
    given = {"arch": arch, "schedule": schedule}
    _calls.update({name: value for name, value in given.items() if value})
    try:
        yield
    finally:
        _calls.clear()
        _calls.update(before)


def called_with(name: str) -> str | None:
    """The `arch` or `schedule` of calls that name none."""
    return _calls.get(name)


def ptxas() -> Path | None:
    """The assembler chosen by the user, or None to search for one."""
    return _path("CUTEDIALECT_PTXAS")


def debug() -> bool:
    """Whether errors also show their Python traceback."""
    return _flag("CUTEDIALECT_DEBUG")


def color(stream: TextIO) -> bool:
    """Whether text for a stream may have colors: it goes to a terminal that has them, and NO_COLOR
    is not set (https://no-color.org).
    """
    return not os.environ.get("NO_COLOR") and stream.isatty() and os.environ.get("TERM") != "dumb"


def _path(name: str) -> Path | None:
    text = os.environ.get(name)
    return Path(text).expanduser() if text else None


def _flag(name: str) -> bool:
    text = os.environ.get(name, "")
    if text not in ("", "0", "1"):
        raise ValueError(f"{name}: expected 0 or 1, got '{text}'")
    return text == "1"


def _choice(name: str, choices: tuple[str, ...]) -> str | None:
    text = os.environ.get(name, "")
    if text == "":
        return None
    if text not in choices:
        expected = " or ".join(f"'{choice}'" for choice in choices)
        raise ValueError(f"{name}: expected {expected}, got '{text}'")
    return text
