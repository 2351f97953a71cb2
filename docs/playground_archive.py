"""What the playground's page unpacks: the package, xDSL and what that needs, all of plain Python,
in one archive. `python docs/playground_archive.py FILE` writes it.
"""

from __future__ import annotations

import io
import re
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import Distribution, distribution
from pathlib import Path

ROOT = Path(__file__).parents[1]
# Dialects that only other projects use, and tools: half of what a page would load.
_LEFT_OUT = re.compile(
    r"(^|/)(docs|tests|__pycache__)/|xdsl/(interactive|tools|frontend|backend)/|\.py[co]$"
)
# Of xDSL's backends the passes import the registers alone.
_KEPT = re.compile(r"xdsl/backend/(__init__|register_\w+)\.py$")
# What the files say of themselves stays the same from build to build.
_DATE = (2020, 1, 1, 0, 0, 0)


def archive() -> bytes:
    """The archive, equal for equal sources. Raises PackageNotFoundError where xDSL is missing, and
    ValueError for a file that is no plain Python.
    """
    found = io.BytesIO()
    with zipfile.ZipFile(found, "w", zipfile.ZIP_DEFLATED) as made:
        for name, content in sorted([*_package(), *_installed(distribution("xdsl"))]):
            made.writestr(zipfile.ZipInfo(name, _DATE), content, zipfile.ZIP_DEFLATED)
    return found.getvalue()


def _package() -> Iterator[tuple[str, bytes]]:
    for path in (ROOT / "cutedialect").rglob("*"):
        name = str(path.relative_to(ROOT))
        if path.is_file() and not _LEFT_OUT.search(name):
            yield name, path.read_bytes()


def _installed(one: Distribution) -> Iterator[tuple[str, bytes]]:
    """The files of a distribution, with its license, and those of what it requires."""
    for file in one.files or ():
        name = str(file)
        if name.startswith("..") or (_LEFT_OUT.search(name) and not _KEPT.search(name)):
            continue
        if file.suffix in (".so", ".pyd"):
            raise ValueError(f"{name}: expected plain Python, got machine code")
        yield name, file.read_binary()
    for required in one.requires or ():
        if "extra ==" not in required:
            yield from _installed(distribution(re.split(r"[^\w.-]", required)[0]))


if __name__ == "__main__":
    Path(sys.argv[1]).write_bytes(archive())
