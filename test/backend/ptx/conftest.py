"""Fixtures: ptx dialect text to PTX, assembled without a warning where ptxas is installed."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from xdsl.context import Context
from xdsl.dialects.builtin import ModuleOp
from xdsl.parser import Parser

from cutedialect.backend.ptx import ptx_text
from cutedialect.backend.runtime import ptxas
from cutedialect.backend.runtime.errors import PtxasNotFoundError
from cutedialect.dialects import all_dialects


@pytest.fixture
def parse() -> Callable[[str], ModuleOp]:
    """A verified module from its text."""

    def run(text: str) -> ModuleOp:
        context = Context()
        for name, loader in all_dialects().items():
            context.register_dialect(name, loader)
        module = Parser(context, text).parse_module()
        module.verify()
        return module

    return run


@pytest.fixture
def assembled(tmp_path: Path) -> Callable[..., str]:
    """The PTX of a module, after ptxas took it without a word."""

    def run(module: ModuleOp, arch: str = "sm_80") -> str:
        text = ptx_text(module)
        try:
            program = ptxas.find(arch)
        except PtxasNotFoundError:
            return text
        source = tmp_path / "kernel.ptx"
        source.write_text(text)
        done = subprocess.run(
            [program, f"-arch={arch}", str(source), "-o", str(tmp_path / "kernel.cubin")],
            capture_output=True,
            text=True,
            check=False,
        )
        assert (done.returncode, done.stderr) == (0, ""), text
        return text

    return run


@pytest.fixture
def body(parse: Callable, assembled: Callable) -> Callable[..., list[str]]:
    """The instructions that the ops of a kernel become, without comments."""

    def run(ops: str, params: str = "", arch: str = "sm_80", smem: int = 0) -> list[str]:
        attributes = f'target = "{arch}", threads = 128 : i32'
        attributes += f", smem = {smem} : i32" if smem else ""
        text = assembled(
            parse(f"ptx.kernel @k({params}) attributes {{{attributes}}} {{\n{ops}\n}}"), arch
        )
        inside = text[text.index("{\n") + 2 : text.rindex("\tret;")]
        lines = [line.split("//")[0].strip() for line in inside.split("\n")]
        return [line for line in lines if line and not line.startswith((".reg", "ld.param"))]

    return run
