"""The disk cache: content-addressed files under the user's cache folder (CUTEDIALECT_CACHE_DIR). An
entry is written to a temporary file, renamed into place, and carries its own checksum, so that a
killed writer, two writers at once or a damaged disk are a miss and never a wrong kernel. A folder
that cannot be written is a cache that is always empty. Above a size (CUTEDIALECT_CACHE_SIZE) the
entries go that were not read for the longest time. What has neither the name nor the first bytes of
an entry is not ours, and is never deleted.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from cutedialect import environment

_FORMAT = "1"
_MAGIC = b"cutedialect-cache-1\n"
_DIGEST_BYTES = 32
_STALE_SECONDS = 3600
_TEMPORARY = "tmp"
# Of every format: the name of a folder, of the folders in it, and the first bytes of a file.
_FOLDERS = "v[0-9]*"
_ENTRY = re.compile(r"[0-9a-f]{64}")
_OURS = b"cutedialect-cache-"
# https://bford.info/cachedir/: programs that make backups pass over a folder with this file.
_TAG = "CACHEDIR.TAG"
_TAG_TEXT = """Signature: 8a477f597d28d172789f06886806bc55
# This file is a cache directory tag created by cutedialect.
# For information about cache directory tags, see https://bford.info/cachedir/
"""
# An entry that is read is marked as used when its mark is older.
_USED_SECONDS = 600
# The size of the cache is looked at after so many bytes written by a process, and at one of 64
# writes, for processes that write little.
_LOOKED_AT = 16 << 20
_LOOKED_FOR = ("00", "01", "02", "03")
# The hash of the package's source, and the seconds behind a change after which it is kept.
_STAMP, _SETTLED_SECONDS = "stamp", 2.0
_STARTED = time.time()


@dataclass(frozen=True)
class Entry:
    """One file: `kind` is "program", "cubin", "tool", "schedule" or "stamp"; `size` is in bytes."""

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
        _mark_used(path)
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
        _make_folder()
        path.parent.mkdir(parents=True, exist_ok=True)
        (folder() / _TEMPORARY).mkdir(exist_ok=True)
        import tempfile

        handle, temporary = tempfile.mkstemp(dir=folder() / _TEMPORARY)
        with os.fdopen(handle, "wb") as file:
            file.write(_MAGIC + _digest(payload) + payload)
        os.replace(temporary, path)
    except OSError:
        if temporary is not None:
            _remove(Path(temporary))
        return False
    _sweep()
    global _written
    _written += len(payload)
    if _written > _LOOKED_AT or key.startswith(_LOOKED_FOR):
        _written = 0
        prune()
    return True


_written = 0


def entries() -> Iterator[Entry]:
    """Every entry, by kind and key."""
    return _entries_of(folder())


def size() -> int:
    """Bytes of all entries, of other formats too."""
    return sum(entry.size for root in _roots() for entry in _entries_of(root))


def clear() -> int:
    """Delete every entry, of other formats too, and the folders that this leaves empty; returns how
    many entries there were.
    """
    count = 0
    for root in _roots():
        for entry in list(_entries_of(root)):
            count += _remove(entry.path)
        if _is_tagged(root):
            for path in _files(root / _TEMPORARY):
                _remove(path)
            if not any(path.name != _TAG and _holds_files(path) for path in root.iterdir()):
                _remove(root / _TAG)
        _remove_empty(root)
    return count


def prune(limit: int | None = None) -> tuple[int, int]:
    """Delete what was not used for the longest time until all entries, of other formats too, take
    at most `limit` bytes, by default those of the environment. Returns how many entries went, and
    their bytes.
    """
    most = environment.cache_size() if limit is None else limit
    found: list[tuple[float, Entry]] = []
    for root in _roots():
        for entry in _entries_of(root):
            try:
                found.append((entry.path.stat().st_mtime, entry))
            except OSError:
                continue
    total = sum(entry.size for _, entry in found)
    count = removed = 0
    for _, entry in sorted(found, key=lambda each: each[0]):
        if total - removed <= most:
            break
        if _remove(entry.path):
            count, removed = count + 1, removed + entry.size
    return count, removed


@cache
def package_stamp() -> str:
    """A hash over this package's own source, computed once per process. It is kept under what the
    file system says of the files, which takes a tenth of the time that reading them takes.

    Source that changed after the process started is not what runs here, so it gets a stamp that no
    other process has.
    """
    root = str(Path(__file__).resolve().parents[2])
    files = sorted(_sources(root))
    changed = max(max(status.st_mtime, status.st_ctime) for _, status in files)
    if max(status.st_mtime for _, status in files) > _STARTED:
        return key(_content_of(root, files), f"{os.getpid()} {_STARTED}")
    # A change keeps none of these: programs may set the time of modification, but no other.
    facts = ("st_size", "st_mtime_ns", "st_ctime_ns", "st_ino", "st_dev")
    rows = ((path, *(getattr(status, fact) for fact in facts)) for path, status in files)
    place = key(_STAMP, repr(list(rows)))
    if kept := read(_STAMP, place):
        return kept.decode()
    stamp = _content_of(root, files)
    # File systems count time in steps: a change right behind this one may leave the same times.
    if changed < time.time() - _SETTLED_SECONDS:
        write(_STAMP, place, stamp.encode())
    return stamp


def _content_of(root: str, files: Iterable[tuple[str, os.stat_result]]) -> str:
    """A hash over names and contents of files."""
    digest = hashlib.sha256()
    for path, _ in files:
        with open(path, "rb", buffering=0) as file:
            digest.update(path[len(root) :].encode() + b"\0" + file.read() + b"\0")
    return digest.hexdigest()


def _sources(folder: str) -> Iterator[tuple[str, os.stat_result]]:
    """Every Python file below a folder, and its status; pathlib would take twice as long."""
    for entry in os.scandir(folder):
        if entry.is_dir(follow_symlinks=False):
            yield from _sources(entry.path)
        elif entry.name.endswith(".py"):
            yield entry.path, entry.stat()


def _path(kind: str, key: str) -> Path:
    return folder() / kind / key[:2] / key


def _digest(payload: bytes) -> bytes:
    return hashlib.sha256(payload).digest()


def _roots() -> list[Path]:
    """The folders of every format."""
    base = environment.cache_dir()
    return sorted(path for path in base.glob(_FOLDERS) if path.is_dir() and not path.is_symlink())


def _entries_of(root: Path) -> Iterator[Entry]:
    for path in sorted(root.glob("*/[0-9a-f][0-9a-f]/*")):
        if _ENTRY.fullmatch(path.name) is None or path.is_symlink():
            continue
        try:
            with open(path, "rb") as file:
                is_ours = file.read(len(_OURS)) == _OURS
            size = path.stat().st_size
        except OSError:
            continue
        if is_ours:
            yield Entry(path.parent.parent.name, path.name, path, size)


def _make_folder() -> None:
    """Make the folder of this format with its tag; one that is made for it alone is tagged too. It
    is closed to other users: entries are code that runs.
    """
    root, base = folder(), environment.cache_dir()
    if (root / _TAG).exists():
        return
    is_new = not base.exists()
    root.mkdir(mode=0o700, parents=True, exist_ok=True)
    for place in (base, root) if is_new else (root,):
        (place / _TAG).write_text(_TAG_TEXT, encoding="utf-8")


def _is_tagged(root: Path) -> bool:
    try:
        return (root / _TAG).read_text(encoding="utf-8") == _TAG_TEXT
    except (OSError, UnicodeDecodeError):
        return False


def _files(place: Path) -> list[Path]:
    try:
        return [path for path in place.iterdir() if path.is_file() and not path.is_symlink()]
    except OSError:
        return []


def _holds_files(path: Path) -> bool:
    return not path.is_dir() or any(each.is_file() for each in path.rglob("*"))


def _remove_empty(root: Path) -> None:
    """Remove the folders below and `root` itself where nothing is in them."""
    for path in sorted((each for each in root.rglob("*") if each.is_dir()), reverse=True):
        _remove_folder(path)
    _remove_folder(root)


def _remove_folder(path: Path) -> None:
    try:
        path.rmdir()
    except OSError:  # not empty, or not ours to remove
        return


def _mark_used(path: Path) -> None:
    now = time.time()
    try:
        if now - path.stat().st_mtime > _USED_SECONDS:
            os.utime(path, (now, now))
    except OSError:  # a cache that is only read
        return


def _remove(path: Path) -> bool:
    """Delete a file; returns whether it was there and is gone."""
    try:
        path.unlink()
    except OSError:
        return False
    return True


def _sweep() -> None:
    """Delete what killed writers left; a live writer holds its file for milliseconds."""
    limit = time.time() - _STALE_SECONDS
    try:
        for item in os.scandir(folder() / _TEMPORARY):
            if item.stat().st_mtime < limit:
                _remove(Path(item.path))
    except OSError:
        return
