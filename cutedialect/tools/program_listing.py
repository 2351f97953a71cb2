"""`python -m cutedialect schedules --kernel FILE.py:NAME SPEC...`: what a `@cute.kernel` function
is compiled with where nothing was tuned, and what `cute.autotune` times beside that.
"""

from __future__ import annotations

import json
from collections.abc import Sequence

from cutedialect.frontend.kernel import KernelFunction
from cutedialect.frontend.launch import compile_kernel
from cutedialect.frontend.tunable import candidates_around

from .kernel_arguments import argument, kernel_named, settings


def list_program(
    name: str, specs: Sequence[str], given: Sequence[str], arch: str, as_json: bool
) -> int:
    """Print the list; returns the exit code. Raises ValueError for what is no such function."""
    program = kernel_named(name)
    if not isinstance(program, KernelFunction):
        raise ValueError(f"--kernel: expected a @cute.kernel function, got {name}")
    options = settings(given)
    arguments = [argument(text) for text in specs]
    kernel = compile_kernel(program, arguments, options | {"arch": arch, "backend": "emulator"})
    texts = [each.text() for each in candidates_around(kernel, program, options)]
    if as_json:
        default = {"parameters": kernel.parameters, "schedule": kernel.schedule}
        told = {"arch": arch, "default": default, "candidates": texts}
        print(json.dumps(told, default=str))
        return 0
    named = ", ".join(f"{name} = {value!r}" for name, value in kernel.parameters.items())
    print(f"default: {named}{'; ' if named else ''}{kernel.schedule}")
    print(f"{len(texts)} others that cute.autotune times for {arch}")
    for text in texts:
        print(f"   {text}")
    return 0
