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
