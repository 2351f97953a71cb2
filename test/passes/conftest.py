"""What tests of several passes compile from."""

import pytest

from cutedialect.choosing.attention_problem import RULES
from cutedialect.choosing.rules import Rule, Table
from cutedialect.frontend import attention
from cutedialect.frontend.ready_call import Calls


@pytest.fixture
def looks_first(monkeypatch):
    """Attention looks for the largest scores before it counts exponentials from them."""
    monkeypatch.setattr(RULES, "guesses", Table((Rule({}, (), False),)))
    monkeypatch.setattr(attention.door, "calls", Calls(1))
