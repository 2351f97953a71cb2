"""Fixtures: thread-level IR text to PTX, assembled when ptxas is installed, and emulated."""

from __future__ import annotations

import io
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from xdsl.context import Context
from xdsl.parser import Parser

from cutedialect.backend.emulator import launch
from cutedialect.backend.ptx.printer import print_ptx
from cutedialect.dialects import all_dialects
from cutedialect.passes.lower.convert_to_ptx import ConvertToPtxPass
from cutedialect.passes.synchronize.expand_rings import ExpandRingsPass
from cutedialect.passes.synchronize.expand_roles import ExpandRolesPass


def _module(text: str, arch: str):
    context = Context()
    for name, loader in all_dialects().items():
        context.register_dialect(name, loader)
    module = Parser(context, text).parse_module()
    module.verify()
    ExpandRingsPass().apply(context, module)
    ExpandRolesPass().apply(context, module)
    ConvertToPtxPass(arch=arch).apply(context, module)
    module.verify()
    return module


@cache
def _ptxas() -> str | None:
    found = shutil.which("ptxas")
    if found is None:
        wheels = Path(sysconfig.get_paths()["purelib"]) / "nvidia"
        found = next((str(path) for path in wheels.glob("**/bin/ptxas")), None)
    return found


@pytest.fixture
def lower() -> Callable:
    """Text to the module after the pass."""
    return lambda text, arch="sm_80": _module(text, arch)


@pytest.fixture
def compile_ptx(tmp_path: Path) -> Callable[..., str]:
    """Text to PTX that ptxas accepts without a warning."""

    def run(text: str, arch: str = "sm_80") -> str:
        out = io.StringIO()
        print_ptx(_module(text, arch), out)
        source = tmp_path / "kernel.ptx"
        source.write_text(out.getvalue())
        ptxas = _ptxas()
        if ptxas is not None:
            done = subprocess.run(
                [ptxas, f"-arch={arch}", str(source), "-o", str(tmp_path / "kernel.cubin")],
                capture_output=True,
                text=True,
                check=False,
            )
            assert (done.returncode, done.stderr) == (0, ""), out.getvalue()
        return out.getvalue()

    return run


@pytest.fixture
def run_kernel(compile_ptx: Callable[..., str]) -> Callable:
    """Run kernel `k`: memref arguments are given as (array, extents, strides)."""

    def run(text: str, grid, args: list, threads: int = 128, smem: int = 0, arch: str = "sm_80"):
        ptx = compile_ptx(text, arch)
        flat: list = []
        for arg in args:
            if isinstance(arg, tuple):
                array, extents, strides = arg
                flat += [array, *map(np.int32, extents), *map(np.int64, strides)]
            else:
                flat.append(arg)
        return launch(ptx, "k", grid, threads, flat, dynamic_smem=smem)

    return run
