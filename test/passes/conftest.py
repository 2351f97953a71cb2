"""What tests of several passes compile from."""

import pytest

from cutedialect.backend.runtime.kept import Kept
from cutedialect.frontend import attention
from cutedialect.frontend.library import attention_schedules


@pytest.fixture
def looks_first(monkeypatch):
    """Attention looks for the largest scores before it counts exponentials from them."""
    monkeypatch.setattr(attention_schedules, "_guesses", lambda *_: False)
    monkeypatch.setattr(attention, "_calls", Kept(1))
