"""What holds in every test: no PTX that its target has not is ever printed."""

import os

import pytest


@pytest.fixture(autouse=True, scope="session")
def verified_ptx():
    """Each line that a test prints is checked, as under `CUTEDIALECT_VERIFY=ptx`."""
    with pytest.MonkeyPatch.context() as patch:
        if not os.environ.get("CUTEDIALECT_VERIFY"):
            patch.setenv("CUTEDIALECT_VERIFY", "ptx")
        yield
