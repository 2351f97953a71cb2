"""Environment variables as typed values."""

from pathlib import Path

import pytest

from cutedialect import environment


@pytest.fixture(autouse=True)
def clean(monkeypatch):
    for name in environment.VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)


def test_defaults():
    assert environment.dump_dir() is None
    assert environment.ptxas() is None
    assert environment.backend() is None
    assert environment.cache_dir() == Path.home() / ".cache" / "cutedialect"
    assert environment.cache_enabled()
    assert not environment.verify_each()
    assert not environment.verify_ptx()
    assert not environment.debug()


def test_values(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_DUMP_DIR", "~/ir")
    monkeypatch.setenv("CUTEDIALECT_VERIFY", "each")
    monkeypatch.setenv("XDG_CACHE_HOME", "/caches")
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "cuda")
    monkeypatch.setenv("CUTEDIALECT_PTXAS", "/opt/ptxas")
    monkeypatch.setenv("CUTEDIALECT_DEBUG", "1")
    assert environment.dump_dir() == Path.home() / "ir"
    assert environment.verify_each()
    assert environment.verify_ptx()
    assert environment.cache_dir() == Path("/caches/cutedialect")
    assert not environment.cache_enabled()
    assert environment.backend() == "cuda"
    assert environment.ptxas() == Path("/opt/ptxas")
    assert environment.debug()
    monkeypatch.setenv("CUTEDIALECT_CACHE_DIR", "/elsewhere")
    assert environment.cache_dir() == Path("/elsewhere")


@pytest.mark.parametrize(
    ("name", "read", "message"),
    [
        ("CUTEDIALECT_DEBUG", environment.debug, "expected 0 or 1, got 'yes'"),
        ("CUTEDIALECT_NO_CACHE", environment.cache_enabled, "expected 0 or 1, got 'yes'"),
        ("CUTEDIALECT_VERIFY", environment.verify_each, "expected 'each' or 'ptx', got 'yes'"),
        ("CUTEDIALECT_BACKEND", environment.backend, "expected 'emulator' or .*, got 'yes'"),
    ],
)
def test_other_words_are_refused(monkeypatch, name, read, message):
    monkeypatch.setenv(name, "yes")
    with pytest.raises(ValueError, match=f"{name}: {message}"):
        read()
