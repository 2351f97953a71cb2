"""What tests of several passes compile from."""

import pytest

from cutedialect.choosing import attention_parameters, attention_space
from cutedialect.frontend import attention
from cutedialect.frontend.ready_call import Calls


@pytest.fixture
def looks_first(monkeypatch):
    """Attention looks for the largest scores before it counts exponentials from them."""
    for module in (attention_parameters, attention_space):
        monkeypatch.setattr(module, "guesses", lambda *_: False)
    monkeypatch.setattr(attention.door, "calls", Calls(1))
