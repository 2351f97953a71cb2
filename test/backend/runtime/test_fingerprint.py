"""What changes the hash of a kernel's function and what does not."""

from __future__ import annotations

import functools
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from cutedialect.backend.runtime import program
from cutedialect.backend.runtime.fingerprint import FingerprintError, fingerprint

SOURCE = """
import math
from dataclasses import dataclass

TILE = (128, 64)
UNUSED = 1
TABLE = {"a": [1, 2.5], "b": {1, 2, 3}}

@dataclass(frozen=True)
class Config:
    stages: int = 3

CONFIG = Config()

def scaled(x):
    return x * TILE[0]

def relu(x):
    return max(x, 0)

def kernel(a, b=2, *, c="text"):
    def inner(y):
        return relu(y) + CONFIG.stages
    return scaled(inner(a)) + math.exp(b) + len(TABLE)
"""


def of(source: str = SOURCE) -> str:
    """The hash of `kernel` in a module with this source."""
    sys.modules["users_kernels"] = ModuleType("users_kernels")
    sys.modules["users_kernels"].__dict__["__name__"] = "users_kernels"
    try:
        names = sys.modules["users_kernels"].__dict__
        exec(compile(source, "users_kernels.py", "exec"), names)
        return fingerprint(names["kernel"])
    finally:
        del sys.modules["users_kernels"]


def test_equal_source_has_an_equal_hash() -> None:
    assert of() == of()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("return scaled", "return 1 + scaled"),
        ("TILE = (128, 64)", "TILE = (128, 65)"),
        ("max(x, 0)", "max(x, 1)"),
        ("b=2", "b=3"),
        ('c="text"', 'c="txet"'),
        ("relu(y) + CONFIG", "relu(y) - CONFIG"),
        ("stages: int = 3", "stages: int = 4"),
        ("CONFIG = Config()", "CONFIG = Config(5)"),
        ("[1, 2.5]", "[1, 2.25]"),
        ("{1, 2, 3}", "{1, 2, 4}"),
        ("math.exp", "math.sin"),
        ("def kernel", "\ndef kernel"),
    ],
)
def test_what_the_kernel_reaches_counts(old: str, new: str) -> None:
    changed = SOURCE.replace(old, new)
    assert changed != SOURCE
    assert of(changed) != of()


def test_what_it_does_not_reach_does_not_count() -> None:
    assert of(SOURCE.replace("UNUSED = 1", "UNUSED = 2")) == of()


def test_closure_cells_count() -> None:
    def make(factor: object) -> Callable[[int], object]:
        return lambda x: (factor, x)

    assert fingerprint(make(2)) == fingerprint(make(2))
    different = [
        make(2),
        make(3),
        make(2.0),
        make("2"),
        make(None),
        make((2,)),
        make([2]),
        make(True),
    ]
    assert len({fingerprint(function) for function in different}) == len(different)


def test_attributes_of_a_users_module_count() -> None:
    settings = ModuleType("users_settings")
    settings.__dict__.update(DEPTH=2, OTHER=1)
    sys.modules["users_settings"] = settings
    try:
        names = {"settings": settings, "__name__": "users_kernels"}
        exec("def kernel():\n    return settings.DEPTH\n", names)
        before = fingerprint(names["kernel"])
        settings.__dict__["OTHER"] = 5
        assert fingerprint(names["kernel"]) == before
        settings.__dict__["DEPTH"] = 3
        assert fingerprint(names["kernel"]) != before
    finally:
        del sys.modules["users_settings"]


def test_recursion_ends() -> None:
    names: dict[str, Any] = {"__name__": "users_kernels"}
    exec(
        "def even(n):\n    return n == 0 or odd(n - 1)\n"
        "def odd(n):\n    return n != 0 and even(n - 1)\n"
        "loop = []\nloop.append({'self': 0})\n"
        "def kernel():\n    return even, loop\n",
        names,
    )
    assert fingerprint(names["kernel"]) == fingerprint(names["kernel"])


def test_values_of_many_kinds() -> None:
    values = [
        np.float16(1), np.float32(1), np.dtype("f4"), np.arange(3), np.arange(4), 1, 1.0, -0.0, 0.0,
        functools.partial(max, 1), functools.partial(max, 2), len, slice(1, 2), ..., b"x", "x",
        frozenset("ab"), {"k": 1}, complex(1, 2),
    ]  # fmt: skip
    hashes = [fingerprint(value) for value in values]
    assert len(set(hashes)) == len(values)
    assert hashes == [fingerprint(value) for value in values]


def test_an_object_may_speak_for_itself() -> None:
    class Traced:
        def __init__(self, function: object, calls: int) -> None:
            self.function, self.calls = function, calls

        def __fingerprint__(self) -> object:
            return self.function

    assert fingerprint(Traced(len, 1)) == fingerprint(Traced(len, 2))
    assert fingerprint(Traced(len, 1)) != fingerprint(Traced(max, 1))


def test_values_without_content_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FingerprintError, match="expected a constant with stable content"):
        fingerprint(object())
    with pytest.raises(FingerprintError, match="expected an array of at most"):
        fingerprint(np.zeros(1 << 20))
    handle = object()
    assert program.program_key(lambda: handle, "signature", "schedule", "sm_80") is None


def test_the_hash_is_the_same_in_another_process(tmp_path: Path) -> None:
    (tmp_path / "users_kernels.py").write_text(SOURCE)
    script = (
        "import users_kernels\n"
        "from cutedialect.backend.runtime.fingerprint import fingerprint\n"
        "print(fingerprint(users_kernels.kernel))\n"
    )
    found = {
        subprocess.run(
            [sys.executable, "-c", script],
            env={"PYTHONPATH": f"{tmp_path}:{':'.join(sys.path)}", "PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1


def test_program_keys_differ_by_every_part() -> None:
    parts = [len, "signature", "schedule", "sm_80"]
    first = program.program_key(*parts)
    assert first == program.program_key(*parts)
    for index, other in enumerate([max, "other", "other", "sm_90a"]):
        changed = [*parts[:index], other, *parts[index + 1 :]]
        assert program.program_key(*changed) != first


def test_a_cached_program_is_not_made_again(scale: program.CompiledProgram) -> None:
    key = program.program_key(len, "", "", "sm_80")
    assert program.cached_program(key, lambda: scale) == scale
    again = program.cached_program(key, lambda: pytest.fail("made again"))
    assert again == scale
    assert program.cached_program(None, lambda: scale) is scale
