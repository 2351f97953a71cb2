"""What the runtime reads out of PTX text: its entries with the widths of their parameters, the
Python line and IR op of a PTX line, and the text without what does not change the machine code.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_STRING_OR_COMMENT = re.compile(r'"[^"\n]*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
_DEBUG_LINE = re.compile(r"^[ \t]*\.(?:file|loc)\b[^\n]*\n?", re.MULTILINE)
_BLANK = re.compile(r"[ \t]*\n\s*")
_ENTRY = re.compile(
    r"\.entry\s+(?P<name>[\w$%]+)\s*(?:\((?P<params>[^)]*)\))?(?P<directives>[^{;]*)", re.DOTALL
)
_PARAM = re.compile(
    r"\.param\s+(?:\.align\s+(?P<align>\d+)\s+)?\.(?P<type>\w+)"
    r"(?:\s+\.ptr\b(?:\s*\.(?:global|shared|const|local))?(?:\s*\.align\s+\d+)?)?"
    r"\s+[\w$%]+\s*(?:\[(?P<count>\d*)\])?"
)
_ENTRY_WORD, _WAIT = ".entry", "griddepcontrol.wait"
_FUNCTION_START = re.compile(r"\s*(?:\.visible\s+|\.extern\s+|\.weak\s+)*\.(?:entry|func)\b")
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)(?:\s+(\d+))?")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"\n]*)"', re.MULTILINE)
_IR = re.compile(r"//\s*ir:\s*(.*\S)")


@dataclass(frozen=True)
class Entry:
    """A kernel of the PTX text: `sizes` are the parameters' sizes in bytes, in order; `threads` is
    `.reqntid` (None without), `cluster` is `.reqnctapercluster` (None without); `is_early` where it
    waits for the launch in front of it by itself.
    """

    name: str
    sizes: tuple[int, ...]
    threads: tuple[int, int, int] | None = None
    cluster: tuple[int, int, int] | None = None
    is_early: bool = False


@dataclass(frozen=True)
class Origin:
    """Where a PTX line came from: "file:line:column" of the Python and the IR op, or None."""

    location: str | None
    ir: str | None


def entries(ptx: str) -> tuple[Entry, ...]:
    """Every `.entry` that `ptx` defines, in order.

    >>> entries(".entry k(.param .b64 a, .param .align 64 .b8 m[128]) .reqntid 32 { ret; }")
    (Entry(name='k', sizes=(8, 128), threads=(32, 1, 1), cluster=None, is_early=False),)
    """
    # Comments that end with the line are told apart where it matters: a kernel is much longer than
    # what stands in front of its body.
    text = strip_comments(ptx) if "/*" in ptx else ptx
    found: list[Entry] = []
    starts = [*_outside_comments(text, _ENTRY_WORD)]
    for start, end in zip(starts, [*starts[1:], len(text)], strict=False):
        match = _ENTRY.match(_head(text, start))
        if match is None:
            continue
        directives = match["directives"]
        found.append(
            Entry(
                match["name"],
                tuple(_size(param) for param in _PARAM.finditer(match["params"] or "")),
                _triple(directives, "reqntid"),
                _triple(directives, "reqnctapercluster"),
                any(at < end for at in _outside_comments(text, _WAIT, start)),
            )
        )
    return tuple(found)


def _outside_comments(text: str, word: str, start: int = 0) -> Iterator[int]:
    """Where a word stands in front of the comment of its line, if there is one."""
    at = text.find(word, start)
    while at >= 0:
        if "//" not in text[text.rfind("\n", 0, at) + 1 : at]:
            yield at
        at = text.find(word, at + len(word))


def _head(text: str, start: int) -> str:
    """What stands from a place on up to the body of a function, without comments."""
    lines: list[str] = []
    while start < len(text) and not (lines and re.search("[{;]", lines[-1])):
        end = text.find("\n", start) + 1 or len(text) + 1
        lines.append(text[start : end - 1].partition("//")[0])
        start = end
    return "\n".join(lines)


def target(ptx: str) -> str:
    """The architecture of the `.target` line, or an empty string."""
    match = re.search(r"^\s*\.target\s+(\w+)", ptx, re.MULTILINE)
    return match[1] if match else ""


def version(ptx: str) -> tuple[int, int]:
    """The version of PTX in which a text is written, (0, 0) without a `.version` line."""
    match = re.search(r"^\s*\.version\s+(\d+)\.(\d+)", ptx, re.MULTILINE)
    return (int(match[1]), int(match[2])) if match else (0, 0)


def canonical(ptx: str) -> str:
    """`ptx` without comments, `.file`, `.loc` and blank space at line ends: equal text assembles to
    equal machine code wherever in the user's file the kernel stands.
    """
    return _BLANK.sub("\n", _DEBUG_LINE.sub("", strip_comments(ptx) + "\n")).strip()


def strip_comments(ptx: str) -> str:
    """`ptx` with comments replaced by as many newlines as they held."""

    def replaced(match: re.Match[str]) -> str:
        text = match[0]
        return text if text[0] == '"' else "\n" * text.count("\n") or " "

    if "/*" in ptx:
        return _STRING_OR_COMMENT.sub(replaced, ptx)
    # The printer's own comments, one on every other line, end with the line.
    return "\n".join(
        _STRING_OR_COMMENT.sub(replaced, line) if '"' in line else line.partition("//")[0]
        for line in ptx.split("\n")
    )


def origin(ptx: str, line: int) -> Origin:
    """The origin of the 1-based `line`: the nearest `.loc` and `// ir:` at or before it within the
    same function. The printer writes both at the first line of an op only.
    """
    lines = ptx.splitlines()
    location: str | None = None
    ir: str | None = None
    for index in range(min(line, len(lines)) - 1, -1, -1):
        text = lines[index]
        if ir is None and (match := _IR.search(text)):
            ir = match[1]
        if location is None and (match := _LOC.match(text)):
            files = dict(_FILE.findall(ptx))
            if match[1] in files:
                column = f":{match[3]}" if int(match[3] or 0) else ""
                location = f"{files[match[1]]}:{match[2]}{column}"
        if _FUNCTION_START.match(text) or (location is not None and ir is not None):
            break
    return Origin(location, ir)


def _size(param: re.Match[str]) -> int:
    digits = re.search(r"\d+", param["type"])
    width = int(digits[0]) // 8 if digits else 1
    return width * int(param["count"]) if param["count"] else width


def _triple(directives: str, name: str) -> tuple[int, int, int] | None:
    match = re.search(rf"\.{name}\s+(\d+)(?:\s*,\s*(\d+))?(?:\s*,\s*(\d+))?", directives)
    return (int(match[1]), int(match[2] or 1), int(match[3] or 1)) if match else None


def source_files(ptx: str) -> dict[str, str]:
    """The files that `.loc` names, by number."""
    return dict(_FILE.findall(ptx))


def with_short_paths(ptx: str) -> str:
    """`ptx` with the paths of its source files as they are below the current folder or the folder
    of the package; of others the name alone. It says nothing of the machine that it was made on.
    """

    def shortened(match: re.Match[str]) -> str:
        return f'{match[0][: match.start(2) - match.start()]}{short_path(match[2])}"'

    return _FILE.sub(shortened, ptx)


def short_path(path: str) -> str:
    """A path as it is below the current folder or that of the package; of others the name alone."""
    for folder in (Path.cwd(), Path(__file__).resolve().parents[3]):
        if Path(path).is_relative_to(folder):
            return Path(path).relative_to(folder).as_posix()
    return Path(path).name if Path(path).is_absolute() else path
