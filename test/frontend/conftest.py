"""Every test of the front end traces its kernels anew: what the disk cache holds proves nothing."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True)
def no_disk_cache(monkeypatch):
    monkeypatch.setenv("CUTEDIALECT_NO_CACHE", "1")
