"""The disk cache: content-addressed files under `~/.cache/cutedialect` (CUTEDIALECT_CACHE_DIR). An
entry is written to a temporary file, renamed into place, and carries its own checksum, so that a
killed writer, two writers at once or a damaged disk are a miss and never a wrong kernel. A folder
that cannot be written is a cache that is always empty.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cutedialect import environment

_FORMAT = "1"
_MAGIC = b"cutedialect-cache-1\n"
_DIGEST_BYTES = 32
_STALE_SECONDS = 3600
_TEMPORARY = "tmp"
_STARTED = time.time()


@dataclass(frozen=True)
class Entry:
    """One file: `kind` is "program", "cubin", "tool" or "schedule"; `size` is in bytes."""

    kind: str
    key: str
    path: Path
    size: int


def folder() -> Path:
    """Where entries of this format live; it need not exist."""
    return environment.cache_dir() / f"v{_FORMAT}"


def key(*parts: str | bytes) -> str:
    """A key over `parts`; lengths are hashed too, so ("ab", "c") and ("a", "bc") differ."""
    digest = hashlib.sha256()
    for part in parts:
        raw = part.encode() if isinstance(part, str) else part
        digest.update(len(raw).to_bytes(8, "little"))
        digest.update(raw)
    return digest.hexdigest()


def read(kind: str, key: str) -> bytes | None:
    """The payload, or None for a missing or damaged entry; a damaged one is deleted."""
    if not environment.cache_enabled():
        return None
    path = _path(kind, key)
    try:
        raw = path.read_bytes()
    except OSError:
        return None
    payload = raw[len(_MAGIC) + _DIGEST_BYTES :]
    if raw.startswith(_MAGIC) and raw[len(_MAGIC) :].startswith(_digest(payload)):
        return payload
    _remove(path)
    return None


def write(kind: str, key: str, payload: bytes) -> bool:
    """Keep `payload`; returns whether it was kept. The last of several writers wins, a reader sees
    the whole old or the whole new entry.
    """
    if not environment.cache_enabled():
        return False
    path = _path(kind, key)
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        (folder() / _TEMPORARY).mkdir(exist_ok=True)
        handle, temporary = tempfile.mkstemp(dir=folder() / _TEMPORARY)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _digest(payload) + payload)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            _remove(Path(temporary))
        return False
    _sweep()
    return True


def entries() -> Iterator[Entry]:
    """Every entry, by kind and key."""
    for path in sorted(folder().glob("*/*/*")):
        try:
            size = path.stat().st_size
        except OSError:
            continue
        yield Entry(path.parent.parent.name, path.name, path, size)


def clear() -> int:
    """Delete every entry, of other formats too; returns how many of this format there were."""
    count = sum(1 for _ in entries())
    for path in environment.cache_dir().glob("v*"):
        shutil.rmtree(path, ignore_errors=True)
    return count


@cache
def package_stamp() -> str:
    """A hash over this package's own source, read once per process (a few milliseconds).

    Source that changed after the process started is not what runs here, so it gets a stamp that no
    other process has.
    """
    root = str(Path(__file__).resolve().parents[2])
    digest = hashlib.sha256()
    newest = 0.0
    for path in sorted(_sources(root)):
        with open(path, "rb", buffering=0) as file:
            digest.update(path[len(root) :].encode() + b"\0" + file.read() + b"\0")
            newest = max(newest, os.fstat(file.fileno()).st_mtime)
    if newest > _STARTED:
        digest.update(f"{os.getpid()} {_STARTED}".encode())
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[str]:
    """Every Python file below a folder; pathlib would take twice as long for all of this."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _sources(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path


def _path(kind: str, key: str) -> Path:
    return folder() / kind / key[:2] / key


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


def _remove(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        return


def _sweep() -> None:
    """Delete what killed writers left; a live writer holds its file for milliseconds."""
    limit = time.time() - _STALE_SECONDS
    try:
        for item in os.scandir(folder() / _TEMPORARY):
            if item.stat().st_mtime < limit:
                _remove(Path(item.path))
    except OSError:
        return
