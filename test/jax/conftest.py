"""The tests of this folder run kernels in the emulator, on JAX's CPU."""

import pytest


@pytest.fixture(autouse=True)
def on_the_host(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_BACKEND", "emulator")
