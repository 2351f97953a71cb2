"""Files that a command writes into a folder of the user: a list beside them says which are ours.
Nothing else is overwritten, and of what an earlier run wrote only that is deleted which nobody has
changed.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from pathlib import Path

# One line a file: the SHA-256 of what was written, and the name.
MANIFEST = ".cutedialect-files"


def write_files(
    folder: Path, files: Mapping[str, bytes], is_stale: Callable[[str], bool]
) -> list[Path]:
    """Write `files`, by name, and delete those of an earlier run that are not among them and of
    which `is_stale` says that they go. Returns the paths in order.

    Raises FileExistsError, with nothing written, where a file of another origin has one of the
    names and other content.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = _listed(folder)
    for name, content in files.items():
        path = folder / name
        if name not in listed and path.exists() and path.read_bytes() != content:
            raise FileExistsError(
                f"expected to write {path} anew, got a file that an earlier run did not write; "
                "choose another folder or move it away"
            )
    for name in [name for name in listed if name not in files and is_stale(name)]:
        if _digest_of(folder / name) == listed.pop(name):
            (folder / name).unlink()
    for name, content in files.items():
        (folder / name).write_bytes(content)
        listed[name] = hashlib.sha256(content).hexdigest()
    lines = [f"{digest}  {name}\n" for name, digest in sorted(listed.items(), key=lambda e: e[0])]
    (folder / MANIFEST).write_text("".join(lines), encoding="utf-8")
    return [folder / name for name in files]


def _listed(folder: Path) -> dict[str, str]:
    """The digests of an earlier run's files; a line that is none of ours counts as not there."""
    try:
        lines = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, str] = {}
    for line in lines:
        digest, _, name = line.partition("  ")
        if name and name == Path(name).name and name not in (".", "..", MANIFEST):
            found[name] = digest
    return found


def _digest_of(path: Path) -> str | None:
    """The digest of a file; None for what is no plain file."""
    if path.is_symlink() or not path.is_file():
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()
