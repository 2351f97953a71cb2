"""What the explorer shows of one run, as plain data that JSON holds: of a Python program that runs
in the emulator, or of IR that passes lower. It runs in a process of its own (`explore_runs.py`).
"""

from __future__ import annotations

import contextlib
import io
import re
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from difflib import SequenceMatcher
from functools import partial
from html import escape
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from cutedialect import environment
from cutedialect.backend.emulator import timeline as model_time
from cutedialect.backend.runtime.errors import CompileError
from cutedialect.backend.runtime.kernel import Kernel
from cutedialect.backend.runtime.ptx_text import source_files
from cutedialect.frontend.launch import known_kernels
from cutedialect.layout import Layout, LayoutError, Swizzle, parse_layout
from cutedialect.layout.draw_svg import banks_svg, tv_svg
from cutedialect.layout.text import parse_int_tuple
from cutedialect.remarks import Remark
from cutedialect.tools.cute_opt import CuteOpt
from cutedialect.tools.timeline import drawn_timeline
from cutedialect.tools.timeline_command import run_script

Result = dict[str, Any]
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_PLACE = re.compile(r"(?P<file>[^\s:\"']+\.(?:py|mlir)):(?P<line>\d+)(?::(?P<column>\d+))?")
_FRAGMENT = re.compile(r'!cute\.fragment<\w+, "(?P<shape>[^"]+)", "(?P<tv>[^"]+)">')
_SHARED = re.compile(
    r"!cute\.memref<[a-z]*(?P<bits>\d+)\w*, smem, align<\d+>, "
    r'(?P<swizzle>S<\d+,\d+,\d+>, )?"(?P<layout>[^"]+)">'
)
_DIAGNOSTIC = re.compile(
    r"^[^:\n]*:(?P<line>\d+):(?P<column>\d+): (?P<kind>error|remark): (?P<message>.*)$", re.M
)
# The target of what names none.
_TARGET = "sm_80"
# Pictures of one run, and lines of one text, that a browser shows without a pause.
_MOST_PICTURES, _MOST_LINES = 8, 6000
# Characters of what a program prints that are kept.
_MOST_PRINTED = 20_000


def explored(source: str, file: str, kind: str, target: str, schedule: str) -> Result:
    """Run what the page has in its editor, a program from its `file`; `kind` is "python" or "ir".
    Faults of the user are part of the result.
    """
    start = time.perf_counter()
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            found = (
                _of_ir(source, target, schedule)
                if kind == "ir"
                else _of_program(Path(file), target, schedule)
            )
    except SyntaxError as error:
        found = _fault(f"{type(error).__name__}: {error.msg}", error.lineno, error.offset, source)
    except Exception as error:  # a fault of the program that is shown, whatever it is
        line, column = _place_of(error, Path(file))
        found = _fault(_said(error, Path(file)), line, column, source)
    found["printed"] = printed.getvalue()[-_MOST_PRINTED:]
    found["seconds"] = round(time.perf_counter() - start, 2)
    return found


def _of_program(file: Path, target: str, schedule: str) -> Result:
    with environment.calling(target, schedule), model_time.recording() as launches:
        scope = run_script(file, ())
    if not launches:
        return _fault(
            "expected a program that launches a kernel in the emulator, got none", 1, 1, ""
        )
    kernel = _kernel(launches[-1].ptx, scope)
    timeline = drawn_timeline(launches[-1], scope)
    return {
        "kernel": kernel.name,
        "target": kernel.arch,
        "schedule": kernel.schedule,
        "stages": _changes(kernel.stages),
        "ptx": _ptx_lines(kernel.ptx, file),
        "layouts": _pictures(kernel.stages),
        "remarks": [_remark(remark, file) for remark in kernel.remarks],
        "report": "\n".join(map(str, kernel.reports)),
        "arguments": ", ".join(
            "x".join(map(str, value[0])) if isinstance(value, tuple) else str(value)
            for value in kernel.emulated_arguments
        ),
        "timeline": timeline.svg(),
        "roles": str(timeline),
    }


def _kernel(ptx: str, scope: dict[str, Any]) -> Kernel:
    """The kernel that was launched last."""
    for kernel in (*known_kernels(), *scope.values()):
        if isinstance(kernel, Kernel) and kernel.ptx == ptx:
            return kernel
    raise ValueError("expected a kernel that the program compiled, got PTX of another origin")


def _of_ir(source: str, target: str, schedule: str) -> Result:
    """The stages of a module; IR has no arrays to run on."""
    chosen = f"arch={target or _TARGET}" + (f' schedule="{schedule}"' if schedule else "")
    out, err = io.StringIO(), io.StringIO()
    with TemporaryDirectory() as folder:
        options = ["-p", f"cute-to-ptx{{{chosen}}}", "-t", "ptx", "--remarks"]
        options += ["--print-ir-tree-dir", folder]
        status = CuteOpt(options, io.StringIO(source), out, err).run()
        stages = {
            path.stem.partition("-")[2]: path.read_text(encoding="utf-8")
            for path in sorted(Path(folder).glob("*.mlir"))
        }
    said = [match.groupdict() for match in _DIAGNOSTIC.finditer(err.getvalue())]
    shown: Result = {"stages": _changes(stages), "layouts": _pictures(stages)}
    if status:
        first = next((each for each in said if each["kind"] == "error"), None)
        if first is None:
            return {**shown, **_fault(err.getvalue(), 1, 1, source)}
        place = int(first["line"]), int(first["column"])
        return {**shown, **_fault(first["message"], *place, source)}
    return {
        **shown,
        "kernel": "module",
        "target": target or _TARGET,
        "schedule": schedule,
        "ptx": _ptx_lines(out.getvalue(), None),
        "remarks": [
            {"pass": "", "message": each["message"], "line": int(each["line"])}
            for each in said
            if each["kind"] == "remark"
        ],
        "report": "IR is lowered, and not run: it has no arrays. A Python program has some.",
        "arguments": "",
        "timeline": "",
        "roles": "",
    }


