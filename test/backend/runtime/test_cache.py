"""The disk cache under concurrent writers, killed writers, damage and unusable folders."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cutedialect.backend.runtime import cache

WRITER = """
import sys
from cutedialect.backend.runtime import cache
seed = int(sys.argv[1])
print("started", flush=True)
for round in range(int(sys.argv[2])):
    for index in range(8):
        key = cache.key("entry", str(index))
        payload = bytes([index]) * (20_000 + 1000 * ((seed + round) % 7))
        cache.write("cubin", key, payload)
        kept = cache.read("cubin", key)
        if kept is not None and (not kept or set(kept) != {index}):
            sys.exit(f"entry {index}: corrupt")
"""


def start(seed: int, rounds: int) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-c", WRITER, str(seed), str(rounds)], stdout=subprocess.PIPE
    )


def test_reads_back_what_was_written() -> None:
    key = cache.key("a")
    assert cache.read("cubin", key) is None
    assert cache.write("cubin", key, b"one")
    assert cache.write("cubin", key, b"two")
    assert cache.read("cubin", key) == b"two"
    assert cache.read("program", key) is None
    assert [(e.kind, e.key) for e in cache.entries()] == [("cubin", key)]
    assert cache.clear() == 1
    assert cache.read("cubin", key) is None


def test_keys_separate_their_parts() -> None:
    assert cache.key("ab", "c") != cache.key("a", "bc") != cache.key("abc")
    assert cache.key("a") == cache.key(b"a")


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty", "foreign"])
def test_a_damaged_entry_is_a_miss(damage: str) -> None:
    key = cache.key("x")
    cache.write("cubin", key, b"payload" * 100)
    (entry,) = cache.entries()
    raw = bytearray(entry.path.read_bytes())
    if damage == "truncate":
        raw = raw[:-5]
    elif damage == "flip":
        raw[-3] ^= 1
    elif damage == "empty":
        raw = bytearray()
    else:
        raw = bytearray(b"something else entirely")
    entry.path.write_bytes(raw)
    assert cache.read("cubin", key) is None
    assert not entry.path.exists()
    assert cache.write("cubin", key, b"again")
    assert cache.read("cubin", key) == b"again"


def test_sixteen_writers_at_once() -> None:
    writers = [start(seed, 12) for seed in range(16)]
    for writer in writers:
        writer.communicate(timeout=60)
    assert [writer.returncode for writer in writers] == [0] * 16
    for index in range(8):
        kept = cache.read("cubin", cache.key("entry", str(index)))
        assert kept is not None
        assert set(kept) == {index}


def test_killed_writers_leave_no_damage() -> None:
    for seed in range(20):
        writer = start(seed, 100_000)
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"started\n"
        time.sleep(0.0007 * seed)
        writer.send_signal(signal.SIGKILL)
        assert writer.wait() == -signal.SIGKILL
    for index in range(8):
        kept = cache.read("cubin", cache.key("entry", str(index)))
        assert kept is None or set(kept) == {index}
    assert any(cache.entries())


def test_what_killed_writers_left_is_swept() -> None:
    cache.write("cubin", cache.key("a"), b"a")
    left = cache.folder() / "tmp" / "left"
    young = cache.folder() / "tmp" / "young"
    for path in (left, young):
        path.write_bytes(b"half")
    os.utime(left, (1, 1))
    cache.write("cubin", cache.key("b"), b"b")
    assert not left.exists()
    assert young.exists()
    assert len(list(cache.entries())) == 2


def test_a_folder_that_cannot_be_made_is_an_empty_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path / "file" / "below"))
    assert not cache.write("cubin", cache.key("a"), b"a")
    assert cache.read("cubin", cache.key("a")) is None
    assert list(cache.entries()) == []
    assert cache.clear() == 0


def test_switched_off(monkeypatch: pytest.MonkeyPatch) -> None:
    cache.write("cubin", cache.key("a"), b"a")
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    assert cache.read("cubin", cache.key("a")) is None
    assert not cache.write("cubin", cache.key("b"), b"b")


def test_the_stamp_of_the_package_is_quick_and_stable() -> None:
    cache.package_stamp.cache_clear()
    began = time.perf_counter()
    stamp = cache.package_stamp()
    assert time.perf_counter() - began < 0.2
    assert stamp == cache.package_stamp()
    assert len(stamp) == 64


def test_the_stamp_is_that_of_what_the_files_hold(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kept where nothing changed; another one behind a change that keeps size and time."""
    root = tmp_path / "package"
    source = root / "backend" / "runtime" / "cache.py"
    source.parent.mkdir(parents=True)
    monkeypatch.setattr(cache, "__file__", str(source))
    monkeypatch.setattr(cache, "_SETTLED_SECONDS", 0)

    def stamp() -> str:
        return cache.package_stamp.__wrapped__()

    def kept() -> int:
        return sum(entry.kind == "stamp" for entry in cache.entries())

    source.write_text("one")
    os.utime(source, (1, 1))
    first = stamp()
    assert stamp() == first
    assert kept() == 1
    with monkeypatch.context() as patch:
        patch.setattr(cache, "_content_of", lambda *_: pytest.fail("files are read again"))
        assert stamp() == first
    source.write_text("two")
    os.utime(source, (1, 1))
    assert stamp() != first
    # Source that is newer than this process is not what runs here.
    os.utime(source, (2e9, 2e9))
    before = kept()
    assert stamp() != first
    assert kept() == before


