"""Runs the Python code of Markdown files: the blocks of one file in order, as one program, whose
lines have the numbers that they have in the file. Exits with 1 when one fails.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path


def program(text: str) -> str:
    """The code of a file, at its lines."""
    lines = [""] * len(text.split("\n"))
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE):
        first = text[: block.start(1)].count("\n")
        for number, line in enumerate(block[1].split("\n")[:-1]):
            lines[first + number] = line
    return "\n".join(lines) + "\n"


def main(paths: list[str]) -> int:
    """Run each file in a process of its own; returns the exit code."""
    status = 0
    with tempfile.TemporaryDirectory() as folder:
        for path in map(Path, paths):
            code = Path(folder) / f"{path.stem}.md.py"
            code.write_text(program(path.read_text(encoding="utf-8")), encoding="utf-8")
            start = time.perf_counter()
            done = subprocess.run([sys.executable, code], check=False, cwd=folder)
            took = time.perf_counter() - start
            print(f"{path.name}: {'failed' if done.returncode else 'ok'} in {took:.1f} s")
            status |= int(done.returncode != 0)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