def _changes(stages: dict[str, str]) -> list[Result]:
    """Each stage with its lines: [mark, text], where "+" is not in the stage before and "-" not in
    this one any more.
    """
    found: list[Result] = []
    before: list[str] = []
    for name, text in stages.items():
        lines = text.split("\n")
        found.append({"name": name, "lines": list(_marked(before, lines))[:_MOST_LINES]})
        before = lines
    return found


def _marked(before: Sequence[str], lines: Sequence[str]) -> Iterator[tuple[str, str]]:
    if not before:
        yield from ((" ", line) for line in lines)
        return
    matcher = SequenceMatcher(None, before, lines)
    for tag, first, last, start, end in matcher.get_opcodes():
        if tag == "equal":
            yield from ((" ", line) for line in lines[start:end])
            continue
        yield from (("-", line) for line in before[first:last])
        yield from (("+", line) for line in lines[start:end])


def _ptx_lines(ptx: str, file: Path | None) -> list[Result]:
    """The lines of PTX, each with the line of the program that it comes from, or 0; of a module all
    are its own.
    """
    files, here, found = source_files(ptx), 0, []
    for text in ptx.split("\n")[:_MOST_LINES]:
        if match := _LOC.match(text):
            is_here = file is None or Path(files.get(match[1], "")).name == file.name
            here = int(match[2]) if is_here else 0
        found.append({"text": text, "line": here})
    return found


def _pictures(stages: dict[str, str]) -> list[Result]:
    """Thread-value layouts of register tiles and layouts of shared memory, each once."""
    text = stages.get("cute-partition", "")
    tiles = {
        f"registers {match['shape']}: {match['tv']}": match for match in _FRAGMENT.finditer(text)
    }
    buffers = {
        f"shared memory, {match['bits']} bits: {match['swizzle'] or ''}{match['layout']}": match
        for match in _SHARED.finditer(text)
    }
    drawn = [
        (title, partial(_registers, match)) for title, match in list(tiles.items())[:_MOST_PICTURES]
    ]
    drawn += [
        (title, partial(_banks, match)) for title, match in list(buffers.items())[:_MOST_PICTURES]
    ]
    return [{"title": title, "svg": _picture(draw)} for title, draw in drawn]


def _registers(match: re.Match[str]) -> str:
    shape = parse_int_tuple(match["shape"])
    return tv_svg(_layout(match["tv"]), shape if isinstance(shape, tuple) else (shape,))


def _banks(match: re.Match[str]) -> str:
    return banks_svg(_layout(match["layout"]), int(match["bits"]), _swizzle(match["swizzle"]))


def _picture(draw: Callable[[], str]) -> str:
    """A picture; of a layout that is too large for one why there is none."""
    try:
        return draw()
    except (LayoutError, ValueError) as error:
        return f"<p>{escape(str(error))}</p>"


def _layout(text: str) -> Layout:
    layout = parse_layout(text)
    assert isinstance(layout, Layout)
    return layout


def _swizzle(text: str | None) -> Swizzle | None:
    return Swizzle(*map(int, re.findall(r"\d+", text))) if text else None


def _remark(remark: Remark, file: Path) -> Result:
    match = _PLACE.match(remark.location or "")
    is_here = match is not None and Path(match["file"]).name == file.name
    line = int(match["line"]) if match is not None and is_here else 0
    return {"pass": remark.pass_name, "message": remark.message, "line": line}


def _fault(message: str, line: int | None, column: int | None, source: str) -> Result:
    """An error at its place, with the line and a caret below its column."""
    lines = source.split("\n")
    shown = lines[line - 1] if line and line <= len(lines) else ""
    caret = f"{shown}\n{' ' * (max(column or 1, 1) - 1)}^" if shown else ""
    return {"error": {"message": message, "line": line or 0, "column": column or 0, "caret": caret}}


def _said(error: Exception, file: Path) -> str:
    """The message, with the file by its name alone: it is a copy in a folder of the explorer's."""
    notes = "\n".join(getattr(error, "notes", ()))
    kind = "" if isinstance(error, CompileError | ValueError) else f"{type(error).__name__}: "
    text = f"{kind}{error}" + (f"\n{notes}" if notes and notes not in str(error) else "")
    return text.replace(f"{file.parent}/", "")


def _place_of(error: Exception, file: Path) -> tuple[int | None, int | None]:
    """The line and column of a user's mistake: what it says, or the innermost of the program."""
    frames = [
        frame
        for frame in traceback.extract_tb(_first(error).__traceback__)
        if Path(frame.filename).name == file.name
    ]
    said = getattr(error, "location", None) or str(error)
    for match in _PLACE.finditer(str(said)):
        if Path(match["file"]).name == file.name:
            line, column = int(match["line"]), int(match["column"] or 0)
            known = [frame.colno for frame in frames if frame.lineno == line]
            return line, column or (known[-1] or 0 if known else 0) + 1
    last = frames[-1] if frames else None
    return (last.lineno, (last.colno or 0) + 1) if last is not None else (None, None)


def _first(error: BaseException) -> BaseException:
    """The error that others were raised for."""
    while error.__context__ is not None:
        error = error.__context__
    return error


def serve(connection: Any, folder: str, *what: str) -> None:
    """The body of a process: one run, whose result goes through a pipe. A program finds the modules
    of `folder`.
    """
    sys.path.insert(0, folder)
    connection.send(explored(*what))
    connection.close()
