"""Machine code as text: what NVIDIA's disassembler says of a cubin, with the Python line that each
instruction comes from, and the loops in it. Without `nvdisasm` there is nothing to show.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from cutedialect.backend.runtime import ptxas

_LINE = re.compile(r'\s*//## File "([^"]*)", line (\d+)')
_LABEL = re.compile(r"^(\.L_x_\d+|\.L\w*):")
_INSTRUCTION = re.compile(r"^\s*/\*([0-9a-f]{4,})\*/\s+(.*?)\s*;")
_TARGET = re.compile(r"\bBRA\b.*`\((\.L\w+)\)")
_TIMEOUT_SECONDS = 60


@dataclass(frozen=True)
class Instruction:
    """An instruction: its text, the Python line that it comes from ("file:line" or ""), the label
    in front of it, and the one that it branches to.
    """

    text: str
    location: str
    label: str = ""
    target: str = ""


def find() -> Path | None:
    """The disassembler: in PATH, or beside a ptxas that is known."""
    found = shutil.which("nvdisasm")
    if found is not None:
        return Path(found)
    beside = (path.with_name(f"nvdisasm{path.suffix}") for path in ptxas.candidates())
    return next((path for path in beside if path.is_file()), None)


def disassembled(cubin: bytes) -> tuple[Instruction, ...]:
    """The instructions of machine code, of several kernels one after the other; none where there is
    no disassembler, or it refuses.
    """
    tool = find()
    if tool is None:
        return ()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "kernel.cubin"
        file.write_bytes(cubin)
        done = subprocess.run(
            [str(tool), "-g", "-c", str(file)],
            capture_output=True,
            text=True,
            check=False,
            timeout=_TIMEOUT_SECONDS,
        )
    return parsed(done.stdout) if done.returncode == 0 else ()


def parsed(text: str) -> tuple[Instruction, ...]:
    """The instructions in what `nvdisasm -g -c` prints.

    >>> parsed("\\t//## File \\"k.py\\", line 3\\n.L_x_1:\\n  /*0010*/  BRA `(.L_x_1) ;")
    (Instruction(text='BRA `(.L_x_1)', location='k.py:3', label='.L_x_1', target='.L_x_1'),)
    """
    found: list[Instruction] = []
    location = label = ""
    for line in text.split("\n"):
        if match := _LINE.match(line):
            location = f"{match[1]}:{match[2]}"
        elif match := _LABEL.match(line):
            label = match[1]
        elif match := _INSTRUCTION.match(line):
            target = _TARGET.search(match[2])
            found.append(Instruction(match[2], location, label, target[1] if target else ""))
            label = ""
    return tuple(found)


def loops(code: Sequence[Instruction]) -> list[range]:
    """The loops: from each label to the last branch back to it."""
    places = {each.label: place for place, each in enumerate(code) if each.label}
    ends: dict[int, int] = {}
    for place, each in enumerate(code):
        start = places.get(each.target, place + 1)
        if start < place:  # at itself is where a kernel ends
            ends[start] = place
    return [range(start, end + 1) for start, end in sorted(ends.items())]


def hot_loop(code: Sequence[Instruction], lines: Sequence[str]) -> range:
    """The smallest loop with the most instructions from some Python lines ("file:line", of files
    by their names alone); empty without one.
    """
    wanted = {Path(line).name for line in lines}
    best, most = range(0), 0
    for loop in sorted(loops(code), key=len):
        count = sum(Path(code[place].location).name in wanted for place in loop)
        if count > most:
            best, most = loop, count
    return best
