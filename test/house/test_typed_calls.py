"""What type checkers and the reference know of calls is what their declarations say."""

import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import cutedialect as cute
from cutedialect.frontend.declarations import CALLS
from cutedialect.frontend.signature import REQUIRED

ROOT = Path(__file__).parents[2]


def test_what_is_written_of_declarations_is_up_to_date():
    command = [sys.executable, ".ci/typed_calls.py", "--check"]
    told = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert told.returncode == 0, f"run python .ci/typed_calls.py, for {told.stdout}"


@pytest.mark.parametrize("call", CALLS, ids=lambda call: call.name)
def test_functions_have_the_declared_parameters(call):
    function = getattr(cute, call.name)
    taken = inspect.signature(function).parameters
    for row in call.parameters:
        assert taken[row.name].default == row.default
        is_positional = row.is_positional or row.default is REQUIRED
        assert (taken[row.name].kind is inspect.Parameter.POSITIONAL_OR_KEYWORD) == is_positional
    assert function.__doc__ == call.doc
