"""Types and docstrings of everything public."""

import inspect
import os
import subprocess
import sys
from pathlib import Path

import pytest

import cutedialect
from cutedialect import atoms, layout

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_types_are_complete_and_a_users_strict_file_passes():
    done = subprocess.run(
        [str(ROOT / ".ci" / "types"), sys.executable],
        env=os.environ | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def undocumented(owner, names):
    for name in names:
        value = getattr(owner, name)
        if inspect.isfunction(value) and not (value.__doc__ or "").strip():
            yield f"{owner.__name__}.{name}"
        if not inspect.isclass(value):
            continue
        if not (value.__doc__ or "").strip():
            yield f"{owner.__name__}.{name}"
        for member, inner in vars(value).items():
            inner = getattr(inner, "fget", inner)
            is_ours = getattr(inner, "__module__", "").startswith("cutedialect")
            if member.startswith("_") or not inspect.isfunction(inner) or not is_ours:
                continue
            # A name that says all, such as that of the element type, is its own documentation.
            if len(inspect.signature(inner).parameters) > 1 and not (inner.__doc__ or "").strip():
                yield f"{owner.__name__}.{name}.{member}"


def test_everything_public_has_a_docstring():
    missing = [
        *undocumented(cutedialect, cutedialect.__all__),
        *undocumented(layout, layout.__all__),
        *undocumented(atoms, atoms.__all__),
    ]
    assert not missing
