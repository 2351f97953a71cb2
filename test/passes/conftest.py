"""What tests of several passes compile from."""

import pytest

from cutedialect.frontend import attention
from cutedialect.frontend.library import attention_schedules
from cutedialect.frontend.ready_call import Calls


@pytest.fixture
def looks_first(monkeypatch):
    """Attention looks for the largest scores before it counts exponentials from them."""
    monkeypatch.setattr(attention_schedules, "_guesses", lambda *_: False)
    monkeypatch.setattr(attention.door, "calls", Calls(1))