def test_only_entries_are_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that others use too: their files stay, whatever they are called."""
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path))
    theirs = [
        "venv/bin/python",
        "v1/notes.txt",
        "v1/cubin/ab/notes",
        "v1/cubin/ab/" + "a" * 64,
        "v2/cubin/ab/" + "b" * 64,
        "vault/secret",
        "v3.txt",
        "data/cubin/ab/" + "c" * 64,
    ]
    for name in theirs:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"of the user")
    (tmp_path / "elsewhere").mkdir()
    kept = tmp_path / "elsewhere" / ("d" * 64)
    kept.write_bytes(b"cutedialect-cache-1\nbehind a link")
    (tmp_path / "v1" / "cubin" / "cd").mkdir()
    (tmp_path / "v1" / "cubin" / "cd" / ("e" * 64)).symlink_to(kept)
    for index in range(5):
        assert cache.write("cubin", cache.key(str(index)), b"x" * 100)
    older = tmp_path / "v0" / "program" / "ab" / ("f" * 64)
    older.parent.mkdir(parents=True)
    older.write_bytes(b"cutedialect-cache-0\nan entry of an older format")
    assert len(list(cache.entries())) == 5
    assert cache.clear() == 6
    assert not older.parent.parent.parent.exists()
    for name in theirs:
        assert (tmp_path / name).read_bytes() == b"of the user"
    assert kept.exists()
    assert list(cache.entries()) == []
    assert cache.clear() == 0


def test_a_cleared_cache_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path / "own"))
    cache.write("cubin", cache.key("a"), b"a")
    for place in (tmp_path / "own", cache.folder()):
        tag = (place / "CACHEDIR.TAG").read_text()
        assert tag.startswith("Signature: 8a477f597d28d172789f06886806bc55\n")
    assert cache.clear() == 1
    assert not cache.folder().exists()


def test_a_folder_of_the_user_is_not_tagged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program that makes backups would pass over everything in it."""
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", str(tmp_path))
    cache.write("cubin", cache.key("a"), b"a")
    assert not (tmp_path / "CACHEDIR.TAG").exists()
    assert (cache.folder() / "CACHEDIR.TAG").exists()


def test_what_was_not_used_for_long_goes_first(monkeypatch: pytest.MonkeyPatch) -> None:
    keys = [cache.key(str(index)) for index in range(6)]
    for age, key in enumerate(keys):
        cache.write("cubin", key, b"x" * 1000)
        path = cache.folder() / "cubin" / key[:2] / key
        os.utime(path, (time.time() - 10_000 + age, time.time() - 10_000 + age))
    assert cache.read("cubin", keys[0]) is not None
    size = next(cache.entries()).size
    assert cache.prune(4 * size) == (2, 2 * size)
    left = {entry.key for entry in cache.entries()}
    assert left == {keys[0], *keys[3:]}
    monkeypatch.setenv("CUTEDIALECT_CACHE_SIZE", "2K")
    assert cache.prune() == (3, 3 * size)
    assert cache.prune() == (0, 0)
    assert cache.read("cubin", keys[0]) == b"x" * 1000


def test_writing_keeps_to_the_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUTEDIALECT_CACHE_SIZE", "100K")
    monkeypatch.setattr(cache, "_LOOKED_AT", 50 << 10)
    for index in range(300):
        cache.write("cubin", cache.key(str(index)), b"x" * 2000)
    assert sum(entry.size for entry in cache.entries()) <= (100 << 10) + (52 << 10)
    assert cache.read("cubin", cache.key("299")) is not None


@pytest.mark.parametrize(
    ("text", "size"), [("4096", 4096), ("2k", 2048), ("500M", 500 << 20), ("2GB", 2 << 30)]
)
def test_sizes(text: str, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    from cutedialect import environment

    monkeypatch.setenv("CUTEDIALECT_CACHE_SIZE", text)
    assert environment.cache_size() == size
    monkeypatch.setenv("CUTEDIALECT_CACHE_SIZE", f"{text}x")
    with pytest.raises(
        ValueError, match=f"CUTEDIALECT_CACHE_SIZE: expected a size .*, got '{text}x"
    ):
        environment.cache_size()


@pytest.mark.parametrize(
    ("platform", "variables", "place"),
    [
        ("linux", {}, "/home/u/.cache/cutedialect"),
        ("linux", {"XDG_CACHE_HOME": "/var/x"}, "/var/x/cutedialect"),
        ("linux", {"XDG_CACHE_HOME": "relative"}, "/home/u/.cache/cutedialect"),
        ("darwin", {}, "/home/u/Library/Caches/cutedialect"),
        ("win32", {"LOCALAPPDATA": "/local"}, "/local/cutedialect/Cache"),
        ("win32", {}, "/home/u/AppData/Local/cutedialect/Cache"),
        ("darwin", {"CUTEDIALECT_CACHE_DIR": "/mine"}, "/mine"),
    ],
)
def test_where_the_cache_is(
    platform: str, variables: dict[str, str], place: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from cutedialect import environment

    for name in ("XDG_CACHE_HOME", "LOCALAPPDATA", "CUTEDIALECT_CACHE_DIR"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": "/home/u", **variables}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "platform", platform)
    assert environment.cache_dir() == Path(place)


@pytest.mark.skipif(os.name != "posix", reason="modes of folders are POSIX's")
def test_other_users_cannot_put_entries_there() -> None:
    before = os.umask(0)
    try:
        assert cache.write("cubin", cache.key("mine"), b"code")
    finally:
        os.umask(before)
    assert cache.folder().stat().st_mode & 0o077 == 0
