"""The wrappers of torch and JAX are written from the declarations when they are imported: the text
of each is compiled then. Here with a library that has every name and does nothing, so that this
holds where neither is installed.
"""

from __future__ import annotations

import subprocess
import sys

import pytest

SCRIPT = """\
import sys, types
from importlib.machinery import ModuleSpec
from unittest.mock import MagicMock

class Library(types.ModuleType):
    __path__ = ()

    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        # What a wrapper inherits from is a class.
        value = type(name, (), {}) if name == "Function" else MagicMock(name=name)
        setattr(self, name, value)
        return value

class Finder:
    def find_spec(self, name, path, target=None):
        if name.split(".")[0] in ("torch", "jax", "jaxlib"):
            return ModuleSpec(name, self, is_package=True)

    def create_module(self, spec):
        return Library(spec.name)

    def exec_module(self, module):
        pass

sys.meta_path.insert(0, Finder())
"""


@pytest.mark.parametrize("library", ["torch", "jax"])
def test_each_wrapper_is_a_function(library):
    calls = ["gemm", "grouped_gemm", "attention"]
    calls += ["conv2d", "quantize", "routed_gemm"] if library == "torch" else []
    script = (
        f"{SCRIPT}import cutedialect.{library} as wrappers\n"
        f"print([getattr(wrappers, name).__name__ for name in {calls}])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.strip() == str(calls), done.stderr
