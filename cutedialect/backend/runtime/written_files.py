"""Files of the user's folders that a command writes: whole or not at all, so that a disk that is
full, or a process that is killed, leaves the file of before. A list beside them says which are ours
and of which kernel: nothing else is overwritten, nor that of another kernel, and of what an earlier
run wrote only that is deleted which nobody has changed.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

# One line a file: the SHA-256 of what was written, the name, and the kernel.
MANIFEST = ".cutedialect-files"


class Owner(NamedTuple):
    """The kernel that a file is of: its name, and what it was compiled from. A run for the same
    may write the file anew. Without either it is a file of whichever kernel comes.
    """

    kernel: str = ""
    source: str = ""


class _Written(NamedTuple):
    digest: str
    owner: Owner


def write_whole(path: Path, content: bytes) -> None:
    """Write a file beside the one of before, and put it in its place. What is no plain file, such
    as a pipe, is written to as it is. Raises OSError, with the file of before as it was.
    """
    target = path.resolve()
    if target.exists() and not target.is_file():
        with open(target, "wb") as file:
            file.write(content)
    else:
        _replace({path: content})


def _beside(target: Path) -> Path:
    return target.with_name(f".{target.name}.{os.getpid()}-{threading.get_ident()}.part")


def _write_beside(beside: Path, target: Path, content: bytes) -> None:
    try:
        beside.write_bytes(content)
    except OSError as error:  # a write that fails does not say of which file
        raise OSError(error.errno, error.strerror, str(target)) from None
    if target.exists():
        shutil.copymode(target, beside)


def write_files(
    folder: Path,
    files: Mapping[str, bytes],
    is_stale: Callable[[str], bool],
    owner: Owner = Owner(),  # noqa: B008
    *,
    force: bool = False,
) -> list[Path]:
    """Write `files`, by name, all or none, and delete those that an earlier run wrote for the
    kernel of this name, that are not among them and of which `is_stale` says that they go. Returns
    the paths in order.

    Raises FileExistsError, with nothing written, where a file of another origin has one of the
    names and other content, or without `force` one of another kernel.
    """
    folder.mkdir(parents=True, exist_ok=True)
    listed = _listed(folder)
    for name, content in files.items():
        path = folder / name
        if not path.exists() or path.read_bytes() == content:
            continue
        if name not in listed:
            raise FileExistsError(
                f"expected to write {path} anew, got a file that an earlier run did not write; "
                "choose another folder or move it away"
            )
        other = listed[name].owner
        if owner.source and other.source not in ("", owner.source) and not force:
            raise FileExistsError(
                f"expected to write {path} anew, got that of another kernel ({other.source}); "
                "--name gives this one a name of its own, --force replaces the other"
            )
    stale = [
        name
        for name, written in listed.items()
        if name not in files and written.owner.kernel in ("", owner.kernel) and is_stale(name)
    ]
    gone = [name for name in stale if _digest_of(folder / name) == listed.pop(name).digest]
    for name, content in files.items():
        listed[name] = _Written(hashlib.sha256(content).hexdigest(), owner)
    _replace({folder / name: content for name, content in files.items()} | _list(folder, listed))
    for name in gone:
        (folder / name).unlink(missing_ok=True)
    return [folder / name for name in files]


def _replace(files: Mapping[Path, bytes]) -> None:
    """Write all of some files before the first takes its place."""
    targets = {path.resolve(): content for path, content in files.items()}
    try:
        for target, content in targets.items():
            _write_beside(_beside(target), target, content)
        for target in targets:
            os.replace(_beside(target), target)
    finally:
        for target in targets:
            _beside(target).unlink(missing_ok=True)


def owners(folder: Path) -> dict[str, Owner]:
    """The files that earlier runs wrote into a folder, by name."""
    return {name: written.owner for name, written in _listed(folder).items()}


def _list(folder: Path, listed: Mapping[str, _Written]) -> dict[Path, bytes]:
    """The list of what was written, a file like the others."""
    lines = [
        "  ".join([written.digest, name, *filter(None, written.owner)]) + "\n"
        for name, written in sorted(listed.items())
    ]
    return {folder / MANIFEST: "".join(lines).encode()}


def _listed(folder: Path) -> dict[str, _Written]:
    """What earlier runs wrote; a line that is none of ours counts as not there."""
    try:
        lines = (folder / MANIFEST).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError):
        return {}
    found: dict[str, _Written] = {}
    for line in lines:
        digest, name, *rest = *line.split("  ", 3), ""
        if name and name == Path(name).name and name not in (".", "..", MANIFEST):
            found[name] = _Written(digest, Owner(*rest[:2]) if len(rest) > 2 else Owner())
    return found


def _digest_of(path: Path) -> str | None:
    """The digest of a file; None for what is no plain file."""
    if path.is_symlink() or not path.is_file():
        return None
    return hashlib.sha256(path.read_bytes()).hexdigest()
